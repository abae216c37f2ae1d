// The programs of a device: kernels' source with the prelude and a spec's macros, compiled by the vendor's compiler or
// found in the cache on disk.
//
// Threads: any.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "csrc/backends/gpu/api.h"
#include "csrc/backends/gpu/compiler.h"
#include "csrc/kernels/kernel_spec.h"
#include "unihal/status.h"

namespace unihal::gpu {

struct Device;

// A kernel that can be launched.
struct Kernel {
  Function function;
  int32_t max_group_size;     // the most work-items of a group that it runs with
  bool takes_any_group_size;  // its source declares none
};

class Programs {
 public:
  explicit Programs(const Device& device) : device_(device) {}
  Programs(const Programs&) = delete;
  Programs& operator=(const Programs&) = delete;

  // Opens the compiler. The device's name and architecture are known. UHAL_UNAVAILABLE without a compiler.
  uhal_status open();

  // "NVRTC 13.0".
  const std::string& compiler_name() const { return compiler_->name(); }

  // A kernel, compiled at the first call; the device is current. UHAL_INTERNAL, with the compiler's log, if it does not
  // compile.
  uhal_status find(const kernels::KernelSpec& spec, Kernel* kernel);

 private:
  struct Hash {
    size_t operator()(const kernels::KernelSpec& spec) const { return static_cast<size_t>(spec.hash()); }
  };

  uhal_status load(const kernels::KernelSpec& spec, const std::string& text, Module* module) const;
  uhal_status compile(const kernels::KernelSpec& spec, const std::string& text, std::string* binary) const;

  const Device& device_;
  std::unique_ptr<Compiler> compiler_;
  std::mutex mutex_;  // guards what follows
  std::unordered_map<kernels::KernelSpec, Kernel, Hash> by_spec_;
  std::map<std::string, Module> by_text_;  // entries of one source with the same macros share a program
};

}  // namespace unihal::gpu
