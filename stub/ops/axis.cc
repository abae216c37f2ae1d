// UHAL_OP_ARG_REDUCE, UHAL_OP_SORT and UHAL_OP_TOP_K: work along one axis, row by row.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "csrc/backends/common/attributes.h"
#include "stub/common/rows.h"
#include "stub/common/scratch.h"
#include "stub/ops/axis_rows.h"
#include "stub/vector/transpose.h"
#include "stub/vector/vectorize.h"

namespace unihal::stub {
namespace {

// -- arg-reduce

constexpr int64_t kLongestLook = int64_t{1} << 30;  // elements at a time

// Whether the elements along an axis lie side by side in the type they are compared in.
bool is_compared_in_place(const uhal_tensor& x, int axis, int type) {
  return x.strides[axis] == 1 && (type >= kExtremeInt32 || x.dtype == compute_dtype(static_cast<ComputeType>(type)));
}

// The first of the largest (smallest) elements, or the first NaN.
template <class T>
int64_t extreme_index(const Row& row, int type, bool largest) {
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
  const bool in_place = type >= kExtremeInt32 || row.dtype == compute_dtype(static_cast<ComputeType>(type));
  if (in_place && row.stride == 1) {
    for (int64_t begin = 0; begin < row.length; begin += kLongestLook) {
      look(begin, std::min(kLongestLook, row.length - begin), reinterpret_cast<const T*>(row.at(begin)));
    }
  } else if constexpr (sizeof(T) == 8 || std::is_same_v<T, float>) {
    read_row<T>(row, static_cast<ComputeType>(type), look);
  }
  return std::max<int64_t>(best, 0);
}

template <class T>
struct RowLanes {
  using Number = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;
  typedef T Vector __attribute__((vector_size(32)));
  typedef T Loose __attribute__((vector_size(32), aligned(sizeof(T)), may_alias));
  typedef Number Places __attribute__((vector_size(32)));
  static constexpr int64_t kCount = 32 / sizeof(T);
};

// Rows up to this length are looked at side by side: of longer ones what is done once for a row counts for little.
constexpr int64_t kShortRow = 256;

// The same of several rows, each in a lane: of as many as there are lanes, and of at least as many elements. At the end
// of the rows some elements are seen a second time, which changes nothing.
template <bool largest, class T, class Index>
UNIHAL_VECTORIZED void places_in_lanes(int64_t length, const T* rows, int64_t step, Index* to, int64_t to_step) {
  using Lanes = RowLanes<T>;
  using Vector = typename Lanes::Vector;
  using Places = typename Lanes::Places;
  constexpr int64_t kCount = Lanes::kCount;
  Vector best = {};
  Places place = {};
  for (int64_t begin = 0; begin < length; begin += kCount) {
    const int64_t at = std::min(begin, length - kCount);
    Vector columns[kCount];
#pragma GCC unroll 8
    for (int64_t row = 0; row < kCount; ++row) {
      columns[row] = *reinterpret_cast<const typename Lanes::Loose*>(rows + row * step + at);
    }
    transpose(columns);
    if (begin == 0) best = columns[0];
#pragma GCC unroll 8
    for (int64_t k = 0; k < kCount; ++k) {
      const Vector value = columns[k];
      Places wins;
      if constexpr (std::is_floating_point_v<T>) {  // NaN wins over numbers, and nothing over NaN
        wins = ~(largest ? value <= best : value >= best) & (best == best);
      } else {
        wins = largest ? value > best : value < best;
      }
      best = wins ? value : best;
      place = wins ? static_cast<typename Lanes::Number>(at + k) - Places{} : place;
    }
  }
  for (int64_t row = 0; row < kCount; ++row) to[row * to_step] = static_cast<Index>(place[row]);
}

// The first of the largest (smallest) elements of rows, or the first NaN, where these lie side by side in the type they
// are compared in, and are not too many for one look: of short rows what is done once for all of them would take as
// long as the look.
template <class T, class Index>
void arg_reduce_whole_rows(const uhal_tensor& x, const uhal_tensor& y, int axis, bool largest, int type) {
  const ExtremePlace find = vectors().extreme_place[largest][type];
  const int64_t length = x.shape[axis];
  const uhal_tensor first = first_along(x, axis);
  const uhal_tensor* views[] = {&y, &first};
  const Space space = make_space(views, 2);
  const int64_t to_step = space.strides[0][space.rank - 1], from_step = space.strides[1][space.rank - 1];
  parallel_for(space.count, length, [&](int64_t begin, int64_t end) {
    Cursor cursor(space, begin);
    while (begin < end) {
      const int64_t count = std::min(end - begin, cursor.run());
      Index* to = static_cast<Index*>(y.data) + cursor.offset(0);
      const T* from = static_cast<const T*>(x.data) + cursor.offset(1);
      int64_t i = 0;
      if constexpr (sizeof(T) >= 4) {
        constexpr int64_t kLanes = RowLanes<T>::kCount;
        const auto find_in_lanes = largest ? places_in_lanes<true, T, Index> : places_in_lanes<false, T, Index>;
        if (length >= kLanes && length <= kShortRow) {
          for (; i + kLanes <= count; i += kLanes, to += kLanes * to_step, from += kLanes * from_step) {
            find_in_lanes(length, from, from_step, to, to_step);
          }
        }
      }
      for (; i < count; ++i, to += to_step, from += from_step) {
        int64_t place = find(length, from);
        if (place < 0) place = std::find_if(from, from + length, [](T value) { return value != value; }) - from;
        *to = static_cast<Index>(place);
      }
      cursor.advance(count);
      begin += count;
    }
  });
}

template <class T>
void arg_reduce(const uhal_tensor& x, const uhal_tensor& y, int axis, bool largest, int type) {
  if (is_compared_in_place(x, axis, type) && x.shape[axis] > 0 && x.shape[axis] <= kLongestLook) {
    return y.dtype == UHAL_INT64 ? arg_reduce_whole_rows<T, int64_t>(x, y, axis, largest, type)
                                 : arg_reduce_whole_rows<T, int32_t>(x, y, axis, largest, type);
  }
  const uhal_tensor first = first_along(x, axis);
  const uhal_tensor* views[] = {&y, &first};
  for_each_position(make_space(views, 2), x.shape[axis], [&](const Cursor& cursor) {
    store_index(Row(y, axis, cursor.offset(0)), 0, extreme_index<T>(Row(x, axis, cursor.offset(1)), type, largest));
  });
}

// One more element of each column, which is number `at` along the axis: it wins if it is better, or the first NaN.
template <bool largest, class T, class Place>
UNIHAL_VECTORIZED void look_at_columns(int64_t count, const T* values, Place at, T* best, Place* places) {
  for (int64_t i = 0; i < count; ++i) {
    const T value = values[i], old = best[i];
    const int wins = static_cast<int>(largest ? value > old : value < old) |
                     (static_cast<int>(value != value) & static_cast<int>(old == old));
    best[i] = wins != 0 ? value : old;
    places[i] = wins != 0 ? at : places[i];
  }
}

template <class Index, class Place>
UNIHAL_VECTORIZED void write_places(int64_t count, const Place* places, Index* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<Index>(places[i]);
}

template <class Place>
void store_places(const Row& to, int64_t begin, int64_t count, const Place* places) {
  if (to.stride != 1) {
    for (int64_t i = 0; i < count; ++i) store_index(to, begin + i, places[i]);
  } else if (to.dtype == UHAL_INT64) {
    write_places(count, places, reinterpret_cast<int64_t*>(to.at(begin)));
  } else {
    write_places(count, places, reinterpret_cast<int32_t*>(to.at(begin)));
  }
}

// Along another axis than the one whose elements lie side by side columns are looked at together.
template <class T>
void arg_reduce_columns(const uhal_tensor& x, const uhal_tensor& y, int axis, int inner, bool largest) {
  using Place = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;
  const ComputeType type = compute_type_of(x.dtype);
  const LoadLoop load = vectors().load[x.dtype][type];
  const bool in_place = x.dtype == compute_dtype(type);
  const int64_t length = x.shape[axis], columns = x.shape[inner];
  const uhal_tensor source = first_along(first_along(x, axis), inner), target = first_along(y, inner);
  const uhal_tensor* views[] = {&target, &source};
  for_each_position(make_space(views, 2), length * columns, [&](const Cursor& cursor) {
    const Row from(x, inner, cursor.offset(1)), to(y, inner, cursor.offset(0));
    const int64_t step = x.strides[axis] * dtype_size(x.dtype);
    BlockBuffer loaded, best_values;
    Place places[kBlock];
    T* const best = reinterpret_cast<T*>(best_values.bytes);
    for (int64_t begin = 0; begin < columns; begin += kBlock) {
      const int64_t count = std::min(kBlock, columns - begin);
      for (int64_t at = 0; at < length; ++at) {
        const char* const row = from.at(begin) + at * step;
        if (!in_place) load(count, row, 1, loaded.bytes);
        const T* const values = reinterpret_cast<const T*>(in_place ? row : loaded.bytes);
        if (at == 0) {
          std::copy_n(values, count, best);
          std::fill_n(places, count, Place(0));
        } else if (largest) {
          look_at_columns<true>(count, values, static_cast<Place>(at), best, places);
        } else {
          look_at_columns<false>(count, values, static_cast<Place>(at), best, places);
        }
      }
      store_places(to, begin, count, places);
    }
  });
}

// The axis whose elements lie side by side, if it is another one and long enough to be worth it; or -1.
int inner_axis(const uhal_tensor& x, int axis) {
  constexpr int64_t kShortest = 8;
  for (int i = 0; i < x.rank; ++i) {
    if (i != axis && x.strides[i] == 1 && x.shape[i] >= kShortest) return i;
  }
  return -1;
}

template <class T>
void arg_reduce(const uhal_tensor& x, const uhal_tensor& y, int axis, bool largest) {
  if (const int inner = inner_axis(x, axis); inner >= 0 && x.shape[axis] < std::numeric_limits<int32_t>::max()) {
    return arg_reduce_columns<T>(x, y, axis, inner, largest);
  }
  if (x.strides[axis] == 1) {  // a half to an eighth of what there would be to look at as int64
    switch (x.dtype) {
      case UHAL_INT32:
        return arg_reduce<int32_t>(x, y, axis, largest, kExtremeInt32);
      case UHAL_INT16:
        return arg_reduce<int16_t>(x, y, axis, largest, kExtremeInt16);
      case UHAL_UINT16:
        return arg_reduce<uint16_t>(x, y, axis, largest, kExtremeUint16);
      case UHAL_INT8:
        return arg_reduce<int8_t>(x, y, axis, largest, kExtremeInt8);
      case UHAL_UINT8:
        return arg_reduce<uint8_t>(x, y, axis, largest, kExtremeUint8);
      default:
        break;
    }
  }
  arg_reduce<T>(x, y, axis, largest, compute_type_of(x.dtype));
}

// -- sort and top-k

// A whole number that is in the order of the values: NaN last, zeros of both signs the same.
template <class Key, class T>
Key ordered_key(T value, bool descending) {
  constexpr Key sign = Key(1) << (8 * sizeof(Key) - 1);
  Key key;
  if constexpr (std::is_floating_point_v<T>) {
    using Wide = std::conditional_t<sizeof(Key) == sizeof(double), double, float>;
    const Wide plain = value == 0 ? Wide(0) : static_cast<Wide>(value);
    std::memcpy(&key, &plain, sizeof key);
    key = value != value ? ~Key(0) : (key & sign) != 0 ? ~key : key | sign;
  } else {
    key = static_cast<Key>(value);
    if constexpr (std::is_signed_v<T>) key ^= sign;
  }
  return descending ? ~key : key;
}

// The whole number that a key was made of.
template <class T, class Key>
T value_of(Key key, bool descending) {
  constexpr Key sign = Key(1) << (8 * sizeof(Key) - 1);
  if (descending) key = ~key;
  if constexpr (std::is_signed_v<T>) return static_cast<std::make_signed_t<Key>>(key ^ sign);
  return static_cast<T>(key);
}

// Rows from this length on are sorted digit by digit.
constexpr int64_t kRadixLength = 128;
constexpr int kDigitBits = 8, kDigits = 1 << kDigitBits;

template <class Key>
struct RadixEntry {
  Key key, index;
};

// Sorts by the digits of what keys are more than the least of them, the lowest digit first; each pass keeps the order
// of equal ones. A digit that is the same in all keys takes no pass, and is not counted: numbers that lie close
// together have few others. Gives the one of both arrays that has the result.
template <class Key>
RadixEntry<Key>* radix_sort(RadixEntry<Key>* entries, RadixEntry<Key>* other, int64_t count) {
  constexpr int passes = static_cast<int>(sizeof(Key)) * 8 / kDigitBits;
  Key least = entries[0].key, differences = 0;
  for (int64_t i = 1; i < count; ++i) least = std::min(least, entries[i].key);
  for (int64_t i = 0; i < count; ++i) differences |= entries[i].key - least;
  const auto differs = [differences](int pass) { return (differences >> pass * kDigitBits & (kDigits - 1)) != 0; };
  const auto digit_of = [least](Key key, int pass) { return (key - least) >> pass * kDigitBits & (kDigits - 1); };
  int64_t places[passes][kDigits] = {};
  bool all_differ = true;
  for (int pass = 0; pass < passes; ++pass) all_differ = all_differ && differs(pass);
  for (int64_t i = 0; i < count && all_differ; ++i) {
    for (int pass = 0; pass < passes; ++pass) ++places[pass][digit_of(entries[i].key, pass)];
  }
  for (int pass = 0; pass < passes; ++pass) {
    if (!differs(pass)) continue;
    int64_t* const place = places[pass];
    for (int64_t i = 0; i < count && !all_differ; ++i) ++place[digit_of(entries[i].key, pass)];
    int64_t before = 0;
    for (int digit = 0; digit < kDigits; ++digit) before += std::exchange(place[digit], before);
    for (int64_t i = 0; i < count; ++i) other[place[digit_of(entries[i].key, pass)]++] = entries[i];
    std::swap(entries, other);
  }
  return entries;
}

// Where only the first `wanted` are asked for: puts those in front whose leading digit is not more than the last of
// them can have, in the order in which they were, and tells how many these are.
template <class Key>
int64_t keep_candidates(RadixEntry<Key>* entries, int64_t count, int64_t wanted) {
  constexpr int kLeading = 11;
  Key least = entries[0].key, most = entries[0].key;
  for (int64_t i = 1; i < count; ++i) {
    least = std::min(least, entries[i].key);
    most = std::max(most, entries[i].key);
  }
  int shift = 0;
  while (((most - least) >> shift) >> kLeading != 0) ++shift;
  int32_t often[1 << kLeading] = {};
  for (int64_t i = 0; i < count; ++i) ++often[(entries[i].key - least) >> shift];
  Key last = 0;
  for (int64_t before = often[0]; before < wanted; before += often[last]) ++last;
  int64_t kept = 0;
  for (int64_t i = 0; i < count; ++i) {
    const RadixEntry<Key> entry = entries[i];
    entries[kept] = entry;
    kept += (entry.key - least) >> shift <= last ? 1 : 0;
  }
  return kept;
}

// Of short rows, or few of a row's elements: a key and its index, in order by plain comparisons. In one number where
// they have 32 bits each.
template <class Key>
struct KeyEntry : RadixEntry<Key> {
  bool operator<(const KeyEntry& other) const {
    return this->key != other.key ? this->key < other.key : this->index < other.index;
  }
};
template <>
struct KeyEntry<uint32_t> {
  uint64_t both;
  bool operator<(const KeyEntry& other) const { return both < other.both; }
};
inline KeyEntry<uint32_t> entry_of(uint32_t key, int64_t index) {
  return {static_cast<uint64_t>(key) << 32 | static_cast<uint64_t>(index)};
}
inline KeyEntry<uint64_t> entry_of(uint64_t key, int64_t index) { return {{key, static_cast<uint64_t>(index)}}; }
inline int64_t index_of(const KeyEntry<uint32_t>& entry) { return static_cast<int64_t>(entry.both & UINT32_MAX); }
inline uint32_t key_of(const KeyEntry<uint32_t>& entry) { return static_cast<uint32_t>(entry.both >> 32); }
template <class Key>
int64_t index_of(const RadixEntry<Key>& entry) {
  return static_cast<int64_t>(entry.index);
}
template <class Key>
Key key_of(const RadixEntry<Key>& entry) {
  return entry.key;
}

// Rows up to this length are ordered without branches, which nothing could foretell.
constexpr int64_t kRankLength = 32;

// A short row's keys, as signed numbers.
template <class T>
UNIHAL_INLINE void make_keys(const T* values, bool descending, int32_t* keys) {
  constexpr uint32_t sign = uint32_t{1} << 31;
  for (int64_t i = 0; i < kRankLength; ++i) {
    keys[i] = static_cast<int32_t>(ordered_key<uint32_t>(values[i], descending) ^ sign);
  }
}

// ranks[i] = how many of a short row's values come before values[i]; of equal ones those to its left do.
template <class T>
UNIHAL_INLINE void rank_values(const T* values, bool descending, int64_t count, int32_t* ranks) {
  constexpr int64_t kTogether = 8;  // whose ranks stay in a register
  typedef int32_t Lanes __attribute__((vector_size(kTogether * sizeof(int32_t))));
  constexpr Lanes kPlaces = {0, 1, 2, 3, 4, 5, 6, 7};
  int32_t keys[kRankLength];
  make_keys(values, descending, keys);
  for (int64_t begin = 0; begin < count; begin += kTogether) {
    Lanes own, ranked = {};
    std::memcpy(&own, keys + begin, sizeof own);
    const int64_t end = std::min(begin + kTogether, count);
    // A comparison that holds is -1.
    for (int64_t k = 0; k < begin; ++k) ranked -= keys[k] <= own;
    for (int64_t k = begin; k < end; ++k) {
      ranked -= (keys[k] < own) | ((keys[k] == own) & (static_cast<int32_t>(k - begin) < kPlaces));
    }
    for (int64_t k = end; k < count; ++k) ranked -= keys[k] < own;
    std::memcpy(ranks + begin, &ranked, sizeof ranked);
  }
}
UNIHAL_VECTORIZED void rank(const float* values, bool descending, int64_t count, int32_t* ranks) {
  rank_values(values, descending, count, ranks);
}
UNIHAL_VECTORIZED void rank(const int64_t* values, bool descending, int64_t count, int32_t* ranks) {
  rank_values(values, descending, count, ranks);
}

// Up to so many wanted ones are kept in order while the others are held against the last of them, which few are before.
constexpr int64_t kFewWanted = 16;

template <class Entry>
void select_few(Entry* entries, int64_t count, int64_t wanted) {
  for (int64_t i = 1; i < count; ++i) {
    const Entry entry = entries[i];
    if (i >= wanted && !(entry < entries[wanted - 1])) continue;
    int64_t at = std::min(i, wanted - 1);
    for (; at > 0 && entry < entries[at - 1]; --at) entries[at] = entries[at - 1];
    entries[at] = entry;
  }
}

// Writes the first `values.length` elements of a row in order, and where they were: value_at(i) and index_at(i).
template <class T, class ValueAt, class IndexAt>
void store_in_order(ComputeType type, const Row& values, const Row* indices, ValueAt value_at, IndexAt index_at) {
  const StoreLoop store = vectors().store[type][values.dtype];
  for (int64_t begin = 0; begin < values.length; begin += kBlock) {
    const int64_t count = std::min(kBlock, values.length - begin);
    T block[kBlock];
    for (int64_t i = 0; i < count; ++i) block[i] = value_at(begin + i);
    store(count, block, values.at(begin), values.stride);
    if (indices == nullptr) continue;
    if (indices->dtype == UHAL_INT64) {
      auto* const to = reinterpret_cast<int64_t*>(indices->at(begin));
      for (int64_t i = 0; i < count; ++i) to[i * indices->stride] = index_at(begin + i);
    } else {
      auto* const to = reinterpret_cast<int32_t*>(indices->at(begin));
      for (int64_t i = 0; i < count; ++i) to[i * indices->stride] = static_cast<int32_t>(index_at(begin + i));
    }
  }
}

// The same of elements that sorted entries name: whole numbers from their keys, others, of which keys do not tell zeros
// and NaNs apart, from the row's `originals`.
template <class T, class Ordered>
void store_sorted(const T* originals, const Ordered* entries, ComputeType type, bool descending, const Row& values,
                  const Row* indices) {
  const auto value_at = [=](int64_t i) {
    if constexpr (std::is_integral_v<T>) {
      return value_of<T>(key_of(entries[i]), descending);
    } else {
      return originals[index_of(entries[i])];
    }
  };
  store_in_order<T>(type, values, indices, value_at, [=](int64_t i) { return index_of(entries[i]); });
}

// Of a short row everything lies on the stack: what is done once for a row would take as long as the sort.
template <class T>
void sort_short_row(const Row& x, ComputeType type, bool descending, const Row& values, const Row* indices) {
  T originals[kRankLength] = {};
  int32_t ranks[kRankLength], places[kRankLength];
  read_row<T>(x, type, [&](int64_t begin, int64_t count, const T* row) { std::copy_n(row, count, originals + begin); });
  rank(originals, descending, x.length, ranks);
  for (int64_t i = 0; i < x.length; ++i) places[ranks[i]] = static_cast<int32_t>(i);
  const auto value_at = [&](int64_t i) { return originals[places[i]]; };
  store_in_order<T>(type, values, indices, value_at, [&](int64_t i) { return int64_t{places[i]}; });
}

template <class Key, class T>
bool sort_row_by_keys(const Row& x, ComputeType type, bool descending, const Row& values, const Row* indices) {
  if constexpr (std::is_same_v<Key, uint32_t>) {
    if (x.length <= kRankLength) return sort_short_row<T>(x, type, descending, values, indices), true;
  }
  ScratchFrame frame;
  const auto length = static_cast<size_t>(x.length);
  constexpr bool keeps_originals = !std::is_integral_v<T>;
  T* const originals = frame.take<T>(keeps_originals ? length : 1);
  if (originals == nullptr) return false;
  const auto read = [&](auto&& put) {
    read_row<T>(x, type, [&](int64_t begin, int64_t count, const T* row) {
      for (int64_t i = 0; i < count; ++i) {
        if constexpr (keeps_originals) originals[begin + i] = row[i];
        put(begin + i, ordered_key<Key>(row[i], descending));
      }
    });
  };
  if (x.length >= kRadixLength && values.length > x.length / 16) {
    auto* entries = frame.take<RadixEntry<Key>>(length);
    auto* other = frame.take<RadixEntry<Key>>(length);
    if (entries == nullptr || other == nullptr) return false;
    read([&](int64_t i, Key key) { entries[i] = {key, static_cast<Key>(i)}; });
    int64_t count = x.length;
    if (values.length <= count - count / 8 && count <= INT32_MAX)
      count = keep_candidates(entries, count, values.length);
    store_sorted(originals, radix_sort(entries, other, count), type, descending, values, indices);
    return true;
  }
  auto* entries = frame.take<KeyEntry<Key>>(length);
  if (entries == nullptr) return false;
  read([&](int64_t i, Key key) { entries[i] = entry_of(key, i); });
  if (values.length <= kFewWanted) {
    select_few(entries, x.length, values.length);
  } else if (values.length < x.length) {
    std::partial_sort(entries, entries + values.length, entries + x.length);
  } else {
    std::sort(entries, entries + x.length);
  }
  store_sorted(originals, entries, type, descending, values, indices);
  return true;
}

// Writes the first `values.length` entries of the sorted row; false when the host has no memory for it.
template <class T>
bool sort_row(const Row& x, ComputeType type, bool descending, const Row& values, const Row* indices) {
  const bool narrow = dtype_size(x.dtype) <= 4 && x.dtype != UHAL_UINT32 && x.length < UINT32_MAX;
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, int64_t>) {
    if (narrow) return sort_row_by_keys<uint32_t, T>(x, type, descending, values, indices);
  }
  return sort_row_by_keys<uint64_t, T>(x, type, descending, values, indices);
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

const char* refuse_unordered(const char* name, const uhal_op& op) {
  const uhal_tensor& x = *op.inputs[0];
  const uhal_tensor& y = *op.outputs[0];
  if (is_real(x.dtype) && is_real(y.dtype)) return nullptr;
  return refusal("%s: dtype %s is not supported, since complex numbers have no order", name,
                 dtype_name(is_real(x.dtype) ? y.dtype : x.dtype));
}

const char* refuse_arg_reduce(const uhal_op& op) { return refuse_unordered("arg_reduce", op); }

uhal_status run_arg_reduce(const Launch& launch) { return run_by_type(launch.op); }

const char* refuse_sort(const uhal_op& op) { return refuse_unordered(op.kind == UHAL_OP_SORT ? "sort" : "top_k", op); }

uhal_status run_sort(const Launch& launch) { return run_by_type(launch.op); }

}  // namespace unihal::stub
