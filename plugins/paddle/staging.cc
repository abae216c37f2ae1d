#include "plugins/paddle/staging.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace unihal::paddle {

uhal_status Staging::open(uhal_device* device) {
  if (memory_ != nullptr) return UHAL_OK;
  for (Region& region : regions_) {
    if (region.passed != nullptr) continue;
    if (const uhal_status status = uhal_event_create(device, &region.passed); status != UHAL_OK) return status;
  }
  void* memory = nullptr;
  const uhal_status status = uhal_allocate(device, nullptr, UHAL_MEMORY_PINNED, kBytes, &memory);
  memory_ = static_cast<char*>(memory);
  return status;
}

uhal_status Staging::wait_for_oldest() {
  Region& oldest = regions_[first_ % kRegions];
  // Whatever became of the work before it, nothing reads the region any more.
  const uhal_status status = uhal_event_synchronize(oldest.passed);
  released_ = oldest.end;
  ++first_;
  return status;
}

uhal_status Staging::reserve(size_t bytes, char** memory) {
  const size_t length = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  const uint64_t left_of_turn = kBytes - reserved_ % kBytes;
  const uint64_t begin = left_of_turn < length ? reserved_ + left_of_turn : reserved_;
  while (next_ - first_ == kRegions || (begin + length - released_ > kBytes && next_ != first_)) {
    if (const uhal_status status = wait_for_oldest(); status != UHAL_OK) return status;
  }
  if (next_ == first_) released_ = begin;
  *memory = memory_ + begin % kBytes;
  reserved_ = begin + length;
  return UHAL_OK;
}

uhal_status Staging::copy_piece(uhal_stream* stream, char* destination, const char* source, size_t bytes) {
  char* staged = nullptr;
  if (const uhal_status status = reserve(bytes, &staged); status != UHAL_OK) return status;
  std::memcpy(staged, source, bytes);
  uhal_status status = uhal_copy(stream, destination, staged, bytes, UHAL_COPY_HOST_TO_DEVICE);
  if (status != UHAL_OK) return status;  // nothing was submitted, and the next piece may lie there
  Region& region = regions_[next_ % kRegions];
  status = uhal_event_record(region.passed, stream);
  // Without the event nobody could tell when the copy is done.
  if (status != UHAL_OK) return static_cast<void>(uhal_stream_synchronize(stream)), status;
  region.end = reserved_;
  ++next_;
  return UHAL_OK;
}

uhal_status Staging::copy(uhal_device* device, uhal_stream* stream, void* destination, const void* source,
                          size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  uhal_status status = open(device);
  for (size_t at = 0; at < bytes && status == UHAL_OK; at += kPieceBytes) {
    status = copy_piece(stream, static_cast<char*>(destination) + at, static_cast<const char*>(source) + at,
                        std::min(kPieceBytes, bytes - at));
  }
  return status;
}

uhal_status Staging::release(uhal_device* device) {
  const std::lock_guard<std::mutex> lock(mutex_);
  uhal_status status = UHAL_OK;
  while (next_ != first_) {
    const uhal_status waited = wait_for_oldest();
    if (status == UHAL_OK) status = waited;
  }
  for (Region& region : regions_) {
    static_cast<void>(uhal_event_destroy(region.passed));
    region.passed = nullptr;
  }
  const uhal_status freed = memory_ == nullptr ? UHAL_OK : uhal_free(device, nullptr, memory_);
  memory_ = nullptr;
  released_ = reserved_;
  return status == UHAL_OK ? freed : status;
}

namespace {

std::mutex finding;
std::map<uhal_device*, Staging>& by_device() {
  static auto* instance = new std::map<uhal_device*, Staging>;
  return *instance;
}

}  // namespace

Staging& staging_of(uhal_device* device) {
  const std::lock_guard<std::mutex> lock(finding);
  return by_device()[device];
}

void release_staging() {
  const std::lock_guard<std::mutex> lock(finding);
  for (auto& [device, staging] : by_device()) static_cast<void>(staging.release(device));
}

}  // namespace unihal::paddle
