/* Complex arithmetic: what the expressions of complex.def call, and ops that compute with complex numbers themselves.
 * One text for all: the stub compiles it as C++ (stub/vector/complex.h), every other backend pastes it into its kernels
 * (csrc/kernels/prelude/complex.h).
 *
 * Whoever includes it has defined
 *   R             the type of the parts, float or double; its exp(), sqrt(), atan2(), ... by their usual names
 *   T             struct { R x, y; }, the real and the imaginary part
 *   UHAL_INLINE   before a function
 *   INFINITY
 *
 * Errors are a few roundings relative to the modulus of the result, not to each of its parts; inner results overflow
 * only where those of the textbook formula that is named would. Infinities, NaN and signed zeros follow C11, annex G,
 * where NumPy does: products and quotients are those of the parts, without a second look at infinities. What is chosen
 * by ?: is cheap to have computed, so that loops over these functions vectorize.
 *
 * No operators on T: OpenCL C has none for structs. */

UHAL_INLINE T uhal_complex(R x, R y) {
  T result;
  result.x = x;
  result.y = y;
  return result;
}

/* -- arithmetic ------------------------------------------------------------------------------------------- */

UHAL_INLINE T complex_add(T x, T y) { return uhal_complex(x.x + y.x, x.y + y.y); }
UHAL_INLINE T complex_subtract(T x, T y) { return uhal_complex(x.x - y.x, x.y - y.y); }
UHAL_INLINE T complex_negative(T x) { return uhal_complex(-x.x, -x.y); }
UHAL_INLINE T complex_conjugate(T x) { return uhal_complex(x.x, -x.y); }
UHAL_INLINE T complex_scale(T x, R factor) { return uhal_complex(x.x * factor, x.y * factor); }
UHAL_INLINE T complex_multiply(T x, T y) { return uhal_complex(x.x * y.x - x.y * y.y, x.x * y.y + x.y * y.x); }

/* x * conj(y) */
UHAL_INLINE T complex_multiply_conjugate(T x, T y) {
  return uhal_complex(x.x * y.x + x.y * y.y, x.y * y.x - x.x * y.y);
}

/* i * x and -i * x */
UHAL_INLINE T complex_turn_left(T x) { return uhal_complex(-x.y, x.x); }
UHAL_INLINE T complex_turn_right(T x) { return uhal_complex(x.y, -x.x); }

UHAL_INLINE int complex_equal(T x, T y) { return x.x == y.x && x.y == y.y; }
UHAL_INLINE int complex_is_zero(T x) { return x.x == 0 && x.y == 0; }
UHAL_INLINE T complex_select(int condition, T yes, T no) {
  return uhal_complex(condition ? yes.x : no.x, condition ? yes.y : no.y);
}

UHAL_INLINE int complex_part_is_infinite(R x) { return x == x && x - x != 0; }
UHAL_INLINE int complex_is_nan(T x) { return x.x != x.x || x.y != x.y; }
UHAL_INLINE int complex_is_infinite(T x) { return complex_part_is_infinite(x.x) || complex_part_is_infinite(x.y); }
UHAL_INLINE int complex_is_finite(T x) { return x.x - x.x == 0 && x.y - x.y == 0; }

/* Smith, Algorithm 116: Complex division (1962), as NumPy. A zero divisor divides both parts. */
UHAL_INLINE T complex_divide(T x, T y) {
  const int wide = fabs(y.x) >= fabs(y.y);
  const R larger = wide ? y.x : y.y;
  const R smaller = wide ? y.y : y.x;
  const int none = larger == 0 && smaller == 0; /* beside a NaN a part of 0 is the larger one */
  const R ratio = none ? (R)0 : smaller / larger;
  const R divisor = none ? (R)fabs(larger) : larger + smaller * ratio;
  const R along = wide ? x.x : x.y;
  const R across = wide ? x.y : x.x;
  const R real = along + across * ratio;
  const R imaginary = across - along * ratio;
  return uhal_complex(real / divisor, (wide ? imaginary : -imaginary) / divisor);
}

UHAL_INLINE T complex_reciprocal(T x) { return complex_divide(uhal_complex(1, 0), x); }

/* The modulus, without overflow on the way. */
UHAL_INLINE R complex_absolute(T x) {
  const R a = fabs(x.x);
  const R b = fabs(x.y);
  const R larger = a > b ? a : b;
  const R smaller = a > b ? b : a;
  const R ratio = smaller == 0 ? (R)0 : smaller / larger;
  const R modulus = larger * sqrt(1 + ratio * ratio);
  return complex_is_infinite(x) ? (R)INFINITY : modulus;
}

/* The squared modulus. */
UHAL_INLINE R complex_norm(T x) { return x.x * x.x + x.y * x.y; }

UHAL_INLINE R complex_angle(T x) { return atan2(x.y, x.x); }
UHAL_INLINE T complex_polar(R modulus, R angle) { return uhal_complex(modulus * cos(angle), modulus * sin(angle)); }

