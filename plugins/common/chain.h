#pragma once

#include <algorithm>
#include <initializer_list>

#include "unihal/op.h"

namespace unihal {

// A program of several functions in one launch (UHAL_OP_MAP_CHAIN). Values 0, 1, ... are the inputs.
class Chain {
 public:
  explicit Chain(int inputs) : next_(inputs) { program_.struct_size = sizeof program_; }
  // Gives the number of the step's result.
  int step(uhal_map_function function, std::initializer_list<int> operands,
           std::initializer_list<double> parameters = {}) {
    const int at = program_.step_count++;
    program_.functions[at] = function;
    std::copy(operands.begin(), operands.end(), program_.operands[at]);
    std::copy(parameters.begin(), parameters.end(), program_.parameters[at]);
    return next_++;
  }
  // The program with its results: the last value, if none is named.
  const uhal_map_chain_attributes* program(std::initializer_list<int> results = {}) {
    program_.results[0] = next_ - 1;
    std::copy(results.begin(), results.end(), program_.results);
    return &program_;
  }

 private:
  uhal_map_chain_attributes program_ = {};
  int next_;
};

}  // namespace unihal
