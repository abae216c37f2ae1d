#include "csrc/backends/opencl/program.h"

#include "csrc/backends/opencl/device.h"
#include "csrc/backends/opencl/live_streams.h"
#include "csrc/backends/opencl/program_cache.h"
#include "csrc/backends/opencl/status.h"
#include "csrc/kernels/compiler_log.h"
#include "csrc/kernels/ops.h"
#include "csrc/kernels/program_text.h"

namespace unihal::opencl {
namespace {

std::string build_log(cl_program program, cl_device_id device) {
  size_t bytes = 0;
  if (api.clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, nullptr, &bytes) != CL_SUCCESS ||
      bytes == 0) {
    return "(the compiler gave no log)";
  }
  std::string log(bytes, '\0');
  if (api.clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, bytes, log.data(), nullptr) != CL_SUCCESS) {
    return "(the compiler gave no log)";
  }
  return kernels::readable_log(log);
}

}  // namespace

// Never fast-math: kernels rely on NaN, infinities and signed zeros.
std::string Programs::options_of(const kernels::KernelSpec& spec) const {
  std::string options = "-cl-std=CL1.2";
  if (!computes_double(spec.compute())) options += " -cl-single-precision-constant";
  if (device_.divides_exactly) options += " -cl-fp32-correctly-rounded-divide-sqrt";
  return options;
}

uhal_status Programs::find(const kernels::KernelSpec& spec, cl_program* program) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto known = by_spec_.find(spec);
  if (known != by_spec_.end()) {
    *program = known->second;
    return UHAL_OK;
  }
  const std::string text = kernels::program_text(spec, device_.traits, kernels::Prelude::kOpencl);
  const auto built = by_text_.find(text);
  if (built != by_text_.end()) {
    *program = built->second;
  } else {
    if (const uhal_status status = build(spec, text, program); status != UHAL_OK) return status;
    note_built_program();
    by_text_.emplace(text, *program);
  }
  by_spec_.emplace(spec, *program);
  return UHAL_OK;
}

uhal_status Programs::build(const kernels::KernelSpec& spec, const std::string& text, cl_program* program) const {
  const std::string options = options_of(spec);
  const std::string key = program_key(device_, options, text);
  *program = load_program(device_, key, options);
  if (*program != nullptr) return UHAL_OK;
  const char* source = text.c_str();
  const size_t length = text.size();
  cl_int code = CL_SUCCESS;
  *program = api.clCreateProgramWithSource(device_.context, 1, &source, &length, &code);
  if (*program == nullptr) {
    return fail_native(code, "%s takes no program for %s", device_.name.c_str(), spec.describe().c_str());
  }
  code = api.clBuildProgram(*program, 1, &device_.id, options.c_str(), nullptr, nullptr);
  if (code == CL_SUCCESS) {
    store_program(key, spec.source().name, *program);
    return UHAL_OK;
  }
  const std::string log = build_log(*program, device_.id);
  api.clReleaseProgram(*program);
  *program = nullptr;
  const std::string message = "the kernel " + spec.describe() + " does not compile for " + device_.name + " (" +
                              status_name(code) + "); the compiler's log:\n" + log;
  kernels::host().report(UHAL_INTERNAL, code, status_name(code), message.c_str());
  return UHAL_INTERNAL;
}

}  // namespace unihal::opencl
