// UHAL_OP_REDUCE.
//
// The axes of x, in memory order, are either kept or reduced. If the innermost one is reduced, each output is the
// reduction of runs; if it is kept, whole rows are combined into rows of accumulators. Few outputs with much behind
// each are cut into slices along the reduced axes, one per thread.

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "csrc/backends/common/complex_parts.h"
#include "csrc/backends/common/reduction.h"
#include "stub/common/blocks.h"
#include "stub/common/kernels.h"
#include "stub/common/parallel.h"
#include "stub/common/scratch.h"
#include "stub/ops/copy.h"

namespace unihal::stub {
namespace {

constexpr int kX = 0;
constexpr int kY = 1;

constexpr int64_t kRowWidth = 512;  // accumulators per unit of work when the innermost axis is kept
constexpr int64_t kRowBlock = 8;    // rows converted at a time
constexpr int64_t kNarrow = 32;     // rows up to here are joined into wider ones where memory allows it
constexpr int64_t kJoined = 64;     // elements of which these have at most

// Rows of this width are joined by the loops themselves.
constexpr bool has_turns(int64_t width) { return width > 0 && 8 % width == 0; }

constexpr ReduceStep kSteps[] = {
    kSum,          // none
    kSum,          // sum
    kSum,          // mean
    kProduct,      // product
    kMaximum,      // maximum
    kMinimum,      // minimum
    kAll,          // all
    kAny,          // any
    kSumSquares,   // sum of squares
    kSumAbsolute,  // L1 norm
    kSumSquares,   // L2 norm
    kMaximum,      // log_sum_exp: of the first pass; kSumExp follows
};

ComputeType choose_type(uhal_reduction reduction, uhal_dtype x, uhal_dtype y) {
  if (x == UHAL_FLOAT64 || y == UHAL_FLOAT64) return kDouble;
  // Exponentials take longer than conversions.
  if (is_floating(x)) return reduction == UHAL_REDUCE_LOG_SUM_EXP ? kFloat : narrow_type_of(x);
  if (is_floating(y)) return kFloat;
  if (reduction == UHAL_REDUCE_LOG_SUM_EXP) return kDouble;
  return x == UHAL_UINT64 ? kUint64 : kInt64;
}

// The accumulators' type, as ReduceRun has it; a double holds an int64's bits no better than the other way around.
ComputeType accumulator_type(ComputeType type) { return type == kInt64 || type == kUint64 ? type : kDouble; }

template <class A>
A combine(ReduceStep step, A a, A b) {
  switch (step) {
    case kProduct:
    case kAll:
      return a * b;
    case kMaximum:
    case kAny:
      return (a > b || a != a) ? a : b;
    case kMinimum:
      return (a < b || a != a) ? a : b;
    default:
      return a + b;
  }
}

// The value of a step over nothing, for elements of x's dtype.
template <class A>
A neutral(ReduceStep step, uhal_dtype dtype) {
  switch (step) {
    case kProduct:
    case kAll:
      return 1;
    case kMaximum:
      if (std::numeric_limits<A>::has_infinity) return -std::numeric_limits<A>::infinity();
      return static_cast<A>(lowest_integer(dtype));
    case kMinimum:
      if (std::numeric_limits<A>::has_infinity) return std::numeric_limits<A>::infinity();
      return static_cast<A>(highest_integer(dtype));
    default:
      return 0;
  }
}

// The result, from the accumulated value of `count` elements.
template <class A>
A finish(uhal_reduction reduction, A value, double shift, int64_t count) {
  switch (reduction) {
    case UHAL_REDUCE_MEAN:
      if (!std::numeric_limits<A>::has_infinity && count == 0) return 0;
      return value / static_cast<A>(count);
    case UHAL_REDUCE_L2_NORM:
      // A sum of squares is not negative: beyond the half of 64 bits it is still whole as an unsigned number.
      if constexpr (std::is_integral_v<A>) return static_cast<A>(std::sqrt(static_cast<double>(uint64_t(value))));
      return static_cast<A>(std::sqrt(static_cast<double>(value)));
    case UHAL_REDUCE_LOG_SUM_EXP:
      return static_cast<A>(std::log(static_cast<double>(value)) + shift);
    default:
      return value;
  }
}

// Whether finish() leaves values as they are.
bool is_finished(uhal_reduction reduction) {
  return reduction != UHAL_REDUCE_MEAN && reduction != UHAL_REDUCE_L2_NORM && reduction != UHAL_REDUCE_LOG_SUM_EXP;
}

// finish() of many values, without a question for each.
template <class A>
void finish_each(uhal_reduction reduction, const double* shifts, int64_t shift_step, int64_t reduced, int64_t count,
                 A* values) {
  if (is_finished(reduction)) return;
  if (reduction == UHAL_REDUCE_MEAN && (std::numeric_limits<A>::has_infinity || reduced != 0)) {
    const A divisor = static_cast<A>(reduced);
    for (int64_t i = 0; i < count; ++i) values[i] /= divisor;
    return;
  }
  for (int64_t i = 0; i < count; ++i) values[i] = finish(reduction, values[i], shifts[i * shift_step], reduced);
}

template <class A>
class Reduction {
 public:
  Reduction(const uhal_tensor& x, const uhal_tensor& y, const Space& space, uhal_reduction reduction, ComputeType type)
      : x_(x),
        y_(y),
        reduction_(reduction),
        step_(kSteps[reduction]),
        type_(type),
        kept_(axes_of(space, kY, Axes::kKept)),
        reduced_(axes_of(space, kY, Axes::kReduced)),
        // log_sum_exp shifts each output by its own maximum, which rows of accumulators cannot.
        rows_(space.strides[kY][space.rank - 1] != 0 && reduction != UHAL_REDUCE_LOG_SUM_EXP),
        width_(rows_ ? std::min(kept_.inner(), kRowWidth) : 1),
        chunks_(rows_ ? (kept_.inner() + width_ - 1) / width_ : 1),
        units_(rows_ ? kept_.count / kept_.inner() * chunks_ : kept_.count) {
    const int64_t stride = rows_ ? kept_.strides[kX][kept_.rank - 1] : reduced_.strides[kX][reduced_.rank - 1];
    in_place_ = x.dtype == compute_dtype(type) && stride == 1;
    // The extreme of narrow integers is found where they lie, without each becoming one of 64 bits.
    const int narrow = narrow_extreme_type(x.dtype);
    const bool largest = reduction == UHAL_REDUCE_MAXIMUM;
    if (!rows_ && stride == 1 && narrow != kExtremeTypes && (largest || reduction == UHAL_REDUCE_MINIMUM)) {
      extreme_place_ = vectors().extreme_place[largest][narrow];
    }
  }

