/* Special functions: what the last expressions of elementwise.def call. One text for all: the stub compiles it as C++
 * (stub/vector/special.h), every other backend pastes it into its kernels (csrc/kernels/source/map.cl).
 *
 * Whoever includes it has defined
 *   T             float or double; its exp(), log(), ... by their usual names
 *   C(v)          the constant v as a T
 *   UHAL_INLINE   before a function
 *   INFINITY
 *
 * Poles, infinities and what lies outside of a domain give what SciPy's functions of these names give. Errors are tens
 * of roundings relative to the result, or to the largest term of the formula that is named where its terms cancel
 * (lgamma and digamma near their zeros). What has no loop is chosen by ?: from what is cheap to have computed, so that
 * loops over it vectorize. */

/* Polynomials by Horner's rule; the terms of UHAL_WIDE_TERM matter in float64 only. */
#define UHAL_TERM(x, c) sum = sum * (x) + C(c);
#define UHAL_WIDE_TERM(x, c) \
  if (sizeof(T) > sizeof(float)) sum = sum * (x) + C(c);
#define UHAL_ROUNDOFF (sizeof(T) > sizeof(float) ? C(1.1102230246251565e-16) : C(5.9604644775390625e-8))
#define UHAL_NAN (C(INFINITY) - C(INFINITY))

/* -- the gamma function ----------------------------------------------------------------------------------- */

/* log(Gamma(2 + w)) of |w| <= 1/2: the series in Riemann's zeta function (Abramowitz and Stegun, 6.1.33). */
UHAL_INLINE T special_lgamma_near_2(T w) {
  T sum = C(0);
  UHAL_WIDE_TERM(w, 1.33047643742444894815e-10)
  UHAL_WIDE_TERM(w, -2.759522885124233145178e-10)
  UHAL_WIDE_TERM(w, 5.73136724167886201333e-10)
  UHAL_WIDE_TERM(w, -1.192140140586091207443e-9)
  UHAL_WIDE_TERM(w, 2.483674543802478317185e-9)
  UHAL_WIDE_TERM(w, -5.183475041970046655121e-9)
  UHAL_WIDE_TERM(w, 1.083865921489695409107e-8)
  UHAL_WIDE_TERM(w, -2.271109460894316491032e-8)
  UHAL_WIDE_TERM(w, 4.76981016936398056576e-8)
  UHAL_WIDE_TERM(w, -1.004322482396809960872e-7)
  UHAL_WIDE_TERM(w, 2.120718480555466586923e-7)
  UHAL_WIDE_TERM(w, -4.492469198764566043294e-7)
  UHAL_WIDE_TERM(w, 9.551412130407419832857e-7)
  UHAL_WIDE_TERM(w, -2.039215753801366236782e-6)
  UHAL_TERM(w, 4.374866789907487804182e-6)
  UHAL_TERM(w, -9.439488275268395903987e-6)
  UHAL_TERM(w, 2.050721277567069155317e-5)
  UHAL_TERM(w, -4.492623673813314170021e-5)
  UHAL_TERM(w, 9.94575127818085337146e-5)
  UHAL_TERM(w, -2.231547584535793797614e-4)
  UHAL_TERM(w, 5.096695247430424223357e-4)
  UHAL_TERM(w, -1.192753911703260977114e-3)
  UHAL_TERM(w, 2.890510330741523285753e-3)
  UHAL_TERM(w, -7.385551028673985266273e-3)
  UHAL_TERM(w, 2.0580808427784547879e-2)
  UHAL_TERM(w, -6.735230105319809513325e-2)
  UHAL_TERM(w, 3.224670334241132182362e-1)
  UHAL_TERM(w, 4.227843350984671393935e-1)
  return sum * w;
}

