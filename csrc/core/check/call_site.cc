#include "csrc/core/check/call_site.h"

namespace unihal::core {

std::string call_site() noexcept {
  try {
    std::string site = python_call_site();
    if (site.empty()) site = native_call_site();
    return site.empty() ? "unknown" : site;
  } catch (...) {
    return "unknown";
  }
}

}  // namespace unihal::core
