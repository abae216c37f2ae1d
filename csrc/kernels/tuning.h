// Choices between kernels that give the same result: the extension "uhal.tuning" for all backends on a Queue.
#ifndef UNIHAL_KERNELS_TUNING_H_
#define UNIHAL_KERNELS_TUNING_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "csrc/kernels/tuning_choice.h"
#include "csrc/kernels/tuning_key.h"
#include "unihal/tuning.h"

namespace unihal::kernels {

struct DeviceTraits;

// The choices of a device. is_empty() and find() from any thread, without a lock; the rest one at a time. What is found
// is what somebody chose or what a file said: whoever asks checks that there is such a candidate, and that it can run.
class TuningTable {
 public:
  // Of a device's model, the versions of its driver and of its libraries: what choices on the disk belong to.
  explicit TuningTable(std::string device) : device_(std::move(device)) {}

  // Whether nothing is chosen: then a launch need not make a key.
  bool is_empty() const { return chosen_.load(std::memory_order_relaxed) == 0; }

  // What was chosen for a key; candidate -1 if nothing was.
  TuningChoice find(const TuningKey& key) const;

  // Candidate -1 takes a choice back. False if the table is full.
  bool choose(const TuningKey& key, TuningChoice choice);

  // From and to the disk. keep() is false if nothing can be kept.
  void load();
  bool keep() const;

  void forget();

 private:
  // A key stays in its slot, so that no find() that runs meanwhile misses another one.
  struct Slot {
    std::atomic<TuningChoice> choice{TuningChoice(kFree)};  // written after the key
    TuningKey key;

    int32_t candidate() const { return choice.load(std::memory_order_relaxed).candidate; }
  };
  static constexpr int32_t kFree = -2;
  static constexpr uint64_t kSlots = 1024;  // a power of two
  static constexpr int kMostKeys = kSlots * 3 / 4;

  void set(Slot& slot, TuningChoice choice);
  std::string store_key() const;

  const std::string device_;
  int keys_ = 0;
  std::atomic<int> chosen_{0};
  Slot slots_[kSlots];
};

// What there is to choose about an op. Candidates are the ways of its kind, then the algorithms of the vendor's library
// from the second on: the first is what the library takes by itself, which is a way.
struct Tunable {
  TuningKey key;  // none: nothing
  int32_t candidates = 0;
  std::string (*name)(const DeviceTraits& traits, int32_t number) = nullptr;
  // Whether the device can run an op as a candidate, and if so what is kept of it. May ask the library.
  bool (*find)(const DeviceTraits& traits, const uhal_op& op, int32_t number, TuningChoice* choice) = nullptr;
};
Tunable tunable_matmul(const DeviceTraits& traits, const uhal_op& op);       // ops/matmul.cc
Tunable tunable_convolution(const DeviceTraits& traits, const uhal_op& op);  // ops/convolution_algorithms.cc

// Makes the table of a device, reads what is kept of it, and sets traits.tuning. `traits` lives as long as the process
// launches ops on the device. Called once per ordinal, when it is opened.
void open_tuning(int32_t ordinal, const std::string& device, DeviceTraits& traits);

// The extension's table, for a backend's `extension` slot.
const uhal_tuning* tuning_extension();

}  // namespace unihal::kernels

#endif  // UNIHAL_KERNELS_TUNING_H_
