// What the kernels share: scratch memory, axes, and reduction of a gradient to the shape of a broadcast operand.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plugins/paddle/error.h"
#include "plugins/paddle/registry.h"
#include "plugins/paddle/scratch.h"

namespace unihal::paddle {

inline bool is_floating(uhal_dtype dtype) { return dtype >= UHAL_FLOAT16 && dtype <= UHAL_FLOAT64; }

inline bool is_complex(uhal_dtype dtype) { return dtype == UHAL_COMPLEX64 || dtype == UHAL_COMPLEX128; }

inline bool is_integer(uhal_dtype dtype) { return !is_floating(dtype) && !is_complex(dtype) && dtype != UHAL_BOOL; }

// The dtype that complex numbers' parts and magnitudes have; of others their own.
inline uhal_dtype real_of(uhal_dtype dtype) {
  return dtype == UHAL_COMPLEX64 ? UHAL_FLOAT32 : dtype == UHAL_COMPLEX128 ? UHAL_FLOAT64 : dtype;
}

// The dtype of complex numbers with such parts; of complex ones their own.
inline uhal_dtype complex_of(uhal_dtype dtype) {
  return real_of(dtype) == UHAL_FLOAT64 ? UHAL_COMPLEX128 : UHAL_COMPLEX64;
}

// The dtype that statistics and optimizer state of x's dtype have.
inline uhal_dtype accumulator(uhal_dtype dtype) { return dtype == UHAL_FLOAT64 ? UHAL_FLOAT64 : UHAL_FLOAT32; }

// An axis counted from the front.
inline int from_front(int64_t axis, int rank) { return static_cast<int>(axis < 0 ? axis + rank : axis); }

bool same_shape(const View& a, const View& b);

// Whether each element follows the one before it.
bool is_dense(const View& view);

// The dtype that a function of several steps is computed in: complex stays, all else as above.
inline uhal_dtype working(uhal_dtype dtype) { return is_complex(dtype) ? dtype : accumulator(dtype); }

// Products and quotients with what is conjugated, where a gradient is complex.
inline int times_conjugate(uhal_dtype dtype) {
  return is_complex(dtype) ? uhal_map_multiply_conjugate : uhal_map_multiply;
}
inline int by_conjugate(uhal_dtype dtype) { return is_complex(dtype) ? uhal_map_divide_conjugate : uhal_map_divide; }

// The view with leading axes of length 1, up to `rank`.
View with_rank(const View& view, int rank);

// A dense view of shape (elements).
View flat(const View& view);

// target = the sum of source over the axes along which target is broadcast to source's shape.
void sum_to_shape(const Context& context, const View& source, const View& target);

// y = x in y's dtype, broadcast to y's shape.
void copy_or_cast(const Context& context, const View& x, const View& y);

void fill(const Context& context, const View& y, double value, int64_t integer);
// Complex numbers get both parts.
void fill(const Context& context, const View& y, const Scalar& value);
inline void fill_zero(const Context& context, const View& y) { fill(context, y, 0, 0); }

// y, dense, = start, start + step, ...
void count_up(const Context& context, const View& y, double start = 0, double step = 1);

// y = the rows of x at the given places.
void gather_rows(const Context& context, const View& x, const View& places, const View& y);

// Indices along an axis, of which negative ones count from its end.
uhal_index_attributes wrapping(int axis, uhal_reduction reduction = UHAL_REDUCE_NONE);

inline bool is_extreme(uhal_reduction reduction) {
  return reduction == UHAL_REDUCE_MAXIMUM || reduction == UHAL_REDUCE_MINIMUM;
}

// Memory for `y` in a shape that is given but for axis `to`, which is as long as x's axis `from`.
View allocate_with_length_of(const Context& context, Input x, int from, const Span<int>& shape, int to,
                             uhal_dtype dtype, Output y);

// y *= 1 where a equals b, and 0 elsewhere.
void multiply_by_equality(const Context& context, const View& a, const View& b, const View& y);

// y, bools, = where x is not 0.
void as_test(const Context& context, const View& x, const View& y);

// The host's copy of a device tensor's first element; waits for the stream.
double read_number(const Context& context, const View& x);
// A tensor's first element, wherever that lies; on the device as above.
double read_number(const Context& context, const Tensor& x);

// The largest or smallest number of a tensor that has any, as above.
double read_extreme(const Context& context, uhal_reduction reduction, const View& x);
// The host's copies of a dense device tensor's numbers, which are plain ones (host_tensor.h); waits for the stream.
std::vector<double> read_numbers(const Context& context, const View& x);

// The host's copy of a device tensor's integers, of any dtype of them; waits for the stream.
std::vector<int64_t> read_integers(const Context& context, const View& x);

// One number, which broadcasts to anything.
class Constant : public Scratch {
 public:
  Constant(const Context& context, uhal_dtype dtype, double value) : Scratch(context, dtype, nullptr, 0) {
    fill(context, *this, value, is_floating(dtype) ? 0 : static_cast<int64_t>(value));
  }
  // Of int64.
  Constant(const Context& context, int64_t value) : Scratch(context, UHAL_INT64, nullptr, 0) {
    fill(context, *this, 0, value);
  }
};

// One number as a list of so many.
class Repeated : public Constant {
 public:
  Repeated(const Context& context, uhal_dtype dtype, double value, int64_t count) : Constant(context, dtype, value) {
    rank = 1;
    shape[0] = count;
    strides[0] = 0;
  }
};

// A result's memory: Paddle's, or of our own where an op has to write what Paddle does not want.
class OutputOrScratch : public View {
 public:
  OutputOrScratch(const Context& context, Output out, const View& like) {
    if (out) {
      static_cast<View&>(*this) = context.allocate(out, like.dtype);
    } else {
      unwanted_.emplace(context, like.dtype, like);
      static_cast<View&>(*this) = *unwanted_;
    }
  }

