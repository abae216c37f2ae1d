/* Random numbers of distributions with parameters: what UHAL_OP_RANDOM_DISTRIBUTION draws. One text for all: the stub
 * compiles it as C++ (stub/ops/random_distribution.cc), every other backend pastes it into a kernel
 * (csrc/kernels/source/random_distribution.cl).
 *
 * Whoever includes it has defined
 *   T             float or double; its exp(), log(), ... by their usual names
 *   WIDE_T        1 if T is double
 *   C(v)          the constant v as a T
 *   UHAL_INLINE   before a function
 *   INFINITY, uint32, uint64, int32
 *
 * What an attempt does are functions of their own, without loops and with no call behind a condition: the stub's loops
 * over many elements are made of them too. A verdict is 1 for a proposal that is taken, -1 for one that is not, 0 where
 * only the exact test tells.
 *
 * Attempts are numbered; each has four uniform numbers of its own (op.h says of which words). After the last attempt,
 * which none in 10^100 reaches, its number is taken as it is, so that nothing loops for ever. */

#define UHAL_LAST_ATTEMPT 255u

/* The sequence of one element: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"). */
#ifndef UHAL_ELEMENT_SEQUENCE
#define UHAL_ELEMENT_SEQUENCE
typedef struct {
  uint64 key, low, high;
} uhal_sequence;

UHAL_INLINE uhal_sequence uhal_sequence_of(uint64 key, uint64 low, uint64 high, uint64 element) {
  uhal_sequence sequence;
  sequence.key = key;
  sequence.low = low + element;
  sequence.high = high + (sequence.low < element ? 1 : 0);
  return sequence;
}

