// UHAL_OP_NONZERO: a count of each part of the mask, and then the positions from where the parts before it end.

#include <algorithm>
#include <cstring>
#include <utility>

#include "stub/common/blocks.h"
#include "stub/common/kernels.h"
#include "stub/common/parallel.h"
#include "stub/common/scratch.h"

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
uint64_t ones_of(uint64_t word) {
  constexpr uint64_t kLow = 0x7f7f7f7f7f7f7f7f;
  return ((((word & kLow) + kLow) | word) & ~kLow) >> 7;
}

constexpr uint64_t kAllOnes = 0x0101010101010101;

// The sum of a word's bytes.
int64_t sum_of_bytes(uint64_t word) {
  constexpr uint64_t kEven = 0x00ff00ff00ff00ff;
  return static_cast<int64_t>(((word & kEven) + (word >> 8 & kEven)) * 0x0001000100010001 >> 48);
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

  // Where positions from row `at` on can be written as they are, or nullptr.
  int64_t* own(int64_t at) const {
    const bool plain = !coordinates_ && indices_.dtype == UHAL_INT64 && indices_.strides[0] == 1;
    return plain ? static_cast<int64_t*>(indices_.data) + at : nullptr;
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
  flags.read(begin, end, [&](int64_t, int64_t count, const uint8_t* flag) {
    static_assert((kBlock + kShortAxis) / kWord < 256, "a byte counts for each word of a block");
    uint64_t ones = 0;
    int64_t i = 0;
    for (; i + kWord <= count; i += kWord) ones += ones_of(word_at(flag + i));
    total += sum_of_bytes(ones);
    for (; i < count; ++i) total += flag[i] != 0;
  });
  return total;
}

// Positions of the flags from `begin` to `end`, to the rows from `at` to `stop`.
void write_part(const Flags& flags, int64_t begin, int64_t end, int64_t at, int64_t stop, const Positions& positions) {
  flags.read(begin, end, [&](int64_t first, int64_t count, const uint8_t* flag) {
    if (at >= positions.room()) return;
    // Without a branch: one too many may be stored, and is overwritten, in the result by those that follow in this
    // part.
    int64_t block[kBlock + kShortAxis + 1];
    int64_t* const own = at + count < std::min(stop, positions.room()) ? positions.own(at) : nullptr;
    int64_t* const found = own != nullptr ? own : block;
    int64_t length = 0;
    const auto add = [&](int64_t i) {
      found[length] = first + i;
      length += flag[i] != 0;
    };
    int64_t i = 0;
    for (; i + kWord <= count; i += kWord) {
      const uint64_t word = word_at(flag + i);
      if (word == 0) continue;
      if (ones_of(word) == kAllOnes) {
        for (int64_t k = 0; k < kWord; ++k) found[length + k] = first + i + k;
        length += kWord;
        continue;
      }
      for (int64_t k = 0; k < kWord; ++k) add(i + k);
    }
    for (; i < count; ++i) add(i);
    if (own == nullptr) positions.write(at, std::min(length, positions.room() - at), found);
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
    write_part(flags, begin, end, totals[part], totals[part + 1], positions);
  });
  return UHAL_OK;
}

}  // namespace unihal::stub
