#include "tests/stub/map_reference.h"

#include <cmath>
#include <cstdint>
#include <numeric>

namespace data_test {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double normal_distribution(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }
double normal_density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * M_PI); }
double gelu_tanh(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }
double softplus(double x) { return x > 30 ? x : std::log1p(std::exp(x)); }
double clamp(double x, double low, double high) { return std::isnan(x) ? x : std::fmin(std::fmax(x, low), high); }
// NaN, unlike in fmax and fmin, wins.
double maximum(double x, double y) { return std::isnan(x) || std::isnan(y) ? NAN : std::fmax(x, y); }
double minimum(double x, double y) { return std::isnan(x) || std::isnan(y) ? NAN : std::fmin(x, y); }
int64_t whole(double x) { return static_cast<int64_t>(x); }

// As devices choose where the bounds are in the wrong order.
double between(double x, double low, double high) { return x < low ? low : x > high ? high : x; }
double quantized(const double* x, const double* p) { return between(std::nearbyint(x[0] / x[1]) + x[2], p[0], p[1]); }
// The range x[1] to x[2] in steps of a quantized number, moved so that 0 is one of them.
struct Range {
  double step, low, high;
};
Range range_of(const double* x, const double* p) {
  const double step = (x[2] - x[1]) / (p[1] - p[0]);
  const double zero = std::round(between(p[0] - x[1] / step, p[0], p[1]));
  return {step, (p[0] - zero) * step, (p[1] - zero) * step};
}

// Boxes are their low and their high corners.
double box_area(const double* box, double extent) {
  return box[2] < box[0] || box[3] < box[1] ? 0 : (box[2] - box[0] + extent) * (box[3] - box[1] + extent);
}
double box_overlap(const double* a, const double* b, double extent) {
  double shared = 1;
  for (int i = 0; i < 2; ++i) {
    if (b[i] > a[2 + i] || b[2 + i] < a[i]) return 0;
    shared *= std::fmin(a[2 + i], b[2 + i]) - std::fmax(a[i], b[i]) + extent;
  }
  return shared / (box_area(a, extent) + box_area(b, extent) - shared);
}

// A derivative by central differences, good to about nine digits.
template <class Function>
double slope(Function function, double x) {
  const double h = 1e-4;
  return (8 * (function(x + h) - function(x - h)) - (function(x + 2 * h) - function(x - 2 * h))) / (12 * h);
}

// Special functions of positive numbers up to 4, from their definitions; conformance tries them everywhere.
double digamma(double x) {
  double sum = 0;
  for (; x < 20; ++x) sum -= 1 / x;
  const double square = x * x;
  return sum + std::log(x) - 1 / (2 * x) - (1.0 / 12 - (1.0 / 120 - 1 / (252 * square)) / square) / square;
}
double zeta(double s, double q) {
  double sum = 0;
  for (int k = 0; k < 1000; ++k) sum += std::pow(q + k, -s);
  const double end = q + 1000;
  return sum + std::pow(end, 1 - s) / (s - 1) + std::pow(end, -s) / 2 + s * std::pow(end, -s - 1) / 12;
}
double polygamma(double n, double x) {
  return n == 0 ? digamma(x) : (std::fmod(n, 2) == 0 ? -1 : 1) * std::tgamma(n + 1) * zeta(n + 1, x);
}
double igamma_term(double a, double x, int n) { return std::exp((a + n) * std::log(x) - x - std::lgamma(a + n + 1)); }
double igamma(double a, double x) {
  double sum = 0;
  for (int n = 0; n < 100; ++n) sum += igamma_term(a, x, n);
  return sum;
}
double igamma_slope(double a, double x) {
  double sum = 0;
  for (int n = 0; n < 100; ++n) sum += igamma_term(a, x, n) * (std::log(x) - digamma(a + n + 1));
  return sum;
}
double gamma_density(double a, double x) { return std::exp((a - 1) * std::log(x) - x - std::lgamma(a)); }
double bessel_i(double order, double x) {
  if (std::isinf(x)) return order == 1 && x < 0 ? -INFINITY : INFINITY;
  const double size = std::isnan(x) ? x : std::cyl_bessel_i(order, std::abs(x));
  return order == 1 && x < 0 ? -size : size;
}
double bessel_j(double order, double x) {
  return (order == 1 && x < 0 ? -1 : 1) * std::cyl_bessel_j(order, std::abs(x));
}
// A power series whose terms are all positive.
double dawson(double x) {
  double sum = 0, term = x;
  for (int n = 0; n < 100; ++n, term *= x * x / n) sum += term / (2 * n + 1);
  return std::exp(-x * x) * sum;
}
// The power series; extended, since terms of up to e^14 cancel.
double fresnel(double x, bool sine) {
  const long double half_pi_x2 = std::acos(-1.0L) / 2 * x * x;
  long double sum = 0, term = x;
  for (int n = 0; n < 100; ++n, term *= half_pi_x2 / n) {
    if ((n % 2 == 1) == sine) sum += (n % 4 < 2 ? 1 : -1) * term / (2 * n + 1);
  }
  return static_cast<double>(sum);
}
// The dilogarithm of z < 1, by Landen's formula left of 0.
double dilogarithm(double z) {
  if (z < 0) return -dilogarithm(z / (z - 1)) - std::log1p(-z) * std::log1p(-z) / 2;
  double sum = 0, power = z;
  for (int n = 1; n < 500; ++n, power *= z) sum += power / n / n;
  return sum;
}
double betainc(double a, double b, double x) {
  if (!(x >= 0 && x <= 1)) return std::nan("");
  if (x > 0.5) return 1 - betainc(b, a, 1 - x);
  double sum = 0,
         term =
             std::exp(a * std::log(x) + b * std::log1p(-x) - std::lgamma(a) - std::lgamma(b) + std::lgamma(a + b)) / a;
  for (int n = 0; n < 100; ++n, term *= x * (a + b + n - 1) / (a + n)) sum += term;
  return sum;
}
// By bisection.
double truncated_normal_quantile(double u, double low, double high) {
  if (!(u >= 0 && u <= 1 && low < high)) return std::nan("");
  const auto below = [](double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; };
  const double wanted = below(low) + u * (below(high) - below(low));
  for (int n = 0; n < 100; ++n) {
    const double middle = (low + high) / 2;
    (below(middle) < wanted ? low : high) = middle;
  }
  return low;
}
double bessel_scaled(double order, double x) {
  return std::isinf(x) ? (order == 1 && x < 0 ? -0.0 : 0.0) : bessel_i(order, x) * std::exp(-std::abs(x));
}
double first_over(double x, double first) { return x == 0 ? 0.5 : first / x; }
double erfinv(double x) {  // by bisection
  double low = -6, high = 6;
  for (int step = 0; step < 100; ++step) (std::erf((low + high) / 2) < x ? low : high) = (low + high) / 2;
  return (low + high) / 2;
}
double ndtri(double p) {
  if (!(p > 0 && p < 1)) return p == 0 ? -INFINITY : p == 1 ? INFINITY : NAN;
  double low = -40, high = 40;
  for (int step = 0; step < 100; ++step) {
    (normal_distribution((low + high) / 2) < p ? low : high) = (low + high) / 2;
  }
  return (low + high) / 2;
}
double fmax_of(double x, double y) { return x >= y || std::isnan(y) ? x : y; }
double fmin_of(double x, double y) { return x <= y || std::isnan(y) ? x : y; }
double heaviside(double x, double y) { return x == 0 ? y : x > 0; }

