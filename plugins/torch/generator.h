// The random state of a device: a Philox key (the seed) and how many blocks of it were taken.
#pragma once

#include <mutex>

#include "plugins/torch/runtime.h"

namespace unihal::pytorch {

class PhiloxGenerator : public c10::GeneratorImpl {
 public:
  explicit PhiloxGenerator(c10::DeviceIndex index);

  void set_current_seed(uint64_t seed) override;
  uint64_t current_seed() const override { return seed_; }
  uint64_t seed() override;
  void set_offset(uint64_t offset) override { offset_ = offset; }
  uint64_t get_offset() const override { return offset_; }
  // Sixteen bytes on the host: the seed, and the number of blocks that were taken.
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;

  // Takes `blocks` of four words: gives the number of the first. The caller holds the mutex.
  uint64_t take(uint64_t blocks);

 private:
  PhiloxGenerator* clone_impl() const override;

  uint64_t seed_ = c10::default_rng_seed_val;
  uint64_t offset_ = 0;
};

const at::Generator& default_generator(c10::DeviceIndex index);

// A part of a sequence of random numbers.
struct RandomPart {
  uint64_t key;
  uint64_t counter;
};
// Takes what `elements` numbers of a dtype of `bytes` bytes need, of the generator or, without one, of the device's.
RandomPart take_random(const std::optional<at::Generator>& generator, c10::DeviceIndex index, int64_t elements,
                       size_t bytes);

}  // namespace unihal::pytorch
