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
/* Sums of Chebyshev's polynomials of t in [-1, 1] by Clenshaw's recurrence, the last term first: t * first - second +
 * the term of order 0. */
#define UHAL_CHEBYSHEV(t, c)                        \
  {                                                 \
    const T next = 2 * (t) * first - second + C(c); \
    second = first;                                 \
    first = next;                                   \
  }
#define UHAL_WIDE_CHEBYSHEV(t, c) \
  if (sizeof(T) > sizeof(float)) UHAL_CHEBYSHEV(t, c)
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
 * the series and of the fraction, term by term; without `slopes`, a constant, total[2] is not written. */
UHAL_INLINE void special_igamma_parts(T a, T x, int slopes, T total[3]) {
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
      if (slopes) slope += value * (log1p(d) + correction);
    }
    const T part = fabs(integral * length) * mode * density * (a / x);
    total[0] = upper ? 1 - part : part;
    total[1] = upper ? part : 1 - part;
    if (slopes) total[2] = slope * length * mode;
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
      if (slopes) term_slope = (term_slope - term / divisor) * factor;
      term *= factor;
      sum += term;
      slope += term_slope;
      if (term <= UHAL_ROUNDOFF * sum && (!slopes || fabs(term_slope) <= UHAL_ROUNDOFF * fabs(slope))) break;
    }
    total[0] = density * sum;
    total[1] = 1 - total[0];
    if (slopes) total[2] = -(sum * (log(x) - special_digamma(a + 1)) + slope) * x / a;
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
    const T after = b + numerator * c;
    T next_slope = C(0);
    T after_slope = C(0);
    T slope_change = C(0);
    if (slopes) {
      next_slope = n * d + numerator * d_slope - 1;
      after_slope = n * c + numerator * c_slope - 1;
    }
    d = 1 / next;
    c = 1 / after;
    const T change = after * d;
    fraction *= change;
    if (slopes) {
      d_slope = -next_slope * d * d;
      c_slope = -after_slope * c * c;
      slope_change = after_slope * c - next_slope * d;
      slope += slope_change;
    }
    if (fabs(change - 1) <= UHAL_ROUNDOFF && (!slopes || fabs(slope_change) <= UHAL_ROUNDOFF * fabs(slope))) break;
  }
  total[1] = density * a * fraction;
  total[0] = 1 - total[1];
  if (slopes) total[2] = x * fraction * (log(x) - special_digamma(a) + slope);
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
  return special_igamma_edge(a, x, parts) ? parts[0] : (special_igamma_parts(a, x, 0, parts), parts[0]);
}
UHAL_INLINE T special_igammac(T a, T x) {
  T parts[3];
  return special_igamma_edge(a, x, parts) ? 1 - parts[0] : (special_igamma_parts(a, x, 0, parts), parts[1]);
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
  special_igamma_parts(a, x, 1, parts);
  return parts[2];
}

/* dP(a, x)/da */
UHAL_INLINE T special_igamma_slope_a(T a, T x) {
  T parts[3];
  if (special_igamma_edge(a, x, parts)) return parts[0] != parts[0] ? parts[0] : C(0);
  special_igamma_parts(a, x, 1, parts);
  return -parts[2] * special_gamma_density(a, x) * (a / x);
}

/* -- modified Bessel functions of the first kind ---------------------------------------------------------- */

/* The power series in the square of half of x, |x| < 20 in float64 and < 9 in float32, of I0(x) and of 2 I1(x) / x
 * (Abramowitz and Stegun, 9.6.10), and the expansion for the larger ones of exp(-|x|) I(x) sqrt(2 pi |x|) (9.7.1),
 * whose best error there, exp(-2 |x|), is below a rounding. Both by Horner's rule: in float64 each factor is that
 * between two terms, in float32, where there are few, the coefficients are written down: a multiplication less for
 * each. */
