// UHAL_OP_SCAN: row by row along one axis.

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "csrc/backends/common/attributes.h"
#include "csrc/backends/common/complex_parts.h"
#include "csrc/backends/common/reduction.h"
#include "stub/common/rows.h"
#include "stub/ops/axis_rows.h"
#include "stub/ops/copy.h"
#include "stub/vector/transpose.h"
#include "stub/vector/vectorize.h"

namespace unihal::stub {
namespace {

// log(exp(a) + exp(b)); infinities and NaN as in that.
template <class A>
A log_add(A a, A b) {
  const A larger = a > b ? a : b, smaller = a > b ? b : a;
  if (larger - larger != A(0)) return smaller != smaller ? smaller : larger;
  return larger + std::log1p(std::exp(smaller - larger));
}

template <class A>
A combine(uhal_reduction reduction, A a, A b) {
  switch (reduction) {
    case UHAL_REDUCE_PRODUCT:
      return a * b;
    case UHAL_REDUCE_MAXIMUM:
      return (a > b || a != a) ? a : b;
    case UHAL_REDUCE_MINIMUM:
      return (a < b || a != a) ? a : b;
    case UHAL_REDUCE_LOG_SUM_EXP:
      if constexpr (std::is_floating_point_v<A>) return log_add(a, b);
      [[fallthrough]];
    default:
      return a + b;
  }
}

struct ComplexDouble {
  double x, y;
};

// Of complex numbers there are products and sums.
template <>
ComplexDouble combine(uhal_reduction reduction, ComplexDouble a, ComplexDouble b) {
  if (reduction != UHAL_REDUCE_PRODUCT) return {a.x + b.x, a.y + b.y};
  return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x};
}

// What an exclusive scan of a dtype begins with.
template <class A>
A start(uhal_reduction reduction, uhal_dtype dtype) {
  using Limits = std::numeric_limits<A>;
  switch (reduction) {
    case UHAL_REDUCE_PRODUCT:
      return 1;
    case UHAL_REDUCE_MAXIMUM:
    case UHAL_REDUCE_LOG_SUM_EXP:
      return Limits::has_infinity ? -Limits::infinity() : static_cast<A>(lowest_integer(dtype));
    case UHAL_REDUCE_MINIMUM:
      return Limits::has_infinity ? Limits::infinity() : static_cast<A>(highest_integer(dtype));
    default:
      return 0;
  }
}

template <>
ComplexDouble start(uhal_reduction reduction, uhal_dtype) {
  return {reduction == UHAL_REDUCE_PRODUCT ? 1.0 : 0.0, 0};
}

// results[i] = the values up to i combined, or those before it; `total` is carried on.
template <uhal_reduction reduction, class A>
void scan_block(int64_t count, const A* values, bool exclusive, A& carried, A* results) {
  A total = carried;
  if (exclusive) {
    for (int64_t i = 0; i < count; ++i) {
      const A value = values[i];  // the results may take the values' place
      results[i] = total;
      total = combine(reduction, total, value);
    }
  } else {
    for (int64_t i = 0; i < count; ++i) results[i] = total = combine(reduction, total, values[i]);
  }
  carried = total;
}

template <class T>
struct FourOf {
  typedef T Vector __attribute__((vector_size(4 * sizeof(T)), aligned(sizeof(T)), may_alias));
};

// The same of sums, four by four as vectors: what the next four wait for is one addition. Sums of numbers that A has
// bits to spare for may be formed in any order, and whole numbers wrap in any.
template <bool exclusive, class From, class A, class To>
UNIHAL_VECTORIZED void sum_fours(int64_t count, const From* values, A& carried, To* results) {
  using Sums = typename FourOf<A>::Vector;
  using Values = typename FourOf<From>::Vector;
  using Results = typename FourOf<To>::Vector;
  using Places [[maybe_unused]] = typename FourOf<std::conditional_t<sizeof(A) == 8, int64_t, int32_t>>::Vector;
  constexpr int64_t kFour = 4;
  const Sums none = {};
  Sums total = none + carried;
  int64_t i = 0;
  for (; i + kFour <= count; i += kFour) {
    Sums sums = __builtin_convertvector(*reinterpret_cast<const Values*>(values + i), Sums);
    sums += UNIHAL_SHUFFLE(none, sums, Places, 0, 4, 5, 6);
    sums += UNIHAL_SHUFFLE(none, sums, Places, 0, 1, 4, 5);
    Sums before = sums;
    if constexpr (exclusive) before = UNIHAL_SHUFFLE(none, sums, Places, 0, 4, 5, 6);
    *reinterpret_cast<Results*>(results + i) = __builtin_convertvector(total + before, Results);
    total += UNIHAL_SHUFFLE(sums, sums, Places, 3, 3, 3, 3);
  }
  A sum = total[0];
  for (; i < count; ++i) {
    const A next = sum + static_cast<A>(values[i]);
    results[i] = static_cast<To>(exclusive ? sum : next);
    sum = next;
  }
  carried = sum;
}

template <class A>
void sum_block(int64_t count, const A* values, bool exclusive, A& carried, A* results) {
  exclusive ? sum_fours<true>(count, values, carried, results) : sum_fours<false>(count, values, carried, results);
}

// Sums of rows that are read and written in their own types.
using SumRow = void (*)(int64_t, const void*, void*);

template <bool exclusive, class From, class A, class To>
void sum_row(int64_t count, const void* values, void* results) {
  A none = 0;
  sum_fours<exclusive>(count, static_cast<const From*>(values), none, static_cast<To*>(results));
}

// nullptr where rows go through blocks of A.
template <class A>
SumRow sum_row_of(const uhal_scan_attributes& attributes, uhal_dtype from, uhal_dtype to) {
  if (attributes.reduction != UHAL_REDUCE_SUM || attributes.reverse != 0) return nullptr;
  const bool exclusive = attributes.exclusive != 0;
  if constexpr (std::is_same_v<A, double>) {
    if (from == UHAL_FLOAT32 && to == UHAL_FLOAT32) {
      return exclusive ? sum_row<true, float, A, float> : sum_row<false, float, A, float>;
    }
  }
  if constexpr (std::is_same_v<A, int64_t>) {
    if (from == UHAL_INT32 && to == UHAL_INT32) {
      return exclusive ? sum_row<true, int32_t, int32_t, int32_t> : sum_row<false, int32_t, int32_t, int32_t>;
    }
    if (from == UHAL_INT32 && to == UHAL_INT64) {
      return exclusive ? sum_row<true, int32_t, A, int64_t> : sum_row<false, int32_t, A, int64_t>;
    }
  }
  return nullptr;
}

// Logarithms of sums by exponentials of what is left when the largest number is taken away. False, and nothing is done,
// where one of them is no number or infinite, or the first one so much smaller that nothing is left of it.
bool log_sums(int64_t count, const double* values, bool exclusive, double& carried, double* results) {
  constexpr double kWidest = 600;
  constexpr double kNoParameters[UHAL_MAP_MAX_PARAMETERS] = {};
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double largest = carried;
  bool other = !(carried < kInfinity);
  for (int64_t i = 0; i < count; ++i) {
    largest = values[i] > largest ? values[i] : largest;
    other |= !(values[i] < kInfinity);
  }
  const double first = carried > values[0] ? carried : values[0];
  if (other || !(largest - first <= kWidest)) return false;
  if (exclusive && largest - carried > kWidest && carried > -kInfinity) return false;
  for (int64_t i = 0; i < count; ++i) results[i] = values[i] - largest;
  const void* inputs[] = {results};
  void* outputs[] = {results};
  vectors().map[uhal_map_exp][kDouble](count, inputs, outputs, kNoParameters);
  double total = std::exp(carried - largest);
  sum_block(count, results, exclusive, total, results);
  vectors().map[uhal_map_log][kDouble](count, inputs, outputs, kNoParameters);
  for (int64_t i = 0; i < count; ++i) results[i] += largest;
  carried = exclusive ? std::log(total) + largest : results[count - 1];
  return true;
}

template <class A>
void log_sum_block(int64_t count, const A* values, bool exclusive, A& carried, A* results) {
  if constexpr (std::is_same_v<A, double>) {
    if (log_sums(count, values, exclusive, carried, results)) return;
  }
  scan_block<UHAL_REDUCE_LOG_SUM_EXP>(count, values, exclusive, carried, results);
}

template <class A>
using ScanBlock = void (*)(int64_t, const A*, bool, A&, A*);

// Sums of float64 are formed one by one, as everybody forms them.
template <class A>
ScanBlock<A> scan_block_of(uhal_reduction reduction, uhal_dtype dtype) {
  switch (reduction) {
    case UHAL_REDUCE_PRODUCT:
      return scan_block<UHAL_REDUCE_PRODUCT, A>;
    case UHAL_REDUCE_MAXIMUM:
      return scan_block<UHAL_REDUCE_MAXIMUM, A>;
    case UHAL_REDUCE_MINIMUM:
      return scan_block<UHAL_REDUCE_MINIMUM, A>;
    case UHAL_REDUCE_LOG_SUM_EXP:
      return log_sum_block<A>;
    default:
      if constexpr (std::is_arithmetic_v<A>) {
        if (dtype != UHAL_FLOAT64) return sum_block<A>;
      }
      return scan_block<UHAL_REDUCE_SUM, A>;
  }
}

// -- along an axis that is not the innermost one: columns that lie side by side together

constexpr int64_t kColumns = 256;

// results[i] = column i's values so far combined, or those before; `totals` are carried on. Both may be one memory.
template <uhal_reduction reduction, bool exclusive, class From, class A, class To>
UNIHAL_VECTORIZED void scan_columns(int64_t count, const void* values, A* __restrict totals, void* results) {
  const From* const from = static_cast<const From*>(values);
  To* const to = static_cast<To*>(results);
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    const A before = totals[i], next = combine(reduction, before, static_cast<A>(from[i]));
    to[i] = static_cast<To>(exclusive ? before : next);
    totals[i] = next;
  }
}

