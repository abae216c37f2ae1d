// UHAL_OP_RANDOM and UHAL_OP_DROPOUT: Philox4x32-10 in TensorFlow's order, so that a stateless op gives the same
// numbers as on TensorFlow's CPU. The numbers do not depend on the number of threads.

#include <algorithm>
#include <cmath>

#include "csrc/backends/common/attributes.h"
#include "stub/common/blocks.h"
#include "stub/common/kernels.h"
#include "stub/common/parallel.h"

namespace unihal::stub {
namespace {

// TensorFlow sets aside this many words per number where samples may be redrawn, so that groups can be drawn apart.
constexpr int64_t kReservedPerNumber = 256;
constexpr float kTruncation = 2.0f;

// Advances a 128-bit counter.
struct Counter {
  uint64_t halves[2];

  Counter plus(uint64_t blocks) const {
    const uint64_t low = halves[0] + blocks;
    return {{low, halves[1] + (low < blocks ? 1 : 0)}};
  }
};

struct Parameters {
  uhal_distribution distribution;
  uint64_t key;
  Counter counter;
  double a;
  double b;
};

Parameters parameters_of(const uhal_op& op) {
  const auto attributes = attributes_or(
      op, uhal_random_attributes{sizeof(uhal_random_attributes), UHAL_RANDOM_UNIFORM, 0, 0, {0, 0}, 0, 1});
  return {attributes.distribution,
          attributes.key,
          {{attributes.counter[0], attributes.counter[1]}},
          attributes.a,
          attributes.b};
}

// The same with what the operand `turn`, number `input`, adds to the counter.
Parameters parameters_at_turn(const uhal_op& op, int input) {
  Parameters parameters = parameters_of(op);
  const uhal_tensor* turn = op.input_count > input ? op.inputs[input] : nullptr;
  if (turn != nullptr) parameters.counter.halves[1] += static_cast<uint64_t>(*static_cast<const int64_t*>(turn->data));
  return parameters;
}

bool is_wide(uhal_dtype dtype) { return dtype_size(dtype) == 8; }

// The words of elements [begin, begin + count) of an output; begin is a multiple of a block's elements.
void draw_words(const Parameters& parameters, int64_t begin, int64_t count, bool wide, uint32_t* words) {
  const int64_t per_block = wide ? 2 : 4;
  const Counter counter = parameters.counter.plus(static_cast<uint64_t>(begin / per_block));
  vectors().random.philox(parameters.key, counter.halves, (count + per_block - 1) / per_block, words);
}

// -- distributions: fill `count` numbers of the compute type, from element `begin` on

// float16 and bfloat16 have their own uniform numbers: as many low bits of the word as their fraction holds.
void uniform_narrow(uhal_dtype dtype, int64_t count, const uint32_t* words, float* out) {
  const int bits = dtype == UHAL_FLOAT16 ? 10 : 7;
  const uint32_t mask = (1u << bits) - 1;
  for (int64_t i = 0; i < count; ++i) out[i] = std::ldexp(static_cast<float>(words[i] & mask), -bits);
}

void draw_uniform(const Parameters& parameters, uhal_dtype dtype, int64_t count, const uint32_t* words, void* out) {
  if (dtype == UHAL_FLOAT64) {
    double* values = static_cast<double*>(out);
    vectors().random.uniform_double(count, words, values);
    for (int64_t i = 0; i < count; ++i) values[i] = values[i] * (parameters.b - parameters.a) + parameters.a;
    return;
  }
  float* values = static_cast<float*>(out);
  if (dtype == UHAL_FLOAT32) {
    vectors().random.uniform_float(count, words, values);
  } else {
    uniform_narrow(dtype, count, words, values);
  }
  const float low = static_cast<float>(parameters.a);
  const float range = static_cast<float>(parameters.b - parameters.a);
  for (int64_t i = 0; i < count; ++i) values[i] = values[i] * range + low;
}

void draw_normal(const Parameters& parameters, uhal_dtype dtype, int64_t count, const uint32_t* words, void* out) {
  if (dtype == UHAL_FLOAT64) {
    double* values = static_cast<double*>(out);
    vectors().random.normal_double(count, words, values);
    for (int64_t i = 0; i < count; ++i) values[i] = values[i] * parameters.b + parameters.a;
    return;
  }
  float* values = static_cast<float*>(out);
  vectors().random.normal_float(count, words, values);
  const float mean = static_cast<float>(parameters.a);
  const float deviation = static_cast<float>(parameters.b);
  for (int64_t i = 0; i < count; ++i) values[i] = values[i] * deviation + mean;
}

// Groups of numbers (one block's worth), each from a sequence of its own: normal numbers within two deviations. Blocks
// are computed for many groups at once, one for each group that is not full yet.
template <class T, int64_t kGroups>
void draw_truncated_groups(const Parameters& parameters, int64_t first, int64_t groups, T* out) {
  constexpr bool kWide = sizeof(T) == 8;
  constexpr int64_t kNumbers = kWide ? 2 : 4;
  constexpr int64_t kLanes = 16;  // their number is a multiple of it
  static_assert(kGroups % kLanes == 0);
  alignas(64) uint32_t lanes[4][kGroups];
  alignas(64) uint32_t words[4 * kGroups];
  T values[kNumbers * kGroups];
  int64_t unfilled[kGroups], filled[kGroups] = {};
  for (int64_t i = 0; i < groups; ++i) unfilled[i] = i;
  int64_t left = groups;
  for (int64_t block = 0; left > 0; ++block) {
    const int64_t all = (left + kLanes - 1) / kLanes * kLanes;
    for (int64_t i = 0; i < all; ++i) {
      const int64_t group = first + unfilled[std::min(i, left - 1)];
      const Counter counter =
          parameters.counter.plus(static_cast<uint64_t>(group * kNumbers * kReservedPerNumber / 4 + block));
      for (int half = 0; half < 2; ++half) {
        lanes[2 * half][i] = static_cast<uint32_t>(counter.halves[half]);
        lanes[2 * half + 1][i] = static_cast<uint32_t>(counter.halves[half] >> 32);
      }
    }
    vectors().random.philox_rounds(parameters.key, all, lanes[0], lanes[1], lanes[2], lanes[3]);
    for (int64_t i = 0; i < left; ++i) {
      for (int k = 0; k < 4; ++k) words[4 * i + k] = lanes[k][i];
    }
    if constexpr (kWide) {
      vectors().random.normal_double(kNumbers * left, words, values);
    } else {
      vectors().random.normal_float(kNumbers * left, words, values);
    }
    int64_t kept = 0;
    for (int64_t i = 0; i < left; ++i) {
      const int64_t group = unfilled[i];
      for (int64_t k = 0; k < kNumbers && filled[group] < kNumbers; ++k) {
        const T value = values[kNumbers * i + k];
        if (!(std::abs(value) < kTruncation)) continue;
        out[group * kNumbers + filled[group]++] = value * static_cast<T>(parameters.b) + static_cast<T>(parameters.a);
      }
      if (filled[group] < kNumbers) unfilled[kept++] = group;
    }
    left = kept;
  }
}

template <class T>
void draw_truncated(const Parameters& parameters, int64_t begin, int64_t count, void* out) {
  constexpr int64_t kNumbers = sizeof(T) == 8 ? 2 : 4, kGroups = 64;
  for (int64_t i = 0; i < count; i += kNumbers * kGroups) {
    const int64_t groups = std::min(kGroups, (count - i + kNumbers - 1) / kNumbers);
    draw_truncated_groups<T, kGroups>(parameters, (begin + i) / kNumbers, groups, static_cast<T*>(out) + i);
  }
}

// A bound of integers, from -2^63 to below 2^64, as the bits of an int64 or a uint64.
uint64_t bits_of(double bound) {
  return bound < 0 ? static_cast<uint64_t>(static_cast<int64_t>(bound)) : static_cast<uint64_t>(bound);
}

// Integer outputs, in 64 bits: raw words, or a range.
void draw_integers(const Parameters& parameters, bool wide, int64_t count, const uint32_t* words, void* out) {
  uint64_t* values = static_cast<uint64_t*>(out);
  for (int64_t i = 0; i < count; ++i) {
    values[i] = wide ? words[2 * i] | static_cast<uint64_t>(words[2 * i + 1]) << 32 : words[i];
  }
  if (parameters.distribution != UHAL_RANDOM_UNIFORM) return;
  const uint64_t low = bits_of(parameters.a);
  const uint64_t range = bits_of(parameters.b) - low;
  for (int64_t i = 0; i < count; ++i) values[i] = low + (range == 0 ? 0 : values[i] % range);
}

// 1 where a uniform number lies below `probability`, else 0.
template <class T>
void draw_bernoulli(double probability, bool wide, int64_t count, const uint32_t* words, T* out) {
  if (wide) {
    double uniform[kBlock];
    vectors().random.uniform_double(count, words, uniform);
    for (int64_t i = 0; i < count; ++i) out[i] = uniform[i] < probability ? 1 : 0;
  } else {
    float uniform[kBlock];
    vectors().random.uniform_float(count, words, uniform);
    for (int64_t i = 0; i < count; ++i) out[i] = uniform[i] < static_cast<float>(probability) ? 1 : 0;
  }
}

ComputeType draw_type(uhal_dtype dtype) {
  return dtype == UHAL_FLOAT64 ? kDouble : is_floating(dtype) ? kFloat : kUint64;
}

// kBlock is a multiple of both dtypes' numbers per Philox block, so that blocks of elements begin with a block of
// words.
static_assert(kBlock % 4 == 0);

void draw(const Parameters& parameters, uhal_dtype dtype, int64_t begin, int64_t count, void* out) {
  const bool wide = is_wide(dtype);
  if (parameters.distribution == UHAL_RANDOM_TRUNCATED_NORMAL) {
    if (dtype == UHAL_FLOAT64) {
      draw_truncated<double>(parameters, begin, count, out);
    } else {
      draw_truncated<float>(parameters, begin, count, out);
    }
    return;
  }
  alignas(64) uint32_t words[2 * kBlock];
  draw_words(parameters, begin, count, wide, words);
  if (parameters.distribution == UHAL_RANDOM_BERNOULLI) {
    switch (draw_type(dtype)) {
      case kFloat:
        return draw_bernoulli(parameters.a, wide, count, words, static_cast<float*>(out));
      case kDouble:
        return draw_bernoulli(parameters.a, wide, count, words, static_cast<double*>(out));
      default:
        return draw_bernoulli(parameters.a, wide, count, words, static_cast<uint64_t*>(out));
    }
  }
  if (!is_floating(dtype)) {
    draw_integers(parameters, wide, count, words, out);
  } else if (parameters.distribution == UHAL_RANDOM_NORMAL) {
    draw_normal(parameters, dtype, (count + 1) / 2 * 2, words, out);
  } else {
    draw_uniform(parameters, dtype, count, words, out);
  }
}

// Views in row-major order: a dense view of y's shape comes first and fixes the order of iteration.
Space row_major_space(const uhal_tensor& shape, const uhal_tensor* first, const uhal_tensor* second,
                      const uhal_tensor* third) {
  const uhal_tensor order = row_major_view(shape);
  const uhal_tensor* views[] = {&order, first, second, third};
  return make_space(views, third != nullptr ? 4 : 2);
}

void run_draw(const uhal_op& op) {
  const uhal_tensor& y = *op.outputs[0];
  const Parameters parameters = parameters_at_turn(op, 0);
  const Space space = row_major_space(y, &y, nullptr, nullptr);
  const ComputeType type = draw_type(y.dtype);
  const BlockOperand out(space, 1, y, type);
  const int64_t work = parameters.distribution == UHAL_RANDOM_UNIFORM ? 4 : 16;
  parallel_for(space.count, work, kBlock, [&](int64_t begin, int64_t end) {
    Cursor cursor(space, begin);
    BlockBuffer buffer;
    for (; begin < end; begin += kBlock) {
      const int64_t count = std::min(kBlock, end - begin);
      draw(parameters, y.dtype, begin, count, buffer.bytes);
      out.store(cursor, count, buffer.bytes);
      cursor.skip(count);
    }
  });
}

void run_dropout(const uhal_op& op) {
  const uhal_tensor& x = *op.inputs[0];
  const uhal_tensor& y = *op.outputs[0];
  const uhal_tensor& mask = *op.outputs[1];
  const Parameters parameters = parameters_at_turn(op, 1);
  const bool scale_at_inference =
      op.attributes != nullptr && static_cast<const uhal_random_attributes*>(op.attributes)->scale_at_inference != 0;
  const double rate = parameters.a;
  // Everything dropped: 0, not 0 times infinity.
  const double factor = scale_at_inference ? 1 : rate < 1 ? 1 / (1 - rate) : 0;
  const Space space = row_major_space(y, &y, &x, &mask);
  const ComputeType type = compute_type_of(x.dtype);
  const BlockOperand out(space, 1, y, type);
  const BlockOperand in(space, 2, x, type);
  const BlockOperand kept(space, 3, mask, type);
  const bool wide = is_wide(x.dtype);
  parallel_for(space.count, 6, kBlock, [&](int64_t begin, int64_t end) {
    Cursor cursor(space, begin);
    BlockBuffer values;
    BlockBuffer flags;
    alignas(64) uint32_t words[2 * kBlock];
    for (; begin < end; begin += kBlock) {
      const int64_t count = std::min(kBlock, end - begin);
      draw_words(parameters, begin, count, wide, words);
      in.load(cursor, count, values.bytes);
      const auto apply = [&](auto* value, auto* flag, auto scale) {
        draw_bernoulli(rate, wide, count, words, flag);
        for (int64_t i = 0; i < count; ++i) {
          flag[i] = 1 - flag[i];
          value[i] = flag[i] != 0 ? value[i] * scale : 0;
        }
      };
      if (type == kDouble) {
        apply(reinterpret_cast<double*>(values.bytes), reinterpret_cast<double*>(flags.bytes), factor);
      } else {
        apply(reinterpret_cast<float*>(values.bytes), reinterpret_cast<float*>(flags.bytes),
              static_cast<float>(factor));
      }
      out.store(cursor, count, values.bytes);
      kept.store(cursor, count, flags.bytes);
      cursor.skip(count);
    }
  });
}

}  // namespace

const char* refuse_random(const uhal_op& op) {
  const uhal_dtype dtype = op.outputs[0]->dtype;
  if (op.kind == UHAL_OP_DROPOUT) {
    return is_floating(dtype)
               ? nullptr
               : refusal("dropout: dtype %s is not supported; expected a floating one", dtype_name(dtype));
  }
  const uhal_distribution distribution = parameters_of(op).distribution;
  if (distribution < UHAL_RANDOM_UNIFORM || distribution > UHAL_RANDOM_BITS) {
    return refusal("random: distribution %d is unknown to this build of the stub", distribution);
  }
  if (!is_real(dtype)) return refusal("random: dtype %s is not supported", dtype_name(dtype));
  const bool normal = distribution == UHAL_RANDOM_NORMAL || distribution == UHAL_RANDOM_TRUNCATED_NORMAL;
  if (normal && !is_floating(dtype)) {
    return refusal("random: normal numbers need a floating output, got %s", dtype_name(dtype));
  }
  if (distribution == UHAL_RANDOM_BITS && !is_integer(dtype)) {
    return refusal("random: raw bits need an integer output, got %s", dtype_name(dtype));
  }
  return nullptr;
}

uhal_status run_random(const Launch& launch) {
  if (launch.op.kind == UHAL_OP_DROPOUT) {
    run_dropout(launch.op);
  } else {
    run_draw(launch.op);
  }
  return UHAL_OK;
}

}  // namespace unihal::stub
