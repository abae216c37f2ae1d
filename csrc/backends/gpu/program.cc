#include "csrc/backends/gpu/program.h"

#include "csrc/backends/common/disk_cache.h"
#include "csrc/backends/gpu/device.h"
#include "csrc/backends/gpu/status.h"
#include "csrc/kernels/compiler_log.h"
#include "csrc/kernels/ops.h"
#include "csrc/kernels/program_text.h"

namespace unihal::gpu {
namespace {

// Whether a source has a kernel without a group size of its own, "UHAL_KERNEL void NAME(": drivers do not tell.
bool takes_any_group_size(const std::string& source, const std::string& name) {
  const size_t at = source.find(" void " + name + "(");
  if (at == std::string::npos) return false;
  const size_t begin = source.rfind("UHAL_KERNEL", at);
  return begin != std::string::npos && source.substr(begin, at - begin).find("UHAL_GROUP_SIZE") == std::string::npos;
}

}  // namespace

uhal_status Programs::open() {
  std::string refusal;
  compiler_ = open_compiler(vendor.kind, &refusal);
  if (compiler_ != nullptr) return UHAL_OK;
  return kernels::fail(UHAL_UNAVAILABLE, "there is no compiler for the kernels of %s: %s", device_.name.c_str(),
                       refusal.c_str());
}

uhal_status Programs::find(const kernels::KernelSpec& spec, Kernel* kernel) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto known = by_spec_.find(spec);
  if (known != by_spec_.end()) {
    *kernel = known->second;
    return UHAL_OK;
  }
  const std::string text = kernels::program_text(spec, device_.traits, kernels::Prelude::kGpu);
  auto loaded = by_text_.find(text);
  if (loaded == by_text_.end()) {
    Module module = nullptr;
    if (const uhal_status status = load(spec, text, &module); status != UHAL_OK) return status;
    loaded = by_text_.emplace(text, module).first;
  }
  int code = api.module_function(&kernel->function, loaded->second, spec.entry());
  if (code == kSuccess) code = api.function_attribute(&kernel->max_group_size, kMaxThreadsPerBlock, kernel->function);
  if (code != kSuccess) return fail_native(code, "%s has no kernel %s", device_.name.c_str(), spec.describe().c_str());
  kernel->takes_any_group_size = takes_any_group_size(spec.source().text, spec.entry());
  by_spec_.emplace(spec, *kernel);
  return UHAL_OK;
}

uhal_status Programs::load(const kernels::KernelSpec& spec, const std::string& text, Module* module) const {
  // All that a binary depends on.
  const std::string key = std::string(vendor.backend) + " program\n" + compiler_->name() + "\n" +
                          vendor.version_name(driver_version()) + "\n" + device_.architecture.name + "\n" + text;
  std::string binary;
  if (DiskCache::shared().load(key, &binary) && api.module_load(module, binary.data()) == kSuccess) return UHAL_OK;
  if (const uhal_status status = compile(spec, text, &binary); status != UHAL_OK) return status;
  const int code = api.module_load(module, binary.data());
  if (code != kSuccess) {
    return fail_native(code, "%s does not take the program that %s made of %s for %s", device_.name.c_str(),
                       compiler_->name().c_str(), spec.describe().c_str(), device_.architecture.name.c_str());
  }
  DiskCache::shared().store(key, std::string("program ") + spec.source().name, binary);
  return UHAL_OK;
}

uhal_status Programs::compile(const kernels::KernelSpec& spec, const std::string& text, std::string* binary) const {
  std::string log;
  if (compiler_->compile(spec.source().name, text, device_.architecture.name, binary, &log)) return UHAL_OK;
  const std::string message = "the kernel " + spec.describe() + " does not compile for " + device_.name + " (" +
                              device_.architecture.name + "), by " + compiler_->name() + overrides_in_force() +
                              "; the compiler's log:\n" + kernels::readable_log(log);
  kernels::host().report(UHAL_INTERNAL, 0, nullptr, message.c_str());
  return UHAL_INTERNAL;
}

}  // namespace unihal::gpu