/* What Stirling's formula leaves of log(Gamma(x)), for x >= 8 (Abramowitz and Stegun, 6.1.41). */
UHAL_INLINE T special_stirling(T x) {
  const T inverse = 1 / x;
  const T square = inverse * inverse;
  T sum = C(0);
  UHAL_WIDE_TERM(square, -1.392432216905901116427)
  UHAL_WIDE_TERM(square, 1.796443723688305731649e-1)
  UHAL_WIDE_TERM(square, -2.955065359477124183007e-2)
  UHAL_WIDE_TERM(square, 6.41025641025641025641e-3)
  UHAL_WIDE_TERM(square, -1.917526917526917526918e-3)
  UHAL_TERM(square, 8.417508417508417508418e-4)
  UHAL_TERM(square, -5.952380952380952380952e-4)
  UHAL_TERM(square, 7.936507936507936507937e-4)
  UHAL_TERM(square, -2.777777777777777777778e-3)
  UHAL_TERM(square, 8.333333333333333333333e-2)
  return sum * inverse;
}

/* log|Gamma(x)| of x > -1/2: by Stirling's formula from 8 on, below from the number's distance to the next of 0, 1
 * and 2. */
UHAL_INLINE T special_lgamma_right(T x) {
  /* Gamma(x) = factor * Gamma(2 + w), or Gamma(2 + w) / factor below 3/2 */
  T factor = C(1);
  T w = x - 2;
  for (int step = 0; step < 6; ++step) { /* (x - 1) (x - 2) ... (2 + w) */
    factor = w >= C(0.5) ? factor * (w + 1) : factor;
    w = w >= C(0.5) ? w - 1 : w;
  }
  const int below_first = x < C(1.5);
  const int below_half = x < C(0.5);
  factor = below_half ? fabs(x) * (1 + x) : below_first ? x : factor;
  w = below_half ? x : below_first ? x - 1 : w;
  const int large = x >= 8;
  const T logarithm = log(large ? x : factor);
  const T near = special_lgamma_near_2(w);
  const T right = (x - C(0.5)) * (logarithm - 1) + C(0.41893853320467274178) + special_stirling(large ? x : C(8));
  return large ? right : below_first ? near - logarithm : near + logarithm;
}

/* log|Gamma(x)|; left of -1/2 by Euler's reflection. */
UHAL_INLINE T special_lgamma(T x) {
  const int left = x < C(-0.5);
  const T size = left ? -x : x;
  const T right = special_lgamma_right(size);
  const T sine = sin(C(3.14159265358979323846) * fabs(x - rint(x)));
  const T reflected = C(1.14472988584940017414) - log(left ? size : C(1)) - log(sine) - right;
  const T infinite = size - size; /* no number of an infinite one */
  return !left ? right : sine == 0 || infinite != infinite ? C(INFINITY) : reflected;
}

/* log(Gamma(1 + a)) of a >= 0, also where 1 + a is no number of the type. */
UHAL_INLINE T special_lgamma_1p(T a) {
  return a <= C(0.5) ? special_lgamma_near_2(a) - log1p(a) : special_lgamma_right(a + 1);
}

/* log(x) - digamma(x) of x >= 10 (Abramowitz and Stegun, 6.3.18) */
UHAL_INLINE T special_log_less_digamma(T x) {
  const T inverse = 1 / x;
  const T square = inverse * inverse;
  T sum = C(0);
  UHAL_WIDE_TERM(square, 3.053954330270119743804)
  UHAL_WIDE_TERM(square, -4.43259803921568627451e-1)
  UHAL_WIDE_TERM(square, 8.333333333333333333333e-2)
  UHAL_WIDE_TERM(square, -2.109279609279609279609e-2)
  UHAL_WIDE_TERM(square, 7.575757575757575757576e-3)
  UHAL_TERM(square, -4.166666666666666666667e-3)
  UHAL_TERM(square, 3.968253968253968253968e-3)
  UHAL_TERM(square, -8.333333333333333333333e-3)
  UHAL_TERM(square, 8.333333333333333333333e-2)
  return sum * square + C(0.5) * inverse;
}

/* The derivative of lgamma: by the recurrence up to 10, left of 0 by reflection. A pole at 0 has the sign of -1 / x,
 * those at the negative whole numbers have none. */
