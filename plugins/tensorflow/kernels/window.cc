#include "plugins/tensorflow/kernels/window.h"

#include <algorithm>

namespace unihal::tensorflow {

WindowAttributes::WindowAttributes(Construction& construction) {
  if (construction.has("data_format")) {
    const std::string format = construction.text("data_format");
    channels_first_ = format.rfind("NC", 0) == 0 || format == "CHANNELS_FIRST";
  }
  if (construction.has("batch_dims") && construction.integer("batch_dims") != 1) {
    construction.refuse("several axes of batches");
  }
  padding_ = construction.text("padding");
  has_dilations_ = construction.has("dilations");
  if (has_dilations_) dilations_ = construction.integers("dilations");
  if (construction.has("batch_dims")) has_dilations_ = !dilations_.empty();  // Conv may leave them out
  if (construction.has("explicit_paddings")) explicit_paddings_ = construction.integers("explicit_paddings");
  if (!construction.has("strides")) return;  // with_inputs() has them
  strides_ = construction.integers("strides");
  if (construction.has("ksize")) windows_ = construction.integers("ksize");
  const std::string reason = problem(construction.has("ksize"), has_dilations_);
  if (reason.empty()) return;
  // The CPU's pooling gradients write beyond their tensors where a window has no size.
  if (windows_are_positive()) {
    construction.refuse(reason);
  } else {
    construction.fail(TF_INVALID_ARGUMENT, problem_with_values());
  }
}

WindowAttributes WindowAttributes::with_inputs(Context& context, int first) const {
  WindowAttributes result = *this;
  result.windows_ = context.host_vector(first);
  result.strides_ = context.host_vector(first + 1);
  if (!context.ok()) return result;
  const std::string reason = result.problem(true, has_dilations_);
  if (!reason.empty() && result.windows_are_positive()) {
    context.refuse(reason);
  } else if (!reason.empty()) {
    context.fail_invalid(result.problem_with_values());
  }
  return result;
}

bool WindowAttributes::windows_are_positive() const {
  return std::all_of(windows_.begin(), windows_.end(), [](int64_t value) { return value > 0; });
}

std::string WindowAttributes::problem(bool windows, bool dilations) const {
  const size_t axes = strides_.size();
  const auto lies_in_space = [&](const Shape& list) {
    const size_t channel = channels_first_ ? 1 : axes - 1;
    return list.empty() || (list.size() == axes && list[0] == 1 && list[channel] == 1);
  };
  const auto is_positive = [](int64_t value) { return value > 0; };
  const auto pads_space = [&]() {  // but neither batch nor channels
    const size_t channel = channels_first_ ? 1 : axes - 1;
    const Shape& list = explicit_paddings_;
    return list.size() == 2 * axes && list[0] == 0 && list[1] == 0 && list[2 * channel] == 0 &&
           list[2 * channel + 1] == 0 &&
           std::all_of(list.begin(), list.end(), [](int64_t value) { return value >= 0; });
  };
  const bool good = axes >= 3 && axes <= 2 + UHAL_MAX_SPATIAL && lies_in_space(strides_) && lies_in_space(windows_) &&
                    lies_in_space(dilations_) && std::all_of(strides_.begin(), strides_.end(), is_positive) &&
                    windows_are_positive() && std::all_of(dilations_.begin(), dilations_.end(), is_positive) &&
                    (windows ? windows_.size() == axes : true) && (dilations ? dilations_.size() == axes : true) &&
                    (padding_ == "EXPLICIT" ? pads_space() : explicit_paddings_.empty());
  // The same for all nodes: reasons are counted.
  return good ? ""
              : "strides, ksize and dilations must be positive, have one entry per axis, and be 1 along batch and "
                "channels, which take no padding";
}

std::string WindowAttributes::problem_with_values() const {
  return problem(!windows_.empty(), has_dilations_) + "; got strides " + to_text(strides_) + ", ksize " +
         to_text(windows_);
}

bool WindowAttributes::fits(Context& context, const View& view) const {
  if (context.ok() && view.rank != static_cast<int>(strides_.size())) {
    context.fail_invalid("expected a tensor of rank " + std::to_string(strides_.size()) + ", got shape " +
                         to_text(view));
  }
  return context.ok();
}

int64_t WindowAttributes::spatial_entry(const Shape& list, int spatial) const {
  const size_t index = static_cast<size_t>(spatial + (channels_first_ ? 2 : 1));
  return index < list.size() ? list[index] : 1;
}

Shape WindowAttributes::in_memory(const Shape& logical) const {
  Shape shape = logical;
  if (!channels_first_) std::rotate(shape.begin() + 1, shape.begin() + 2, shape.end());
  return shape;
}

WindowAttributes::Extent WindowAttributes::extent(int spatial, int64_t input, int64_t window) const {
  const int64_t step = stride(spatial);
  const int64_t reach = (window - 1) * dilation(spatial) + 1;
  if (padding_ == "SAME") {
    const int64_t output = (input + step - 1) / step;
    const int64_t padding = std::max<int64_t>((output - 1) * step + reach - input, 0);
    return {output, padding / 2, padding - padding / 2};
  }
  Extent extent = {0, 0, 0};
  if (!explicit_paddings_.empty()) {
    const size_t axis = static_cast<size_t>(spatial + (channels_first_ ? 2 : 1));
    extent.pad_before = explicit_paddings_[2 * axis];
    extent.pad_after = explicit_paddings_[2 * axis + 1];
  }
  const int64_t room = input + extent.pad_before + extent.pad_after - reach;
  extent.output = (room + step) / step;  // one that is negative is no shape
  return extent;
}

}  // namespace unihal::tensorflow
