#include "csrc/core/backend/backend_table.h"

#include <cstddef>
#include <cstring>

namespace unihal::core {
namespace {

// The slots that a backend must have, in order.
struct RequiredSlot {
  const char* name;
  size_t offset;
};
#define UHAL_SLOT(name) {#name, offsetof(uhal_backend, name)}
const RequiredSlot kRequiredSlots[] = {
    UHAL_SLOT(device_count),      UHAL_SLOT(device_open),  UHAL_SLOT(device_properties),
    UHAL_SLOT(allocate),          UHAL_SLOT(free),         UHAL_SLOT(stream_create),
    UHAL_SLOT(stream_destroy),    UHAL_SLOT(stream_query), UHAL_SLOT(stream_synchronize),
    UHAL_SLOT(stream_wait_event), UHAL_SLOT(event_create), UHAL_SLOT(event_destroy),
    UHAL_SLOT(event_record),      UHAL_SLOT(event_query),  UHAL_SLOT(event_synchronize),
    UHAL_SLOT(event_elapsed),     UHAL_SLOT(copy),         UHAL_SLOT(fill),
    UHAL_SLOT(supports),          UHAL_SLOT(launch),
};
#undef UHAL_SLOT

// The slots begin here, one pointer each.
constexpr size_t kHeaderSize = offsetof(uhal_backend, device_count);

// Slots of the first minor end here; later ones are optional.
constexpr size_t kFirstMinorSize = offsetof(uhal_backend, host_callback);

}  // namespace

std::string check_backend_table(const uhal_backend* table, const std::string& expected_name) {
  if (table->struct_size < kHeaderSize) {
    return "has a table of " + std::to_string(table->struct_size) + " bytes, too short for its own version";
  }
  if (table->abi_major != UHAL_ABI_MAJOR) {
    return "has ABI major " + std::to_string(table->abi_major) + ", this core has " + std::to_string(UHAL_ABI_MAJOR) +
           "; install matching versions of unihal and the backend";
  }
  for (const RequiredSlot& slot : kRequiredSlots) {
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
