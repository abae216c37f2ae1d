// Random numbers with their state in host memory: stateless ops, and those whose kernel keeps the state.
//
// The numbers are those of TensorFlow's CPU: same generator, same order.
#include <algorithm>
#include <mutex>
#include <random>

#include "plugins/tensorflow/kernels/philox.h"
#include "plugins/tensorflow/registrar.h"
#include "plugins/tensorflow/shim_functions.h"

namespace unihal::tensorflow {
namespace {

constexpr int32_t kPhiloxAlgorithm = 1;

enum Bounds { kFixed, kFromInputs };  // of integer distributions: the dtype's own, or inputs minval and maxval

bool is_empty(const Shape& shape) { return std::find(shape.begin(), shape.end(), 0) != shape.end(); }

PhiloxState state_from_seed_input(Context& context, int index) {
  const Shape seed = context.host_vector(index);
  if (context.ok() && seed.size() != 2)
    context.fail_invalid("seed must have shape [2], not [" + std::to_string(seed.size()) + "]");
  if (!context.ok()) return {};
  return PhiloxState::from_seeds(static_cast<uint64_t>(seed[0]), static_cast<uint64_t>(seed[1]));
}

// (seed) -> (key, counter), (key, counter, algorithm) or (algorithm): all in host memory.
class GetKeyCounter : public Kernel {
 public:
  using Kernel::Kernel;
  void compute(Context& context) const override {
    const PhiloxState state = state_from_seed_input(context, 0);
    const View key = context.output(0, UHAL_UINT64, {1});
    const View counter = context.output(1, UHAL_UINT64, {2});
    if (!context.ok()) return;
    *static_cast<uint64_t*>(key.data) = state.key;
    static_cast<uint64_t*>(counter.data)[0] = state.counter[0];
    static_cast<uint64_t*>(counter.data)[1] = state.counter[1];
    if (context.output_count() > 2) write_algorithm(context, 2);
  }

 protected:
  static void write_algorithm(Context& context, int index) {
    const View algorithm = context.output(index, UHAL_INT32, Shape{});
    if (context.ok()) *static_cast<int32_t*>(algorithm.data) = kPhiloxAlgorithm;
  }
};

// (seeds) -> (keys, counters), these in host memory: those of the remainder of each seed, which the host waits for
// once.
class RandomKeys : public Kernel {
 public:
  explicit RandomKeys(Construction& construction)
      : Kernel(construction),
        count_(static_cast<int>(construction.integer("N"))),
        modulus_(construction.integer("modulus")) {}
  void compute(Context& context) const override {
    for (int i = 0; i < count_; ++i) {
      const View seed = context.input(i);
      if (context.ok() && (seed.rank != 1 || seed.elements() != 2)) {
        context.fail_invalid("seed must have shape [2], not " + to_text(seed));
      }
      if (!context.ok()) return;
    }
    // Nothing returns while a copy may still write here.
    std::vector<int64_t> seeds(2 * static_cast<size_t>(count_));
    for (int i = 0; i < count_ && context.ok(); ++i) {
      int64_t* words = &seeds[2 * static_cast<size_t>(i)];
      context.check(
          uhal_copy(context.stream(), words, context.input(i).data, 2 * sizeof *words, UHAL_COPY_DEVICE_TO_HOST));
    }
    const uhal_status waited = uhal_stream_synchronize(context.stream());
    if (!context.ok() || !context.check(waited)) return;
    for (int i = 0; i < count_; ++i) {
      const int64_t* words = &seeds[2 * static_cast<size_t>(i)];
      const PhiloxState state = PhiloxState::from_seeds(remainder(words[0]), remainder(words[1]));
      const View key = context.output(i, UHAL_UINT64, {1});
      const View counter = context.output(count_ + i, UHAL_UINT64, {2});
      if (!context.ok()) return;
      *static_cast<uint64_t*>(key.data) = state.key;
      std::copy_n(state.counter, 2, static_cast<uint64_t*>(counter.data));
    }
  }

 private:
  uint64_t remainder(int64_t word) const {
    const int64_t rest = word % modulus_;
    return static_cast<uint64_t>(rest < 0 ? rest + modulus_ : rest);
  }

  int count_;
  int64_t modulus_;
};

class GetAlgorithm : public GetKeyCounter {
 public:
  using GetKeyCounter::GetKeyCounter;
  void compute(Context& context) const override { write_algorithm(context, 0); }
};

// (shape, key, counter, algorithm, [minval, maxval])
template <uhal_distribution kKind, Bounds kBounds = kFixed>
class Stateless : public Kernel {
 public:
  explicit Stateless(Construction& construction) : Kernel(construction), dtype_(construction.dtype("dtype")) {}
  void compute(Context& context) const override {
    const Shape shape = context.host_vector(0);
    const View key = context.input(1);
    const View counter = context.input(2);
    const int64_t algorithm = context.host_scalar(3);
    if (!context.ok()) return;
    constexpr int64_t kAutoSelect = 3;
    if (algorithm != kPhiloxAlgorithm && algorithm != kAutoSelect) {
      return context.refuse("only the Philox generator (alg 1) is supported");
    }
    if (key.rank != 1 || counter.rank != 1 || key.elements() != 1 || counter.elements() < 2) {
      return context.refuse("the key must have shape [1] and the counter [2]");
    }
    PhiloxState state;
    state.key = *static_cast<const uint64_t*>(key.data);
    state.counter[0] = static_cast<const uint64_t*>(counter.data)[0];
    state.counter[1] = static_cast<const uint64_t*>(counter.data)[1];
    const Distribution distribution =
        kBounds == kFromInputs ? integer_range(context, 4, 5, is_empty(shape)) : Distribution{kKind};
    draw(context, distribution, state, context.flat_output(0, dtype_, shape));
  }

