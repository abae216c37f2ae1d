// Random numbers of distributions whose parameters are operands. They have TensorFlow's distributions, and are other
// numbers than its CPU's: an element's sequence does not depend on how often others were redrawn.
#include <algorithm>
#include <cmath>
#include <mutex>
#include <random>

#include "plugins/tensorflow/kernels/philox.h"
#include "plugins/tensorflow/registrar.h"
#include "plugins/tensorflow/shim_functions.h"

namespace unihal::tensorflow {
namespace {

constexpr DtypeSet kParameters = only(UHAL_FLOAT32) | only(UHAL_FLOAT64);
constexpr DtypeSet kDrawn = kParameters | only(UHAL_FLOAT16);
constexpr DtypeSet kCounts = kDrawn | kIndices;

PhiloxState state_of_seed(Context& context, int index) {
  const Shape seed = context.host_vector(index);
  if (context.ok() && seed.size() != 2) {
    context.fail_invalid("seed must have shape [2], not [" + std::to_string(seed.size()) + "]");
  }
  if (!context.ok()) return {};
  return PhiloxState::from_seeds(static_cast<uint64_t>(seed[0]), static_cast<uint64_t>(seed[1]));
}

// The parameter as what the distribution takes: floating.
View floating(Context& context, const View& parameter) {
  if (parameter.dtype == UHAL_FLOAT16 || parameter.dtype == UHAL_FLOAT32 || parameter.dtype == UHAL_FLOAT64) {
    return parameter;
  }
  const View wide = context.temporary(UHAL_FLOAT64, parameter.shape, parameter.rank);
  if (context.ok()) context.cast(parameter, wide);
  return wide;
}

// Checks that the shape of the numbers ends with the one to which the parameters broadcast each other.
bool fits(Context& context, const View& first, const View* second, const Shape& shape) {
  Shape parameters(first.shape, first.shape + first.rank);
  if (second != nullptr) {
    const Shape own = parameters, other(second->shape, second->shape + second->rank);
    if (!broadcast_shape(own, other, &parameters)) {
      context.fail_invalid("Shape passed in must end with broadcasted shape: the parameters, " + to_text(first) +
                           " and " + to_text(*second) + ", have none");
      return false;
    }
  }
  const bool fits =
      parameters.size() <= shape.size() && std::equal(parameters.rbegin(), parameters.rend(), shape.rbegin());
  if (!fits) {
    context.fail_invalid("Shape passed in must end with broadcasted shape, that of the parameter " + to_text(first) +
                         (second != nullptr ? " and of " + to_text(*second) : ""));
  }
  return fits;
}

void draw_parametric(Context& context, uhal_parameter_distribution distribution, const PhiloxState& state,
                     const View& p, const View* q, const View& output) {
  if (!context.ok() || output.elements() == 0) return;
  uhal_random_distribution_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.distribution = distribution;
  attributes.key = state.key;
  attributes.counter[0] = state.counter[0];
  attributes.counter[1] = state.counter[1];
  if (q == nullptr) {
    context.launch(UHAL_OP_RANDOM_DISTRIBUTION, {&p}, {&output}, &attributes);
  } else {
    context.launch(UHAL_OP_RANDOM_DISTRIBUTION, {&p, q}, {&output}, &attributes);
  }
}

// (shape, seed, p, [q]), or (shape, key, counter, algorithm, p): shape ends with the parameters'.
template <uhal_parameter_distribution kDistribution, bool kKeyed = false>
class StatelessParametric : public Kernel {
 public:
  explicit StatelessParametric(Construction& construction)
      : Kernel(construction), dtype_(construction.dtype("dtype")) {}

