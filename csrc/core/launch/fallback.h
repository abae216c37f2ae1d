// The account of fallbacks, for the core itself: see unihal/fallback.h.
#pragma once

#include <string>

#include "unihal/status.h"

namespace unihal::core {

// Adds one to the count of a fallback, and to the log. A failure is about the log or the environment.
uhal_status count_fallback(const std::string& framework, const std::string& op, const std::string& dtype,
                           const std::string& reason);

}  // namespace unihal::core