  uhal_status run() {
    const int64_t total = kept_.count * reduced_.count;
    const int64_t threads = omp_get_max_threads();
    if (total >= kSerialWork && units_ < 2 * threads && reduced_.count >= 2 * threads) return run_slices(threads);
    if (!rows_) {
      parallel_for(units_, std::max<int64_t>(1, total / units_),
                   [&](int64_t begin, int64_t end) { reduce_outputs(begin, end); });
      return UHAL_OK;
    }
    parallel_for(units_, std::max<int64_t>(1, total / units_), [&](int64_t begin, int64_t end) {
      A values[kRowWidth];
      for (int64_t unit = begin; unit < end; ++unit) {
        const Unit part = locate(unit);
        std::fill_n(values, part.count, neutral<A>(step_, x_.dtype));
        accumulate(step_, part, 0, reduced_.count, 0, values);
        store(part, 0, values);
      }
    });
    return UHAL_OK;
  }

 private:
  // A piece of work: `count` outputs along the innermost kept axis (one, if that axis is reduced).
  struct Unit {
    int64_t x;  // offsets of the first
    int64_t y;
    int64_t count;
  };

  Unit locate(int64_t unit) const {
    if (!rows_) {
      const Cursor cursor(kept_, unit);
      return {cursor.offset(kX), cursor.offset(kY), 1};
    }
    const int64_t column = unit % chunks_ * width_;
    const Cursor cursor(kept_, unit / chunks_ * kept_.inner() + column);
    return {cursor.offset(kX), cursor.offset(kY), std::min(width_, kept_.inner() - column)};
  }

  const char* at(int64_t offset) const { return static_cast<const char*>(x_.data) + offset * dtype_size(x_.dtype); }

  // An infinite maximum would make x - maximum NaN.
  static double finite_or_zero(A value) {
    const double shift = static_cast<double>(value);
    return shift - shift == 0 ? shift : 0;
  }

