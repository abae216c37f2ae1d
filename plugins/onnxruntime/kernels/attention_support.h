// What the kinds of attention share: heads, masks, and what was there before.
#pragma once

#include "plugins/onnxruntime/kernels/kernels.h"

namespace unihal::onnxruntime {

// (B, H, M, D) of an operand that has it so, or as (B, M, H D).
View heads_of(const Call& call, const View& x, int64_t heads);

// What a row of attention sees, and how its scores become weights.
struct Scores {
  double scale = 0;    // 0: 1 / the square root of a head's width
  double softcap = 0;  // softcap * tanh(score / softcap), before anything is added; 0: none
  View mask;   // added, or of bool: what is false is hidden; of up to four axes that broadcast; of no dtype: none
  View sinks;  // of no dtype, or (heads): a score for each head that takes weight and gives nothing
  // Row i stands at column i + offset, and sees `left` columns before that and `right` behind it; -1: all of them.
  int64_t offset = 0, left = -1, right = -1;
  // Integers (batch), or of no dtype: how many columns count. Row i then stands at column i + that number - rows.
  View lengths;

  void be_causal() { right = 0; }
};

// The sum of two masks, of which either may be none.
View sum_of_masks(Call& call, const View& a, const View& b);

// What is to be given of the scores, all (B, H, M, N).
enum class Stage { kNone, kProducts, kCapped, kMasked, kWeights };

// y = attention(q, k, v), all (B, H, ...); k and v may have fewer heads, each of which serves neighbours among q's. Of
// `stage`, what the scores are then goes to `given`.
void attend(Call& call, const View& q, const View& k, const View& v, const Scores& scores, const View& y,
            Stage stage = Stage::kNone, const View& given = View());

// Keys or values (B, H, M, D): those of `input`, where it is there, and then `fresh`; the whole is output `output`,
// where it is asked for.
View with_past(Call& call, const View& fresh, int input, int output);

// y = x with pairs of its numbers turned by angles: x and y (B, H, M, D), the tables broadcast to (B, H, M, pairs).
// What is beyond the pairs is copied.
void turn_pairs(Call& call, const View& x, const View& y, const View& cosines, const View& sines, bool interleaved);

}  // namespace unihal::onnxruntime