template <class A>
using ScanColumns = void (*)(int64_t, const void*, A*, void*);

template <bool exclusive, class From, class A, class To>
ScanColumns<A> scan_columns_as(uhal_reduction reduction) {
  switch (reduction) {
    case UHAL_REDUCE_SUM:
      return scan_columns<UHAL_REDUCE_SUM, exclusive, From, A, To>;
    case UHAL_REDUCE_PRODUCT:
      return scan_columns<UHAL_REDUCE_PRODUCT, exclusive, From, A, To>;
    case UHAL_REDUCE_MAXIMUM:
      return scan_columns<UHAL_REDUCE_MAXIMUM, exclusive, From, A, To>;
    case UHAL_REDUCE_MINIMUM:
      return scan_columns<UHAL_REDUCE_MINIMUM, exclusive, From, A, To>;
    default:
      return nullptr;
  }
}

// nullptr where columns go one by one: of other dtypes, and of logarithms of sums.
template <class A>
ScanColumns<A> scan_columns_of(const uhal_scan_attributes& attributes, uhal_dtype from, uhal_dtype to) {
  const auto as = [&](auto value, auto result) {
    using From = decltype(value);
    using To = decltype(result);
    return attributes.exclusive != 0 ? scan_columns_as<true, From, A, To>(attributes.reduction)
                                     : scan_columns_as<false, From, A, To>(attributes.reduction);
  };
  if constexpr (std::is_same_v<A, double>) {
    if (from == UHAL_FLOAT32 && to == UHAL_FLOAT32) return as(float{}, float{});
    if (from == UHAL_FLOAT64 && to == UHAL_FLOAT64) return as(double{}, double{});
  }
  if constexpr (std::is_same_v<A, int64_t>) {
    if (from == UHAL_INT32 && to == UHAL_INT32) return as(int32_t{}, int32_t{});
    if (from == UHAL_INT32 && to == UHAL_INT64) return as(int32_t{}, int64_t{});
    if (from == UHAL_INT64 && to == UHAL_INT64) return as(int64_t{}, int64_t{});
  }
  return nullptr;
}

