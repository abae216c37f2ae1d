// Choices between kernels that give the same result: the extension "uhal.tuning" for all backends on a Queue.
#ifndef UNIHAL_KERNELS_TUNING_H_
#define UNIHAL_KERNELS_TUNING_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "csrc/backends/common/matmul_problem.h"
#include "unihal/tuning.h"

namespace unihal::kernels {

struct DeviceTraits;

// What a choice depends on, in 48 bits: packed, since every launch asks.
class TuningKey {
 public:
  enum Family : uint8_t { kNone, kGemm };

  TuningKey() = default;

  // Of a product that is computed in tiles. Sizes count as powers of two, rounded down. `a_along_k`: whether a's
  // elements lie one after the other along k (else along m), and so for b (else along n).
  static TuningKey gemm(const MatmulProblem& problem, bool a_along_k, bool b_along_k);

  static TuningKey from_bits(uint64_t bits);
  uint64_t bits() const { return bits_; }

  // "gemm float32 nt 4096 4096 1024 1"; empty for no key.
  std::string text() const;

 private:
  uint64_t bits_ = 0;
};

// The choices of a device. find() takes no lock and is one comparison while nothing was chosen; the rest one at a time.
class TuningTable {
 public:
  // Of a device's model and driver version: what choices on the disk belong to.
  explicit TuningTable(std::string device) : device_(std::move(device)) {}

  // The candidate chosen for a key, or -1.
  int32_t find(TuningKey key) const { return count_.load(std::memory_order_acquire) == 0 ? -1 : find_in_table(key); }

  // -1 takes a choice back. False if the table is full.
  bool choose(TuningKey key, int32_t candidate);

  // From and to the disk. keep() is false if nothing can be kept.
  void load();
  bool keep() const;

  void forget();

 private:
  static constexpr int kSlots = 1024;  // a power of two
  static constexpr int kMostKeys = kSlots * 3 / 4;

  int32_t find_in_table(TuningKey key) const;
  std::string store_key() const;

  const std::string device_;
  std::atomic<int> count_{0};
  std::atomic<uint64_t> slots_[kSlots] = {};  // bits of a key * 256 + candidate + 1
};

// Makes the table of a device, reads what is kept of it, and sets traits.tuning. `traits` lives as long as the process
// launches ops on the device. Called once per ordinal, when it is opened.
void open_tuning(int32_t ordinal, const std::string& device, DeviceTraits& traits);

// The extension's table, for a backend's `extension` slot.
const uhal_tuning* tuning_extension();

}  // namespace unihal::kernels

#endif  // UNIHAL_KERNELS_TUNING_H_
