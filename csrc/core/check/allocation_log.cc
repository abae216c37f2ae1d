#include "csrc/core/check/allocation_log.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "csrc/core/base/error.h"
#include "csrc/core/base/process_state.h"
#include "csrc/core/handle/device.h"
#include "csrc/core/memory/allocator.h"

namespace unihal::core {
namespace {

constexpr size_t kMostLeakGroups = 10;
constexpr uintptr_t kNear = 4096;  // an address this far outside of an allocation was probably meant to be inside

std::string text_of(uintptr_t address) {
  char text[32];
  snprintf(text, sizeof text, "0x%zx", static_cast<size_t>(address));
  return text;
}

std::string count_of(uint64_t count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

}  // namespace

void AllocationLog::note_allocation(void* pointer, size_t bytes, uhal_memory_kind kind, std::string site) {
  std::lock_guard<std::mutex> lock(mutex_);
  live_[reinterpret_cast<uintptr_t>(pointer)] = {bytes, kind, std::move(site), ++serials_};
}

void AllocationLog::note_free(void* pointer, std::string site) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = live_.find(reinterpret_cast<uintptr_t>(pointer));
  if (found == live_.end()) return;
  freed_.push_back({found->first, found->second.bytes, std::move(found->second.site), std::move(site)});
  if (freed_.size() > kMostFreed) freed_.pop_front();
  live_.erase(found);
}

std::string AllocationLog::history_of(const void* address) const {
  const auto place = reinterpret_cast<uintptr_t>(address);
  std::lock_guard<std::mutex> lock(mutex_);
  const auto after = live_.upper_bound(place);
  const auto before = after == live_.begin() ? live_.end() : std::prev(after);
  auto allocation = [](const auto& entry) {
    return "allocation of " + count_of(entry.second.bytes, "byte") + " at " + text_of(entry.first) + ", made at " +
           entry.second.site + ".";
  };
  if (before != live_.end() && place - before->first < before->second.bytes)
    return " It is in the " + allocation(*before);
  for (auto freed = freed_.rbegin(); freed != freed_.rend(); ++freed) {
    if (place - freed->start >= freed->bytes) continue;
    return " That memory, " + count_of(freed->bytes, "byte") + " at " + text_of(freed->start) + ", was allocated at " +
           freed->allocated_at + " and freed at " + freed->freed_at + ".";
  }
  if (before != live_.end()) {
    const uintptr_t past = place - before->first - before->second.bytes;
    if (past < kNear) return " It is " + count_of(past, "byte") + " past the end of the " + allocation(*before);
  }
  if (after != live_.end() && after->first - place <= kNear) {
    return " It is " + count_of(after->first - place, "byte") + " before the start of the " + allocation(*after);
  }
  return "";
}

size_t AllocationLog::sites_of(const void* address, char* text, size_t bytes) const {
  const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || bytes == 0) return 0;
  const auto place = reinterpret_cast<uintptr_t>(address);
  int length = 0;
  if (auto after = live_.upper_bound(place); after != live_.begin()) {
    const auto& [start, live] = *--after;
    if (place - start < live.bytes) length = snprintf(text, bytes, "allocated at %s", live.site.c_str());
  }
  for (auto freed = freed_.rbegin(); length == 0 && freed != freed_.rend(); ++freed) {
    if (place - freed->start >= freed->bytes) continue;
    length =
        snprintf(text, bytes, "allocated at %s and freed at %s", freed->allocated_at.c_str(), freed->freed_at.c_str());
  }
  return std::min(static_cast<size_t>(std::max(length, 0)), bytes - 1);
}

void AllocationLog::visit_live(uhal_live_allocation_function function, void* user_data) const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<const std::pair<const uintptr_t, Live>*> entries;
  for (const auto& entry : live_) entries.push_back(&entry);
  std::sort(entries.begin(), entries.end(), [](auto* a, auto* b) { return a->second.serial < b->second.serial; });
  for (const auto* entry : entries) {
    const Live& live = entry->second;
    const uhal_live_allocation allocation = {sizeof allocation, reinterpret_cast<void*>(entry->first), live.bytes,
                                             live.kind, live.site.c_str()};
    function(&allocation, user_data);
  }
}

