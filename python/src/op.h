// Ops as Python passes them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <pybind11/stl.h>

#include "module.h"
#include "unihal/op.h"
#include "view.h"

namespace unihal::python {

// An operand list; None stands for an absent optional operand.
using Views = std::vector<const View*>;

// A uhal_op with everything that it points to.
class Op {
 public:
  // `attributes`: a dict, or an Attributes, which stays alive as long as the op.
  Op(uhal_op_kind kind, const Views& inputs, const Views& outputs, const py::object& attributes,
     const std::optional<std::string>& label = std::nullopt);
  Op(const Op&) = delete;
  Op& operator=(const Op&) = delete;

  const uhal_op* get() const { return &op_; }

 private:
  static std::vector<const uhal_tensor*> tensors(const Views& views);

  std::vector<const uhal_tensor*> inputs_;
  std::vector<const uhal_tensor*> outputs_;
  std::vector<std::byte> attributes_;
  uhal_op op_ = {};
};

}  // namespace unihal::python
