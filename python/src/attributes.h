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

}  // namespace unihal::python
