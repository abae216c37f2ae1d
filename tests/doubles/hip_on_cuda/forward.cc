// The driver's functions that take the same parameters and numbers under both names: each HIP function jumps to CUDA's.
// What differs is in driver.cc, whose definitions take the place of these.
#include <initializer_list>

#include "tests/doubles/hip_on_cuda/library.h"

#ifndef __x86_64__
#error "hip_on_cuda is written for x86-64"
#endif

extern "C" {
#define UHAL_GPU_FUNCTION(name, cuda, hip, parameters) \
  __attribute__((visibility("hidden"))) void* on_cuda_##name = nullptr;
#include "csrc/backends/gpu/functions.def"
}

// Global so that the backend finds them, weak so that driver.cc's win.
#define UHAL_GPU_FUNCTION(name, cuda, hip, parameters)                                                           \
  asm(".text\n.weak " #hip "\n.type " #hip ", @function\n" #hip ":\n  jmp *on_cuda_" #name "(%rip)\n.size " #hip \
      ", .-" #hip "\n");
#include "csrc/backends/gpu/functions.def"

namespace on_cuda {

const Library& cuda() {
  static const Library* const library = new Library({"libcuda.so.1", "libcuda.so"});
  return *library;
}

namespace {

// What is called where there is no libcuda: HIP's and CUDA's "no device".
int no_device() { return 100; }

// Before anything can be called.
__attribute__((constructor)) void fill_table() {
  const struct {
    void** place;
    const char* symbol;
  } rows[] = {
#define UHAL_GPU_FUNCTION(name, cuda, hip, parameters) {&on_cuda_##name, #cuda},
#include "csrc/backends/gpu/functions.def"
  };
  for (const auto& row : rows) {
    *row.place = cuda().find(row.symbol);
    if (*row.place == nullptr) *row.place = reinterpret_cast<void*>(no_device);
  }
}

}  // namespace
}  // namespace on_cuda