#define UHAL_REFERENCE(...) \
  []([[maybe_unused]] const double* x, [[maybe_unused]] const double* p, double* r) { __VA_ARGS__; }

constexpr Inputs kAny = Inputs::kAny;
constexpr Inputs kModerate = Inputs::kModerate;
constexpr Inputs kPositive = Inputs::kPositive;
constexpr Inputs kUnit = Inputs::kUnit;
constexpr Inputs kInteger = Inputs::kInteger;
constexpr Inputs kOrders = Inputs::kOrders;
constexpr Inputs kAboveOne = Inputs::kAboveOne;

const std::vector<MapReference> kReferences = {
    {"identity", kAny, 1, {}, UHAL_REFERENCE(r[0] = x[0])},
    {"negative", kAny, 1, {}, UHAL_REFERENCE(r[0] = -x[0])},
    {"absolute", kAny, 1, {}, UHAL_REFERENCE(r[0] = std::abs(x[0]))},
    {"sign", kAny, 1, {}, UHAL_REFERENCE(r[0] = std::isnan(x[0]) ? x[0] : (x[0] > 0) - (x[0] < 0))},
    {"square", kAny, 1, {}, UHAL_REFERENCE(r[0] = std::pow(x[0], 2))},
    {"reciprocal", kAny, 1, {}, UHAL_REFERENCE(r[0] = std::pow(x[0], -1))},
    {"scale", kAny, 1, {2, 3}, UHAL_REFERENCE(r[0] = p[0] * x[0] + p[1])},
    {"add_then_scale", kAny, 1, {2, 3}, UHAL_REFERENCE(r[0] = p[0] * (x[0] + p[1]))},
    {"clip", kAny, 1, {-1, 2}, UHAL_REFERENCE(r[0] = clamp(x[0], p[0], p[1]))},
    {"add", kAny, 2, {}, UHAL_REFERENCE(r[0] = x[0] + x[1])},
    {"subtract", kAny, 2, {}, UHAL_REFERENCE(r[0] = x[0] - x[1])},
    {"multiply", kAny, 2, {}, UHAL_REFERENCE(r[0] = x[0] * x[1])},
    {"divide", kAny, 2, {}, UHAL_REFERENCE(r[0] = x[0] / x[1])},
    {"divide_no_nan", kAny, 2, {}, UHAL_REFERENCE(r[0] = x[1] == 0 ? 0 : x[0] / x[1])},
    {"multiply_no_nan", kAny, 2, {}, UHAL_REFERENCE(r[0] = x[1] == 0 ? 0 : x[0] * x[1])},
    {"floor_divide", kInteger, 2, {}, UHAL_REFERENCE(r[0] = x[1] == 0 ? 0 : std::floor(x[0] / x[1]))},
    {"floor_divide_exact", kInteger, 2, {}, UHAL_REFERENCE(r[0] = std::floor(x[0] / x[1]))},
    {"floor_mod", kInteger, 2, {}, UHAL_REFERENCE(r[0] = x[1] == 0 ? 0 : x[0] - x[1] * std::floor(x[0] / x[1]))},
    {"truncate_divide", kInteger, 2, {}, UHAL_REFERENCE(r[0] = x[1] == 0 ? 0 : std::trunc(x[0] / x[1]))},
    {"truncate_mod", kInteger, 2, {}, UHAL_REFERENCE(r[0] = x[1] == 0 ? 0 : std::fmod(x[0], x[1]))},
    {"maximum", kAny, 2, {}, UHAL_REFERENCE(r[0] = maximum(x[0], x[1]))},
    {"minimum", kAny, 2, {}, UHAL_REFERENCE(r[0] = minimum(x[0], x[1]))},
    {"squared_difference", kAny, 2, {}, UHAL_REFERENCE(r[0] = std::pow(x[0] - x[1], 2))},
    {"power", kPositive, 2, {}, UHAL_REFERENCE(r[0] = std::pow(x[0], x[1]))},
    {"power_scalar", kPositive, 1, {-1.5}, UHAL_REFERENCE(r[0] = std::pow(x[0], p[0]))},
    {"multiply_add", kAny, 3, {}, UHAL_REFERENCE(r[0] = x[0] * x[1] + x[2])},
    {"linear_interpolation", kModerate, 3, {}, UHAL_REFERENCE(r[0] = x[0] * (1 - x[2]) + x[1] * x[2])},
    {"select", kAny, 3, {}, UHAL_REFERENCE(r[0] = x[0] == 0 ? x[2] : x[1])},
    {"floor", kAny, 1, {}, UHAL_REFERENCE(r[0] = std::floor(x[0]))},
    {"ceil", kAny, 1, {}, UHAL_REFERENCE(r[0] = std::ceil(x[0]))},
    {"round_half_to_even", kAny, 1, {}, UHAL_REFERENCE(r[0] = std::nearbyint(x[0]))},
    {"round_half_away", kAny, 1, {}, UHAL_REFERENCE(r[0] = std::copysign(std::floor(std::abs(x[0]) + 0.5), x[0]))},
    {"truncate", kAny, 1, {}, UHAL_REFERENCE(r[0] = x[0] < 0 ? std::ceil(x[0]) : std::floor(x[0]))},
    {"exp", kAny, 1, {}, UHAL_REFERENCE(r[0] = std::exp(x[0]))},
    {"expm1", kAny, 1, {}, UHAL_REFERENCE(r[0] = std::expm1(x[0]))},
    {"log", kAny, 1, {}, UHAL_REFERENCE(r[0] = std::log(x[0]))},
    {"log1p", kAny, 1, {}, UHAL_REFERENCE(r[0] = std::log1p(x[0]))},
    {"log2", kAny, 1, {}, UHAL_REFERENCE(r[0] = std::log2(x[0]))},
    {"log10", kAny, 1, {}, UHAL_REFERENCE(r[0] = std::log10(x[0]))},
    {"sqrt", kAny, 1, {}, UHAL_REFERENCE(r[0] = std::sqrt(x[0]))},
    {"rsqrt", kAny, 1, {}, UHAL_REFERENCE(r[0] = 1 / std::sqrt(x[0]))},
    {"sin", kAny, 1, {}, UHAL_REFERENCE(r[0] = std::sin(x[0]))},
    {"cos", kAny, 1, {}, UHAL_REFERENCE(r[0] = std::cos(x[0]))},
    {"tan", kUnit, 1, {}, UHAL_REFERENCE(r[0] = std::tan(x[0]))},
    {"asin", kAny, 1, {}, UHAL_REFERENCE(r[0] = std::asin(x[0]))},
    {"acos", kAny, 1, {}, UHAL_REFERENCE(r[0] = std::acos(x[0]))},
    {"atan", kAny, 1, {}, UHAL_REFERENCE(r[0] = std::atan(x[0]))},
    {"sinh", kAny, 1, {}, UHAL_REFERENCE(r[0] = std::sinh(x[0]))},
    {"cosh", kAny, 1, {}, UHAL_REFERENCE(r[0] = std::cosh(x[0]))},
    {"tanh", kAny, 1, {}, UHAL_REFERENCE(r[0] = std::tanh(x[0]))},
    {"asinh", kAny, 1, {}, UHAL_REFERENCE(r[0] = std::asinh(x[0]))},
    {"acosh", kAny, 1, {}, UHAL_REFERENCE(r[0] = std::acosh(x[0]))},
    {"atanh", kAny, 1, {}, UHAL_REFERENCE(r[0] = std::atanh(x[0]))},
    {"atan2", kAny, 2, {}, UHAL_REFERENCE(r[0] = std::atan2(x[0], x[1]))},
    {"erf", kAny, 1, {}, UHAL_REFERENCE(r[0] = std::erf(x[0]))},
    {"erfc", kAny, 1, {}, UHAL_REFERENCE(r[0] = std::erfc(x[0]))},
    {"relu", kAny, 1, {}, UHAL_REFERENCE(r[0] = maximum(x[0], 0))},
    {"relu6", kAny, 1, {}, UHAL_REFERENCE(r[0] = clamp(x[0], 0, 6))},
    {"leaky_relu", kAny, 1, {0.25}, UHAL_REFERENCE(r[0] = x[0] > 0 ? x[0] : p[0] * x[0])},
    {"elu", kAny, 1, {0.5}, UHAL_REFERENCE(r[0] = x[0] > 0 ? x[0] : p[0] * std::expm1(x[0]))},
    {"selu", kAny, 1, {1.05, 1.67}, UHAL_REFERENCE(r[0] = p[0] * (x[0] > 0 ? x[0] : p[1] * std::expm1(x[0])))},
    {"sigmoid", kAny, 1, {}, UHAL_REFERENCE(r[0] = sigmoid(x[0]))},
    {"log_sigmoid", kModerate, 1, {}, UHAL_REFERENCE(r[0] = std::log(sigmoid(x[0])))},
    {"silu", kModerate, 1, {}, UHAL_REFERENCE(r[0] = x[0] / (1 + std::exp(-x[0])))},
    {"swish", kModerate, 1, {1.5}, UHAL_REFERENCE(r[0] = x[0] / (1 + std::exp(-p[0] * x[0])))},
    {"gelu_erf", kModerate, 1, {}, UHAL_REFERENCE(r[0] = x[0] * normal_distribution(x[0]))},
    {"gelu_tanh", kModerate, 1, {}, UHAL_REFERENCE(r[0] = gelu_tanh(x[0]))},
    {"softplus", kModerate, 1, {2, 20}, UHAL_REFERENCE(r[0] = softplus(p[0] * x[0]) / p[0])},
    {"softsign", kModerate, 1, {}, UHAL_REFERENCE(r[0] = x[0] / (1 + std::abs(x[0])))},
    {"mish", kModerate, 1, {}, UHAL_REFERENCE(r[0] = x[0] * std::tanh(softplus(x[0])))},
    {"hard_sigmoid", kAny, 1, {0.2, 0.5}, UHAL_REFERENCE(r[0] = clamp(p[0] * x[0] + p[1], 0, 1))},
    {"hard_swish", kModerate, 1, {6, 6, 3}, UHAL_REFERENCE(r[0] = x[0] * clamp(x[0] + p[2], 0, p[0]) / p[1])},
    {"hard_tanh", kAny, 1, {-1, 1}, UHAL_REFERENCE(r[0] = clamp(x[0], p[0], p[1]))},
    {"hard_shrink", kModerate, 1, {0.5}, UHAL_REFERENCE(r[0] = std::abs(x[0]) > p[0] ? x[0] : 0)},
    {"soft_shrink",
     kModerate,
     1,
     {0.5},
     UHAL_REFERENCE(r[0] = std::copysign(std::fmax(std::abs(x[0]) - p[0], 0), x[0]))},
    {"thresholded_relu", kModerate, 1, {1, 0}, UHAL_REFERENCE(r[0] = x[0] > p[0] ? x[0] : p[1])},
    {"is_nan", kAny, 1, {}, UHAL_REFERENCE(r[0] = std::isnan(x[0]))},
    {"is_infinite", kAny, 1, {}, UHAL_REFERENCE(r[0] = std::isinf(x[0]))},
    {"is_finite", kAny, 1, {}, UHAL_REFERENCE(r[0] = std::isfinite(x[0]))},
    {"equal", kAny, 2, {}, UHAL_REFERENCE(r[0] = x[0] == x[1])},
    {"not_equal", kAny, 2, {}, UHAL_REFERENCE(r[0] = x[0] != x[1])},
    {"less", kAny, 2, {}, UHAL_REFERENCE(r[0] = x[0] < x[1])},
    {"less_equal", kAny, 2, {}, UHAL_REFERENCE(r[0] = x[0] <= x[1])},
    {"greater", kAny, 2, {}, UHAL_REFERENCE(r[0] = x[0] > x[1])},
    {"greater_equal", kAny, 2, {}, UHAL_REFERENCE(r[0] = x[0] >= x[1])},
    {"logical_not", kAny, 1, {}, UHAL_REFERENCE(r[0] = !(x[0] != 0))},
    {"logical_and", kAny, 2, {}, UHAL_REFERENCE(r[0] = x[0] != 0 && x[1] != 0)},
    {"logical_or", kAny, 2, {}, UHAL_REFERENCE(r[0] = x[0] != 0 || x[1] != 0)},
    {"logical_xor", kAny, 2, {}, UHAL_REFERENCE(r[0] = (x[0] != 0) ^ (x[1] != 0))},
    {"bitwise_not", kInteger, 1, {}, UHAL_REFERENCE(r[0] = static_cast<double>(~whole(x[0])))},
    {"bitwise_and", kInteger, 2, {}, UHAL_REFERENCE(r[0] = static_cast<double>(whole(x[0]) & whole(x[1])))},
    {"bitwise_or", kInteger, 2, {}, UHAL_REFERENCE(r[0] = static_cast<double>(whole(x[0]) | whole(x[1])))},
    {"bitwise_xor", kInteger, 2, {}, UHAL_REFERENCE(r[0] = static_cast<double>(whole(x[0]) ^ whole(x[1])))},
    {"shift_left", kInteger, 2, {}, UHAL_REFERENCE(r[0] = x[1] < 0 ? 0 : x[0] * std::exp2(x[1]))},
    {"shift_right",
     kInteger,
     2,
     {},
     UHAL_REFERENCE(r[0] = x[1] < 0 ? (x[0] < 0 ? -1 : 0) : std::floor(x[0] / std::exp2(x[1])))},
    {"relu_backward", kModerate, 2, {}, UHAL_REFERENCE(r[0] = x[0] > 0 ? x[1] : 0)},
    {"relu6_backward", kModerate, 2, {}, UHAL_REFERENCE(r[0] = x[0] > 0 && x[0] < 6 ? x[1] : 0)},
    {"leaky_relu_backward", kModerate, 2, {0.25, 1}, UHAL_REFERENCE(r[0] = x[1] * (x[0] >= 0 ? 1 : p[0]))},
    {"elu_backward", kModerate, 2, {0.5}, UHAL_REFERENCE(r[0] = x[1] * (x[0] > 0 ? 1 : p[0] * std::exp(x[0])))},
    {"selu_backward", kModerate, 2, {1.05, 1.67}, UHAL_REFERENCE(r[0] = x[1] * (x[0] > 0 ? p[0] : x[0] + p[0] * p[1]))},
    {"sigmoid_backward", kModerate, 2, {}, UHAL_REFERENCE(r[0] = x[1] * (x[0] - x[0] * x[0]))},
    {"tanh_backward", kModerate, 2, {}, UHAL_REFERENCE(r[0] = x[1] - x[1] * x[0] * x[0])},
    {"log_sigmoid_backward",
     kModerate,
     2,
     {},
     UHAL_REFERENCE(r[0] = x[1] * slope([](double v) { return std::log(sigmoid(v)); }, x[0]))},
    {"silu_backward",
     kModerate,
     2,
     {},
     UHAL_REFERENCE(r[0] = x[1] * slope([](double v) { return v * sigmoid(v); }, x[0]))},
    {"swish_backward",
     kModerate,
     2,
     {1.5},
     UHAL_REFERENCE(r[0] = x[1] * slope([&](double v) { return v * sigmoid(p[0] * v); }, x[0]))},
    {"gelu_erf_backward",
     kModerate,
     2,
     {},
     UHAL_REFERENCE(r[0] = x[1] * (normal_distribution(x[0]) + x[0] * normal_density(x[0])))},
    {"gelu_tanh_backward", kModerate, 2, {}, UHAL_REFERENCE(r[0] = x[1] * slope(gelu_tanh, x[0]))},
    {"softplus_backward",
     kModerate,
     2,
     {2, 20},
     UHAL_REFERENCE(r[0] = x[1] * slope([&](double v) { return softplus(p[0] * v) / p[0]; }, x[0]))},
    {"softsign_backward", kModerate, 2, {}, UHAL_REFERENCE(r[0] = x[1] * std::pow(1 + std::abs(x[0]), -2))},
    {"hard_sigmoid_backward", kModerate, 2, {0.2}, UHAL_REFERENCE(r[0] = x[0] > 0 && x[0] < 1 ? p[0] * x[1] : 0)},
    {"hard_swish_backward",
     kUnit,
     2,
     {6, 6, 3},
     UHAL_REFERENCE(r[0] = x[1] * slope([&](double v) { return v * clamp(v + p[2], 0, p[0]) / p[1]; }, x[0]))},
    {"hard_tanh_backward", kModerate, 2, {-1, 1}, UHAL_REFERENCE(r[0] = x[0] > p[0] && x[0] < p[1] ? x[1] : 0)},
    {"clip_backward", kModerate, 2, {-1, 1}, UHAL_REFERENCE(r[0] = x[0] < p[0] || x[0] > p[1] ? 0 : x[1])},
    {"sqrt_backward", kPositive, 2, {}, UHAL_REFERENCE(r[0] = x[1] / (2 * x[0]))},
    {"rsqrt_backward", kPositive, 2, {}, UHAL_REFERENCE(r[0] = -0.5 * std::pow(x[0], 3) * x[1])},
    {"reciprocal_backward", kModerate, 2, {}, UHAL_REFERENCE(r[0] = -x[0] * x[0] * x[1])},
    {"square_backward", kModerate, 2, {}, UHAL_REFERENCE(r[0] = 2 * x[0] * x[1])},
    {"absolute_backward", kModerate, 2, {}, UHAL_REFERENCE(r[0] = x[0] == 0 ? 0 : std::copysign(x[1], x[0] * x[1]))},
    {"sin_backward", kModerate, 2, {}, UHAL_REFERENCE(r[0] = x[1] * std::cos(x[0]))},
    {"cos_backward", kModerate, 2, {}, UHAL_REFERENCE(r[0] = -x[1] * std::sin(x[0]))},
    {"erf_backward", kModerate, 2, {}, UHAL_REFERENCE(r[0] = x[1] * 2 / std::sqrt(M_PI) * std::exp(-x[0] * x[0]))},
    {"power_scalar_backward", kPositive, 2, {-1.5}, UHAL_REFERENCE(r[0] = x[1] * p[0] * std::pow(x[0], p[0]) / x[0])},
    {"divide_backward_divisor", kPositive, 3, {}, UHAL_REFERENCE(r[0] = -x[2] * x[0] * std::pow(x[1], -2))},
    {"maximum_backward_first",
     kModerate,
     3,
     {0.25},
     UHAL_REFERENCE(r[0] = x[2] * (x[0] > x[1]    ? 1
                                   : x[0] == x[1] ? 0.75
                                                  : 0))},
    {"maximum_backward_second",
     kModerate,
     3,
     {0.25},
     UHAL_REFERENCE(r[0] = x[2] * (x[0] < x[1]    ? 1
                                   : x[0] == x[1] ? 0.25
                                                  : 0))},
    {"minimum_backward_first",
     kModerate,
     3,
     {0.25},
     UHAL_REFERENCE(r[0] = x[2] * (x[0] < x[1]    ? 1
                                   : x[0] == x[1] ? 0.75
                                                  : 0))},
    {"minimum_backward_second",
     kModerate,
     3,
     {0.25},
     UHAL_REFERENCE(r[0] = x[2] * (x[0] > x[1]    ? 1
                                   : x[0] == x[1] ? 0.25
                                                  : 0))},
    {"sgd", kModerate, 3, {}, UHAL_REFERENCE(r[0] = x[0] - x[1] * x[2])},
    {"momentum",
     kModerate,
     4,
     {0.9, 1, 0.01, 0.5},
     UHAL_REFERENCE(const double g = x[1] * p[3] + x[0] * p[2]; r[1] = p[0] * x[2] + g;
                    r[0] = x[0] - x[3] * (g + p[0] * r[1]))},
    {"adam",
     kUnit,
     7,
     {0.9, 0.99, 1e-3, 0.01, 2},
     UHAL_REFERENCE(r[1] = p[0] * x[2] + (1 - p[0]) * x[1]; r[2] = p[1] * x[3] + (1 - p[1]) * x[1] * x[1];
                    const double first = r[1] / (1 - x[5]); const double second = r[2] / (1 - x[6]);
                    const double rate = x[4] * p[4];
                    r[0] = x[0] - rate * p[3] * x[0] - rate * first / (std::sqrt(second) + p[2]))},
    {"adam_epsilon_hat",
     kUnit,
     7,
     {0.9, 0.99, 1e-3},
     UHAL_REFERENCE(r[1] = p[0] * x[2] + (1 - p[0]) * x[1]; r[2] = p[1] * x[3] + (1 - p[1]) * x[1] * x[1];
                    const double rate = x[4] * std::sqrt(1 - x[6]) / (1 - x[5]);
                    r[0] = x[0] - rate * r[1] / (std::sqrt(r[2]) + p[2]))},
    {"adam_amsgrad",
     kUnit,
     8,
     {0.9, 0.99, 1e-3, 0.01, 2},
     UHAL_REFERENCE(r[1] = p[0] * x[2] + (1 - p[0]) * x[1]; r[2] = p[1] * x[3] + (1 - p[1]) * x[1] * x[1];
                    r[3] = std::max(r[2], x[7]); const double first = r[1] / (1 - x[5]);
                    const double second = r[3] / (1 - x[6]); const double rate = x[4] * p[4];
                    r[0] = x[0] - rate * p[3] * x[0] - rate * first / (std::sqrt(second) + p[2]))},
    {"adagrad",
     kPositive,
     4,
     {1e-3},
     UHAL_REFERENCE(r[1] = x[2] + x[1] * x[1]; r[0] = x[0] - x[3] * x[1] / (std::sqrt(r[1]) + p[0]))},
    {"rmsprop",
     kPositive,
     5,
     {0.9, 0.5, 1e-3},
     UHAL_REFERENCE(r[1] = p[0] * x[2] + (1 - p[0]) * x[1] * x[1];
                    r[2] = p[1] * x[3] + x[4] * x[1] / std::sqrt(r[1] + p[2]); r[0] = x[0] - r[2])},
    {"adam_corrected",
     kUnit,
     5,
     {0.9, 0.99, 1e-3, 0.01, 2},
     UHAL_REFERENCE(r[1] = p[0] * x[2] + (1 - p[0]) * x[1]; r[2] = p[1] * x[3] + (1 - p[1]) * x[1] * x[1];
                    r[0] = x[0] - x[4] * (p[3] * x[0] + p[4] * r[1] / (std::sqrt(r[2]) + p[2])))},
    {"adam_by_difference",
     kUnit,
     5,
     {0.1, 0.01, 1e-3},
     UHAL_REFERENCE(r[1] = (1 - p[0]) * x[2] + p[0] * x[1]; r[2] = (1 - p[1]) * x[3] + p[1] * x[1] * x[1];
                    r[0] = x[0] - x[4] * r[1] / (std::sqrt(r[2]) + p[2]))},
    {"adamw_by_difference",
     kUnit,
     6,
     {0.1, 0.01, 1e-3},
     UHAL_REFERENCE(r[1] = (1 - p[0]) * x[2] + p[0] * x[1]; r[2] = (1 - p[1]) * x[3] + p[1] * x[1] * x[1];
                    r[0] = (1 - x[5]) * x[0] - x[4] * r[1] / (std::sqrt(r[2]) + p[2]))},
    {"rmsprop_centered",
     kUnit,
     6,
     {0.9, 0.5, 1.5},
     UHAL_REFERENCE(r[1] = p[0] * x[2] + (1 - p[0]) * x[1] * x[1]; r[3] = p[0] * x[5] + (1 - p[0]) * x[1];
                    r[2] = p[1] * x[3] + x[4] * x[1] / std::sqrt(r[1] - r[3] * r[3] + p[2]); r[0] = x[0] - r[2])},
    {"adadelta",
     kUnit,
     5,
     {0.9, 1e-3},
     UHAL_REFERENCE(r[1] = p[0] * x[2] + (1 - p[0]) * x[1] * x[1];
                    const double change = std::sqrt((x[3] + p[1]) / (r[1] + p[1])) * x[1]; r[0] = x[0] - x[4] * change;
                    r[2] = p[0] * x[3] + (1 - p[0]) * change * change)},
    {"adamax",
     kUnit,
     6,
     {0.9, 0.5, 1e-3},
     UHAL_REFERENCE(r[1] = p[0] * x[2] + (1 - p[0]) * x[1]; r[2] = std::fmax(std::abs(x[1]), p[1] * x[3] + p[2]);
                    r[0] = x[0] - x[4] * r[1] / ((1 - x[5]) * r[2]))},
    {"adam_amsgrad_epsilon_hat",
     kUnit,
     8,
     {0.9, 0.99, 1e-3},
     UHAL_REFERENCE(r[1] = p[0] * x[2] + (1 - p[0]) * x[1]; r[2] = p[1] * x[3] + (1 - p[1]) * x[1] * x[1];
                    r[3] = std::max(r[2], x[7]);
                    r[0] = x[0] - x[4] * std::sqrt(1 - x[6]) / (1 - x[5]) * r[1] / (std::sqrt(r[3]) + p[2]))},
    {"adamax_epsilon_outside",
     kUnit,
     6,
     {0.9, 0.5, 1e-3},
     UHAL_REFERENCE(r[1] = p[0] * x[2] + (1 - p[0]) * x[1]; r[2] = std::fmax(std::abs(x[1]), p[1] * x[3]);
                    r[0] = x[0] - x[4] * r[1] / ((1 - x[5]) * (r[2] + p[2])))},
    {"ftrl",
     kPositive,
     5,
     {0.01, 0.2, -0.7, 0.01, 0},
     UHAL_REFERENCE(r[1] = x[2] + x[1] * x[1]; const double now = std::pow(r[1], -p[2]);
                    const double change = (now - std::pow(x[2], -p[2])) / x[4] * x[0];
                    r[2] = x[3] + x[1] + 2 * p[3] * x[0] - change; const double sign = r[2] > 0 ? 1 : -1;
                    r[0] = std::abs(r[2]) > p[0] ? (sign * p[0] - r[2]) / (now / x[4] + 2 * p[1]) : 0)},
    {"add_sign",
     kPositive,
     4,
     {0.9, 1, 0.5},
     UHAL_REFERENCE(r[1] = p[0] * x[2] + (1 - p[0]) * x[1]; r[0] = x[0] - x[3] * (p[1] + p[2]) * x[1])},
    {"power_sign",
     kPositive,
     4,
     {0.9, 0.5},
     UHAL_REFERENCE(r[1] = p[0] * x[2] + (1 - p[0]) * x[1]; r[0] = x[0] - x[3] * std::exp(p[1]) * x[1])},
    {"proximal_gradient_descent",
     kPositive,
     3,
     {0.1, 0.2},
     UHAL_REFERENCE(const double moved = x[0] - x[2] * x[1];
                    r[0] = std::copysign(std::fmax(std::abs(moved) - x[2] * p[0], 0), moved) / (1 + x[2] * p[1]))},
    {"proximal_adagrad",
     kPositive,
     4,
     {0.1, 0.2},
     UHAL_REFERENCE(r[1] = x[2] + x[1] * x[1]; const double rate = x[3] / std::sqrt(r[1]);
                    const double moved = x[0] - rate * x[1];
                    r[0] = std::copysign(std::fmax(std::abs(moved) - rate * p[0], 0), moved) / (1 + rate * p[1]))},
    {"asgd",
     kPositive,
     6,
     {},
     UHAL_REFERENCE(r[1] = x[3] - x[4] + x[1]; r[2] = x[1]; r[0] = x[0] - x[2] * r[1] / x[5])},
    {"rprop",
     kAny,
     8,
     {},
     UHAL_REFERENCE(const double same = x[1] * x[2]; r[2] = same > 0   ? (x[3] * x[7] < x[5] ? x[3] * x[7] : x[5])
                                                            : same < 0 ? (x[3] * x[6] > x[4] ? x[3] * x[6] : x[4])
                                                                       : x[3];
                    r[1] = same < 0 ? 0 : x[1];
                    r[0] = std::isnan(r[1]) ? r[1] : x[0] - ((r[1] > 0) - (r[1] < 0)) * (r[1] == 0 ? 0 : r[2]))},
    {"lamb_direction",
     kUnit,
     6,
     {0.9, 0.5, 1e-3, 0.25},
     UHAL_REFERENCE(r[1] = p[0] * x[2] + (1 - p[0]) * x[1]; r[2] = p[1] * x[3] + (1 - p[1]) * x[1] * x[1];
                    r[0] = r[1] / (1 - x[4]) / (std::sqrt(r[2] / (1 - x[5])) + p[2]) + p[3] * x[0])},
    {"lamb_rate", kModerate, 3, {}, UHAL_REFERENCE(r[0] = x[1] > 0 && x[2] > 0 ? x[0] * x[1] / x[2] : x[0])},
    {"nadam_schedule",
     kUnit,
     2,
     {0.9, 0.25},
     UHAL_REFERENCE(r[0] = 0.96 * x[0]; const double now = p[0] * (1 - 0.5 * std::pow(r[0], p[1]));
                    const double next = p[0] * (1 - 0.5 * std::pow(0.96 * r[0], p[1])); r[1] = x[1] * now;
                    r[2] = next / (1 - r[1] * next); r[3] = (1 - now) / (1 - r[1]))},
    {"nadam",
     kUnit,
     8,
     {0.9, 0.5, 1e-3},
     UHAL_REFERENCE(r[1] = p[0] * x[2] + (1 - p[0]) * x[1]; r[2] = p[1] * x[3] + (1 - p[1]) * x[1] * x[1];
                    r[0] = x[0] - x[4] * (x[5] * r[1] + x[6] * x[1]) / (std::sqrt(r[2] / (1 - x[7])) + p[2]))},
    {"radam_schedule",
     kUnit,
     3,
     {0.9, 0.75},
     UHAL_REFERENCE(r[0] = p[0] * x[0]; r[1] = p[1] * x[1]; r[2] = (x[2] * (p[1] - r[1]) + r[1]) / (1 - r[1]);
                    const double limit = 2 / (1 - p[1]) - 1; const double n = limit - 2 * r[2];
                    r[3] = n > 5 ? std::sqrt((n - 4) * (n - 2) * limit / ((limit - 4) * (limit - 2) * n) * (1 - r[1]))
                                 : -1)},
    {"radam",
     kUnit,
     7,
     {0.9, 0.5, 1e-3},
     UHAL_REFERENCE(r[1] = p[0] * x[2] + (1 - p[0]) * x[1]; r[2] = p[1] * x[3] + (1 - p[1]) * x[1] * x[1];
                    const double change = x[4] * r[1] / (1 - x[5]);
                    r[0] = x[0] - (x[6] < 0 ? change : change * x[6] / (std::sqrt(r[2]) + p[2])))},
    {"adam_rate",
     kPositive,
     2,
     {0.5, 0.25},
     UHAL_REFERENCE(r[0] = x[0] * std::sqrt(1 - std::pow(p[1], x[1])) / (1 - std::pow(p[0], x[1])))},
    {"replace_negative_zero", kAny, 1, {-2}, UHAL_REFERENCE(r[0] = x[0] == 0 && std::signbit(x[0]) ? p[0] : x[0])},
    {"x_divided_by_y", kAny, 2, {}, UHAL_REFERENCE(r[0] = x[0] == 0 ? 0 : x[0] / x[1])},
    {"x_log_y", kPositive, 2, {}, UHAL_REFERENCE(r[0] = x[0] * std::log(x[1]))},
    {"x_log1p_y", kPositive, 2, {}, UHAL_REFERENCE(r[0] = x[0] * std::log1p(x[1]))},
    {"momentum_with_rate",
     kModerate,
     4,
     {0.9, 1},
     UHAL_REFERENCE(r[1] = p[0] * x[2] - x[3] * x[1]; r[0] = x[0] + p[0] * r[1] - x[3] * x[1])},
    // Of real numbers; of complex ones conformance has the references.
    {"conjugate", kAny, 1, {}, UHAL_REFERENCE(r[0] = x[0])},
    {"real", kAny, 1, {}, UHAL_REFERENCE(r[0] = x[0])},
    {"imaginary", kAny, 1, {}, UHAL_REFERENCE(r[0] = 0)},
    {"angle", kAny, 1, {}, UHAL_REFERENCE(r[0] = std::isnan(x[0]) ? x[0] : (x[0] < 0) * std::acos(-1.0))},
    {"complex", kAny, 2, {}, UHAL_REFERENCE(r[0] = x[0])},
    {"polar", kModerate, 2, {}, UHAL_REFERENCE(r[0] = x[0] * std::cos(x[1]))},
    {"multiply_conjugate", kAny, 2, {}, UHAL_REFERENCE(r[0] = x[0] * x[1])},
    {"divide_conjugate", kAny, 2, {}, UHAL_REFERENCE(r[0] = x[0] / x[1])},
    {"angle_backward", kAny, 2, {}, UHAL_REFERENCE(r[0] = std::isnan(x[0]) || std::isnan(x[1]) ? x[0] + x[1] : 0)},
    {"lgamma", kPositive, 1, {}, UHAL_REFERENCE(r[0] = std::lgamma(x[0]))},
    {"digamma", kPositive, 1, {}, UHAL_REFERENCE(r[0] = digamma(x[0]))},
    {"polygamma", kOrders, 2, {}, UHAL_REFERENCE(r[0] = polygamma(x[0], x[1]))},
    {"zeta", kAboveOne, 2, {}, UHAL_REFERENCE(r[0] = zeta(x[0], x[1]))},
    {"igamma", kPositive, 2, {}, UHAL_REFERENCE(r[0] = igamma(x[0], x[1]))},
    {"igammac", kPositive, 2, {}, UHAL_REFERENCE(r[0] = 1 - igamma(x[0], x[1]))},
    {"bessel_i0", kAny, 1, {}, UHAL_REFERENCE(r[0] = bessel_i(0, x[0]))},
    {"bessel_i0e", kAny, 1, {}, UHAL_REFERENCE(r[0] = bessel_scaled(0, x[0]))},
    {"bessel_i1", kAny, 1, {}, UHAL_REFERENCE(r[0] = bessel_i(1, x[0]))},
    {"bessel_i1e", kAny, 1, {}, UHAL_REFERENCE(r[0] = bessel_scaled(1, x[0]))},
    {"erfinv", kUnit, 1, {}, UHAL_REFERENCE(r[0] = erfinv(x[0]))},
    {"ndtri", kUnit, 1, {}, UHAL_REFERENCE(r[0] = ndtri(x[0]))},
    {"nextafter", kModerate, 2, {}, UHAL_REFERENCE(r[0] = std::nextafter(x[0], x[1]))},
    {"ldexp", kOrders, 2, {}, UHAL_REFERENCE(r[0] = x[0] * std::pow(2, std::trunc(x[1])))},
    {"copysign", kAny, 2, {}, UHAL_REFERENCE(r[0] = std::copysign(x[0], x[1]))},
    {"heaviside", kAny, 2, {}, UHAL_REFERENCE(r[0] = heaviside(x[0], x[1]))},
    {"gcd", kInteger, 2, {}, UHAL_REFERENCE(r[0] = static_cast<double>(std::gcd(whole(x[0]), whole(x[1]))))},
    {"lcm", kInteger, 2, {}, UHAL_REFERENCE(r[0] = static_cast<double>(std::lcm(whole(x[0]), whole(x[1]))))},
    {"fmax", kAny, 2, {}, UHAL_REFERENCE(r[0] = fmax_of(x[0], x[1]))},
    {"fmin", kAny, 2, {}, UHAL_REFERENCE(r[0] = fmin_of(x[0], x[1]))},
    {"lgamma_backward", kPositive, 2, {}, UHAL_REFERENCE(r[0] = x[1] * digamma(x[0]))},
    {"digamma_backward", kPositive, 2, {}, UHAL_REFERENCE(r[0] = x[1] * zeta(2, x[0]))},
    {"polygamma_backward", kOrders, 3, {}, UHAL_REFERENCE(r[0] = x[2] * polygamma(x[0] + 1, x[1]))},
    {"igamma_backward_first", kPositive, 3, {}, UHAL_REFERENCE(r[0] = x[2] * igamma_slope(x[0], x[1]))},
    {"igamma_backward_second", kPositive, 3, {}, UHAL_REFERENCE(r[0] = x[2] * gamma_density(x[0], x[1]))},
    {"igammac_backward_first", kPositive, 3, {}, UHAL_REFERENCE(r[0] = -x[2] * igamma_slope(x[0], x[1]))},
    {"igammac_backward_second", kPositive, 3, {}, UHAL_REFERENCE(r[0] = -x[2] * gamma_density(x[0], x[1]))},
    {"gamma_sample_backward",
     kPositive,
     3,
     {},
     UHAL_REFERENCE(r[0] = -x[2] * igamma_slope(x[0], x[1]) / gamma_density(x[0], x[1]))},
    {"bessel_i0_backward", kModerate, 2, {}, UHAL_REFERENCE(r[0] = x[1] * bessel_i(1, x[0]))},
    {"bessel_i0e_backward",
     kModerate,
     2,
     {},
     UHAL_REFERENCE(r[0] = x[1] * (bessel_scaled(1, x[0]) - std::copysign(bessel_scaled(0, x[0]), x[0])))},
    {"bessel_i1_backward",
     kModerate,
     2,
     {},
     UHAL_REFERENCE(r[0] = x[1] * (bessel_i(0, x[0]) - first_over(x[0], bessel_i(1, x[0]))))},
    {"bessel_i1e_backward",
     kModerate,
     2,
     {},
     UHAL_REFERENCE(r[0] = x[1] * (bessel_scaled(0, x[0]) - first_over(x[0], bessel_scaled(1, x[0])) -
                                   std::abs(bessel_scaled(1, x[0]))))},
    {"erfinv_backward", kModerate, 2, {}, UHAL_REFERENCE(r[0] = x[1] * std::sqrt(M_PI) / 2 * std::exp(x[0] * x[0]))},
    {"ndtri_backward", kModerate, 2, {}, UHAL_REFERENCE(r[0] = x[1] / normal_density(x[0]))},
    {"copysign_backward",
     kModerate,
     3,
     {},
     UHAL_REFERENCE(r[0] = (std::signbit(x[0]) == std::signbit(x[1]) ? x[2] : -x[2]))},
    {"heaviside_backward_second", kAny, 2, {}, UHAL_REFERENCE(r[0] = x[0] == 0 ? x[1] : 0)},
    {"fmax_backward_first", kModerate, 3, {}, UHAL_REFERENCE(r[0] = x[0] >= x[1] ? x[2] : 0)},
    {"fmax_backward_second", kModerate, 3, {}, UHAL_REFERENCE(r[0] = x[0] >= x[1] ? 0 : x[2])},
    {"fmin_backward_first", kModerate, 3, {}, UHAL_REFERENCE(r[0] = x[0] <= x[1] ? x[2] : 0)},
    {"fmin_backward_second", kModerate, 3, {}, UHAL_REFERENCE(r[0] = x[0] <= x[1] ? 0 : x[2])},
    {"quantize_linear", kPositive, 3, {-8, 7}, UHAL_REFERENCE(r[0] = quantized(x, p))},
    {"dequantize_linear", kAny, 3, {}, UHAL_REFERENCE(r[0] = (x[0] - x[2]) * x[1])},
    {"fake_quantize_linear", kPositive, 3, {-8, 7}, UHAL_REFERENCE(r[0] = (quantized(x, p) - x[2]) * x[1])},
    {"fake_quantize_linear_backward",
     kPositive,
     4,
     {-2, 5},
     UHAL_REFERENCE(const double q = std::nearbyint(x[0] / x[1]) + x[2]; r[0] = q < p[0] || q > p[1] ? 0 : x[3])},
    {"fake_quantize_range",
     kModerate,
     3,
     {0, 15.0037},  // whole numbers of steps would meet ties
     UHAL_REFERENCE(const Range range = range_of(x, p);
                    const double steps = (between(x[0], range.low, range.high) - range.low) / range.step;
                    r[0] = std::floor(steps - std::floor(0.5 - range.low / range.step) + 0.5) * range.step)},
    {"fake_quantize_range_backward",
     kModerate,
     4,
     {0, 15.0037},  // whole numbers of steps would meet ties
     UHAL_REFERENCE(const Range range = range_of(x, p);
                    const bool below = x[0]<range.low; const bool above = x[0]> range.high;
                    r[0] = !below && !above ? x[3] : 0; r[1] = below ? x[3] : 0; r[2] = above ? x[3] : 0)},
    {"quantize_dequantize_range",
     kPositive,
     3,
     {-8, 7.0037, 1, 1},  // whole numbers of steps would meet ties
     UHAL_REFERENCE(const double step = x[2] / p[1];
                    r[0] = std::floor(between(x[0], p[0] * step, x[2]) / step + 0.5) * step)},
    {"population_count",
     kInteger,
     1,
     {},
     UHAL_REFERENCE(r[0] = 0; for (auto bits = static_cast<uint64_t>(static_cast<int64_t>(x[0])); bits != 0;
                                   bits /= 2) { r[0] += static_cast<double>(bits % 2); })},
    {"truncated_normal_quantile", kUnit, 3, {}, UHAL_REFERENCE(r[0] = truncated_normal_quantile(x[0], x[1], x[2]))},
    {"lstm_cell",
     kModerate,
     6,
     {0.5, 0.75},
     UHAL_REFERENCE(r[0] = sigmoid(x[0] + x[3] * x[4]); r[1] = std::tanh(x[1]);
                    r[2] = sigmoid(x[2] + p[0] + x[3] * x[5]); r[3] = between(r[1] * r[0] + r[2] * x[3], -p[1], p[1]))},
    {"lstm_output",
     kModerate,
     3,
     {},
     UHAL_REFERENCE(r[0] = sigmoid(x[0] + x[1] * x[2]); r[1] = std::tanh(x[1]); r[2] = r[0] * r[1])},
    {"lstm_output_backward",
     kUnit,
     7,
     {},
     UHAL_REFERENCE(const double dy = x[2] + x[3]; r[0] = dy * x[1] * x[0] * (1 - x[0]);
                    r[1] = x[4] + x[5] + dy * x[0] * (1 - x[1] * x[1]) + r[0] * x[6])},
    {"lstm_cell_backward",
     kUnit,
     7,
     {},
     UHAL_REFERENCE(r[0] = x[0] * x[2] * x[1] * (1 - x[1]); r[1] = x[0] * x[1] * (1 - x[2] * x[2]);
                    r[2] = x[0] * x[4] * x[3] * (1 - x[3]); r[3] = x[0] * x[3] + r[0] * x[5] + r[2] * x[6])},
    {"bessel_j0", kModerate, 1, {}, UHAL_REFERENCE(r[0] = bessel_j(0, x[0]))},
    {"bessel_j1", kModerate, 1, {}, UHAL_REFERENCE(r[0] = bessel_j(1, x[0]))},
    {"bessel_y0", kPositive, 1, {}, UHAL_REFERENCE(r[0] = std::cyl_neumann(0, x[0]))},
    {"bessel_y1", kPositive, 1, {}, UHAL_REFERENCE(r[0] = std::cyl_neumann(1, x[0]))},
    {"bessel_k0", kPositive, 1, {}, UHAL_REFERENCE(r[0] = std::cyl_bessel_k(0, x[0]))},
    {"bessel_k0e", kPositive, 1, {}, UHAL_REFERENCE(r[0] = std::cyl_bessel_k(0, x[0]) * std::exp(x[0]))},
    {"bessel_k1", kPositive, 1, {}, UHAL_REFERENCE(r[0] = std::cyl_bessel_k(1, x[0]))},
    {"bessel_k1e", kPositive, 1, {}, UHAL_REFERENCE(r[0] = std::cyl_bessel_k(1, x[0]) * std::exp(x[0]))},
    {"dawson", kModerate, 1, {}, UHAL_REFERENCE(r[0] = dawson(x[0]))},
    {"expint", kPositive, 1, {}, UHAL_REFERENCE(r[0] = std::expint(x[0]))},
    {"fresnel_sin", kModerate, 1, {}, UHAL_REFERENCE(r[0] = fresnel(x[0], true))},
    {"fresnel_cos", kModerate, 1, {}, UHAL_REFERENCE(r[0] = fresnel(x[0], false))},
    {"spence", kPositive, 1, {}, UHAL_REFERENCE(r[0] = dilogarithm(1 - x[0]))},
    {"betainc", kPositive, 3, {}, UHAL_REFERENCE(r[0] = betainc(x[0], x[1], x[2]))},
    {"box_overlap", kModerate, 8, {0.5}, UHAL_REFERENCE(r[0] = box_overlap(x, x + 4, p[0]))},
};

}  // namespace

const std::vector<MapReference>& map_references() { return kReferences; }

}  // namespace data_test
