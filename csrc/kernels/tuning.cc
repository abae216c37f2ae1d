#include "csrc/kernels/tuning.h"

#include <algorithm>
#include <cstdlib>

#include "csrc/backends/common/disk_cache.h"

namespace unihal::kernels {
namespace {

// Keys and candidates' numbers are meant by this version: raise it when a family changes its own.
constexpr char kFormat[] = "tuning 2";

}  // namespace

int32_t TuningTable::find(const TuningKey& key) const {
  if (is_empty() || key.is_none()) return -1;
  for (uint64_t at = key.hash();; ++at) {
    const Slot& slot = slots_[at % kSlots];
    const int32_t candidate = slot.candidate.load(std::memory_order_acquire);
    if (candidate == kFree) return -1;
    if (slot.key == key) return candidate;
  }
}

bool TuningTable::choose(const TuningKey& key, int32_t candidate) {
  for (uint64_t at = key.hash();; ++at) {
    Slot& slot = slots_[at % kSlots];
    const bool is_free = slot.candidate.load(std::memory_order_relaxed) == kFree;
    if (!is_free && !(slot.key == key)) continue;
    if (is_free) {
      if (candidate < 0) return true;
      if (keys_ == kMostKeys) return false;
      slot.key = key;
      ++keys_;
    }
    set(slot, candidate);
    return true;
  }
}

void TuningTable::set(Slot& slot, int32_t candidate) {
  const int before = slot.candidate.load(std::memory_order_relaxed) >= 0;
  slot.candidate.store(candidate, std::memory_order_release);
  chosen_.fetch_add((candidate >= 0) - before, std::memory_order_relaxed);
}

void TuningTable::forget() {
  for (Slot& slot : slots_) {
    if (slot.candidate.load(std::memory_order_relaxed) != kFree) set(slot, -1);
  }
}

std::string TuningTable::store_key() const { return std::string(kFormat) + "\n" + device_; }

// One line per choice: the key, and the candidate. Lines from the first on that are none are left out.
void TuningTable::load() {
  std::string text;
  if (!DiskCache::shared().load(store_key(), &text)) return;
  const char* at = text.c_str();
  while (*at != '\0') {
    TuningKey key;
    if (!TuningKey::parse(&at, &key)) return;
    char* end = nullptr;
    const long candidate = std::strtol(at, &end, 10);
    if (end == at || *end != '\n' || candidate < 0 || candidate > INT32_MAX) return;
    if (!choose(key, static_cast<int32_t>(candidate))) return;
    at = end + 1;
  }
}

bool TuningTable::keep() const {
  DiskCache& cache = DiskCache::shared();
  if (!cache.on()) return false;
  std::string text;
  for (const Slot& slot : slots_) {
    const int32_t candidate = slot.candidate.load(std::memory_order_relaxed);
    if (candidate >= 0) text += slot.key.line() + " " + std::to_string(candidate) + "\n";
  }
  cache.store(store_key(), "tuning choices", text);
  std::string kept;
  return cache.load(store_key(), &kept) && kept == text;
}

}  // namespace unihal::kernels
