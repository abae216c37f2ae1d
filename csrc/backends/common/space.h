// Iteration over strided operands: the axes that several views share, in the memory order of the first view,
// with adjacent axes merged where all views allow it.
#pragma once

#include "unihal/tensor.h"

namespace unihal {

inline constexpr int kMaxOperands = 12;  // UHAL_MAP_MAX_INPUTS + UHAL_MAP_MAX_OUTPUTS

struct Space {
  int operands = 0;
  int rank = 0;       // at least 1
  int64_t count = 1;  // elements
  int64_t shape[UHAL_MAX_RANK];
  int64_t strides[kMaxOperands][UHAL_MAX_RANK];  // in elements; 0 along broadcast axes

  int64_t inner() const { return shape[rank - 1]; }

  // Whether operand's elements lie one after the other in the order of iteration.
  bool dense(int operand) const;

  // The number of elements after which operand repeats: 1 for a scalar, the innermost axis' length for a row that is
  // the same at each place of the outer axes (a bias over channels); 0 if it does not.
  int64_t period(int operand) const;
};

// The space of `views`, which broadcast (NumPy's rule) to the shape of views[0].
Space make_space(const uhal_tensor* const* views, int operands);

// For ops that may go through elements in any order: where the innermost axis is short, and the first operand's
// elements do not lie side by side along it, a longer one takes its place, of several the one along which operands lie
// closest.
void lengthen_rows(Space& space);

// A view of the same shape without gaps, in row-major order: as the first view of a space it fixes the order of
// iteration. Its data is not to be touched.
uhal_tensor row_major_view(const uhal_tensor& view);

// A position in a space, counted in the order of iteration; keeps the coordinates of the outer axes, so that
// walking on costs no division.
class Cursor {
 public:
  Cursor(const Space& space, int64_t position);

  // Elements until the end of the innermost axis.
  int64_t run() const { return space_.inner() - inner_; }

  // Offset of an operand's present element.
  int64_t offset(int operand) const {
    return outer_offset_[operand] + inner_ * space_.strides[operand][space_.rank - 1];
  }

  // Moves on by `elements` <= run().
  void advance(int64_t elements) {
    inner_ += elements;
    if (inner_ == space_.inner()) carry();
  }

  // Moves on by any number of elements, over short rows faster than row by row.
  void skip(int64_t elements);

 private:
  void carry();

  const Space& space_;
  int64_t inner_ = 0;
  int64_t coordinates_[UHAL_MAX_RANK];
  int64_t outer_offset_[kMaxOperands];
};

}  // namespace unihal
