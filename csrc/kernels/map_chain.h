// Several elementwise functions in one pass over memory: what ops are composed of, and what UHAL_OP_MAP_CHAIN is.
//
// A chain is a program over numbered values. Its inputs are values 0, 1, ...; then come the results of each step, in
// order. A step takes values with smaller numbers than its results'. Example, (x + bias) -> relu, both kept:
//
//   MapChain chain;
//   const int x = chain.input(view_x), bias = chain.input(view_bias);
//   const int sum = chain.step(uhal_map_add, {x, bias});
//   const int relu = chain.step(uhal_map_relu, {sum});
//   chain.output(sum, view_sum);
//   chain.output(relu, view_y);
//   if (const char* reason = refuse_map_chain(traits, chain)) ...
//   run_map_chain(queue, chain);
//
// The kernel is made by joining the functions' text (source/map.cl) and compiled once for each sequence of functions;
// shapes, strides and parameters are arguments of it. All steps compute in one type: that of op.h's "Arithmetic" over
// all operands of the chain (elementwise.def for functions that are FLOATING). Values between steps are not rounded to
// any dtype. Inputs broadcast to the shape of the first output; outputs have one shape and may be the same view as an
// input.
#ifndef UNIHAL_KERNELS_MAP_CHAIN_H_
#define UNIHAL_KERNELS_MAP_CHAIN_H_

#include <initializer_list>

#include "csrc/backends/common/space.h"
#include "csrc/kernels/ops.h"

namespace unihal::kernels {

class MapChain {
 public:
  static constexpr int kMaxSteps = UHAL_MAP_CHAIN_MAX_STEPS;

  struct Step {
    uhal_map_function function;
    int result;         // the number of its first result
    uint64_t operands;  // the numbers of its operands, 8 bits each
    double parameters[UHAL_MAP_MAX_PARAMETERS];
  };

  // Both views live until the chain has run. Inputs come before the first step. At most UHAL_MAP_MAX_INPUTS and
  // UHAL_MAP_MAX_OUTPUTS.
  int input(const uhal_tensor& view);
  void output(int value, const uhal_tensor& view);

  // The number of the step's first result. `parameters` has UHAL_MAP_MAX_PARAMETERS entries; nullptr: all are 0.
  int step(uhal_map_function function, std::initializer_list<int> operands, const double* parameters = nullptr);
  int step(uhal_map_function function, const int* operands, int operand_count, const double* parameters);

  int input_count() const { return input_count_; }
  int output_count() const { return output_count_; }
  int step_count() const { return step_count_; }
  int value_count() const { return value_count_; }
  const Step& step_at(int index) const { return steps_[index]; }

  // Outputs first, then inputs: the order of operands everywhere below.
  const uhal_tensor& operand(int index) const {
    return index < output_count_ ? *outputs_[index] : *inputs_[index - output_count_];
  }
  int operand_count() const { return output_count_ + input_count_; }
  uint64_t results() const { return results_; }  // the numbers of the outputs' values, 8 bits each

  // Whether another one is the same but for its views.
  bool has_steps_of(const MapChain& other) const;

 private:
  int input_count_ = 0;
  int output_count_ = 0;
  int step_count_ = 0;
  int value_count_ = 0;
  uint64_t results_ = 0;
  const uhal_tensor* inputs_[UHAL_MAP_MAX_INPUTS];
  const uhal_tensor* outputs_[UHAL_MAP_MAX_OUTPUTS];
  Step steps_[kMaxSteps];
};

// A UHAL_OP_MAP as a chain of one step, of a function that need not be the op's, and a UHAL_OP_MAP_CHAIN as its
// attributes have it. All functions are known; the views are the op's.
void make_map(const uhal_op& op, uhal_map_function function, MapChain* chain);
void make_map_chain(const uhal_op& op, MapChain* chain);

// As Refuse and Run of ops.h. `kept` (if given) becomes the plan of the chain's launch, if there is one.
const char* refuse_map_chain(const DeviceTraits& traits, const MapChain& chain);
uhal_status run_map_chain(Queue& queue, const MapChain& chain, MapPlan* kept = nullptr);

// Several maps that differ in their operands' addresses and lengths only, as the entry joined of source/map.cl takes
// them. Those that are not of its `members` mean nothing.
struct JoinedMaps {
  static constexpr int kMostMembers = 32;

  // How many of such a chain are one launch on a device; below 2: none are joined.
  static int most_members(const DeviceTraits& traits, const MapChain& chain);

  int members = 0;
  int unit = 1;                      // elements of a work-item: 1, 4 or 8
  bool is_dense[kMaxOperands] = {};  // of the operands, outputs first; others are one element
  int64_t counts[kMostMembers];      // elements, at least 1
  const void* addresses[kMostMembers][kMaxOperands];
};

// Runs a chain with the operands of each member in the place of its own, which says dtypes only. At most
// most_members(), on a device that takes addresses among an argument's bytes.
uhal_status run_joined_maps(Queue& queue, const MapChain& chain, const JoinedMaps& maps);

// Launches a UHAL_OP_MAP, UHAL_OP_MAP_CHAIN or UHAL_OP_CAST by a plan that MapPlans::find found for it.
uhal_status run_map_plan(Queue& queue, MapPlan& plan, const uhal_op& op);

}  // namespace unihal::kernels

#endif  // UNIHAL_KERNELS_MAP_CHAIN_H_
