// Indexing that tensors (index.cc) and resource variables (variable_index.cc) share.
#pragma once

#include "plugins/tensorflow/kernel.h"

namespace unihal::tensorflow {

// For indices outside their axis that are no error: they read zeros, and their updates are dropped.
uhal_index_attributes lenient_index_attributes(int axis);

// For a program's indices, which the CPU refuses outside their axis. As on TensorFlow's other accelerators the host
// does not wait for the device to find out: they are no error there. Where the device computes at once,
// refuse_outside() has to follow the launch.
uhal_index_attributes program_index_attributes(Context& context, int axis);
uhal_segment_attributes program_segment_attributes(Context& context, uhal_reduction reduction);

// What the numbers of a tensor mean.
enum class Indices {
  kRows,      // each is one of lengths[0] along an axis
  kPlaces,    // those of the last axis are together a place in a tensor of `lengths`
  kSegments,  // each is one of lengths[0]; those below 0 are left out
};

// Where the launches before have met numbers outside: fails the context in the CPU's words if these are some. False if
// the context has failed.
bool refuse_outside(Context& context, const View& numbers, const Shape& lengths, Indices indices,
                    const char* name = "indices");
// The same of numbers that are looked at all, in a device that computes at once.
bool refuse_any_outside(Context& context, const View& numbers, const Shape& lengths, Indices indices,
                        const char* name = "indices");
// Of segments' ids that have to ascend from 0 on: there as on the CPU, elsewhere they are not looked at.
bool refuse_unsorted(Context& context, const View& ids, int64_t segments);

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
