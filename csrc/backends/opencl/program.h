// The programs of a device: kernels' source with the prelude and a spec's macros, built by the driver's compiler.
//
// Threads: any.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <unordered_map>

#include "csrc/backends/opencl/api.h"
#include "csrc/kernels/kernel_spec.h"
#include "unihal/status.h"

namespace unihal::opencl {

struct Device;

class Programs {
 public:
  explicit Programs(const Device& device) : device_(device) {}
  Programs(const Programs&) = delete;
  Programs& operator=(const Programs&) = delete;

  // The program that has the spec's entry, built at the first call. It stays the device's own. UHAL_INTERNAL, with the
  // compiler's log, if it does not build.
  uhal_status find(const kernels::KernelSpec& spec, cl_program* program);

 private:
  struct Hash {
    size_t operator()(const kernels::KernelSpec& spec) const { return static_cast<size_t>(spec.hash()); }
  };

  std::string options_of(const kernels::KernelSpec& spec) const;
  uhal_status build(const kernels::KernelSpec& spec, const std::string& text, cl_program* program) const;

  const Device& device_;
  std::mutex mutex_;  // guards what follows
  std::unordered_map<kernels::KernelSpec, cl_program, Hash> by_spec_;
  std::map<std::string, cl_program> by_text_;  // entries of one source with the same macros share a program
};

}  // namespace unihal::opencl