/* x / |x|, 0 for 0 */
UHAL_INLINE T complex_sign(T x) {
  const R modulus = complex_absolute(x);
  return modulus == 0 ? x : uhal_complex(x.x / modulus, x.y / modulus);
}

/* -- roots, exponentials, logarithms ------------------------------------------------------------------------ */

/* The root with a real part that is not negative. Press et al., Numerical Recipes, section 5.5. */
UHAL_INLINE T complex_sqrt(T x) {
  const R a = fabs(x.x);
  const R b = fabs(x.y);
  const int wide = a >= b;
  const R larger = wide ? a : b;
  const R ratio = larger == 0 ? (R)0 : (wide ? b : a) / larger;
  const R sum = (wide ? (R)1 : ratio) + sqrt(1 + ratio * ratio);
  const R w = sqrt(larger) * sqrt((R)0.5 * sum);
  const R v = w == 0 ? b : b / (2 * w);
  const int right = x.x >= 0;
  const T root = uhal_complex(right ? w : v, copysign(right ? v : w, x.y));
  return complex_part_is_infinite(x.y) ? uhal_complex((R)INFINITY, x.y)
         : complex_is_zero(x)          ? uhal_complex(0, x.y)
         : x.x != x.x                  ? uhal_complex(x.x, x.x)
         : x.y == x.y                  ? root
         : x.x - x.x == 0              ? uhal_complex(x.y, x.y)
                                       : uhal_complex(x.x > 0 ? x.x : x.y, x.x > 0 ? x.y : -x.x);
}

UHAL_INLINE T complex_rsqrt(T x) { return complex_reciprocal(complex_sqrt(x)); }

/* factor * y, where 0 counts more than infinity and NaN. */
UHAL_INLINE R complex_part_product(R factor, R y) {
  return factor == 0 || y == 0 ? copysign(factor * 0, y) : factor * y;
}

/* exp(x) * (cosine + i sine), finite wherever the product is: a large exponential is taken in two halves. */
UHAL_INLINE T complex_exp_times(R x, R cosine, R sine) {
  const int large = x > 80 && !complex_part_is_infinite(x);
  const R power = exp(large ? (R)0.5 * x : x);
  const R again = large ? power : (R)1;
  const R real = power == 0 ? copysign((R)0, cosine) : power * cosine * again;
  const R imaginary = power == 0 || sine == 0 ? copysign((R)0, sine) : power * sine * again;
  return uhal_complex(x > 0 && x - x != 0 && cosine != cosine ? x : real, imaginary);
}

UHAL_INLINE T complex_exp(T x) {
  const T result = complex_exp_times(x.x, cos(x.y), sin(x.y));
  return uhal_complex(x.y == 0 ? exp(x.x) : result.x, x.y == 0 ? x.y : result.y);
}

/* exp(x) - 1 = expm1(re) cos(im) - 2 sin(im / 2)^2 + i exp(re) sin(im) */
UHAL_INLINE T complex_expm1(T x) {
  const R half_sine = sin((R)0.5 * x.y);
  const R cosine = cos(x.y);
  const R small = expm1(x.x) * cosine - 2 * half_sine * half_sine;
  const T large = complex_exp(x);
  return uhal_complex(x.x > 1 || x.x < -40 ? large.x - 1 : small, large.y);
}

/* ln|x|, with an error relative to |log(x)| where |x| is near 1. */
UHAL_INLINE R complex_log_absolute(T x) {
  const R a = fabs(x.x);
  const R b = fabs(x.y);
  const R larger = a < b ? b : a;
  const R smaller = a < b ? a : b;
  const R ratio = smaller == 0 ? (R)0 : smaller / larger;
  const R result = log(larger) + (R)0.5 * log1p(ratio * ratio);
  return complex_is_infinite(x) ? (R)INFINITY : result;
}

UHAL_INLINE T complex_log(T x) { return uhal_complex(complex_log_absolute(x), complex_angle(x)); }

/* log(1 + x): near 0 by |1 + x|^2 - 1 = re (re + 2) + im^2. */
UHAL_INLINE T complex_log1p(T x) {
  const T sum = uhal_complex(1 + x.x, x.y);
  const R near = (R)0.5 * log1p(x.x * (x.x + 2) + x.y * x.y);
  const int is_near = fabs(x.x) < (R)0.5 && fabs(x.y) < (R)0.5;
  return uhal_complex(is_near ? near : complex_log_absolute(sum), complex_angle(sum));
}

/* exp(y log(x)); 0 to a power with a real part above 0 is 0, and anything to the power 0 is 1. */
UHAL_INLINE T complex_power(T x, T y) {
  const R nan = (R)INFINITY - (R)INFINITY;
  const T result = complex_exp(complex_multiply(y, complex_log(x)));
  const T of_zero = y.x > 0 ? uhal_complex(0, 0) : uhal_complex(nan, nan);
  return complex_is_zero(y) ? uhal_complex(1, 0) : complex_is_zero(x) ? of_zero : result;
}

/* 1 / (1 + exp(-x)), by whichever exponential is small. */
UHAL_INLINE T complex_sigmoid(T x) {
  const int right = x.x >= 0;
  const T power = complex_exp(right ? complex_negative(x) : x);
  const T sum = uhal_complex(1 + power.x, power.y);
  return complex_divide(right ? uhal_complex(1, 0) : power, sum);
}

