// Operands of a space as runs of a compute type: the caller's own memory where dtype and layout allow it, else a
// small buffer that is converted into or out of.
#pragma once

#include "csrc/backends/common/space.h"
#include "stub/vector/compute.h"

namespace unihal::stub {

// Elements per block: all buffers of an op with a few operands stay in the first-level cache.
inline constexpr int64_t kBlock = 1024;

// Innermost axes shorter than this are gathered into blocks that span several of them.
inline constexpr int64_t kShortAxis = kBlock / 4;

struct alignas(64) BlockBuffer {
  char bytes[(kBlock + kShortAxis) * 16];  // of the largest compute type
};

class BlockOperand {
 public:
  BlockOperand() = default;
  BlockOperand(const Space& space, int index, const uhal_tensor& view, ComputeType type);

  // Whether the whole space can be used in place as one run.
  bool dense() const { return dense_; }

  // Bytes of an element.
  int64_t size() const { return size_; }

  // Whether the elements of each block (block_length) are one and the same.
  bool same_in_blocks(const Space& space) const {
    return period_ == 1 || (stride_ == 0 && space.inner() >= kShortAxis);
  }

  // Looks at elements so many bytes further on from now on.
  void move(int64_t bytes) { data_ += bytes; }

  // The address of element `offset`, counted in elements of the view.
  char* at(int64_t offset) const { return data_ + offset * size_; }

  // The `count` elements from the cursor on as a run of the compute type in the view's own memory, or nullptr where
  // dtype or layout do not allow it.
  void* span(const Cursor& cursor, int64_t count) const {
    return adjacent_ && (dense_ || count <= cursor.run()) ? at(cursor.offset(index_)) : nullptr;
  }

  // Converts `count` elements from the cursor on into a run, or a run into them.
  void load(const Cursor& cursor, int64_t count, void* to) const;
  void store(const Cursor& cursor, int64_t count, const void* from) const;

  // The elements for reading: in place, or loaded into `buffer`, which must have been prepared.
  const void* read(const Cursor& cursor, int64_t count, BlockBuffer& buffer) const;

  // Fills the buffer if all blocks read the same elements: a scalar, or a short row for each place of the outer axes
  // (a bias over channels). Once per thread, for blocks of up to `count` elements.
  void prepare(int64_t count, BlockBuffer& buffer) const;

 private:
  char* data_ = nullptr;
  int64_t size_ = 0;
  int64_t stride_ = 0;  // along the innermost axis
  int64_t compute_size_ = 0;
  int64_t period_ = 0;  // length of the row that repeats; 1: a scalar, 0: none does
  int index_ = 0;
  bool adjacent_ = false;  // neighbours along the innermost axis can be used in place
  bool dense_ = false;
  LoadLoop load_ = nullptr;
  StoreLoop store_ = nullptr;
};

// How many elements the next block takes, with `left` to go and at most so many, which are not fewer than kShortAxis:
// long innermost axes are cut at their ends, so that operands stay in place; short ones are gathered into full blocks.
inline int64_t block_length(const Space& space, const Cursor& cursor, int64_t left, int64_t most = kBlock) {
  const int64_t length = left < most ? left : most;
  return space.inner() < kShortAxis || length < cursor.run() ? length : cursor.run();
}

}  // namespace unihal::stub