// The axis whose elements lie side by side in both views, and are worth going along; -1 if there is none.
int columns_axis(const uhal_tensor& x, const uhal_tensor& y, int axis) {
  constexpr int64_t kFewColumns = 8;
  for (int i = 0; i < x.rank; ++i) {
    if (i != axis && x.strides[i] == 1 && y.strides[i] == 1 && x.shape[i] >= kFewColumns) return i;
  }
  return -1;
}

// The first row of each block of columns.
uhal_tensor column_blocks(const uhal_tensor& view, int axis, int columns) {
  uhal_tensor blocks = first_along(view, axis);
  blocks.shape[columns] = (view.shape[columns] + kColumns - 1) / kColumns;
  blocks.strides[columns] *= kColumns;
  return blocks;
}

template <class A>
void scan_all_columns(const uhal_tensor& x, const uhal_tensor& y, const uhal_scan_attributes& attributes, int columns,
                      ScanColumns<A> run) {
  const int axis = attributes.axis;
  uhal_tensor numbers = column_blocks(x, axis, columns);  // counts the blocks, in place of memory
  std::fill_n(numbers.strides, numbers.rank, int64_t{0});
  numbers.strides[columns] = 1;
  const uhal_tensor first_x = column_blocks(x, axis, columns), first_y = column_blocks(y, axis, columns);
  const uhal_tensor* views[] = {&first_y, &first_x, &numbers};
  for_each_position(make_space(views, 3), x.shape[axis] * kColumns, [&](const Cursor& cursor) {
    Row from(x, axis, cursor.offset(1));
    Row to(y, axis, cursor.offset(0));
    if (attributes.reverse) {
      from = reversed(from);
      to = reversed(to);
    }
    const int64_t count = std::min(kColumns, x.shape[columns] - cursor.offset(2) * kColumns);
    A totals[kColumns];
    std::fill_n(totals, count, start<A>(attributes.reduction, x.dtype));
    for (int64_t row = 0; row < from.length; ++row) run(count, from.at(row), totals, to.at(row));
  });
}

