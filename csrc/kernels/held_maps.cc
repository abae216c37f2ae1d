#include "csrc/kernels/held_maps.h"

#include <algorithm>

#include "csrc/backends/common/dtype.h"
#include "csrc/backends/common/map_rules.h"
#include "csrc/kernels/map_function.h"
#include "csrc/kernels/views.h"

namespace unihal::kernels {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 30;  // of a member, and work-items of all

// Whether each element follows the one before it, in row-major order.
bool is_packed(const uhal_tensor& view) {
  int64_t expected = 1;
  for (int i = view.rank - 1; i >= 0; --i) {
    if (view.shape[i] != 1 && view.strides[i] != expected) return false;
    expected *= view.shape[i];
  }
  return true;
}

bool have_same_shape(const uhal_tensor& a, const uhal_tensor& b) {
  return a.rank == b.rank && std::equal(a.shape, a.shape + a.rank, b.shape);
}

// Whether an op is one or several functions, which this backend knows.
bool is_known(const uhal_op& op) {
  const auto knows = [](uhal_map_function function) { return function >= 0 && function < kMapFunctionCount; };
  if (op.kind == UHAL_OP_MAP) return knows(static_cast<const uhal_map_attributes*>(op.attributes)->function);
  if (op.kind != UHAL_OP_MAP_CHAIN) return false;
  const auto& attributes = *static_cast<const uhal_map_chain_attributes*>(op.attributes);
  return std::all_of(attributes.functions, attributes.functions + attributes.step_count, knows);
}

void make_chain(const uhal_op& op, MapChain* chain) {
  if (op.kind == UHAL_OP_MAP_CHAIN) return make_map_chain(op, chain);
  const uhal_map_function function = static_cast<const uhal_map_attributes*>(op.attributes)->function;
  make_map(op, meant_function(function, op.outputs[0]->dtype), chain);
}

// A kernel is compiled for each mixture of dtypes, which is for those that optimizers meet.
bool is_worth_a_kernel(uhal_dtype dtype) {
  return dtype == UHAL_FLOAT32 || dtype == UHAL_FLOAT16 || dtype == UHAL_BFLOAT16 || dtype == UHAL_BOOL;
}

}  // namespace

struct HeldMaps::Member {
  int operands;
  int outputs;
  int64_t count;
  int unit;
  bool is_dense[kMaxOperands];  // outputs first
  HeldRange ranges[kMaxOperands];
};

// False if it cannot be held.
bool HeldMaps::describe(const MapChain& chain, Member* member) {
  const uhal_tensor& result = chain.operand(0);
  member->operands = chain.operand_count();
  member->outputs = chain.output_count();
  member->count = element_count(result);
  if (member->count == 0 || member->count > kMostElements) return false;
  int64_t widest = 1;
  for (int i = 0; i < member->operands; ++i) {
    const uhal_tensor& view = chain.operand(i);
    if (!is_worth_a_kernel(view.dtype)) return false;
    const bool is_dense = have_same_shape(view, result) && is_packed(view);
    if (!is_dense && (i < member->outputs || element_count(view) != 1)) return false;
    const int64_t size = dtype_size(view.dtype);
    if (is_dense) widest = std::max(widest, size);
    const auto begin = reinterpret_cast<uintptr_t>(view.data);
    member->is_dense[i] = is_dense;
    member->ranges[i] = {begin, begin + static_cast<uintptr_t>((is_dense ? member->count : 1) * size)};
  }
  const auto lies_in_units = [&](int unit) {
    for (int i = 0; i < member->operands; ++i) {
      const auto bytes = static_cast<uintptr_t>(unit * dtype_size(chain.operand(i).dtype));
      if (member->is_dense[i] && member->ranges[i].begin % bytes != 0) return false;
    }
    return true;
  };
  member->unit = widest == 2 && lies_in_units(8) ? 8 : lies_in_units(4) ? 4 : 1;
  return true;
}

bool HeldMaps::begin(const uhal_op& op, const Member& member) {
  const char* const refused = refuse_dtypes(traits_, op);
  if (refused != nullptr || (op.kind == UHAL_OP_MAP ? refuse_map : refuse_chain)(traits_, op) != nullptr) return false;
  const uhal_tensor* pointers[kMaxOperands];
  for (int i = 0; i < member.operands; ++i) {
    views_[i] = i < op.output_count ? *op.outputs[i] : *op.inputs[i - op.output_count];
    pointers[i] = &views_[i];
  }
  uhal_op copy = op;
  copy.outputs = pointers;
  copy.inputs = pointers + op.output_count;
  chain_ = MapChain();
  make_chain(copy, &chain_);
  most_members_ = JoinedMaps::most_members(traits_, chain_);
  if (most_members_ < 2) return false;
  items_ = 0;
  ranges_.clear();
  maps_.unit = member.unit;
  is_of_one_ = true;
  add(member);
  return true;
}

bool HeldMaps::is_alike(const MapChain& chain, const Member& member) const {
  if (!chain.has_steps_of(chain_) || member.unit != maps_.unit) return false;
  for (int i = 0; i < member.operands; ++i) {
    if (chain.operand(i).dtype != views_[i].dtype) return false;
    if (member.count > 1 && !is_of_one_ && member.is_dense[i] != maps_.is_dense[i]) return false;
  }
  return true;
}

bool HeldMaps::is_independent(const Member& member) const {
  for (int i = 0; i < member.operands; ++i) {
    const HeldRange& range = member.ranges[i];
    if (!(i < member.outputs ? ranges_.allows_write(range) : ranges_.allows_read(range))) return false;
  }
  return true;
}

bool HeldMaps::has_room(const Member& member) const {
  return maps_.members < most_members_ && items_ + member.count < kMostElements;
}

void HeldMaps::add(const Member& member) {
  const int place = maps_.members++;
  for (int i = 0; i < member.operands; ++i) {
    const HeldRange& range = member.ranges[i];
    const auto* address = reinterpret_cast<const void*>(range.begin);
    maps_.addresses[place][i] = address;
    if (i < member.outputs) {
      ranges_.add_write(range);
    } else if (place == 0 || maps_.addresses[place - 1][i] != address || member.is_dense[i]) {
      ranges_.add_read(range);  // a rate that all read is there once
    }
  }
  maps_.counts[place] = member.count;
  items_ += (member.count + 1023) / 1024 * 1024;
  if (is_of_one_) std::copy_n(member.is_dense, member.operands, maps_.is_dense);
  is_of_one_ = is_of_one_ && member.count == 1;
}

bool HeldMaps::hold(const uhal_op& op) {
  MapChain chain;
  Member member;
  if (!is_known(op)) return false;
  make_chain(op, &chain);
  if (!describe(chain, &member)) return false;
  if (maps_.members == 0) return begin(op, member);
  if (!is_alike(chain, member) || !has_room(member) || !is_independent(member)) return false;
  add(member);
  return true;
}

uhal_status HeldMaps::submit(Queue& queue) {
  if (maps_.members == 0) return UHAL_OK;
  const uhal_status status = run_joined_maps(queue, chain_, maps_);
  maps_.members = 0;
  return status;
}

}  // namespace unihal::kernels
