// UHAL_OP_NONZERO and UHAL_OP_COMPACT: a count of each part of the mask, and then the positions, or the elements there,
// from where the parts before it end.

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>
#include <utility>

#include "stub/common/blocks.h"
#include "stub/common/kernels.h"
#include "stub/common/parallel.h"
#include "stub/common/scratch.h"
#include "stub/vector/vectorize.h"

namespace unihal::stub {
namespace {

constexpr int64_t kPart = 65536;  // elements that one thread counts, and then writes, at a time

// Bytes that are looked at together.
constexpr int64_t kWord = 8;

uint64_t word_at(const uint8_t* flags) {
  uint64_t word;
  std::memcpy(&word, flags, kWord);
  return word;
}

// 1 in each byte of a word that is not 0.
UNIHAL_INLINE uint64_t ones_of(uint64_t word) {
  constexpr uint64_t kLow = 0x7f7f7f7f7f7f7f7f;
  return ((((word & kLow) + kLow) | word) & ~kLow) >> 7;
}

// For each set of a word's bytes their numbers, in order; what follows them is of no meaning.
struct PlacesOfSets {
  alignas(64) int32_t of[1 << kWord][kWord] = {};

  constexpr PlacesOfSets() {
    for (int set = 0; set < 1 << kWord; ++set) {
      int count = 0;
      for (int i = 0; i < static_cast<int>(kWord); ++i) {
        if ((set >> i & 1) != 0) of[set][count++] = i;
      }
    }
  }
};
constexpr PlacesOfSets kPlaces;

// As many positions as 32 bytes hold, and as many places.
template <class Index>
struct PositionsOf {
  static constexpr int64_t kCount = 32 / sizeof(Index);
  typedef Index Vector __attribute__((vector_size(32), aligned(sizeof(Index)), may_alias));
  typedef int32_t Places __attribute__((vector_size(4 * kCount), may_alias));
};

// Writes the positions of the flags that are not 0, of which the first one's is `first`, and tells how many there are.
// No branch depends on which they are: a word's positions are written as if all its flags were, and those of the next
// word over what is too much, so that `found` has room for as many as there are flags.
template <class Index>
UNIHAL_VECTORIZED int64_t find_in_block(int64_t count, const uint8_t* flags, int64_t first, Index* found) {
  using Places = typename PositionsOf<Index>::Places;
  using Vector = typename PositionsOf<Index>::Vector;
  constexpr uint64_t kLowestBits = 0x0102040810204080, kAllOnes = 0x0101010101010101;
  int64_t length = 0, i = 0;
  for (; i + kWord <= count; i += kWord) {
    const uint64_t word = word_at(flags + i);
    if (word == 0) continue;
    const uint64_t ones = ones_of(word);
    const int32_t* const places = kPlaces.of[ones * kLowestBits >> 56];
    const auto base = static_cast<Index>(first + i);
#pragma GCC unroll 2
    for (int64_t k = 0; k < kWord; k += PositionsOf<Index>::kCount) {
      const Places some = *reinterpret_cast<const Places*>(places + k);
      *reinterpret_cast<Vector*>(found + length + k) = __builtin_convertvector(some, Vector) + base;
    }
    length += static_cast<int64_t>(ones * kAllOnes >> 56);
  }
  for (; i < count; ++i) {
    if (flags[i] != 0) found[length++] = static_cast<Index>(first + i);
  }
  return length;
}

// Writes the elements whose flags are not 0 and tells how many there are; `kept` has room for as many as there are
// flags, as above.
template <class Element>
UNIHAL_VECTORIZED int64_t keep_in_block(int64_t count, const uint8_t* flags, const Element* x, Element* kept) {
  constexpr uint64_t kLowestBits = 0x0102040810204080, kAllOnes = 0x0101010101010101;
  int64_t length = 0, i = 0;
  for (; i + kWord <= count; i += kWord) {
    const uint64_t word = word_at(flags + i);
    if (word == 0) continue;
    const uint64_t ones = ones_of(word);
    const int32_t* const places = kPlaces.of[ones * kLowestBits >> 56];
#if __has_builtin(__builtin_shuffle)
    if constexpr (std::is_same_v<Element, uint32_t>) {
      typedef uint32_t Vector __attribute__((vector_size(32), aligned(sizeof(uint32_t)), may_alias));
      typedef int32_t Places __attribute__((vector_size(32), may_alias));
      const Vector all = *reinterpret_cast<const Vector*>(x + i);
      *reinterpret_cast<Vector*>(kept + length) = __builtin_shuffle(all, *reinterpret_cast<const Places*>(places));
      length += static_cast<int64_t>(ones * kAllOnes >> 56);
      continue;
    }
#endif
#pragma GCC unroll 8
    for (int64_t k = 0; k < kWord; ++k) kept[length + k] = x[i + places[k]];
    length += static_cast<int64_t>(ones * kAllOnes >> 56);
  }
  for (; i < count; ++i) {
    if (flags[i] != 0) kept[length++] = x[i];
  }
  return length;
}

// How many of the flags, a block at most, are not 0.
UNIHAL_VECTORIZED int64_t count_in_block(int64_t count, const uint8_t* flags) {
  constexpr int64_t kTogether = 32;
  static_assert((kBlock + kShortAxis) / kTogether < 256, "a byte counts for each row of a block");
  uint8_t sums[kTogether] = {};
  int64_t i = 0, total = 0;
  for (; i + kTogether <= count; i += kTogether) {
    for (int64_t k = 0; k < kTogether; ++k) sums[k] = static_cast<uint8_t>(sums[k] + (flags[i + k] != 0 ? 1 : 0));
  }
  for (const uint8_t sum : sums) total += sum;
  for (; i < count; ++i) total += flags[i] != 0 ? 1 : 0;
  return total;
}

// Flags of the elements of a mask, in row-major order: bytes that are 0 where the elements are.
class Flags {
 public:
  explicit Flags(const uhal_tensor& mask)
      : type_(compute_type_of(mask.dtype)), order_(row_major_view(mask)), space_(make_row_major(mask)) {
    operand_ = BlockOperand(space_, 1, mask, type_);
    bytes_ = dtype_size(mask.dtype) == 1 && space_.dense(1) ? static_cast<const uint8_t*>(mask.data) : nullptr;
  }

