#include "plugins/paddle/eager_gradients.h"

#include <algorithm>
#include <memory>

#include "plugins/paddle/arguments.h"
#include "plugins/paddle/kernels/common.h"
#include "plugins/paddle/library.h"
#include "plugins/paddle/phi_types.h"
#include "plugins/paddle/stream.h"

namespace unihal::paddle {
namespace {

constexpr const char* kAccumulateSymbol = "_ZN3egr16GradTensorHolder3addEmmRKN6paddle6TensorEb";
// Since 3.2 the sum may be given memory.
constexpr const char* kAddSymbol = "_Z11add_ad_funcRKN6paddle6TensorES2_NS_8optionalIPS0_EE";
constexpr const char* kOldAddSymbol = "_Z11add_ad_funcRKN6paddle6TensorES2_";
constexpr const char* kSetConstantSymbol = "_ZN3phi5funcs12set_constantERKNS_13DeviceContextEPNS_11DenseTensorEf";

// phi::TensorBase, which a paddle::Tensor shares.
using Shared = std::shared_ptr<void>;

// A paddle::Tensor is returned through a pointer, and the optional operand is a pointer too: both only pass through.
using AddTensors = void* (*)(void* result, const void* x, const void* y, void* optional);
using Accumulate = void (*)(void* holder, size_t slot, size_t rank, const void* tensor, bool create_graph);
using SetConstant = void (*)(const void* context, void* tensor, float value);
AddTensors original_add = nullptr;
Accumulate original_accumulate = nullptr;
SetConstant original_set_constant = nullptr;

const Shared& (*shared_of)(const void* tensor) = nullptr;
const Place& (*place_of_tensor)(const void* dense_tensor) = nullptr;
void* (*copy_tensor)(void* result, const void* tensor) = nullptr;
void* (*context_pool)() = nullptr;
void* (*context_of)(void* pool, const Place& place) = nullptr;

// Whether the next sum of this thread is one of gradients that need no gradients themselves.
thread_local bool accumulating = false;

// sum += x, if both are dense tensors alike in memory of one of our devices, and nobody else holds the sum: then there
// is no telling it from a new tensor. Paddle takes the sum as its own on its CPU as well.
bool add_in_place(const void* x, const void* sum) {
  const Shared &added = shared_of(x), &target = shared_of(sum);
  if (target.use_count() != 1 || !is_dense_tensor(added.get()) || !is_dense_tensor(target.get())) return false;
  const Tensor from{added.get()}, to{target.get()};
  const Place& place = place_of_tensor(to.handle);
  const Place& other = place_of_tensor(from.handle);
  if (place.kind != kCustomPlace || other.kind != kCustomPlace || place.device_type_id != other.device_type_id ||
      place.ordinal != other.ordinal || !from.is_allocated() || !to.is_allocated()) {
    return false;
  }
  const View a = from.strided_view(), y = to.strided_view();
  if (a.dtype != y.dtype || a.rank != y.rank || !std::equal(a.shape, a.shape + a.rank, y.shape) || !is_dense(a) ||
      !is_dense(y)) {
    return false;
  }
  const Context context(context_of(context_pool(), place), "add");
  if (!is_our_stream(context.stream())) return false;
  context.map(uhal_map_add, {&a, &y}, {&y});
  return true;
}

void accumulate(void* holder, size_t slot, size_t rank, const void* tensor, bool create_graph) {
  struct Reset {
    ~Reset() { accumulating = false; }
  } reset;
  accumulating = !create_graph;
  original_accumulate(holder, slot, rank, tensor, create_graph);
}

// Where gradients meet, `y` is the sum so far, which the result replaces.
void* add_or_accumulate(void* result, const void* x, const void* y, void* optional) {
  const bool of_gradients = accumulating;
  accumulating = false;
  if (of_gradients && add_in_place(x, y)) return copy_tensor(result, y);
  return original_add(result, x, y, optional);
}

void set_constant(const void* context, void* tensor, float value) {
  const Tensor target{tensor};
  if (!target.is_allocated() || place_of_tensor(tensor).kind != kCustomPlace) {
    return original_set_constant(context, tensor, value);
  }
  const Context ours(context, "full");
  const View y = target.strided_view();
  if (!is_our_stream(ours.stream()) || y.dtype == UHAL_DTYPE_INVALID || !is_dense(y)) {
    return original_set_constant(context, tensor, value);
  }
  fill(ours, y, value, static_cast<int64_t>(value));
}

void redirect_gradients() {
  if (!bind_function("_ZNK6paddle6Tensor4implEv", &shared_of) ||
      !bind_function("_ZNK3phi11DenseTensor5placeEv", &place_of_tensor) ||
      !bind_function("_ZN6paddle6TensorC1ERKS0_", &copy_tensor) ||
      !bind_function("_ZN3phi17DeviceContextPool8InstanceEv", &context_pool) ||
      !bind_function("_ZN3phi17DeviceContextPool3GetERKNS_5PlaceE", &context_of)) {
    return;
  }
  static_cast<void>(redirect_paddle_function(kSetConstantSymbol, set_constant, &original_set_constant));
  const char* const symbol = find_paddle_library(kAddSymbol) != nullptr ? kAddSymbol : kOldAddSymbol;
  if (redirect_paddle_function(symbol, add_or_accumulate, &original_add) != nullptr) return;
  static_cast<void>(redirect_paddle_function(kAccumulateSymbol, accumulate, &original_accumulate));
}

}  // namespace

void shorten_eager_gradients() {
  static const bool done = [] {
    redirect_gradients();
    return true;
  }();
  static_cast<void>(done);
}

}  // namespace unihal::paddle