template <class A>
void scan(const uhal_tensor& x, const uhal_tensor& y, const uhal_scan_attributes& attributes, ComputeType type) {
  const int axis = attributes.axis;
  if constexpr (std::is_arithmetic_v<A>) {
    const int columns = columns_axis(x, y, axis);
    const ScanColumns<A> run = columns >= 0 ? scan_columns_of<A>(attributes, x.dtype, y.dtype) : nullptr;
    if (run != nullptr) return scan_all_columns(x, y, attributes, columns, run);
  }
  const uhal_tensor first_x = first_along(x, axis);
  const uhal_tensor first_y = first_along(y, axis);
  const uhal_tensor* views[] = {&first_y, &first_x};
  const StoreLoop store = vectors().store[type][y.dtype];
  const ScanBlock<A> block = scan_block_of<A>(attributes.reduction, x.dtype);
  const uhal_dtype own = compute_dtype(type);
  const bool neighbours = x.strides[axis] == 1 && y.strides[axis] == 1;
  const SumRow sum = neighbours ? sum_row_of<A>(attributes, x.dtype, y.dtype) : nullptr;
  for_each_position(make_space(views, 2), x.shape[axis], [&](const Cursor& cursor) {
    Row from(x, axis, cursor.offset(1));
    Row to(y, axis, cursor.offset(0));
    if (sum != nullptr) return sum(from.length, from.at(0), to.at(0));
    if (attributes.reverse) {
      from = reversed(from);
      to = reversed(to);
    }
    A total = start<A>(attributes.reduction, x.dtype);
    read_row<A>(from, type, [&](int64_t begin, int64_t count, const A* values) {
      if (to.dtype == own && to.stride == 1) {
        block(count, values, attributes.exclusive != 0, total, reinterpret_cast<A*>(to.at(begin)));
        return;
      }
      A results[kBlock];
      block(count, values, attributes.exclusive != 0, total, results);
      store(count, results, to.at(begin), to.stride);
    });
  });
}

