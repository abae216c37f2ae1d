// Indexing that tensors (index.cc) and resource variables (variable_index.cc) share.
#pragma once

#include "plugins/tensorflow/kernel.h"

namespace unihal::tensorflow {

// Indices outside their axis are no error: see index.cc.
uhal_index_attributes lenient_index_attributes(int axis);

// Output 0 = params with `axis` replaced by the axes of indices after the batch dimensions.
void gather(Context& context, const View& params, const View& indices, int axis, int batch_dimensions);

// Output 0 = params[indices[..., :]].
void gather_nd(Context& context, const View& params, const View& indices);

// Column `number` of a matrix.
View column_of(const View& matrix, int64_t number);

// How updates combine with what is there.
struct Scatter {
  uhal_reduction reduction;
  bool negate;
};

// Whether these updates go into a tensor like `target`; fails the context if not.
bool scatter_nd_fits(Context& context, const View& indices, const View& updates, const View& target);

// target[indices[..., :]] is combined with updates.
bool scatter_nd(Context& context, const View& indices, const View& updates, Scatter scatter, const View& target);

}  // namespace unihal::tensorflow
