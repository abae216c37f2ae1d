// What TensorFlow's registries say of ops and kernels.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tensorflow/c/tf_datatype.h"

namespace unihal::tensorflow {

// The type attributes of an op by name ("T", "Tin"); a single type is a list of one.
using Types = std::map<std::string, std::vector<TF_DataType>, std::less<>>;

// The types in a serialized AttrValue, of a type or a list of types; none in others.
std::vector<TF_DataType> parse_types(std::string_view value);

// The type that says most about an op ("T", else "dtype" and the like); 0 if there is none.
TF_DataType main_type(const Types& types);

// An input or output: a fixed type, or the attribute that tells its types.
struct Argument {
  std::string name;
  TF_DataType type = static_cast<TF_DataType>(0);
  std::string attribute;
};

struct Operation {
  std::vector<Argument> inputs, outputs;
};

// What TensorFlow knows of an op; nullptr for what is none, such as the name of a function.
const Operation* find_operation(std::string_view op);

// The names of all ops that begin with `prefix`.
std::vector<std::string> operations_like(std::string_view prefix);

// A kernel for a type of device ("CPU"; "DEFAULT" is for all), and the types that its constraints allow. Those with a
// label are left out.
struct RegisteredKernel {
  std::string device;
  Types allowed;

  // Whether it is for an op of these types. Attributes that `types` lacks are taken as allowed.
  bool fits(const Types& types) const;
};

// As of the first call, and of later ones for ops that were unknown.
std::vector<RegisteredKernel> find_kernels(std::string_view op);

// The next call reads the registry anew.
void forget_kernels();

}  // namespace unihal::tensorflow
