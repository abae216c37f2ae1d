// Temporary host memory for kernels: a stack per thread that keeps its blocks, so that a kernel that runs again
// allocates nothing.
#pragma once

#include <cstddef>

namespace unihal::stub {

// Blocks taken from a frame live until it is destroyed. Frames of one thread nest; a frame stays on its thread.
class ScratchFrame {
 public:
  ScratchFrame();
  ~ScratchFrame();
  ScratchFrame(const ScratchFrame&) = delete;
  ScratchFrame& operator=(const ScratchFrame&) = delete;

  // At least `bytes`, aligned to 64, contents undefined; nullptr when the host has no memory left.
  void* take(size_t bytes);

  // An array of `count` elements.
  template <typename T>
  T* take(size_t count) {
    return static_cast<T*>(take(count * sizeof(T)));
  }

 private:
  size_t block_;
  size_t used_;
};

}  // namespace unihal::stub