 private:
  uhal_dtype dtype_;
};

// (shape, seed, [minval, maxval]): the first version of the stateless ops.
template <uhal_distribution kKind, Bounds kBounds = kFixed>
class StatelessFromSeed : public Kernel {
 public:
  explicit StatelessFromSeed(Construction& construction) : Kernel(construction), dtype_(construction.dtype("dtype")) {}
  void compute(Context& context) const override {
    const Shape shape = context.host_vector(0);
    const PhiloxState state = state_from_seed_input(context, 1);
    const Distribution distribution =
        kBounds == kFromInputs ? integer_range(context, 2, 3, is_empty(shape)) : Distribution{kKind};
    draw(context, distribution, state, context.flat_output(0, dtype_, shape));
  }

 private:
  uhal_dtype dtype_;
};

// (shape, [minval, maxval]), seeded by attributes: the kernel keeps the state.
template <uhal_distribution kKind, Bounds kBounds = kFixed>
class Seeded : public Kernel {
 public:
  explicit Seeded(Construction& construction)
      : Kernel(construction), dtype_(construction.dtype(kBounds == kFromInputs ? "Tout" : "dtype")) {
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

  void compute(Context& context) const override {
    const Shape shape = context.host_vector(0);
    const Distribution distribution =
        kBounds == kFromInputs ? integer_range(context, 1, 2, is_empty(shape)) : Distribution{kKind};
    const View output = context.flat_output(0, dtype_, shape);
    if (!context.ok()) return;
    PhiloxState state;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      state = state_;
      state_.skip(static_cast<uint64_t>(output.elements()) * kBlocksPerElement);
    }
    draw(context, distribution, state, output);
  }

 private:
  uhal_dtype dtype_;
  mutable std::mutex mutex_;
  mutable PhiloxState state_;
};

}  // namespace

void register_random(Registrar& registrar) {
  constexpr DtypeSet kInts = kIndices;
  constexpr DtypeSet kBits = kInts | only(UHAL_UINT32) | only(UHAL_UINT64);
  registrar.add<GetKeyCounter>("StatelessRandomGetKeyCounter", {{"Tseed", kIndices}}, {"seed", "key", "counter"});
  registrar.add<GetKeyCounter>("StatelessRandomGetKeyCounterAlg", {{"Tseed", kIndices}},
                               {"seed", "key", "counter", "alg"});
  registrar.add<GetAlgorithm>("StatelessRandomGetAlg", {}, {"alg"});
  registrar.add_own<RandomKeys>("UnihalRandomKeys", {}, {"keys", "counters"});

  const std::initializer_list<const char*> state = {"shape", "key", "counter", "alg"};
  registrar.add<Stateless<UHAL_RANDOM_UNIFORM>>("StatelessRandomUniformV2", {{"dtype", kFloats}}, state);
  registrar.add<Stateless<UHAL_RANDOM_NORMAL>>("StatelessRandomNormalV2", {{"dtype", kFloats}}, state);
  registrar.add<Stateless<UHAL_RANDOM_TRUNCATED_NORMAL>>("StatelessTruncatedNormalV2", {{"dtype", kFloats}}, state);
  registrar.add<Stateless<UHAL_RANDOM_BITS>>("StatelessRandomUniformFullIntV2", {{"dtype", kBits}}, state);
  registrar.add<Stateless<UHAL_RANDOM_UNIFORM, kFromInputs>>("StatelessRandomUniformIntV2", {{"dtype", kInts}},
                                                             {"shape", "key", "counter", "alg", "minval", "maxval"});

  const std::initializer_list<const char*> seed = {"shape", "seed"};
  registrar.add<StatelessFromSeed<UHAL_RANDOM_UNIFORM>>("StatelessRandomUniform", {{"dtype", kFloats}}, seed);
  registrar.add<StatelessFromSeed<UHAL_RANDOM_NORMAL>>("StatelessRandomNormal", {{"dtype", kFloats}}, seed);
  registrar.add<StatelessFromSeed<UHAL_RANDOM_TRUNCATED_NORMAL>>("StatelessTruncatedNormal", {{"dtype", kFloats}},
                                                                 seed);
  registrar.add<StatelessFromSeed<UHAL_RANDOM_BITS>>("StatelessRandomUniformFullInt", {{"dtype", kBits}}, seed);
  registrar.add<StatelessFromSeed<UHAL_RANDOM_UNIFORM, kFromInputs>>("StatelessRandomUniformInt", {{"dtype", kInts}},
                                                                     {"shape", "seed", "minval", "maxval"});

  registrar.add<Seeded<UHAL_RANDOM_UNIFORM>>("RandomUniform", {{"dtype", kFloats}}, {"shape"});
  registrar.add<Seeded<UHAL_RANDOM_NORMAL>>("RandomStandardNormal", {{"dtype", kFloats}}, {"shape"});
  registrar.add<Seeded<UHAL_RANDOM_TRUNCATED_NORMAL>>("TruncatedNormal", {{"dtype", kFloats}}, {"shape"});
  registrar.add<Seeded<UHAL_RANDOM_UNIFORM, kFromInputs>>("RandomUniformInt", {{"Tout", kInts}},
                                                          {"shape", "minval", "maxval"});
}

}  // namespace unihal::tensorflow
