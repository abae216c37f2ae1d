// What the kinds of attention share: heads, masks, and what was there before.
#pragma once

#include "plugins/onnxruntime/kernels/kernels.h"

namespace unihal::onnxruntime {

// (B, H, M, D) of an operand that has it so, or as (B, M, H D).
View heads_of(const Call& call, const View& x, int64_t heads);

// y = attention(q, k, v), all (B, H, ...); k and v may have fewer heads, each of which serves neighbours among q's.
// `mask` is added to scores, or of bool: what is false is hidden; of up to four axes that broadcast; of no dtype: none.
// Causal: row i sees columns up to i + offset. scale 0: the square root of a head's width.
void attend(Call& call, const View& q, const View& k, const View& v, View mask, bool causal, int64_t offset,
            double scale, const View& y);

// Keys or values (B, H, M, D): those of `input`, where it is there, and then `fresh`; the whole is output `output`,
// where it is asked for.
View with_past(Call& call, const View& fresh, int input, int output);

// y = x with pairs of its numbers turned by angles: x and y (B, H, M, D), the tables broadcast to (B, H, M, pairs).
// What is beyond the pairs is copied.
void turn_pairs(Call& call, const View& x, const View& y, const View& cosines, const View& sines, bool interleaved);

}  // namespace unihal::onnxruntime