 private:
  std::optional<Scratch> unwanted_;
};

// Indices or labels as the ops take them: int32 or int64.
class WideIntegers : public View {
 public:
  WideIntegers(const Context& context, const View& indices) : View(indices) {
    if (dtype != UHAL_INT8 && dtype != UHAL_INT16 && dtype != UHAL_UINT8) return;
    widened_.emplace(context, UHAL_INT32, *this);
    copy_or_cast(context, *this, *widened_);
    static_cast<View&>(*this) = *widened_;
  }

 private:
  std::optional<Scratch> widened_;
};

// Refuses operands of different dtypes where Paddle's own kernels do; promoting them is Paddle's work before the
// kernel.
void require_same_dtype(const Context& context, const View& a, const View& b);

// Refuses an argument, with the class of error that Paddle's checks of arguments have.
[[noreturn]] __attribute__((cold)) void invalid(const Context& context, const std::string& message);

// The host's bytes that several copies are made from: kept until the stream has passed what was submitted before the
// end of this.
class Uploads {
 public:
  Uploads(const Context& context, std::vector<char> bytes)
      : context_(context), bytes_(new std::vector<char>(std::move(bytes))) {}
  Uploads(const Uploads&) = delete;
  Uploads& operator=(const Uploads&) = delete;
  ~Uploads();

  template <class T>
  T* at(size_t byte) const {
    return reinterpret_cast<T*>(bytes_->data() + byte);
  }
  // As many bytes as y has, from some of these.
  void copy(const void* from, const View& y) const;

 private:
  const Context& context_;
  std::vector<char>* const bytes_;
};

// Copies the host's bytes, as many as y has; they are kept until the stream has passed the copy.
void upload(const Context& context, std::vector<char> bytes, const View& y);

// Integers of the host on the device. Waits until they are there.
class DeviceIntegers : public Scratch {
 public:
  DeviceIntegers(const Context& context, const std::vector<int64_t>& values);
};

// target[indices[i]] += values[i]; a row may be named several times.
void add_rows(const Context& context, const View& indices, const View& values, const View& target);

// Refuses what a kernel does not do. `what` completes "... is not supported".
[[noreturn]] __attribute__((cold)) void unsupported(const Context& context, const std::string& what);

}  // namespace unihal::paddle
