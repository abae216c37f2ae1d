#include "plugins/paddle/eager_gradients.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string_view>
#include <typeinfo>
#include <unordered_set>
#include <vector>

#include "plugins/paddle/arguments.h"
#include "plugins/paddle/kernels/common.h"
#include "plugins/paddle/library.h"
#include "plugins/paddle/phi_types.h"
#include "plugins/paddle/selected_rows.h"
#include "plugins/paddle/stream.h"

namespace unihal::paddle {
namespace {

constexpr const char* kAccumulateSymbol = "_ZN3egr16GradTensorHolder3addEmmRKN6paddle6TensorEb";
// Since 3.2 the sum may be given memory.
constexpr const char* kAddSymbol = "_Z11add_ad_funcRKN6paddle6TensorES2_NS_8optionalIPS0_EE";
constexpr const char* kOldAddSymbol = "_Z11add_ad_funcRKN6paddle6TensorES2_";
constexpr const char* kAddGradientSymbol = "_ZN6paddle12experimental8add_gradERKNS_6TensorES3_S3_iPS1_S4_";
// Since 3.3 a text goes with it.
constexpr const char* kGradientsSymbol =
    "_ZN3egr4GradERKSt6vectorIN6paddle6TensorESaIS2_EES6_S6_bbbbS6_NSt7__cxx1112basic_stringIcSt11char_"
    "traitsIcESaIcEEE";
constexpr const char* kOldGradientsSymbol = "_ZN3egr4GradERKSt6vectorIN6paddle6TensorESaIS2_EES6_S6_bbbbS6_";
constexpr const char* kHookSymbol = "_ZN3egr12GradNodeBase20RegisterGradientHookEmmOSt10shared_ptrINS_10TensorHookEE";
constexpr const char* kKeepSymbol = "_ZN3egr13egr_utils_api19RetainGradForTensorERKN6paddle6TensorE";
constexpr const char* kSetConstantSymbol = "_ZN3phi5funcs12set_constantERKNS_13DeviceContextEPNS_11DenseTensorEf";

constexpr const char* kMergeSymbol =
    "_ZN6paddle10imperative17SelectedRowsMergeINS_6TensorES2_EESt10shared_ptrIT_ERKT0_S8_";

// Enough for a paddle::Tensor.
constexpr size_t kTensorBytes = 256;

// phi::TensorBase, which a paddle::Tensor shares.
using Shared = std::shared_ptr<void>;

// A paddle::Tensor is returned through a pointer, and the optional operand is a pointer too: both only pass through.
using AddTensors = void* (*)(void* result, const void* x, const void* y, void* optional);
using Accumulate = void (*)(void* holder, size_t slot, size_t rank, const void* tensor, bool create_graph);
using SetConstant = void (*)(const void* context, void* tensor, float value);
using AddGradient = void (*)(const void* x, const void* y, const void* dz, int axis, void* dx, void* dy);
// Of paddle.grad: what only passes through has no name.
using Gradients = void* (*)(void* result, const void*, const void*, const void*, bool, bool, bool, bool, const void*,
                            void*);
using Hook = int64_t (*)(void* node, size_t slot, size_t rank, void* hook);
using Keep = void (*)(const void* tensor);
// A std::shared_ptr<paddle::Tensor> is returned through a pointer.
using Merge = void* (*)(void* result, const void* x, const void* y);
AddTensors original_add = nullptr;
Accumulate original_accumulate = nullptr;
SetConstant original_set_constant = nullptr;
AddGradient original_add_gradient = nullptr;
Gradients original_gradients = nullptr;
Hook original_hook = nullptr;
Keep original_keep = nullptr;
Merge original_merge = nullptr;

const Shared& (*shared_of)(const void* tensor) = nullptr;
const Place& (*place_of_tensor)(const void* dense_tensor) = nullptr;
void* (*copy_tensor)(void* result, const void* tensor) = nullptr;
void (*set_shared)(void* tensor, const Shared& shared) = nullptr;
Shared (*gradient_node)(const void* tensor) = nullptr;
void (*construct_tensor)(void* tensor, Shared* base) = nullptr;
void (*destroy_tensor)(void* tensor) = nullptr;
void* (*context_pool)() = nullptr;
void* (*context_of)(void* pool, const Place& place) = nullptr;

// Whether the next sum of this thread is one of gradients that need no gradients themselves.
thread_local bool accumulating = false;

bool same_place(const Place& a, const Place& b) {
  return a.kind == kCustomPlace && b.kind == kCustomPlace && a.device_type_id == b.device_type_id &&
         a.ordinal == b.ordinal;
}

// sum += x, if both are dense tensors alike in memory of one of our devices, and nobody else holds the sum: then there
// is no telling it from a new tensor. Paddle takes the sum as its own on its CPU as well.
bool add_in_place(const void* x, const void* sum) {
  const Shared &added = shared_of(x), &target = shared_of(sum);
  if (target.use_count() != 1 || !is_dense_tensor(added.get()) || !is_dense_tensor(target.get())) return false;
  const Tensor from{added.get()}, to{target.get()};
  const Place& place = place_of_tensor(to.handle);
  if (!same_place(place, place_of_tensor(from.handle)) || !from.is_allocated() || !to.is_allocated()) return false;
  const View a = from.strided_view(), y = to.strided_view();
  if (a.dtype != y.dtype || a.rank != y.rank || !std::equal(a.shape, a.shape + a.rank, y.shape) || !is_dense(a) ||
      !is_dense(y)) {
    return false;
  }
  const Context context(context_of(context_pool(), place), "add");
  if (!is_our_stream(context.stream())) return false;
  context.map(uhal_map_add, {&a, &y}, {&y});
  return true;
}

void accumulate(void* holder, size_t slot, size_t rank, const void* tensor, bool create_graph) {
  struct Reset {
    ~Reset() { accumulating = false; }
  } reset;
  accumulating = !create_graph;
  original_accumulate(holder, slot, rank, tensor, create_graph);
}

// Where gradients meet, `y` is the sum so far, which the result replaces.
void* add_or_accumulate(void* result, const void* x, const void* y, void* optional) {
  const bool of_gradients = accumulating;
  accumulating = false;
  if (of_gradients && add_in_place(x, y)) return copy_tensor(result, y);
  return original_add(result, x, y, optional);
}

void set_constant(const void* context, void* tensor, float value) {
  const Tensor target{tensor};
  if (!target.is_allocated() || place_of_tensor(tensor).kind != kCustomPlace) {
    return original_set_constant(context, tensor, value);
  }
  const Context ours(context, "full");
  const View y = target.strided_view();
  if (!is_our_stream(ours.stream()) || y.dtype == UHAL_DTYPE_INVALID || !is_dense(y)) {
    return original_set_constant(context, tensor, value);
  }
  fill(ours, y, value, static_cast<int64_t>(value));
}

struct Polymorphic {
  virtual ~Polymorphic() = default;
};

// The mangled name of an object's class.
std::string_view class_of(const Shared& object) {
  return typeid(*static_cast<const Polymorphic*>(object.get())).name();
}

// -- sums of rows -----------------------------------------------------------------------------------------------------

// The value of gradients that are rows of a table, if it is memory of one of our devices.
std::optional<Tensor> our_value(const Shared& shared) {
  if (shared == nullptr || class_of(shared) != "N3phi12SelectedRowsE") return std::nullopt;
  const Tensor value = SelectedRows{shared.get()}.value();
  if (!value.is_allocated()) return std::nullopt;
  const Place& place = place_of_tensor(value.handle);
  const bool ours = place.kind == kCustomPlace &&
                    is_our_stream(Context(context_of(context_pool(), place), "merge_selected_rows").stream());
  return ours ? std::optional<Tensor>(value) : std::nullopt;
}

// Paddle adds rows to rows by its CPU's function, with our device's context for the CPU's, which ends the process. A
// row may stand there several times, so that their sum is one behind the other.
void* merge_rows(void* result, const void* x, const void* y) {
  const Shared &a = shared_of(x), &b = shared_of(y);
  const std::optional<Tensor> first = our_value(a), second = our_value(b);
  if (!first || !second) return original_merge(result, x, y);
  std::vector<int64_t> rows = SelectedRows{a.get()}.rows();
  const std::vector<int64_t>& others = SelectedRows{b.get()}.rows();
  rows.insert(rows.end(), others.begin(), others.end());
  Shared sum = make_selected_rows(rows, SelectedRows{a.get()}.height());
  const Context context(context_of(context_pool(), place_of_tensor(first->handle)), "merge_selected_rows");
  const View u = first->view(), v = second->view();
  int64_t dims[UHAL_MAX_RANK];
  std::copy_n(u.shape, u.rank, dims);
  dims[0] += v.shape[0];
  const View all = context.allocate(Output{SelectedRows{sum.get()}.value()}, u.dtype, dims, u.rank);
  if (u.elements() != 0) copy_or_cast(context, u, all.sliced(0, 0, u.shape[0]));
  if (v.elements() != 0) copy_or_cast(context, v, all.sliced(0, u.shape[0], v.shape[0]));
  void* const tensor = ::operator new(kTensorBytes);
  construct_tensor(tensor, &sum);
  return new (result) Shared(tensor, [](void* made) {
    destroy_tensor(made);
    ::operator delete(made);
  });
}

// -- the gradient of a sum ------------------------------------------------------------------------------------------

// The nodes whose gradients someone may hold, by a hook or with retain_grads(). That a node has ended is not told:
// another one in its place counts as watched too.
class WatchedNodes {
 public:
  void add(const void* node) {
    const std::lock_guard<std::mutex> lock(mutex_);
    nodes_.insert(node);
    has_any_ = true;
  }
  bool contains(const void* node) {
    if (!has_any_) return false;
    const std::lock_guard<std::mutex> lock(mutex_);
    return nodes_.count(node) != 0;
  }

