// UHAL_OP_RANDOM_DISTRIBUTION: each element from a sequence of its own, so that numbers do not depend on the number of
// threads. Attempts are made for many elements side by side; those that are not through yet close up for the next step.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "csrc/backends/common/attributes.h"
#include "stub/common/blocks.h"
#include "stub/common/kernels.h"
#include "stub/common/parallel.h"
#include "stub/vector/vector_math.h"
#include "stub/vector/vectorize.h"

namespace unihal::stub {
namespace {

namespace text {

using uint32 = uint32_t;
using uint64 = uint64_t;
using int32 = int32_t;

// libm's functions by the names that have vector variants.
#define UHAL_MATH(name)                                      \
  UNIHAL_INLINE float name(float x) { return ::name##f(x); } \
  UNIHAL_INLINE double name(double x) { return ::name(x); }
UHAL_MATH(cos)
UHAL_MATH(exp)
UHAL_MATH(fabs)
UHAL_MATH(floor)
UHAL_MATH(log)
UHAL_MATH(log1p)
UHAL_MATH(sqrt)
#undef UHAL_MATH

// The functions of random_distributions.h, overloaded for float and double.
#define UHAL_INLINE UNIHAL_INLINE
#define C(value) static_cast<T>(value)
#define WIDE_T 0
#define T float
#include "csrc/tables/random_distributions.h"
#undef T
#undef WIDE_T
#define WIDE_T 1
#define T double
namespace wide {
#include "csrc/tables/random_distributions.h"
}
#undef T
#undef WIDE_T
#undef C
#undef UHAL_INLINE

using wide::random_binomial;
using wide::random_binomial_accepts;
using wide::random_binomial_attempt;
using wide::random_gamma;
using wide::random_gamma_accepts;
using wide::random_gamma_attempt;
using wide::random_gamma_boost;
using wide::random_poisson;
using wide::random_poisson_accepts;
using wide::random_poisson_attempt;

}  // namespace text

// Units of work of a number, of the order of what one costs.
constexpr int64_t kWork = 16;

// Elements that are drawn side by side.
constexpr int kLanes = 256;
constexpr uint32_t kAttempts = 256;

// A sequence's uniform numbers of one attempt, and what is made of them, for some elements.
template <class T>
struct Lanes {
  int count = 0;
  int32_t element[kLanes];  // its number among those drawn together
  int32_t verdict[kLanes];
  T p[kLanes], q[kLanes];
  T uniforms[4][kLanes];
  T value[kLanes];

