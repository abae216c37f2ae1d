// The layer over TensorFlow's C kernel interface that kernels/ is written in.
//
// A kernel is a class: its constructor reads the attributes from a Construction, once per node, and
// compute() translates one execution into uhal launches through a Context. It is thread-safe: TensorFlow
// may compute one kernel on several threads at once.
//
// Errors. The first failure of a Construction or Context is handed to TensorFlow as the op's status; everything
// after it is a no-op (inputs come back as empty views, launches do nothing), so kernels need a check only where
// they branch on values: `if (!context.ok()) return;`. What is wrong is refused with the class of error that
// TensorFlow's CPU raises. A construction's failure is told at the first execution: where TensorFlow cannot make a
// kernel on a device, operands that the host has already sent to it are left in the rendezvous, which all eager ops
// share, and the next op with an argument of that name computes with them.
//
// What a kernel cannot say in ops of the ABI it leaves to TensorFlow's CPU kernel with refuse(): that computes on
// copies of the operands, counted as a fallback, or raises its own error.
//
// Ranks. A View has at most UHAL_MAX_RANK axes, a tensor of TensorFlow's 254. A kernel for which neighbouring axes may
// be seen as one says so with merging(), and never notices; others ask for dims() and flat_input(). In the rest,
// an operand of a higher rank is refused.
#pragma once

#include <string>
#include <vector>

#include "plugins/common/view.h"
#include "plugins/tensorflow/dtype.h"
#include "plugins/tensorflow/shim/shim.h"
#include "tensorflow/c/kernels.h"

namespace unihal::tensorflow {

using Shape = std::vector<int64_t>;

// Why no execution of a kernel can succeed.
struct Failure {
  TF_Code code = TF_OK;
  std::string message;
};

class Construction {
 public:
  explicit Construction(TF_OpKernelConstruction* construction);

  // TensorFlow's name of the op ("Conv2D"), interned.
  const char* op() const { return op_; }
  // The type that says most about the op; 0 if there is none.
  TF_DataType main_type() const { return main_type_; }

  // Attributes. A missing or mistyped one fails the construction and gives a zero value.
  bool has(const char* name);
  int64_t integer(const char* name);
  bool boolean(const char* name);
  double real(const char* name);
  std::string text(const char* name);
  Shape integers(const char* name);
  std::vector<float> reals(const char* name);
  Shape shape(const char* name);  // of known sizes
  std::vector<TF_DataType> types(const char* name);
  uhal_dtype dtype(const char* name) { return from_tensorflow(type(name)); }
  TF_DataType type(const char* name);

  // The first failure counts.
  void fail(TF_Code code, const std::string& message) { fail_as(code, std::string(op_) + ": " + message); }
  const Failure& failure() const { return failure_; }
  // This node's kernel refuses every execution: see Context::refuse.
  void refuse(const std::string& reason) { refusal_ = reason; }
  const std::string& refusal() const { return refusal_; }

 private:
  int32_t list_size(const char* name, int32_t* bytes);
  void fail_as(TF_Code code, std::string message);
  // Takes over an error that a TF_ function left.
  void check(const TF_Status* status) { fail_as(TF_GetCode(status), TF_Message(status)); }

  TF_OpKernelConstruction* construction_;
  const char* op_;
  TF_DataType main_type_ = static_cast<TF_DataType>(0);
  Failure failure_;
  std::string refusal_;
};

class Context;

// Whether a kernel computes the same if runs of neighbouring axes, the same in all operands, become one axis each.
enum class Merging {
  kNone,
  kSameShape,  // the operands are of one shape or scalars
  kBroadcast,  // the operands broadcast
};

class Kernel {
 public:
  explicit Kernel(const Construction& construction) : op_(construction.op()), main_type_(construction.main_type()) {}
  virtual ~Kernel() = default;
  virtual void compute(Context& context) const = 0;
  virtual Merging merging() const { return Merging::kNone; }
  const char* op() const { return op_; }
  TF_DataType main_type() const { return main_type_; }