 private:
  std::atomic<bool> has_any_{false};
  std::mutex mutex_;
  std::unordered_set<const void*> nodes_;
};
WatchedNodes watched_nodes;

// How many calls of paddle.grad this thread is in, which hands gradients out.
thread_local int handing_out = 0;

// Whether the gradient of a tensor goes to a node that only reads it, and makes what it hands on in memory of its own:
// no view of it, as those of reshapes, and no tensor that keeps it, as those of parameters. By the classes' mangled
// names.
bool only_reads_gradient(const void* tensor) {
  static constexpr std::string_view kNodes[] = {
      "11AddGradNode",         "17BatchNormGradNode", "14Conv2dGradNode",
      "19Conv2dGradNodeFinal", "14Conv3dGradNode",    "23DepthwiseConv2dGradNode",
      "15DropoutGradNode",     "12GeluGradNode",      "17GroupNormGradNode",
      "19HardsigmoidGradNode", "17HardswishGradNode", "20InstanceNormGradNode",
      "17LayerNormGradNode",   "17LeakyReluGradNode", "14MatmulGradNode",
      "16MultiplyGradNode",    "14Pool2dGradNode",    "13Relu6GradNode",
      "12ReluGradNode",        "15RmsNormGradNode",   "15SigmoidGradNode",
      "12SiluGradNode",        "13SwishGradNode",     "12TanhGradNode",
  };
  const Shared node = gradient_node(tensor);
  if (node == nullptr || watched_nodes.contains(node.get())) return false;
  return std::find(std::begin(kNodes), std::end(kNodes), class_of(node)) != std::end(kNodes);
}

// Whether the gradient of an operand of a sum may be the sum's, the same tensor: nothing was broadcast, and nobody can
// tell.
bool may_share(const View& gradient, const void* operand) {
  const Shared& held = shared_of(operand);
  if (!is_dense_tensor(held.get())) return false;
  const View view = Tensor{held.get()}.layout();
  return view.dtype == gradient.dtype && view.rank == gradient.rank &&
         std::equal(view.shape, view.shape + view.rank, gradient.shape) && only_reads_gradient(operand);
}

// Whether the gradient of x + y is one of our numbers, which both operands may share.
bool find_gradient(const Shared& shared, View* gradient) {
  if (handing_out > 0 || !is_dense_tensor(shared.get())) return false;
  const Tensor tensor{shared.get()};
  const Place& place = place_of_tensor(tensor.handle);
  if (place.kind != kCustomPlace || !tensor.is_allocated() ||
      !is_our_stream(Context(context_of(context_pool(), place), "add_grad").stream())) {
    return false;
  }
  *gradient = tensor.strided_view();
  return is_floating(gradient->dtype);
}

// d(x + y) is dz for both. Paddle writes into a gradient only if one tensor holds it, so that both may be dz; without
// that y's is a copy, which goes over all of it twice, and so is x's if another sum has handed dz on.
void add_gradient(const void* x, const void* y, const void* dz, int axis, void* dx, void* dy) {
  const Shared shared = shared_of(dz);  // dx may be where dz is
  View gradient;
  // Not y's alone: x's may be in dz's memory already.
  if (dx == nullptr || !find_gradient(shared, &gradient) || !may_share(gradient, x)) {
    return original_add_gradient(x, y, dz, axis, dx, dy);
  }
  set_shared(dx, shared);
  if (dy == nullptr) return;
  if (may_share(gradient, y)) return set_shared(dy, shared);
  original_add_gradient(x, y, dz, axis, nullptr, dy);
}

void* gradients(void* result, const void* outputs, const void* inputs, const void* given, bool retain, bool create,
                bool only_inputs, bool allow_unused, const void* without, void* text) {
  struct HandingOut {
    HandingOut() { ++handing_out; }
    ~HandingOut() { --handing_out; }
  } handing;
  return original_gradients(result, outputs, inputs, given, retain, create, only_inputs, allow_unused, without, text);
}

int64_t register_hook(void* node, size_t slot, size_t rank, void* hook) {
  watched_nodes.add(node);
  return original_hook(node, slot, rank, hook);
}

// Tensors that a program makes keep their gradients anyway: parameters ask for it when they are made.
void keep_gradient(const void* tensor) {
  const Shared node = gradient_node(tensor);
  if (node != nullptr && class_of(node) != "N3egr20GradNodeAccumulationE") watched_nodes.add(node.get());
  original_keep(tensor);
}

void share_gradients_of_sums() {
  const char* const symbol = find_paddle_library(kGradientsSymbol) != nullptr ? kGradientsSymbol : kOldGradientsSymbol;
  if (!bind_function("_ZN6paddle6Tensor8set_implERKSt10shared_ptrIN3phi10TensorBaseEE", &set_shared) ||
      !bind_function("_ZN3egr10EagerUtils9grad_nodeERKN6paddle6TensorE", &gradient_node) ||
      redirect_paddle_function(symbol, gradients, &original_gradients) != nullptr ||
      redirect_paddle_function(kHookSymbol, register_hook, &original_hook) != nullptr ||
      redirect_paddle_function(kKeepSymbol, keep_gradient, &original_keep) != nullptr) {
    return;
  }
  static_cast<void>(redirect_paddle_function(kAddGradientSymbol, add_gradient, &original_add_gradient));
}

// -- redirection -----------------------------------------------------------------------------------------------------

void redirect_gradients() {
  if (!bind_function("_ZNK6paddle6Tensor4implEv", &shared_of) ||
      !bind_function("_ZNK3phi11DenseTensor5placeEv", &place_of_tensor) ||
      !bind_function("_ZN6paddle6TensorC1ERKS0_", &copy_tensor) ||
      !bind_function("_ZN3phi17DeviceContextPool8InstanceEv", &context_pool) ||
      !bind_function("_ZN3phi17DeviceContextPool3GetERKNS_5PlaceE", &context_of)) {
    return;
  }
  static_cast<void>(redirect_paddle_function(kSetConstantSymbol, set_constant, &original_set_constant));
  if (selected_rows_known() &&
      bind_function("_ZN6paddle6TensorC1ESt10shared_ptrIN3phi10TensorBaseEE", &construct_tensor) &&
      bind_function("_ZN6paddle6TensorD1Ev", &destroy_tensor)) {
    static_cast<void>(redirect_paddle_function(kMergeSymbol, merge_rows, &original_merge));
  }
  const char* const symbol = find_paddle_library(kAddSymbol) != nullptr ? kAddSymbol : kOldAddSymbol;
  if (redirect_paddle_function(symbol, add_or_accumulate, &original_add) != nullptr) return;
  if (redirect_paddle_function(kAccumulateSymbol, accumulate, &original_accumulate) != nullptr) return;
  share_gradients_of_sums();
}

}  // namespace

void shorten_eager_gradients() {
  static const bool done = [] {
    redirect_gradients();
    return true;
  }();
  static_cast<void>(done);
}

}  // namespace unihal::paddle