  int64_t count() const { return space_.count; }

  // Calls body(first position, count, flags) for the elements from `begin` to `end`, in blocks of at most kBlock.
  template <class Body>
  void read(int64_t begin, int64_t end, const Body& body) const {
    if (bytes_ != nullptr) {
      for (; begin < end; begin += kBlock) body(begin, std::min(kBlock, end - begin), bytes_ + begin);
      return;
    }
    alignas(64) uint8_t flags[kBlock + kShortAxis];
    BlockBuffer buffer;
    Cursor cursor(space_, begin);
    while (begin < end) {
      const int64_t count = block_length(space_, cursor, end - begin);
      operand_.load(cursor, count, buffer.bytes);
      to_flags(count, buffer.bytes, flags);
      body(begin, count, static_cast<const uint8_t*>(flags));
      cursor.skip(count);
      begin += count;
    }
  }

 private:
  Space make_row_major(const uhal_tensor& mask) const {
    const uhal_tensor* views[] = {&order_, &mask};
    return make_space(views, 2);
  }

  template <class T>
  static void compare(int64_t count, const char* values, uint8_t* flags) {
    const T* elements = reinterpret_cast<const T*>(values);
    for (int64_t i = 0; i < count; ++i) flags[i] = elements[i] != 0;
  }

  void to_flags(int64_t count, const char* values, uint8_t* flags) const {
    if (type_ == kFloat) return compare<float>(count, values, flags);
    if (type_ == kDouble) return compare<double>(count, values, flags);
    compare<int64_t>(count, values, flags);
  }

  ComputeType type_;
  uhal_tensor order_;
  Space space_;
  BlockOperand operand_;
  const uint8_t* bytes_;  // of a dense mask of one byte an element
};

// Where positions go.
class Positions {
 public:
  Positions(const uhal_tensor& mask, const uhal_tensor& indices)
      : mask_(mask), indices_(indices), coordinates_(indices.rank == 2) {}

  int64_t room() const { return indices_.shape[0]; }

  // Whether positions can be written as they are.
  template <class Index>
  bool takes() const {
    const bool wide = sizeof(Index) == sizeof(int64_t);
    return !coordinates_ && indices_.dtype == (wide ? UHAL_INT64 : UHAL_INT32) && indices_.strides[0] == 1;
  }
  template <class Index>
  Index* at(int64_t row) const {
    return static_cast<Index*>(indices_.data) + row;
  }

  // Writes `count` ascending positions from row `at` on.
  void write(int64_t at, int64_t count, const int64_t* positions) const {
    if (indices_.dtype == UHAL_INT64) {
      write_as<int64_t>(at, count, positions);
    } else {
      write_as<int32_t>(at, count, positions);
    }
  }

