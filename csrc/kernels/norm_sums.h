// The gradients of a normalization's scale and bias (source/norm_sums.cl), and how work on columns is divided.
#ifndef UNIHAL_KERNELS_NORM_SUMS_H_
#define UNIHAL_KERNELS_NORM_SUMS_H_

#include "csrc/kernels/norm_spaces.h"
#include "csrc/kernels/operands.h"
#include "csrc/kernels/teams.h"

namespace unihal::kernels {

// How teams share `columns` of `points` each: a team takes one of `pieces` equal parts of a column's points. Columns
// that lie side by side in memory go to adjacent teams.
struct ColumnPlan {
  Teams teams;
  int64_t pieces;

  // Strides in memory: to the next column, and to the next point of a column. A point is `unit` elements.
  ColumnPlan(const DeviceTraits& traits, int64_t columns, int64_t points, int64_t column_stride, int64_t point_stride,
             int64_t unit);

  Grid grid(int64_t columns) const {
    return teams.grid((columns + teams.per_group() - 1) / teams.per_group() * pieces * teams.per_group());
  }
};

class NormSums {
 public:
  struct Operands {
    const uhal_tensor *x, *dy;
    const uhal_tensor* mean;            // nullptr: zero
    const uhal_tensor* spread;          // the variance; or the inverse root, per_point
    const uhal_tensor *dscale, *dbias;  // nullptr: not wanted
    bool per_point;                     // statistics differ between the points of a column
  };

  // The operands' data may still change before run.
  NormSums(const DeviceTraits& traits, const uhal_op& op, const Operands& operands);

  int64_t columns() const { return spaces_.outer.count; }

  // Of the sums. Afterwards they begin with the gradients of bias and scale of all columns, in the compute type.
  size_t workspace_bytes() const { return workspace_bytes(plan_.pieces); }

  uhal_status run(Queue& queue, void* sums) const;

  // Sums that somebody else has taken, in pieces: sums[piece][0 and 1][column], of dy and of dy * normalized x.
  size_t workspace_bytes(int64_t pieces) const;
  uhal_status finish(Queue& queue, void* sums, int64_t pieces) const;

 private:
  KernelSpec spec(const char* entry, const LayoutKind& kind) const;

  Operands operands_;
  int64_t unit_;       // UNIT
  NormSpaces spaces_;  // the inner one in units
  Compute compute_;
  double epsilon_;
  ColumnPlan plan_;
  LayoutKind kind_;
};

}  // namespace unihal::kernels

#endif  // UNIHAL_KERNELS_NORM_SUMS_H_
