// Softmax of one row of adjacent elements, shared by softmax, cross entropy and attention. T is float or double.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "stub/vector/compute.h"
#include "stub/vector/vectorize.h"

namespace unihal::stub {

// x[i] = exp(x[i])
template <typename T>
void exponentiate(int64_t count, T* x) {
  constexpr ComputeType kType = std::is_same_v<T, double> ? kDouble : kFloat;
  const void* inputs[] = {x};
  void* outputs[] = {x};
  const T parameters[UHAL_MAP_MAX_PARAMETERS] = {};
  vectors().map[uhal_map_exp][kType](count, inputs, outputs, parameters);
}

template <typename T>
UNIHAL_VECTORIZED void raise_to(int64_t count, T least, T* x) {
  for (int64_t i = 0; i < count; ++i) x[i] = x[i] < least ? least : x[i];  // a NaN stays
}

template <typename T>
UNIHAL_VECTORIZED void drop_up_to(int64_t count, T most, T* x) {
  for (int64_t i = 0; i < count; ++i) x[i] = x[i] <= most ? T(0) : x[i];
}

// The smallest number whose exponential is a normal number, and that, with the exponential's rounding.
template <typename T>
const T kLeastExponent = std::nextafter(std::log(std::numeric_limits<T>::min()), T(0));
template <typename T>
const T kLeastWeight = std::exp(kLeastExponent<T>) * (1 + 16 * std::numeric_limits<T>::epsilon());

// x[i] = exp(x[i]) of weights, which are at most about 1: what would not be a normal number is 0. The exponential of
// such arguments, as of scores that a mask hides, takes a slow path many times.
template <typename T>
void exponentiate_weights(int64_t count, T* x) {
  raise_to(count, kLeastExponent<T>, x);
  exponentiate(count, x);
  drop_up_to(count, kLeastWeight<T>, x);
}

// The largest element; a NaN wins. -infinity for none.
template <typename T>
UNIHAL_VECTORIZED T row_maximum(int64_t count, const T* x) {
  T largest = -std::numeric_limits<T>::infinity();
  T poison = 0;  // becomes NaN if any element is NaN or infinite, which comparisons would pass over
#pragma omp simd reduction(max : largest) reduction(+ : poison)
  for (int64_t i = 0; i < count; ++i) {
    largest = x[i] > largest ? x[i] : largest;
    poison += x[i] * 0;
  }
  if (poison == 0) return largest;
  for (int64_t i = 0; i < count; ++i) {
    if (x[i] != x[i]) return x[i];
  }
  return largest;
}

template <typename T>
UNIHAL_VECTORIZED T row_sum(int64_t count, const T* x) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) sum += x[i];
  return sum;
}

template <typename T>
UNIHAL_VECTORIZED T row_dot(int64_t count, const T* x, const T* y) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) sum += x[i] * y[i];
  return sum;
}

template <typename T>
UNIHAL_VECTORIZED void row_subtract(int64_t count, const T* x, T offset, T* y) {
  for (int64_t i = 0; i < count; ++i) y[i] = x[i] - offset;
}

template <typename T>
UNIHAL_VECTORIZED void row_scale(int64_t count, T factor, T* y) {
  for (int64_t i = 0; i < count; ++i) y[i] *= factor;
}

// log(sum(exp(x))) of a row, in two parts: added to a large maximum, the rest would lose its digits.
template <typename T>
struct LogSum {
  T largest;
  T rest;  // log(sum(exp(x - largest)))

  T total() const { return largest + rest; }
};

// y = x - sum
template <typename T>
UNIHAL_VECTORIZED void row_subtract(int64_t count, const T* x, LogSum<T> sum, T* y) {
  for (int64_t i = 0; i < count; ++i) y[i] = (x[i] - sum.largest) - sum.rest;
}

// y = softmax(x); returns log(sum(exp(x))). y may be x. A row of -infinity gives NaN.
template <typename T>
LogSum<T> softmax_row(int64_t count, const T* x, T* y) {
  const T largest = row_maximum(count, x);
  row_subtract(count, x, largest, y);
  exponentiate_weights(count, y);
  const T sum = row_sum(count, y);
  row_scale(count, 1 / sum, y);
  return {largest, std::log(sum)};
}

}  // namespace unihal::stub
