// The copies that ONNX Runtime puts between a node on the device and one on the CPU.
#include "plugins/onnxruntime/kernels/kernels.h"

namespace unihal::onnxruntime {
namespace {

class FromHost final : public Kernel {
 public:
  explicit FromHost(const Description&) {}
  void run(Call& call) const override {
    const View from = call.input(0);
    const View to = call.output_like(0, from);
    const size_t bytes = static_cast<size_t>(from.elements()) * uhal_dtype_size(from.dtype);
    if (bytes != 0) copy_from_host(call.stream(), to.data, from.data, bytes);
  }
};

class ToHost final : public Kernel {
 public:
  explicit ToHost(const Description&) {}
  void run(Call& call) const override {
    const View from = call.input(0);
    const View to = call.output_like(0, from);
    const size_t bytes = static_cast<size_t>(from.elements()) * uhal_dtype_size(from.dtype);
    if (bytes != 0) check(uhal_copy(call.stream(), to.data, from.data, bytes, UHAL_COPY_DEVICE_TO_HOST));
  }
};

}  // namespace

Table transfer_ops() {
  static const Op rows[] = {
      {.name = "MemcpyFromHost",
       .first = 1,
       .last = kNewestOpset,
       .dtypes = kStored,
       .make = make<FromHost>,
       .host_inputs = host({0})},
      {.name = "MemcpyToHost",
       .first = 1,
       .last = kNewestOpset,
       .dtypes = kStored,
       .make = make<ToHost>,
       .host_output = true},
  };
  return table(rows);
}

}  // namespace unihal::onnxruntime