UHAL_INLINE T special_digamma(T x) {
  const int left = x <= 0;
  T shifted = left ? 1 - x : x;
  T sum = C(0);
  for (int step = 0; step < 5; ++step) { /* two reciprocals at once */
    const T next = shifted + 1;
    const T pair = (shifted + next) / (shifted * next);
    sum = shifted < 9 ? sum + pair : sum;
    shifted = shifted < 9 ? shifted + 2 : shifted;
  }
  const T last = 1 / shifted;
  sum = shifted < 10 ? sum + last : sum;
  shifted = shifted < 10 ? shifted + 1 : shifted;
  const T right = log(shifted) - special_log_less_digamma(shifted) - sum;
  const T distance = x - rint(x);
  const T reflected = right - C(3.14159265358979323846) / tan(C(3.14159265358979323846) * distance);
  return !left ? right : x == 0 ? copysign(C(INFINITY), -x) : distance == 0 ? UHAL_NAN : reflected;
}

/* -- Hurwitz' zeta function and what follows from it ------------------------------------------------------ */

/* The sum of (q + k)^-s over k >= 0 for s > 1 and q > 0: terms until one no longer counts or its base is above 10 + s /
 * 2, and then the rest by Euler and Maclaurin (Johansson, Rigorous high-precision computation of the Hurwitz zeta
 * function and its derivatives, 2015, equation 5). */
UHAL_INLINE T special_zeta_right(T s, T q) {
  T total = C(0);
  T a = q;
  while (a < 10 + s / 2) {
    const T term = pow(a, -s);
    total += term;
    if (term * (1 + a / (s - 1)) <= UHAL_ROUNDOFF * total) return total;
    a += 1;
  }
  // a^-s would be 0 while the sum is not: a^(1 - s), which is as large as what is left, stands in its place.
  const T power = pow(a, 1 - s);
  if (!(power > 0)) return total + power;
  const T square = 1 / (a * a);
  T sum = C(0);
#define UHAL_STEP(j, c) sum = C(c) + sum * ((s + C(2 * (j) - 1)) * (s + C(2 * (j))) * square);
  if (sizeof(T) > sizeof(float)) {
    UHAL_STEP(12, -1.395446468581252334071e-19)
    UHAL_STEP(11, 5.509002828360229515203e-18)
    UHAL_STEP(10, -2.174868698558061873042e-16)
    UHAL_STEP(9, 8.586062056277844564136e-15)
    UHAL_STEP(8, -3.38968029632258286683e-13)
  }
  UHAL_STEP(7, 1.338253653068467883283e-11)
  UHAL_STEP(6, -5.284190138687493184848e-10)
  UHAL_STEP(5, 2.087675698786809897921e-8)
  UHAL_STEP(4, -8.267195767195767195767e-7)
  UHAL_STEP(3, 3.306878306878306878307e-5)
  UHAL_STEP(2, -1.388888888888888888889e-3)
  UHAL_STEP(1, 8.333333333333333333333e-2)
#undef UHAL_STEP
  return total + power * (1 / (s - 1) + (C(0.5) + sum * s / a) / a);
}

/* The sum of (q + k)^-s over k >= 0. Left of 0 for whole s only, as a sum to either side of 0. */
UHAL_INLINE T special_zeta(T s, T q) {
  if (s != s || q != q) return s + q;
  if (s == 1) return C(INFINITY);
  if (s < 1) return UHAL_NAN;
  if (q > 0) return special_zeta_right(s, q);
  const T below = floor(q);
  if (below == q) return C(INFINITY);
  if (floor(s) != s) return UHAL_NAN;
  const T left = special_zeta_right(s, below + 1 - q) - special_zeta_right(s, 1 - q);
  return special_zeta_right(s, q - below) + (fmod(s, C(2)) != 0 ? -left : left);
}

