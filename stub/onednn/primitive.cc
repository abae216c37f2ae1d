#include "stub/onednn/primitive.h"

#if defined(UNIHAL_STUB_ONEDNN)

#include <omp.h>

#include <cstring>
#include <unordered_map>

#include "csrc/tables/elementwise.h"
#include "stub/common/kernels.h"
#include "stub/common/scratch.h"
#include "stub/onednn/constant_copies.h"

namespace unihal::stub {
namespace {

// Primitives that a thread keeps. Past that it starts anew: models with ever-changing shapes must not fill the memory.
constexpr size_t kCacheCapacity = 2048;

// About 100 us on one core.
constexpr int64_t kSerialMultiplications = 6 << 20;

struct SignatureHash {
  size_t operator()(const OneDnnSignature& signature) const { return signature.hash(); }
};

using Cache = std::unordered_map<OneDnnSignature, std::unique_ptr<OneDnnPrimitive>, SignatureHash>;

// Per thread, so that a hit takes no lock; the compiled code behind them is shared inside oneDNN.
thread_local Cache cache;

// One stream for all threads: on CPUs it owns no queue, and work runs at once on the calling thread.
dnnl_stream_t shared_stream() {
  struct Create {
    dnnl_stream_t stream = nullptr;
    Create() { onednn()->dnnl_stream_create(&stream, onednn()->engine, dnnl_stream_default_flags); }
  };
  static const Create shared;
  return shared.stream;
}

// By uhal_activation. oneDNN's own make 0 of NaN here and there (relu, clip, logistic) and NaN of infinities
// (gelu_erf).
constexpr uhal_map_function kActivations[] = {
    -1,
    uhal_map_relu,
    uhal_map_gelu_erf,
    uhal_map_gelu_tanh,
    uhal_map_sigmoid,
    uhal_map_tanh,
    uhal_map_silu,
    uhal_map_relu6,
};

OneDnnHandle<dnnl_memory_t> memory_of(const_dnnl_memory_desc_t layout) {
  dnnl_memory_t memory = nullptr;
  onednn()->dnnl_memory_create(&memory, layout, onednn()->engine, DNNL_MEMORY_NONE);
  return OneDnnHandle<dnnl_memory_t>(memory);
}

// Creates a primitive and tells how much scratch memory it wants, and in which layout.
OneDnnHandle<dnnl_primitive_t> primitive_of(const_dnnl_primitive_desc_t descriptor,
                                            OneDnnHandle<dnnl_memory_t>& scratch, size_t& scratch_bytes) {
  dnnl_primitive_t primitive = nullptr;
  if (onednn()->dnnl_primitive_create(&primitive, descriptor) != dnnl_success) return nullptr;
  const_dnnl_memory_desc_t layout = onednn()->dnnl_primitive_desc_query_md(descriptor, dnnl_query_scratchpad_md, 0);
  scratch_bytes = layout != nullptr ? onednn()->dnnl_memory_desc_get_size(layout) : 0;
  if (scratch_bytes > 0) scratch = memory_of(layout);
  return OneDnnHandle<dnnl_primitive_t>(primitive);
}

uhal_status run(dnnl_primitive_t primitive, int count, const dnnl_exec_arg_t* arguments) {
  const dnnl_status_t status = onednn()->dnnl_primitive_execute(primitive, shared_stream(), count, arguments);
  if (status == dnnl_success) return UHAL_OK;
  return fail(status == dnnl_out_of_memory ? UHAL_RESOURCE_EXHAUSTED : UHAL_INTERNAL,
              "oneDNN's primitive failed with status %d; UNIHAL_ONEDNN_LIBRARY=none runs without oneDNN", status);
}

// Whether oneDNN has only its naive loops for this primitive; our own kernels are faster.
bool is_reference(const_dnnl_primitive_desc_t descriptor) {
  const char* implementation = "";
  onednn()->dnnl_primitive_desc_query(descriptor, dnnl_query_impl_info_str, 0, &implementation);
  return std::strncmp(implementation, "ref", 3) == 0;
}

// Gives a memory object fresh scratch memory.
uhal_status attach_scratch(ScratchFrame& frame, dnnl_memory_t memory, size_t bytes) {
  void* block = frame.take(bytes);
  if (block == nullptr) {
    return fail(UHAL_RESOURCE_EXHAUSTED, "oneDNN needs %zu bytes of temporary host memory, and the host has none left",
                bytes);
  }
  onednn()->dnnl_memory_set_data_handle(memory, block);
  return UHAL_OK;
}

}  // namespace

OneDnnThreads::OneDnnThreads(int64_t multiplications)
    : restore_(multiplications < kSerialMultiplications ? omp_get_max_threads() : 0) {
  if (restore_ != 0) omp_set_num_threads(1);
}

OneDnnThreads::~OneDnnThreads() {
  if (restore_ != 0) omp_set_num_threads(restore_);
}

void OneDnnSignature::add(const uhal_tensor* view) {
  if (view == nullptr) {
    add(int64_t{-1});
    return;
  }
  add(int64_t{view->rank});
  add(view->shape, view->rank);
  add(view->strides, view->rank);
}

bool OneDnnSignature::operator==(const OneDnnSignature& other) const {
  return count_ == other.count_ && std::memcmp(words_.data(), other.words_.data(), count_ * sizeof(int64_t)) == 0;
}

OneDnnLayout onednn_layout(int rank, const int64_t* shape, const int64_t* strides) {
  dnnl_memory_desc_t layout = nullptr;
  onednn()->dnnl_memory_desc_create_with_strides(&layout, rank, shape, dnnl_f32, strides);
  return OneDnnLayout(layout);
}

OneDnnLayout onednn_any_layout(int rank, const int64_t* shape) {
  dnnl_memory_desc_t layout = nullptr;
  onednn()->dnnl_memory_desc_create_with_tag(&layout, rank, shape, dnnl_f32, dnnl_format_tag_any);
  return OneDnnLayout(layout);
}

uhal_status activate_in_place(uhal_activation activation, const uhal_tensor& y) {
  if (activation == UHAL_ACTIVATION_NONE) return UHAL_OK;
  uhal_map_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.function = kActivations[activation];
  const uhal_tensor* operands[] = {&y};
  uhal_op op = {};
  op.struct_size = sizeof op;
  op.kind = UHAL_OP_MAP;
  op.input_count = op.output_count = 1;
  op.inputs = op.outputs = operands;
  op.attributes = &attributes;
  return run_map({op, nullptr});
}

OneDnnAttributes onednn_attributes(double alpha, double sum) {
  dnnl_primitive_attr_t attributes = nullptr;
  dnnl_post_ops_t steps = nullptr;
  onednn()->dnnl_primitive_attr_create(&attributes);
  onednn()->dnnl_post_ops_create(&steps);
  onednn()->dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user);
  if (alpha != 1) {
    onednn()->dnnl_post_ops_append_eltwise(steps, dnnl_eltwise_linear, static_cast<float>(alpha), 0);
  }
  if (sum != 0) onednn()->dnnl_post_ops_append_sum(steps, static_cast<float>(sum), 0, dnnl_data_type_undef);
  onednn()->dnnl_primitive_attr_set_post_ops(attributes, steps);
  onednn()->dnnl_post_ops_destroy(steps);
  return OneDnnAttributes(attributes);
}

