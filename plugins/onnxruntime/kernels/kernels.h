// The families of kernels, each a table of ops.
#pragma once

#include "plugins/onnxruntime/call.h"

namespace unihal::onnxruntime {

Table attention_ops();
Table attention_microsoft_ops();
Table column_ops();
Table convolution_ops();
Table detection_ops();
Table einsum_ops();
Table embedding_ops();
Table elementwise_ops();
Table index_ops();
Table linear_attention_ops();
Table loss_ops();
Table matmul_ops();
Table movement_ops();
Table norm_ops();
Table pool_ops();
Table quantize_ops();
Table quantized_linear_ops();
Table random_ops();
Table recurrent_ops();
Table reduce_ops();
Table resize_ops();
Table shape_ops();
Table signal_ops();
Table transfer_ops();
Table unique_ops();

// What many ops share.

// Axes that an op takes from an attribute, or since `since` from a host input; none: not given.
std::optional<Shape> axes_attribute(const Description& node, int since, const char* name = "axes");
std::optional<Shape> given_axes(const Call& call, const std::optional<Shape>& attribute, int input);

// Padding and strides of windows: convolutions and pools. Empty lists are defaults.
struct Window {
  explicit Window(const Description& node);

  int64_t stride(int axis) const { return strides.empty() ? 1 : strides[axis]; }
  int64_t dilation(int axis) const { return dilations.empty() ? 1 : dilations[axis]; }
  // Fails unless each list has an entry for each of `axes` spatial axes.
  void check(const Call& call, int axes) const;
  // Padding of an axis of `length` pixels under a window of `size`.
  void padding(int axis, int axes, int64_t length, int64_t size, int64_t* before, int64_t* after) const;

  const Shape kernel, strides, dilations, pads;
  const std::string auto_pad;
};

// The activation that a fused op of com.microsoft ends with; refuses one that unihal's products do not have.
uhal_activation activation_of(const Description& node);

// How many elements are not 0. Waits for the device: a shape depends on it.
int64_t count_nonzero(Call& call, const View& x);

constexpr bool is_float8(uhal_dtype dtype) { return dtype == UHAL_FLOAT8_E4M3FN || dtype == UHAL_FLOAT8_E5M2; }
// The largest number of a dtype of float8.
constexpr double most_of(uhal_dtype dtype) { return dtype == UHAL_FLOAT8_E4M3FN ? 448 : 57344; }

// Given as an op's `data`: whether its images have the channels last. Kernels see them as (N, C, spatial...) all the
// same.
inline constexpr bool kChannelsFirst = false;
inline constexpr bool kChannelsLast = true;

// An input of images, at least (N, C, length).
View input_images(const Call& call, int index, bool channels_last);
// An output of images of a shape (N, C, spatial...).
View output_images(Call& call, int index, const Shape& shape, bool channels_last);

template <size_t kCount>
Table table(const Op (&rows)[kCount]) {
  return {rows, kCount};
}

}  // namespace unihal::onnxruntime
