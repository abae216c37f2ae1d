// CUDA's libraries, opened when the first of their functions is called.
#pragma once

#include <string>
#include <vector>

#define ON_CUDA_EXPORT extern "C" __attribute__((visibility("default")))

namespace on_cuda {

// A library under one of several names: in HIP_ON_CUDA_LIBRARIES, then as the loader finds it, then in
// /usr/local/cuda/lib64. Never closed.
class Library {
 public:
  explicit Library(std::vector<std::string> names);

  // nullptr where the library or the function is missing.
  void* find(const char* name) const;

 private:
  void* handle_ = nullptr;
};

// A function of a library, found once: call<int(int)>(library, "cuInit")(0). Where it is missing the process ends, and
// says which one: the backend must see a library that is whole, or none.
void* find_or_abort(const Library& library, const char* name);

template <class Function>
Function* call(const Library& library, const char* name) {
  return reinterpret_cast<Function*>(find_or_abort(library, name));
}

// Both translate a number by rows of {HIP's, CUDA's}; -1 for what has no row.
struct Row {
  int hip;
  int cuda;
};
template <int kRows>
int cuda_of(const Row (&rows)[kRows], int hip) {
  for (const Row& row : rows) {
    if (row.hip == hip) return row.cuda;
  }
  return -1;
}

}  // namespace on_cuda