/* The derivative of order n of digamma, for whole n >= 0 whose factorial is a number of the type (to 34 or 170). */
UHAL_INLINE T special_polygamma(T n, T x) {
  if (n != n || x != x) return n + x;
  if (n < 0 || floor(n) != n) return UHAL_NAN;
  if (n == 0) return special_digamma(x);
  T factorial = C(1);
  for (T k = C(2); k <= n && k <= 171; k += 1) factorial *= k;
  if (factorial - factorial != 0) return UHAL_NAN;
  const T size = factorial * special_zeta(n + 1, x);
  return fmod(n, C(2)) != 0 ? size : -size;
}

/* -- the incomplete gamma functions ----------------------------------------------------------------------- */

/* d - log(1 + d) of |d| <= 0.3, by the series of the area tangent of z = d / (2 + d) (Loader, Fast and accurate
 * computation of binomial probabilities, 2000). */
UHAL_INLINE T special_less_log1p_near_0(T d) {
  const T z = d / (2 + d);
  const T square = z * z;
  T sum = C(0);
  UHAL_WIDE_TERM(square, 1.0 / 23)
  UHAL_WIDE_TERM(square, 1.0 / 21)
  UHAL_WIDE_TERM(square, 1.0 / 19)
  UHAL_WIDE_TERM(square, 1.0 / 17)
  UHAL_WIDE_TERM(square, 1.0 / 15)
  UHAL_WIDE_TERM(square, 1.0 / 13)
  UHAL_TERM(square, 1.0 / 11)
  UHAL_TERM(square, 1.0 / 9)
  UHAL_TERM(square, 1.0 / 7)
  UHAL_TERM(square, 1.0 / 5)
  UHAL_TERM(square, 1.0 / 3)
  return z * (d - 2 * square * sum);
}
UHAL_INLINE T special_less_log1p(T d) { return fabs(d) <= C(0.3) ? special_less_log1p_near_0(d) : d - log1p(d); }

/* x^a exp(-x) / Gamma(1 + a) of a >= 0, x > 0, without the cancellation of large exponents. */
UHAL_INLINE T special_gamma_density(T a, T x) {
  if (a < 10) return exp(a * log(x) - x - special_lgamma_1p(a));
  const T d = (x - a) / a;
  const T exponent = fabs(d) <= C(0.3) ? -a * special_less_log1p_near_0(d) : a * log(x / a) - (x - a);
  return exp(exponent - special_stirling(a)) / sqrt(C(6.28318530717958647693) * a);
}

/* What the three functions below are made of, for a > 0 and x > 0, both finite. Gives the lower one, P(a, x), in
 * total[0], the upper one, 1 - P, in total[1], and in total[2] the derivative of a gamma(a) distributed number by a,
 * where it is x: that is
 * -(dP/da) / (dP/dx) (Figurnov, Mohamed and Mnih, Implicit reparameterization gradients, 2018).
 *   a >= 100 and x near it: Gauss' quadrature of the smaller one's integral (Press et al., Numerical Recipes, 3rd
 * ed., 6.2.2) x < a or x <= 1.1: the power series of P; the upper one for small a as DiDonato and Morris (ACM TOMS 12,
 * 1986) else: the continued fraction of 1 - P (Abramowitz and Stegun, 6.5.31) by Lentz' method Derivatives are those of
 * the series and of the fraction, term by term. */
