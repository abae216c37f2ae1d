#include "csrc/kernels/compiler_log.h"

namespace unihal::kernels {
namespace {

constexpr size_t kMostLog = 1200;

}  // namespace

std::string readable_log(std::string log) {
  log.resize(log.find_last_not_of(std::string("\0 \n\t", 4)) + 1);
  // Warnings may come before the first error by thousands of lines.
  const size_t error = log.find("error");
  if (log.size() > kMostLog && error != std::string::npos) {
    const size_t line = log.rfind('\n', error);
    if (line != std::string::npos) log.erase(0, line + 1);
  }
  if (log.size() > kMostLog) {
    const size_t left_out = log.size() - kMostLog;
    log.resize(kMostLog);
    log += "\n... (" + std::to_string(left_out) + " more characters)";
  }
  return log.empty() ? "(the compiler's log is empty)" : log;
}

}  // namespace unihal::kernels
