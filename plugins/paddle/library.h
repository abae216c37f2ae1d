// Finding what is loaded in this process.
#pragma once

#include <link.h>

namespace unihal::paddle {

// A handle of the loaded library, belonging to Paddle, that exports `symbol`; nullptr if none does.
void* find_paddle_library(const char* symbol);

// Points every jump slot of Paddle's libraries that calls `symbol` to `replacement`. Returns the number of slots.
int redirect_paddle_calls(const char* symbol, void* replacement);

}  // namespace unihal::paddle
