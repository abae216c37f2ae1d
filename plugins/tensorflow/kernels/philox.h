// The state of TensorFlow's generator, Philox4x32-10, as its ops hand it around.
#pragma once

#include <cstdint>

#include "plugins/tensorflow/kernel.h"

namespace unihal::tensorflow {

struct PhiloxState {
  uint64_t key = 0;
  uint64_t counter[2] = {0, 0};  // low, high

  // Moves on by `blocks` of four words, with carry.
  void skip(uint64_t blocks) {
    counter[0] += blocks;
    if (counter[0] < blocks) ++counter[1];
  }

  // The state for the pair of seeds of a stateless op: key and high half of the counter are one scrambled block.
  static PhiloxState from_seeds(uint64_t seed, uint64_t seed2);
};

// TensorFlow reserves this many blocks for each element drawn, whatever the distribution needs.
inline constexpr uint64_t kBlocksPerElement = 256;

// What a random op draws; [a, b) for integers, or, where doubles do not hold these limits, `count` numbers from `first`
// on, in the arithmetic of 64-bit words.
struct Distribution {
  uhal_distribution kind;
  double a = 0;
  double b = 1;
  int64_t first = 0;
  uint64_t count = 0;
};

// Fills `output` from the state.
void draw(Context& context, const Distribution& distribution, const PhiloxState& state, const View& output);

// The limits of a uniform integer distribution, from two host inputs of the output's dtype. `nothing`: no number is to
// be drawn, so the limits may be equal.
Distribution integer_range(Context& context, int low_input, int high_input, bool nothing = false);

}  // namespace unihal::tensorflow
