// Who allocated and who freed: what a device with UHAL_CHECK_MEMORY remembers of its memory, for error messages and the
// list of leaks.
//
// Thread-safe. Lock order: its lock is taken last.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>

#include "csrc/core/handle/device.h"
#include "unihal/check.h"

namespace unihal::core {

class AllocationLog {
 public:
  // A new allocation. Call it before the address is known to anybody else.
  void note_allocation(void* pointer, size_t bytes, uhal_memory_kind kind, std::string site);

  // The allocation that starts at `pointer` is about to be freed; nothing happens if there is none. Call it before the
  // memory can be handed out again.
  void note_free(void* pointer, std::string site);

  // What is known of an address, as sentences to add to an error message: " That memory, 4096 bytes at 0x7f00, was
  // allocated at A and freed at B." Empty if it is nowhere near any memory of this log.
  std::string history_of(const void* address) const;

  // "allocated at A" or "allocated at A and freed at B" of the allocation that contains an address, with the NUL at
  // most `bytes`; the text's length, 0 if there is none or another thread is just changing the log. For signal handlers
  // too.
  size_t sites_of(const void* address, char* text, size_t bytes) const;

  // Calls function for each live allocation, the oldest first, with the lock held.
  void visit_live(uhal_live_allocation_function function, void* user_data) const;

  // The live allocations by site, the most bytes first, for a person. Empty if there are none.
  std::string leaks(const std::string& device_label) const;

  // Of what is live now.
  uint64_t live_device_bytes() const;

 private:
  static constexpr size_t kMostFreed = 4096;

  struct Live {
    size_t bytes;
    uhal_memory_kind kind;
    std::string site;
    uint64_t serial;
  };
  struct Freed {
    uintptr_t start;
    size_t bytes;
    std::string allocated_at;
    std::string freed_at;
  };

  mutable std::mutex mutex_;
  std::map<uintptr_t, Live> live_;  // by address
  std::deque<Freed> freed_;         // the latest last
  uint64_t serials_ = 0;
};

// A log for a new device. What is live in it when the process ends is listed on stderr.
AllocationLog* open_allocation_log(const std::string& device_label);

// sites_of() of the log that knows the address.
size_t describe_sites(const void* address, char* text, size_t bytes);

// Prints that list now, and not again.
void list_leaks();

// Completes the record of a failure about an address: with UHAL_CHECK_MEMORY, where the memory that it lies in, or lay
// in, was allocated and freed.
void append_history(const uhal_device& device, const void* address);

// Device memory of all devices that is live now.
uint64_t leaked_bytes();

}  // namespace unihal::core
