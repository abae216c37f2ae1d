// UHAL_OP_RESIZE and UHAL_OP_RESIZE_BACKWARD. Positions are fractions of integers, so that devices without float64
// choose the same pixels as those with it.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "csrc/backends/common/attributes.h"
#include "csrc/kernels/operands.h"
#include "csrc/kernels/ops.h"
#include "kernel_sources.h"

namespace unihal::kernels {
namespace {

// Bits of a step, behind the binary point, that is no simple fraction; fewer where images are huge.
constexpr int kStepBits = 32;

// The structs of resize.cl, in 64 bits.
struct ResizeAxis {
  int64_t numerator = 0;
  int64_t offset = 0;
  int64_t denominator = 1;
  int64_t x_length = 1;
  int64_t y_length = 1;
  int64_t step_bits = 0;
};

struct ResizePlan {
  int64_t count = 1;
  int64_t divisors[5];
  int64_t lengths[5];
  int64_t to_strides[5];
  int64_t from_strides[5];
  ResizeAxis axes[3];
};
constexpr int kResizePlanMembers = sizeof(ResizePlan) / sizeof(int64_t);

// The simplest fraction that a step stands for: 0.3 is 3/10. False if none of small numbers is as near as doubles go.
bool as_fraction(double step, int64_t* numerator, int64_t* denominator) {
  constexpr double kLargest = 1 << 12;
  double rest = step, p = 1, q = 0, last_p = 0, last_q = 1;
  for (int terms = 0; terms < 16; ++terms) {
    const double whole = std::floor(rest);
    const double next_p = whole * p + last_p, next_q = whole * q + last_q;
    if (next_p > kLargest || next_q > kLargest) return false;
    last_p = p, last_q = q, p = next_p, q = next_q;
    if (p / q == step) {
      *numerator = static_cast<int64_t>(p);
      *denominator = static_cast<int64_t>(q);
      return true;
    }
    rest = 1 / (rest - whole);
  }
  return false;
}

// More than an axis is long. Of such steps, every position but the first lies outside x: they are all the same.
double longest_step(const ResizeAxis& axis) {
  return 2.0 * static_cast<double>(std::max(axis.x_length, axis.y_length) + 4);
}

// Sets numerator and denominator to a given step, twice over: exact if the step has few bits.
void set_step(ResizeAxis& axis, double step) {
  if (as_fraction(step, &axis.numerator, &axis.denominator)) {
    axis.numerator *= 2;
    axis.denominator *= 2;
    return;
  }
  int bits = 0;
  while (bits < kStepBits && std::ldexp(step, bits) != std::floor(std::ldexp(step, bits)) &&
         std::ldexp(longest_step(axis) / 2 * std::max(step, 1.0), bits + 3) < 0x1p62) {
    ++bits;
  }
  axis.numerator = 2 * static_cast<int64_t>(std::ldexp(step, bits) + 0.5);
  axis.denominator = int64_t{2} << bits;
}

// Denominators are even, so that half a pixel is a whole number of parts.
ResizeAxis axis_of(const uhal_resize_attributes& attributes, int64_t x_length, int64_t y_length, double scale) {
  ResizeAxis axis;
  axis.x_length = x_length;
  axis.y_length = y_length;
  if (attributes.align_corners != 0) {
    axis.numerator = y_length > 1 ? 2 * (x_length - 1) : 0;
    axis.denominator = y_length > 1 ? 2 * (y_length - 1) : 2;
  } else {
    axis.numerator = 2 * x_length;
    axis.denominator = 2 * y_length;
    if (scale > 0) {
      scale = std::min(scale, longest_step(axis));
      const auto single = static_cast<float>(scale);
      const bool nearest = attributes.mode == UHAL_RESIZE_NEAREST;
      set_step(axis, nearest ? single : scale);
      uint32_t bits;
      std::memcpy(&bits, &single, sizeof bits);
      axis.step_bits = nearest ? bits : 0;
    }
    if (attributes.half_pixel_centers != 0) axis.offset = (axis.numerator - axis.denominator) / 2;
  }
  // Half-pixel centers: the pixel that the centre lies in. Aligned corners: the nearest; else the one before.
  const bool rounds = attributes.align_corners != 0 || attributes.half_pixel_centers != 0;
  if (attributes.mode == UHAL_RESIZE_NEAREST && rounds) axis.offset += axis.denominator / 2;
  return axis;
}

// The plan of a kernel that writes `to`, whose elements it walks through in the order of memory.
ResizePlan make_plan(const uhal_op& op, const uhal_resize_attributes& attributes, const uhal_tensor& from,
                     const uhal_tensor& to) {
  const bool forward = op.kind == UHAL_OP_RESIZE;
  const uhal_tensor& x = forward ? from : to;
  const uhal_tensor& y = forward ? to : from;
  const int missing = 5 - to.rank;
  ResizePlan plan;
  for (int i = 0; i < 5; ++i) {
    const int axis = i < 2 ? i : i - missing;
    const bool present = i < 2 || axis >= 2;
    plan.lengths[i] = present ? to.shape[axis] : 1;
    plan.to_strides[i] = present ? to.strides[axis] : 0;
    plan.from_strides[i] = present ? from.strides[axis] : 0;
    if (i >= 2 && present) {
      plan.axes[i - 2] = axis_of(attributes, x.shape[axis], y.shape[axis], attributes.scale[axis - 2]);
    }
  }
  int order[5] = {0, 1, 2, 3, 4};
  std::stable_sort(order, order + 5,
                   [&](int a, int b) { return std::abs(plan.to_strides[a]) > std::abs(plan.to_strides[b]); });
  for (int i = 4; i >= 0; --i) {
    plan.divisors[order[i]] = plan.count;
    plan.count *= plan.lengths[order[i]];
  }
  return plan;
}

// Whether the kernel needs 64-bit integers: for offsets, or for positions in parts of a pixel.
bool is_wide(const ResizePlan& plan, const uhal_tensor& from, const uhal_tensor& to) {
  if (!fits_32_bits(from) || !fits_32_bits(to) || !fits_32_bits(plan.count)) return true;
  for (const ResizeAxis& axis : plan.axes) {
    const int64_t longest = std::max(axis.x_length, axis.y_length) + 4;
    const int64_t most = std::max(axis.numerator, axis.denominator);
    if (!fits_32_bits(most) || !fits_32_bits(longest * most) || !fits_32_bits(longest * most + std::abs(axis.offset))) {
      return true;
    }
  }
  return false;
}

}  // namespace

const char* refuse_resize(const DeviceTraits&, const uhal_op& op) {
  if (is_floating(op.inputs[0]->dtype) && is_floating(op.outputs[0]->dtype)) return nullptr;
  return "resizing takes floating point only: cast the operand first";
}

uhal_status run_resize(Queue& queue, const uhal_op& op) {
  const uhal_tensor& from = *op.inputs[0];
  const uhal_tensor& to = *op.outputs[0];
  const auto attributes = attributes_or(op, uhal_resize_attributes{});
  const ResizePlan plan = make_plan(op, attributes, from, to);
  if (plan.count == 0) return UHAL_OK;
  const bool wide = is_wide(plan, from, to);
  KernelSpec spec(sources::resize, op.kind == UHAL_OP_RESIZE ? "resize" : "resize_backward");
  spec.compute(floating_compute(op)).dtype("FROM", from.dtype).dtype("TO", to.dtype);
  spec.define("UHAL_WIDE_INDEX", wide).define("MODE", attributes.mode).define("SPATIAL", to.rank - 2);
  int64_t members[kResizePlanMembers];
  std::memcpy(members, &plan, sizeof plan);
  Arguments arguments;
  arguments.pointer(from.data).pointer(to.data);
  append_indices(arguments, members, kResizePlanMembers, wide);
  return queue.run(spec, arguments, linear_grid(plan.count, std::min(256, queue.traits().max_group_size)));
}

}  // namespace unihal::kernels
