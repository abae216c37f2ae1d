// Random numbers of distributions whose parameters are operands. They have TensorFlow's distributions, and are other
// numbers than its CPU's: an element's sequence does not depend on how often others were redrawn.
#include <mutex>
#include <random>

#include "plugins/tensorflow/kernels/philox.h"
#include "plugins/tensorflow/registrar.h"
#include "plugins/tensorflow/variable_shim.h"

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

// Checks that parameters broadcast to the shape of the numbers.
bool fits(Context& context, const View& parameter, const Shape& shape, const char* name) {
  bool fits = parameter.rank <= static_cast<int>(shape.size());
  for (int i = 0; fits && i < parameter.rank; ++i) {
    const int64_t length = shape[shape.size() - static_cast<size_t>(parameter.rank - i)];
    fits = parameter.shape[i] == 1 || parameter.shape[i] == length;
  }
  if (!fits) {
    context.fail_invalid("Shape passed in must end with broadcasted shape: " + std::string(name) + " is " +
                         to_text(parameter));
  }
  return fits;
}

void draw(Context& context, uhal_parameter_distribution distribution, const PhiloxState& state, const View& p,
          const View* q, const View& output) {
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
class Stateless : public Kernel {
 public:
  explicit Stateless(Construction& construction) : Kernel(construction), dtype_(construction.dtype("dtype")) {}

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
    if (!context.ok() || !fits(context, first, shape, "the first parameter")) return;
    if (kTwo && !fits(context, second, shape, "the second parameter")) return;
    const View output = context.output(0, dtype_, shape);
    if (!context.ok()) return;
    const View p = floating(context, first), q = kTwo ? floating(context, second) : View();
    draw(context, kDistribution, state, p, kTwo ? &q : nullptr, output);
  }

 private:
  uhal_dtype dtype_;
};

// (shape, parameter) -> numbers of shape and the parameter's shape behind it; the kernel keeps the state.
template <uhal_parameter_distribution kDistribution>
class Seeded : public Kernel {
 public:
  explicit Seeded(Construction& construction)
      : Kernel(construction), dtype_(construction.dtype(kDistribution == UHAL_RANDOM_GAMMA ? "T" : "dtype")) {
    auto seed = static_cast<uint64_t>(construction.integer("seed"));
    auto seed2 = static_cast<uint64_t>(construction.integer("seed2"));
    if (seed == 0 && seed2 == 0) {  // the caller asked for any
      if (variable_functions()->determinism_required() != 0) {
        construction.fail(TF_INVALID_ARGUMENT, "When determinism is enabled, random ops must have a seed specified.");
      }
      std::random_device entropy;
      seed = entropy() | static_cast<uint64_t>(entropy()) << 32;
      seed2 = entropy() | static_cast<uint64_t>(entropy()) << 32;
    }
    state_.key = seed;
    state_.counter[1] = seed2;
  }

  void compute(Context& context) const override {
    Shape shape = context.host_vector(0);
    const View parameter = context.input(1);
    if (!context.ok()) return;
    for (int i = 0; i < parameter.rank; ++i) shape.push_back(parameter.shape[i]);
    const View output = context.output(0, dtype_, shape);
    if (!context.ok()) return;
    PhiloxState state;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      state = state_;
      state_.skip(static_cast<uint64_t>(output.elements()) * kBlocksPerElement);
    }
    draw(context, kDistribution, state, floating(context, parameter), nullptr, output);
  }

 private:
  uhal_dtype dtype_;
  mutable std::mutex mutex_;
  mutable PhiloxState state_;
};

}  // namespace

void register_random_distribution(Registrar& registrar) {
  const std::initializer_list<const char*> seed = {"shape", "seed"};
  registrar.add<Stateless<UHAL_RANDOM_GAMMA>>("StatelessRandomGammaV2", {{"dtype", kDrawn}}, seed);
  registrar.add<Stateless<UHAL_RANDOM_GAMMA, true>>("StatelessRandomGammaV3", {{"dtype", kDrawn}},
                                                    {"shape", "key", "counter", "alg"});
  registrar.add<Stateless<UHAL_RANDOM_POISSON>>("StatelessRandomPoisson", {{"dtype", kCounts}, {"Rtype", kParameters}},
                                                seed);
  registrar.add<Stateless<UHAL_RANDOM_BINOMIAL>>("StatelessRandomBinomial", {{"dtype", kCounts}, {"T", kParameters}},
                                                 seed);
  registrar.add<Seeded<UHAL_RANDOM_GAMMA>>("RandomGamma", {{"T", kDrawn}}, {"shape"});
  registrar.add<Seeded<UHAL_RANDOM_POISSON>>("RandomPoissonV2", {{"dtype", kCounts}, {"R", kParameters}}, {"shape"});
}

}  // namespace unihal::tensorflow