#define UHAL_BESSEL_LIMIT (sizeof(T) > sizeof(float) ? C(20) : C(9))
#define UHAL_EACH_10(S, k) S(k + 9) S(k + 8) S(k + 7) S(k + 6) S(k + 5) S(k + 4) S(k + 3) S(k + 2) S(k + 1) S(k)
UHAL_INLINE T special_bessel_series(T square, int order) {
  T sum = C(sizeof(T) > sizeof(float) ? 1 : 0);
  if (sizeof(T) > sizeof(float) && order == 0) {
#define UHAL_STEP(k) sum = 1 + sum * square * C(1.0 / ((k) * (k)));
    UHAL_EACH_10(UHAL_STEP, 41)
    UHAL_EACH_10(UHAL_STEP, 31)
    UHAL_EACH_10(UHAL_STEP, 21)
    UHAL_EACH_10(UHAL_STEP, 11)
    UHAL_EACH_10(UHAL_STEP, 1)
#undef UHAL_STEP
  } else if (sizeof(T) > sizeof(float)) {
#define UHAL_STEP(k) sum = 1 + sum * square * C(1.0 / ((k) * ((k) + 1)));
    UHAL_EACH_10(UHAL_STEP, 41)
    UHAL_EACH_10(UHAL_STEP, 31)
    UHAL_EACH_10(UHAL_STEP, 21)
    UHAL_EACH_10(UHAL_STEP, 11)
    UHAL_EACH_10(UHAL_STEP, 1)
#undef UHAL_STEP
  } else if (order == 0) {
    UHAL_TERM(square, 2.28434035708048367e-27)
    UHAL_TERM(square, 5.84791131412603820e-25)
    UHAL_TERM(square, 1.31578004567835860e-22)
    UHAL_TERM(square, 2.57892888952958285e-20)
    UHAL_TERM(square, 4.35838982330499501e-18)
    UHAL_TERM(square, 6.27608134555919281e-16)
    UHAL_TERM(square, 7.59405842812662331e-14)
    UHAL_TERM(square, 7.59405842812662331e-12)
    UHAL_TERM(square, 6.15118732678256488e-10)
    UHAL_TERM(square, 3.93675988914084152e-8)
    UHAL_TERM(square, 1.92901234567901235e-6)
    UHAL_TERM(square, 6.94444444444444444e-5)
    UHAL_TERM(square, 1.73611111111111111e-3)
    UHAL_TERM(square, 2.77777777777777778e-2)
    UHAL_TERM(square, 2.50000000000000000e-1)
    UHAL_TERM(square, 1.0)
    UHAL_TERM(square, 1.0)
  } else {
    UHAL_TERM(square, 1.34372962181204922e-28)
    UHAL_TERM(square, 3.65494457132877388e-26)
    UHAL_TERM(square, 8.77186697118905730e-24)
    UHAL_TERM(square, 1.84209206394970203e-21)
    UHAL_TERM(square, 3.35260755638845770e-19)
    UHAL_TERM(square, 5.23006778796599401e-17)
    UHAL_TERM(square, 6.90368948011511210e-15)
    UHAL_TERM(square, 7.59405842812662331e-13)
    UHAL_TERM(square, 6.83465258531396098e-11)
    UHAL_TERM(square, 4.92094986142605190e-9)
    UHAL_TERM(square, 2.75573192239858907e-7)
    UHAL_TERM(square, 1.15740740740740741e-5)
    UHAL_TERM(square, 3.47222222222222222e-4)
    UHAL_TERM(square, 6.94444444444444444e-3)
    UHAL_TERM(square, 8.33333333333333333e-2)
    UHAL_TERM(square, 5.00000000000000000e-1)
    UHAL_TERM(square, 1.0)
  }
  return sum;
}
UHAL_INLINE T special_bessel_expansion(T size, int order) {
  const T inverse = 1 / size;
  T sum = C(sizeof(T) > sizeof(float) ? 1 : 0);
  if (sizeof(T) > sizeof(float)) {
    const T eighth = C(0.125) * inverse;
    const T index = order == 0 ? C(0) : C(4);
#define UHAL_STEP(k) sum = 1 + sum * eighth * ((C((2 * (k) - 1) * (2 * (k) - 1)) - index) * C(1.0 / (k)));
    UHAL_EACH_10(UHAL_STEP, 20)
    UHAL_STEP(19)
    UHAL_STEP(18)
    UHAL_STEP(17)
    UHAL_STEP(16)
    UHAL_STEP(15)
    UHAL_STEP(14)
    UHAL_STEP(13)
    UHAL_STEP(12)
    UHAL_STEP(11)
    UHAL_EACH_10(UHAL_STEP, 1)
#undef UHAL_STEP
  } else if (order == 0) {
    UHAL_TERM(inverse, 1.18838426256783253e5)
    UHAL_TERM(inverse, 1.82577554742931747e4)
    UHAL_TERM(inverse, 3.03809051092238427e3)
    UHAL_TERM(inverse, 5.51335896122020586e2)
    UHAL_TERM(inverse, 1.10017140269246738e2)
    UHAL_TERM(inverse, 2.43805296995560639e1)
    UHAL_TERM(inverse, 6.07404200127348304)
    UHAL_TERM(inverse, 1.72772750258445740)
    UHAL_TERM(inverse, 5.72501420974731445e-1)
    UHAL_TERM(inverse, 2.27108001708984375e-1)
    UHAL_TERM(inverse, 1.12152099609375000e-1)
    UHAL_TERM(inverse, 7.32421875000000000e-2)
    UHAL_TERM(inverse, 7.03125000000000000e-2)
    UHAL_TERM(inverse, 1.25000000000000000e-1)
    UHAL_TERM(inverse, 1.0)
  } else {
    UHAL_TERM(inverse, -1.27641272646174605e5)
    UHAL_TERM(inverse, -1.97183759122366287e4)
    UHAL_TERM(inverse, -3.30227229448085247e3)
    UHAL_TERM(inverse, -6.03844076705070165e2)
    UHAL_TERM(inverse, -1.21597891876535869e2)
    UHAL_TERM(inverse, -2.72488273112685420e1)
    UHAL_TERM(inverse, -6.88391426810994744)
    UHAL_TERM(inverse, -1.99353173375129700)
    UHAL_TERM(inverse, -6.76592588424682617e-1)
    UHAL_TERM(inverse, -2.77576446533203125e-1)
    UHAL_TERM(inverse, -1.44195556640625000e-1)
    UHAL_TERM(inverse, -1.02539062500000000e-1)
    UHAL_TERM(inverse, -1.17187500000000000e-1)
    UHAL_TERM(inverse, -3.75000000000000000e-1)
    UHAL_TERM(inverse, 1.0)
  }
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
 * quotient of polynomials for each of three ranges (Wichura, Algorithm AS 241, Applied Statistics 37, 1988, PPND16 in
 * float64 and PPND7 in float32). */
UHAL_INLINE T special_normal_quantile(T q, T tail) {
  const int center = fabs(q) <= C(0.425);
  const T root = sqrt(-log(center ? C(0.25) : tail));
  const int far = root > 5;
  const T r = center ? C(0.180625) - q * q : far ? root - 5 : root - C(1.6);
  T numerator = C(0);
  T denominator = C(0);
#define UHAL_PART(sum, of_center, of_near, of_far) \
  sum = sum * r + (center ? C(of_center) : far ? C(of_far) : C(of_near));
  if (sizeof(T) > sizeof(float)) {
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
  } else {
    UHAL_PART(numerator, 5.9109374720e+1, 1.7023821103e-1, 1.7337203997e-2)
    UHAL_PART(numerator, 1.5929113202e+2, 1.3067284816e+0, 4.2868294337e-1)
    UHAL_PART(numerator, 5.0434271938e+1, 2.7568153900e+0, 3.0812263860e+0)
    UHAL_PART(numerator, 3.3871327179e+0, 1.4234372777e+0, 6.6579051150e+0)
    UHAL_PART(denominator, 6.7187563600e+1, 0.0, 0.0)
    UHAL_PART(denominator, 7.8757757664e+1, 1.2021132975e-1, 1.2258202635e-2)
    UHAL_PART(denominator, 1.7895169469e+1, 7.3700164250e-1, 2.4197894225e-1)
    UHAL_PART(denominator, 1.0, 1.0, 1.0)
  }
#undef UHAL_PART
  const T quotient = numerator / denominator;
  return center ? q * quotient : copysign(quotient, q);
}

/* In float32 x times a polynomial of w = -log(1 - x^2), the variable in which erfinv(x) / x bends little (Giles,
 * Approximating the erfinv function, GPU Computing Gems, 2010), fitted for this file up to w = 16, where float32 ends:
 * of w / 8 - 5 / 8, around which rounding costs least. */
UHAL_INLINE T special_erfinv(T x) {
  const T size = fabs(x);
  const T inside = size < 1 ? x : C(0);
  T inner = C(0);
  if (sizeof(T) > sizeof(float)) {
    inner = C(0.70710678118654752440) * special_normal_quantile(C(0.5) * inside, C(0.5) * (1 - fabs(inside)));
  } else {
    const T t = C(-0.125) * log((1 - inside) * (1 + inside)) - C(0.625);
    T sum = C(0.007192485322);
    UHAL_TERM(t, -0.0466378147)
    UHAL_TERM(t, 0.1144707137)
    UHAL_TERM(t, -0.1054539667)
    UHAL_TERM(t, -0.06560524248)
    UHAL_TERM(t, 0.2554566112)
    UHAL_TERM(t, -0.2326944961)
    UHAL_TERM(t, -0.00674273211)
    UHAL_TERM(t, 0.2591796046)
    UHAL_TERM(t, -0.3446749887)
    UHAL_TERM(t, 0.2158712104)
    UHAL_TERM(t, 0.06699411926)
    UHAL_TERM(t, -0.4649369028)
    UHAL_TERM(t, 1.709617821)
    UHAL_TERM(t, 2.079812728)
    inner = inside * sum;
  }
  return size < 1 ? inner : size == 1 ? copysign(C(INFINITY), x) : UHAL_NAN;
}

UHAL_INLINE T special_ndtri(T p) {
  const int inside = p > 0 && p < 1;
  const T inner = special_normal_quantile(inside ? p - C(0.5) : C(0), inside ? (p < C(0.5) ? p : 1 - p) : C(0.5));
  return inside ? inner : p == 0 ? -C(INFINITY) : p == 1 ? C(INFINITY) : UHAL_NAN;
}

/* -- Bessel functions ------------------------------------------------------------------------------------- */

/* Up to 8 by sums of Chebyshev's polynomials of x^2, whose coefficients for J0 are products of Bessel functions
 * (Abramowitz and Stegun, 9.1.45 and 9.1.79) and those of the others come from a quadrature of such expansions; beyond,
 * by modulus and phase (9.2.5 to 9.2.10), with sums in (8 / x)^2 for P and Q. All coefficients were computed for this
 * file from integrals (9.1.21 and the one behind 9.6.24) in 64 bits. Errors beside zeros are relative to sqrt(2 / (pi
 * |x|)), or to 1 where that is more. */
/* J0(x) and J1(x) / x of t = 2 (x / 8)^2 - 1 */
UHAL_INLINE T special_j0_inside(T t) {
  T first = C(0);
  T second = C(0);
  UHAL_WIDE_CHEBYSHEV(t, -7.589482970034311382e-16)
  UHAL_WIDE_CHEBYSHEV(t, 4.125349512227686570e-14)
  UHAL_WIDE_CHEBYSHEV(t, -1.943834728053948913e-12)
  UHAL_WIDE_CHEBYSHEV(t, 7.848696329587637766e-11)
  UHAL_CHEBYSHEV(t, -2.679253530804501700e-9)
  UHAL_CHEBYSHEV(t, 7.608163592439710389e-8)
  UHAL_CHEBYSHEV(t, -1.761946907762196414e-6)
  UHAL_CHEBYSHEV(t, 3.246032882100519839e-5)
  UHAL_CHEBYSHEV(t, -4.606261662062752100e-4)
  UHAL_CHEBYSHEV(t, 4.819180069467604577e-3)
  UHAL_CHEBYSHEV(t, -3.489376941140888522e-2)
  UHAL_CHEBYSHEV(t, 1.580671023320972613e-1)
  UHAL_CHEBYSHEV(t, -3.700949938726497791e-1)
  UHAL_CHEBYSHEV(t, 2.651786132033368099e-1)
  UHAL_CHEBYSHEV(t, -8.723442352852221289e-3)
  return t * first - second + C(1.577279714748901196e-1);
}
UHAL_INLINE T special_j1_inside(T t) {
  T first = C(0);
  T second = C(0);
  UHAL_WIDE_CHEBYSHEV(t, -2.456169671584869837e-17)
  UHAL_WIDE_CHEBYSHEV(t, 1.423408374674750565e-15)
  UHAL_WIDE_CHEBYSHEV(t, -7.221761686020064982e-14)
  UHAL_WIDE_CHEBYSHEV(t, 3.160154668102931862e-12)
  UHAL_WIDE_CHEBYSHEV(t, -1.178026623844919141e-10)
  UHAL_CHEBYSHEV(t, 3.687133759195643986e-9)
  UHAL_CHEBYSHEV(t, -9.521984756754205860e-8)
  UHAL_CHEBYSHEV(t, 1.985877404991586424e-6)
  UHAL_CHEBYSHEV(t, -3.255554866857265461e-5)
  UHAL_CHEBYSHEV(t, 4.050337728354822224e-4)
  UHAL_CHEBYSHEV(t, -3.646940600769275983e-3)
  UHAL_CHEBYSHEV(t, 2.221363965496603542e-2)
  UHAL_CHEBYSHEV(t, -8.268049176681790660e-2)
  UHAL_CHEBYSHEV(t, 1.609992623572097025e-1)
  UHAL_CHEBYSHEV(t, -1.489751450676521090e-1)
  return t * first - second + C(8.104484632565811509e-2);
}
/* Y0(x) - 2/pi log(x) J0(x), and Y1(x) - 2/pi (log(x) J1(x) - 1 / x) over x */
UHAL_INLINE T special_y0_inside(T t) {
  T first = C(0);
  T second = C(0);
  UHAL_WIDE_CHEBYSHEV(t, -2.722702705654223010e-17)
  UHAL_WIDE_CHEBYSHEV(t, 1.642805719295296433e-15)
  UHAL_WIDE_CHEBYSHEV(t, -8.747424442775986186e-14)
  UHAL_WIDE_CHEBYSHEV(t, 4.026329867656917166e-12)
  UHAL_WIDE_CHEBYSHEV(t, -1.583755257173909758e-10)
  UHAL_CHEBYSHEV(t, 5.248794787627852175e-9)
  UHAL_CHEBYSHEV(t, -1.440723327398768198e-7)
  UHAL_CHEBYSHEV(t, 3.206532537654626624e-6)
  UHAL_CHEBYSHEV(t, -5.632079141057095958e-5)
  UHAL_CHEBYSHEV(t, 7.531135932577722940e-4)
  UHAL_CHEBYSHEV(t, -7.287962479552081394e-3)
  UHAL_CHEBYSHEV(t, 4.719668959576338506e-2)
  UHAL_CHEBYSHEV(t, -1.773020127811435831e-1)
  UHAL_CHEBYSHEV(t, 2.615673462550466366e-1)
  UHAL_CHEBYSHEV(t, 1.790343140771826629e-1)
  UHAL_CHEBYSHEV(t, -2.744743055297452658e-1)
  return t * first - second + C(-3.314611320328494204e-2);
}
UHAL_INLINE T special_y1_inside(T t) {
  T first = C(0);
  T second = C(0);
  UHAL_WIDE_CHEBYSHEV(t, 5.341276827659317365e-17)
  UHAL_WIDE_CHEBYSHEV(t, -3.051247586480695014e-15)
  UHAL_WIDE_CHEBYSHEV(t, 1.514291644370893234e-13)
  UHAL_WIDE_CHEBYSHEV(t, -6.465151846519538783e-12)
  UHAL_WIDE_CHEBYSHEV(t, 2.344337906332769119e-10)
  UHAL_CHEBYSHEV(t, -7.110550049977042601e-9)
  UHAL_CHEBYSHEV(t, 1.770780455615269192e-7)
  UHAL_CHEBYSHEV(t, -3.538080018689399192e-6)
  UHAL_CHEBYSHEV(t, 5.505982873338741738e-5)
  UHAL_CHEBYSHEV(t, -6.414551451326356466e-4)
  UHAL_CHEBYSHEV(t, 5.289897544167113053e-3)
  UHAL_CHEBYSHEV(t, -2.832812394459436551e-2)
  UHAL_CHEBYSHEV(t, 8.445197259652345844e-2)
  UHAL_CHEBYSHEV(t, -9.591204536083074241e-2)
  UHAL_CHEBYSHEV(t, -1.608717304766875001e-2)
  return t * first - second + C(2.538013235741781848e-3);
}
/* P and x / 8 times Q, of t = 2 (8 / x)^2 - 1 */
UHAL_INLINE T special_hankel_p0(T t) {
  T first = C(0);
  T second = C(0);
  UHAL_WIDE_CHEBYSHEV(t, -1.001802807376606097e-16)
  UHAL_WIDE_CHEBYSHEV(t, 6.750076142748457260e-16)
  UHAL_WIDE_CHEBYSHEV(t, -5.069096907274935523e-15)
  UHAL_WIDE_CHEBYSHEV(t, 4.326606234561202839e-14)
  UHAL_WIDE_CHEBYSHEV(t, -4.304580509314342995e-13)
  UHAL_WIDE_CHEBYSHEV(t, 5.168262465694019372e-12)
  UHAL_WIDE_CHEBYSHEV(t, -7.864091377698309108e-11)
  UHAL_WIDE_CHEBYSHEV(t, 1.630646463507978987e-9)
  UHAL_CHEBYSHEV(t, -5.170594537606625594e-8)
  UHAL_CHEBYSHEV(t, 3.075184787519505692e-6)
  UHAL_CHEBYSHEV(t, -5.365220468132117424e-4)
  return t * first - second + C(9.994603493475186652e-1);
}
UHAL_INLINE T special_hankel_q0(T t) {
  T first = C(0);
  T second = C(0);
  UHAL_WIDE_CHEBYSHEV(t, -6.282602188462755796e-19)
  UHAL_WIDE_CHEBYSHEV(t, 3.111434359580796579e-18)
  UHAL_WIDE_CHEBYSHEV(t, -1.668824312680422528e-17)
  UHAL_WIDE_CHEBYSHEV(t, 9.662161298192954254e-17)
  UHAL_WIDE_CHEBYSHEV(t, -6.099960047466557243e-16)
  UHAL_WIDE_CHEBYSHEV(t, 4.255226429282904047e-15)
  UHAL_WIDE_CHEBYSHEV(t, -3.336328316283616362e-14)
  UHAL_WIDE_CHEBYSHEV(t, 3.006145147388073243e-13)
  UHAL_WIDE_CHEBYSHEV(t, -3.206747422685085482e-12)
  UHAL_WIDE_CHEBYSHEV(t, 4.220121904718503347e-11)
  UHAL_CHEBYSHEV(t, -7.271915936866805370e-10)
  UHAL_CHEBYSHEV(t, 1.797245724796919137e-8)
  UHAL_CHEBYSHEV(t, -7.414498411060653949e-7)
  UHAL_CHEBYSHEV(t, 6.838519942611649632e-5)
  return t * first - second + C(-1.555585460533700910e-2);
}
UHAL_INLINE T special_hankel_p1(T t) {
  T first = C(0);
  T second = C(0);
  UHAL_WIDE_CHEBYSHEV(t, 1.066132136277412693e-16)
  UHAL_WIDE_CHEBYSHEV(t, -7.219131931063156131e-16)
  UHAL_WIDE_CHEBYSHEV(t, 5.452615355755474624e-15)
  UHAL_WIDE_CHEBYSHEV(t, -4.684209992364812373e-14)
  UHAL_WIDE_CHEBYSHEV(t, 4.699193688976107304e-13)
  UHAL_WIDE_CHEBYSHEV(t, -5.704863510641610715e-12)
  UHAL_WIDE_CHEBYSHEV(t, 8.816898657929931697e-11)
  UHAL_WIDE_CHEBYSHEV(t, -1.871890749097262849e-9)
  UHAL_CHEBYSHEV(t, 6.177633960645450712e-8)
  UHAL_CHEBYSHEV(t, -3.987284300488877353e-6)
  UHAL_CHEBYSHEV(t, 8.989898330859407670e-4)
  return t * first - second + C(1.000903040860013700e+0);
}
UHAL_INLINE T special_hankel_q1(T t) {
  T first = C(0);
  T second = C(0);
  UHAL_WIDE_CHEBYSHEV(t, -3.291005344398708251e-18)
  UHAL_WIDE_CHEBYSHEV(t, 1.768153042961776814e-17)
  UHAL_WIDE_CHEBYSHEV(t, -1.026987920341633960e-16)
  UHAL_WIDE_CHEBYSHEV(t, 6.508365585663588703e-16)
  UHAL_WIDE_CHEBYSHEV(t, -4.561255480305462240e-15)
  UHAL_WIDE_CHEBYSHEV(t, 3.596777102104930056e-14)
  UHAL_WIDE_CHEBYSHEV(t, -3.264315731512767299e-13)
  UHAL_WIDE_CHEBYSHEV(t, 3.515218800408004165e-12)
  UHAL_WIDE_CHEBYSHEV(t, -4.686363688180295332e-11)
  UHAL_CHEBYSHEV(t, 8.229193327643707445e-10)
  UHAL_CHEBYSHEV(t, -2.095978138408285154e-8)
  UHAL_CHEBYSHEV(t, 9.138615257955444223e-7)
  UHAL_CHEBYSHEV(t, -9.627723549157079538e-5)
  return t * first - second + C(4.677778706953532524e-2);
}

UHAL_INLINE T special_bessel_j(T x, int order) {
  const T size = fabs(x);
  const int large = size > 8;
  const T inside = large ? C(8) : size;
  const T near = C(0.03125) * inside * inside - 1;
  const T series = order == 0 ? special_j0_inside(near) : inside * special_j1_inside(near);
  const T outside = large ? size : C(8);
  const T part = 8 / outside;
  const T far = 2 * part * part - 1;
  const T p = order == 0 ? special_hankel_p0(far) : special_hankel_p1(far);
  const T q = part * (order == 0 ? special_hankel_q0(far) : special_hankel_q1(far));
  const T sum = cos(outside) + sin(outside), difference = sin(outside) - cos(outside);
  const T wave = order == 0 ? p * sum - q * difference : p * difference + q * sum;
  const T result = large ? wave / (C(1.77245385090551602730) * sqrt(outside)) : series;
  return order != 0 && x < 0 ? -result : x == x ? result : x;
}

/* Of x < 0 there is none. */
UHAL_INLINE T special_bessel_y(T x, int order) {
  const int large = x > 8;
  const T inside = large || !(x > 0) ? C(8) : x;
  const T near = C(0.03125) * inside * inside - 1;
  const T logarithm = C(0.63661977236758134308) * log(inside);
  const T series = order == 0 ? logarithm * special_j0_inside(near) + special_y0_inside(near)
                              : inside * (logarithm * special_j1_inside(near) + special_y1_inside(near)) -
                                    C(0.63661977236758134308) / inside;
  const T outside = large ? x : C(8);
  const T part = 8 / outside;
  const T far = 2 * part * part - 1;
  const T p = order == 0 ? special_hankel_p0(far) : special_hankel_p1(far);
  const T q = part * (order == 0 ? special_hankel_q0(far) : special_hankel_q1(far));
  const T sum = cos(outside) + sin(outside), difference = sin(outside) - cos(outside);
  const T wave = order == 0 ? p * difference + q * sum : q * difference - p * sum;
  const T result = large ? wave / (C(1.77245385090551602730) * sqrt(outside)) : series;
  return x > 0 ? result : x == 0 ? -C(INFINITY) : UHAL_NAN;
}

/* Modified ones of the second kind: up to 2 by the power series (9.6.11 and 9.6.13), beyond by sums in 4 / x. */
/* sqrt(x) exp(x) K(x), of t = 4 / x - 1 */
UHAL_INLINE T special_k0_outside(T t) {
  T first = C(0);
  T second = C(0);
  UHAL_WIDE_CHEBYSHEV(t, 5.221562837780709583e-17)
  UHAL_WIDE_CHEBYSHEV(t, -1.678525663369641781e-16)
  UHAL_WIDE_CHEBYSHEV(t, 5.510852823699628293e-16)
  UHAL_WIDE_CHEBYSHEV(t, -1.848673124305033610e-15)
  UHAL_WIDE_CHEBYSHEV(t, 6.340152853858844103e-15)
  UHAL_WIDE_CHEBYSHEV(t, -2.227502398389572905e-14)
  UHAL_WIDE_CHEBYSHEV(t, 8.032907767240547725e-14)
  UHAL_WIDE_CHEBYSHEV(t, -2.980099258366221878e-13)
  UHAL_WIDE_CHEBYSHEV(t, 1.140341300956018075e-12)
  UHAL_WIDE_CHEBYSHEV(t, -4.514598149890173643e-12)
  UHAL_WIDE_CHEBYSHEV(t, 1.855949129190431757e-11)
  UHAL_WIDE_CHEBYSHEV(t, -7.957489260984144478e-11)
  UHAL_WIDE_CHEBYSHEV(t, 3.577397283067451740e-10)
  UHAL_WIDE_CHEBYSHEV(t, -1.697534509425737091e-9)
  UHAL_CHEBYSHEV(t, 8.574034017541892327e-9)
  UHAL_CHEBYSHEV(t, -4.660489897711887763e-8)
  UHAL_CHEBYSHEV(t, 2.766813639446537226e-7)
  UHAL_CHEBYSHEV(t, -1.831755522719065674e-6)
  UHAL_CHEBYSHEV(t, 1.394981371887654877e-5)
  UHAL_CHEBYSHEV(t, -1.284954958162780535e-4)
  UHAL_CHEBYSHEV(t, 1.569883885730053464e-3)
  UHAL_CHEBYSHEV(t, -3.144810131196450059e-2)
  return t * first - second + C(1.220151541032977727e+0);
}
UHAL_INLINE T special_k1_outside(T t) {
  T first = C(0);
  T second = C(0);
  UHAL_WIDE_CHEBYSHEV(t, -5.676475999319419152e-17)
  UHAL_WIDE_CHEBYSHEV(t, 1.836728830371484970e-16)
  UHAL_WIDE_CHEBYSHEV(t, -6.058572561825834035e-16)
  UHAL_WIDE_CHEBYSHEV(t, 2.038562099797765666e-15)
  UHAL_WIDE_CHEBYSHEV(t, -7.019703670518446144e-15)
  UHAL_WIDE_CHEBYSHEV(t, 2.477160729145999607e-14)
  UHAL_WIDE_CHEBYSHEV(t, -8.976684751972087428e-14)
  UHAL_WIDE_CHEBYSHEV(t, 3.348417915189962531e-13)
  UHAL_WIDE_CHEBYSHEV(t, -1.289173231419175429e-12)
  UHAL_WIDE_CHEBYSHEV(t, 5.139639437425532383e-12)
  UHAL_WIDE_CHEBYSHEV(t, -2.129967831161298323e-11)
  UHAL_WIDE_CHEBYSHEV(t, 9.218315173697977372e-11)
  UHAL_WIDE_CHEBYSHEV(t, -4.190354756637855969e-10)
  UHAL_WIDE_CHEBYSHEV(t, 2.015049755111521003e-9)
  UHAL_CHEBYSHEV(t, -1.034576246551411210e-8)
  UHAL_CHEBYSHEV(t, 5.741084125433948126e-8)
  UHAL_CHEBYSHEV(t, -3.501960603086171784e-7)
  UHAL_CHEBYSHEV(t, 2.406484947837230255e-6)
  UHAL_CHEBYSHEV(t, -1.936197974166084589e-5)
  UHAL_CHEBYSHEV(t, 1.952155184713516108e-4)
  UHAL_CHEBYSHEV(t, -2.857816859622779338e-3)
  UHAL_CHEBYSHEV(t, 1.039237365768172384e-1)
  return t * first - second + C(1.360313095242221335e+0);
}

/* K0(x) or K1(x), or those times exp(x). Of x < 0 there is none. */
UHAL_INLINE T special_bessel_k(T x, int order, int scaled) {
  const int large = x > 2;
  const T inside = large || !(x > 0) ? C(2) : x;
  const T square = C(0.25) * inside * inside;
  T term = C(1), harmonic = C(0);
  T first = C(1); /* I0, or 2 / x I1 */
  T second = order == 0 ? C(0) : C(1);
  for (int k = 1; k < 14; ++k) {
    harmonic += C(1) / k;
    term = term * square / (order == 0 ? C(1) * k * k : C(1) * k * (k + 1));
    first += term;
    second += term * (order == 0 ? harmonic : 2 * harmonic + C(1) / (k + 1));
  }
  const T logarithm = log(C(0.5) * inside) + C(0.57721566490153286061);
  const T series =
      order == 0 ? second - logarithm * first : 1 / inside + C(0.5) * inside * (logarithm * first - C(0.5) * second);
  const T outside = large ? x : C(2);
  const T t = 4 / outside - 1;
  const T expansion = (order == 0 ? special_k0_outside(t) : special_k1_outside(t)) / sqrt(outside);
  const T factor = exp(scaled ? inside : -outside);
  const T result = large ? (scaled ? expansion : expansion * factor) : scaled ? series * factor : series;
  return x > 0 ? result : x == 0 ? C(INFINITY) : UHAL_NAN;
}

/* -- integrals of exponentials and of waves --------------------------------------------------------------- */

/* Dawson's integral: by its power series below 1/4, else by Rybicki's sum of normal distributions at odd multiples of
 * 1/4 around x (Computers in Physics 3, 1989), whose error is exp(-4 pi^2). */
UHAL_INLINE T special_dawson(T x) {
  const T size = fabs(x);
  const T square = size < C(0.25) ? 2 * x * x : C(0);
  T sum = C(1);
#define UHAL_STEP(k) sum = 1 - sum * square * C(1.0 / (2 * (k) + 1));
  UHAL_STEP(10)
  UHAL_STEP(9)
  UHAL_STEP(8)
  UHAL_STEP(7)
  UHAL_STEP(6)
  UHAL_STEP(5)
  UHAL_STEP(4)
  UHAL_STEP(3)
  UHAL_STEP(2)
  UHAL_STEP(1)
#undef UHAL_STEP
  const T inside = size < C(1e8) ? size : C(1);
  const T middle = 2 * rint(2 * inside);
  const T rest = inside - C(0.25) * middle;
  T up = exp(C(0.5) * rest);
  T down = 1 / up;
  const T up_step = up * up, down_step = down * down;
  T total = C(0);
#define UHAL_STEP(n, weight)                                            \
  total += C(weight) * (up / (middle + C(n)) + down / (middle - C(n))); \
  up *= up_step;                                                        \
  down *= down_step;
  UHAL_STEP(1, 9.39413062813475807644e-01)
  UHAL_STEP(3, 5.69782824730923009859e-01)
  UHAL_STEP(5, 2.09611387151097811055e-01)
  UHAL_STEP(7, 4.67706223839589804725e-02)
  UHAL_STEP(9, 6.32971542748574696885e-03)
  UHAL_STEP(11, 5.19574682154838444516e-04)
  UHAL_STEP(13, 2.58681002226541202301e-05)
  UHAL_STEP(15, 7.81148940830449097369e-07)
  UHAL_STEP(17, 1.43072419185676881530e-08)
  if (sizeof(T) > sizeof(float)) {
    UHAL_STEP(19, 1.58939100945163677415e-10)
    UHAL_STEP(21, 1.07092323825080766442e-12)
    UHAL_STEP(23, 4.37661850287085019998e-15)
    UHAL_STEP(25, 1.08485526404293778378e-17)
  }
#undef UHAL_STEP
  const T near = C(0.56418958354775628695) * exp(-rest * rest) * total;
  const T result = size < C(0.25) ? size * sum : size < C(1e8) ? near : C(0.5) / size;
  return x == x ? copysign(result, x) : x;
}

/* Ei(x), the integral of exp(t) / t from -infinity to x as a principal value: by the power series up to 18 (in float64
 * 40), beyond by the expansion for large numbers, and left of -1 by the continued fraction by Lentz' method (Abramowitz
 * and Stegun, 5.1.10, 5.1.51 and 5.1.22). Errors are relative to the terms of the series, whose sum has a zero at 0.37.
 */
UHAL_INLINE T special_expint(T x) {
  if (x == 0) return -C(INFINITY);
  if (x != x) return x;
  if (x - x != 0) return x > 0 ? x : -C(0);
  if (x < -1) {
    T b = 1 - x;
    T c = C(0); /* 1 / c of the textbook: begins at infinity */
    T d = 1 / b;
    T fraction = d;
    for (int k = 1; k < 100; ++k) {
      const T numerator = -C(1) * k * k;
      b += 2;
      d = 1 / (b + numerator * d);
      c = 1 / (b + numerator * c);
      const T change = d / c;
      fraction *= change;
      if (fabs(change - 1) <= UHAL_ROUNDOFF) break;
    }
    return -fraction * exp(x);
  }
  T sum = C(0);
  T term = C(1);
  if (x < (sizeof(T) > sizeof(float) ? C(40) : C(18))) {
    for (int k = 1; k < 200; ++k) {
      term *= x / k;
      sum += term / k;
      if (fabs(term) <= UHAL_ROUNDOFF * k * fabs(sum)) break;
    }
    return C(0.57721566490153286061) + log(fabs(x)) + sum;
  }
  for (int k = 1; k < 60; ++k) {
    const T next = term * k / x;
    if (next >= term) break;
    term = next;
    sum += term;
    if (term <= UHAL_ROUNDOFF) break;
  }
  const T root = exp(C(0.5) * x); /* exp(x) overflows before exp(x) / x does */
  return root / x * (1 + sum) * root;
}

/* Fresnel's integrals of cos(pi t^2 / 2) and sin(pi t^2 / 2): up to 1.6 by power series, beyond by the auxiliary
 * functions f and g (Abramowitz and Stegun, 7.3.9 to 7.3.14), whose coefficients were computed for this file from the
 * integrals 7.3.21 in 64 bits. Errors are relative to 1 / 2 at least beyond 1.6. */
/* pi x f(x) and pi^2 x^3 g(x), of t = 2 (1.6 / x)^2 - 1 */
UHAL_INLINE T special_fresnel_f(T t) {
  T first = C(0);
  T second = C(0);
  UHAL_WIDE_CHEBYSHEV(t, -6.055269133331542264e-17)
  UHAL_WIDE_CHEBYSHEV(t, 2.194564957546957934e-16)
  UHAL_WIDE_CHEBYSHEV(t, -5.787776128588634217e-16)
  UHAL_WIDE_CHEBYSHEV(t, 1.109812213645738205e-15)
  UHAL_WIDE_CHEBYSHEV(t, -9.838592614219709986e-16)
  UHAL_WIDE_CHEBYSHEV(t, -3.515923967406812869e-15)
  UHAL_WIDE_CHEBYSHEV(t, 2.372725971320870098e-14)
  UHAL_WIDE_CHEBYSHEV(t, -8.459051631190962327e-14)
  UHAL_WIDE_CHEBYSHEV(t, 2.134132036672384269e-13)
  UHAL_WIDE_CHEBYSHEV(t, -3.278027132403587857e-13)
  UHAL_WIDE_CHEBYSHEV(t, -2.414657829154925883e-13)
  UHAL_WIDE_CHEBYSHEV(t, 4.163818188894843897e-12)
  UHAL_WIDE_CHEBYSHEV(t, -1.874301977728212720e-11)
  UHAL_WIDE_CHEBYSHEV(t, 5.476589247830704549e-11)
  UHAL_WIDE_CHEBYSHEV(t, -8.882961903479598409e-11)
  UHAL_WIDE_CHEBYSHEV(t, -1.409508169892229886e-10)
  UHAL_WIDE_CHEBYSHEV(t, 1.842151876855113897e-9)
  UHAL_CHEBYSHEV(t, -8.499726763178024205e-9)
  UHAL_CHEBYSHEV(t, 2.283687675445347180e-8)
  UHAL_CHEBYSHEV(t, -2.151243191894902505e-9)
  UHAL_CHEBYSHEV(t, -3.925293499223745188e-7)
  UHAL_CHEBYSHEV(t, 2.587726789013443574e-6)
  UHAL_CHEBYSHEV(t, -8.150918540032394018e-6)
  UHAL_CHEBYSHEV(t, -1.861961980237942083e-5)
  UHAL_CHEBYSHEV(t, 4.791760001788382482e-4)
  UHAL_CHEBYSHEV(t, -3.284332329599083301e-3)
  UHAL_CHEBYSHEV(t, -1.743471193566777286e-2)
  return t * first - second + C(9.863363201440892524e-1);
}
UHAL_INLINE T special_fresnel_g(T t) {
  T first = C(0);
  T second = C(0);
  UHAL_WIDE_CHEBYSHEV(t, 5.542983606832141419e-17)
  UHAL_WIDE_CHEBYSHEV(t, -6.260844029630160956e-17)
  UHAL_WIDE_CHEBYSHEV(t, -5.693416658264505159e-17)
  UHAL_WIDE_CHEBYSHEV(t, 6.164112867053719858e-16)
  UHAL_WIDE_CHEBYSHEV(t, -2.299914680361711539e-15)
  UHAL_WIDE_CHEBYSHEV(t, 6.135321793660072562e-15)
  UHAL_WIDE_CHEBYSHEV(t, -1.219147057070733842e-14)
  UHAL_WIDE_CHEBYSHEV(t, 1.381867253139263188e-14)
  UHAL_WIDE_CHEBYSHEV(t, 1.976645233668465618e-14)
  UHAL_WIDE_CHEBYSHEV(t, -1.827230946878247251e-13)
  UHAL_WIDE_CHEBYSHEV(t, 6.863529587882409577e-13)
  UHAL_WIDE_CHEBYSHEV(t, -1.809029190129421731e-12)
  UHAL_WIDE_CHEBYSHEV(t, 3.215055310737749417e-12)
  UHAL_WIDE_CHEBYSHEV(t, -1.017353364976569287e-12)
  UHAL_WIDE_CHEBYSHEV(t, -2.094174502862908294e-11)
  UHAL_WIDE_CHEBYSHEV(t, 1.084958834471176636e-10)
  UHAL_WIDE_CHEBYSHEV(t, -3.434593628384371988e-10)
  UHAL_WIDE_CHEBYSHEV(t, 7.012039576402789940e-10)
  UHAL_WIDE_CHEBYSHEV(t, -2.185166576222467849e-10)
  UHAL_CHEBYSHEV(t, -5.963027554560362397e-9)
  UHAL_CHEBYSHEV(t, 3.316459682689543685e-8)
  UHAL_CHEBYSHEV(t, -1.066444757878190323e-7)
  UHAL_CHEBYSHEV(t, 1.657613740465012928e-7)
  UHAL_CHEBYSHEV(t, 5.174171446117825162e-7)
  UHAL_CHEBYSHEV(t, -5.402791752102207982e-6)
  UHAL_CHEBYSHEV(t, 2.313477495608206074e-5)
  UHAL_CHEBYSHEV(t, -3.806033430512677191e-5)
  UHAL_CHEBYSHEV(t, -2.789951793868335638e-4)
  UHAL_CHEBYSHEV(t, 2.944899483248378439e-3)
  UHAL_CHEBYSHEV(t, -1.108088216385284642e-2)
  UHAL_CHEBYSHEV(t, -7.323801495965341496e-2)
  return t * first - second + C(9.409999566964286585e-1);
}

UHAL_INLINE T special_fresnel(T x, int sine) {
  const T size = fabs(x);
  const int large = size > C(1.6);
  const T inside = large ? C(1) : size;
  const T phase = C(1.57079632679489661923) * inside * inside;
  const T square = phase * phase;
  T sum = C(0);
  T term = sine ? phase : C(1);
  for (int k = 0; k < 18; ++k) { /* of (2 k)! and 4 k + 1, or (2 k + 1)! and 4 k + 3 */
    const int n = 2 * k + sine;
    sum += term / (2 * n + 1);
    term = -term * square / ((n + 1) * (n + 2));
  }
  const T outside = large ? size : C(1.6);
  const T part = C(1.6) / outside;
  const T t = 2 * part * part - 1;
  const T slow = special_fresnel_f(t) / (C(3.14159265358979323846) * outside);
  const T fast = special_fresnel_g(t) / (C(9.86960440108935861883) * outside * outside * outside);
  /* x^2 in two parts, of which the first loses whole turns */
  const T high = outside * outside;
  const T low = fma(outside, outside, -high);
  T turn = fmod(high, C(4));
  turn = turn > 2 ? turn - 4 : turn;
  const T angle = C(1.57079632679489661923) * (turn + low);
  const T wave = sine ? slow * cos(angle) + fast * sin(angle) : fast * cos(angle) - slow * sin(angle);
  const T far = outside < C(1e18) ? C(0.5) - wave : C(0.5);
  const T result = large ? far : inside * sum;
  return x == x ? copysign(result, x) : x;
}

/* The integral of log(t) / (1 - t) from 1 to x: the dilogarithm of 1 - x, by its series in u = -log(x) with Bernoulli's
 * numbers ('t Hooft and Veltman, Scalar one-loop integrals, 1979, appendix A), outside of [1/2, 2] with the
 * reflections at 1 and of the reciprocal (Lewin, Polylogarithms and associated functions, 1981, 1.7 and 1.11). */
UHAL_INLINE T special_spence(T x) {
  const int high = x > 2;
  const T given = x > 0 && x - x == 0 ? x : C(1);
  const T y = high ? 1 / given : given;
  const T log_y = high ? -log(given) : log(given);
  const int low = y < C(0.5);
  const T u = low ? -log1p(-y) : -log1p(y - 1);
  const T square = u * u;
  T sum = C(0);
  UHAL_WIDE_TERM(square, -1.993929586072107443442e-14)
  UHAL_WIDE_TERM(square, 8.921691020456452304809e-13)
  UHAL_WIDE_TERM(square, -4.064761645144225603571e-11)
  UHAL_WIDE_TERM(square, 1.897886998897100054559e-9)
  UHAL_TERM(square, -9.185773074661964082084e-8)
  UHAL_TERM(square, 4.724111866969009781720e-6)
  UHAL_TERM(square, -2.777777777777777777778e-4)
  UHAL_TERM(square, 2.777777777777777777778e-2)
  const T near = u - C(0.25) * square + u * square * sum;
  const T inside = low ? C(1.64493406684822643647) + log_y * u - near : near;
  const T result = high ? -C(0.5) * log_y * log_y - inside : inside;
  return x > 0 && x - x == 0 ? result : x == 0 ? C(1.64493406684822643647) : UHAL_NAN;
}

/* -- the incomplete beta function ------------------------------------------------------------------------- */

/* x^a y^b / (a B(a, b)) of y = 1 - x, without the cancellation of large exponents: for a and b of at least 10 as Loader
 * has binomial probabilities, for one of them by Stirling's formula of what it and the sum have in common. */
UHAL_INLINE T special_beta_density(T a, T b, T x, T y, T log_x, T log_y) {
  const T sum = a + b;
  if (a >= 10 && b >= 10) {
    const T apart = x * b - y * a;
    const T exponent = special_stirling(sum) - special_stirling(a) - special_stirling(b) -
                       a * special_less_log1p(apart / a) - b * special_less_log1p(-apart / b);
    return exp(exponent) * sqrt(b / (C(6.28318530717958647693) * a * sum));
  }
  const T small = a < b ? a : b, large = a < b ? b : a;
  const T of_large = large < 10 ? special_lgamma_right(large) - special_lgamma_right(sum)
                                : small - small * log(large) - (sum - C(0.5)) * log1p(small / large) +
                                      special_stirling(large) - special_stirling(sum);
  return exp(a * log_x + b * log_y - special_lgamma_1p(small) - of_large) * (a < b ? C(1) : small / a);
}

/* The integral of t^(a - 1) (1 - t)^(b - 1) from 0 to x over B(a, b), for a and b above 0: by the continued fraction
 * (Abramowitz and Stegun, 26.5.8) by Lentz' method, on the side of x where it converges soon. */
UHAL_INLINE T special_betainc(T a, T b, T x) {
  if (!(a > 0 && b > 0 && x >= 0 && x <= 1)) return UHAL_NAN;
  if (x == 0 || x == 1) return x;
  const int swapped = x * (a + b + 2) > a + 1;
  const T p = swapped ? b : a, q = swapped ? a : b;
  const T t = swapped ? 1 - x : x, rest = swapped ? x : 1 - x;
  const T density = special_beta_density(p, q, t, rest, swapped ? log1p(-x) : log(x), swapped ? log(x) : log1p(-x));
  T c = C(1);
  T d = 1 / (1 - (p + q) * t / (p + 1));
  T fraction = d;
  for (int m = 1; m < 2000; ++m) {
    const T even = m * (q - m) * t / ((p + (2 * m - 1)) * (p + 2 * m));
    d = 1 / (1 + even * d);
    c = 1 + even / c;
    fraction *= d * c;
    const T odd = -(p + m) * (p + q + m) * t / ((p + 2 * m) * (p + (2 * m + 1)));
    d = 1 / (1 + odd * d);
    c = 1 + odd / c;
    const T change = d * c;
    fraction *= change;
    if (fabs(change - 1) <= UHAL_ROUNDOFF) break;
  }
  return swapped ? 1 - density * fraction : density * fraction;
}

/* -- the normal distribution, cut ------------------------------------------------------------------------- */

/* The number of a standard normal distribution cut to [low, high] below which a part u of it lies, 0 <= u <= 1: by the
 * inverse of the distribution, on the side where its tail is small; further out than that by the tail's own (Marsaglia,
 * A method for generating a random variable from the tail of the normal distribution, 1964, without its rejections,
 * which are rare there). */
UHAL_INLINE T special_truncated_normal_quantile(T u, T low, T high) {
  const int right = low > 0;
  const T a = right ? -high : low, b = right ? -low : high;
  const T place = right ? 1 - u : u;
  const T below = C(0.5) * erfc(C(-0.70710678118654752440) * a);
  const T above = C(0.5) * erfc(C(-0.70710678118654752440) * b);
  const T part = below + place * (above - below);
  const T rest = C(0.5) * erfc(C(0.70710678118654752440) * b) + (1 - place) * (above - below); /* 1 - part */
  const int upper = part > C(0.5);
  const int far = b < (sizeof(T) > sizeof(float) ? C(-37) : C(-12.5));
  /* Of a limit that is infinite the place 0 has none. */
  const T tail = upper ? rest : part > 0 || a - a == 0 ? part : UHAL_ROUNDOFF * UHAL_ROUNDOFF;
  const T near = special_ndtri(far ? C(0.5) : tail);
  const T least = far ? exp(C(0.5) * (b - a) * (b + a)) : C(0);
  const T distant = -sqrt(far ? b * b - 2 * log(least + place * (1 - least)) : C(1));
  const T found = far ? distant : upper ? -near : near;
  const T inside = found < a ? a : found > b ? b : found;
  return u >= 0 && u <= 1 && low < high ? (right ? -inside : inside) : UHAL_NAN;
}

/* -- numbers as they are stored --------------------------------------------------------------------------- */

/* The largest number of the type that p is of. */
UHAL_INLINE T special_largest(T p) {
  (void)p;
  return ldexp(2 - 2 * UHAL_ROUNDOFF, sizeof(T) > sizeof(float) ? 1023 : 127);
}

/* x * 2^n of a whole number n, rounded once */
UHAL_INLINE T special_ldexp(T x, T n) {
  return n != n ? n : ldexp(x, (int)(n < -5000 ? C(-5000) : n > 5000 ? C(5000) : n));
}

#undef UHAL_TERM
#undef UHAL_WIDE_TERM
#undef UHAL_CHEBYSHEV
#undef UHAL_WIDE_CHEBYSHEV
#undef UHAL_ROUNDOFF
#undef UHAL_NAN
#undef UHAL_BESSEL_LIMIT
#undef UHAL_EACH_10
