#include <algorithm>
#include <numeric>

#include "csrc/kernels/map_function.h"
#include "csrc/kernels/ops.h"
#include "csrc/kernels/ops/convolution.h"
#include "csrc/kernels/teams.h"
#include "kernel_sources.h"

namespace unihal::kernels {

void define_operands(KernelSpec& spec, const Convolution& c, bool wide) {
  spec.compute(c.compute).define("UHAL_WIDE_INDEX", wide).define("HAS_BIAS", c.bias.data != nullptr);
  spec.dtype("FILTER", c.filter.dtype).dtype("SOURCE", c.source.dtype).dtype("RESULT", c.result.dtype);
  spec.dtype("BIAS", c.bias.dtype);
  define_activation(spec, c.activation);
}

Arguments operand_pointers(const Convolution& c) {
  Arguments arguments;
  arguments.pointer(c.filter.data).pointer(c.source.data).pointer(c.bias.data).pointer(c.result.data);
  return arguments;
}

uhal_status convolve_directly(Queue& queue, const Convolution& c, bool transposed) {
  const bool last = channels_last(c.result, c.rows * c.groups);
  const bool wide = needs_wide_index(c);
  Members members;
  members.add(c.channels).add(c.rows).add(c.rows * c.groups);
  members.add(c.input, kSpatial).add(c.window, kSpatial).add(c.output, kSpatial).add(c.stride, kSpatial);
  for (int i = 0; i < kSpatial; ++i) members.add(-c.first[i]);
  members.add(c.step, kSpatial);
  for (int i = 0; i < kSpatial; ++i) members.add(c.stride[i] / std::gcd(c.stride[i], c.step[i]));
  for (int i = 0; i < kSpatial; ++i) members.add(-c.step[i] / std::gcd(c.stride[i], c.step[i]));
  for (const ConvolutionOperand* operand : {&c.source, &c.filter, &c.result})
    members.add(operand->strides, 2 + kSpatial);
  members.add(c.source.group_stride).add(c.filter.group_stride).add(c.result.group_stride).add(c.bias.strides[0]);
  const int64_t count = c.pixels() * c.rows * c.groups;
  members.add(last).add(count);

  KernelSpec spec(sources::convolution_direct, "convolution_direct");
  define_operands(spec, c, wide);
  spec.define("TRANSPOSED", transposed);
  Arguments arguments = operand_pointers(c);
  members.append(arguments, wide);
  note_implementation("convolution_direct");
  return queue.run(spec, arguments, linear_grid(count, std::min(256, queue.traits().max_group_size)));
}

uhal_status filter_gradient_directly(Queue& queue, const Convolution& c) {
  const bool last = channels_last(c.source, c.channels * c.groups);
  const bool wide = needs_wide_index(c);
  Members members;
  walk_taps(c, last, members.take(kWalkMembers));
  walk_pixels(c, members.take(kWalkMembers));
  members.add(c.input, kSpatial).add(c.rows).add(c.groups);
  members.add(c.result.strides[1]).add(c.filter.strides[0]);
  members.add(c.result.group_stride).add(c.source.group_stride).add(c.filter.group_stride).add(last);

  Teams teams(queue.traits());
  // As many work-items as pixels are worth; with channels last, neighbours take neighbouring channels.
  const int64_t most = last ? std::max(1, teams.group / 32) : teams.group;
  teams.lanes = static_cast<int32_t>(std::min(most, power_of_two_from(c.pixels())));
  teams.adjacent = !last;
  KernelSpec spec(sources::convolution_direct_filter, "convolution_direct_filter");
  spec.compute(c.compute).define("UHAL_WIDE_INDEX", wide);
  spec.dtype("GRADIENT", c.result.dtype).dtype("SOURCE", c.source.dtype).dtype("RESULT", c.filter.dtype);
  teams.define(spec);
  Arguments arguments;
  arguments.pointer(c.result.data).pointer(c.source.data).pointer(c.filter.data);
  members.append(arguments, wide);
  teams.append(arguments);
  note_implementation("convolution_direct");
  return queue.run(spec, arguments, teams.grid(c.rows * c.groups * c.channels * c.taps()));
}

}  // namespace unihal::kernels