  void compute(Context& context) const override {
    constexpr int kFirst = kKeyed ? 4 : 2;
    constexpr bool kTwo = kDistribution == UHAL_RANDOM_BINOMIAL;
    const Shape shape = context.host_vector(0);
    PhiloxState state;
    if (!kKeyed) {
      state = state_of_seed(context, 1);
    } else {
      const View key = context.input(1), counter = context.input(2);
      const int64_t algorithm = context.host_scalar(3);
      if (!context.ok()) return;
      if (algorithm != 1 && algorithm != 3) return context.refuse("only the Philox generator (alg 1) is supported");
      if (key.rank != 1 || counter.rank != 1 || key.elements() != 1 || counter.elements() < 2) {
        return context.refuse("the key must have shape [1] and the counter [2]");
      }
      state.key = *static_cast<const uint64_t*>(key.data);
      state.counter[0] = static_cast<const uint64_t*>(counter.data)[0];
      state.counter[1] = static_cast<const uint64_t*>(counter.data)[1];
    }
    const View first = context.input(kFirst);
    const View second = kTwo ? context.input(kFirst + 1) : View();
    if (!context.ok() || !fits(context, first, kTwo ? &second : nullptr, shape)) return;
    const View output = context.output(0, dtype_, shape);
    if (!context.ok()) return;
    const View p = floating(context, first), q = kTwo ? floating(context, second) : View();
    draw_parametric(context, kDistribution, state, p, kTwo ? &q : nullptr, output);
  }

 private:
  uhal_dtype dtype_;
};

// The state of a kernel whose seed is two attributes.
class KeptGenerator {
 public:
  explicit KeptGenerator(Construction& construction) {
    auto seed = static_cast<uint64_t>(construction.integer("seed"));
    auto seed2 = static_cast<uint64_t>(construction.integer("seed2"));
    if (seed == 0 && seed2 == 0) {  // the caller asked for any
      if (shim_functions()->determinism_required() != 0) {
        construction.fail(TF_INVALID_ARGUMENT, "When determinism is enabled, random ops must have a seed specified.");
      }
      std::random_device entropy;
      seed = entropy() | static_cast<uint64_t>(entropy()) << 32;
      seed2 = entropy() | static_cast<uint64_t>(entropy()) << 32;
    }
    state_.key = seed;
    state_.counter[1] = seed2;
  }

  // The state, which moves on by so many blocks.
  PhiloxState take(uint64_t blocks) {
    std::lock_guard<std::mutex> lock(mutex_);
    const PhiloxState state = state_;
    state_.skip(blocks);
    return state;
  }

 private:
  std::mutex mutex_;
  PhiloxState state_;
};

// (shape, parameter) -> numbers of shape and the parameter's shape behind it; the kernel keeps the state.
template <uhal_parameter_distribution kDistribution>
class SeededParametric : public Kernel {
 public:
  explicit SeededParametric(Construction& construction)
      : Kernel(construction),
        dtype_(construction.dtype(kDistribution == UHAL_RANDOM_GAMMA ? "T" : "dtype")),
        generator_(construction) {}

  void compute(Context& context) const override {
    Shape shape = context.host_vector(0);
    const View parameter = context.input(1);
    if (!context.ok()) return;
    for (int i = 0; i < parameter.rank; ++i) shape.push_back(parameter.shape[i]);
    const View output = context.output(0, dtype_, shape);
    if (!context.ok()) return;
    const PhiloxState state = generator_.take(static_cast<uint64_t>(output.elements()) * kBlocksPerElement);
    draw_parametric(context, kDistribution, state, floating(context, parameter), nullptr, output);
  }

 private:
  uhal_dtype dtype_;
  mutable KeptGenerator generator_;
};

// -- of classes, and of a normal distribution that is cut

// Uniform numbers of [0, 1), in the order of TensorFlow's CPU.
void uniform(Context& context, const PhiloxState& state, const View& view) {
  const auto attributes = random_attributes(UHAL_RANDOM_UNIFORM, 0, 1, state.key, state.counter[0], state.counter[1]);
  context.launch(UHAL_OP_RANDOM, {}, {&view}, &attributes);
}

// The state of a kernel that keeps it, or that of the seed in input 2.
struct FromKernel {
  explicit FromKernel(Construction& construction) : generator(construction) {}
  PhiloxState take(Context&, uint64_t blocks) { return generator.take(blocks); }
  KeptGenerator generator;
};
struct FromSeed {
  explicit FromSeed(Construction&) {}
  static PhiloxState take(Context& context, uint64_t) { return state_of_seed(context, 2); }
};

// (logits (B, C), num_samples, [seed]) -> classes (B, num_samples), of the logits' probabilities: numbers are looked
// for in the running sums, as on TensorFlow's CPU, so that both draw the same classes. Logits that are infinite or NaN
// never are.
template <class State>
class Multinomial : public Kernel {
 public:
  explicit Multinomial(Construction& construction)
      : Kernel(construction), dtype_(construction.dtype("output_dtype")), state_(construction) {}

