#include <cstdlib>

#include "csrc/kernels/queue.h"

namespace unihal::kernels {

void Arguments::add(Kind kind, const void* data, size_t bytes) {
  const int offset = (used_ + 15) / 16 * 16;
  if (count_ == kMaxItems || offset + bytes > kMaxBytes) abort();  // a mistake in an op's own code, whatever the input
  memcpy(bytes_ + offset, data, bytes);
  items_[count_++] = {kind, static_cast<uint16_t>(bytes), static_cast<uint16_t>(offset)};
  used_ = offset + static_cast<int>(bytes);
}

Arguments& Arguments::real(double value, Compute type) {
  switch (type) {
    case Compute::kFloat:
      return float32(static_cast<float>(value));
    case Compute::kDouble:
      return float64(value);
    case Compute::kInt64:
      return int64(static_cast<int64_t>(value));
    default:
      return value_of(static_cast<uint64_t>(value));
  }
}

}  // namespace unihal::kernels