// -- maxima and minima with their places

// Elements that are looked at together: mostly none of them is a new extreme.
constexpr int64_t kLook = 16;

// The extreme of the elements so far, and where in the order of the scan it was last.
template <bool largest, class T>
struct Extreme {
  T value;
  int64_t place;

  // Whether a later element may take its place: of equals the last, and NaN is the extreme. True for any after NaN.
  bool may_yield(T next) const { return largest ? !(next < value) : !(next > value); }
  bool yields(T next) const { return may_yield(next) && (value == value || next != next); }
};

// results[i], positions[i] = the extreme after values[i] and where it is: origin + direction * its place.
template <bool largest, class T>
void place_block(int64_t count, const T* values, int64_t begin, int64_t origin, int64_t direction,
                 Extreme<largest, T>& carried, T* results, int64_t* positions) {
  Extreme<largest, T> extreme = carried;
  int64_t position = origin + direction * extreme.place;
  for (int64_t i = 0; i < count; i += kLook) {
    const int64_t end = std::min(count, i + kLook);
    if (end - i == kLook) {
      int changes = 0;
      for (int64_t j = 0; j < kLook; ++j) changes |= extreme.may_yield(values[i + j]) ? 1 : 0;
      if (changes == 0) {
        std::fill_n(results + i, kLook, extreme.value);
        std::fill_n(positions + i, kLook, position);
        continue;
      }
    }
    for (int64_t j = i; j < end; ++j) {
      if (extreme.yields(values[j])) {
        extreme = {values[j], begin + j};
        position = origin + direction * extreme.place;
      }
      results[j] = extreme.value;
      positions[j] = position;
    }
  }
  carried = extreme;
}

template <bool largest, class T>
void scan_places(const uhal_op& op, int axis, bool reverse, ComputeType type) {
  const uhal_tensor& x = *op.inputs[0];
  const uhal_tensor& y = *op.outputs[0];
  const uhal_tensor& indices = *op.outputs[1];
  const uhal_tensor first_x = first_along(x, axis);
  const uhal_tensor first_y = first_along(y, axis);
  const uhal_tensor first_indices = first_along(indices, axis);
  const uhal_tensor* views[] = {&first_y, &first_x, &first_indices};
  const StoreLoop store = vectors().store[type][y.dtype];
  const StoreLoop store_position = vectors().store[kInt64][indices.dtype];
  const int64_t origin = reverse ? x.shape[axis] - 1 : 0;
  const int64_t direction = reverse ? -1 : 1;
  for_each_position(make_space(views, 3), x.shape[axis], [&](const Cursor& cursor) {
    Row from(x, axis, cursor.offset(1));
    Row to(y, axis, cursor.offset(0));
    Row at(indices, axis, cursor.offset(2));
    if (reverse) {
      from = reversed(from);
      to = reversed(to);
      at = reversed(at);
    }
    const bool own_values = to.dtype == compute_dtype(type) && to.stride == 1;
    const bool own_positions = at.dtype == UHAL_INT64 && at.stride == 1;
    Extreme<largest, T> extreme = {};
    read_row<T>(from, type, [&](int64_t begin, int64_t count, const T* values) {
      if (begin == 0) extreme = {values[0], 0};
      T results[kBlock];
      int64_t positions[kBlock];
      T* const to_values = own_values ? reinterpret_cast<T*>(to.at(begin)) : results;
      int64_t* const to_positions = own_positions ? reinterpret_cast<int64_t*>(at.at(begin)) : positions;
      place_block(count, values, begin, origin, direction, extreme, to_values, to_positions);
      if (!own_values) store(count, results, to.at(begin), to.stride);
      if (!own_positions) store_position(count, positions, at.at(begin), at.stride);
    });
  });
}

