// What convolution and pooling share: layouts, padding and window sizes as TensorFlow states them.
#pragma once

#include "plugins/tensorflow/kernel.h"

namespace unihal::tensorflow {

// Attributes "strides", "padding", "explicit_paddings", "data_format" and, where they exist, "ksize" and
// "dilations", of ops with 1 to 3 spatial axes.
class WindowAttributes {
 public:
  explicit WindowAttributes(Construction& construction);

  // Seen in the ABI's order N, C, spatial...
  View logical(const View& view) const { return channels_first_ ? view : view.channels_first(); }
  // A logical shape in TensorFlow's memory order.
  Shape in_memory(const Shape& logical) const;

  int64_t stride(int spatial) const { return spatial_entry(strides_, spatial); }
  int64_t window(int spatial) const { return spatial_entry(windows_, spatial); }
  int64_t dilation(int spatial) const { return dilations_.empty() ? 1 : spatial_entry(dilations_, spatial); }

  // The output's length along a spatial axis and the padding of the input there.
  struct Extent {
    int64_t output;
    int64_t pad_before;
    int64_t pad_after;
  };
  Extent extent(int spatial, int64_t input, int64_t window) const;

  // Whether a tensor has as many axes as the attributes have entries; fails the context if not.
  bool fits(Context& context, const View& view) const;

 private:
  // Windows that reach over several images or channels are refused.
  void check(Construction& construction) const;
  int64_t spatial_entry(const Shape& list, int spatial) const;

  bool channels_first_ = false;
  std::string padding_;
  Shape strides_;
  Shape windows_;
  Shape dilations_;
  Shape explicit_paddings_;  // before and after, per axis of memory
};

}  // namespace unihal::tensorflow
