// Ops along one axis: a row for each position of the other axes, a team of work-items (teams.h) for each row.
#ifndef UNIHAL_KERNELS_ROWS_H_
#define UNIHAL_KERNELS_ROWS_H_

#include "csrc/backends/common/space.h"
#include "csrc/kernels/layout.h"
#include "csrc/kernels/teams.h"

namespace unihal::kernels {

struct Rows {
  Space space;                    // where the rows of each operand begin
  int64_t length;                 // of the first operand along the axis
  int64_t strides[kMaxOperands];  // along the axis; 0 for an operand of length 1 there
  LayoutKind kind;                // holds any offset of any operand
  bool along;                     // the elements of a row of the first operand lie closer than neighbouring rows

  // `views` broadcast to views[0], but for their lengths along the axis: those may be any where 32 bits hold the
  // offsets all the same.
  Rows(const uhal_tensor* const* views, int operands, int axis);

  int64_t count() const { return space.count; }

  // The struct that UHAL_ROWS of prelude/rows.h declares.
  void append(Arguments& arguments) const;
};

// The elements of the widest unit in which each row of all operands lies, dense and aligned: 8 if all have 16 bits
// each, 4, or 1, the UNIT of prelude/row_units.h. An operand whose view is nullptr is left out.
int64_t unit_of_rows(const Rows& rows, const uhal_tensor* const* views, int operands);

// Teams for rows of which a work-item best takes `share` elements: a few members for short rows, up to a whole
// work-group for long ones.
Teams teams_for_rows(const DeviceTraits& traits, const Rows& rows, int64_t share);

}  // namespace unihal::kernels

#endif  // UNIHAL_KERNELS_ROWS_H_
