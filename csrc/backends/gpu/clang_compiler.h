// CoreX's clang++, which compiles CUDA, as a child process: where there is no NVRTC.
#pragma once

#include <memory>
#include <string>

#include "csrc/backends/gpu/compiler.h"

namespace unihal::gpu {

struct ClangFile {
  std::string path;
  std::string cuda_path;  // the SDK's folder; empty: the compiler finds it
};

// Tries whether a file is a compiler that runs, by its version; nullptr with the reason if not. `most_seconds` is how
// long a compilation may take.
std::unique_ptr<Compiler> open_clang_compiler(const ClangFile& file, double most_seconds, std::string* refusal);

}  // namespace unihal::gpu
