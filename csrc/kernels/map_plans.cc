#include "csrc/kernels/map_plans.h"

#include <cstring>

#include "csrc/kernels/map_function.h"

namespace unihal::kernels {
namespace {

// No plan tells addresses apart that are multiples of it: the widest unit is four complex128.
constexpr uintptr_t kPlanAlignment = 64;

// Knuth's multiplicative hashing, with the factor of KernelSpec.
constexpr uint64_t kHashFactor = 0x9e3779b97f4a7c15;

// Hands the words of a key to `take`, which says whether to go on; false if it was told not to. How many words there
// are follows from those before them.
template <class Take>
bool visit_program(const uhal_map_chain_attributes& program, int output_count, Take& take) {
  uint64_t results = 0;
  for (int i = 0; i < output_count; ++i) results |= static_cast<uint64_t>(program.results[i]) << (8 * i);
  if (!take(results << 32 | static_cast<uint64_t>(program.step_count))) return false;
  for (int i = 0; i < program.step_count; ++i) {
    const uhal_map_function function = program.functions[i];
    if (function < 0 || function >= kMapFunctionCount) return false;  // it will be refused
    uint64_t operands = 0;                                            // what lies beyond the function's is not read
    for (int k = 0; k < map_function(function).inputs; ++k) {
      operands |= static_cast<uint64_t>(program.operands[i][k]) << (8 * k);
    }
    if (!take(static_cast<uint64_t>(function)) || !take(operands)) return false;
  }
  return true;
}

// False too of a kind that has no keys.
template <class Take>
bool visit(const uhal_op& op, Take take) {
  const bool is_chain = op.kind == UHAL_OP_MAP_CHAIN;
  if (op.kind != UHAL_OP_MAP && op.kind != UHAL_OP_CAST && !is_chain) return false;
  const auto* map = static_cast<const uhal_map_attributes*>(op.attributes);
  const uint64_t function = op.kind == UHAL_OP_MAP ? static_cast<uint64_t>(map->function) : 0;
  if (!take(function | static_cast<uint64_t>(op.kind) << 32 | static_cast<uint64_t>(op.input_count) << 40 |
            static_cast<uint64_t>(op.output_count) << 48)) {
    return false;
  }
  if (is_chain &&
      !visit_program(*static_cast<const uhal_map_chain_attributes*>(op.attributes), op.output_count, take)) {
    return false;
  }
  for (int i = 0; i < op.output_count + op.input_count; ++i) {
    const uhal_tensor& view = i < op.output_count ? *op.outputs[i] : *op.inputs[i - op.output_count];
    const uintptr_t offset = reinterpret_cast<uintptr_t>(view.data) % kPlanAlignment;
    if (!take(static_cast<uint64_t>(view.dtype) | static_cast<uint64_t>(view.rank) << 8 |
              static_cast<uint64_t>(offset) << 16)) {
      return false;
    }
    for (int k = 0; k < view.rank; ++k) {
      if (!take(static_cast<uint64_t>(view.shape[k])) || !take(static_cast<uint64_t>(view.strides[k]))) return false;
    }
  }
  return true;
}

}  // namespace

bool MapKey::assign(const uhal_op& op) {
  int count = 0;
  uint64_t hash = 0;
  const bool fits = visit(op, [&](uint64_t word) {
    if (count == kMaxWords) return false;
    words_[count++] = word;
    hash = (hash ^ word) * kHashFactor;
    return true;
  });
  count_ = count;
  hash_ = hash ^ hash >> 32;
  return fits;
}

__attribute__((hot)) bool MapKey::matches(const uhal_op& op) const {
  const uint64_t* word = words_;
  return visit(op, [&](uint64_t its) { return *word++ == its; });
}

bool MapKey::operator==(const MapKey& other) const {
  return hash_ == other.hash_ && count_ == other.count_ &&
         std::memcmp(words_, other.words_, sizeof words_[0] * static_cast<size_t>(count_)) == 0;
}

void MapPlans::note_launch(MapPlan* plan) {
  if (last_ != nullptr) last_->next = plan;
  last_ = plan;
}

MapPlan* MapPlans::search(const uhal_op& op) {
  MapKey key;
  if (!key.assign(op)) return nullptr;
  MapPlan* const plan = slots_[key.hash() % kSlots].get();
  if (plan == nullptr || plan->kernel == nullptr || !(plan->key == key)) return nullptr;
  note_launch(plan);
  return plan;
}

MapPlan* MapPlans::make_room(const uhal_op& op) {
  MapKey key;
  if (!key.assign(op)) return nullptr;
  std::unique_ptr<MapPlan>& slot = slots_[key.hash() % kSlots];
  if (slot == nullptr) slot = std::make_unique<MapPlan>();
  slot->key = key;
  slot->kernel = nullptr;
  note_launch(slot.get());
  return slot.get();
}

}  // namespace unihal::kernels
