#include "plugins/tensorflow/kernels/philox.h"

namespace unihal::tensorflow {

PhiloxState PhiloxState::from_seeds(uint64_t seed, uint64_t seed2) {
  // TensorFlow scrambles both seeds with this fixed key, so that neither has to be strong.
  uint32_t key[2] = {0x3EC8F720, 0x02461E29};
  uint32_t block[4] = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32), static_cast<uint32_t>(seed2),
                       static_cast<uint32_t>(seed2 >> 32)};
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t first = uint64_t{0xD2511F53} * block[0];
    const uint64_t second = uint64_t{0xCD9E8D57} * block[2];
    const uint32_t next[4] = {
        static_cast<uint32_t>(second >> 32) ^ block[1] ^ key[0],
        static_cast<uint32_t>(second),
        static_cast<uint32_t>(first >> 32) ^ block[3] ^ key[1],
        static_cast<uint32_t>(first),
    };
    for (int i = 0; i < 4; ++i) block[i] = next[i];
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  PhiloxState state;
  state.key = block[0] | static_cast<uint64_t>(block[1]) << 32;
  state.counter[1] = block[2] | static_cast<uint64_t>(block[3]) << 32;
  return state;
}

void draw(Context& context, const Distribution& distribution, const PhiloxState& state, const View& output) {
  if (!context.ok() || output.elements() == 0) return;
  const uhal_random_attributes attributes = random_attributes(distribution.kind, distribution.a, distribution.b,
                                                              state.key, state.counter[0], state.counter[1]);
  if (!context.launch(UHAL_OP_RANDOM, {}, {&output}, &attributes) || distribution.count == 0) return;
  // Raw words, of which the limits are taken here.
  const auto words_of = [](View view) {
    view.dtype = UHAL_UINT64;
    return view;
  };
  const View words = words_of(output);
  const View first = context.temporary(UHAL_INT64, Shape{}), count = context.temporary(UHAL_INT64, Shape{});
  if (!context.ok()) return;
  context.fill(first, 0, distribution.first);
  context.fill(count, 0, static_cast<int64_t>(distribution.count));
  const View low = words_of(first), range = words_of(count);
  context.map(uhal_map_floor_mod, {&words, &range}, {&words});
  context.map(uhal_map_add, {&words, &low}, {&words});
}

Distribution integer_range(Context& context, int low_input, int high_input, bool nothing) {
  const int64_t low = context.host_scalar(low_input);
  const int64_t high = context.host_scalar(high_input);
  if (context.ok() && low >= high && !nothing) {
    context.fail_invalid("Need minval < maxval, got " + std::to_string(low) + " >= " + std::to_string(high));
  }
  constexpr int64_t kExact = int64_t{1} << 53;  // the ABI states limits as doubles
  if (context.ok() && low < high && (low < -kExact || high > kExact)) {
    return {UHAL_RANDOM_BITS, 0, 1, low, static_cast<uint64_t>(high) - static_cast<uint64_t>(low)};
  }
  return {UHAL_RANDOM_UNIFORM, static_cast<double>(low), static_cast<double>(high)};
}

}  // namespace unihal::tensorflow
