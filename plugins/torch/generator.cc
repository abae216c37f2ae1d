#include "plugins/torch/generator.h"

#include <ATen/core/Generator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>

#include <cstring>

namespace unihal::pytorch {

PhiloxGenerator::PhiloxGenerator(c10::DeviceIndex index)
    : GeneratorImpl(c10::Device(kDevice, index), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

void PhiloxGenerator::set_current_seed(uint64_t seed) {
  seed_ = seed;
  offset_ = 0;
}

uint64_t PhiloxGenerator::seed() {
  set_current_seed(c10::detail::getNonDeterministicRandom());
  return seed_;
}

void PhiloxGenerator::set_state(const c10::TensorImpl& state) {
  TORCH_CHECK_TYPE(state.device().is_cpu() && state.dtype() == c10::scalarTypeToTypeMeta(at::kByte),
                   "A generator's state is a torch.ByteTensor in host memory.");
  TORCH_CHECK(state.numel() == 16 && state.is_contiguous(), "A generator's state of ", device_type(),
              " has 16 bytes in a row, not ", state.numel(), ".");
  std::memcpy(&seed_, state.data(), 8);
  std::memcpy(&offset_, static_cast<const char*>(state.data()) + 8, 8);
}

c10::intrusive_ptr<c10::TensorImpl> PhiloxGenerator::get_state() const {
  at::Tensor state = at::empty({16}, at::TensorOptions().dtype(at::kByte).device(at::kCPU));
  std::memcpy(state.data_ptr(), &seed_, 8);
  std::memcpy(static_cast<char*>(state.data_ptr()) + 8, &offset_, 8);
  return state.getIntrusivePtr();
}

uint64_t PhiloxGenerator::take(uint64_t blocks) {
  const uint64_t first = offset_;
  offset_ += blocks;
  return first;
}

PhiloxGenerator* PhiloxGenerator::clone_impl() const {
  auto* copy = new PhiloxGenerator(device_.index());
  copy->seed_ = seed_;
  copy->offset_ = offset_;
  return copy;
}

const at::Generator& default_generator(c10::DeviceIndex index) {
  static auto* generators = [] {
    auto* all = new std::vector<at::Generator>;
    for (int i = 0; i < std::max<int>(1, device_count()); ++i) {
      all->push_back(at::make_generator<PhiloxGenerator>(static_cast<c10::DeviceIndex>(i)));
    }
    return all;
  }();
  if (index < 0) index = current_device();
  TORCH_CHECK(static_cast<size_t>(index) < generators->size(), "There is no device ", device_type(), ":",
              static_cast<int>(index), ".");
  return (*generators)[index];
}

RandomPart take_random(const std::optional<at::Generator>& generator, c10::DeviceIndex index, int64_t elements,
                       size_t bytes) {
  const at::Generator& chosen = generator.has_value() && generator->defined() ? *generator : default_generator(index);
  TORCH_CHECK(chosen.device().type() == kDevice, "Expected a '", device_type(),
              "' device type for generator but found '", chosen.device().type(), "'");
  auto* const philox = static_cast<PhiloxGenerator*>(chosen.unsafeGetGeneratorImpl());
  std::lock_guard<std::mutex> lock(philox->mutex_);
  const uint64_t per_block = bytes == 8 ? 2 : 4;
  return {philox->current_seed(), philox->take((static_cast<uint64_t>(elements) + per_block - 1) / per_block)};
}

}  // namespace unihal::pytorch