UHAL_INLINE void special_igamma_parts(T a, T x, T total[3]) {
  const T density = special_gamma_density(a, x);
  if (a >= 100 && fabs(x - a) <= C(0.3) * a) {
    const T mode = a - 1;
    const int upper = x > mode;
    const T begin = (x - mode) / mode; /* all in units of the mode, from there */
    const T height = special_less_log1p(begin);
    const T depth = -log(UHAL_ROUNDOFF) / mode;
    T end = sqrt(begin * begin + 2 * depth); /* of a normal distribution; then of this one, by Newton's method */
    end = upper ? end : fmax(-end, C(-0.99));
    for (int step = 0; step < 3; ++step) {
      end -= (special_less_log1p(end) - height - depth) * (1 + end) / end;
      end = fmax(end, C(-0.9999));
    }
    const T length = end - begin;
    const T correction = special_log_less_digamma(a) + log1p(-1 / a); /* log(mode) - digamma(a) */
    T integral = C(0);
    T slope = C(0);
    /* Of one half; the other one is its mirror image. A loop, since compilers would take long over 28 copies of its
     * body. */
    const T nodes[14] = {C(0.0017787512130227750248), C(0.0093484173145636231527), C(0.022870359685530901373),
                         C(0.042183486803933963065),  C(0.067053738712802475529),  C(0.097179314541410414276),
                         C(0.13219456099318411399),   C(0.17167445298056751939),   C(0.21513976409429914035),
                         C(0.26206288752244086948),   C(0.31187424195546064489),   C(0.36396918618241096116),
                         C(0.41771535893330961436),   C(0.47246035505798286479)};
    const T weights[14] = {C(0.0045621412965472588694), C(0.010566056296385629876), C(0.016450713891152189989),
                           C(0.02213646737950211392),   C(0.027553672837858372716), C(0.032636461983499797897),
                           C(0.037323107117284389512),  C(0.041556708614450609195), C(0.045285872196516420471),
                           C(0.048465328998964957925),  C(0.051056483789030384907), C(0.053027882961423208955),
                           C(0.054355596129147067627),  C(0.055023506508237598141)};
    for (int i = 0; i < 28; ++i) {
      const T node = i < 14 ? nodes[i] : 1 - nodes[27 - i];
      const T d = begin + length * node;
      const T value = weights[i < 14 ? i : 27 - i] * exp(-mode * (special_less_log1p(d) - height));
      integral += value;
      slope += value * (log1p(d) + correction);
    }
    const T part = fabs(integral * length) * mode * density * (a / x);
    total[0] = upper ? 1 - part : part;
    total[1] = upper ? part : 1 - part;
    total[2] = slope * length * mode;
    return;
  }
  if (x < a || x <= C(1.1)) {
    T sum = C(1);
    T term = C(1);
    T slope = C(0); /* of sum, by a */
    T term_slope = C(0);
    T divisor = a;
    for (int step = 0; step < 500; ++step) {
      divisor += 1;
      const T factor = x / divisor;
      term_slope = (term_slope - term / divisor) * factor;
      term *= factor;
      sum += term;
      slope += term_slope;
      if (term <= UHAL_ROUNDOFF * sum && fabs(term_slope) <= UHAL_ROUNDOFF * fabs(slope)) break;
    }
    total[0] = density * sum;
    total[1] = 1 - total[0];
    total[2] = -(sum * (log(x) - special_digamma(a + 1)) + slope) * x / a;
    if (x <= C(1.1) && (x <= C(0.5) ? a <= C(-0.4) / log(x) : a <= C(1.1) * x)) {
      T rest = C(0);
      T factor = C(1);
      for (int n = 1; n < 100; ++n) {
        factor *= -x / n;
        const T change = factor / (a + n);
        rest += change;
        if (fabs(change) <= UHAL_ROUNDOFF * fabs(rest)) break;
      }
      const T exponent = a * log(x) - special_lgamma_1p(a);
      total[1] = -expm1(exponent) - exp(exponent) * a * rest;
    }
    return;
  }
  T b = x + 1 - a;
  T c = C(0); /* 1 / c of the textbook: begins at infinity */
  T c_slope = C(0);
  T d = 1 / b;
  T d_slope = d * d;
  T fraction = d;
  T slope = d; /* of the fraction's logarithm, by a */
  for (int n = 1; n < 500; ++n) {
    const T numerator = n * (a - n);
    b += 2;
    const T next = b + numerator * d;
    const T next_slope = n * d + numerator * d_slope - 1;
    const T after = b + numerator * c;
    const T after_slope = n * c + numerator * c_slope - 1;
    d = 1 / next;
    d_slope = -next_slope * d * d;
    c = 1 / after;
    c_slope = -after_slope * c * c;
    const T change = after * d;
    const T slope_change = after_slope * c - next_slope * d;
    fraction *= change;
    slope += slope_change;
    if (fabs(change - 1) <= UHAL_ROUNDOFF && fabs(slope_change) <= UHAL_ROUNDOFF * fabs(slope)) break;
  }
  total[1] = density * a * fraction;
  total[0] = 1 - total[1];
  total[2] = x * fraction * (log(x) - special_digamma(a) + slope);
}

