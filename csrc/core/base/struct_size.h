// Structs that callers allocate: written only as far as the caller knows them.
#pragma once

#include <cstddef>
#include <cstring>

#include "csrc/core/base/error.h"

namespace unihal::core {

// Copies `value` into *out as far as out->struct_size reaches; struct_size itself stays.
template <class Struct>
uhal_status copy_out(const Struct& value, Struct* out, const char* name) {
  if (out == nullptr) return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "%s is NULL; pass a struct to fill.", name);
  size_t size = out->struct_size;
  if (size < sizeof(size_t) || size > (size_t{1} << 20)) {
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT,
                     "%s->struct_size is %zu; set it to sizeof(*%s) before the call, so that the core knows which "
                     "fields the caller has.",
                     name, size, name);
  }
  size_t known = size < sizeof(Struct) ? size : sizeof(Struct);
  memcpy(reinterpret_cast<char*>(out) + sizeof(size_t), reinterpret_cast<const char*>(&value) + sizeof(size_t),
         known - sizeof(size_t));
  return UHAL_OK;
}

}  // namespace unihal::core
