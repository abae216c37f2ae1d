// A driver's codes as statuses of the ABI.
#pragma once

#include <string>

#include "csrc/backends/gpu/api.h"
#include "unihal/status.h"

namespace unihal::gpu {

uhal_status status_of(int code);

// Reports that a driver's function failed, with its code, the code's name, and a printf-formatted text of what was
// tried; returns status_of(code). `code` is no success.
uhal_status fail_native(int code, const char* format, ...) __attribute__((cold, format(printf, 2, 3)));

// Reports that work failed while the device ran it, as a wait or a query found out.
uhal_status fail_work(int code, const std::string& device) __attribute__((cold));

}  // namespace unihal::gpu
