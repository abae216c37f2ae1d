#include "plugins/paddle/current_device.h"

#include <algorithm>
#include <atomic>
#include <cstddef>

#include "plugins/paddle/library.h"

namespace unihal::paddle {
namespace {

constexpr const char* kSetDeviceSymbol = "_ZN3phi13DeviceManager9SetDeviceERKNS_5PlaceE";
constexpr const char* kToBackendSymbol = "_ZN3phi17TransToPhiBackendERKNS_5PlaceE";
void (*original_set_device)(const Place& place) = nullptr;
uint8_t (*original_to_backend)(const Place& place) = nullptr;

thread_local int ordinals[kMostDeviceTypes] = {-1, -1, -1, -1, -1, -1};
thread_local int last_chosen_row = -1;

// For Paddle's number of a device type the row in our table, plus one; 0 is "not known". It is learnt from what Paddle
// calls when it sets a device.
constexpr size_t kMostTypeIds = 32;
std::atomic<int> rows[kMostTypeIds];
// Whether our number of the type's backend is Paddle's.
std::atomic<bool> backends_known[kMostTypeIds];

int row_of(size_t device_type_id) {
  return device_type_id < kMostTypeIds ? rows[device_type_id].load(std::memory_order_relaxed) - 1 : -1;
}

void set_device(const Place& place) {
  if (place.kind != kCustomPlace || place.device_type_id >= kMostTypeIds) return original_set_device(place);
  const int row = row_of(place.device_type_id);
  if (row >= 0 && ordinals[row] == place.ordinal) return;
  last_chosen_row = -1;
  original_set_device(place);
  if (last_chosen_row >= 0) rows[place.device_type_id].store(last_chosen_row + 1, std::memory_order_relaxed);
}

uint8_t to_backend(const Place& place) {
  if (place.kind != kCustomPlace || place.device_type_id >= kMostTypeIds) return original_to_backend(place);
  std::atomic<bool>& known = backends_known[place.device_type_id];
  if (known.load(std::memory_order_relaxed)) return backend_of(place);
  const uint8_t backend = original_to_backend(place);
  if (backend == backend_of(place)) known.store(true, std::memory_order_relaxed);
  return backend;
}

}  // namespace

int current_ordinal(int type_row) { return ordinals[type_row]; }

void choose_ordinal(int type_row, int ordinal) {
  ordinals[type_row] = ordinal;
  last_chosen_row = type_row;
}

bool find_current_place(uint8_t backend, Place* place) {
  if (backend < kFirstCustomBackend) return false;
  const auto device_type_id = static_cast<size_t>(backend - kFirstCustomBackend);
  const int row = row_of(device_type_id);
  if (row < 0) return false;
  *place = {static_cast<int8_t>(std::max(ordinals[row], 0)), kCustomPlace, device_type_id};
  return true;
}

void answer_by_number() {
  static const bool done = [] {
    static_cast<void>(redirect_paddle_function(kSetDeviceSymbol, set_device, &original_set_device));
    static_cast<void>(redirect_paddle_function(kToBackendSymbol, to_backend, &original_to_backend));
    return true;
  }();
  static_cast<void>(done);
}

}  // namespace unihal::paddle