UHAL_INLINE void uhal_sequence_words(const uhal_sequence* sequence, uint32 block, uint32* words) {
  uint32 c0 = (uint32)sequence->low, c1 = (uint32)(sequence->low >> 32);
  uint32 c2 = (uint32)sequence->high, c3 = (uint32)(sequence->high >> 32) + block;
  uint32 key0 = (uint32)sequence->key, key1 = (uint32)(sequence->key >> 32);
  for (int32 round = 0; round < 10; ++round) {
    const uint64 product0 = (uint64)0xD2511F53u * c0;
    const uint64 product1 = (uint64)0xCD9E8D57u * c2;
    c0 = (uint32)(product1 >> 32) ^ c1 ^ key0;
    c1 = (uint32)product1;
    c2 = (uint32)(product0 >> 32) ^ c3 ^ key1;
    c3 = (uint32)product0;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  words[0] = c0;
  words[1] = c1;
  words[2] = c2;
  words[3] = c3;
}
#endif

/* Four uniform numbers between 0 and 1, without either: the middles of 2^23 (2^52) equal parts, of the high bits of a
 * word (of two words, the first one the higher). */
UHAL_INLINE void random_uniforms(const uhal_sequence* sequence, uint32 attempt, T* uniforms) {
  uint32 words[4];
#if WIDE_T
  for (int32 i = 0; i < 2; ++i) {
    uhal_sequence_words(sequence, 2 * attempt + (uint32)i, words);
    for (int32 k = 0; k < 2; ++k) {
      const uint64 bits = ((uint64)words[2 * k] << 32 | words[2 * k + 1]) >> 12;
      uniforms[2 * i + k] = ((T)bits + C(0.5)) * C(2.220446049250313e-16);
    }
  }
#else
  uhal_sequence_words(sequence, attempt, words);
  for (int32 k = 0; k < 4; ++k) uniforms[k] = ((T)(int32)(words[k] >> 9) + C(0.5)) * C(1.1920928955078125e-7);
#endif
}

/* -- gamma: G. Marsaglia and W. W. Tsang, "A simple method for generating gamma variables" (2000) ------------- */

/* A normal number of two uniform ones (Box and Muller). */
UHAL_INLINE T random_normal(T first, T second) {
  return sqrt(C(-2) * log(first)) * cos(C(6.283185307179586477) * second);
}

UHAL_INLINE T random_gamma_d(T shape) { return (shape < 1 ? shape + 1 : shape) - C(0.33333333333333333333); }

/* The verdict on an attempt, and what it proposes for a shape of at least 1. */
UHAL_INLINE int32 random_gamma_attempt(T shape, T first, T second, T third, T* proposal) {
  const T d = random_gamma_d(shape);
  const T x = random_normal(first, second);
  const T root = 1 + 1 / sqrt(9 * d) * x;
  const T square = x * x;
  *proposal = d * (root * root * root);
  return root <= 0 ? -1 : third < 1 - C(0.0331) * square * square ? 1 : 0;
}

/* log(u) < x^2 / 2 + d - d v + d log(v), v = (1 + w)^3, without what cancels. */
UHAL_INLINE int32 random_gamma_accepts(T shape, T first, T second, T third) {
  const T d = random_gamma_d(shape);
  const T x = random_normal(first, second);
  const T w = 1 / sqrt(9 * d) * x;
  return log(third) < C(0.5) * (x * x) + d * (3 * (log1p(w) - w) - w * w * (3 + w)) ? 1 : -1;
}

/* What brings a number of shape + 1 to a shape below 1. */
UHAL_INLINE T random_gamma_boost(T shape, T fourth) { return exp(log(fourth) / shape); }

UHAL_INLINE T random_gamma(const uhal_sequence* sequence, T shape) {
  if (!(shape > 0) || shape == C(INFINITY)) return shape == 0 || shape > 0 ? shape : C(INFINITY) - C(INFINITY);
  T uniforms[4];
  T proposal = 0;
  for (uint32 attempt = 0; attempt <= UHAL_LAST_ATTEMPT; ++attempt) {
    random_uniforms(sequence, attempt, uniforms);
    int32 verdict = random_gamma_attempt(shape, uniforms[0], uniforms[1], uniforms[2], &proposal);
    if (verdict == 0) verdict = random_gamma_accepts(shape, uniforms[0], uniforms[1], uniforms[2]);
    if (verdict > 0) break;
  }
  return shape < 1 ? proposal * random_gamma_boost(shape, uniforms[3]) : proposal;
}

/* -- probabilities by C. Loader, "Fast and accurate computation of binomial probabilities" (2000) ------------- */

/* What Stirling's formula leaves of log(k!), of a whole number k >= 1. */
UHAL_INLINE T random_stirling(T k) {
  if (k < 4) {
    return k < 2 ? C(0.081061466795327258220) : k < 3 ? C(0.041340695955409294094) : C(0.027677925684998339149);
  }
  const T inverse = 1 / k;
  const T square = inverse * inverse;
  return inverse * (C(0.083333333333333333333) -
                    square * (C(0.0027777777777777777778) -
                              square * (C(0.00079365079365079365079) -
                                        square * (C(0.00059523809523809523810) -
                                                  square * (C(0.00084175084175084175084) - square * C(0.0019175))))));
}

/* x log(x / mean) + mean - x. */
UHAL_INLINE T random_deviance(T x, T mean) {
  const T e = (x - mean) / mean;
  return mean * ((1 + e) * log1p(e) - e);
}

UHAL_INLINE T random_log_poisson(T k, T mean) {
  const T some = k < 1 ? C(1) : k;
  const T value = -random_stirling(some) - random_deviance(some, mean) - C(0.5) * log(C(6.283185307179586477) * some);
  const T none = k < 1 ? C(1) : C(0); /* a choice between the two would put the logarithm behind a condition */
  return (1 - none) * value - none * mean;
}

/* Of 0 < p < 1 and n > 1; q is 1 - p. */
UHAL_INLINE T random_log_binomial(T k, T n, T p, T q) {
  const T some = k < 1 ? C(1) : k > n - 1 ? n - 1 : k;
  const T value = random_stirling(n) - random_stirling(some) - random_stirling(n - some) -
                  random_deviance(some, n * p) - random_deviance(n - some, n * q) +
                  C(0.5) * log(n / (C(6.283185307179586477) * some * (n - some)));
  const T none = n * log1p(-p), all = n * log(p);
  return k == 0 ? none : k == n ? all : value;
}

/* -- counts: inversion below a mean of 10, else the transformed rejection of W. Hoermann, "The transformed rejection
 * method for generating Poisson random variables" and "The generation of binomial random variates" (1993) ---------- */

/* The verdict on an attempt for a mean of at least 10, and the number that it proposes. */
UHAL_INLINE int32 random_poisson_attempt(T mean, T first, T second, T* proposal) {
  const T b = C(0.931) + C(2.53) * sqrt(mean);
  const T a = C(-0.059) + C(0.02483) * b;
  const T surely = C(0.9277) - C(3.6224) / (b - 2);
  const T u = first - C(0.5);
  const T us = C(0.5) - fabs(u);
  const T k = floor((2 * a / us + b) * u + mean + C(0.43));
  *proposal = k < 0 ? C(0) : k;
  return us >= C(0.07) && second <= surely ? 1 : k < 0 || (us < C(0.013) && second > us) ? -1 : 0;
}

UHAL_INLINE int32 random_poisson_accepts(T mean, T first, T second, T k) {
  const T b = C(0.931) + C(2.53) * sqrt(mean);
  const T a = C(-0.059) + C(0.02483) * b;
  const T inverse_alpha = C(1.1239) + C(1.1328) / (b - C(3.4));
  const T us = C(0.5) - fabs(first - C(0.5));
  return log(second * inverse_alpha / (a / (us * us) + b)) <= random_log_poisson(k, mean) ? 1 : -1;
}

UHAL_INLINE T random_poisson(const uhal_sequence* sequence, T mean) {
  if (!(mean > 0) || mean == C(INFINITY)) return mean == 0 || mean > 0 ? mean : C(INFINITY) - C(INFINITY);
  T uniforms[4];
  T k = 0;
  if (mean < 10) {
    random_uniforms(sequence, 0, uniforms);
    T rest = uniforms[0];
    T probability = exp(-mean);
    while (rest > probability && k < 100) {
      rest -= probability;
      k += 1;
      probability *= mean / k;
    }
    return k;
  }
  for (uint32 attempt = 0; attempt <= UHAL_LAST_ATTEMPT; ++attempt) {
    random_uniforms(sequence, attempt, uniforms);
    int32 verdict = random_poisson_attempt(mean, uniforms[0], uniforms[1], &k);
    if (verdict == 0) verdict = random_poisson_accepts(mean, uniforms[0], uniforms[1], k);
    if (verdict > 0) break;
  }
  return k;
}

/* The same for n p of at least 10, p of at most 1 / 2. */
UHAL_INLINE int32 random_binomial_attempt(T n, T p, T first, T second, T* proposal) {
  const T b = C(1.15) + C(2.53) * sqrt(n * p * (1 - p));
  const T a = C(-0.0873) + C(0.0248) * b + C(0.01) * p;
  const T surely = C(0.92) - C(4.2) / b;
  const T u = first - C(0.5);
  const T us = C(0.5) - fabs(u);
  const T k = floor((2 * a / us + b) * u + n * p + C(0.5));
  *proposal = k < 0 ? C(0) : k > n ? n : k;
  return us >= C(0.07) && second <= surely ? 1 : k < 0 || k > n ? -1 : 0;
}

UHAL_INLINE int32 random_binomial_accepts(T n, T p, T first, T second, T k) {
  const T q = 1 - p;
  const T deviation = sqrt(n * p * q);
  const T b = C(1.15) + C(2.53) * deviation;
  const T a = C(-0.0873) + C(0.0248) * b + C(0.01) * p;
  const T alpha = (C(2.83) + C(5.1) / b) * deviation;
  const T us = C(0.5) - fabs(first - C(0.5));
  const T at_mode = random_log_binomial(floor((n + 1) * p), n, p, q);
  return log(second * alpha / (a / (us * us) + b)) <= random_log_binomial(k, n, p, q) - at_mode ? 1 : -1;
}

UHAL_INLINE T random_binomial(const uhal_sequence* sequence, T trials, T probability) {
  if (!(trials >= 0) || trials == C(INFINITY) || !(probability >= 0 && probability <= 1)) {
    return C(INFINITY) - C(INFINITY);
  }
  const T n = floor(trials);
  const int32 is_flipped = probability > C(0.5);
  const T p = is_flipped ? 1 - probability : probability;
  if (n == 0 || p == 0) return is_flipped ? n : C(0);
  T uniforms[4];
  T k = 0;
  if (n * p < 10) {
    random_uniforms(sequence, 0, uniforms);
    T rest = uniforms[0];
    const T odds = p / (1 - p);
    T likely = exp(n * log1p(-p));
    while (rest > likely && k < n && k < 200) {
      rest -= likely;
      k += 1;
      likely *= odds * ((n - k + 1) / k);
    }
    return is_flipped ? n - k : k;
  }
  for (uint32 attempt = 0; attempt <= UHAL_LAST_ATTEMPT; ++attempt) {
    random_uniforms(sequence, attempt, uniforms);
    int32 verdict = random_binomial_attempt(n, p, uniforms[0], uniforms[1], &k);
    if (verdict == 0) verdict = random_binomial_accepts(n, p, uniforms[0], uniforms[1], k);
    if (verdict > 0) break;
  }
  return is_flipped ? n - k : k;
}
#undef UHAL_LAST_ATTEMPT