  // Takes lane i of others, which may be these, behind its own.
  UNIHAL_INLINE void append(const Lanes& other, int i, bool taken) {
    element[count] = other.element[i];
    p[count] = other.p[i];
    q[count] = other.q[i];
    for (int k = 0; k < 3; ++k) uniforms[k][count] = other.uniforms[k][i];
    value[count] = other.value[i];
    count += taken ? 1 : 0;
  }
};

struct Words {
  uint32_t w[4][kLanes];
};

// Block `block` of the sequence of each lane's element, where that of element 0 begins at `sequence`.
template <class T>
UNIHAL_VECTORIZED void draw_words(const text::uhal_sequence& sequence, uint32_t block, const Lanes<T>& lanes,
                                  Words* words) {
  uint32_t* const c0 = words->w[0];
  uint32_t* const c1 = words->w[1];
  uint32_t* const c2 = words->w[2];
  uint32_t* const c3 = words->w[3];
  const int count = lanes.count;
  for (int i = 0; i < count; ++i) {
    const uint64_t low = sequence.low + static_cast<uint64_t>(lanes.element[i]);
    const uint64_t high = sequence.high + (low < sequence.low ? 1 : 0);
    c0[i] = static_cast<uint32_t>(low);
    c1[i] = static_cast<uint32_t>(low >> 32);
    c2[i] = static_cast<uint32_t>(high);
    c3[i] = static_cast<uint32_t>(high >> 32) + block;
  }
  const int all = (count + 7) / 8 * 8;
  for (int i = count; i < all; ++i) c0[i] = c1[i] = c2[i] = c3[i] = 0;
  vectors().random.philox_rounds(sequence.key, all, c0, c1, c2, c3);
}

// As random_uniforms() makes them.
UNIHAL_VECTORIZED void to_uniforms(int count, const uint32_t* word, float* uniforms) {
  for (int i = 0; i < count; ++i) {
    uniforms[i] = (static_cast<float>(static_cast<int32_t>(word[i] >> 9)) + 0.5f) * 1.1920928955078125e-7f;
  }
}

UNIHAL_VECTORIZED void to_uniforms(int count, const uint32_t* high, const uint32_t* low, double* uniforms) {
  for (int i = 0; i < count; ++i) {
    // 52 bits as the fraction of a number in [2^52, 2^53): without AVX-512 no vector converts from int64.
    const uint64_t bits = (static_cast<uint64_t>(high[i]) << 32 | low[i]) >> 12 | uint64_t{0x433} << 52;
    double whole;
    std::memcpy(&whole, &bits, sizeof whole);
    uniforms[i] = (whole - 4503599627370496.0 + 0.5) * 2.220446049250313e-16;
  }
}

// The first `needed` uniform numbers of an attempt.
void draw_uniforms(const text::uhal_sequence& sequence, uint32_t attempt, int needed, Lanes<float>* lanes) {
  Words words;
  draw_words(sequence, attempt, *lanes, &words);
  for (int k = 0; k < needed; ++k) to_uniforms(lanes->count, words.w[k], lanes->uniforms[k]);
}

void draw_uniforms(const text::uhal_sequence& sequence, uint32_t attempt, int needed, Lanes<double>* lanes) {
  for (int first = 0; first < needed; first += 2) {
    Words words;
    draw_words(sequence, 2 * attempt + static_cast<uint32_t>(first / 2), *lanes, &words);
    for (int k = 0; k < 2; ++k) {
      to_uniforms(lanes->count, words.w[2 * k], words.w[2 * k + 1], lanes->uniforms[first + k]);
    }
  }
}

// -- distributions. A lane is ordinary where attempts are made for it; `few`, where its number is found by inversion

struct Gamma {
  static constexpr int kUniforms = 4;
  template <class T>
  static bool is_ordinary(T p, T) {
    return p > 0 && p < INFINITY;
  }
  template <class T>
  static bool is_few(T, T) {
    return false;
  }
  template <class T>
  static T draw(const text::uhal_sequence& sequence, T p, T) {
    return text::random_gamma(&sequence, p);
  }
  template <class T>
  UNIHAL_VECTORIZED static void attempt(Lanes<T>& lanes) {
    T smallest = 1;
    for (int i = 0; i < lanes.count; ++i) smallest = lanes.p[i] < smallest ? lanes.p[i] : smallest;
    for (int i = 0; i < lanes.count; ++i) {
      lanes.verdict[i] = text::random_gamma_attempt(lanes.p[i], lanes.uniforms[0][i], lanes.uniforms[1][i],
                                                    lanes.uniforms[2][i], &lanes.value[i]);
    }
    if (smallest >= 1) return;
    for (int i = 0; i < lanes.count; ++i) {
      const T boost = text::random_gamma_boost(lanes.p[i], lanes.uniforms[3][i]);
      lanes.value[i] = lanes.p[i] < 1 ? lanes.value[i] * boost : lanes.value[i];
    }
  }
  template <class T>
  UNIHAL_VECTORIZED static void decide(Lanes<T>& lanes) {
    for (int i = 0; i < lanes.count; ++i) {
      lanes.verdict[i] =
          text::random_gamma_accepts(lanes.p[i], lanes.uniforms[0][i], lanes.uniforms[1][i], lanes.uniforms[2][i]);
    }
  }
  template <class T>
  static void invert(Lanes<T>&) {}
};

struct Poisson {
  static constexpr int kUniforms = 2;
  template <class T>
  static bool is_ordinary(T p, T) {
    return p > 0 && p < INFINITY;
  }
  template <class T>
  static bool is_few(T p, T) {
    return p < 10;
  }
  template <class T>
  static T draw(const text::uhal_sequence& sequence, T p, T) {
    return text::random_poisson(&sequence, p);
  }
  template <class T>
  UNIHAL_VECTORIZED static void attempt(Lanes<T>& lanes) {
    for (int i = 0; i < lanes.count; ++i) {
      lanes.verdict[i] =
          text::random_poisson_attempt(lanes.p[i], lanes.uniforms[0][i], lanes.uniforms[1][i], &lanes.value[i]);
    }
  }
  template <class T>
  UNIHAL_VECTORIZED static void decide(Lanes<T>& lanes) {
    for (int i = 0; i < lanes.count; ++i) {
      lanes.verdict[i] =
          text::random_poisson_accepts(lanes.p[i], lanes.uniforms[0][i], lanes.uniforms[1][i], lanes.value[i]);
    }
  }
  template <class T>
  UNIHAL_VECTORIZED static void invert(Lanes<T>& lanes) {
    T probability[kLanes];
    for (int i = 0; i < lanes.count; ++i) probability[i] = text::exp(-lanes.p[i]);
    subtract_probabilities(lanes, probability, 100, [](T p, T, T k) UNIHAL_INLINE_LAMBDA { return p / k; });
  }

