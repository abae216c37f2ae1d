// The core's services for parts of the backend that are tested by themselves: keeps the last report, and what was said
// to have run.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <string>
#include <vector>

#include "csrc/kernels/ops.h"

namespace unihal::opencl {

struct Report {
  uhal_status status = UHAL_OK;
  int32_t native_code = 0;
  std::string native_name;
  std::string message;
};

inline Report last_report;
inline std::vector<std::string> implementations;

inline void note_implementation(const char* format, ...) {
  char text[256];
  va_list values;
  va_start(values, format);
  vsnprintf(text, sizeof text, format, values);
  va_end(values);
  implementations.emplace_back(text);
}

inline void keep_reports() {
  static const uhal_host host = [] {
    uhal_host result = {};
    result.struct_size = sizeof result;
    result.report = [](uhal_status status, int32_t code, const char* name, const char* message) {
      last_report = {status, code, name != nullptr ? name : "", message != nullptr ? message : ""};
    };
    result.note_implementation = note_implementation;
    return result;
  }();
  kernels::set_host(&host);
}

}  // namespace unihal::opencl