/* -- hyperbolic and trigonometric ----------------------------------------------------------------------------
 * sin, tan, asin and atan of x are -i times sinh, ... of i x; cos is cosh of i x. Kahan, Branch cuts for complex
 * elementary functions (1987), has those of the inverse functions and of tanh. */

/* sinh(re) cos(im) + i cosh(re) sin(im) */
UHAL_INLINE T complex_sinh(T x) {
  const R cosine = cos(x.y);
  const R sine = sin(x.y);
  const R a = fabs(x.x);
  const T large = complex_exp_times(a, (R)0.5 * cosine, (R)0.5 * sine);
  const R real = a > 20 ? copysign((R)1, x.x) * large.x : complex_part_product(sinh(x.x), cosine);
  const R imaginary = a > 20 ? large.y : complex_part_product(cosh(x.x), sine);
  return uhal_complex(real, x.y == 0 ? x.y : imaginary);
}

/* cosh(re) cos(im) + i sinh(re) sin(im) */
UHAL_INLINE T complex_cosh(T x) {
  const R cosine = cos(x.y);
  const R sine = sin(x.y);
  const R a = fabs(x.x);
  const T large = complex_exp_times(a, (R)0.5 * cosine, (R)0.5 * sine);
  const R real = a > 20 ? large.x : cosh(x.x) * cosine;
  const R imaginary = a > 20 ? copysign((R)1, x.x) * large.y : complex_part_product(sinh(x.x), sine);
  return uhal_complex(real, imaginary);
}

UHAL_INLINE T complex_tanh(T x) {
  const R t = tan(x.y);
  const R s = sinh(x.x);
  const R beta = 1 + t * t;
  const R rho = sqrt(1 + s * s);
  const R divisor = 1 + beta * s * s;
  const T result = uhal_complex(beta * rho * s / divisor, t / divisor);
  const R nothing = x.x - x.x == 0 ? t - t : (R)0; /* NaN, where t is */
  const T limit = uhal_complex(copysign((R)1, x.x) + nothing, copysign(nothing, t == t ? t : x.y));
  return complex_select(fabs(x.x) > 20, limit, result);
}

UHAL_INLINE T complex_sin(T x) { return complex_turn_right(complex_sinh(complex_turn_left(x))); }
UHAL_INLINE T complex_cos(T x) { return complex_cosh(complex_turn_left(x)); }
UHAL_INLINE T complex_tan(T x) { return complex_turn_right(complex_tanh(complex_turn_left(x))); }

/* sqrt(1 - x) and sqrt(1 + x) */
UHAL_INLINE T complex_root_below(T x) { return complex_sqrt(uhal_complex(1 - x.x, -x.y)); }
UHAL_INLINE T complex_root_above(T x) { return complex_sqrt(uhal_complex(1 + x.x, x.y)); }

UHAL_INLINE T complex_asin(T x) {
  const T below = complex_root_below(x);
  const T above = complex_root_above(x);
  return uhal_complex(atan2(x.x, below.x * above.x - below.y * above.y), asinh(below.x * above.y - below.y * above.x));
}

UHAL_INLINE T complex_acos(T x) {
  const T below = complex_root_below(x);
  const T above = complex_root_above(x);
  return uhal_complex(2 * atan2(below.x, above.x), asinh(above.x * below.y - above.y * below.x));
}

UHAL_INLINE T complex_acosh(T x) {
  const T below = complex_sqrt(uhal_complex(x.x - 1, x.y));
  const T above = complex_root_above(x);
  return uhal_complex(asinh(below.x * above.x + below.y * above.y), 2 * atan2(below.y, above.x));
}

UHAL_INLINE T complex_asinh(T x) { return complex_turn_right(complex_asin(complex_turn_left(x))); }

/* From 1e18 on it is i pi / 2 to all digits, and the real part is that of 1 / x. Beside 1 and -1 the square of the
 * distance would underflow. */
UHAL_INLINE T complex_atanh(T x) {
  const R a = fabs(x.x);
  const R b = fabs(x.y);
  const int far = a > (R)1e18 || b > (R)1e18;
  const int at_pole = a == 1 && b < (R)1e-9;
  const R distance = (1 - a) * (1 - a) + b * b;
  const R usual = (R)0.25 * log1p(4 * a / distance);
  const R real = at_pole ? (R)0.5 * ((R)0.69314718055994530942 - log(b)) : usual;
  const R imaginary = (R)0.5 * atan2(2 * x.y, (1 - a) * (1 + a) - b * b);
  const T reciprocal = complex_reciprocal(x);
  return uhal_complex(far ? (complex_is_infinite(x) ? copysign((R)0, x.x) : reciprocal.x) : copysign(real, x.x),
                      far ? copysign((R)1.57079632679489661923, x.y) : imaginary);
}

UHAL_INLINE T complex_atan(T x) { return complex_turn_right(complex_atanh(complex_turn_left(x))); }
