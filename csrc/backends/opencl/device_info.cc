#include "csrc/backends/opencl/device_info.h"

#include <algorithm>
#include <cstdio>

namespace unihal::opencl {
namespace {

// A driver that says that a text is longer is not believed: lists of extensions take a few kilobytes.
constexpr size_t kLongestText = size_t{1} << 20;

// Texts come from drivers as they like: without the final NUL, with room behind it, in any encoding.
template <class Object>
std::string text_of(cl_int (*query)(Object, cl_uint, size_t, void*, size_t*), Object object, cl_uint what) {
  size_t bytes = 0;
  if (query(object, what, 0, nullptr, &bytes) != CL_SUCCESS || bytes == 0 || bytes > kLongestText) return "";
  std::string text(bytes, '\0');
  if (query(object, what, bytes, text.data(), nullptr) != CL_SUCCESS) return "";
  text.resize(std::min(text.find('\0'), bytes));
  for (char& c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (code > 126) c = '?';
    if (code < 32) c = ' ';
  }
  const size_t first = text.find_first_not_of(' ');
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(' ') - first + 1);
}

// cl_device_topology_amd, for devices on PCI Express.
struct AmdTopology {
  cl_uint type;  // 1
  char unused[17];
  unsigned char bus, device, function;
};

struct PciBusInfo {
  cl_uint domain, bus, device, function;
};

// A name is part of messages, which have room for so much of it.
constexpr size_t kLongestName = 160;

std::string name_of(cl_device_id device, cl_uint what) { return device_text(device, what).substr(0, kLongestName); }

std::string pci_text(unsigned domain, unsigned bus, unsigned device, unsigned function) {
  char text[48];
  std::snprintf(text, sizeof text, "%04x:%02x:%02x.%x", domain, bus, device, function);
  return text;
}

}  // namespace

std::string device_text(cl_device_id device, cl_uint what) { return text_of(api.clGetDeviceInfo, device, what); }

std::string platform_text(cl_platform_id platform, cl_uint what) {
  return text_of(api.clGetPlatformInfo, platform, what);
}

bool has_extension(cl_device_id device, const std::string& name) {
  return (" " + device_text(device, CL_DEVICE_EXTENSIONS) + " ").find(" " + name + " ") != std::string::npos;
}

std::string board_name(cl_device_id device) {
  // AMD's CL_DEVICE_NAME is the architecture ("Ellesmere", "gfx803").
  const std::string board = has_extension(device, kAmdQueries) ? name_of(device, CL_DEVICE_BOARD_NAME_AMD) : "";
  const std::string name = name_of(device, CL_DEVICE_NAME);
  if (board.empty() || board == name) return name.empty() ? "a device without a name" : name;
  return name.empty() ? board : board + " (" + name + ")";
}

std::string pci_bus_id(cl_device_id device) {
  if (has_extension(device, "cl_khr_pci_bus_info")) {
    const PciBusInfo khr = device_value(device, CL_DEVICE_PCI_BUS_INFO_KHR, PciBusInfo{~0u, 0, 0, 0});
    if (khr.domain != ~0u) return pci_text(khr.domain, khr.bus, khr.device, khr.function);
  }
  if (has_extension(device, kAmdQueries)) {
    const AmdTopology amd = device_value(device, CL_DEVICE_TOPOLOGY_AMD, AmdTopology{});
    if (amd.type == 1) return pci_text(0, amd.bus, amd.device, amd.function);
  }
  if (!has_extension(device, kNvidiaQueries)) return "";
  const cl_uint bus = device_value(device, CL_DEVICE_PCI_BUS_ID_NV, ~cl_uint{0});
  if (bus == ~cl_uint{0}) return "";
  const cl_uint slot = device_value(device, CL_DEVICE_PCI_SLOT_ID_NV, cl_uint{0});
  return pci_text(device_value(device, CL_DEVICE_PCI_DOMAIN_ID_NV, cl_uint{0}), bus, slot >> 3, slot & 7);
}

std::string driver_text(cl_platform_id platform, cl_device_id device) {
  // "OpenCL 1.2 AMD-APP (3380.4)": what follows the number is the driver's again.
  const std::string version = device_text(device, CL_DEVICE_VERSION);
  return platform_text(platform, CL_PLATFORM_NAME) + " " + name_of(device, CL_DRIVER_VERSION) + ", " +
         version.substr(0, version.find(' ', version.find(' ') + 1));
}

}  // namespace unihal::opencl
