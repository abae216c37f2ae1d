// Maxima over windows whose steps vary: each window's pixels are gathered beside one another.
#include <algorithm>
#include <optional>
#include <vector>

#include "plugins/paddle/kernels/windows.h"

namespace unihal::paddle {
namespace {

// Where the windows along an axis begin and end, by Paddle's rounding in float32.
struct Cuts {
  std::vector<int64_t> begin, end;
  int64_t longest = 1;

  Cuts(int64_t size, int64_t count, int64_t window, float u) {
    const int64_t steps = count - (window > 0 ? 1 : 0);
    const float alpha = steps > 0 ? static_cast<float>(size - window) / static_cast<float>(steps) : 0;
    if (window == 0) {
      const int64_t base = size / count;
      const float first = static_cast<float>(base + 2) / alpha - 1;
      const float second = static_cast<float>(size + 1 - base) / alpha - static_cast<float>(count - 1);
      u *= std::min(first, second);
    }
    const auto place = [&](int64_t i) {
      return static_cast<int64_t>((static_cast<float>(i) + u) * alpha) - static_cast<int64_t>(u * alpha);
    };
    for (int64_t i = 0; i < count; ++i) {
      begin.push_back(std::clamp<int64_t>(place(i), 0, size - 1));
      const int64_t last = window > 0 ? place(i) + window : place(i + 1);
      end.push_back(std::clamp<int64_t>(last, begin.back() + 1, size));
      longest = std::max(longest, end.back() - begin.back());
    }
  }
};

// Indices on the device.
class Indices : public Scratch {
 public:
  Indices(const Context& context, const std::vector<int64_t>& values)
      : Indices(context, values, static_cast<int64_t>(values.size())) {}

 private:
  Indices(const Context& context, const std::vector<int64_t>& values, int64_t count)
      : Scratch(context, UHAL_INT64, &count, 1) {
    const auto* bytes = reinterpret_cast<const char*>(values.data());
    upload(context, std::vector<char>(bytes, bytes + values.size() * sizeof(int64_t)), *this);
  }
};

float drawn_number(const Context& context) {
  constexpr uint64_t kSteps = 1u << 24;
  return static_cast<float>(context.random_seed() % kSteps) / static_cast<float>(kSteps);
}

// Of equal pixels the first counts, as on the CPU.
template <int axes>
void fractional_max_pool(Context context, Input x, Span<int> /*output_size*/, Span<int> window, float random_u, bool,
                         Output y, Output mask) {
  const View in = x.view();
  if (in.rank != axes + 2)
    invalid(context, "x has " + std::to_string(in.rank) + " axes, not " + std::to_string(axes + 2));
  const View out = context.allocate(y, in.dtype), pixels = context.allocate(mask, UHAL_INT32);
  if (out.elements() == 0) return;
  if (in.elements() == 0) invalid(context, "x has no pixels");
  const float u = random_u == 0 ? drawn_number(context) : random_u;
  // (images, channels, windows along an axis, places in them, ...), an axis of x after the other
  std::vector<int64_t> dims = {in.shape[0], in.shape[1]}, begins[axes];
  int64_t longest[axes], places = 1;
  std::optional<Scratch> parts[axes];
  View from = in;
  for (int i = 0; i < axes; ++i) {
    const int64_t size = in.shape[i + 2], count = out.shape[i + 2];
    const int64_t length = i < window.size() ? window[i] : 0;
    if (length < 0 || length > size || count > size) invalid(context, "windows do not fit into x");
    const Cuts cuts(size, count, length, u);
    std::vector<int64_t> indices;
    for (int64_t k = 0; k < count; ++k) {
      const auto at = static_cast<size_t>(k);
      for (int64_t j = 0; j < cuts.longest; ++j) indices.push_back(std::min(cuts.begin[at] + j, cuts.end[at] - 1));
    }
    begins[i] = cuts.begin;
    longest[i] = cuts.longest;
    places *= cuts.longest;
    dims.insert(dims.end(), {count, cuts.longest});
    View shape = from;
    shape.shape[i + 2] = count * cuts.longest;
    const Scratch& to = parts[i].emplace(context, in.dtype, shape);
    const Indices chosen(context, indices);
    const auto attributes = index_attributes(i + 2);
    context.run(UHAL_OP_GATHER, {&from, &chosen}, {&to}, &attributes);
    from = to;
  }
  int order[2 + 2 * axes] = {0, 1};
  for (int i = 0; i < axes; ++i) {
    order[2 + i] = 2 + 2 * i;
    order[2 + axes + i] = 3 + 2 * i;
  }
  std::vector<int64_t> grouped(out.shape, out.shape + out.rank), one(grouped), in_window(grouped);
  grouped.push_back(places);
  one.push_back(1);
  in_window.insert(in_window.end(), longest, longest + axes);
  const Scratch side_by_side(context, in.dtype, in_window.data(), static_cast<int>(in_window.size()));
  copy_or_cast(context, from.reshaped(dims).permuted(order, 2 + 2 * axes), side_by_side);
  const View groups = side_by_side.reshaped(grouped), values = out.reshaped(one);
  const Scratch best(context, UHAL_INT64, one.data(), static_cast<int>(one.size()));
  const auto descending = axis_attributes(axes + 2, true);
  const auto along_windows = index_attributes(axes + 2);
  context.run(UHAL_OP_ARG_REDUCE, {&groups}, {&best}, &descending);
  context.run(UHAL_OP_GATHER_ELEMENTS, {&groups, &best}, {&values}, &along_windows);
  // The pixel's number in its channel: from the last axis on, the place in the window and where that begins.
  const Scratch number(context, UHAL_INT64, out), place(context, UHAL_INT64, out);
  const View rest = best.reshaped(std::vector<int64_t>(out.shape, out.shape + out.rank));
  fill_zero(context, number);
  int64_t stride = 1;
  for (int i = axes - 1; i >= 0; --i) {
    const Scratch length(context, UHAL_INT64, nullptr, 0), step(context, UHAL_INT64, nullptr, 0);
    fill(context, length, 0, longest[i]);
    fill(context, step, 0, stride);
    const Indices begin(context, begins[i]);
    View at = begin;
    while (at.rank < axes - i) at = at.unsqueezed(at.rank);
    context.map(uhal_map_floor_mod, {&rest, &length}, {&place});
    context.map(uhal_map_floor_divide, {&rest, &length}, {&rest});
    context.map(uhal_map_add, {&place, &at}, {&place});
    context.map(uhal_map_multiply, {&place, &step}, {&place});
    context.map(uhal_map_add, {&number, &place}, {&number});
    stride *= in.shape[i + 2];
  }
  copy_or_cast(context, number, pixels);
}

void fractional_max_pool_grad(Context context, Input, Input mask, Input dy, Span<int>, Span<int>, float, bool,
                              Output dx) {
  const View gradient = dy.view();
  add_at_pixels(context, mask.view(), gradient, context.allocate(dx, gradient.dtype));
}

}  // namespace

KernelTable fractional_pool_kernels() {
  return {
      UNIHAL_KERNEL("fractional_max_pool2d", kFloats, fractional_max_pool<2>),
      UNIHAL_KERNEL("fractional_max_pool2d_grad", kFloats, fractional_max_pool_grad),
      UNIHAL_KERNEL("fractional_max_pool3d", kFloats, fractional_max_pool<3>),
      UNIHAL_KERNEL("fractional_max_pool3d_grad", kFloats, fractional_max_pool_grad),
  };
}

}  // namespace unihal::paddle
