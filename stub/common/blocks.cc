#include "stub/common/blocks.h"

#include <algorithm>
#include <cstring>

namespace unihal::stub {

BlockOperand::BlockOperand(const Space& space, int index, const uhal_tensor& view, ComputeType type)
    : data_(static_cast<char*>(view.data)),
      size_(dtype_size(view.dtype)),
      stride_(space.strides[index][space.rank - 1]),
      compute_size_(compute_size(type)),
      period_(space.period(index)),
      index_(index),
      adjacent_(view.dtype == compute_dtype(type) && stride_ == 1),
      dense_(adjacent_ && space.dense(index)),
      load_(vectors().load[view.dtype][type]),
      store_(vectors().store[type][view.dtype]) {
  if (period_ >= kShortAxis) period_ = 0;  // long rows are used where they are
}

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
  if (period_ == 1) return buffer.bytes;
  if (period_ > 0) return buffer.bytes + (period_ - cursor.run()) * compute_size_;
  if (const void* own = span(cursor, count)) return own;
  load(cursor, count, buffer.bytes);
  return buffer.bytes;
}

void BlockOperand::prepare(int64_t count, BlockBuffer& buffer) const {
  if (period_ == 0) return;
  const int64_t elements = std::min(count, kBlock) + period_ - 1;  // a block may begin anywhere in the row
  int64_t filled = period_ == 1 ? elements : std::min(period_, elements);
  load_(filled, data_, stride_, buffer.bytes);
  for (; filled < elements; filled += std::min(filled, elements - filled)) {
    const int64_t next = std::min(filled, elements - filled);
    std::memcpy(buffer.bytes + filled * compute_size_, buffer.bytes, static_cast<size_t>(next * compute_size_));
  }
}

}  // namespace unihal::stub