/* Whether a and x have an answer that needs no computation; `low` is that of P(a, x). */
UHAL_INLINE int special_igamma_edge(T a, T x, T* low) {
  *low = UHAL_NAN;
  if (!(a >= 0 && x >= 0) || (a == 0 && x == 0)) return 1;
  if (a - a != 0) {
    *low = x - x != 0 ? UHAL_NAN : C(0);
    return 1;
  }
  *low = x == 0 ? C(0) : C(1);
  return a == 0 || x == 0 || x - x != 0;
}

/* P(a, x), the integral of t^(a - 1) exp(-t) from 0 to x over Gamma(a), and 1 - P(a, x). */
UHAL_INLINE T special_igamma(T a, T x) {
  T parts[3];
  return special_igamma_edge(a, x, parts) ? parts[0] : (special_igamma_parts(a, x, parts), parts[0]);
}
UHAL_INLINE T special_igammac(T a, T x) {
  T parts[3];
  return special_igamma_edge(a, x, parts) ? 1 - parts[0] : (special_igamma_parts(a, x, parts), parts[1]);
}

/* dP(a, x)/dx, the density of the gamma distribution */
UHAL_INLINE T special_igamma_slope(T a, T x) {
  T low;
  if (!special_igamma_edge(a, x, &low)) return special_gamma_density(a, x) * (a / x);
  return low != low ? low : x != 0 || a > 1 ? C(0) : a == 1 ? C(1) : C(INFINITY);
}

/* The derivative of a gamma(a) distributed number x by a. */
UHAL_INLINE T special_gamma_sample_slope(T a, T x) {
  T parts[3];
  if (special_igamma_edge(a, x, parts)) return parts[0] != parts[0] ? parts[0] : C(0);
  special_igamma_parts(a, x, parts);
  return parts[2];
}

/* dP(a, x)/da */
UHAL_INLINE T special_igamma_slope_a(T a, T x) {
  T parts[3];
  if (special_igamma_edge(a, x, parts)) return parts[0] != parts[0] ? parts[0] : C(0);
  special_igamma_parts(a, x, parts);
  return -parts[2] * special_gamma_density(a, x) * (a / x);
}

/* -- modified Bessel functions of the first kind ---------------------------------------------------------- */

/* The power series in the square of half of x, |x| < 20 in float64 and < 9 in float32, of I0(x) and of 2 I1(x) / x
 * (Abramowitz and Stegun, 9.6.10), and the expansion for the larger ones of exp(-|x|) I(x) sqrt(2 pi |x|) (9.7.1),
 * whose best error there, exp(-2 |x|), is below a rounding. Both by Horner's rule: each factor is that between two
 * terms. */
