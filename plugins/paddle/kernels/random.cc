// Random numbers: Philox keyed by the device's generator in Paddle, or by a given seed.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "plugins/common/chain.h"
#include "plugins/paddle/kernels/common.h"
#include "plugins/paddle/kernels/dropout.h"
#include "plugins/paddle/selected_rows.h"

namespace unihal::paddle {
namespace {

// A given seed means the same numbers each time, also in each replay of a graph.
Context::RandomSequence sequence_of(const Context& context, int seed) {
  if (seed != 0) return {static_cast<uint64_t>(seed), nullptr};
  return context.random_sequence();
}

void generate(const Context& context, uhal_distribution distribution, double a, double b, int seed, const View& y) {
  const Context::RandomSequence sequence = sequence_of(context, seed);
  const auto attributes = random_attributes(distribution, a, b, sequence.key, 0);
  context.run(UHAL_OP_RANDOM, {sequence.turn}, {&y}, &attributes);
}

// Both parts of complex numbers, one behind the other.
View parts_of(const View& y) {
  View parts = is_complex(y.dtype) ? flat(y) : y;
  if (is_complex(y.dtype)) {
    parts.dtype = real_of(y.dtype);
    parts.shape[0] *= 2;
  }
  return parts;
}

// The variance of complex numbers is that of both parts together.
double deviation_of_parts(const View& y, float deviation) {
  return static_cast<double>(deviation) / (is_complex(y.dtype) ? std::sqrt(2.0) : 1);
}

void uniform(Context context, Integers shape, Dtype dtype, Scalar low, Scalar high, int seed, Output y) {
  const View out = context.allocate(y, to_uhal(dtype), shape.data(), shape.size());
  generate(context, UHAL_RANDOM_UNIFORM, low.number(), high.number(), seed, parts_of(out));
}

void gaussian(Context context, Integers shape, float mean, float deviation, int seed, Dtype dtype, Output y) {
  const View out = context.allocate(y, to_uhal(dtype), shape.data(), shape.size());
  generate(context, UHAL_RANDOM_NORMAL, static_cast<double>(mean), deviation_of_parts(out, deviation), seed,
           parts_of(out));
}

void randint(Context context, int low, int high, Integers shape, Dtype dtype, Output y) {
  generate(context, UHAL_RANDOM_UNIFORM, low, high, 0, context.allocate(y, to_uhal(dtype), shape.data(), shape.size()));
}

// Paddle's old programs give the seed as the dtype and the dtype as the seed, so that all seeds are alike, on its CPU
// too. The numbers are the kernel's own.
template <uhal_dtype dtype>
void randint_with_seed(Context context, int low, int high, Integers shape, Dtype, int seed, Output y) {
  generate(context, UHAL_RANDOM_UNIFORM, low, high, seed, context.allocate(y, dtype, shape.data(), shape.size()));
}

// The order that sorts n random numbers.
void randperm(Context context, int n, Dtype dtype, Output y) {
  const int64_t dims[] = {n};
  const View out = context.allocate(y, to_uhal(dtype), dims, 1);
  const Scratch keys(context, UHAL_FLOAT64, dims, 1), sorted(context, UHAL_FLOAT64, dims, 1);
  const Scratch order(context, UHAL_INT64, dims, 1);
  generate(context, UHAL_RANDOM_UNIFORM, 0, 1, 0, keys);
  const auto attributes = axis_attributes(0, false);
  context.run(UHAL_OP_SORT, {&keys}, {&sorted, &order}, &attributes);
  copy_or_cast(context, order, out);
}

void gaussian_in_place(Context context, Input x, float mean, float deviation, int seed, Output y) {
  const View out = context.allocate(y, x.uhal());
  generate(context, UHAL_RANDOM_NORMAL, static_cast<double>(mean), deviation_of_parts(out, deviation), seed,
           parts_of(out));
}

// A value at so many places of the tensor as one row: where a matrix's diagonal is, with a step of its width and one.
struct Diagonal {
  int count, step;
  float value;
};

void generate_with(const Context& context, double low, double high, int seed, const Diagonal& diagonal, const View& y) {
  generate(context, UHAL_RANDOM_UNIFORM, low, high, seed, y);
  if (diagonal.count <= 0) return;
  const int64_t step = static_cast<int64_t>(diagonal.step) + 1, last = (diagonal.count - 1) * step;
  if (step < 1 || last >= y.elements()) {
    invalid(context, "the diagonal's last element, " + std::to_string(last) + ", is not in the tensor");
  }
  const View places = flat(y).sliced(0, 0, diagonal.count, step);
  fill(context, places, static_cast<double>(diagonal.value), static_cast<int64_t>(diagonal.value));
}

void uniform_in_place(Context context, Input x, float low, float high, int seed, int diagonals, int step, float value,
                      Output y) {
  generate_with(context, static_cast<double>(low), static_cast<double>(high), seed, {diagonals, step, value},
                context.allocate(y, x.uhal()));
}

void uniform_batch_size_like(Context context, Input x, Span<int> shape, int from, int to, float low, float high,
                             int seed, int diagonals, int step, float value, Dtype dtype, Output y) {
  generate_with(context, static_cast<double>(low), static_cast<double>(high), seed, {diagonals, step, value},
                allocate_with_length_of(context, x, from, shape, to, to_uhal(dtype), y));
}

void uniform_raw(Context context, Integers shape, Dtype dtype, Scalar low, Scalar high, int seed, int diagonals,
                 int step, float value, Output y) {
  generate_with(context, low.number(), high.number(), seed, {diagonals, step, value},
                context.allocate(y, to_uhal(dtype), shape.data(), shape.size()));
}

void uniform_raw_sr(Context context, Integers shape, Dtype dtype, Scalar low, Scalar high, int seed, int diagonals,
                    int step, float value, SparseOutput y) {
  uniform_raw(context, std::move(shape), dtype, low, high, seed, diagonals, step, value, Output{y.value()});
}
void uniform_sr(Context context, Integers shape, Dtype dtype, Scalar low, Scalar high, int seed, SparseOutput y) {
  uniform(context, std::move(shape), dtype, low, high, seed, Output{y.value()});
}
void uniform_batch_size_like_sr(Context context, SparseInput x, Span<int> shape, int from, int to, float low,
                                float high, int seed, int diagonals, int step, float value, Dtype dtype,
                                SparseOutput y) {
  uniform_batch_size_like(context, Input{x.value()}, shape, from, to, low, high, seed, diagonals, step, value, dtype,
                          Output{y.value()});
}

// The softmax of x and noise of Gumbel's distribution, -log(-log(u)); with `hard` 1 where it is largest.
void gumbel_softmax(Context context, Input x, float temperature, bool hard, int axis, Output y) {
  const View in = x.view(), out = context.allocate(y, in.dtype);
  if (out.elements() == 0) return;
  if (in.rank == 0) return fill(context, out, 1, 1);
  const Scratch noise(context, accumulator(in.dtype), in);
  generate(context, UHAL_RANDOM_UNIFORM, 1e-5, 1, 0, noise);  // as Paddle has it: 0 has no finite logarithm
  for (int i = 0; i < 2; ++i) {
    context.map(uhal_map_log, {&noise}, {&noise});
    context.map(uhal_map_negative, {&noise}, {&noise});
  }
  context.map(uhal_map_add, {&noise, &in}, {&noise});
  context.map(uhal_map_scale, {&noise}, {&noise}, {1 / static_cast<double>(temperature), 0});
  const int along = from_front(axis, in.rank);
  if (!hard) {
    const auto attributes = softmax_attributes(along);
    context.run(UHAL_OP_SOFTMAX, {&noise}, {&noise}, &attributes);
    return copy_or_cast(context, noise, out);
  }
  int64_t dims[UHAL_MAX_RANK];
  int rank = 0;
  for (int i = 0; i < in.rank; ++i) {
    if (i != along) dims[rank++] = in.shape[i];
  }
  const Scratch largest(context, UHAL_INT64, dims, rank);
  const View places = largest.unsqueezed(along);
  const auto descending = axis_attributes(along, true);
  context.run(UHAL_OP_ARG_REDUCE, {&noise}, {&places}, &descending);
  const auto attributes = index_attributes(along);
  context.run(UHAL_OP_ONE_HOT, {&largest}, {&out}, &attributes);
}

// That of a softmax; as on Paddle's CPU the temperature does not count.
void gumbel_softmax_grad(Context context, Input y, Input dy, int axis, Output dx) {
  const View out = y.view(), gradient = dy.view(), target = context.allocate(dx, out.dtype);
  if (out.rank == 0) return fill_zero(context, target);
  const auto attributes = softmax_attributes(from_front(axis, out.rank));
  context.run(UHAL_OP_SOFTMAX_BACKWARD, {&out, &gradient}, {&target}, &attributes);
}

// What was drawn does not depend on what was there.
template <class... Attributes>
void drawn_grad(Context context, Input dy, Attributes..., Output dx) {
  fill_zero(context, context.allocate(dx, dy.uhal()));
}

// 1 with the probability that x gives
void bernoulli(Context context, Input x, Output y) {
  const View probability = x.view();
  const View out = context.allocate(y, probability.dtype);
  const Scratch draw(context, accumulator(probability.dtype), probability);
  generate(context, UHAL_RANDOM_UNIFORM, 0, 1, 0, draw);
  context.map(uhal_map_less, {&draw, &probability}, {&out});
}

// Within two standard deviations, which is what Paddle's initializers ask for.
void truncated_gaussian(Context context, Span<int> shape, float mean, float deviation, int seed, float low, float high,
                        Dtype dtype, Output y) {
  if (low != -2 || high != 2) unsupported(context, "a truncation other than at two standard deviations");
  int64_t dims[UHAL_MAX_RANK];
  std::copy(shape.begin(), shape.end(), dims);
  generate(context, UHAL_RANDOM_TRUNCATED_NORMAL, static_cast<double>(mean), static_cast<double>(deviation), seed,
           context.allocate(y, to_uhal(dtype), dims, shape.size()));
}

// -log(1 - u) / rate
void exponential(Context context, Input x, float rate, Output y) {
  const View out = context.allocate(y, x.uhal());
  if (out.elements() == 0) return;
  const uhal_dtype dtype = accumulator(out.dtype);
  const Scratch numbers(context, dtype, out);
  generate(context, UHAL_RANDOM_UNIFORM, 0, 1, 0, numbers);
  // What u of 0 stands for is half of the least other u, so that no number is 0.
  const double least = dtype == UHAL_FLOAT64 ? std::numeric_limits<double>::epsilon() / 2
                                             : double{std::numeric_limits<float>::epsilon()} / 2;
  Chain chain(1);
  const int logarithm = chain.step(uhal_map_log1p, {chain.step(uhal_map_negative, {0})});
  const int time = chain.step(uhal_map_clip, {chain.step(uhal_map_negative, {logarithm})}, {least, HUGE_VAL});
  chain.step(uhal_map_scale, {time}, {1 / static_cast<double>(rate), 0});
  context.run(UHAL_OP_MAP_CHAIN, {&numbers}, {&out}, chain.program());
}

View words_of(View numbers) {
  numbers.dtype = UHAL_UINT64;
  return numbers;
}

// Integers from `low` on and below `high`: by the op's limits, which are doubles, or of 64-bit words by functions.
void generate_whole(const Context& context, int64_t low, int64_t high, bool is_exact, const View& y) {
  if (y.elements() == 0) return;
  if (is_exact) {
    return generate(context, UHAL_RANDOM_UNIFORM, static_cast<double>(low), static_cast<double>(high), 0, y);
  }
  generate(context, UHAL_RANDOM_BITS, 0, 1, 0, y);
  const Scratch first(context, UHAL_INT64, nullptr, 0), count(context, UHAL_INT64, nullptr, 0);
  fill(context, first, 0, low);
  fill(context, count, 0, static_cast<int64_t>(static_cast<uint64_t>(high) - static_cast<uint64_t>(low)));
  const View words = words_of(y), start = words_of(first), range = words_of(count);
  context.map(uhal_map_floor_mod, {&words, &range}, {&words});
  context.map(uhal_map_add, {&words, &start}, {&words});
}

// Whole numbers from `low` on and below `high`; without a range those that x's dtype holds exactly.
void random_in_place(Context context, Input x, int64_t low, int64_t high, Output y) {
  if (low >= high) invalid(context, "from is " + std::to_string(low) + ", not below to, " + std::to_string(high));
  const View out = context.allocate(y, x.uhal());
  constexpr int64_t kExact = int64_t{1} << 53;
  const bool is_exact = low >= -kExact && high <= kExact;
  if (out.dtype == UHAL_INT64 || (is_exact && is_integer(out.dtype))) {
    return generate_whole(context, low, high, is_exact, out);
  }
  const Scratch whole(context, UHAL_INT64, out);
  generate_whole(context, low, high, is_exact, whole);
  copy_or_cast(context, whole, out);
}

// -- with parameters as operands

void draw(const Context& context, uhal_parameter_distribution distribution,
          std::initializer_list<const uhal_tensor*> parameters, const View& y) {
  uhal_random_distribution_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.distribution = distribution;
  attributes.key = context.random_seed();
  context.run(UHAL_OP_RANDOM_DISTRIBUTION, parameters, {&y}, &attributes);
}

void poisson(Context context, Input x, Output y) {
  const View parameter = x.view();
  draw(context, UHAL_RANDOM_POISSON, {&parameter}, context.allocate(y, parameter.dtype));
}

// Gamma numbers, of which, as on Paddle's CPU, none is 0: those below the smallest normal number are that one.
void draw_gamma(const Context& context, const View& shape, const View& y) {
  draw(context, UHAL_RANDOM_GAMMA, {&shape}, y);
  const double least = y.dtype == UHAL_FLOAT64   ? std::numeric_limits<double>::min()
                       : y.dtype == UHAL_FLOAT16 ? 0x1p-14
                                                 : double{std::numeric_limits<float>::min()};
  if (y.elements() > 0) context.map(uhal_map_clip, {&y}, {&y}, {least, HUGE_VAL});
}

void standard_gamma(Context context, Input x, Output y) {
  const View shape = x.view();
  draw_gamma(context, shape, context.allocate(y, shape.dtype));
}

void no_gradient(Context context, Input dy, Output dx) { fill_zero(context, context.allocate(dx, dy.uhal())); }

void binomial(Context context, Input count, Input probability, Output y) {
  const View n = count.view(), p = probability.view();
  draw(context, UHAL_RANDOM_BINOMIAL, {&n, &p}, context.allocate(y, UHAL_INT64));
}

// Gamma numbers divided by their sums.
void dirichlet(Context context, Input alpha, Output y) {
  const View concentration = alpha.view();
  const View out = context.allocate(y, concentration.dtype);
  const Scratch gamma(context, accumulator(concentration.dtype), concentration);
  draw_gamma(context, concentration, gamma);
  View sums_like = gamma;
  sums_like.shape[sums_like.rank - 1] = 1;
  const Scratch sums(context, gamma.dtype, sums_like);
  const auto attributes = reduce_attributes(UHAL_REDUCE_SUM);
  context.run(UHAL_OP_REDUCE, {&gamma}, {&sums}, &attributes);
  context.map(uhal_map_divide, {&gamma, &sums}, {&out});
}

// Classes by search in the running sums of their weights; without replacement those of the largest logarithms with
// Gumbel noise.
void multinomial(Context context, Input x, Scalar samples, bool replacement, Output y) {
  const View weights = x.view();
  const auto count = static_cast<int64_t>(samples.number());
  const int last = weights.rank - 1;
  const int64_t classes = weights.shape[last];
  int64_t dims[UHAL_MAX_RANK];
  std::copy(weights.shape, weights.shape + weights.rank, dims);
  dims[last] = count;
  if (classes == 0 && count > 0) invalid(context, "there are no categories to choose from.");
  if (read_extreme(context, UHAL_REDUCE_MINIMUM, weights) < 0) {
    invalid(context, "The input of multinomial distribution should be >= 0.");
  }
  const uhal_dtype dtype = accumulator(weights.dtype);
  if (replacement) {
    const View out = context.allocate(y, UHAL_INT64, dims, weights.rank);
    const Scratch sums(context, dtype, weights), places(context, dtype, dims, weights.rank);
    uhal_scan_attributes scan = {};
    scan.struct_size = sizeof scan;
    scan.axis = last;
    scan.reduction = UHAL_REDUCE_SUM;
    context.run(UHAL_OP_SCAN, {&weights}, {&sums}, &scan);
    View totals = sums;
    totals.shape[last] = 1;
    totals.data = static_cast<char*>(sums.data) + static_cast<size_t>(classes - 1) * uhal_dtype_size(dtype);
    generate(context, UHAL_RANDOM_UNIFORM, 0, 1, 0, places);
    context.map(uhal_map_multiply, {&places, &totals}, {&places});
    uhal_search_attributes search = {};
    search.struct_size = sizeof search;
    search.right = 1;
    context.run(UHAL_OP_SEARCH_SORTED, {&sums, &places}, {&out}, &search);
    context.map(uhal_map_clip, {&out}, {&out}, {0, static_cast<double>(classes - 1)});
    return;
  }
  if (count > classes) {
    invalid(context, "When replacement is False, number of samples should be less than non-zero categories.");
  }
  const View out = context.allocate(y, UHAL_INT64, dims, weights.rank);
  const Scratch scores(context, dtype, weights);
  generate(context, UHAL_RANDOM_UNIFORM, 0, 1, 0, scores);
  // Waiting times with the weights as rates, by their negatives: those who come first are chosen.
  Chain score(2);
  const int time = score.step(uhal_map_log, {score.step(uhal_map_scale, {0}, {-1, 1})});
  const int never = score.step(uhal_map_scale, {0}, {0, -HUGE_VAL});
  score.step(uhal_map_select, {1, score.step(uhal_map_divide, {time, 1}), never});
  context.run(UHAL_OP_MAP_CHAIN, {&scores, &weights}, {&scores}, score.program());
  const Scratch top(context, dtype, dims, weights.rank);
  const auto attributes = axis_attributes(last, true);
  context.run(UHAL_OP_TOP_K, {&scores}, {&top, &out}, &attributes);
  // A class of weight 0 has the score -infinity.
  if (read_extreme(context, UHAL_REDUCE_MINIMUM, top) == -HUGE_VAL) {
    invalid(context, "When replacement is False, number of samples should be less than non-zero categories.");
  }
}

// Negative numbers times a slope that is drawn between two limits, or in inference their mean.
void rrelu(Context context, Input x, float lower, float upper, bool is_test, Output y, Output noise) {
  const View in = x.view();
  const View out = context.allocate(y, in.dtype), slopes = context.allocate(noise, in.dtype);
  if (out.elements() == 0) return;
  const double low = static_cast<double>(lower), high = static_cast<double>(upper);
  const Scratch zero(context, in.dtype, nullptr, 0), one(context, in.dtype, nullptr, 0);
  const Scratch is_negative(context, UHAL_BOOL, in);
  fill_zero(context, zero);
  fill(context, one, 1, 1);
  if (is_test) {
    fill(context, slopes, static_cast<double>(lower + upper) / 2, 0);
  } else {
    generate(context, UHAL_RANDOM_UNIFORM, low, high, 0, slopes);
  }
  context.map(uhal_map_less, {&in, &zero}, {&is_negative});
  context.map(uhal_map_select, {&is_negative, &slopes, &one}, {&slopes});
  context.map(uhal_map_multiply, {&in, &slopes}, {&out});
}
void rrelu_grad(Context context, Input, Input noise, Input dy, Output dx) {
  const View slopes = noise.view(), gradient = dy.view(), out = context.allocate(dx, gradient.dtype);
  context.map(uhal_map_multiply, {&slopes, &gradient}, {&out});
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
  const Context::RandomSequence sequence = sequence_of(context, given);
  auto attributes = random_attributes(UHAL_RANDOM_UNIFORM, p.number(), 0, sequence.key, 0);
  attributes.scale_at_inference = !upscale;
  context.run(UHAL_OP_DROPOUT, {&in, sequence.turn}, {&out, &kept}, &attributes);
}

void dropout_grad(Context context, Input mask, Input dy, Scalar p, bool is_test, Text mode, Output dx) {
  const View gradient = dy.view();
  const View out = context.allocate(dx, gradient.dtype);
  const bool upscale = std::strcmp(mode.value, "upscale_in_train") == 0;
  const double keep = 1 - p.number();
  if (is_test) return context.map(uhal_map_scale, {&gradient}, {&out}, {upscale ? 1 : keep, 0});
  const View kept = mask.view();
  if (upscale) return pass_kept(context, kept, gradient, p.number(), out);
  context.map(uhal_map_multiply, {&kept, &gradient}, {&out});
}

}  // namespace

KernelTable random_kernels() {
  return {
      UNIHAL_KERNEL("uniform", kFloats | kComplex, uniform),
      UNIHAL_KERNEL("gaussian", kFloats | kComplex, gaussian),
      UNIHAL_KERNEL("random", kFloats | kInt32And64, random_in_place),
      UNIHAL_KERNEL("random_grad", kFloats, drawn_grad<int64_t, int64_t>),
      UNIHAL_KERNEL("gaussian_inplace", kFloats | kComplex, gaussian_in_place),
      UNIHAL_KERNEL("gaussian_inplace_grad", kFloats | kComplex, drawn_grad<float, float, int>),
      UNIHAL_KERNEL("uniform_inplace", kFloats, uniform_in_place),
      UNIHAL_KERNEL("uniform_inplace_grad", kFloats, drawn_grad<float, float, int, int, int, float>),
      UNIHAL_KERNEL("uniform_random_batch_size_like", kFloats, uniform_batch_size_like),
      UNIHAL_KERNEL("uniform_raw", kFloats, uniform_raw),
      UNIHAL_KERNEL("uniform_raw_sr", kFloats, uniform_raw_sr),
      UNIHAL_KERNEL("uniform_sr", kFloats, uniform_sr),
      UNIHAL_KERNEL("uniform_random_batch_size_like_sr", kFloats, uniform_batch_size_like_sr),
      UNIHAL_KERNEL("gumbel_softmax", kFloats, gumbel_softmax),
      UNIHAL_KERNEL("gumbel_softmax_grad", kFloats, gumbel_softmax_grad),
      UNIHAL_KERNEL("randint", kInt32And64, randint),
      UNIHAL_KERNEL("randint_with_seed", 1u << kInt32, randint_with_seed<UHAL_INT32>),
      UNIHAL_KERNEL("randint_with_seed", 1u << kInt64, randint_with_seed<UHAL_INT64>),
      UNIHAL_KERNEL("randperm", kInt32And64 | 1u << kFloat32 | 1u << kFloat64, randperm),
      UNIHAL_KERNEL("bernoulli", kFloats, bernoulli),
      UNIHAL_KERNEL("truncated_gaussian_random", kFloats, truncated_gaussian),
      UNIHAL_KERNEL("exponential", kFloats, exponential),
      UNIHAL_KERNEL("standard_gamma", kFloats, standard_gamma),
      UNIHAL_KERNEL("poisson", kFloats, poisson),
      UNIHAL_KERNEL("poisson_grad", kFloats, no_gradient),
      UNIHAL_KERNEL("binomial", kFloats, binomial),
      UNIHAL_KERNEL("dirichlet", kFloats, dirichlet),
      UNIHAL_KERNEL("multinomial", kFloats, multinomial),
      UNIHAL_KERNEL("rrelu", kFloats, rrelu),
      UNIHAL_KERNEL("rrelu_grad", kFloats, rrelu_grad),
      UNIHAL_KERNEL("dropout", kFloats, dropout),
      UNIHAL_KERNEL("dropout_grad", kFloats, dropout_grad),
  };
}

}  // namespace unihal::paddle