  // Outputs of runs, of which those along the innermost kept axis are located and stored together.
  void reduce_outputs(int64_t begin, int64_t end) const {
    A values[kRowWidth];
    double shifts[kRowWidth];
    const int last = kept_.rank - 1;
    const int64_t x_step = kept_.strides[kX][last], y_step = kept_.strides[kY][last];
    Cursor cursor(kept_, begin);
    while (begin < end) {
      const int64_t count = std::min({end - begin, cursor.run(), kRowWidth});
      const Unit first = {cursor.offset(kX), cursor.offset(kY), 1};
      std::fill_n(values, count, neutral<A>(step_, x_.dtype));
      std::fill_n(shifts, count, 0.0);
      accumulate_outputs(step_, first, x_step, count, shifts, values);
      if (reduction_ == UHAL_REDUCE_LOG_SUM_EXP) {
        for (int64_t i = 0; i < count; ++i) shifts[i] = finite_or_zero(values[i]);
        std::fill_n(values, count, A{0});
        accumulate_outputs(kSumExp, first, x_step, count, shifts, values);
      }
      finish_each(reduction_, shifts, 1, reduced_.count, count, values);
      char* const to = static_cast<char*>(y_.data) + first.y * dtype_size(y_.dtype);
      vectors().store[accumulator_type(type_)][y_.dtype](count, values, to, y_step);
      cursor.advance(count);
      begin += count;
    }
  }

  void accumulate_outputs(ReduceStep step, const Unit& first, int64_t x_step, int64_t count, const double* shifts,
                          A* values) const {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t offset = first.x + i * x_step;
      if (reduced_.rank == 1) {
        accumulate_run(step, offset, reduced_.count, shifts[i], values + i);
      } else {
        accumulate(step, {offset, 0, 1}, 0, reduced_.count, shifts[i], values + i);
      }
    }
  }

  // Combines the reduced positions [begin, end) of a unit into its accumulators.
  void accumulate(ReduceStep step, const Unit& unit, int64_t begin, int64_t end, double shift, A* values) const {
    Cursor cursor(reduced_, begin);
    while (begin < end) {
      const int64_t run = std::min(end - begin, cursor.run());
      const int64_t offset = unit.x + cursor.offset(kX);
      if (rows_) {
        accumulate_rows(step, offset, run, unit.count, values);
      } else {
        accumulate_run(step, offset, run, shift, values);
      }
      cursor.advance(run);
      begin += run;
    }
  }

  void accumulate_run(ReduceStep step, int64_t offset, int64_t count, double shift, A* value) const {
    const ReduceRun loop = vectors().reduce_run[step][type_];
    const float narrow_shift = static_cast<float>(shift);
    const void* shift_pointer = type_ == kDouble ? static_cast<const void*>(&shift) : &narrow_shift;
    if (in_place_) {
      loop(count, at(offset), shift_pointer, value);
      return;
    }
    const int64_t stride = reduced_.strides[kX][reduced_.rank - 1];
    const LoadLoop load = vectors().load[x_.dtype][type_];
    if (extreme_place_ != nullptr) {
      for (int64_t i = 0; i < count; i += INT32_MAX) {
        const int64_t place = extreme_place_(std::min<int64_t>(count - i, INT32_MAX), at(offset + i));
        A extreme;
        load(1, at(offset + i + place), 1, &extreme);
        *value = combine<A>(step, *value, extreme);
      }
      return;
    }
    BlockBuffer buffer;
    for (int64_t i = 0; i < count; i += kBlock) {
      const int64_t length = std::min(kBlock, count - i);
      load(length, at(offset + i * stride), stride, buffer.bytes);
      loop(length, buffer.bytes, shift_pointer, value);
    }
  }

  void accumulate_rows(ReduceStep step, int64_t offset, int64_t rows, int64_t width, A* values) const {
    const int64_t row_stride = reduced_.strides[kX][reduced_.rank - 1];
    if (in_place_ && row_stride == width && width <= kNarrow && !has_turns(width)) {
      // Rows that lie one after the other are joined, so that vectors are full; the joined sums are folded at the end.
      const int64_t joined = kJoined / width;
      A wide[kJoined];
      std::fill_n(wide, joined * width, neutral<A>(step, x_.dtype));
      combine_rows(step, offset, rows / joined, joined * width, joined * width, wide);
      for (int64_t i = 0; i < joined * width; ++i) values[i % width] = combine(step, values[i % width], wide[i]);
      offset += rows / joined * joined * width;
      rows %= joined;
    }
    combine_rows(step, offset, rows, row_stride, width, values);
  }

