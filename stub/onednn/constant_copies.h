// Constants (unihal/constants.h), and copies of them in the layouts that oneDNN's primitives prefer.
#pragma once

#include "stub/onednn/library.h"
#include "unihal/constants.h"

#if defined(UNIHAL_STUB_ONEDNN)

#include <cstdint>
#include <functional>

namespace unihal::stub {

extern const uhal_constants kConstants;

// Another number each time that a constant is declared or withdrawn; 0: none was yet. What constant_copy gave holds as
// long as the number is the same.
uint64_t constants_generation();

// The copy of a constant in a layout: made by `fill` the first time, which writes it to the memory that it is given.
// nullptr if the `source_bytes` at `source` are no constant, or there is no memory for a copy.
void* constant_copy(const void* source, size_t source_bytes, const_dnnl_memory_desc_t layout,
                    const std::function<uhal_status(void*)>& fill);

}  // namespace unihal::stub

#endif  // UNIHAL_STUB_ONEDNN
