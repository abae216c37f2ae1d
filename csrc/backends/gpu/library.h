// Opening the vendors' libraries of products and convolutions, which are all optional.
//
// UNIHAL_GPU_LIBRARIES: "all" (the default), "none", or names of those that may be used, joined by commas.
// UNIHAL_GPU_WORKSPACE_LIMIT: device memory that a convolution of theirs may take ("256M").
// UNIHAL_GPU_MEASURE: whether the first convolution of a kind measures their algorithms ("0", "1").
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "csrc/backends/gpu/compiler.h"
#include "unihal/status.h"

namespace unihal::gpu {

// What functions of all of them return if they succeed.
constexpr int kLibrarySuccess = 0;

// What a library is asked to run on.
struct LibraryDevice {
  Vendor vendor;
  std::string architecture;  // "gfx1030", "sm_90"
  // Lets the calling thread's calls be for this device.
  std::function<void()> make_current = [] {};
};

// Whether libraries may multiply in TF32 on a device: NVIDIA's capabilities from 8.0 on, AMD's gfx942 and gfx950. Of
// CoreX' architectures it is asked of each library, which computes strictly where it refuses.
bool has_tf32(const LibraryDevice& device);

// What became of the libraries, for people: "cuBLASLt 12.4", "no hipBLASLt (libhipblaslt.so.1: cannot open ...)".
using LibraryNotes = std::vector<std::string>;

// UHAL_INVALID_ARGUMENT, with a report, for values of the variables that mean nothing.
uhal_status check_library_settings();

// Whether UNIHAL_GPU_LIBRARIES lets a library be used ("cublaslt").
bool wants_library(const std::string& name);

// UNIHAL_GPU_WORKSPACE_LIMIT, in bytes. Unless it is set, more for a convolution whose operands together are larger:
// libraries copy them to another layout for their fast algorithms.
int64_t convolution_workspace_limit(int64_t operand_bytes);

// Whether UNIHAL_GPU_MEASURE is "1".
bool measures_convolutions();

// A file of a library and the functions found in it. It is never closed: libraries keep threads and destructors that
// would run against a driver that is gone.
class Library {
 public:
  // Opens the first file that there is. False, with what was tried, if there is none.
  bool open(const std::vector<std::string>& files, std::string* refusal);

  // Finds a function; notes the first one that is missing.
  template <class Function>
  Library& find(const std::string& name, Function* function) {
    *function = reinterpret_cast<Function>(symbol(name));
    if (*function == nullptr && missing_.empty()) missing_ = name;
    return *this;
  }

  // As find(), for a function that need not be there.
  template <class Function>
  Library& find_if_present(const std::string& name, Function* function) {
    *function = reinterpret_cast<Function>(symbol(name));
    return *this;
  }

  // Whether find() found all; else what is missing, for people.
  bool complete(std::string* refusal) const;

  // The path of the file that has a function, links resolved.
  static std::string path_of(const void* function);

 private:
  void* symbol(const std::string& name) const;

  void* handle_ = nullptr;
  std::string file_;
  std::string missing_;
};

// Names of files by which a library is looked for: for each version "libX.so.VERSION" and "libX.so", in the vendor's
// folders where there are any, then by the loader's own rules, then where the vendor's packages put them.
std::vector<std::string> library_files(Vendor vendor, const std::string& stem, const std::vector<int>& versions);

// Whether a folder, or one of its subfolders, has a file whose name begins with `prefix` and contains `part` where a
// name ends (gfx103 is not in gfx1030).
bool has_file_for(const std::string& folder, const std::string& prefix, const std::string& part);

// "gfx90a:sramecc+:xnack-" without its features.
std::string processor_of(const std::string& architecture);

}  // namespace unihal::gpu
