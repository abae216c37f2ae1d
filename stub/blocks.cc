#include "stub/blocks.h"

#include <algorithm>

namespace unihal::stub {

BlockOperand::BlockOperand(const Space& space, int index, const uhal_tensor& view, ComputeType type)
    : data_(static_cast<char*>(view.data)),
      size_(dtype_size(view.dtype)),
      stride_(space.strides[index][space.rank - 1]),
      compute_size_(compute_size(type)),
      index_(index),
      adjacent_(view.dtype == compute_dtype(type) && stride_ == 1),
      dense_(adjacent_ && space.dense(index)),
      scalar_(space.scalar(index)),
      load_(vectors().load[view.dtype][type]),
      store_(vectors().store[type][view.dtype]) {}

void BlockOperand::load(const Cursor& cursor, int64_t count, void* to) const {
  if (count <= cursor.run()) {
    load_(count, at(cursor.offset(index_)), stride_, to);
    return;
  }
  Cursor walk = cursor;
  for (int64_t done = 0; done < count;) {
    const int64_t run = std::min(count - done, walk.run());
    load_(run, at(walk.offset(index_)), stride_, static_cast<char*>(to) + done * compute_size_);
    walk.advance(run);
    done += run;
  }
}

void BlockOperand::store(const Cursor& cursor, int64_t count, const void* from) const {
  if (count <= cursor.run()) {
    store_(count, from, at(cursor.offset(index_)), stride_);
    return;
  }
  Cursor walk = cursor;
  for (int64_t done = 0; done < count;) {
    const int64_t run = std::min(count - done, walk.run());
    store_(run, static_cast<const char*>(from) + done * compute_size_, at(walk.offset(index_)), stride_);
    walk.advance(run);
    done += run;
  }
}

const void* BlockOperand::read(const Cursor& cursor, int64_t count, BlockBuffer& buffer) const {
  if (scalar_) return buffer.bytes;
  if (const void* own = span(cursor, count)) return own;
  load(cursor, count, buffer.bytes);
  return buffer.bytes;
}

void BlockOperand::prepare(int64_t count, BlockBuffer& buffer) const {
  if (scalar_) load_(std::min(count, kBlock), data_, 0, buffer.bytes);
}

}  // namespace unihal::stub
