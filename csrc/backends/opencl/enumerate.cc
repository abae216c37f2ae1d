#include "csrc/backends/opencl/enumerate.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <utility>

#include "csrc/backends/opencl/device_info.h"
#include "csrc/backends/opencl/status.h"
#include "csrc/kernels/ops.h"

namespace unihal::opencl {
namespace {

using kernels::fail;

constexpr uint64_t kLeastLocalMemory = 32768;
constexpr size_t kLeastParameters = 1024;

// "OpenCL 1.2 CUDA" is at least 1.2.
bool is_version_1_2(const std::string& version) {
  unsigned major = 0, minor = 0;
  return std::sscanf(version.c_str(), "OpenCL %u.%u", &major, &minor) == 2 && (major > 1 || (major == 1 && minor >= 2));
}

// Why the kernels cannot run on a device; empty if they can.
std::string refuse(cl_device_id device) {
  if (!device_value(device, CL_DEVICE_AVAILABLE, CL_FALSE)) return "the driver says that it is not available now";
  if (!device_value(device, CL_DEVICE_COMPILER_AVAILABLE, CL_FALSE)) {
    return "the driver has no compiler for it, and kernels are compiled at run time";
  }
  if (!device_value(device, CL_DEVICE_ENDIAN_LITTLE, CL_FALSE)) return "it is big-endian";
  const std::string version = device_text(device, CL_DEVICE_VERSION);
  if (!is_version_1_2(version)) return "it has '" + version + "', and OpenCL 1.2 is needed";
  if (device_text(device, CL_DEVICE_PROFILE) != "FULL_PROFILE") {
    return "it has OpenCL's embedded profile only, and the full one is needed";
  }
  const uint64_t local = device_value(device, CL_DEVICE_LOCAL_MEM_SIZE, cl_ulong{0});
  if (local < kLeastLocalMemory) {
    return "it has " + std::to_string(local) + " bytes of local memory, and " + std::to_string(kLeastLocalMemory) +
           " are needed";
  }
  const size_t parameters = device_value(device, CL_DEVICE_MAX_PARAMETER_SIZE, size_t{0});
  if (parameters < kLeastParameters) {
    return "its kernels take " + std::to_string(parameters) + " bytes of arguments, and " +
           std::to_string(kLeastParameters) + " are needed";
  }
  return "";
}

bool is_processor(const FoundDevice& device) { return (device.type & CL_DEVICE_TYPE_CPU) != 0; }

enum Preference { kAmdByAmd, kAmd, kOther, kAccelerator, kProcessor };

Preference preference(const FoundDevice& device) {
  if (is_processor(device)) return kProcessor;
  if ((device.type & CL_DEVICE_TYPE_GPU) == 0) return kAccelerator;
  constexpr cl_uint kVendor = 0x1002;  // PCI vendor
  const bool amd = device_value(device.id, CL_DEVICE_VENDOR_ID, cl_uint{0}) == kVendor ||
                   device.vendor.find("Advanced Micro Devices") != std::string::npos ||
                   device.vendor.find("AMD") != std::string::npos;
  if (!amd) return kOther;
  return device.platform_name.find("AMD") != std::string::npos ? kAmdByAmd : kAmd;
}

// Whether one goes before another. Of equal preference, cards go before processors' own graphics.
bool goes_first(const FoundDevice& a, const FoundDevice& b) {
  const Preference of_a = preference(a), of_b = preference(b);
  if (of_a != of_b) return of_a < of_b;
  const auto integrated = [](const FoundDevice& device) {
    return device_value(device.id, CL_DEVICE_HOST_UNIFIED_MEMORY, CL_FALSE) != CL_FALSE;
  };
  return !integrated(a) && integrated(b);
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::string describe(const FoundDevice& device) { return device.name + " (" + device.platform_name + ")"; }

// One after the other: "0: Radeon RX 580 (AMD ...); refused: ...".
std::string join(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : "; ") + part;
  return text;
}

void add_refusals(const Inventory& inventory, std::vector<std::string>* parts) {
  for (const FoundDevice& device : inventory.refused) {
    parts->push_back("refused: " + describe(device) + ": " + device.refusal);
  }
}

std::string describe(const Inventory& inventory) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < inventory.usable.size(); ++i) {
    parts.push_back(std::to_string(i) + ": " + describe(inventory.usable[i]));
  }
  add_refusals(inventory, &parts);
  return join(parts);
}

// What `unihal doctor` shows beside the devices that serve.
void remark(const Inventory& inventory, std::vector<std::string> left_out) {
  add_refusals(inventory, &left_out);
  if (!left_out.empty()) kernels::host().report(UHAL_OK, 0, nullptr, join(left_out).c_str());
}

void add_devices(cl_platform_id platform, Inventory* inventory) {
  FoundDevice found;
  found.platform = platform;
  found.platform_name = platform_text(platform, CL_PLATFORM_NAME);
  cl_uint count = 0;
  cl_int code = api.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count);
  std::vector<cl_device_id> ids(count);
  if (code == CL_SUCCESS && count > 0) {
    code = api.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, ids.data(), nullptr);
  }
  if (code != CL_SUCCESS || count == 0) {
    found.name = "the platform";
    found.refusal = code == CL_SUCCESS || code == CL_DEVICE_NOT_FOUND
                        ? "its driver sees no device"
                        : std::string("its driver failed with ") + status_name(code);
    inventory->refused.push_back(found);
    return;
  }
  for (const cl_device_id id : ids) {
    found.id = id;
    found.name = board_name(id);
    found.vendor = device_text(id, CL_DEVICE_VENDOR);
    found.pci_bus_id = pci_bus_id(id);
    found.type = device_value(id, CL_DEVICE_TYPE, cl_bitfield{0});
    found.refusal = refuse(id);
    (found.refusal.empty() ? inventory->usable : inventory->refused).push_back(found);
  }
}

