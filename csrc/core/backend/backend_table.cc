#include "csrc/core/backend/backend_table.h"

#include <cstddef>
#include <cstring>

namespace unihal::core {
namespace {

struct Slot {
  const char* name;
  size_t offset;
  int32_t minor;
  bool required;
};

constexpr bool REQUIRED = true;
constexpr bool OPTIONAL = false;
constexpr Slot kSlots[] = {
#define UHAL_BACKEND_SLOT(name, minor, necessity) {#name, offsetof(uhal_backend, name), minor, necessity},
#include "csrc/tables/backend_slots.def"
};

// The slots begin here, one pointer each.
constexpr size_t kHeaderSize = offsetof(uhal_backend, device_count);

// Slots of the first minor end here; later ones are optional.
constexpr size_t kFirstMinorSize = offsetof(uhal_backend, host_callback);

// One row a slot, in the struct's order.
constexpr bool slots_are_complete() {
  size_t offset = kHeaderSize;
  for (const Slot& slot : kSlots) {
    if (slot.offset != offset || (slot.minor > 0) != (offset >= kFirstMinorSize)) return false;
    offset += sizeof(void*);
  }
  return offset == sizeof(uhal_backend);
}
static_assert(slots_are_complete(), "backend.h and backend_slots.def differ");

}  // namespace

std::string check_backend_table(const uhal_backend* table, const std::string& expected_name) {
  if (table->struct_size < kHeaderSize) {
    return "has a table of " + std::to_string(table->struct_size) + " bytes, too short for its own version";
  }
  if (table->abi_major != UHAL_ABI_MAJOR) {
    return "has ABI major " + std::to_string(table->abi_major) + ", this core has " + std::to_string(UHAL_ABI_MAJOR) +
           "; install matching versions of unihal and the backend";
  }
  for (const Slot& slot : kSlots) {
    if (!slot.required) continue;
    if (table->struct_size < slot.offset + sizeof(void*)) {
      return "has a table of " + std::to_string(table->struct_size) + " bytes, too short for the required slot " +
             slot.name + " (" + std::to_string(kFirstMinorSize) + " bytes are needed); rebuild the backend";
    }
    void* function;
    memcpy(&function, reinterpret_cast<const char*>(table) + slot.offset, sizeof function);
    if (function == nullptr) return std::string("has no function in the required slot ") + slot.name;
  }
  if (table->name == nullptr || table->name[0] == '\0') return "has a table without a name";
  if (!expected_name.empty() && expected_name != table->name) {
    return "is the backend '" + std::string(table->name) + "', not '" + expected_name + "'";
  }
  return "";
}

uhal_backend usable_backend_table(const uhal_backend* table) {
  uhal_backend usable = {};
  // Below minor 1 the slots after the first minor mean nothing, whatever lies there.
  size_t known = table->abi_minor >= 1 ? sizeof usable : kFirstMinorSize;
  if (table->struct_size < known) known = table->struct_size;
  known -= (known - kHeaderSize) % sizeof(void*);  // part of a slot is no slot
  memcpy(&usable, table, known);
  usable.struct_size = sizeof usable;
  return usable;
}

}  // namespace unihal::core