  void compute(Context& context) const override {
    const View logits = context.input(0);
    const int64_t samples = context.host_scalar(1);
    if (!context.ok()) return;
    if (logits.rank != 2) return context.fail_invalid("logits should be a matrix, got shape " + to_text(logits));
    if (samples < 0) {
      return context.fail_invalid("num_samples should be nonnegative, got " + std::to_string(samples));
    }
    const int64_t rows = logits.shape[0], classes = logits.shape[1];
    if (classes <= 0) return context.fail_invalid("num_classes should be positive, got " + std::to_string(classes));
    const View output = context.output(0, dtype_, {rows, samples});
    if (!context.ok() || output.elements() == 0) return;
    // TensorFlow's CPU reserves two words for each of a multiple of four samples.
    const uint64_t reserved = static_cast<uint64_t>(rows) * static_cast<uint64_t>((samples + 3) / 4 * 8);
    const PhiloxState state = state_.take(context, reserved * kBlocksPerElement);
    const View finite = context.temporary(UHAL_BOOL, {rows, classes});
    const View weights = context.temporary(UHAL_FLOAT64, {rows, classes}), sums = context.temporary_like(weights);
    const View largest = context.temporary(UHAL_FLOAT64, {rows, 1}), zero = context.temporary(UHAL_FLOAT64, {1, 1});
    const View least = context.temporary(UHAL_FLOAT64, {1, 1});
    const View places = context.temporary(UHAL_FLOAT64, {rows, samples});
    if (!context.ok()) return;
    context.zero(zero);
    context.fill(least, limits_of(logits.dtype).lowest, 0);
    context.map(uhal_map_is_finite, {&logits}, {&finite});
    context.map(uhal_map_select, {&finite, &logits, &least}, {&weights});
    const uhal_reduce_attributes maximum = reduce_attributes(UHAL_REDUCE_MAXIMUM);
    context.launch(UHAL_OP_REDUCE, {&weights}, {&largest}, &maximum);
    context.map(uhal_map_subtract, {&weights, &largest}, {&weights});
    context.map(uhal_map_exp, {&weights}, {&weights});
    context.map(uhal_map_select, {&finite, &weights, &zero}, {&weights});
    uhal_scan_attributes scan = {};
    scan.struct_size = sizeof scan;
    scan.axis = 1;
    scan.reduction = UHAL_REDUCE_SUM;
    context.launch(UHAL_OP_SCAN, {&weights}, {&sums}, &scan);
    const View totals = sums.sliced(1, classes - 1, 1);
    uniform(context, state, places);
    context.map(uhal_map_multiply, {&places, &totals}, {&places});
    uhal_search_attributes search = {};
    search.struct_size = sizeof search;
    search.right = 1;
    context.launch(UHAL_OP_SEARCH_SORTED, {&sums, &places}, {&output}, &search);
  }

 private:
  uhal_dtype dtype_;
  mutable State state_;
};

// (shape, means, stdevs, minvals, maxvals), a parameter being one number or one for each index of the first axis: by
// the inverse of the distribution, which needs one number each, where TensorFlow redraws. The parameters lie in host
// memory, since the CPU refuses some.
class ParameterizedTruncatedNormal : public Kernel {
 public:
  explicit ParameterizedTruncatedNormal(Construction& construction)
      : Kernel(construction), dtype_(construction.dtype("dtype")), generator_(construction) {}

