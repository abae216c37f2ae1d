// UHAL_OP_ARG_REDUCE, UHAL_OP_SCAN, UHAL_OP_SORT and UHAL_OP_TOP_K: work along one axis, row by row.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "csrc/backends/common/attributes.h"
#include "csrc/backends/common/complex_parts.h"
#include "csrc/backends/common/reduction.h"
#include "stub/common/blocks.h"
#include "stub/common/kernels.h"
#include "stub/common/rows.h"
#include "stub/common/scratch.h"
#include "stub/ops/copy.h"

namespace unihal::stub {
namespace {

// An operand's row: the elements along the axis from one position of the other axes on.
struct Row {
  char* data;
  int64_t length;
  int64_t stride;  // in elements
  uhal_dtype dtype;

  Row(const uhal_tensor& view, int axis, int64_t offset)
      : data(static_cast<char*>(view.data) + offset * dtype_size(view.dtype)),
        length(view.shape[axis]),
        stride(view.strides[axis]),
        dtype(view.dtype) {}

  char* at(int64_t index) const { return data + index * stride * dtype_size(dtype); }
};

// Reads a row in blocks of a compute type: body(first index, count, values).
template <class T, class Body>
void read_row(const Row& row, ComputeType type, const Body& body) {
  const LoadLoop load = vectors().load[row.dtype][type];
  const bool in_place = row.dtype == compute_dtype(type) && row.stride == 1;
  BlockBuffer buffer;
  for (int64_t begin = 0; begin < row.length; begin += kBlock) {
    const int64_t count = std::min(kBlock, row.length - begin);
    if (!in_place) load(count, row.at(begin), row.stride, buffer.bytes);
    body(begin, count, reinterpret_cast<const T*>(in_place ? row.at(begin) : buffer.bytes));
  }
}

void store_index(const Row& row, int64_t at, int64_t index) {
  if (row.dtype == UHAL_INT64) {
    *reinterpret_cast<int64_t*>(row.at(at)) = index;
  } else {
    *reinterpret_cast<int32_t*>(row.at(at)) = static_cast<int32_t>(index);
  }
}

// Whether a belongs before b. NaN counts as the largest: last, and first when descending.
template <class T>
bool before(T a, T b, bool descending) {
  const bool less = a < b || (b != b && a == a);
  const bool greater = a > b || (a != a && b == b);
  return descending ? greater : less;
}

// -- arg-reduce

// The first of the largest (smallest) elements, or the first NaN.
template <class T>
int64_t extreme_index(const Row& row, int type, bool largest) {
  constexpr int64_t kLongest = int64_t{1} << 30;  // elements at a time
  const ExtremePlace find = vectors().extreme_place[largest][type];
  int64_t best = -1;
  bool is_nan = false;
  T value = 0;
  const auto look = [&](int64_t begin, int64_t count, const T* values) {
    if (is_nan) return;  // the first one is final
    const int64_t place = find(count, values);
    if (place < 0) {
      best = begin + (std::find_if(values, values + count, [](T x) { return x != x; }) - values);
      is_nan = true;
    } else if (best < 0 || (largest ? values[place] > value : values[place] < value)) {
      best = begin + place;
      value = values[place];
    }
  };
  const bool in_place = type == kExtremeInt32 || row.dtype == compute_dtype(static_cast<ComputeType>(type));
  if (in_place && row.stride == 1) {
    for (int64_t begin = 0; begin < row.length; begin += kLongest) {
      look(begin, std::min(kLongest, row.length - begin), reinterpret_cast<const T*>(row.at(begin)));
    }
  } else if constexpr (!std::is_same_v<T, int32_t>) {
    read_row<T>(row, static_cast<ComputeType>(type), look);
  }
  return std::max<int64_t>(best, 0);
}

template <class T>
void arg_reduce(const uhal_tensor& x, const uhal_tensor& y, int axis, bool largest, int type) {
  const uhal_tensor first = first_along(x, axis);
  const uhal_tensor* views[] = {&y, &first};
  for_each_position(make_space(views, 2), x.shape[axis], [&](const Cursor& cursor) {
    store_index(Row(y, axis, cursor.offset(0)), 0, extreme_index<T>(Row(x, axis, cursor.offset(1)), type, largest));
  });
}

template <class T>
void arg_reduce(const uhal_tensor& x, const uhal_tensor& y, int axis, bool largest) {
  if (x.dtype == UHAL_INT32 && x.strides[axis] == 1) {  // half of what there would be to look at as int64
    arg_reduce<int32_t>(x, y, axis, largest, kExtremeInt32);
  } else {
    arg_reduce<T>(x, y, axis, largest, compute_type_of(x.dtype));
  }
}

// -- scan

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

// The same row from its other end.
Row reversed(Row row) {
  row.data = row.at(row.length - 1);
  row.stride = -row.stride;
  return row;
}

// results[i] = the values up to i combined, or those before it; `total` is carried on.
template <uhal_reduction reduction, class A>
void scan_block(int64_t count, const A* values, bool exclusive, A& carried, A* results) {
  A total = carried;
  if (exclusive) {
    for (int64_t i = 0; i < count; ++i) {
      results[i] = total;
      total = combine(reduction, total, values[i]);
    }
  } else {
    for (int64_t i = 0; i < count; ++i) results[i] = total = combine(reduction, total, values[i]);
  }
  carried = total;
}

template <class A>
using ScanBlock = void (*)(int64_t, const A*, bool, A&, A*);

template <class A>
ScanBlock<A> scan_block_of(uhal_reduction reduction) {
  switch (reduction) {
    case UHAL_REDUCE_PRODUCT:
      return scan_block<UHAL_REDUCE_PRODUCT, A>;
    case UHAL_REDUCE_MAXIMUM:
      return scan_block<UHAL_REDUCE_MAXIMUM, A>;
    case UHAL_REDUCE_MINIMUM:
      return scan_block<UHAL_REDUCE_MINIMUM, A>;
    case UHAL_REDUCE_LOG_SUM_EXP:
      return scan_block<UHAL_REDUCE_LOG_SUM_EXP, A>;
    default:
      return scan_block<UHAL_REDUCE_SUM, A>;
  }
}

template <class A>
void scan(const uhal_tensor& x, const uhal_tensor& y, const uhal_scan_attributes& attributes, ComputeType type) {
  const int axis = attributes.axis;
  const uhal_tensor first_x = first_along(x, axis);
  const uhal_tensor first_y = first_along(y, axis);
  const uhal_tensor* views[] = {&first_y, &first_x};
  const StoreLoop store = vectors().store[type][y.dtype];
  const ScanBlock<A> block = scan_block_of<A>(attributes.reduction);
  const uhal_dtype own = compute_dtype(type);
  for_each_position(make_space(views, 2), x.shape[axis], [&](const Cursor& cursor) {
    Row from(x, axis, cursor.offset(1));
    Row to(y, axis, cursor.offset(0));
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

// -- sort and top-k

template <class T>
struct Entry {
  T key;
  int64_t index;
};

// A whole number that is in the order of the values: NaN last, zeros of both signs the same.
template <class Key, class T>
Key ordered_key(T value, bool descending) {
  constexpr Key sign = Key(1) << (8 * sizeof(Key) - 1);
  Key key;
  if constexpr (std::is_floating_point_v<T>) {
    const T plain = value == 0 ? T(0) : value;
    std::memcpy(&key, &plain, sizeof key);
    key = value != value ? ~Key(0) : (key & sign) != 0 ? ~key : key | sign;
  } else {
    key = static_cast<Key>(value);
    if constexpr (std::is_signed_v<T>) key ^= sign;
  }
  return descending ? ~key : key;
}

// Rows from this length on are sorted digit by digit.
constexpr int64_t kRadixLength = 512;
constexpr int kDigitBits = 8, kDigits = 1 << kDigitBits;

template <class Key>
struct RadixEntry {
  Key key, index;
};

// Sorts by the key's digits, the lowest first; each pass keeps the order of equal ones. A digit that is the same in all
// keys takes no pass. Gives the one of both arrays that has the result.
template <class Key>
RadixEntry<Key>* radix_sort(RadixEntry<Key>* entries, RadixEntry<Key>* other, int64_t count) {
  constexpr int passes = static_cast<int>(sizeof(Key)) * 8 / kDigitBits;
  int64_t places[passes][kDigits] = {};
  for (int64_t i = 0; i < count; ++i) {
    for (int pass = 0; pass < passes; ++pass) ++places[pass][entries[i].key >> pass * kDigitBits & (kDigits - 1)];
  }
  for (int pass = 0; pass < passes; ++pass) {
    int64_t* const place = places[pass];
    const int shift = pass * kDigitBits;
    if (place[entries[0].key >> shift & (kDigits - 1)] == count) continue;
    int64_t before = 0;
    for (int digit = 0; digit < kDigits; ++digit) before += std::exchange(place[digit], before);
    for (int64_t i = 0; i < count; ++i) other[place[entries[i].key >> shift & (kDigits - 1)]++] = entries[i];
    std::swap(entries, other);
  }
  return entries;
}

template <class Key, class T>
bool radix_sort_row(const Row& x, ComputeType type, bool descending, const Row& values, const Row* indices) {
  ScratchFrame frame;
  const auto length = static_cast<size_t>(x.length);
  auto* entries = frame.take<RadixEntry<Key>>(length);
  auto* other = frame.take<RadixEntry<Key>>(length);
  T* const originals = frame.take<T>(length);
  if (entries == nullptr || other == nullptr || originals == nullptr) return false;
  read_row<T>(x, type, [&](int64_t begin, int64_t count, const T* row) {
    for (int64_t i = 0; i < count; ++i) {
      originals[begin + i] = row[i];
      entries[begin + i] = {ordered_key<Key>(row[i], descending), static_cast<Key>(begin + i)};
    }
  });
  entries = radix_sort(entries, other, x.length);
  const StoreLoop store = vectors().store[type][values.dtype];
  for (int64_t begin = 0; begin < values.length; begin += kBlock) {
    const int64_t count = std::min(kBlock, values.length - begin);
    T block[kBlock];
    for (int64_t i = 0; i < count; ++i) block[i] = originals[entries[begin + i].index];
    store(count, block, values.at(begin), values.stride);
    for (int64_t i = 0; i < count && indices != nullptr; ++i) {
      store_index(*indices, begin + i, static_cast<int64_t>(entries[begin + i].index));
    }
  }
  return true;
}

// Writes the first `values.length` entries of the sorted row; false when the host has no memory for it.
template <class T>
bool sort_row(const Row& x, ComputeType type, bool descending, const Row& values, const Row* indices) {
  if (x.length >= kRadixLength && values.length > x.length / 16) {
    const bool narrow = dtype_size(x.dtype) <= 4 && x.dtype != UHAL_UINT32 && x.length < UINT32_MAX;
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, int64_t>) {
      if (narrow) return radix_sort_row<uint32_t, T>(x, type, descending, values, indices);
    }
    if constexpr (!std::is_same_v<T, float>) {
      return radix_sort_row<uint64_t, T>(x, type, descending, values, indices);
    }
  }
  ScratchFrame frame;
  Entry<T>* entries = frame.take<Entry<T>>(static_cast<size_t>(x.length));
  if (entries == nullptr) return false;
  read_row<T>(x, type, [&](int64_t begin, int64_t count, const T* keys) {
    for (int64_t i = 0; i < count; ++i) entries[begin + i] = {keys[i], begin + i};
  });
  const auto order = [descending](const Entry<T>& a, const Entry<T>& b) {
    if (before(a.key, b.key, descending)) return true;
    if (before(b.key, a.key, descending)) return false;
    return a.index < b.index;
  };
  if (values.length < x.length) {
    std::partial_sort(entries, entries + values.length, entries + x.length, order);
  } else {
    std::sort(entries, entries + x.length, order);
  }
  const StoreLoop store = vectors().store[type][values.dtype];
  for (int64_t i = 0; i < values.length; ++i) {
    store(1, &entries[i].key, values.at(i), 1);
    if (indices != nullptr) store_index(*indices, i, entries[i].index);
  }
  return true;
}

template <class T>
uhal_status sort(const uhal_op& op, int axis, bool descending) {
  const uhal_tensor& x = *op.inputs[0];
  const uhal_tensor& values = *op.outputs[0];
  const uhal_tensor* indices = op.output_count > 1 ? op.outputs[1] : nullptr;
  if (values.shape[axis] == 0) return UHAL_OK;
  const uhal_tensor first_values = first_along(values, axis);
  const uhal_tensor first_x = first_along(x, axis);
  const uhal_tensor first_indices = first_along(indices != nullptr ? *indices : values, axis);
  const uhal_tensor* views[] = {&first_values, &first_x, &first_indices};
  const ComputeType type = compute_type_of(x.dtype);
  std::atomic<bool> exhausted{false};
  for_each_position(make_space(views, 3), 16 * x.shape[axis], [&](const Cursor& cursor) {
    const Row row(x, axis, cursor.offset(1));
    const Row sorted(values, axis, cursor.offset(0));
    bool done;
    if (indices != nullptr) {
      const Row positions(*indices, axis, cursor.offset(2));
      done = sort_row<T>(row, type, descending, sorted, &positions);
    } else {
      done = sort_row<T>(row, type, descending, sorted, nullptr);
    }
    if (!done) exhausted.store(true, std::memory_order_relaxed);
  });
  if (exhausted.load()) return fail(UHAL_RESOURCE_EXHAUSTED, "sort: the host has no memory left for a row");
  return UHAL_OK;
}

// -- dispatch

const char* refuse_unordered(const char* name, const uhal_op& op) {
  const uhal_tensor& x = *op.inputs[0];
  const uhal_tensor& y = *op.outputs[0];
  if (is_real(x.dtype) && is_real(y.dtype)) return nullptr;
  return refusal("%s: dtype %s is not supported, since complex numbers have no order", name,
                 dtype_name(is_real(x.dtype) ? y.dtype : x.dtype));
}

uhal_scan_attributes scan_attributes(const uhal_op& op) {
  return attributes_or(op, uhal_scan_attributes{sizeof(uhal_scan_attributes), 0, UHAL_REDUCE_SUM, 0, 0});
}

template <class T>
uhal_status run_ordered(const uhal_op& op) {
  const auto attributes = attributes_or(op, uhal_axis_attributes{sizeof(uhal_axis_attributes), 0, 0});
  const bool descending = (attributes.flags & UHAL_AXIS_DESCENDING) != 0;
  if (op.kind != UHAL_OP_ARG_REDUCE) return sort<T>(op, attributes.axis, descending);
  arg_reduce<T>(*op.inputs[0], *op.outputs[0], attributes.axis, descending);
  return UHAL_OK;
}

uhal_status run_by_type(const uhal_op& op) {
  switch (compute_type_of(op.inputs[0]->dtype)) {
    case kFloat:
      return run_ordered<float>(op);
    case kDouble:
      return run_ordered<double>(op);
    case kInt64:
      return run_ordered<int64_t>(op);
    default:
      return run_ordered<uint64_t>(op);
  }
}

}  // namespace

const char* refuse_arg_reduce(const uhal_op& op) { return refuse_unordered("arg_reduce", op); }

uhal_status run_arg_reduce(const Launch& launch) { return run_by_type(launch.op); }

const char* refuse_sort(const uhal_op& op) { return refuse_unordered(op.kind == UHAL_OP_SORT ? "sort" : "top_k", op); }

uhal_status run_sort(const Launch& launch) { return run_by_type(launch.op); }

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
