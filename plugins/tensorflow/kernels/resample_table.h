// Tables of UHAL_OP_RESAMPLE: what TensorFlow's resizes of images weigh along an axis. Weights are computed in float32,
// in the order of TensorFlow's CPU kernels, whose roundings they share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace unihal::tensorflow {

// An axis of `length` elements as `outputs()` weighted sums of neighbours.
class ResampleTable {
 public:
  explicit ResampleTable(int64_t length) : length_(length) {}

  // Begins the next output, and adds to its weight of an element; elements outside stand for the nearest inside.
  void next() { rows_.emplace_back(); }
  void add(int64_t element, float weight);

  int64_t length() const { return length_; }
  int64_t outputs() const { return static_cast<int64_t>(rows_.size()); }
  // The most neighbours that an output needs.
  int64_t taps() const;
  // Of the gradient.
  ResampleTable transposed() const;

  // The operands `first` (int32) and `weights` (float32), one behind the other, at the end of `bytes`.
  void append(std::vector<char>& bytes) const;

 private:
  struct Row {
    int64_t first = 0;
    std::vector<float> weights;
  };
  int64_t length_;
  std::vector<Row> rows_;
};

// The step of a position in the input per output pixel, as all of TensorFlow's resizes have it.
float resize_step(int64_t length, int64_t outputs, bool align_corners);

// ResizeBicubic: weights of a table of 1024 steps; with half-pixel centers Keys' kernel, which leaves out pixels
// outside.
ResampleTable bicubic_table(int64_t length, int64_t outputs, bool align_corners, bool half_pixel_centers);

// ResizeArea: the means of what output pixels cover.
ResampleTable area_table(int64_t length, int64_t outputs, bool align_corners);

// ScaleAndTranslate. Its kernels by name; false if there is none of that name.
bool is_sampling_kernel(const std::string& name);
ResampleTable scale_and_translate_table(const std::string& kernel, int64_t length, int64_t outputs, float scale,
                                        float translation, bool antialias);

}  // namespace unihal::tensorflow