#define UHAL_BESSEL_LIMIT (sizeof(T) > sizeof(float) ? C(20) : C(9))
#define UHAL_EACH_10(S, k) S(k + 9) S(k + 8) S(k + 7) S(k + 6) S(k + 5) S(k + 4) S(k + 3) S(k + 2) S(k + 1) S(k)
UHAL_INLINE T special_bessel_series(T square, int order) {
  T sum = C(1);
  if (order == 0) {
#define UHAL_STEP(k) sum = 1 + sum * square * C(1.0 / ((k) * (k)));
    if (sizeof(T) > sizeof(float)) {
      UHAL_EACH_10(UHAL_STEP, 41)
      UHAL_EACH_10(UHAL_STEP, 31)
      UHAL_EACH_10(UHAL_STEP, 21)
    }
    UHAL_EACH_10(UHAL_STEP, 11)
    UHAL_EACH_10(UHAL_STEP, 1)
#undef UHAL_STEP
  } else {
#define UHAL_STEP(k) sum = 1 + sum * square * C(1.0 / ((k) * ((k) + 1)));
    if (sizeof(T) > sizeof(float)) {
      UHAL_EACH_10(UHAL_STEP, 41)
      UHAL_EACH_10(UHAL_STEP, 31)
      UHAL_EACH_10(UHAL_STEP, 21)
    }
    UHAL_EACH_10(UHAL_STEP, 11)
    UHAL_EACH_10(UHAL_STEP, 1)
#undef UHAL_STEP
  }
  return sum;
}
UHAL_INLINE T special_bessel_expansion(T size, int order) {
  const T eighth = C(0.125) / size;
  const T index = order == 0 ? C(0) : C(4);
  T sum = C(1);
#define UHAL_STEP(k) sum = 1 + sum * eighth * ((C((2 * (k) - 1) * (2 * (k) - 1)) - index) * C(1.0 / (k)));
  if (sizeof(T) > sizeof(float)) {
    UHAL_EACH_10(UHAL_STEP, 20)
    UHAL_STEP(19) UHAL_STEP(18) UHAL_STEP(17) UHAL_STEP(16) UHAL_STEP(15)
  }
  UHAL_STEP(14)
  UHAL_STEP(13)
  UHAL_STEP(12)
  UHAL_STEP(11)
  UHAL_EACH_10(UHAL_STEP, 1)
#undef UHAL_STEP
  return sum;
}

/* exp(-|x|) I(x), and I(x), whose exponential is split: it overflows before I does. */
UHAL_INLINE T special_bessel_scaled(T x, int order) {
  const T size = fabs(x);
  const int large = size >= UHAL_BESSEL_LIMIT;
  const T inside = large ? C(1) : size;
  const T series = special_bessel_series(C(0.25) * inside * inside, order) * (order == 0 ? C(1) : C(0.5) * inside);
  const T outside = large ? size : UHAL_BESSEL_LIMIT;
  const T expansion = special_bessel_expansion(outside, order) * C(0.39894228040143267794) / sqrt(outside);
  const T result = large ? expansion : series * exp(-inside);
  return order != 0 && x < 0 ? -result : x == x ? result : x;
}
UHAL_INLINE T special_bessel(T x, int order) {
  const T size = fabs(x);
  const int large = size >= UHAL_BESSEL_LIMIT;
  const T inside = large ? C(1) : size;
  const T series = special_bessel_series(C(0.25) * inside * inside, order) * (order == 0 ? C(1) : C(0.5) * inside);
  const T outside = large ? size : UHAL_BESSEL_LIMIT;
  const T root = exp(C(0.5) * outside);
  const T expansion =
      root * (special_bessel_expansion(outside, order) * C(0.39894228040143267794) / sqrt(outside)) * root;
  const T result = large ? (size - size == 0 ? expansion : size) : series;
  return order != 0 && x < 0 ? -result : x == x ? result : x;
}

/* I1(x) / x, and exp(-|x|) I1(x) / x: 1/2 at 0 */
UHAL_INLINE T special_bessel_ratio(T x) {
  return fabs(x) < C(1e-8) ? C(0.5) : special_bessel(x, 1) / x;  // half of the least numbers is rounded to 0
}
UHAL_INLINE T special_bessel_scaled_ratio(T x) {
  return fabs(x) < C(1e-8) ? C(0.5) - C(0.5) * fabs(x) : special_bessel_scaled(x, 1) / x;
}

/* -- inverses of the error function ----------------------------------------------------------------------- */

/* The quantile of the normal distribution at 1/2 + q, of which `tail` is the smaller one of 1/2 + q and 1/2 - q: one
 * quotient of polynomials for each of three ranges (Wichura, Algorithm AS 241, Applied Statistics 37, 1988, PPND16). */
