// What a stream keeps for each kernel that it has run: a hash table that is searched without a lock or an allocation.
//
// Threads: one at a time.
#ifndef UNIHAL_KERNELS_SPEC_TABLE_H_
#define UNIHAL_KERNELS_SPEC_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "csrc/kernels/kernel_spec.h"

namespace unihal::kernels {

// Value: has `const KernelSpec& spec() const`.
template <class Value>
class SpecTable {
 public:
  // nullptr if the spec was not added.
  Value* find(const KernelSpec& spec) const {
    const uint64_t hash = spec.hash();
    for (size_t i = hash & mask_;; i = (i + 1) & mask_) {
      const Slot& slot = slots_[i];
      if (slot.value == nullptr) return nullptr;
      if (slot.hash == hash && slot.value->spec() == spec) return slot.value.get();
    }
  }

  // Of a spec that was not added before. The address stays.
  Value* add(std::unique_ptr<Value> value) {
    if (2 * (used_ + 1) > slots_.size()) grow();
    ++used_;
    return insert({value->spec().hash(), std::move(value)});
  }

 private:
  struct Slot {
    uint64_t hash = 0;
    std::unique_ptr<Value> value;
  };

  static constexpr size_t kFirstSlots = 256;

  Value* insert(Slot added) {
    size_t i = added.hash & mask_;
    while (slots_[i].value != nullptr) i = (i + 1) & mask_;
    slots_[i] = std::move(added);
    return slots_[i].value.get();
  }

  void grow() {
    std::vector<Slot> old(2 * slots_.size());
    old.swap(slots_);
    mask_ = slots_.size() - 1;
    for (Slot& slot : old) {
      if (slot.value != nullptr) insert(std::move(slot));
    }
  }

  std::vector<Slot> slots_ = std::vector<Slot>(kFirstSlots);  // a power of two of them, at most half in use
  size_t mask_ = kFirstSlots - 1;
  size_t used_ = 0;
};

}  // namespace unihal::kernels

#endif  // UNIHAL_KERNELS_SPEC_TABLE_H_
