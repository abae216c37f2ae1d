// Python's slices as TensorFlow encodes them: begin, end and stride per entry, with bit masks.
#pragma once

#include "plugins/tensorflow/kernel.h"

namespace unihal::tensorflow {

class StridedSlice {
 public:
  explicit StridedSlice(Construction& construction);

  // The part of `whole` that host inputs `first_input`, +1 and +2 (begin, end, strides) select: a view of whole's
  // rank, and the shape that the op gives it (entries that are one index lose their axis, new axes come in).
  bool select(Context& context, int first_input, const View& whole, View* part, Shape* shape) const;

 private:
  int64_t begin_mask_;
  int64_t end_mask_;
  int64_t ellipsis_mask_;
  int64_t new_axis_mask_;
  int64_t shrink_axis_mask_;
};

}  // namespace unihal::tensorflow
