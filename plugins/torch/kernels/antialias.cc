// Images made smaller with a filter as wide as a pixel of the result: weighted sums along one axis after the other,
// whose tables are made on the host.
#include <ATen/ops/_upsample_bicubic2d_aa_backward_meta.h>
#include <ATen/ops/_upsample_bicubic2d_aa_meta.h>
#include <ATen/ops/_upsample_bilinear2d_aa_backward_meta.h>
#include <ATen/ops/_upsample_bilinear2d_aa_meta.h>

#include <cmath>

#include "plugins/torch/kernels/kernels.h"

namespace unihal::pytorch {
namespace {

struct Filter {
  int width;  // in pixels of the coarser grid
  double (*weight)(double x);
};

double triangle(double x) { return std::abs(x) < 1 ? 1 - std::abs(x) : 0; }

// Cubic convolution (Keys 1981) with a = -1/2.
double cubic(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

constexpr Filter kLinearFilter = {2, triangle}, kCubicFilter = {4, cubic};

// y[i] is the sum of weights[i, t] * x[first[i] + t].
struct Table {
  int64_t outputs, taps;
  std::vector<int32_t> first;
  std::vector<double> weights;
};

Table table_of(const Filter& filter, int64_t input, int64_t output, bool align_corners, double scale) {
  double step = scale > 0 ? 1 / scale : static_cast<double>(input) / static_cast<double>(output);
  if (align_corners) step = output > 1 ? static_cast<double>(input - 1) / static_cast<double>(output - 1) : 0;
  const double stretch = std::max(step, 1.0);
  const double support = filter.width * 0.5 * stretch;
  Table table = {output, static_cast<int64_t>(std::ceil(support)) * 2 + 1, {}, {}};
  table.weights.resize(static_cast<size_t>(output * table.taps));
  for (int64_t i = 0; i < output; ++i) {
    const double center = step * (static_cast<double>(i) + 0.5);
    const int64_t first = std::max<int64_t>(static_cast<int64_t>(center - support + 0.5), 0);
    const int64_t count = std::min(std::min(static_cast<int64_t>(center + support + 0.5), input) - first, table.taps);
    table.first.push_back(static_cast<int32_t>(first));
    double total = 0;
    double* const weights = &table.weights[static_cast<size_t>(i * table.taps)];
    for (int64_t t = 0; t < count; ++t) {
      weights[t] = filter.weight((static_cast<double>(first + t) - center + 0.5) / stretch);
      total += weights[t];
    }
    for (int64_t t = 0; total != 0 && t < count; ++t) weights[t] /= total;
  }
  return table;
}

// The table of the gradient: which outputs each input has a part in.
Table transposed(const Table& table, int64_t input) {
  std::vector<int64_t> low(static_cast<size_t>(input), table.outputs), high(static_cast<size_t>(input), -1);
  const auto each = [&](const auto& use) {
    for (int64_t i = 0; i < table.outputs; ++i) {
      for (int64_t t = 0; t < table.taps; ++t) {
        const double weight = table.weights[static_cast<size_t>(i * table.taps + t)];
        const int64_t at = table.first[static_cast<size_t>(i)] + t;
        if (weight != 0 && at < input) use(i, static_cast<size_t>(at), weight);
      }
    }
  };
  each([&](int64_t i, size_t at, double) {
    low[at] = std::min(low[at], i);
    high[at] = std::max(high[at], i);
  });
  Table result = {input, 1, {}, {}};
  for (size_t at = 0; at < low.size(); ++at) {
    if (high[at] < 0) low[at] = high[at] = 0;
    result.taps = std::max(result.taps, high[at] - low[at] + 1);
    result.first.push_back(static_cast<int32_t>(low[at]));
  }
  result.weights.resize(static_cast<size_t>(input * result.taps));
  each([&](int64_t i, size_t at, double weight) {
    result.weights[at * static_cast<size_t>(result.taps) + static_cast<size_t>(i - low[at])] = weight;
  });
  return result;
}

// x with one axis resampled by a table.
at::Tensor resample(Call& call, const at::Tensor& x, int64_t axis, const Table& table) {
  const at::TensorOptions host = at::TensorOptions(at::kDouble);
  const at::ScalarType dtype = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor first = call.keep(at::tensor(table.first, host.dtype(at::kInt)).to(x.device()));
  const at::Tensor weights =
      call.keep(at::tensor(table.weights, host).view({table.outputs, table.taps}).to(dtype).to(x.device()));
  c10::DimVector sizes(x.sizes());
  sizes[axis] = table.outputs;
  // Between the two axes nothing is rounded to a short dtype.
  const at::Tensor result = call.scratch(sizes, dtype);
  const uhal_axis_attributes attributes = axis_attributes(static_cast<int>(axis), false);
  const View from = view_of(x), starts = view_of(first), factors = view_of(weights), y = view_of(result);
  call.launch(UHAL_OP_RESAMPLE, {&from, &starts, &factors}, {&y}, &attributes);
  return result;
}

// (self, output_size, align_corners, scales_h, scales_w)
template <class Meta>
void resize_antialiased(Call& call) {
  Structured<Meta>(call).infer();
  at::Tensor result = call.result();
  if (result.numel() == 0) return;
  const Filter& filter = call.data<Filter>();
  at::Tensor x = call.tensor(0);
  for (const int64_t axis : {3, 2}) {
    // The CPU takes no notice of the scale of an axis that keeps its size, but for the gradient.
    const bool is_kept = x.size(axis) == result.size(axis);
    const double scale = is_kept ? 0 : call.real_or(static_cast<int>(axis) + 1, 0);
    x = resample(call, x, axis, table_of(filter, x.size(axis), result.size(axis), call.boolean(2), scale));
  }
  result.copy_(x);
}

// (grad_output, output_size, input_size, align_corners, scales_h, scales_w)
template <class Meta>
void resize_antialiased_backward(Call& call) {
  Structured<Meta>(call).infer();
  at::Tensor result = call.result();
  if (result.numel() == 0) return;
  const Filter& filter = call.data<Filter>();
  at::Tensor x = call.tensor(0);
  for (const int64_t axis : {2, 3}) {
    const int64_t input = result.size(axis);
    const Table table =
        table_of(filter, input, x.size(axis), call.boolean(3), call.real_or(static_cast<int>(axis) + 2, 0));
    x = resample(call, x, axis, transposed(table, input));
  }
  result.copy_(x);
}

#define ANTIALIASED(op, filter)                                                                          \
  {#op, kFloats, resize_antialiased<at::meta::structured_##op>, &filter}, {                              \
    #op "_backward", kFloats, resize_antialiased_backward<at::meta::structured_##op##_backward>, &filter \
  }

constexpr Kernel kAntialiasKernels[] = {
    ANTIALIASED(_upsample_bilinear2d_aa, kLinearFilter),
    ANTIALIASED(_upsample_bicubic2d_aa, kCubicFilter),
};

}  // namespace

void register_antialias() { register_kernels(kAntialiasKernels); }

}  // namespace unihal::pytorch
