#include "csrc/kernels/kernel_spec.h"

#include "csrc/backends/common/dtype.h"

namespace unihal::kernels {
namespace {

const char* compute_name(Compute type) {
  switch (type) {
    case Compute::kFloat:
      return "float";
    case Compute::kDouble:
      return "double";
    case Compute::kInt64:
      return "int64";
    case Compute::kComplexFloat:
      return "complex_float";
    case Compute::kComplexDouble:
      return "complex_double";
    default:
      return "uint64";
  }
}

}  // namespace

// Names and texts are literals: equal pointers are equal texts, and two literals of one text only cost a second kernel.
bool KernelSpec::operator==(const KernelSpec& other) const {
  if (hash_ != other.hash_ || entry_ != other.entry_ || source_ != other.source_ || compute_ != other.compute_ ||
      count_ != other.count_) {
    return false;
  }
  for (int i = 0; i < count_; ++i) {
    const Macro& mine = macros_[i];
    const Macro& theirs = other.macros_[i];
    if (mine.value != theirs.value || mine.text != theirs.text || mine.name != theirs.name) return false;
  }
  return true;
}

std::string KernelSpec::macro_text() const {
  std::string text = std::string("#define UHAL_COMPUTE_") + compute_name(compute_) + " 1\n";
  for (int i = 0; i < count_; ++i) {
    const Macro& macro = macros_[i];
    const std::string name = macro.name;
    switch (macro.kind) {
      case Macro::kNumber:
        text += "#define " + name + " " + std::to_string(macro.value) + "\n";
        break;
      case Macro::kText:
        text += "#define " + name + " " + macro.text + "\n";
        break;
      case Macro::kDtype: {
        const std::string dtype = dtype_name(static_cast<uhal_dtype>(macro.value));
        text += "#define " + name + "_STORAGE uhal_storage_" + dtype + "\n";
        text += "#define " + name + "_LOAD(p, i) uhal_load_" + dtype + "(p, i)\n";
        text += "#define " + name + "_STORE(p, i, v) uhal_store_" + dtype + "(p, i, v)\n";
        for (const std::string unit : {"4", "8"}) {
          text += "#define " + name + "_LOAD" + unit + "(p, i, v) uhal_load" + unit + "_" + dtype + "(p, i, v)\n";
          text += "#define " + name + "_STORE" + unit + "(p, i, v) uhal_store" + unit + "_" + dtype + "(p, i, v)\n";
        }
        text += "#define " + name + "_DTYPE " + std::to_string(macro.value) + "\n";
        break;
      }
    }
  }
  return text;
}

std::string KernelSpec::describe() const {
  std::string text = std::string(source_->name) + "." + entry_ + "(T=" + compute_name(compute_);
  for (int i = 0; i < count_; ++i) {
    const Macro& macro = macros_[i];
    text += std::string(", ") + macro.name + "=";
    if (macro.kind == Macro::kText) {
      text += macro.text;
    } else if (macro.kind == Macro::kDtype) {
      text += dtype_name(static_cast<uhal_dtype>(macro.value));
    } else {
      text += std::to_string(macro.value);
    }
  }
  return text + ")";
}

}  // namespace unihal::kernels