  // Each lane's value: how many probabilities, each the last one times ratio(p, q, its number), its first uniform
  // number reaches beyond, up to `most`. A lane that has come to its end stays there: neither rest nor probability move
  // on.
  template <class T, class Ratio>
  UNIHAL_INLINE static void subtract_probabilities(Lanes<T>& lanes, T* probability, int most, const Ratio& ratio) {
    constexpr int kTogether = 32;
    for (int i = lanes.count; i < (lanes.count + kTogether - 1) / kTogether * kTogether; ++i) {
      lanes.uniforms[0][i] = probability[i] = 0;
      lanes.p[i] = lanes.q[i] = 1;
    }
    for (int first = 0; first < lanes.count; first += kTogether) {
      T* const rest = lanes.uniforms[0] + first;
      T* const own = probability + first;
      T* const value = lanes.value + first;
      const T* const p = lanes.p + first;
      const T* const q = lanes.q + first;
      for (int i = 0; i < kTogether; ++i) value[i] = 0;
      for (int number = 1; number <= most; ++number) {
        const T k = static_cast<T>(number);
        T open = 0;
        for (int i = 0; i < kTogether; ++i) {
          const bool is_open = rest[i] > own[i];
          rest[i] -= is_open ? own[i] : T(0);
          value[i] += is_open ? T(1) : T(0);
          own[i] *= is_open ? ratio(p[i], q[i], k) : T(1);
        }
#pragma omp simd reduction(+ : open)
        for (int i = 0; i < kTogether; ++i) open += value[i] == k ? T(1) : T(0);
        if (open == 0) break;
      }
    }
  }
};

// Lanes have the trials in p and the probability, of at most 1 / 2, in q: drawn are the rarer outcomes.
struct Binomial {
  static constexpr int kUniforms = 2;
  template <class T>
  static bool is_ordinary(T p, T q) {
    return p >= 1 && p < INFINITY && q > 0 && q < 1;
  }
  template <class T>
  static bool is_few(T p, T q) {
    return p * q < 10;
  }
  template <class T>
  static T draw(const text::uhal_sequence& sequence, T p, T q) {
    return text::random_binomial(&sequence, p, q);
  }
  template <class T>
  UNIHAL_VECTORIZED static void attempt(Lanes<T>& lanes) {
    for (int i = 0; i < lanes.count; ++i) {
      lanes.verdict[i] = text::random_binomial_attempt(lanes.p[i], lanes.q[i], lanes.uniforms[0][i],
                                                       lanes.uniforms[1][i], &lanes.value[i]);
    }
  }
  template <class T>
  UNIHAL_VECTORIZED static void decide(Lanes<T>& lanes) {
    for (int i = 0; i < lanes.count; ++i) {
      lanes.verdict[i] = text::random_binomial_accepts(lanes.p[i], lanes.q[i], lanes.uniforms[0][i],
                                                       lanes.uniforms[1][i], lanes.value[i]);
    }
  }
  template <class T>
  UNIHAL_VECTORIZED static void invert(Lanes<T>& lanes) {
    T probability[kLanes];
    for (int i = 0; i < lanes.count; ++i) probability[i] = text::exp(lanes.p[i] * text::log1p(-lanes.q[i]));
    Poisson::subtract_probabilities(lanes, probability, 200,
                                    [](T n, T p, T k) UNIHAL_INLINE_LAMBDA { return p / (1 - p) * ((n - k + 1) / k); });
    for (int i = 0; i < lanes.count; ++i) lanes.value[i] = lanes.value[i] < lanes.p[i] ? lanes.value[i] : lanes.p[i];
  }
};

template <class Distribution, class T>
void draw_by_attempts(const text::uhal_sequence& sequence, Lanes<T>& lanes, T* values) {
  Lanes<T> open;
  for (uint32_t attempt = 0; lanes.count > 0 && attempt < kAttempts; ++attempt) {
    if (attempt > 0) draw_uniforms(sequence, attempt, Distribution::kUniforms, &lanes);
    Distribution::attempt(lanes);
    const int count = lanes.count;
    lanes.count = open.count = 0;
    for (int i = 0; i < count; ++i) {
      const int32_t verdict = lanes.verdict[i];
      values[lanes.element[i]] = lanes.value[i];  // also of what is not taken: the last attempt's stays
      if (verdict > 0) continue;
      open.append(lanes, i, verdict == 0);
      lanes.append(lanes, i, verdict < 0);
    }
    Distribution::decide(open);
    for (int i = 0; i < open.count; ++i) lanes.append(open, i, open.verdict[i] < 0);
  }
}

// values[i] is drawn by p[i] and q[i], from the sequence that begins i further on.
template <class Distribution, class T>
void draw_lanes(const text::uhal_sequence& sequence, int count, const T* p, const T* q, T* values) {
  constexpr bool kBinomial = std::is_same_v<Distribution, Binomial>;
  Lanes<T> lanes;
  Lanes<T> few;
  int32_t others[kLanes];
  int other_count = 0;
  for (int i = 0; i < count; ++i) {
    const T first = kBinomial ? text::floor(p[i]) : p[i];
    const T second = kBinomial && q[i] > T(0.5) ? 1 - q[i] : q[i];
    const bool ordinary = Distribution::is_ordinary(first, second), inverted = Distribution::is_few(first, second);
    for (Lanes<T>* to : {&lanes, &few}) {
      to->element[to->count] = i;
      to->p[to->count] = first;
      to->q[to->count] = second;
      to->count += ordinary && inverted == (to == &few) ? 1 : 0;
    }
    others[other_count] = i;
    other_count += ordinary ? 0 : 1;
  }
  if (few.count > 0) {
    draw_uniforms(sequence, 0, 1, &few);
    Distribution::invert(few);
    for (int i = 0; i < few.count; ++i) values[few.element[i]] = few.value[i];
  }
  if (lanes.count > 0) {
    draw_uniforms(sequence, 0, Distribution::kUniforms, &lanes);
    draw_by_attempts<Distribution>(sequence, lanes, values);
  }
  if (kBinomial) {
    for (int i = 0; i < count; ++i) values[i] = q[i] > T(0.5) ? text::floor(p[i]) - values[i] : values[i];
  }
  for (int i = 0; i < other_count; ++i) {
    const int32_t element = others[i];
    const auto own = text::uhal_sequence_of(sequence.key, sequence.low, sequence.high, static_cast<uint64_t>(element));
    values[element] = Distribution::draw(own, p[element], q[element]);
  }
}

template <class T>
void draw(const uhal_random_distribution_attributes& attributes, int64_t first, int count, const T* p, const T* q,
          T* values) {
  const auto sequence = text::uhal_sequence_of(attributes.key, attributes.counter[0], attributes.counter[1],
                                               static_cast<uint64_t>(first));
  switch (attributes.distribution) {
    case UHAL_RANDOM_GAMMA:
      return draw_lanes<Gamma>(sequence, count, p, q, values);
    case UHAL_RANDOM_POISSON:
      return draw_lanes<Poisson>(sequence, count, p, q, values);
    default:
      return draw_lanes<Binomial>(sequence, count, p, q, values);
  }
}

template <class T>
void run(const uhal_random_distribution_attributes& attributes, const uhal_tensor& p, const uhal_tensor* q,
         const uhal_tensor& y) {
  const uhal_tensor order = row_major_view(y);
  const uhal_tensor* views[] = {&order, &y, &p, q != nullptr ? q : &p};
  const Space space = make_space(views, 4);
  const ComputeType type = sizeof(T) == 8 ? kDouble : kFloat;
  const BlockOperand to(space, 1, y, type);
  const BlockOperand first(space, 2, p, type);
  const BlockOperand second(space, 3, q != nullptr ? *q : p, type);
  parallel_for(space.count, kWork, kBlock, [&](int64_t begin, int64_t end) {
    Cursor cursor(space, begin);
    BlockBuffer firsts;
    BlockBuffer seconds;
    BlockBuffer drawn;
    for (; begin < end; begin += kBlock) {
      const int64_t count = std::min(kBlock, end - begin);
      first.load(cursor, count, firsts.bytes);
      second.load(cursor, count, seconds.bytes);
      const T* const parameters = reinterpret_cast<const T*>(firsts.bytes);
      const T* const others = reinterpret_cast<const T*>(seconds.bytes);
      T* const values = reinterpret_cast<T*>(drawn.bytes);
      for (int64_t i = 0; i < count; i += kLanes) {
        const int own = static_cast<int>(std::min<int64_t>(kLanes, count - i));
        draw(attributes, begin + i, own, parameters + i, others + i, values + i);
      }
      to.store(cursor, count, drawn.bytes);
      cursor.skip(count);
    }
  });
}

}  // namespace

const char* refuse_random_distribution(const uhal_op&) { return nullptr; }

uhal_status run_random_distribution(const Launch& launch) {
  const uhal_op& op = launch.op;
  const auto attributes =
      attributes_or(op, uhal_random_distribution_attributes{
                            sizeof(uhal_random_distribution_attributes), UHAL_RANDOM_GAMMA, 0, 0, {0, 0}});
  const uhal_tensor& p = *op.inputs[0];
  const uhal_tensor* q = op.input_count > 1 ? op.inputs[1] : nullptr;
  const uhal_tensor& y = *op.outputs[0];
  const bool is_double =
      p.dtype == UHAL_FLOAT64 || y.dtype == UHAL_FLOAT64 || (q != nullptr && q->dtype == UHAL_FLOAT64);
  if (is_double) {
    run<double>(attributes, p, q, y);
  } else {
    run<float>(attributes, p, q, y);
  }
  return UHAL_OK;
}

}  // namespace unihal::stub
