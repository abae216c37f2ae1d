#include "unihal/version.h"

uint32_t uhal_abi_version(void) { return static_cast<uint32_t>(UHAL_ABI_MAJOR) << 16 | UHAL_ABI_MINOR; }

const char* uhal_version_string(void) { return UHAL_VERSION_STRING; }