  void compute(Context& context) const override {
    const Shape shape = context.host_vector(0);
    View given[4];
    for (int i = 0; i < 4; ++i) given[i] = context.input(1 + i);
    if (!context.ok()) return;
    if (shape.empty()) return context.fail_invalid("Shape tensor must not be empty, got []");
    if (!context.check_shape(dtype_, shape)) return;
    const char* const names[] = {"means", "stdevs", "minvals", "maxvals"};
    for (int i = 0; i < 4; ++i) {
      const int64_t count = given[i].elements();
      if (given[i].rank <= 1 && (count == 1 || count == shape[0])) continue;
      return context.fail_invalid(std::string(names[i]) + " should be a scalar or a vector of " +
                                  std::to_string(shape[0]) + " elements, got shape " + to_text(given[i]));
    }
    const int64_t batches = shape[0];
    // Means, deviations, and the limits as numbers of deviations from the mean.
    std::vector<char> bytes(static_cast<size_t>(batches) * 6 * sizeof(double));
    auto* numbers = reinterpret_cast<double*>(bytes.data());
    for (int64_t b = 0; b < batches; ++b) {
      double p[4];
      for (int i = 0; i < 4; ++i) p[i] = number(given[i], given[i].elements() == 1 ? 0 : b);
      if (!(p[1] > 0 && std::isfinite(p[1]) && p[2] < p[3] && (std::isfinite(p[2]) || std::isfinite(p[3])))) {
        return context.fail_invalid("Invalid parameters: mean " + std::to_string(p[0]) + ", deviation " +
                                    std::to_string(p[1]) + ", limits " + std::to_string(p[2]) + " and " +
                                    std::to_string(p[3]));
      }
      const double row[] = {p[0], p[1], (p[2] - p[0]) / p[1], (p[3] - p[0]) / p[1], p[2], p[3]};
      for (int i = 0; i < 6; ++i) numbers[i * batches + b] = row[i];
    }
    const View output = context.flat_output(0, dtype_, shape);
    if (!context.ok() || output.elements() == 0) return;
    const PhiloxState state = generator_.take(static_cast<uint64_t>(output.elements()) * kBlocksPerElement);
    const View parameters = context.temporary(UHAL_FLOAT64, {6, batches});
    const View z = context.temporary(UHAL_FLOAT64, {batches, output.elements() / batches});
    if (!context.ok() || !context.upload(std::move(bytes), parameters)) return;
    View column[6];
    for (int i = 0; i < 6; ++i) column[i] = View(parameters.sliced(0, i, 1).data, UHAL_FLOAT64, {batches, 1});
    uniform(context, state, z);
    context.map(uhal_map_truncated_normal_quantile, {&z, &column[2], &column[3]}, {&z});
    context.map(uhal_map_multiply_add, {&z, &column[1], &column[0]}, {&z});
    context.map(uhal_map_maximum, {&z, &column[4]}, {&z});
    const View result = output.reshaped({batches, output.elements() / batches});
    context.map(uhal_map_minimum, {&z, &column[5]}, {&result});
  }

 private:
  double number(const View& view, int64_t index) const {
    switch (view.dtype) {
      case UHAL_FLOAT64:
        return static_cast<const double*>(view.data)[index];
      default:
        return static_cast<double>(static_cast<const float*>(view.data)[index]);
    }
  }