UHAL_INLINE T special_normal_quantile(T q, T tail) {
  const int center = fabs(q) <= C(0.425);
  const T root = sqrt(-log(center ? C(0.25) : tail));
  const int far = root > 5;
  const T r = center ? C(0.180625) - q * q : far ? root - 5 : root - C(1.6);
  T numerator = C(0);
  T denominator = C(0);
#define UHAL_PART(sum, of_center, of_near, of_far) \
  sum = sum * r + (center ? C(of_center) : far ? C(of_far) : C(of_near));
  UHAL_PART(numerator, 2.5090809287301226727e+3, 7.74545014278341407640e-4, 2.01033439929228813265e-7)
  UHAL_PART(numerator, 3.3430575583588128105e+4, 2.27238449892691845833e-2, 2.71155556874348757815e-5)
  UHAL_PART(numerator, 6.7265770927008700853e+4, 2.41780725177450611770e-1, 1.24266094738807843860e-3)
  UHAL_PART(numerator, 4.5921953931549871457e+4, 1.27045825245236838258e+0, 2.65321895265761230930e-2)
  UHAL_PART(numerator, 1.3731693765509461125e+4, 3.64784832476320460504e+0, 2.96560571828504891230e-1)
  UHAL_PART(numerator, 1.9715909503065514427e+3, 5.76949722146069140550e+0, 1.78482653991729133580e+0)
  UHAL_PART(numerator, 1.3314166789178437745e+2, 4.63033784615654529590e+0, 5.46378491116411436990e+0)
  UHAL_PART(numerator, 3.3871328727963666080e+0, 1.42343711074968357734e+0, 6.65790464350110377720e+0)
  UHAL_PART(denominator, 5.2264952788528545610e+3, 1.05075007164441684324e-9, 2.04426310338993978564e-15)
  UHAL_PART(denominator, 2.8729085735721942674e+4, 5.47593808499534494600e-4, 1.42151175831644588870e-7)
  UHAL_PART(denominator, 3.9307895800092710610e+4, 1.51986665636164571966e-2, 1.84631831751005468180e-5)
  UHAL_PART(denominator, 2.1213794301586595867e+4, 1.48103976427480074590e-1, 7.86869131145613259100e-4)
  UHAL_PART(denominator, 5.3941960214247511077e+3, 6.89767334985100004550e-1, 1.48753612908506148525e-2)
  UHAL_PART(denominator, 6.8718700749205790830e+2, 1.67638483018380384940e+0, 1.36929880922735805310e-1)
  UHAL_PART(denominator, 4.2313330701600911252e+1, 2.05319162663775882187e+0, 5.99832206555887937690e-1)
  UHAL_PART(denominator, 1.0, 1.0, 1.0)
#undef UHAL_PART
  const T quotient = numerator / denominator;
  return center ? q * quotient : copysign(quotient, q);
}

UHAL_INLINE T special_erfinv(T x) {
  const T size = fabs(x);
  const T inside = size < 1 ? x : C(0);
  const T inner = C(0.70710678118654752440) * special_normal_quantile(C(0.5) * inside, C(0.5) * (1 - fabs(inside)));
  return size < 1 ? inner : size == 1 ? copysign(C(INFINITY), x) : UHAL_NAN;
}

UHAL_INLINE T special_ndtri(T p) {
  const int inside = p > 0 && p < 1;
  const T inner = special_normal_quantile(inside ? p - C(0.5) : C(0), inside ? (p < C(0.5) ? p : 1 - p) : C(0.5));
  return inside ? inner : p == 0 ? -C(INFINITY) : p == 1 ? C(INFINITY) : UHAL_NAN;
}

/* -- numbers as they are stored --------------------------------------------------------------------------- */

/* x * 2^n of a whole number n, rounded once */
UHAL_INLINE T special_ldexp(T x, T n) {
  return n != n ? n : ldexp(x, (int)(n < -5000 ? C(-5000) : n > 5000 ? C(5000) : n));
}

#undef UHAL_TERM
#undef UHAL_WIDE_TERM
#undef UHAL_ROUNDOFF
#undef UHAL_NAN
#undef UHAL_BESSEL_LIMIT
#undef UHAL_EACH_10
