// The core's services for parts of the backend that are tested by themselves: keeps the last report.
#pragma once

#include <string>

#include "csrc/kernels/ops.h"

namespace unihal::opencl {

struct Report {
  uhal_status status = UHAL_OK;
  int32_t native_code = 0;
  std::string native_name;
  std::string message;
};

inline Report last_report;

inline void keep_reports() {
  static const uhal_host host = [] {
    uhal_host result = {};
    result.struct_size = sizeof result;
    result.report = [](uhal_status status, int32_t code, const char* name, const char* message) {
      last_report = {status, code, name != nullptr ? name : "", message != nullptr ? message : ""};
    };
    return result;
  }();
  kernels::set_host(&host);
}

}  // namespace unihal::opencl
