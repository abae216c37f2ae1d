// Temporary device memory of a kernel.
#pragma once

#include <initializer_list>
#include <vector>

#include "plugins/paddle/arguments.h"

namespace unihal::paddle {

// Device memory for the duration of a kernel: the stream's later work reuses it in order.
class Scratch : public View {
 public:
  Scratch(const Context& context, uhal_dtype dtype, const int64_t* dims, int rank);
  Scratch(const Context& context, uhal_dtype dtype, const View& like)
      : Scratch(context, dtype, like.shape, like.rank) {}
  Scratch(const Context& context, uhal_dtype dtype, std::initializer_list<int64_t> dims)
      : Scratch(context, dtype, dims.begin(), static_cast<int>(dims.size())) {}
  Scratch(const Context& context, uhal_dtype dtype, const std::vector<int64_t>& dims)
      : Scratch(context, dtype, dims.data(), static_cast<int>(dims.size())) {}
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { uhal_free(stream_->device, stream_->handle, data); }

 private:
  Stream* stream_;
};

}  // namespace unihal::paddle