 private:
  template <class Index>
  void write_as(int64_t at, int64_t count, const int64_t* positions) const {
    const int64_t step = indices_.strides[0];
    Index* to = static_cast<Index*>(indices_.data) + at * step;
    if (!coordinates_) {
      for (int64_t i = 0; i < count; ++i) to[i * step] = static_cast<Index>(positions[i]);
      return;
    }
    // Neighbours mostly differ in the last coordinate alone.
    const int last = mask_.rank - 1;
    if (last < 0) return;
    int64_t coordinates[UHAL_MAX_RANK] = {};
    int64_t row_end = 0;  // position after the row that `coordinates` are of
    for (int64_t i = 0; i < count; ++i, to += step) {
      if (positions[i] >= row_end) {
        int64_t rest = positions[i] / mask_.shape[last];
        row_end = (rest + 1) * mask_.shape[last];
        for (int axis = last - 1; axis >= 0; --axis) {
          coordinates[axis] = rest % mask_.shape[axis];
          rest /= mask_.shape[axis];
        }
      }
      coordinates[last] = positions[i] - (row_end - mask_.shape[last]);
      for (int axis = 0; axis <= last; ++axis) to[axis * indices_.strides[1]] = static_cast<Index>(coordinates[axis]);
    }
  }

  const uhal_tensor& mask_;
  const uhal_tensor& indices_;
  bool coordinates_;
};

int64_t count_part(const Flags& flags, int64_t begin, int64_t end) {
  int64_t total = 0;
  flags.read(begin, end, [&](int64_t, int64_t count, const uint8_t* flag) { total += count_in_block(count, flag); });
  return total;
}

// Positions of the flags from `begin` to `end`, to the rows from `at` to `stop`, in which there is room for all of them
// or which are the last ones that there are.
void write_part(const Flags& flags, int64_t begin, int64_t end, int64_t at, int64_t stop, const Positions& positions) {
  const auto write_as_they_are = [&](int64_t first, int64_t count, const uint8_t* flag, auto* to) {
    using Index = std::remove_pointer_t<decltype(to)>;
    if (at + count <= stop) {
      at += find_in_block(count, flag, first, to + at);
      return;
    }
    Index found[kBlock + kShortAxis];
    const int64_t length = find_in_block(count, flag, first, found);
    std::copy_n(found, std::min(length, stop - at), to + at);
    at += length;
  };
  flags.read(begin, end, [&](int64_t first, int64_t count, const uint8_t* flag) {
    if (at >= stop) return;
    if (positions.takes<int64_t>()) return write_as_they_are(first, count, flag, positions.at<int64_t>(0));
    if (positions.takes<int32_t>()) return write_as_they_are(first, count, flag, positions.at<int32_t>(0));
    int64_t found[kBlock + kShortAxis];
    const int64_t length = find_in_block(count, flag, first, found);
    positions.write(at, std::min(length, stop - at), found);
    at += length;
  });
}

// The elements of a tensor, in row-major order, as bits.
template <class Element>
class Elements {
 public:
  explicit Elements(const uhal_tensor& x)
      : order_(row_major_view(x)), space_(make_row_major(x)), x_(static_cast<const Element*>(x.data)) {}

  // `count` of them from `first` on: where they are, or copied to `buffer`.
  const Element* read(int64_t first, int64_t count, Element* buffer) const {
    if (space_.dense(1)) return x_ + first;
    Cursor cursor(space_, first);
    const int64_t step = space_.strides[1][space_.rank - 1];
    for (int64_t done = 0; done < count;) {
      const int64_t run = std::min(cursor.run(), count - done);
      const Element* const from = x_ + cursor.offset(1);
      for (int64_t i = 0; i < run; ++i) buffer[done + i] = from[i * step];
      cursor.advance(run);
      done += run;
    }
    return buffer;
  }

 private:
  Space make_row_major(const uhal_tensor& x) const {
    const uhal_tensor* views[] = {&order_, &x};
    return make_space(views, 2);
  }

