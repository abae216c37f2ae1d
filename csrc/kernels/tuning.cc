#include "csrc/kernels/tuning.h"

#include <algorithm>
#include <cstdlib>

#include "csrc/backends/common/disk_cache.h"
#include "csrc/backends/common/dtype.h"

namespace unihal::kernels {
namespace {

constexpr int kKeyBits = 48;
constexpr int kClassBits = 6;

// Candidates' numbers are meant by this version: raise it when a family renumbers its own.
constexpr char kFormat[] = "tuning 1";

uint64_t size_class(int64_t size) {
  uint64_t power = 0;
  while (size > 1) size >>= 1, ++power;
  return power;
}

// Packs fields one after the other, the first one lowest.
class Packer {
 public:
  void add(uint64_t value, int bits) {
    bits_ |= value << at_;
    at_ += bits;
  }
  uint64_t bits() const { return bits_; }

 private:
  uint64_t bits_ = 0;
  int at_ = 0;
};

class Unpacker {
 public:
  explicit Unpacker(uint64_t bits) : bits_(bits) {}
  uint64_t take(int bits) {
    const uint64_t value = bits_ & ((uint64_t{1} << bits) - 1);
    bits_ >>= bits;
    return value;
  }

 private:
  uint64_t bits_;
};

uint64_t slot_of(uint64_t bits) { return (bits * 0x9e3779b97f4a7c15) >> 40; }

}  // namespace

TuningKey TuningKey::gemm(const MatmulProblem& problem, bool a_along_k, bool b_along_k) {
  Packer packer;
  packer.add(kGemm, 4);
  packer.add(static_cast<uint64_t>(problem.operands[kMatmulA].dtype), 4);
  packer.add(static_cast<uint64_t>(problem.operands[kMatmulB].dtype), 4);
  packer.add(a_along_k, 1);
  packer.add(b_along_k, 1);
  for (const int64_t size : {problem.m, problem.n, problem.k, problem.batch_count()}) {
    packer.add(size_class(size), kClassBits);
  }
  return from_bits(packer.bits());
}

TuningKey TuningKey::from_bits(uint64_t bits) {
  TuningKey key;
  key.bits_ = bits;
  return key;
}

std::string TuningKey::text() const {
  Unpacker unpacker(bits_);
  if (unpacker.take(4) != kGemm) return "";
  const uhal_dtype a = static_cast<uhal_dtype>(unpacker.take(4));
  const uhal_dtype b = static_cast<uhal_dtype>(unpacker.take(4));
  std::string text = std::string("gemm ") + dtype_name(a);
  if (b != a) text += std::string("-") + dtype_name(b);
  // In BLAS' terms: n is row-major, so a runs along k and b along n.
  text += unpacker.take(1) != 0 ? " n" : " t";
  text += unpacker.take(1) != 0 ? "t" : "n";
  for (int i = 0; i < 4; ++i) text += " " + std::to_string(uint64_t{1} << unpacker.take(kClassBits));
  return text;
}

int32_t TuningTable::find_in_table(TuningKey key) const {
  for (uint64_t at = slot_of(key.bits());; ++at) {
    const uint64_t slot = slots_[at % kSlots].load(std::memory_order_relaxed);
    if (slot == 0) return -1;
    if (slot >> 8 == key.bits()) return static_cast<int32_t>(slot & 0xff) - 1;
  }
}

bool TuningTable::choose(TuningKey key, int32_t candidate) {
  const uint64_t content = key.bits() << 8 | static_cast<uint64_t>(candidate + 1);
  for (uint64_t at = slot_of(key.bits());; ++at) {
    std::atomic<uint64_t>& slot = slots_[at % kSlots];
    const uint64_t present = slot.load(std::memory_order_relaxed);
    if (present != 0 && present >> 8 != key.bits()) continue;
    if (present == 0) {
      if (candidate < 0) return true;
      if (count_.load(std::memory_order_relaxed) == kMostKeys) return false;
      slot.store(content, std::memory_order_relaxed);
      count_.fetch_add(1, std::memory_order_release);
    } else {
      slot.store(content, std::memory_order_relaxed);
    }
    return true;
  }
}

std::string TuningTable::store_key() const { return std::string(kFormat) + "\n" + device_; }

// One line per choice: the key's bits in hexadecimal, and the candidate.
void TuningTable::load() {
  std::string text;
  if (!DiskCache::shared().load(store_key(), &text)) return;
  const char* at = text.c_str();
  while (*at != '\0') {
    char* end = nullptr;
    const uint64_t bits = std::strtoull(at, &end, 16);
    const long candidate = std::strtol(end, &end, 10);
    if (end == at || bits >> kKeyBits != 0 || candidate < 0 || candidate > 254) return;
    if (!choose(TuningKey::from_bits(bits), static_cast<int32_t>(candidate))) return;
    at = *end == '\n' ? end + 1 : end;
  }
}

bool TuningTable::keep() const {
  DiskCache& cache = DiskCache::shared();
  if (!cache.on()) return false;
  std::string text;
  for (const std::atomic<uint64_t>& slot : slots_) {
    const uint64_t content = slot.load(std::memory_order_relaxed);
    if ((content & 0xff) == 0) continue;
    char line[64];
    snprintf(line, sizeof line, "%llx %d\n", static_cast<unsigned long long>(content >> 8),
             static_cast<int>(content & 0xff) - 1);
    text += line;
  }
  cache.store(store_key(), "tuning gemm", text);
  std::string kept;
  return cache.load(store_key(), &kept) && kept == text;
}

// Slots keep their keys, so that no find() that runs meanwhile misses another key.
void TuningTable::forget() {
  for (std::atomic<uint64_t>& slot : slots_) {
    slot.store(slot.load(std::memory_order_relaxed) & ~uint64_t{0xff}, std::memory_order_relaxed);
  }
}

}  // namespace unihal::kernels