  void combine_rows(ReduceStep step, int64_t offset, int64_t rows, int64_t row_stride, int64_t width, A* values) const {
    const ReduceRows loop = vectors().reduce_rows[step][type_];
    if (in_place_) {
      loop(width, rows, at(offset), row_stride, values);
      return;
    }
    const int64_t stride = kept_.strides[kX][kept_.rank - 1];
    const LoadLoop load = vectors().load[x_.dtype][type_];
    alignas(64) char buffer[kRowBlock * kRowWidth * 8];
    for (int64_t i = 0; i < rows; i += kRowBlock) {
      const int64_t block = std::min(kRowBlock, rows - i);
      for (int64_t r = 0; r < block; ++r) {
        load(width, at(offset + (i + r) * row_stride), stride, buffer + r * width * compute_size(type_));
      }
      loop(width, block, buffer, width, values);
    }
  }

  void store(const Unit& unit, double shift, A* values) const {
    finish_each(reduction_, &shift, 0, reduced_.count, unit.count, values);
    const int64_t stride = rows_ ? kept_.strides[kY][kept_.rank - 1] : 1;
    char* to = static_cast<char*>(y_.data) + unit.y * dtype_size(y_.dtype);
    vectors().store[accumulator_type(type_)][y_.dtype](unit.count, values, to, stride);
  }

  // Each thread reduces its slice of all outputs; their accumulators are combined at the end.
  uhal_status run_slices(int64_t slices) {
    const int64_t outputs = units_ * width_;
    ScratchFrame frame;
    A* values = frame.take<A>(static_cast<size_t>(slices * outputs));
    double* shifts = frame.take<double>(static_cast<size_t>(units_));
    if (values == nullptr || shifts == nullptr) {
      return fail(UHAL_RESOURCE_EXHAUSTED, "reduce: the host has no memory left for partial results");
    }
    std::fill_n(shifts, units_, 0.0);
    combine_slices(step_, slices, shifts, values);
    if (reduction_ == UHAL_REDUCE_LOG_SUM_EXP) {
      for (int64_t unit = 0; unit < units_; ++unit) shifts[unit] = finite_or_zero(values[unit]);
      combine_slices(kSumExp, slices, shifts, values);
    }
    for (int64_t unit = 0; unit < units_; ++unit) store(locate(unit), shifts[unit], values + unit * width_);
    return UHAL_OK;
  }

  void combine_slices(ReduceStep step, int64_t slices, const double* shifts, A* values) const {
    const int64_t outputs = units_ * width_;
    std::fill_n(values, slices * outputs, neutral<A>(step, x_.dtype));
    parallel_for(slices, kSerialWork, [&](int64_t begin, int64_t end) {
      for (int64_t slice = begin; slice < end; ++slice) {
        const int64_t first = reduced_.count * slice / slices;
        const int64_t last = reduced_.count * (slice + 1) / slices;
        for (int64_t unit = 0; unit < units_; ++unit) {
          accumulate(step, locate(unit), first, last, shifts[unit], values + slice * outputs + unit * width_);
        }
      }
    });
    for (int64_t i = outputs; i < slices * outputs; ++i) {
      values[i % outputs] = combine(step, values[i % outputs], values[i]);
    }
  }

  const uhal_tensor& x_;
  const uhal_tensor& y_;
  const uhal_reduction reduction_;
  const ReduceStep step_;
  const ComputeType type_;
  const Space kept_;
  const Space reduced_;
  const bool rows_;       // the innermost axis is kept
  const int64_t width_;   // outputs per unit, at most
  const int64_t chunks_;  // units along the innermost kept axis
  const int64_t units_;
  bool in_place_;
  ExtremePlace extreme_place_ = nullptr;  // of runs of narrow integers
};

int64_t element_count(const uhal_tensor& view) {
  int64_t count = 1;
  for (int i = 0; i < view.rank; ++i) count *= view.shape[i];
  return count;
}

template <class A>
uhal_status reduce(const uhal_tensor& x, const uhal_tensor& y, uhal_reduction reduction, ComputeType type) {
  if (element_count(y) == 0) return UHAL_OK;
  if (element_count(x) == 0) {
    const A value = finish<A>(reduction, neutral<A>(kSteps[reduction], x.dtype), 0, 0);
    const bool logarithm = reduction == UHAL_REDUCE_LOG_SUM_EXP;
    const double floating = logarithm ? -std::numeric_limits<double>::infinity() : static_cast<double>(value);
    const bool representable = std::numeric_limits<A>::is_integer || floating - floating == 0;
    fill_view(floating, representable ? static_cast<int64_t>(value) : 0, y);
    return UHAL_OK;
  }
  const uhal_tensor* views[] = {&x, &y};
  const Space space = make_space(views, 2);
  return Reduction<A>(x, y, space, reduction, type).run();
}

// -- products of complex numbers; of sums the parts are summed up

struct ComplexDouble {
  double x, y;
};

ComplexDouble multiply(ComplexDouble a, ComplexDouble b) { return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x}; }

