#include "csrc/kernels/tuning.h"

#include <algorithm>
#include <cstdlib>

#include "csrc/backends/common/disk_cache.h"

namespace unihal::kernels {
namespace {

// Keys and candidates' numbers are meant by this version: raise it when a family changes its own.
constexpr char kFormat[] = "tuning 3";

// A number from 0 to `most`; moves *at behind it.
bool take_number(const char** at, int64_t most, int64_t* number) {
  char* end = nullptr;
  *number = std::strtoll(*at, &end, 10);
  const bool is_one = end != *at && *number >= 0 && *number <= most;
  *at = end;
  return is_one;
}

}  // namespace

TuningChoice TuningTable::find(const TuningKey& key) const {
  if (is_empty() || key.is_none()) return {};
  for (uint64_t at = key.hash();; ++at) {
    const Slot& slot = slots_[at % kSlots];
    const TuningChoice choice = slot.choice.load(std::memory_order_acquire);
    if (choice.candidate == kFree) return {};
    if (slot.key == key) return choice;
  }
}

bool TuningTable::choose(const TuningKey& key, TuningChoice choice) {
  for (uint64_t at = key.hash();; ++at) {
    Slot& slot = slots_[at % kSlots];
    const bool is_free = slot.candidate() == kFree;
    if (!is_free && !(slot.key == key)) continue;
    if (is_free) {
      if (choice.candidate < 0) return true;
      if (keys_ == kMostKeys) return false;
      slot.key = key;
      ++keys_;
    }
    set(slot, choice);
    return true;
  }
}

void TuningTable::set(Slot& slot, TuningChoice choice) {
  const int32_t before = slot.candidate();
  slot.choice.store(choice, std::memory_order_release);
  chosen_.fetch_add((choice.candidate >= 0) - (before >= 0), std::memory_order_relaxed);
}

void TuningTable::forget() {
  for (Slot& slot : slots_) {
    if (slot.candidate() != kFree) set(slot, {});
  }
}

std::string TuningTable::store_key() const { return std::string(kFormat) + "\n" + device_; }

// One line per choice: the key, the candidate and the algorithm. Lines from the first on that are none are left out.
void TuningTable::load() {
  std::string text;
  if (!DiskCache::shared().load(store_key(), &text)) return;
  const char* at = text.c_str();
  while (*at != '\0') {
    TuningKey key;
    if (!TuningKey::parse(&at, &key)) return;
    int64_t candidate = 0;
    int64_t algorithm = 0;
    if (!take_number(&at, INT32_MAX, &candidate) || !take_number(&at, UINT32_MAX, &algorithm) || *at != '\n') return;
    if (!choose(key, {static_cast<int32_t>(candidate), static_cast<LibraryAlgorithm>(algorithm)})) return;
    ++at;
  }
}

bool TuningTable::keep() const {
  DiskCache& cache = DiskCache::shared();
  if (!cache.on()) return false;
  std::string text;
  for (const Slot& slot : slots_) {
    const TuningChoice choice = slot.choice.load(std::memory_order_relaxed);
    if (choice.candidate < 0) continue;
    text += slot.key.line() + " " + std::to_string(choice.candidate) + " " + std::to_string(choice.algorithm) + "\n";
  }
  cache.store(store_key(), "tuning choices", text);
  std::string kept;
  return cache.load(store_key(), &kept) && kept == text;
}

}  // namespace unihal::kernels
