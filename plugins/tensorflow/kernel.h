// The layer over TensorFlow's C kernel interface that kernels/ is written in.
//
// A kernel is a class: its constructor reads the attributes from a Construction, once per node, and
// compute() translates one execution into uhal launches through a Context. It is thread-safe: TensorFlow
// may compute one kernel on several threads at once.
//
// Errors. The first failure of a Construction or Context is handed to TensorFlow as the op's status; everything
// after it is a no-op (inputs come back as empty views, launches do nothing), so kernels need a check only where
// they branch on values: `if (!context.ok()) return;`.
#pragma once

#include <string>
#include <vector>

#include "plugins/common/view.h"
#include "plugins/tensorflow/dtype.h"
#include "tensorflow/c/kernels.h"

namespace unihal::tensorflow {

using Shape = std::vector<int64_t>;

class Construction {
 public:
  explicit Construction(TF_OpKernelConstruction* construction);

  // TensorFlow's name of the op ("Conv2D"), interned.
  const char* op() const { return op_; }

  // Attributes. A missing or mistyped one fails the construction and gives a zero value.
  bool has(const char* name);
  int64_t integer(const char* name);
  bool boolean(const char* name);
  double real(const char* name);
  std::string text(const char* name);
  Shape integers(const char* name);
  uhal_dtype dtype(const char* name);

  void fail(TF_Code code, const std::string& message);

 private:
  int32_t list_size(const char* name, int32_t* bytes);

  TF_OpKernelConstruction* construction_;
  const char* op_;
};

class Context;

class Kernel {
 public:
  explicit Kernel(const Construction& construction) : op_(construction.op()) {}
  virtual ~Kernel() = default;
  virtual void compute(Context& context) const = 0;
  const char* op() const { return op_; }

 private:
  const char* op_;
};

// A kernel that only moves data: its int32 tensors stay in host memory (host_copy.h). Register it with
// Registrar::add_movement.
class MovementKernel : public Kernel {
 public:
  explicit MovementKernel(Construction& construction)
      : Kernel(construction), in_host_memory_(construction.dtype("T") == UHAL_INT32) {}
  void compute(Context& context) const final;

 protected:
  virtual void move(Context& context) const = 0;

 private:
  bool in_host_memory_;
};

// One execution of a kernel.
//
// Views stay valid until compute() returns; TensorFlow orders the reuse of their memory by the stream.
class Context {
 public:
  Context(TF_OpKernelContext* context, const char* op);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  bool ok() const { return ok_; }
  TF_OpKernelContext* handle() { return context_; }
  uhal_stream* stream();
  int input_count() const { return TF_NumInputs(context_); }
  int output_count() const { return TF_NumOutputs(context_); }

  // -- operands -----------------------------------------------------------------------------------

  View input(int index);

  // A view of a tensor that the caller holds.
  View view(TF_Tensor* tensor);

  // Allocates an output. TF_ForwardInputOrAllocateOutput with `candidates`: the output takes over the memory of
  // the first of these inputs that nobody else holds; offer only inputs of the output's own shape and dtype.
  View output(int index, uhal_dtype dtype, const int64_t* dims, int rank);
  View output(int index, uhal_dtype dtype, const Shape& shape) {
    return output(index, dtype, shape.data(), static_cast<int>(shape.size()));
  }
  View output_like(int index, const View& view) { return output(index, view.dtype, view.shape, view.rank); }
  View forwarded_output(int index, uhal_dtype dtype, const int64_t* dims, int rank, const int* candidates, int count);

  // Scratch memory on the device, for this execution.
  View temporary(uhal_dtype dtype, const int64_t* dims, int rank);
  View temporary_like(const View& view) { return temporary(view.dtype, view.shape, view.rank); }

  // Gives input's memory out as an output, without a copy; `shape` may differ from the input's, the dtype's size
  // may not.
  void share(int input, int output, uhal_dtype dtype, const int64_t* dims, int rank);
  void share(int input, int output, const View& view) { share(input, output, view.dtype, view.shape, view.rank); }

  // -- values in host memory ------------------------------------------------------------------------

  // A scalar or one-element input registered as host memory.
  int64_t host_integer(int index);
  double host_real(int index);
  // All elements of an int32 or int64 input registered as host memory.
  Shape host_integers(int index);
  // From now on copy() and fill() work on int32 tensors in host memory, which all inputs and outputs are.
  void use_host_memory() { in_host_memory_ = true; }

  // -- work -------------------------------------------------------------------------------------------

  bool launch(uhal_op_kind kind, Operands inputs, Operands outputs, const void* attributes = nullptr);
  bool launch(const uhal_op& op);
  bool map(uhal_map_function function, Operands inputs, Operands outputs,
           std::initializer_list<double> parameters = {});
  // `from` broadcasts to `to`.
  bool copy(const View& from, const View& to);
  bool cast(const View& from, const View& to) { return launch(UHAL_OP_CAST, {&from}, {&to}); }
  bool fill(const View& view, double value, int64_t integer_value);
  bool zero(const View& view) { return fill(view, 0, 0); }

  // -- errors -------------------------------------------------------------------------------------------

  void fail(TF_Code code, const std::string& message);
  void fail_invalid(const std::string& message) { fail(TF_INVALID_ARGUMENT, message); }
  // Takes over an error that a TF_ or shim function left in status().
  bool check();
  TF_Status* status() { return status_; }
  bool check(uhal_status status);

 private:
  View view_and_release(TF_Tensor* tensor);

  TF_OpKernelContext* context_;
  const char* op_;
  TF_Status* status_;
  uhal_stream* stream_ = nullptr;
  bool ok_ = true;
  bool in_host_memory_ = false;
  std::vector<TF_Tensor*> temporaries_;
};

// "[2,3]", as TensorFlow prints shapes.
std::string to_text(const int64_t* dims, int rank);
inline std::string to_text(const View& view) { return to_text(view.shape, view.rank); }

inline Shape shape_of(const View& view) { return Shape(view.shape, view.shape + view.rank); }

// NumPy's broadcast shape of two views; false if they do not broadcast.
bool broadcast_shape(const View& a, const View& b, Shape* shape);

// An axis given from outside: negative ones count from the end. Fails the context outside [-rank, rank).
int checked_axis(Context& context, int64_t axis, int rank);

// The C functions through which TensorFlow makes, runs and deletes a kernel of class K.
template <class K>
void* create_kernel(TF_OpKernelConstruction* handle) {
  Construction construction(handle);
  return static_cast<Kernel*>(new K(construction));
}
void compute_kernel(void* kernel, TF_OpKernelContext* context);
void delete_kernel(void* kernel);

}  // namespace unihal::tensorflow
