// Random numbers. They are unihal's own, of Philox: other ones than those of ONNX Runtime's CPU.
#include <cstring>

#include "plugins/onnxruntime/kernels/kernels.h"
#include "plugins/onnxruntime/provider.h"

namespace unihal::onnxruntime {
namespace {

// The key and the counter of a node's numbers: a seed gives the same ones in each session, and others in each run.
class Numbers {
 public:
  // Dropout's seed is an integer, the others' a number.
  Numbers(const Description& node, bool is_whole) {
    if (is_whole) {
      key_ = static_cast<uint64_t>(node.integer("seed", 0));
      is_given_ = node.integer("seed", 0) == node.integer("seed", 1);
      return;
    }
    const float seed = static_cast<float>(node.real("seed", 0));
    std::memcpy(&key_, &seed, sizeof seed);
    is_given_ = node.real("seed", 0) == node.real("seed", 1);
  }
  uhal_random_attributes next(const Call& call, uhal_distribution distribution, double a, double b) const {
    const uint64_t turn = is_given_ ? turn_.fetch_add(1) : call.provider().next_random();
    return random_attributes(distribution, a, b, is_given_ ? key_ : call.provider().random_key(), 0, turn);
  }

 private:
  uint64_t key_ = 0;
  bool is_given_ = false;
  mutable std::atomic<uint64_t> turn_{0};
};

class Random final : public Kernel {
 public:
  Random(const Description& node, const void* data)
      : numbers_(node, false), is_normal_(*static_cast<const bool*>(data)), shape_(node.integers("shape")) {
    node.require(contains(kFloats, node.output_dtype(0)), "random integers");
    first_ = is_normal_ ? node.real("mean", 0) : node.real("low", 0);
    second_ = is_normal_ ? node.real("scale", 1) : node.real("high", 1);
  }
  void run(Call& call) const override {
    const View y = call.output(0, shape_ ? *shape_ : call.shape(0));
    if (y.elements() == 0) return;
    const uhal_random_attributes attributes =
        numbers_.next(call, is_normal_ ? UHAL_RANDOM_NORMAL : UHAL_RANDOM_UNIFORM, first_, second_);
    call.launch(UHAL_OP_RANDOM, {}, {&y}, &attributes);
  }

 private:
  const Numbers numbers_;
  const bool is_normal_;
  const std::optional<Shape> shape_;
  double first_ = 0, second_ = 1;
};

constexpr bool kNormal = true;
constexpr bool kUniform = false;

// 1 with the probability that x says.
class Bernoulli final : public Kernel {
 public:
  explicit Bernoulli(const Description& node) : numbers_(node, false) {
    node.require(node.output_dtype(0) != UHAL_DTYPE_INVALID, "a dtype that unihal has not");
  }
  void run(Call& call) const override {
    const View x = call.input(0);
    const View y = call.output_like(0, x);
    if (y.elements() == 0) return;
    const View drawn = call.scratch_like(x, x.dtype == UHAL_FLOAT64 ? UHAL_FLOAT64 : UHAL_FLOAT32);
    const uhal_random_attributes attributes = numbers_.next(call, UHAL_RANDOM_UNIFORM, 0, 1);
    call.launch(UHAL_OP_RANDOM, {}, {&drawn}, &attributes);
    call.map(uhal_map_less, {&drawn, &x}, {&y});
  }

 private:
  const Numbers numbers_;
};

class Dropout final : public Kernel {
 public:
  explicit Dropout(const Description& node) : numbers_(node, true), can_train_(node.version() >= 12) {}
  void run(Call& call) const override {
    const View x = call.input(0);
    const View y = call.output_like(0, x);
    View mask;
    const bool wants_mask = call.wants(1, shape_of(x), &mask);
    const double ratio = call.has(1) ? call.scalar(1) : 0.5;
    const bool trains = can_train_ && call.has(2) && call.scalar(2) != 0 && ratio != 0;
    if (!trains) {
      call.copy(x, y);
      if (wants_mask) call.fill(mask, 1);
      return;
    }
    call.require(ratio >= 0 && ratio < 1, "the ratio is not from 0 to below 1");
    if (y.elements() == 0) return;
    const View kept = wants_mask ? mask : call.scratch_like(x, UHAL_BOOL);
    const uhal_random_attributes attributes = numbers_.next(call, UHAL_RANDOM_UNIFORM, ratio, 0);
    call.launch(UHAL_OP_DROPOUT, {&x}, {&y, &kept}, &attributes);
  }

 private:
  const Numbers numbers_;
  const bool can_train_;
};

#define RANDOM(op, types, function) \
  {.name = op, .first = 1, .last = kNewestOpset, .dtypes = types, .make = make<Random>, .data = &function}

const Op kRandomOps[] = {
    RANDOM("RandomNormal", kFloats, kNormal),
    RANDOM("RandomUniform", kFloats, kUniform),
    RANDOM("RandomNormalLike", kStored, kNormal),
    RANDOM("RandomUniformLike", kStored, kUniform),
    {.name = "Bernoulli", .first = 15, .last = kNewestOpset, .dtypes = kFloats, .make = make<Bernoulli>},
    {.name = "Dropout",
     .first = 7,
     .last = kNewestOpset,
     .dtypes = kFloats,
     .make = make<Dropout>,
     .host_inputs = host({1, 2})},
};

#undef RANDOM

}  // namespace

Table random_ops() { return table(kRandomOps); }

}  // namespace unihal::onnxruntime