// Digits from this many on may be a part of a name, as in "580".
constexpr size_t kDigitsOfNames = 3;

// The devices that one item of the wish names: an index, or a part of the name.
std::vector<FoundDevice> find(const Inventory& inventory, const std::string& item) {
  std::vector<FoundDevice> found;
  if (!item.empty() && item.find_first_not_of("0123456789") == std::string::npos) {
    const size_t index = item.size() < 6 ? std::strtoul(item.c_str(), nullptr, 10) : SIZE_MAX;
    if (index < inventory.usable.size()) found.push_back(inventory.usable[index]);
    if (!found.empty() || item.size() < kDigitsOfNames) return found;
  }
  for (const FoundDevice& device : inventory.usable) {
    const std::string text = lower(describe(device));
    if (!item.empty() && text.find(lower(item)) != std::string::npos) found.push_back(device);
  }
  return found;
}

// What serves where UNIHAL_OPENCL_DEVICE names nothing.
uhal_status choose_by_default(const Inventory& inventory, bool asked_for, std::vector<FoundDevice>* chosen) {
  const bool only_processors = is_processor(inventory.usable.front());  // they come last
  if (only_processors && !asked_for) {
    return fail(UHAL_UNAVAILABLE,
                "OpenCL (%s) has processors only, which serve when they are asked for: set UNIHAL_BACKEND=opencl, or "
                "name devices in UNIHAL_OPENCL_DEVICE, of: %s",
                library_name().c_str(), describe(inventory).c_str());
  }
  std::vector<std::string> left_out;
  for (const FoundDevice& device : inventory.usable) {
    const auto twin = std::find_if(chosen->begin(), chosen->end(), [&](const FoundDevice& c) {
      return !device.pci_bus_id.empty() && c.pci_bus_id == device.pci_bus_id;
    });
    if (twin != chosen->end()) {
      left_out.push_back("left out: " + describe(device) + ": it is the same card as " + describe(*twin));
    } else if (is_processor(device) && !only_processors) {
      left_out.push_back("left out: " + describe(device) + ": it is a processor, and there are other devices");
    } else {
      chosen->push_back(device);
    }
  }
  if (!left_out.empty()) left_out.back() += " (UNIHAL_OPENCL_DEVICE names the devices to use)";
  remark(inventory, std::move(left_out));
  return UHAL_OK;
}

}  // namespace

Inventory take_inventory() {
  Inventory inventory;
  inventory.failure = open_library();
  if (!inventory.failure.empty()) return inventory;
  cl_uint count = 0;
  cl_int code = api.clGetPlatformIDs(0, nullptr, &count);
  std::vector<cl_platform_id> platforms(count);
  if (code == CL_SUCCESS && count > 0) code = api.clGetPlatformIDs(count, platforms.data(), nullptr);
  if (code != CL_SUCCESS && code != CL_PLATFORM_NOT_FOUND_KHR) {
    inventory.failure =
        library_name() + " does not list its platforms: " + status_name(code) + " (" + std::to_string(code) + ")";
    return inventory;
  }
  if (code == CL_PLATFORM_NOT_FOUND_KHR || count == 0) {
    inventory.failure = library_name() +
                        " knows no platform: install the OpenCL driver of the device (its .icd file goes to "
                        "/etc/OpenCL/vendors, or to the folder that OCL_ICD_VENDORS names)";
    return inventory;
  }
  for (const cl_platform_id platform : platforms) add_devices(platform, &inventory);
  std::stable_sort(inventory.usable.begin(), inventory.usable.end(), goes_first);
  return inventory;
}

uhal_status choose_devices(const Inventory& inventory, const std::string& wish, bool asked_for,
                           std::vector<FoundDevice>* chosen) {
  chosen->clear();
  if (!inventory.failure.empty()) return fail(UHAL_UNAVAILABLE, "%s", inventory.failure.c_str());
  const std::string there_is = describe(inventory);
  if (inventory.usable.empty()) {
    return fail(UHAL_UNAVAILABLE, "OpenCL (%s) has no device that the backend can use: %s", library_name().c_str(),
                there_is.c_str());
  }
  if (wish.empty()) return choose_by_default(inventory, asked_for, chosen);
  for (size_t start = 0; start <= wish.size();) {
    const size_t end = std::min(wish.find(',', start), wish.size());
    const std::string item = wish.substr(start, end - start);
    const std::vector<FoundDevice> found = find(inventory, item);
    if (found.empty()) {
      return fail(
          UHAL_INVALID_ARGUMENT,
          "The environment variable UNIHAL_OPENCL_DEVICE is '%s', but there is no OpenCL device '%s'; it must be "
          "an index or a part of a name, or several separated by commas, of: %s. Correct or unset it",
          wish.c_str(), item.c_str(), there_is.c_str());
    }
    for (const FoundDevice& device : found) {
      const bool again =
          std::any_of(chosen->begin(), chosen->end(), [&](const FoundDevice& c) { return c.id == device.id; });
      if (!again) chosen->push_back(device);
    }
    start = end + 1;
  }
  remark(inventory, {});
  return UHAL_OK;
}

}  // namespace unihal::opencl
