// Failures on request, and the count of calls.
//
// Threads: any.
#pragma once

namespace on_host {

// The code that this call of a function fails with; 0 to let it through. Counts the call.
int failure(const char* function);

// Whether a rule for the function is in force; takes nothing from it.
bool is_asked_for(const char* function);

}  // namespace on_host
