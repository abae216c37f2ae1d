// What the optimizers' kernels share: the parameter with its master copy, and gradients that are dense or have rows
// only.
#pragma once

#include <optional>
#include <vector>

#include "plugins/paddle/kernels/common.h"
#include "plugins/paddle/selected_rows.h"

namespace unihal::paddle {

// The parameter of a step and its result. With multi_precision the step is made on the float32 master copy, and the
// parameter is that rounded.
class Step {
 public:
  Step(const Context& context, Input parameter, OptionalInput master, bool multi_precision, Output parameter_out,
       Output master_out);
  const View& before() const { return before_; }
  const View& after() const { return after_; }
  void finish() const {
    if (use_master_) copy_or_cast(context_, after_, rounded_);
  }

 private:
  const Context& context_;
  View rounded_, before_, after_;
  bool use_master_;
};

// A tensor of one element, which broadcasts to anything.
inline View number(Input x) { return x.view().reshaped(nullptr, 0); }

// An output that keeps its input, for a step that is skipped.
void pass_through(const Context& context, Input x, Output y);

// A gradient as a dense view of the parameter's shape; rows that a sparse one has not are zero, and values of one row
// add up.
class Gradient {
 public:
  Gradient(const Context&, Input gradient, Input) : view_(gradient.view()) {}
  Gradient(const Context& context, SparseInput gradient, Input parameter);
  const View& view() const { return view_; }

 private:
  std::optional<Scratch> dense_;
  View view_;
};

// A sparse gradient's rows, each once, ascending, and their values in that order.
class MergedRows {
 public:
  MergedRows(const Context& context, SparseInput gradient);
  const std::vector<int64_t>& rows() const { return rows_; }
  const View& indices() const { return *indices_; }
  const View& values() const { return *values_; }

 private:
  std::vector<int64_t> rows_;
  std::optional<DeviceIntegers> indices_;
  std::optional<Scratch> values_;
};

}  // namespace unihal::paddle
