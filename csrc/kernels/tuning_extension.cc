// The functions of uhal_tuning, over all devices of the backend.
#include <cstdio>
#include <map>
#include <mutex>

#include "csrc/kernels/ops.h"
#include "csrc/kernels/tuning.h"

namespace unihal::kernels {
namespace {

struct TunedDevice {
  const DeviceTraits* traits;
  TuningTable* table;
};

// Never destroyed: launches go on until the process ends.
struct Devices {
  std::mutex mutex;
  std::map<int32_t, TunedDevice> by_ordinal;
};

Devices& devices() {
  static Devices* const instance = new Devices;
  return *instance;
}

uhal_status find_device(int32_t ordinal, TunedDevice* device) {
  Devices& all = devices();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto found = all.by_ordinal.find(ordinal);
  if (found == all.by_ordinal.end()) {
    return fail(UHAL_NOT_FOUND, "tuning: device %d is not open; pass the ordinal of an open device's properties",
                ordinal);
  }
  *device = found->second;
  return UHAL_OK;
}

Tunable tunable_of(const DeviceTraits& traits, const uhal_op& op) {
  if (refuse_dtypes(traits, op) != nullptr) return {};
  switch (op.kind) {
    case UHAL_OP_MATMUL:
      return tunable_matmul(traits, op);
    case UHAL_OP_CONVOLUTION:
    case UHAL_OP_CONVOLUTION_BACKWARD_DATA:
    case UHAL_OP_CONVOLUTION_BACKWARD_FILTER:
      return tunable_convolution(traits, op);
    default:
      return {};
  }
}

uhal_status refuse_op(const uhal_op& op) {
  return fail(UHAL_INVALID_ARGUMENT, "tuning: there is nothing to choose about this op (kind %d); ask describe first",
              op.kind);
}

uhal_status refuse_candidate(int32_t number, int32_t candidates) {
  return fail(UHAL_OUT_OF_RANGE, "tuning: there is no candidate %d; expected 0 to %d", number, candidates - 1);
}

uhal_status describe(int32_t ordinal, const uhal_op* op, char* key, size_t key_bytes, int32_t* candidates) {
  TunedDevice device;
  if (const uhal_status status = find_device(ordinal, &device); status != UHAL_OK) return status;
  const Tunable tunable = tunable_of(*device.traits, *op);
  std::snprintf(key, key_bytes, "%s", tunable.key.text().c_str());
  *candidates = tunable.candidates;
  return UHAL_OK;
}

uhal_status candidate(int32_t ordinal, const uhal_op* op, int32_t number, char* name, size_t name_bytes,
                      int32_t* usable) {
  TunedDevice device;
  if (const uhal_status status = find_device(ordinal, &device); status != UHAL_OK) return status;
  const Tunable tunable = tunable_of(*device.traits, *op);
  if (number < 0 || number >= tunable.candidates) return refuse_candidate(number, tunable.candidates);
  std::snprintf(name, name_bytes, "%s", tunable.name(*device.traits, number).c_str());
  TuningChoice choice;
  *usable = tunable.find(*device.traits, *op, number, &choice);
  return UHAL_OK;
}

uhal_status choose(int32_t ordinal, const uhal_op* op, int32_t number) {
  TunedDevice device;
  if (const uhal_status status = find_device(ordinal, &device); status != UHAL_OK) return status;
  const Tunable tunable = tunable_of(*device.traits, *op);
  if (tunable.candidates == 0) return refuse_op(*op);
  if (number < -1 || number >= tunable.candidates) return refuse_candidate(number, tunable.candidates);
  TuningChoice choice;
  if (number >= 0 && !tunable.find(*device.traits, *op, number, &choice)) {
    return fail(UHAL_UNIMPLEMENTED,
                "tuning: candidate %d (%s) cannot run this op on this device; choose one that is usable", number,
                tunable.name(*device.traits, number).c_str());
  }
  if (!device.table->choose(tunable.key, choice)) {
    return fail(UHAL_RESOURCE_EXHAUSTED, "tuning: the table of choices is full; forget those that are not needed");
  }
  return UHAL_OK;
}

uhal_status chosen(int32_t ordinal, const uhal_op* op, int32_t* number) {
  TunedDevice device;
  if (const uhal_status status = find_device(ordinal, &device); status != UHAL_OK) return status;
  const Tunable tunable = tunable_of(*device.traits, *op);
  const TuningChoice found = device.table->find(tunable.key);
  *number = found.candidate;
  if (found.algorithm == kBestAlgorithm) return UHAL_OK;
  for (int32_t i = 0; i < tunable.candidates; ++i) {
    TuningChoice choice;
    if (tunable.find(*device.traits, *op, i, &choice) && choice == found) *number = i;
  }
  return UHAL_OK;
}

uhal_status keep(int32_t ordinal) {
  TunedDevice device;
  if (const uhal_status status = find_device(ordinal, &device); status != UHAL_OK) return status;
  if (device.table->keep()) return UHAL_OK;
  return fail(UHAL_UNAVAILABLE,
              "tuning: the choices could not be kept on disk and hold for this process only; `unihal cache info` says "
              "which folder is used");
}

uhal_status forget(int32_t ordinal) {
  TunedDevice device;
  if (const uhal_status status = find_device(ordinal, &device); status != UHAL_OK) return status;
  device.table->forget();
  device.table->keep();
  return UHAL_OK;
}

constexpr uhal_tuning kExtension = {sizeof(uhal_tuning), describe, candidate, choose, chosen, keep, forget};

}  // namespace

void open_tuning(int32_t ordinal, const std::string& device, DeviceTraits& traits) {
  auto* table = new TuningTable(device);
  table->load();
  traits.tuning = table;
  Devices& all = devices();
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.by_ordinal[ordinal] = {&traits, table};
}

const uhal_tuning* tuning_extension() { return &kExtension; }

}  // namespace unihal::kernels
