// The table of ops, as ONNX Runtime's registry of kernels.
#include <cstring>

#include "plugins/onnxruntime/call.h"
#include "plugins/onnxruntime/kernels/kernels.h"
#include "plugins/onnxruntime/provider.h"

namespace unihal::onnxruntime {
namespace {

// A kernel as ONNX Runtime holds it.
class KernelInstance final : public OrtKernelImpl {
 public:
  KernelInstance(const Op& op, const Provider& provider, std::unique_ptr<Kernel> kernel)
      : OrtKernelImpl{}, op_(op), provider_(provider), kernel_(std::move(kernel)) {
    version = ort.version;
    Compute = [](OrtKernelImpl* self, OrtKernelContext* context) {
      return guarded([&] { static_cast<KernelInstance*>(self)->run(context); });
    };
    PrePackWeight = [](OrtKernelImpl* self, const OrtValue* constant, int index, OrtAllocator*,
                       OrtSharedPrePackedWeightCache*, bool* is_packed) {
      return guarded([&] { *is_packed = static_cast<KernelInstance*>(self)->pack(constant, index); });
    };
    Release = [](OrtKernelImpl* self) { delete static_cast<KernelInstance*>(self); };
  }

 private:
  bool pack(const OrtValue* constant, int index) {
    if (is_host(ort.Value_GetMemoryDevice(constant))) return false;
    if (from_onnx(raw_tensor(constant, op_, provider_).type) == UHAL_DTYPE_INVALID) return false;
    return kernel_->pack(provider_, index, view_of(constant, op_, provider_));
  }

  void run(OrtKernelContext* context) const {
    try {
      Call call(op_, provider_, context);
      kernel_->run(call);
    } catch (const Refusal& refusal) {
      cancel_capture(provider_.stream());
      throw Failure(kOrtNotImplemented, std::string(op_.name) + " on " + provider_.label() + ": " + refusal.reason);
    } catch (...) {
      cancel_capture(provider_.stream());
      throw;
    }
  }

  const Op& op_;
  const Provider& provider_;
  const std::unique_ptr<Kernel> kernel_;
};

OrtStatus* make_kernel(void* state, const OrtKernelInfo* info, OrtKernelImpl** owned) {
  return guarded([&] {
    const Op& op = *static_cast<const Op*>(state);
    const OrtEp* found = nullptr;
    check(ort.KernelInfo_GetEp(info, &found));
    const auto& provider = *static_cast<const Provider*>(found);
    provider.settle();
    const std::unique_ptr<Description> description = describe(info, provider);
    try {
      *owned = new KernelInstance(op, provider, op.make(*description, op.data));
    } catch (const Refusal& refusal) {
      throw Failure(kOrtNotImplemented, std::string(op.name) + ": " + refusal.reason);
    }
  });
}

void add(OrtKernelRegistry* registry, const Op& op) {
  OrtKernelDefBuilder* builder = nullptr;
  check(ort.CreateKernelDefBuilder(&builder));
  const std::unique_ptr<OrtKernelDefBuilder, void (*)(OrtKernelDefBuilder*)> owned(builder,
                                                                                   ort.ReleaseKernelDefBuilder);
  check(ort.KernelDefBuilder_SetOperatorType(builder, op.name));
  check(ort.KernelDefBuilder_SetDomain(builder, op.domain));
  check(ort.KernelDefBuilder_SetSinceVersion(builder, op.first, op.last));
  check(ort.KernelDefBuilder_SetExecutionProvider(builder, kProviderName));
  for (size_t i = 0; i < 32; ++i) {
    if ((op.host_inputs >> i & 1) != 0) check(ort.KernelDefBuilder_SetInputMemType(builder, i, kOrtMemTypeCpuInput));
  }
  if (op.host_output) check(ort.KernelDefBuilder_SetOutputMemType(builder, 0, kOrtMemTypeCpuOutput));
  const int32_t first = 0;
  if (op.reuse == Reuse::kInPlace) {
    check(ort.KernelDefBuilder_AddInputOutputMutableAliases(builder, &first, &first, 1));
  } else if (op.reuse == Reuse::kAlias) {
    check(ort.KernelDefBuilder_AddInputOutputAliases(builder, &first, &first, 1));
  }
  OrtKernelDef* definition = nullptr;
  check(ort.KernelDefBuilder_Build(builder, &definition));
  const std::unique_ptr<OrtKernelDef, void (*)(OrtKernelDef*)> owned_definition(definition, ort.ReleaseKernelDef);
  check(ort.KernelRegistry_AddKernel(registry, definition, &make_kernel, const_cast<Op*>(&op)));
}

}  // namespace

const std::vector<Table>& tables() {
  static const auto* all = new std::vector<Table>{
      attention_ops(),
      embedding_ops(),
      detection_ops(),
      linear_attention_ops(),
      loss_ops(),
      signal_ops(),
      attention_microsoft_ops(),
      quantized_linear_ops(),
      column_ops(),
      convolution_ops(),
      einsum_ops(),
      elementwise_ops(),
      index_ops(),
      matmul_ops(),
      movement_ops(),
      norm_ops(),
      pool_ops(),
      quantize_ops(),
      random_ops(),
      recurrent_ops(),
      reduce_ops(),
      resize_ops(),
      shape_ops(),
      transfer_ops(),
      unique_ops(),
  };
  return *all;
}

const Op* find_op(const char* domain, const char* name, int version) {
  for (const Table& table : tables()) {
    for (size_t i = 0; i < table.count; ++i) {
      const Op& op = table.rows[i];
      if (std::strcmp(op.name, name) == 0 && std::strcmp(op.domain, domain) == 0 &&
          (version == 0 || (op.first <= version && version <= op.last))) {
        return &op;
      }
    }
  }
  return nullptr;
}

const OrtKernelRegistry* kernel_registry() {
  static const OrtKernelRegistry* const registry = [] {
    OrtKernelRegistry* made = nullptr;
    check(ort.CreateKernelRegistry(&made));
    for (const Table& table : tables()) {
      for (size_t i = 0; i < table.count; ++i) add(made, table.rows[i]);
    }
    return made;
  }();
  return registry;
}

std::string coverage() {
  std::string text = "[";
  for (const Table& table : tables()) {
    for (size_t i = 0; i < table.count; ++i) {
      const Op& op = table.rows[i];
      if (std::strcmp(op.domain, kChannelsLastDomain) == 0) continue;  // what ONNX's own become
      text += (text.size() > 1 ? ",\n" : "") + std::string("{\"op\": \"") + op.name + "\", \"domain\": \"" + op.domain +
              "\", \"first\": " + std::to_string(op.first) + ", \"last\": " + std::to_string(op.last) +
              ", \"dtypes\": [";
      const char* separator = "";
      for (uhal_dtype dtype = 1; dtype < UHAL_DTYPE_COUNT; ++dtype) {
        if (!contains(op.dtypes, dtype)) continue;
        text += std::string(separator) + "\"" + uhal_dtype_name(dtype) + "\"";
        separator = ", ";
      }
      text += "]}";
    }
  }
  return text + "]";
}

}  // namespace unihal::onnxruntime
