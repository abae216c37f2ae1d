// Errors out of kernels, as Paddle's own exception type: they reach Python as exceptions.
#pragma once

#include <string>
#include <string_view>

#include "unihal/status.h"

namespace unihal::paddle {

// Throws what Paddle catches as common::enforce::EnforceNotMet (Python: ValueError, NotImplementedError, ...
// by status).
[[noreturn]] __attribute__((cold)) void raise(uhal_status status, const std::string& message);

// The calling thread's error record as one text, for the Paddle kernel or call `kernel`.
__attribute__((cold)) std::string describe_last_error(const char* kernel);

// Throws the calling thread's error record, for the Paddle kernel `kernel`.
[[noreturn]] __attribute__((cold)) void raise_last_error(uhal_status status, const char* kernel);

// What Paddle's CPU kernel of that name makes of a number that is outside of what it indexes.
uhal_status outside_error(std::string_view kernel);

}  // namespace unihal::paddle
