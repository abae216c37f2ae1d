// From bytes to an op: a row of op_templates.h with sizes, dtypes, layouts and places in memory, and then with
// whatever wrong in it.
#pragma once

#include <memory>
#include <vector>

#include "tests/fuzz/byte_reader.h"
#include "tests/fuzz/op_templates.h"

namespace fuzz {

// The device memory that operands lie in.
struct Arena {
  char* base = nullptr;
  size_t bytes = 0;
};

// An op with all that it points to.
class BuiltOp {
 public:
  BuiltOp(ByteReader& input, const Arena& arena);

  const uhal_op* get() const { return &op_; }

  // The operands as they ended up; entries may be absent.
  const std::vector<std::unique_ptr<uhal_tensor>>& operands() const { return operands_; }

  // Elements of all operands together, without regard to strides; saturated.
  int64_t elements() const;

 private:
  struct Spec;

  int64_t& at(int axis);
  int64_t length(char axis);
  uhal_dtype dtype(char mark);
  void choose_sizes();
  void add_operands(const char* text, bool inputs);
  void add_operand(const Spec& spec);
  void lay_out(uhal_tensor* view);
  void place(uhal_tensor* view);
  void spoil();
  void spoil_op();
  void spoil_view(uhal_tensor* view);
  void spoil_attributes();
  int64_t odd_number();

  ByteReader& input_;
  const Arena& arena_;
  const OpTemplate& row_;
  size_t used_ = 0;                  // of the arena
  int64_t sizes_['z' + 1] = {};      // by axis name
  uhal_dtype dtype_ = UHAL_FLOAT32;  // the op's
  int input_count_ = 0;              // of operands_, the first ones
  std::vector<std::unique_ptr<uhal_tensor>> operands_;
  std::vector<const uhal_tensor*> pointers_;
  std::unique_ptr<char[]> attributes_;  // exactly as long as it says, for AddressSanitizer
  uhal_op op_ = {};
};

}  // namespace fuzz
