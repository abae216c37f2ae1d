// Random numbers: Philox keyed by the device's generator in Paddle, or by a given seed.
#include <cstring>

#include "plugins/paddle/kernels/common.h"

namespace unihal::paddle {
namespace {

uint64_t key_of(const Context& context, int seed) {
  return seed != 0 ? static_cast<uint64_t>(seed) : context.random_seed();
}

void generate(const Context& context, uhal_distribution distribution, double a, double b, int seed, const View& y) {
  const auto attributes = random_attributes(distribution, a, b, key_of(context, seed), 0);
  context.run(UHAL_OP_RANDOM, {}, {&y}, &attributes);
}

void uniform(Context context, Integers shape, Dtype dtype, Scalar low, Scalar high, int seed, Output y) {
  const View out = context.allocate(y, to_uhal(dtype), shape.data(), shape.size());
  generate(context, UHAL_RANDOM_UNIFORM, low.number(), high.number(), seed, out);
}

void gaussian(Context context, Integers shape, float mean, float deviation, int seed, Dtype dtype, Output y) {
  const View out = context.allocate(y, to_uhal(dtype), shape.data(), shape.size());
  generate(context, UHAL_RANDOM_NORMAL, static_cast<double>(mean), static_cast<double>(deviation), seed, out);
}

// mask keeps an element with probability 1 - p. "upscale_in_train" divides what is kept by 1 - p in training;
// "downgrade_in_infer" multiplies by 1 - p in inference instead.
void dropout(Context context, Input x, OptionalInput seed_tensor, Scalar p, bool is_test, Text mode, int seed,
             bool fix_seed, Output y, Output mask) {
  const View in = x.view();
  const View out = context.allocate(y, in.dtype);
  const bool upscale = std::strcmp(mode.value, "upscale_in_train") == 0;
  if (is_test) {
    if (upscale) return copy_or_cast(context, in, out);
    return context.map(uhal_map_scale, {&in}, {&out}, {1 - p.number(), 0});
  }
  const View kept = context.allocate(mask, UHAL_UINT8);
  const int given = seed_tensor ? static_cast<int>(read_number(context, seed_tensor.view())) : fix_seed ? seed : 0;
  auto attributes = random_attributes(UHAL_RANDOM_UNIFORM, p.number(), 0, key_of(context, given), 0);
  attributes.scale_at_inference = !upscale;
  context.run(UHAL_OP_DROPOUT, {&in}, {&out, &kept}, &attributes);
}

void dropout_grad(Context context, Input mask, Input dy, Scalar p, bool is_test, Text mode, Output dx) {
  const View gradient = dy.view();
  const View out = context.allocate(dx, gradient.dtype);
  const bool upscale = std::strcmp(mode.value, "upscale_in_train") == 0;
  const double keep = 1 - p.number();
  if (is_test) return context.map(uhal_map_scale, {&gradient}, {&out}, {upscale ? 1 : keep, 0});
  if (keep <= 0) return fill_zero(context, out);
  const View kept = mask.view();
  context.map(uhal_map_multiply, {&kept, &gradient}, {&out});
  if (upscale) context.map(uhal_map_scale, {&out}, {&out}, {1 / keep, 0});
}

}  // namespace

KernelTable random_kernels() {
  return {
      UNIHAL_KERNEL("uniform", kFloats, uniform),
      UNIHAL_KERNEL("gaussian", kFloats, gaussian),
      UNIHAL_KERNEL("dropout", kFloats, dropout),
      UNIHAL_KERNEL("dropout_grad", kFloats, dropout_grad),
  };
}

}  // namespace unihal::paddle