std::unique_ptr<OneDnnPrimitive> OneDnnPrimitive::create(OneDnnDescriptor descriptor,
                                                         std::vector<OneDnnArgument> arguments) {
  if (descriptor == nullptr || is_reference(descriptor.get())) return nullptr;
  std::unique_ptr<OneDnnPrimitive> result(new OneDnnPrimitive);
  result->primitive_ = primitive_of(descriptor.get(), result->scratch_, result->scratch_bytes_);
  if (result->primitive_ == nullptr) return nullptr;
  for (OneDnnArgument& argument : arguments) {
    if (argument.layout == nullptr || !result->add_operand(descriptor.get(), argument)) return nullptr;
  }
  return result;
}

bool OneDnnPrimitive::add_operand(const_dnnl_primitive_desc_t descriptor, OneDnnArgument& argument) {
  Operand operand;
  operand.id = argument.id;
  operand.output = argument.output;
  operand.caller = memory_of(argument.layout.get());
  const_dnnl_memory_desc_t wanted =
      onednn()->dnnl_primitive_desc_query_md(descriptor, dnnl_query_exec_arg_md, argument.id);
  if (wanted == nullptr) return false;
  if (onednn()->dnnl_memory_desc_equal(wanted, argument.layout.get()) == 0) {
    const_dnnl_memory_desc_t from = argument.output ? wanted : argument.layout.get();
    const_dnnl_memory_desc_t to = argument.output ? argument.layout.get() : wanted;
    const OneDnnAttributes attributes = onednn_attributes(1, 0);
    dnnl_primitive_desc_t reorder = nullptr;
    onednn()->dnnl_reorder_primitive_desc_create(&reorder, from, onednn()->engine, to, onednn()->engine,
                                                 attributes.get());
    const OneDnnDescriptor owner(reorder);
    if (reorder == nullptr) return false;
    operand.reorder = primitive_of(reorder, operand.reorder_scratch, operand.reorder_scratch_bytes);
    operand.preferred = memory_of(wanted);
    operand.preferred_bytes = onednn()->dnnl_memory_desc_get_size(wanted);
    operand.caller_bytes = onednn()->dnnl_memory_desc_get_size(argument.layout.get());
    if (operand.reorder == nullptr || operand.preferred == nullptr) return false;
  }
  if (operand.caller == nullptr) return false;
  operands_.push_back(std::move(operand));
  return true;
}

