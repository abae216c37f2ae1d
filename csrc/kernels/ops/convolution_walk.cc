#include <algorithm>

#include "csrc/kernels/ops/convolution.h"

namespace unihal::kernels {
namespace {

// A kernel divides by lengths, also those of a walk over nothing.
int64_t divisor_of(int64_t length) { return std::max<int64_t>(1, length); }

struct Walk {
  int64_t* count;
  int64_t* length;
  int64_t* source_stride;
  int64_t* other_stride;
  int64_t* first;
  int64_t* step;

  explicit Walk(int64_t* members)
      : count(members),
        length(members + 1),
        source_stride(members + 6),
        other_stride(members + 11),
        first(members + 16),
        step(members + 19) {}

  void set(int axis, int64_t axis_length, int64_t source, int64_t other) {
    length[axis] = divisor_of(axis_length);
    source_stride[axis] = source;
    other_stride[axis] = other;
  }
};

}  // namespace

void walk_pixels(const Convolution& c, int64_t* members) {
  Walk walk(members);
  *walk.count = c.pixels();
  walk.set(0, c.images, c.source.strides[0], c.result.strides[0]);
  for (int i = 0; i < kSpatial; ++i) {
    walk.set(1 + i, c.output[i], c.source.strides[2 + i], c.result.strides[2 + i]);
    walk.first[i] = c.first[i];
    walk.step[i] = c.stride[i];
  }
  walk.set(4, 1, 0, 0);
}

void walk_taps(const Convolution& c, bool channels_innermost, int64_t* members) {
  Walk walk(members);
  *walk.count = c.channels * c.taps();
  walk.set(channels_innermost ? 4 : 0, c.channels, c.source.strides[1], c.filter.strides[1]);
  walk.set(channels_innermost ? 0 : 4, 1, 0, 0);
  for (int i = 0; i < kSpatial; ++i) {
    walk.set(1 + i, c.window[i], c.source.strides[2 + i], c.filter.strides[2 + i]);
    walk.first[i] = 0;
    walk.step[i] = c.step[i];
  }
}

}  // namespace unihal::kernels
