// What one variant of the fake backend shows the loader, apart from the slots that all share.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fake {

enum class Answer { kTable, kRefusal, kNull };  // of uhal_backend_query

struct Variant {
  size_t struct_size;
  uint32_t abi_major;
  uint32_t abi_minor;
  const char* name;
  bool counts_devices;  // else device_count fails: there is no driver
  bool launches;        // else the slot is NULL
  Answer answer;
};

extern const Variant kVariant;  // each library has its own (variant.cc)

}  // namespace fake