  // Why every execution fails; TF_OK if none does. Why every execution is refused; "" if none is.
  const Failure& failure() const { return failure_; }
  const std::string& refusal() const { return refusal_; }
  // What the whole construction came to. Once, by create_kernel.
  void take_outcome(const Construction& construction) {
    failure_ = construction.failure();
    refusal_ = construction.refusal();
  }

 private:
  const char* op_;
  TF_DataType main_type_;
  Failure failure_;
  std::string refusal_;
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

  // An input's shape, of whatever rank, and its elements as a vector.
  Shape dims(int index);
  View flat_input(int index);

  // A view of a tensor that the caller holds.
  View view(TF_Tensor* tensor);

  // Allocates an output. A shape that no tensor can have fails the context, here and below.
  // TF_ForwardInputOrAllocateOutput with `candidates`: the output takes over the memory of the first of these inputs
  // that nobody else holds; offer only inputs of the output's own shape and dtype.
  View output(int index, uhal_dtype dtype, const int64_t* dims, int rank);
  View output(int index, uhal_dtype dtype, const Shape& shape) {
    return output(index, dtype, shape.data(), static_cast<int>(shape.size()));
  }
  View output_like(int index, const View& view) { return output(index, view.dtype, view.shape, view.rank); }
  // Allocates an output of whatever rank; gives its elements as a vector.
  View flat_output(int index, uhal_dtype dtype, const Shape& shape);
  View forwarded_output(int index, uhal_dtype dtype, const int64_t* dims, int rank, const int* candidates, int count);

  // Whether a tensor can have this shape; fails the context if not.
  bool check_shape(uhal_dtype dtype, const int64_t* dims, int rank);
  bool check_shape(uhal_dtype dtype, const Shape& shape) {
    return check_shape(dtype, shape.data(), static_cast<int>(shape.size()));
  }

  // Scratch memory for this execution, on the device or where copy() works.
  View temporary(uhal_dtype dtype, const int64_t* dims, int rank);
  View temporary(uhal_dtype dtype, const Shape& shape) {
    return temporary(dtype, shape.data(), static_cast<int>(shape.size()));
  }
  View temporary_vector(uhal_dtype dtype, int64_t length) { return temporary(dtype, &length, 1); }
  View temporary_like(const View& view) { return temporary(view.dtype, view.shape, view.rank); }

  // Gives input's memory out as an output, without a copy; shape and dtype may differ from the input's, the size in
  // bytes may not.
  void share(int input, int output, TF_DataType dtype, const Shape& shape);
  void share(int input, int output, const View& view) { share(input, output, to_tensorflow(view.dtype), dims(input)); }

  // -- values in host memory ------------------------------------------------------------------------

  // An input of one element registered as host memory: a scalar, or of at most `max_rank` axes.
  int64_t host_integer(int index, int max_rank);
  int64_t host_scalar(int index) { return host_integer(index, 0); }
  double host_real(int index, int max_rank = 0);
  // All elements of an int32 or int64 input registered as host memory; of one that must be a vector.
  Shape host_integers(int index);
  Shape host_vector(int index);
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
  // Does `work`, whose launches may become one (uhal_launch_group_start).
  template <class Work>
  void in_launch_group(Work work) {
    if (in_host_memory_) return work();
    uhal_stream* on = stream();
    if (!ok_) return;
    LaunchGroup group(on);
    work();
    if (ok_) check(group.end());
  }
  // The view in a dtype: itself, or a copy.
  View as(uhal_dtype dtype, const View& view);
  bool fill(const View& view, double value, int64_t integer_value);
  bool zero(const View& view) { return fill(view, 0, 0); }
  // Copies the host's bytes, as many as the dense view has; they are kept until the stream has passed the copy.
  bool upload(std::vector<char> bytes, const View& view);

  // -- errors -------------------------------------------------------------------------------------------

