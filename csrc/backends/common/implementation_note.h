// Saying what an op runs on, for the profiler (uhal_host.note_implementation).
#pragma once

#include <cstddef>

#include "unihal/backend.h"

namespace unihal {

// Does nothing with a core that has no such function. Values as of printf; `format` is a literal.
template <class... Values>
void note_implementation(const uhal_host& host, const char* format, Values... values) {
  constexpr size_t kEnd = offsetof(uhal_host, note_implementation) + sizeof host.note_implementation;
  if (host.struct_size >= kEnd && host.note_implementation != nullptr) host.note_implementation(format, values...);
}

}  // namespace unihal
