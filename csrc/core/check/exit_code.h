// UNIHAL_CHECK_EXIT_CODE: what the checks found becomes the exit code of a program that knows nothing of them.
#pragma once

namespace unihal::core {

// At the first device: sees to it that the process ends with the code that is asked for if a race was found, or more
// device memory is left than UNIHAL_CHECK_LEAK_BYTES. Nothing without the variable.
void arrange_exit_code();

}  // namespace unihal::core
