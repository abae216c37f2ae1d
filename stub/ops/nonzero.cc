// UHAL_OP_NONZERO: a count of each part of the mask, and then the positions from where the parts before it end.

#include <algorithm>
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

void store_count(const uhal_tensor& count, int64_t value) {
  if (count.dtype == UHAL_INT64) {
    *static_cast<int64_t*>(count.data) = value;
  } else {
    *static_cast<int32_t*>(count.data) = static_cast<int32_t>(value);
  }
}

}  // namespace

const char* refuse_nonzero(const uhal_op& op) {
  const uhal_dtype dtype = op.inputs[0]->dtype;
  if (is_real(dtype)) return nullptr;
  return refusal("nonzero: dtype %s is not supported; compare it with 0 first, or look at real and imaginary parts",
                 dtype_name(dtype));
}

uhal_status run_nonzero(const Launch& launch) {
  const uhal_tensor& mask = *launch.op.inputs[0];
  const uhal_tensor* indices = launch.op.output_count > 1 ? launch.op.outputs[1] : nullptr;
  const Flags flags(mask);
  const int64_t parts = (flags.count() + kPart - 1) / kPart;
  ScratchFrame frame;
  int64_t* totals = frame.take<int64_t>(static_cast<size_t>(parts) + 1);
  if (totals == nullptr) return fail(UHAL_RESOURCE_EXHAUSTED, "nonzero: the host has no memory left for its counts");
  const auto for_each_part = [&](const auto& body) {
    parallel_for(parts, kPart, [&](int64_t begin, int64_t end) {
      for (; begin < end; ++begin) body(begin, begin * kPart, std::min(flags.count(), (begin + 1) * kPart));
    });
  };
  for_each_part([&](int64_t part, int64_t begin, int64_t end) { totals[part] = count_part(flags, begin, end); });
  int64_t before = 0;
  for (int64_t part = 0; part < parts; ++part) before += std::exchange(totals[part], before);
  totals[parts] = before;
  store_count(*launch.op.outputs[0], before);
  if (indices == nullptr) return UHAL_OK;
  const Positions positions(mask, *indices);
  for_each_part([&](int64_t part, int64_t begin, int64_t end) {
    write_part(flags, begin, end, totals[part], std::min(totals[part + 1], positions.room()), positions);
  });
  return UHAL_OK;
}

}  // namespace unihal::stub
