// A node of a graph before it runs: its op, its attributes, the types of its operands and what of their shapes is
// known.
//
// It is read from the graph, where the adapter chooses its nodes, and from a kernel's information, where a kernel is
// made: both times the same kernel is constructed, which refuses what it cannot do.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugins/onnxruntime/dtype.h"
#include "plugins/onnxruntime/ort.h"

namespace unihal::onnxruntime {

class Provider;

// What a node's kernel does not do, so that the node is left to ONNX Runtime's CPU provider. `reason` is for a person.
struct Refusal {
  explicit Refusal(std::string text) : reason(std::move(text)) {}
  std::string reason;
};

// An operand's type and shape; -1 for a length that is not known.
struct OperandType {
  int32_t type = kTypeUndefined;              // kTypeUndefined: absent, or no tensor
  std::optional<std::vector<int64_t>> shape;  // none: not even the rank is known
};

// A tensor that is an attribute or a constant, in host memory.
struct HostTensor {
  uhal_dtype dtype = UHAL_DTYPE_INVALID;
  std::vector<int64_t> shape;
  std::vector<char> bytes;
};

class Description {
 public:
  virtual ~Description() = default;

  const Provider& provider() const { return *provider_; }
  int version() const { return version_; }  // the opset that brought this form of the op
  int input_count() const { return static_cast<int>(inputs_.size()); }
  int output_count() const { return static_cast<int>(outputs_.size()); }
  bool has_input(int index) const { return index < input_count() && inputs_[index].type != kTypeUndefined; }
  bool has_output(int index) const { return index < output_count() && outputs_[index].type != kTypeUndefined; }
  // Undefined past the last.
  const OperandType& input(int index) const { return index < input_count() ? inputs_[index] : absent_; }
  const OperandType& output(int index) const { return index < output_count() ? outputs_[index] : absent_; }
  uhal_dtype input_dtype(int index) const { return from_onnx(input(index).type); }
  uhal_dtype output_dtype(int index) const { return from_onnx(output(index).type); }

  // Attributes; the second argument where there is none of that name.
  virtual int64_t integer(const char* name, int64_t otherwise) const = 0;
  virtual double real(const char* name, double otherwise) const = 0;
  virtual std::string text(const char* name, const char* otherwise) const = 0;
  virtual std::optional<std::vector<int64_t>> integers(const char* name) const = 0;
  virtual std::optional<std::vector<float>> reals(const char* name) const = 0;
  // Empty of a kernel that is being made.
  virtual std::optional<std::vector<std::string>> texts(const char* name) const = 0;
  virtual std::optional<HostTensor> tensor(const char* name) const = 0;

  [[noreturn]] static void refuse(const std::string& reason) { throw Refusal(reason); }
  static void require(bool fits, const char* reason) {
    if (!fits) throw Refusal(reason);
  }

 protected:
  const Provider* provider_ = nullptr;
  int version_ = 0;
  std::vector<OperandType> inputs_;
  std::vector<OperandType> outputs_;

 private:
  OperandType absent_;
};

// Of a node in a graph. The node must outlive it.
std::unique_ptr<Description> describe(const OrtNode* node, const Provider& provider);
// Of a kernel that is being made.
std::unique_ptr<Description> describe(const OrtKernelInfo* info, const Provider& provider);

// A copy of a tensor in host memory. Throws for what is no tensor of a dtype of ours.
HostTensor read_tensor(const OrtValue* value);

}  // namespace unihal::onnxruntime
