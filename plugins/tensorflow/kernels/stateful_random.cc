// Random numbers with their state in a resource variable, as tf.random.Generator keeps it: int64 [counter low,
// counter high, key] in device memory.
#include "plugins/tensorflow/kernels/philox.h"
#include "plugins/tensorflow/registrar.h"
#include "plugins/tensorflow/variable.h"

namespace unihal::tensorflow {
namespace {

constexpr int kStateLength = 3;

// Takes the state for `elements` numbers out of the variable, and moves it on. The state makes a round trip to
// the host: 24 bytes, and the 128-bit carry stays exact.
PhiloxState advance(Context& context, int64_t algorithm, uint64_t elements, int64_t* before) {
  PhiloxState state;
  LockedVariables variables(context, {0});
  const View variable = variables.writable(0);
  if (!context.ok()) return state;
  constexpr int64_t kPhiloxAlgorithm = 1;
  if (algorithm != kPhiloxAlgorithm || variable.rank != 1 || variable.shape[0] < kStateLength ||
      variable.dtype != UHAL_INT64) {
    context.fail(TF_INVALID_ARGUMENT,
                 "the generator must be Philox (algorithm 1) with an int64 state of shape [3], got " +
                     std::string("algorithm ") + std::to_string(algorithm) + " and state " + to_text(variable));
    return state;
  }
  int64_t words[kStateLength];
  uhal_stream* stream = context.stream();
  if (!context.check(uhal_copy(stream, words, variable.data, sizeof words, UHAL_COPY_DEVICE_TO_HOST))) return state;
  if (!context.check(uhal_stream_synchronize(stream))) return state;
  for (int i = 0; i < kStateLength; ++i) before[i] = words[i];
  state.counter[0] = static_cast<uint64_t>(words[0]);
  state.counter[1] = static_cast<uint64_t>(words[1]);
  state.key = static_cast<uint64_t>(words[2]);
  PhiloxState after = state;
  after.skip(elements * kBlocksPerElement);
  words[0] = static_cast<int64_t>(after.counter[0]);
  words[1] = static_cast<int64_t>(after.counter[1]);
  if (context.check(uhal_copy(stream, variable.data, words, sizeof words, UHAL_COPY_HOST_TO_DEVICE))) {
    context.check(uhal_stream_synchronize(stream));  // `words` is on this stack
  }
  return state;
}

// (resource, algorithm, shape, [minval, maxval])
template <uhal_distribution kKind, bool kHasLimits = false>
class Stateful : public Kernel {
 public:
  explicit Stateful(Construction& construction) : Kernel(construction), dtype_(construction.dtype("dtype")) {}
  void compute(Context& context) const override {
    const int64_t algorithm = context.host_scalar(1);
    const Shape shape = context.host_vector(2);
    const Distribution distribution = kHasLimits ? integer_range(context, 3, 4) : Distribution{kKind};
    const View output = context.flat_output(0, dtype_, shape);
    if (!context.ok()) return;
    int64_t before[kStateLength];
    const PhiloxState state = advance(context, algorithm, static_cast<uint64_t>(output.elements()), before);
    draw(context, distribution, state, output);
  }

 private:
  uhal_dtype dtype_;
};

// RngSkip(resource, algorithm, delta), RngReadAndSkip(...) -> the state before, in host memory as our stateless
// ops want it.
template <bool kRead>
class Skip : public Kernel {
 public:
  using Kernel::Kernel;
  void compute(Context& context) const override {
    const int64_t algorithm = context.host_scalar(1);
    const View delta = context.input(2);
    if (!context.ok()) return;
    if (delta.rank != 0)
      return context.fail_invalid(std::string(op()) + ": delta must be a scalar, got shape " + to_text(delta));
    int64_t before[kStateLength];
    advance(context, algorithm, *static_cast<const uint64_t*>(delta.data), before);
    if (!kRead) return;
    const View value = context.output(0, UHAL_INT64, {kStateLength});
    if (!context.ok()) return;
    for (int i = 0; i < kStateLength; ++i) static_cast<int64_t*>(value.data)[i] = before[i];
  }
};

}  // namespace

void register_stateful_random(Registrar& registrar) {
  const std::initializer_list<const char*> host = {"resource", "algorithm", "shape"};
  constexpr DtypeSet kBits = kIndices | only(UHAL_UINT32) | only(UHAL_UINT64);
  registrar.add<Stateful<UHAL_RANDOM_UNIFORM>>("StatefulUniform", {{"dtype", kFloats}}, host);
  registrar.add<Stateful<UHAL_RANDOM_NORMAL>>("StatefulStandardNormalV2", {{"dtype", kFloats}}, host);
  registrar.add<Stateful<UHAL_RANDOM_TRUNCATED_NORMAL>>("StatefulTruncatedNormal", {{"dtype", kFloats}}, host);
  registrar.add<Stateful<UHAL_RANDOM_BITS>>("StatefulUniformFullInt", {{"dtype", kBits}}, host);
  registrar.add<Stateful<UHAL_RANDOM_UNIFORM, true>>("StatefulUniformInt", {{"dtype", kIndices}},
                                                     {"resource", "algorithm", "shape", "minval", "maxval"});
  registrar.add<Skip<false>>("RngSkip", {}, {"resource", "algorithm", "delta"});
  registrar.add<Skip<true>>("RngReadAndSkip", {}, {"resource", "alg", "delta", "value"});
}

}  // namespace unihal::tensorflow
