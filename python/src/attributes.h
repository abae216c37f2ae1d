// Attributes of ops: from keyword arguments to the C structs of unihal/op.h.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <vector>

#include "unihal/op.h"

namespace unihal::python {

// The attributes struct of an op kind, with the defaults of op.h and the given values; empty for a kind that has none.
// Throws for a name that the struct has not, listing those it has.
std::vector<std::byte> make_attributes(uhal_op_kind kind, const pybind11::dict& values);

// The same, made once for many launches: of any kind that takes the same struct.
class Attributes {
 public:
  Attributes(uhal_op_kind kind, const pybind11::dict& values) : kind_(kind), bytes_(make_attributes(kind, values)) {}

  // Throws for a kind that takes another struct.
  const std::byte* of(uhal_op_kind kind) const;

 private:
  uhal_op_kind kind_;
  std::vector<std::byte> bytes_;
};

}  // namespace unihal::python