uhal_status OneDnnPrimitive::run_reorder(const Operand& operand) const {
  ScratchFrame frame;
  dnnl_exec_arg_t arguments[3] = {{DNNL_ARG_FROM, (operand.output ? operand.preferred : operand.caller).get()},
                                  {DNNL_ARG_TO, (operand.output ? operand.caller : operand.preferred).get()},
                                  {DNNL_ARG_SCRATCHPAD, operand.reorder_scratch.get()}};
  if (operand.reorder_scratch_bytes > 0) {
    const uhal_status status = attach_scratch(frame, operand.reorder_scratch.get(), operand.reorder_scratch_bytes);
    if (status != UHAL_OK) return status;
  }
  return run(operand.reorder.get(), operand.reorder_scratch_bytes > 0 ? 3 : 2, arguments);
}

// Of a constant: its copy in the layout that the primitive prefers, so that nothing is to be reordered.
void* OneDnnPrimitive::kept_copy(const Operand& operand, const void* data) const {
  constexpr size_t kMostAddresses = 64;
  const uint64_t generation = constants_generation();
  if (generation == 0 || operand.preferred == nullptr) return nullptr;
  if (operand.generation != generation || operand.copies.size() >= kMostAddresses) operand.copies.clear();
  operand.generation = generation;
  for (const auto& [address, copy] : operand.copies) {
    if (address == data) return copy;
  }
  const_dnnl_memory_desc_t wanted = nullptr;
  onednn()->dnnl_memory_get_memory_desc(operand.preferred.get(), &wanted);
  void* const copy = constant_copy(data, operand.caller_bytes, wanted, [&](void* memory) {
    onednn()->dnnl_memory_set_data_handle(operand.preferred.get(), memory);
    return run_reorder(operand);
  });
  operand.copies.emplace_back(data, copy);
  return copy;
}

uhal_status OneDnnPrimitive::execute(void* const* data) const {
  constexpr int kMaxArguments = 8;
  dnnl_exec_arg_t arguments[kMaxArguments];
  int count = 0;
  ScratchFrame frame;
  for (size_t i = 0; i < operands_.size(); ++i) {
    const Operand& operand = operands_[i];
    onednn()->dnnl_memory_set_data_handle(operand.caller.get(), data[i]);
    if (void* const copy = operand.output ? nullptr : kept_copy(operand, data[i]); copy != nullptr) {
      onednn()->dnnl_memory_set_data_handle(operand.preferred.get(), copy);
    } else if (operand.preferred != nullptr) {
      uhal_status status = attach_scratch(frame, operand.preferred.get(), operand.preferred_bytes);
      if (status == UHAL_OK && !operand.output) status = run_reorder(operand);
      if (status != UHAL_OK) return status;
    }
    arguments[count++] = {operand.id, (operand.preferred != nullptr ? operand.preferred : operand.caller).get()};
  }
  if (scratch_bytes_ > 0) {
    const uhal_status status = attach_scratch(frame, scratch_.get(), scratch_bytes_);
    if (status != UHAL_OK) return status;
    arguments[count++] = {DNNL_ARG_SCRATCHPAD, scratch_.get()};
  }
  uhal_status status = run(primitive_.get(), count, arguments);
  for (const Operand& operand : operands_) {
    if (status == UHAL_OK && operand.output && operand.preferred != nullptr) status = run_reorder(operand);
  }
  return status;
}

const OneDnnPrimitive* onednn_primitive(const OneDnnSignature& signature, OneDnnBuild build, const void* context) {
  const auto found = cache.find(signature);
  if (found != cache.end()) return found->second.get();
  if (cache.size() >= kCacheCapacity) cache.clear();
  return cache.emplace(signature, build(context)).first->second.get();
}

}  // namespace unihal::stub

#endif  // UNIHAL_STUB_ONEDNN
