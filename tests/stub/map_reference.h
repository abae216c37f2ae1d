// What each function of csrc/tables/elementwise.def means, in float64.
#pragma once

#include <vector>

namespace data_test {

// Where a function is compared: its formula may be sound on part of the numbers only.
enum class Inputs {
  kAny,       // also NaN, infinities, zeros of both signs, and large numbers
  kModerate,  // in [-3, 3]
  kPositive,  // in [0.1, 3]
  kUnit,      // in [-0.9, 0.9]
  kInteger,   // whole numbers, on integer dtypes
  kOrders,    // the first operand is 0, 1, 2 or 3, the others are positive
  kAboveOne,  // the first operand is in [1.1, 4], the others are positive
};

struct MapReference {
  const char* name;
  Inputs inputs;
  int input_count;
  std::vector<double> parameters;
  // Sets the results from the operands and parameters.
  void (*compute)(const double* x, const double* p, double* r);
};

const std::vector<MapReference>& map_references();

}  // namespace data_test
