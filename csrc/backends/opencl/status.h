// OpenCL's status codes, as names and as statuses of the ABI.
#pragma once

#include <cstdint>

#include "csrc/backends/opencl/api.h"
#include "unihal/status.h"

namespace unihal::opencl {

// "CL_OUT_OF_RESOURCES". Static, never NULL.
const char* status_name(cl_int code);

uhal_status status_of(cl_int code);

// Reports that an OpenCL function failed, with its code, the code's name, and a printf-formatted text of what was
// tried; returns status_of(code). `code` is no success.
uhal_status fail_native(cl_int code, const char* format, ...) __attribute__((cold, format(printf, 2, 3)));

// Reports that work failed while the device ran it, as a wait or a query found out: which the driver tells by the same
// codes as other failures, but with another meaning.
uhal_status fail_work(cl_int code, const std::string& device);

// A number as %llu takes it.
inline unsigned long long number(uint64_t value) { return value; }

}  // namespace unihal::opencl