// The product of `count` elements, `stride` apart, in several chains: one would wait for each multiplication.
ComplexDouble multiply_run(LoadLoop load, int64_t count, const char* from, int64_t stride, int64_t size) {
  constexpr int64_t kChains = 4;
  ComplexDouble products[kChains] = {{1, 0}, {1, 0}, {1, 0}, {1, 0}};
  BlockBuffer buffer;
  const auto* values = reinterpret_cast<const ComplexDouble*>(buffer.bytes);
  for (int64_t i = 0; i < count; i += kBlock) {
    const int64_t length = std::min(kBlock, count - i);
    load(length, from + i * stride * size, stride, buffer.bytes);
    for (int64_t j = 0; j < length; ++j) products[j % kChains] = multiply(products[j % kChains], values[j]);
  }
  return multiply(multiply(products[0], products[1]), multiply(products[2], products[3]));
}

void multiply_complex(const uhal_tensor& x, const uhal_tensor& y) {
  const uhal_tensor* views[] = {&x, &y};
  const Space space = make_space(views, 2);
  const Space kept = axes_of(space, kY, Axes::kKept);
  const Space reduced = axes_of(space, kY, Axes::kReduced);
  const LoadLoop load = vectors().load[x.dtype][kComplexDouble];
  const StoreLoop store = vectors().store[kComplexDouble][y.dtype];
  const int64_t size = dtype_size(x.dtype);
  parallel_for(kept.count, 2 * reduced.count, [&](int64_t begin, int64_t end) {
    Cursor output(kept, begin);
    for (; begin < end; ++begin, output.advance(1)) {
      ComplexDouble product = {1, 0};
      Cursor cursor(reduced, 0);
      for (int64_t done = 0; done < reduced.count;) {
        const int64_t run = cursor.run();
        const char* from = static_cast<const char*>(x.data) + (output.offset(kX) + cursor.offset(kX)) * size;
        product = multiply(product, multiply_run(load, run, from, reduced.strides[kX][reduced.rank - 1], size));
        cursor.advance(run);
        done += run;
      }
      store(1, &product, static_cast<char*>(y.data) + output.offset(kY) * dtype_size(y.dtype), 1);
    }
  });
}

uhal_status reduce_real(const uhal_tensor& x, const uhal_tensor& y, uhal_reduction reduction) {
  const ComputeType type = choose_type(reduction, x.dtype, y.dtype);
  switch (accumulator_type(type)) {
    case kInt64:
      return reduce<int64_t>(x, y, reduction, type);
    case kUint64:
      return reduce<uint64_t>(x, y, reduction, type);
    default:
      return reduce<double>(x, y, reduction, type);
  }
}

uhal_status fill_zeros(const uhal_tensor& view) {
  fill_view(0, 0, view);
  return UHAL_OK;
}

}  // namespace

const char* refuse_reduce(const uhal_op& op) {
  const uhal_reduction reduction = reduction_of(op);
  if (!is_known(reduction)) return refusal("reduce: reduction %d is unknown to this build of the stub", reduction);
  for (const uhal_tensor* view : {op.inputs[0], op.outputs[0]}) {
    if (is_complex(view->dtype) && !reduces_complex(reduction)) {
      return refusal("reduce %s is not defined on complex numbers, got %s; expected sum, mean or product",
                     reduction_name(reduction), dtype_name(view->dtype));
    }
  }
  return nullptr;
}

uhal_status run_reduce(const Launch& launch) {
  const uhal_tensor& x = *launch.op.inputs[0];
  const uhal_tensor& y = *launch.op.outputs[0];
  const uhal_reduction reduction = reduction_of(launch.op);
  if (!is_complex(x.dtype) && !is_complex(y.dtype)) return reduce_real(x, y, reduction);
  if (reduces_parts(reduction, x, y)) {
    const auto run = [&](const uhal_tensor& from, const uhal_tensor& to) { return reduce_real(from, to, reduction); };
    return run_on_parts(x, y, run, fill_zeros);
  }
  if (element_count(y) == 0) return UHAL_OK;
  if (element_count(x) == 0) {
    fill_view(1, 1, y);
  } else {
    multiply_complex(x, y);
  }
  return UHAL_OK;
}

}  // namespace unihal::stub
