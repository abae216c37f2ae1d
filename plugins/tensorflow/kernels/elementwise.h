// Which ops of TensorFlow are functions of csrc/tables/elementwise.def: for their kernels, and for their fusion.
#pragma once

#include <string_view>

#include "plugins/tensorflow/dtype.h"
#include "unihal/op.h"

namespace unihal::tensorflow {

enum Result : uint8_t { kSameDtype, kTruth };  // the output's dtype: that of the inputs, or bool
enum Order : uint8_t { kAsGiven, kSwapped };   // of the first two inputs

struct MapRow {
  const char* op;
  uhal_map_function function;
  DtypeSet dtypes;  // of attribute "T"; 0: the op is defined on bool and has no "T"
  Result result = kSameDtype;
  Order order = kAsGiven;
  double parameters[2] = {0, 0};
  const char* parameter_attribute = nullptr;  // a float attribute that is parameters[0]

  // Gradients take operands of one shape, which do not broadcast.
  bool is_gradient() const {
    const std::string_view name = op;
    return name.size() > 4 && name.substr(name.size() - 4) == "Grad";
  }
};

// nullptr if an op is none of them.
const MapRow* find_map_row(std::string_view op);

}  // namespace unihal::tensorflow