template <class T>
uhal_status run_places(const uhal_op& op, const uhal_scan_attributes& attributes, ComputeType type) {
  if (attributes.reduction == UHAL_REDUCE_MAXIMUM) {
    scan_places<true, T>(op, attributes.axis, attributes.reverse != 0, type);
  } else {
    scan_places<false, T>(op, attributes.axis, attributes.reverse != 0, type);
  }
  return UHAL_OK;
}

uhal_status run_places(const uhal_op& op, const uhal_scan_attributes& attributes) {
  switch (compute_type_of(op.inputs[0]->dtype)) {
    case kFloat:
      return run_places<float>(op, attributes, kFloat);
    case kDouble:
      return run_places<double>(op, attributes, kDouble);
    case kInt64:
      return run_places<int64_t>(op, attributes, kInt64);
    default:
      return run_places<uint64_t>(op, attributes, kUint64);
  }
}

// -- dispatch

uhal_scan_attributes scan_attributes(const uhal_op& op) {
  return attributes_or(op, uhal_scan_attributes{sizeof(uhal_scan_attributes), 0, UHAL_REDUCE_SUM, 0, 0});
}

}  // namespace

const char* refuse_scan(const uhal_op& op) {
  const uhal_reduction reduction = scan_attributes(op).reduction;
  if (!reduces_complex(reduction)) {
    if (const char* reason = refuse_unordered("scan of a maximum or minimum", op)) return reason;
  }
  if (reduction != UHAL_REDUCE_SUM && reduction != UHAL_REDUCE_PRODUCT && reduction != UHAL_REDUCE_MAXIMUM &&
      reduction != UHAL_REDUCE_MINIMUM && reduction != UHAL_REDUCE_LOG_SUM_EXP) {
    return refusal("scan: reduction %d is not supported; expected sum, product, maximum, minimum or log_sum_exp",
                   reduction);
  }
  return nullptr;
}

// Running sums of floating operands are kept in double, those of integers in 64 bits.
uhal_status run_scan(const Launch& launch) {
  const uhal_scan_attributes attributes = scan_attributes(launch.op);
  if (launch.op.output_count > 1 && launch.op.outputs[1] != nullptr) return run_places(launch.op, attributes);
  const auto run = [&](const uhal_tensor& x, const uhal_tensor& y) {
    if (is_complex(x.dtype) || is_complex(y.dtype)) {
      scan<ComplexDouble>(x, y, attributes, kComplexDouble);
    } else if (is_floating(x.dtype) || is_floating(y.dtype)) {
      scan<double>(x, y, attributes, kDouble);
    } else if (x.dtype == UHAL_UINT64) {
      scan<uint64_t>(x, y, attributes, kUint64);
    } else {
      scan<int64_t>(x, y, attributes, kInt64);
    }
    return UHAL_OK;
  };
  const auto zero = [](const uhal_tensor& view) {
    fill_view(0, 0, view);
    return UHAL_OK;
  };
  const uhal_tensor& x = *launch.op.inputs[0];
  const uhal_tensor& y = *launch.op.outputs[0];
  if (is_complex(x.dtype) && is_complex(y.dtype)) return run(x, y);  // both parts in one pass
  return reduces_parts(attributes.reduction, x, y) ? run_on_parts(x, y, run, zero) : run(x, y);
}

}  // namespace unihal::stub
