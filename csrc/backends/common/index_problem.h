// Gathers and scatters, all kinds of them, as one problem.
//
// All are one thing: an operand (the data) is addressed by one or more components of an index, and another (the rows:
// gather's output, scatter's updates) is walked through in order. The data's indexed axes are replaced by axes of
// stride 0 to walk with, and their strides times the index are added.
#pragma once

#include "unihal/op.h"

namespace unihal {

struct IndexProblem {
  uhal_tensor rows;
  uhal_tensor data;     // as addressed by a position in rows, without the index's part
  uhal_tensor indices;  // the first component, as addressed by a position in rows
  int components = 0;
  int64_t component_stride = 0;
  int64_t lengths[UHAL_MAX_RANK];  // of the data's indexed axes, one per component
  int64_t strides[UHAL_MAX_RANK];

  // Of the axes of rows: whether another coordinate means another index. The others are the window that one index
  // addresses.
  bool of_index[UHAL_MAX_RANK];
  // Of those: whether it means another place in the data as well, whatever the index (batch axes, and the axes beside
  // the indexed one of the elements variants).
  bool of_both[UHAL_MAX_RANK];
};

uhal_index_attributes index_attributes(const uhal_op& op);

// Of the six kinds: whether the op reads at the indices, else it writes there.
bool is_gather(const uhal_op& op);

// `op` is validated.
IndexProblem make_index_problem(const uhal_op& op);

}  // namespace unihal