  uhal_dtype dtype_;
  mutable KeptGenerator generator_;
};

// StochasticCastToInt(input, key, counter, alg): to the whole number above with the probability of the fraction, else
// to the one towards 0; the largest and the least for what lies beyond, and 0 for NaN.
class StochasticCast : public Kernel {
 public:
  explicit StochasticCast(Construction& construction) : Kernel(construction), dtype_(construction.dtype("Tout")) {}
  Merging merging() const override { return Merging::kSameShape; }
  void compute(Context& context) const override {
    const View x = context.input(0), key = context.input(1), counter = context.input(2);
    const int64_t algorithm = context.host_scalar(3);
    if (!context.ok()) return;
    if (algorithm != 1 && algorithm != 3) return context.refuse("only the Philox generator (alg 1) is supported");
    if (key.rank != 1 || counter.rank != 1 || key.elements() != 1 || counter.elements() < 2) {
      return context.refuse("the key must have shape [1] and the counter [2]");
    }
    PhiloxState state;
    state.key = *static_cast<const uint64_t*>(key.data);
    state.counter[0] = static_cast<const uint64_t*>(counter.data)[0];
    state.counter[1] = static_cast<const uint64_t*>(counter.data)[1];
    const View output = context.output(0, dtype_, x.shape, x.rank);
    const View size = context.temporary(UHAL_FLOAT64, x.shape, x.rank), whole = context.temporary_like(size);
    const View numbers = context.temporary_like(size), more = context.temporary(UHAL_BOOL, x.shape, x.rank);
    if (!context.ok() || output.elements() == 0) return;
    uniform(context, state, numbers);
    context.map(uhal_map_absolute, {&x}, {&size});
    context.map(uhal_map_floor, {&size}, {&whole});
    context.map(uhal_map_subtract, {&size, &whole}, {&size});
    context.map(uhal_map_less, {&numbers, &size}, {&more});
    context.map(uhal_map_add, {&whole, &more}, {&whole});
    context.map(uhal_map_copysign, {&whole, &x}, {&whole});
    const Limits limits = limits_of(dtype_);
    context.map(uhal_map_clip, {&whole}, {&whole},
                {static_cast<double>(limits.integer_lowest), static_cast<double>(limits.integer_highest)});
    context.map(uhal_map_equal, {&x, &x}, {&more});
    context.zero(size);
    context.map(uhal_map_select, {&more, &whole, &size}, {&whole});
    context.cast(whole, output);
  }

 private:
  uhal_dtype dtype_;
};

}  // namespace

void register_random_distribution(Registrar& registrar) {
  const std::initializer_list<const char*> seed = {"shape", "seed"};
  registrar.add<StatelessParametric<UHAL_RANDOM_GAMMA>>("StatelessRandomGammaV2", {{"dtype", kDrawn}}, seed);
  registrar.add<StatelessParametric<UHAL_RANDOM_GAMMA, true>>("StatelessRandomGammaV3", {{"dtype", kDrawn}},
                                                              {"shape", "key", "counter", "alg"});
  registrar.add<StatelessParametric<UHAL_RANDOM_POISSON>>("StatelessRandomPoisson",
                                                          {{"dtype", kCounts}, {"Rtype", kParameters}}, seed);
  registrar.add<StatelessParametric<UHAL_RANDOM_BINOMIAL>>("StatelessRandomBinomial",
                                                           {{"dtype", kCounts}, {"T", kParameters}}, seed);
  registrar.add<SeededParametric<UHAL_RANDOM_GAMMA>>("RandomGamma", {{"T", kDrawn}}, {"shape"});
  registrar.add<SeededParametric<UHAL_RANDOM_POISSON>>("RandomPoissonV2", {{"dtype", kCounts}, {"R", kParameters}},
                                                       {"shape"});
  constexpr DtypeSet kNarrow = only(UHAL_INT8) | only(UHAL_INT16) | kInt32;
  registrar.add<StochasticCast>("StochasticCastToInt", {{"Tin", kFloats}, {"Tout", kNarrow}},
                                {"key", "counter", "alg"});
  const std::initializer_list<TypeConstraint> classes = {{"T", kFloats}, {"output_dtype", kIndices}};
  registrar.add<Multinomial<FromKernel>>("Multinomial", classes, {"num_samples"});
  registrar.add<Multinomial<FromSeed>>("StatelessMultinomial", classes, {"num_samples", "seed"});
  registrar.add<ParameterizedTruncatedNormal>("ParameterizedTruncatedNormal", {{"dtype", kParameters}},
                                              {"shape", "means", "stdevs", "minvals", "maxvals"});
}

}  // namespace unihal::tensorflow
