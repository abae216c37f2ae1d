// What convolution and pooling share: layouts, padding and window sizes as TensorFlow states them.
#pragma once

#include "plugins/tensorflow/kernel.h"

namespace unihal::tensorflow {

// Attributes "strides", "padding", "explicit_paddings", "data_format" and, where they exist, "ksize" and
// "dilations", of ops with 1 to 3 spatial axes.
class WindowAttributes {
 public:
  explicit WindowAttributes(Construction& construction);

  // Of ops whose ksize and strides are host inputs `first` and `first` + 1 (MaxPoolV2): the attributes with these.
  // Fails the context, or leaves the call to the CPU, where they are no good.
  WindowAttributes with_inputs(Context& context, int first) const;

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
  // Why these are refused: windows that reach over several images or channels, and others. "" if they are good.
  std::string problem(bool windows, bool dilations) const;
  std::string problem_with_values() const;
  bool windows_are_positive() const;
  int64_t spatial_entry(const Shape& list, int spatial) const;

  bool channels_first_ = false;
  bool has_dilations_ = false;
  std::string padding_;
  Shape strides_;
  Shape windows_;
  Shape dilations_;
  Shape explicit_paddings_;  // before and after, per axis of memory
};

}  // namespace unihal::tensorflow
