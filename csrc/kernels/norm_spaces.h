// The operands of a normalization as its kernels walk through them: by statistics, each with the elements that it is
// taken of, or by parameters (scale and bias), each with the points that it applies to.
#ifndef UNIHAL_KERNELS_NORM_SPACES_H_
#define UNIHAL_KERNELS_NORM_SPACES_H_

#include "csrc/backends/common/norm.h"
#include "csrc/backends/common/space.h"

namespace unihal::kernels {

struct NormOperand {
  enum Role : uint8_t {
    kElements,   // of x's shape
    kParameter,  // scale and bias, and their gradients
    kStatistic,  // mean, variance, inverse root mean square
  };
  const uhal_tensor* view;  // nullptr: absent, with strides of 0
  Role role;
};

// Offsets of outer and inner add up.
struct NormSpaces {
  Space outer, inner;
};

// The axes of x, split where that tells statistics or parameters apart (a group norm's channels into groups and the
// channels of each), and the strides of `count` operands along them; the first operand is x.
class NormAxes {
 public:
  NormAxes(const uhal_op& op, const NormOperand* operands, int count);

  NormSpaces by_statistic() const;  // outer: the rows, one for each mean; inner: a row's elements
  NormSpaces by_parameter() const;  // outer: the columns, one for each scale; inner: a column's points

 private:
  struct Axis {
    int64_t length;
    bool of_statistic, of_parameter;  // whether statistics, or parameters, differ along it
    int64_t strides[kMaxOperands];
  };

  Axis& add(int64_t length, bool of_statistic, bool of_parameter);
  // The space of the axes for which `of_parameter` or `of_statistic`, as asked, is `differs`.
  Space space(bool by_parameter, bool differs) const;

  int count_;
  int rank_ = 0;
  Axis axes_[UHAL_MAX_RANK + 1];
};

// The elements of the widest unit in which the inner axis of the first `count` operands lies, dense and aligned: 8 if
// all have 16 bits each, 4, or 1.
int64_t unit_of_inner(const NormSpaces& spaces, const uhal_tensor* const* views, int count);

// Counts a space in such units of its innermost axis.
void count_in_units(Space& space, int64_t unit);

// The first normalized axis of layer and RMS norm.
inline int first_normalized_axis(const uhal_op& op) {
  const int axis = norm_attributes(op).axis;
  return axis < 0 ? axis + op.inputs[0]->rank : axis;
}

}  // namespace unihal::kernels

#endif  // UNIHAL_KERNELS_NORM_SPACES_H_
