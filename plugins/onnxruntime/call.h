// Kernels: the table of them, and one run of one.
#pragma once

#include <array>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "plugins/common/view.h"
#include "plugins/onnxruntime/description.h"
#include "plugins/onnxruntime/runtime.h"
#include "unihal/constants.h"

namespace unihal::onnxruntime {

class Call;

using Shape = std::vector<int64_t>;

// A node with its attributes. Run by several threads at once, so that it changes nothing in itself.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual void run(Call& call) const = 0;
  // Offers input `index`, a constant in the device's memory, once, before the first run. Gives whether the kernel keeps
  // it in a form of its own: then the input is missing in runs, and its memory is given back.
  virtual bool pack(const Provider&, int /*index*/, const View& /*constant*/) { return false; }
};

// A constant in a form of a kernel's own, in memory of the device that lives as long as this.
class Packed {
 public:
  Packed() = default;
  ~Packed();
  Packed(const Packed&) = delete;
  Packed& operator=(const Packed&) = delete;

  // Takes dense memory, once, and gives it as a view, to be written in the order of the provider's stream before any op
  // reads it.
  View allocate(const Provider& provider, const Shape& shape, uhal_dtype dtype);
  bool is_there() const { return stream_ != nullptr; }

 private:
  std::shared_ptr<Stream> stream_;
  View memory_;
  const uhal_constants* constants_ = nullptr;  // to which the memory was declared
};

// How an output may lie where an input does.
enum class Reuse {
  kNone,
  kInPlace,  // output 0 may overwrite input 0
  kAlias,    // output 0 is input 0 with another shape: the same memory where ONNX Runtime can arrange it
};

// A row of the adapter's table: one op of ONNX in the opsets from `first` to `last`, both included.
struct Op {
  const char* name;
  int first;
  int last;
  DtypeSet dtypes;  // of the input `typed_by`; of output 0 where there is no input
  // Makes the kernel of a node, or throws Refusal.
  std::unique_ptr<Kernel> (*make)(const Description& node, const void* data);
  Reuse reuse = Reuse::kNone;
  uint32_t host_inputs = 0;  // a bit for each input that the kernel reads on the host: shapes, axes
  const void* data = nullptr;
  const char* domain = "";
  int typed_by = 0;
  bool host_output = false;  // output 0 is written by the host: a shape
};

// The newest opset of ONNX that the table was read against; an op that changed later is left to the CPU.
inline constexpr int kNewestOpset = 28;

inline constexpr const char* kMicrosoft = "com.microsoft";

// Ops of ONNX whose images have the channels last: (N, spatial..., C). ONNX Runtime makes them of ONNX's own where a
// provider prefers that.
inline constexpr const char* kChannelsLastDomain = "com.ms.internal.nhwc";

template <class Type>
std::unique_ptr<Kernel> make(const Description& node, const void* data) {
  if constexpr (std::is_constructible_v<Type, const Description&, const void*>) {
    return std::make_unique<Type>(node, data);
  } else {
    return std::make_unique<Type>(node);
  }
}

// A tensor of ONNX Runtime of any type.
struct RawTensor {
  void* data = nullptr;
  int32_t type = kTypeUndefined;
  Shape shape;
};

constexpr uint32_t host(std::initializer_list<int> inputs) {
  uint32_t bits = 0;
  for (const int input : inputs) bits |= uint32_t{1} << input;
  return bits;
}

class Call {
 public:
  static constexpr int kMostInputs = 64;

  Call(const Op& op, const Provider& provider, OrtKernelContext* context);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  const Op& op() const { return op_; }
  const Provider& provider() const { return provider_; }
  uhal_stream* stream() const { return stream_; }
  uhal_math_mode math_mode() const;

  // -- operands -----------------------------------------------------------------------------------------
  int input_count() const { return input_count_; }
  int output_count() const { return output_count_; }
  bool has(int index) const;     // whether the input is there
  View input(int index) const;   // dense
  Shape shape(int index) const;  // of an input
  // Operands of types for which unihal has no dtype.
  RawTensor raw_input(int index) const;
  RawTensor raw_output(int index, const Shape& shape);
  // An input of integers in host memory (Op::host_inputs).
  Shape integers(int index) const;
  // An input of one number in host memory.
  double scalar(int index) const;

  // An output of the dtype that the graph says; dense. Each is asked for once.
  View output(int index, const int64_t* lengths, int rank);
  View output(int index, const Shape& shape) { return output(index, shape.data(), static_cast<int>(shape.size())); }
  View output_like(int index, const View& view) { return output(index, view.shape, view.rank); }
  // Whether anybody asked for an output that may be left out.
  bool wants(int index, const Shape& shape, View* view);

  // -- work ---------------------------------------------------------------------------------------------
  void launch(uhal_op_kind kind, Operands inputs, Operands outputs, const void* attributes = nullptr) const;
  void launch(uhal_op& op) const;
  void map(uhal_map_function function, Operands inputs, Operands outputs,
           std::initializer_list<double> parameters = {}) const;
  // Nothing if both are one view.
  void copy(const View& from, const View& to) const;
  void cast(const View& from, const View& to) const;
  // With conversion where dtypes differ.
  void move(const View& from, const View& to) const { from.dtype == to.dtype ? copy(from, to) : cast(from, to); }
  void fill(const View& view, double value) const;
  void fill_integer(const View& view, int64_t value) const;
  // Memory that lives as long as the call.
  View scratch(const int64_t* lengths, int rank, uhal_dtype dtype);
  View scratch(const Shape& shape, uhal_dtype dtype) {
    return scratch(shape.data(), static_cast<int>(shape.size()), dtype);
  }
  View scratch_like(const View& view, uhal_dtype dtype) { return scratch(view.shape, view.rank, dtype); }
  // One element with a value, which lives as long as the call.
  View constant(double value, uhal_dtype dtype);
  // Host data on the device.
  View upload(const void* data, const Shape& shape, uhal_dtype dtype);
  // The same numbers as `view`, with another dtype where they have it not.
  View as(const View& view, uhal_dtype dtype);

  [[noreturn]] void fail(const std::string& message) const;
  void require(bool fits, const char* message) const {
    if (!fits) fail(message);
  }

 private:
  const OrtValue* value(int index) const;

  const Op& op_;
  const Provider& provider_;
  OrtKernelContext* const context_;
  uhal_stream* stream_ = nullptr;
  uhal_device* device_ = nullptr;
  int input_count_ = 0;
  int output_count_ = 0;
  std::vector<void*> scratch_;
};

Shape shape_of(const View& view);
RawTensor raw_tensor(const OrtValue* value, const Op& op, const Provider& provider);
// A tensor of ONNX Runtime as a dense view. Throws for one of another dtype than ours, or of more than 10 axes.
View view_of(const OrtValue* value, const Op& op, const Provider& provider);
int64_t elements_of(const Shape& shape);
// An axis that may count from the end; fails if there is none such.
int axis_of(const Call& call, int64_t axis, int rank);
// The shape that two or more shapes broadcast to; fails if they do not.
Shape broadcast(const Call& call, const Shape& a, const Shape& b);

// -- the table: one function a family, in kernels/ -------------------------------------------------------

struct Table {
  const Op* rows;
  size_t count;
};
// All families.
const std::vector<Table>& tables();
// The row for a node; NULL if there is none.
const Op* find_op(const char* domain, const char* name, int version);

// Ops with kernels, with their opsets and dtypes, as JSON:
// [{"op": "Conv", "domain": "", "first": 1, "last": 26, "dtypes": ["float32", ...]}, ...].
std::string coverage();

}  // namespace unihal::onnxruntime
