// Strided operands as arguments of kernels: a Space (csrc/backends/common/space.h) as the struct that the dialect
// reads.
#ifndef UNIHAL_KERNELS_LAYOUT_H_
#define UNIHAL_KERNELS_LAYOUT_H_

#include <atomic>

#include "csrc/backends/common/space.h"
#include "csrc/kernels/queue.h"

namespace unihal::kernels {

// How a kernel was compiled to hold layouts: in 64-bit integers or 32-bit ones (the dialect's INDEX), and for how many
// axes. Few kinds, since each is a compilation.
struct LayoutKind {
  bool wide;  // 64 bits: the offset of an element, or the count of them with room for a grid's stride, passes 2^31
  int rank;   // 4 or UHAL_MAX_RANK

  void define(KernelSpec& spec) const { spec.define("UHAL_WIDE_INDEX", wide).define("UHAL_RANK", rank); }
};

LayoutKind layout_kind(const Space& space);

// One that holds both.
LayoutKind widest(const LayoutKind& a, const LayoutKind& b);

// For tests of the kernels for large operands by small ones: from now on nothing fits the 32-bit INDEX. For all
// devices.
void always_use_wide_indices();

inline std::atomic<bool> wide_indices_only{false};  // set by the function above

// Whether a count, or an offset in elements, fits the 32-bit INDEX.
inline bool fits_32_bits(int64_t value) {
  constexpr int64_t kLimit = int64_t{1} << 30;
  return value < kLimit && value > -kLimit && !wide_indices_only.load(std::memory_order_relaxed);
}

// Appends the struct that UHAL_LAYOUT(name, operands) declares: rank, shape, and the strides of each operand of the
// space, in elements.
void append_layout(Arguments& arguments, const Space& space, const LayoutKind& kind);

// Appends a value of the dialect's INDEX.
inline void append_index(Arguments& arguments, int64_t value, bool wide) {
  if (wide) {
    arguments.int64(value);
  } else {
    arguments.int32(static_cast<int32_t>(value));
  }
}

}  // namespace unihal::kernels

#endif  // UNIHAL_KERNELS_LAYOUT_H_
