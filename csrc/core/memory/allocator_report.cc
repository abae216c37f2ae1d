// The allocator's statistics, and its report of a shortage.
#include <algorithm>
#include <cstdio>
#include <string>

#include "csrc/core/memory/allocator.h"

namespace unihal::core {

const char* memory_kind_name(uhal_memory_kind kind) {
  static const char* const kNames[UHAL_MEMORY_KIND_COUNT] = {"device", "pinned", "managed"};
  return kind >= 0 && kind < UHAL_MEMORY_KIND_COUNT ? kNames[kind] : "unknown";
}

void Allocator::reset_peak() {
  std::lock_guard<std::mutex> lock(mutex_);
  counters_.peak_allocated_bytes = counters_.allocated_bytes;
  counters_.peak_reserved_bytes = counters_.reserved_bytes;
}

uhal_memory_stats Allocator::stats() {
  std::lock_guard<std::mutex> lock(mutex_);
  uhal_memory_stats stats = counters_;
  stats.struct_size = sizeof stats;
  stats.limit_bytes = limit_;
  stats.total_bytes = device_->properties.total_memory;
  auto widen = [&](const StreamBlocks& blocks) {
    for (const BlockBins& bins : blocks.bins) {
      stats.largest_free_block = std::max<uint64_t>(stats.largest_free_block, bins.largest());
    }
  };
  widen(shared_);
  for (const std::unique_ptr<StreamBlocks>& blocks : by_stream_) {
    if (blocks != nullptr) widen(*blocks);
  }
  uint64_t cached = stats.reserved_bytes - stats.allocated_bytes;
  stats.fragmentation =
      cached == 0 ? 0 : 1 - static_cast<double>(stats.largest_free_block) / static_cast<double>(cached);
  return stats;
}

namespace {

std::string mebibytes(uint64_t bytes) {
  char text[32];
  snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

}  // namespace

// " (12.0 MiB of it free)", if the backend can tell.
std::string Allocator::free_on_device() const {
  const Backend& backend = *device_->backend;
  uint64_t free_bytes = 0;
  uint64_t total_bytes = 0;
  if (kind_ != UHAL_MEMORY_DEVICE || backend.table.memory_info == nullptr ||
      call_backend(backend, "memory_info", backend.table.memory_info, device_->backend_device, &free_bytes,
                   &total_bytes) != UHAL_OK) {
    return "";
  }
  return " (" + mebibytes(free_bytes) + " of it free)";
}

uhal_status Allocator::refuse(size_t bytes, uhal_status status, uint64_t serial_before) {
  if (status != UHAL_RESOURCE_EXHAUSTED) {
    append_error(" (while allocating %zu bytes of %s memory)", bytes, memory_kind_name(kind_));
    set_error_device(device_->label.c_str());
    return status;
  }
  // What the backend reported, if it was asked, belongs to the record that replaces its own.
  const bool backend_said = error_serial() != serial_before;
  const int32_t native_code = backend_said ? uhal_last_error()->native_code : 0;
  const std::string native_name = backend_said ? uhal_last_error()->native_name : "";
  std::string cause = backend_said ? " The backend said: " + std::string(uhal_last_error()->message) : "";
  if (backend_said && cause.back() != '.') cause += '.';
  const std::string device_free = free_on_device();
  const uhal_memory_stats now = stats();
  const bool limited = now.limit_bytes != 0 && now.reserved_bytes + bytes > now.limit_bytes;
  UHAL_FAIL(
      UHAL_RESOURCE_EXHAUSTED,
      "Out of %s memory on %s: %zu bytes (%s) were asked for. Allocated %s in %llu allocations (peak %s), reserved "
      "%s, cached and free %s (largest block %s, fragmentation %.0f %%), limit %s, device memory %s%s. Cached memory "
      "was returned to the device before this failed. %s%s",
      memory_kind_name(kind_), device_->label.c_str(), bytes, mebibytes(bytes).c_str(),
      mebibytes(now.allocated_bytes).c_str(), static_cast<unsigned long long>(now.live_allocations),
      mebibytes(now.peak_allocated_bytes).c_str(), mebibytes(now.reserved_bytes).c_str(),
      mebibytes(now.reserved_bytes - now.allocated_bytes).c_str(), mebibytes(now.largest_free_block).c_str(),
      now.fragmentation * 100, now.limit_bytes != 0 ? mebibytes(now.limit_bytes).c_str() : "none",
      mebibytes(now.total_bytes).c_str(), device_free.c_str(),
      limited ? "Raise the limit (UNIHAL_MEMORY_LIMIT or uhal_memory_set_limit), or use smaller batches."
              : "Use smaller batches, free what is not needed, or close other programs that use the device.",
      cause.c_str());
  set_error_native(native_code, native_name.c_str());
  set_error_device(device_->label.c_str());
  return UHAL_RESOURCE_EXHAUSTED;
}

}  // namespace unihal::core
