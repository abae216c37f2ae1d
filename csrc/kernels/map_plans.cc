#include "csrc/kernels/map_plans.h"

#include <cstring>

#include "csrc/kernels/map_function.h"

namespace unihal::kernels {
namespace {

// No plan tells addresses apart that are multiples of it: the widest unit is four complex128.
constexpr uintptr_t kAlignment = 64;

// Knuth's multiplicative hashing, with the factor of KernelSpec.
constexpr uint64_t kHashFactor = 0x9e3779b97f4a7c15;

}  // namespace

void MapKey::add(uint64_t word) {
  words_[count_++] = word;
  hash_ = (hash_ ^ word) * kHashFactor;
}

bool MapKey::add_operand(const uhal_tensor& view) {
  if (count_ + 1 + 2 * view.rank > kMaxWords) return false;
  const uintptr_t offset = reinterpret_cast<uintptr_t>(view.data) % kAlignment;
  add(static_cast<uint64_t>(view.dtype) | static_cast<uint64_t>(view.rank) << 8 | static_cast<uint64_t>(offset) << 16);
  for (int i = 0; i < view.rank; ++i) {
    add(static_cast<uint64_t>(view.shape[i]));
    add(static_cast<uint64_t>(view.strides[i]));
  }
  return true;
}

bool MapKey::add_program(const uhal_map_chain_attributes& program, int output_count) {
  if (count_ + 2 * program.step_count + 1 > kMaxWords) return false;
  uint64_t results = 0;
  for (int i = 0; i < output_count; ++i) results |= static_cast<uint64_t>(program.results[i]) << (8 * i);
  add(results << 32 | static_cast<uint64_t>(program.step_count));
  for (int i = 0; i < program.step_count; ++i) {
    const uhal_map_function function = program.functions[i];
    if (function < 0 || function >= kMapFunctionCount) return false;  // it will be refused
    uint64_t operands = 0;                                            // what lies beyond the function's is not read
    for (int k = 0; k < map_function(function).inputs; ++k) {
      operands |= static_cast<uint64_t>(program.operands[i][k]) << (8 * k);
    }
    add(static_cast<uint64_t>(function));
    add(operands);
  }
  return true;
}

bool MapKey::assign(const uhal_op& op) {
  const bool is_chain = op.kind == UHAL_OP_MAP_CHAIN;
  if (op.kind != UHAL_OP_MAP && op.kind != UHAL_OP_CAST && !is_chain) return false;
  count_ = 0;
  hash_ = 0;
  const auto* map = static_cast<const uhal_map_attributes*>(op.attributes);
  const uint64_t function = op.kind == UHAL_OP_MAP ? static_cast<uint64_t>(map->function) : 0;
  add(function | static_cast<uint64_t>(op.kind) << 32 | static_cast<uint64_t>(op.input_count) << 40 |
      static_cast<uint64_t>(op.output_count) << 48);
  if (is_chain && !add_program(*static_cast<const uhal_map_chain_attributes*>(op.attributes), op.output_count)) {
    return false;
  }
  for (int i = 0; i < op.output_count; ++i) {
    if (!add_operand(*op.outputs[i])) return false;
  }
  for (int i = 0; i < op.input_count; ++i) {
    if (!add_operand(*op.inputs[i])) return false;
  }
  hash_ ^= hash_ >> 32;
  return true;
}

bool MapKey::operator==(const MapKey& other) const {
  return hash_ == other.hash_ && count_ == other.count_ &&
         std::memcmp(words_, other.words_, sizeof words_[0] * static_cast<size_t>(count_)) == 0;
}

MapPlan* MapPlans::find(const uhal_op& op) const {
  MapKey key;
  if (!key.assign(op)) return nullptr;
  MapPlan* const plan = slots_[key.hash() % kSlots].get();
  return plan != nullptr && plan->kernel != nullptr && plan->key == key ? plan : nullptr;
}

MapPlan* MapPlans::make_room(const uhal_op& op) {
  MapKey key;
  if (!key.assign(op)) return nullptr;
  std::unique_ptr<MapPlan>& slot = slots_[key.hash() % kSlots];
  if (slot == nullptr) slot = std::make_unique<MapPlan>();
  slot->key = key;
  slot->kernel = nullptr;
  return slot.get();
}

}  // namespace unihal::kernels
