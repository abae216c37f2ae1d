#include "tests/doubles/hip_on_host/device.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <vector>

#include "tests/doubles/hip_on_host/vendor.h"

namespace on_host {
namespace {

using Devices = std::vector<std::unique_ptr<Device>>;

constexpr const char* kDefaultDevices = ON_HOST_NAME("Iluvatar BI-V150:7.1:2048", "AMD Radeon RX 6800:gfx1030:2048");

std::unique_ptr<Device> read_device(const std::string& item) {
  auto device = std::make_unique<Device>();
  std::istringstream parts(item);
  std::string mebibytes;
  std::getline(parts, device->name, ':');
  std::getline(parts, device->architecture, ':');
  std::getline(parts, mebibytes);
  device->memory = static_cast<size_t>(std::atoll(mebibytes.c_str())) << 20;
  if (device->memory == 0) {
    std::fprintf(stderr, "HIP_ON_HOST_DEVICES has '%s'; expected NAME:ARCHITECTURE:MIB\n", item.c_str());
    std::abort();
  }
  return device;
}

// The numbers of a list up to the first that is none, as both vendors read it; all of them without a list.
std::vector<size_t> visible(size_t count) {
  const char* list = std::getenv(ON_HOST_NAME("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"));
  if (list == nullptr && !kIsCuda) list = std::getenv("CUDA_VISIBLE_DEVICES");
  std::vector<size_t> numbers;
  if (list == nullptr) {
    for (size_t number = 0; number < count; ++number) numbers.push_back(number);
    return numbers;
  }
  std::istringstream items(list);
  for (std::string item; std::getline(items, item, ',');) {
    char* end = nullptr;
    const long number = std::strtol(item.c_str(), &end, 10);
    if (end == item.c_str() || *end != '\0' || number < 0 || static_cast<size_t>(number) >= count) break;
    numbers.push_back(static_cast<size_t>(number));
  }
  return numbers;
}

// Never destroyed: threads of streams use them while the process ends.
const Devices& devices() {
  static const Devices* const instance = [] {
    const char* asked = std::getenv("HIP_ON_HOST_DEVICES");
    std::istringstream items(asked != nullptr ? asked : kDefaultDevices);
    Devices all;
    for (std::string item; std::getline(items, item, ',');) {
      if (item != "none") all.push_back(read_device(item));
    }
    auto* chosen = new Devices;
    for (const size_t number : visible(all.size())) {
      if (all[number] == nullptr) continue;  // named twice
      chosen->push_back(std::move(all[number]));
      chosen->back()->number = static_cast<int>(chosen->size()) - 1;
    }
    return chosen;
  }();
  return *instance;
}

thread_local Device* current = nullptr;

}  // namespace

int device_count() { return static_cast<int>(devices().size()); }

Device* find_device(int number) {
  return number >= 0 && number < device_count() ? devices()[static_cast<size_t>(number)].get() : nullptr;
}

bool attribute_of(const Device& device, int attribute, int* value) {
  const bool is_gfx = device.architecture.rfind("gfx", 0) == 0;
  const bool is_nvidia = device.name.find("NVIDIA") != std::string::npos;
  const int lanes = is_gfx || is_nvidia ? 32 : 64;
  int major = 0;
  int minor = 0;
  std::sscanf(device.architecture.c_str(), "%d.%d", &major, &minor);
  const struct {
    int cuda;
    int hip;
    int value;
  } rows[] = {
      {16, 63, 30},         // compute units
      {10, 87, lanes},      // of a warp or wavefront
      {1, 56, 1024},        // work-items of a group
      {8, 74, 64 * 1024},   // local memory
      {97, -1, 99 * 1024},  // where a kernel says at launch what it takes
      {13, 5, 2250000},     // the clock, in kHz
      {36, 60, 1000000},    // the memory's
      {37, 59, 256},        // its bits
      {83, 24, 1},          // managed memory
      {18, 16, 0},          // a part of the processor
      {75, 23, major},      //
      {76, 61, minor},      // the capability
  };
  for (const auto& row : rows) {
    if (ON_HOST_NAME(row.cuda, row.hip) != attribute) continue;
    *value = row.value;
    return true;
  }
  return false;
}

std::string compiled_for(const Device& device) {
  if (!kIsCuda) return device.architecture;
  if (device.name.find("NVIDIA") == std::string::npos) return "ivcore11";
  std::string digits = device.architecture;
  digits.erase(digits.find('.'), 1);
  return "sm_" + digits;
}

Device* current_device() { return current == nullptr && !kIsCuda ? find_device(0) : current; }

void set_current_device(Device* device) { current = device; }

}  // namespace on_host
