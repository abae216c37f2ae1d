// Maxima over windows whose steps vary: the windows' pixels are gathered by a list of their numbers.
#include <algorithm>
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
  Indices(const Context& context, const std::vector<int32_t>& values)
      : Scratch(context, UHAL_INT32, {static_cast<int64_t>(values.size())}) {
    const auto* bytes = reinterpret_cast<const char*>(values.data());
    upload(context, std::vector<char>(bytes, bytes + values.size() * sizeof(int32_t)), *this);
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
  // What each axis adds to a pixel's number in its channel: by place in the window, then by window.
  int64_t dims[2 * axes], places = 1, windows = 1, stride = 1;
  std::vector<int32_t> parts;
  size_t begins[axes];
  for (int i = axes - 1; i >= 0; --i) {
    const int64_t size = in.shape[i + 2], count = out.shape[i + 2];
    const int64_t length = i < window.size() ? window[i] : 0;
    if (length < 0 || length > size || count > size) invalid(context, "windows do not fit into x");
    const Cuts cuts(size, count, length, u);
    begins[i] = parts.size();
    for (int64_t j = 0; j < cuts.longest; ++j) {
      for (int64_t k = 0; k < count; ++k) {
        const auto at = static_cast<size_t>(k);
        parts.push_back(static_cast<int32_t>(std::min(cuts.begin[at] + j, cuts.end[at] - 1) * stride));
      }
    }
    dims[i] = cuts.longest;
    dims[axes + i] = count;
    places *= cuts.longest;
    windows *= count;
    stride *= size;
  }
  const Indices uploaded(context, parts);
  const auto part = [&](int i) {
    int64_t across[2 * axes];
    std::fill(across, across + 2 * axes, 1);
    across[i] = dims[i];
    across[axes + i] = dims[axes + i];
    return View(static_cast<int32_t*>(uploaded.data) + begins[i], UHAL_INT32, across, 2 * axes);
  };
  const Scratch number(context, UHAL_INT32, dims, 2 * axes);
  const View first = part(0), second = part(1);
  context.map(uhal_map_add, {&first, &second}, {&number});
  for (int i = 2; i < axes; ++i) {
    const View next = part(i);
    context.map(uhal_map_add, {&number, &next}, {&number});
  }
  // The windows' pixels lie place by place, so that maxima are of whole rows.
  const View channels = in.reshaped({in.shape[0], in.shape[1], stride});
  const Scratch pixels_of(context, in.dtype, {in.shape[0], in.shape[1], places * windows}),
      best(context, UHAL_INT32, {in.shape[0], in.shape[1], 1, windows});
  const auto pixel = index_attributes(2);
  const View listed = flat(number);
  context.run(UHAL_OP_GATHER, {&channels, &listed}, {&pixels_of}, &pixel);
  const View candidates = pixels_of.reshaped({in.shape[0], in.shape[1], places, windows});
  const auto descending = axis_attributes(2, true);
  context.run(UHAL_OP_ARG_REDUCE, {&candidates}, {&best}, &descending);
  const View values = out.reshaped(best.shape, 4), numbers = pixels.reshaped(best.shape, 4);
  context.run(UHAL_OP_GATHER_ELEMENTS, {&candidates, &best}, {&values}, &pixel);
  View of_each = number.reshaped({1, 1, places, windows});
  std::copy_n(in.shape, 2, of_each.shape);
  of_each.strides[0] = of_each.strides[1] = 0;
  context.run(UHAL_OP_GATHER_ELEMENTS, {&of_each, &best}, {&numbers}, &pixel);
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