uint64_t AllocationLog::live_device_bytes() const {
  std::lock_guard<std::mutex> lock(mutex_);
  uint64_t bytes = 0;
  for (const auto& [address, live] : live_) bytes += live.kind == UHAL_MEMORY_DEVICE ? live.bytes : 0;
  return bytes;
}

std::string AllocationLog::leaks(const std::string& device_label) const {
  struct Group {
    uint64_t count = 0;
    uint64_t bytes = 0;
  };
  using Key = std::pair<std::string, uhal_memory_kind>;
  std::map<Key, Group> by_site;
  Group all;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [address, live] : live_) {
      for (Group* group : {&by_site[{live.site, live.kind}], &all}) {
        ++group->count;
        group->bytes += live.bytes;
      }
    }
  }
  if (all.count == 0) return "";
  std::vector<std::pair<Key, Group>> groups(by_site.begin(), by_site.end());
  std::stable_sort(groups.begin(), groups.end(),
                   [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  auto amount = [](const Group& group) {
    return count_of(group.count, "allocation") + ", " + count_of(group.bytes, "byte");
  };
  std::string text = "unihal: never freed on " + device_label + ": " + amount(all) + "\n";
  Group more;
  for (size_t i = 0; i < groups.size(); ++i) {
    const auto& [key, group] = groups[i];
    if (i < kMostLeakGroups) {
      text += "  " + amount(group) + " of " + memory_kind_name(key.second) + " memory at " + key.first + "\n";
    } else {
      more.count += group.count;
      more.bytes += group.bytes;
    }
  }
  if (groups.size() > kMostLeakGroups) {
    text += "  and " + std::to_string(groups.size() - kMostLeakGroups) + " more: " + amount(more) + "\n";
  }
  return text;
}

// -- all logs of the process ----------------------------------------------------------------------------

namespace {

// Never destroyed: other threads may still use devices while the process ends.
struct Logs {
  std::mutex mutex;
  std::vector<std::pair<std::string, AllocationLog*>> by_label;
  bool listed = false;
};

Logs& logs() {
  static Logs* const instance = new Logs;
  return *instance;
}

}  // namespace

AllocationLog* open_allocation_log(const std::string& device_label) {
  std::lock_guard<std::mutex> lock(logs().mutex);
  if (logs().by_label.empty()) static_cast<void>(atexit(list_leaks));
  logs().by_label.emplace_back(device_label, new AllocationLog);
  return logs().by_label.back().second;
}

size_t describe_sites(const void* address, char* text, size_t bytes) {
  const std::unique_lock<std::mutex> lock(logs().mutex, std::try_to_lock);
  if (!lock.owns_lock()) return 0;
  for (const auto& [label, log] : logs().by_label) {
    if (const size_t length = log->sites_of(address, text, bytes); length > 0) return length;
  }
  return 0;
}

uint64_t leaked_bytes() {
  std::lock_guard<std::mutex> lock(logs().mutex);
  uint64_t bytes = 0;
  for (const auto& [label, log] : logs().by_label) bytes += log->live_device_bytes();
  return bytes;
}

void list_leaks() {
  // A forked child has its parent's allocations, and perhaps its locks in a taken state.
  if (process_state.load() == ProcessState::kForked) return;
  static_cast<void>(guarded([]() -> uhal_status {
    std::lock_guard<std::mutex> lock(logs().mutex);
    if (logs().listed) return UHAL_OK;
    logs().listed = true;
    for (const auto& [label, log] : logs().by_label) fputs(log->leaks(label).c_str(), stderr);
    return UHAL_OK;
  }));
}

void append_history(const uhal_device& device, const void* address) {
  if (device.allocation_log != nullptr) append_error("%s", device.allocation_log->history_of(address).c_str());
}

}  // namespace unihal::core

using namespace unihal::core;

uhal_status uhal_live_allocations(uhal_device* device, uhal_live_allocation_function function, void* user_data) {
  UHAL_CHECK_PROCESS();
  if (device == nullptr) return refuse_null_device();
  if (function == nullptr) return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "The function is NULL; pass the one to call.");
  if (device->allocation_log == nullptr) {
    return UHAL_FAIL(UHAL_FAILED_PRECONDITION,
                     "Allocations of %s are not recorded; set UNIHAL_CHECK_MEMORY=1 before its first use.",
                     device->label.c_str());
  }
  return guarded([&]() -> uhal_status {
    device->allocation_log->visit_live(function, user_data);
    return UHAL_OK;
  });
}