  // Whether launches have computed when they return, in memory of the host's, as the stub's: what they found wrong can
  // be this op's error then.
  bool computes_at_once();
  // There: whether the last ones met a number that is outside of what it counts. The stream forgets it; `message` is
  // what it said. False elsewhere.
  bool met_outside(std::string* message);

  // Cold: what leads to failures and refusals is kept apart from the code that every execution goes through.
  __attribute__((cold)) void fail(TF_Code code, const std::string& message);
  __attribute__((cold)) void fail_invalid(const std::string& message) { fail(TF_INVALID_ARGUMENT, message); }
  // Leaves this execution to TensorFlow's CPU kernel. Only before an output is allocated or work submitted, and not in
  // kernels with a state of their own. `reason` counts: no values of this execution in it.
  __attribute__((cold)) void refuse(const std::string& reason);
  // Makes a refusal an error, where TensorFlow's CPU kernel must not see the operands.
  __attribute__((cold)) void fail_refusal();
  // Takes over an error that a TF_ or shim function left in status().
  bool check();
  TF_Status* status() { return status_; }
  bool check(uhal_status status);

 private:
  friend void compute_kernel(void* kernel, TF_OpKernelContext* context);

  // A view of what `operand` describes, of which dims_of_all() gives all sizes.
  template <class DimsOf>
  View view(const unihal_operand& operand, DimsOf dims_of_all);
  bool describe_input(int index, unihal_operand* operand);
  bool check_rank(int index, int max_rank);
  TF_Tensor* input_tensor(int index);

  // Starts anew after a refusal for an operand's rank, with runs of axes merged. False if that does not help.
  __attribute__((cold)) bool merge_axes(Merging merging);
  // The merged dims of a tensor, and the dims of a tensor that was merged so.
  bool merged(const Shape& dims, Shape* result) const;
  Shape expanded(const int64_t* dims, int rank) const;
  __attribute__((cold)) void compute_on_host(TF_DataType dtype);

  TF_OpKernelContext* context_;
  const char* op_;
  TF_Status* status_;
  uhal_stream* stream_ = nullptr;
  bool ok_ = true;
  bool in_host_memory_ = false;
  std::string refusal_;      // the reason, until the CPU's kernel has run
  Shape deep_;               // the first operand's shape that has too many axes
  Shape whole_;              // the operands' joint shape, while axes are merged
  std::vector<int> groups_;  // where each run of its axes begins
  bool same_shape_ = false;  // merged operands have the joint shape, or are scalars
  bool mismatch_ = false;    // one has not
  std::vector<TF_Tensor*> temporaries_;
};

// "[2,3]", as TensorFlow prints shapes.
std::string to_text(const int64_t* dims, int rank);
inline std::string to_text(const View& view) { return to_text(view.shape, view.rank); }

inline Shape shape_of(const View& view) { return Shape(view.shape, view.shape + view.rank); }

// NumPy's broadcast shape of two views; false if they do not broadcast.
bool broadcast_shape(const Shape& a, const Shape& b, Shape* shape);
inline bool broadcast_shape(const View& a, const View& b, Shape* shape) {
  return broadcast_shape(shape_of(a), shape_of(b), shape);
}
inline std::string to_text(const Shape& shape) { return to_text(shape.data(), static_cast<int>(shape.size())); }

// An axis given from outside: negative ones count from the end. Fails the context outside [-rank, rank).
int checked_axis(Context& context, int64_t axis, int rank);

// The C functions through which TensorFlow makes, runs and deletes a kernel of class K.
template <class K>
void* create_kernel(TF_OpKernelConstruction* handle) {
  Construction construction(handle);
  auto* kernel = new K(construction);
  kernel->take_outcome(construction);
  return static_cast<Kernel*>(kernel);
}
void compute_kernel(void* kernel, TF_OpKernelContext* context);
void delete_kernel(void* kernel);

}  // namespace unihal::tensorflow