  uhal_tensor order_;
  Space space_;
  const Element* x_;
};

// The elements of x from `begin` to `end` whose flags are set, to the rows of `values` from `at` to `stop`, as above.
template <class Element>
void keep_part(const Flags& flags, int64_t begin, int64_t end, int64_t at, int64_t stop, const Elements<Element>& x,
               const uhal_tensor& values) {
  constexpr int64_t kRoom = kBlock + kShortAxis;
  const int64_t step = values.strides[0];
  Element* const to = static_cast<Element*>(values.data);
  flags.read(begin, end, [&](int64_t first, int64_t count, const uint8_t* flag) {
    if (at >= stop) return;
    Element buffer[kRoom], kept[kRoom];
    const Element* const from = x.read(first, count, buffer);
    if (step == 1 && at + count <= stop) {
      at += keep_in_block(count, flag, from, to + at);
      return;
    }
    const int64_t length = keep_in_block(count, flag, from, kept);
    for (int64_t i = 0; i < std::min(length, stop - at); ++i) to[(at + i) * step] = kept[i];
    at += length;
  });
}

void store_count(const uhal_tensor& count, int64_t value) {
  if (count.dtype == UHAL_INT64) {
    *static_cast<int64_t*>(count.data) = value;
  } else {
    *static_cast<int32_t*>(count.data) = static_cast<int32_t>(value);
  }
}

const char* refuse_mask(const char* op, const uhal_tensor& mask) {
  if (is_real(mask.dtype)) return nullptr;
  return refusal(
      "%s: a mask of dtype %s is not supported; compare it with 0 first, or look at real and imaginary parts", op,
      dtype_name(mask.dtype));
}

// Calls body(begin, end, of them before, of them before `end`) for each part of the mask's elements, `them` being those
// that are not 0, and tells in `total` how many they are.
template <class Body>
uhal_status for_each_part(const char* op, const Flags& flags, int64_t* total, const Body& body) {
  const int64_t parts = (flags.count() + kPart - 1) / kPart;
  ScratchFrame frame;
  int64_t* totals = frame.take<int64_t>(static_cast<size_t>(parts) + 1);
  if (totals == nullptr) return fail(UHAL_RESOURCE_EXHAUSTED, "%s: the host has no memory left for its counts", op);
  const auto in_parallel = [&](const auto& of_part) {
    parallel_for(parts, kPart, [&](int64_t begin, int64_t end) {
      for (; begin < end; ++begin) of_part(begin, begin * kPart, std::min(flags.count(), (begin + 1) * kPart));
    });
  };
  in_parallel([&](int64_t part, int64_t begin, int64_t end) { totals[part] = count_part(flags, begin, end); });
  int64_t before = 0;
  for (int64_t part = 0; part < parts; ++part) before += std::exchange(totals[part], before);
  totals[parts] = *total = before;
  in_parallel([&](int64_t part, int64_t begin, int64_t end) { body(begin, end, totals[part], totals[part + 1]); });
  return UHAL_OK;
}

template <class Element>
uhal_status compact(const uhal_op& op) {
  const Elements<Element> x(*op.inputs[0]);
  const Flags flags(*op.inputs[1]);
  const uhal_tensor& values = *op.outputs[0];
  const uhal_tensor* count = op.output_count > 1 ? op.outputs[1] : nullptr;
  int64_t total = 0;
  const uhal_status status =
      for_each_part("compact", flags, &total, [&](int64_t begin, int64_t end, int64_t at, int64_t stop) {
        keep_part(flags, begin, end, at, std::min(stop, values.shape[0]), x, values);
      });
  if (status == UHAL_OK && count != nullptr) store_count(*count, total);
  return status;
}

}  // namespace

const char* refuse_nonzero(const uhal_op& op) { return refuse_mask("nonzero", *op.inputs[0]); }

uhal_status run_nonzero(const Launch& launch) {
  const uhal_tensor& mask = *launch.op.inputs[0];
  const uhal_tensor* indices = launch.op.output_count > 1 ? launch.op.outputs[1] : nullptr;
  const Flags flags(mask);
  int64_t total = 0;
  const uhal_status status =
      for_each_part("nonzero", flags, &total, [&](int64_t begin, int64_t end, int64_t at, int64_t stop) {
        if (indices == nullptr) return;
        const Positions positions(mask, *indices);
        write_part(flags, begin, end, at, std::min(stop, positions.room()), positions);
      });
  if (status == UHAL_OK) store_count(*launch.op.outputs[0], total);
  return status;
}

const char* refuse_compact(const uhal_op& op) { return refuse_mask("compact", *op.inputs[1]); }

uhal_status run_compact(const Launch& launch) {
  switch (dtype_size(launch.op.inputs[0]->dtype)) {
    case 1:
      return compact<uint8_t>(launch.op);
    case 2:
      return compact<uint16_t>(launch.op);
    case 4:
      return compact<uint32_t>(launch.op);
    case 8:
      return compact<uint64_t>(launch.op);
    default:
      return compact<std::array<uint64_t, 2>>(launch.op);
  }
}

}  // namespace unihal::stub
