// Segments, and groups of equal numbers.
#pragma once

#include "plugins/tensorflow/kernel.h"

namespace unihal::tensorflow {

// A segment reduction in which ids outside their segments are left out, as in index.cc.
uhal_segment_attributes segment_attributes(uhal_reduction reduction);

// 0, 1, 2, ... along the last axis.
void count_up(Context& context, const View& view);

// How many of the ids are 0, 1, ...: counts is int64.
void count_segments(Context& context, const View& ids, const View& counts);

// The different numbers of a vector, ascending.
struct Groups {
  int64_t count = 0;
  View values;      // of each group
  View of_element;  // int64: the group of each element
};

// Waits for the stream once. NaNs are all different.
Groups group_equals(Context& context, const View& numbers);

}  // namespace unihal::tensorflow
