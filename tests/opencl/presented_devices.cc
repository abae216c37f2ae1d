#include "tests/opencl/presented_devices.h"

namespace opencl_test {
namespace {

using namespace unihal::opencl;
using Answers = std::map<cl_uint, Answer>;

constexpr cl_bitfield kOther = 1 << 3;  // CL_DEVICE_TYPE_ACCELERATOR
constexpr uint64_t kGiB = uint64_t{1} << 30;

Answer text(const std::string& value) { return {value + '\0'}; }
Answer uint(cl_uint value) { return answer(value); }
Answer ulong(cl_ulong value) { return answer(value); }
Answer size(size_t value) { return answer(value); }
Answer failing(cl_int code) { return {"", code}; }

Answer amd_topology(char bus, char device, char function) {
  std::string bytes(24, '\0');
  bytes[0] = 1;
  bytes[21] = bus, bytes[22] = device, bytes[23] = function;
  return {bytes};
}

Answer pci_bus_info(cl_uint domain, cl_uint bus, cl_uint device, cl_uint function) {
  return {uint(domain).bytes + uint(bus).bytes + uint(device).bytes + uint(function).bytes};
}

// `all`, changed by `some`.
Answers with(Answers all, const Answers& some) {
  for (const auto& [what, value] : some) all[what] = value;
  return all;
}

// What every driver of a GPU answers.
Answers gpu() {
  return {{CL_DEVICE_TYPE, ulong(CL_DEVICE_TYPE_GPU)},
          {CL_DEVICE_AVAILABLE, uint(1)},
          {CL_DEVICE_COMPILER_AVAILABLE, uint(1)},
          {CL_DEVICE_ENDIAN_LITTLE, uint(1)},
          {CL_DEVICE_PROFILE, text("FULL_PROFILE")},
          {CL_DEVICE_MAX_PARAMETER_SIZE, size(1024)},
          {CL_DEVICE_MAX_WORK_GROUP_SIZE, size(256)},
          {CL_DEVICE_MAX_WORK_ITEM_SIZES, {size(256).bytes + size(256).bytes + size(256).bytes}},
          {CL_DEVICE_LOCAL_MEM_SIZE, ulong(32768)},
          {CL_DEVICE_SINGLE_FP_CONFIG, ulong(0xbf)},
          {CL_DEVICE_DOUBLE_FP_CONFIG, ulong(0x3f)},
          {CL_DEVICE_EXTENSIONS, text("cl_khr_byte_addressable_store cl_khr_fp64")},
          {CL_DEVICE_HOST_UNIFIED_MEMORY, uint(0)}};
}

Answers amd() {
  return with(gpu(), {{CL_DEVICE_VENDOR, text("Advanced Micro Devices, Inc.")},
                      {CL_DEVICE_VENDOR_ID, uint(0x1002)},
                      {CL_DEVICE_EXTENSIONS,
                       text("cl_khr_fp64 cl_amd_fp64 cl_khr_global_int32_base_atomics "
                            "cl_khr_byte_addressable_store cl_amd_device_attribute_query cl_amd_printf ")},
                      {CL_DEVICE_SIMD_PER_COMPUTE_UNIT_AMD, uint(4)}});
}

// AMDGPU-PRO: the name is the architecture's.
Answers rx_580() {
  return with(amd(), {{CL_DEVICE_NAME, text("Ellesmere")},
                      {CL_DEVICE_BOARD_NAME_AMD, text("Radeon RX 580 Series")},
                      {CL_DRIVER_VERSION, text("3380.4 (PAL,HSAIL)")},
                      {CL_DEVICE_VERSION, text("OpenCL 1.2 AMD-APP (3380.4)")},
                      {CL_DEVICE_MAX_COMPUTE_UNITS, uint(36)},
                      {CL_DEVICE_MAX_CLOCK_FREQUENCY, uint(1340)},
                      {CL_DEVICE_GLOBAL_MEM_SIZE, ulong(8 * kGiB)},
                      {CL_DEVICE_MAX_MEM_ALLOC_SIZE, ulong(2 * kGiB)},
                      {CL_DEVICE_TOPOLOGY_AMD, amd_topology(3, 0, 0)},
                      {CL_DEVICE_WAVEFRONT_WIDTH_AMD, uint(64)},
                      {CL_DEVICE_SIMD_WIDTH_AMD, uint(16)},
                      {CL_DEVICE_GLOBAL_FREE_MEMORY_AMD, {size(7000000).bytes + size(2000000).bytes}}});
}

// The same card by Mesa: no queries of AMD's, an own name, OpenCL 3.0.
Answers rx_580_by_mesa() {
  return with(gpu(), {{CL_DEVICE_NAME, text("AMD Radeon RX 580 Series (radeonsi, polaris10, LLVM 17.0.6, DRM 3.54)")},
                      {CL_DEVICE_VENDOR, text("AMD")},
                      {CL_DEVICE_VENDOR_ID, uint(0x1002)},
                      {CL_DRIVER_VERSION, text("23.3.1")},
                      {CL_DEVICE_VERSION, text("OpenCL 3.0 ")},
                      {CL_DEVICE_MAX_COMPUTE_UNITS, uint(36)},
                      {CL_DEVICE_MAX_CLOCK_FREQUENCY, uint(1366)},
                      {CL_DEVICE_GLOBAL_MEM_SIZE, ulong(8 * kGiB)},
                      {CL_DEVICE_MAX_MEM_ALLOC_SIZE, ulong(2 * kGiB)},
                      {CL_DEVICE_MAX_WORK_GROUP_SIZE, size(1024)},
                      {CL_DEVICE_MAX_WORK_ITEM_SIZES, {size(1024).bytes + size(1024).bytes + size(1024).bytes}},
                      {CL_DEVICE_LOCAL_MEM_SIZE, ulong(65536)},
                      {CL_DEVICE_DOUBLE_FP_CONFIG, ulong(0)},
                      {CL_DEVICE_PREFERRED_WORK_GROUP_SIZE_MULTIPLE, size(64)},
                      {CL_DEVICE_EXTENSIONS, text("cl_khr_byte_addressable_store cl_khr_pci_bus_info")},
                      {CL_DEVICE_PCI_BUS_INFO_KHR, pci_bus_info(0, 3, 0, 0)}});
}

// ROCm on RDNA: compute units are pairs, of four units of 32 lanes.
Answers rdna(const char* architecture, const char* board, cl_uint units, cl_uint clock, uint64_t memory, char bus) {
  return with(amd(), {{CL_DEVICE_NAME, text(architecture)},
                      {CL_DEVICE_BOARD_NAME_AMD, text(board)},
                      {CL_DRIVER_VERSION, text("3602.0 (HSA1.1,LC)")},
                      {CL_DEVICE_VERSION, text("OpenCL 2.0 ")},
                      {CL_DEVICE_MAX_COMPUTE_UNITS, uint(units)},
                      {CL_DEVICE_MAX_CLOCK_FREQUENCY, uint(clock)},
                      {CL_DEVICE_GLOBAL_MEM_SIZE, ulong(memory)},
                      {CL_DEVICE_MAX_MEM_ALLOC_SIZE, ulong(memory / 100 * 85)},
                      {CL_DEVICE_LOCAL_MEM_SIZE, ulong(65536)},
                      {CL_DEVICE_EXTENSIONS, text("cl_khr_fp64 cl_khr_fp16 cl_amd_device_attribute_query")},
                      {CL_DEVICE_TOPOLOGY_AMD, amd_topology(bus, 0, 0)},
                      {CL_DEVICE_WAVEFRONT_WIDTH_AMD, uint(32)},
                      {CL_DEVICE_SIMD_WIDTH_AMD, uint(32)}});
}

Answers rtx_3060() {
  return with(gpu(),
              {{CL_DEVICE_NAME, text("NVIDIA GeForce RTX 3060")},
               {CL_DEVICE_VENDOR, text("NVIDIA Corporation")},
               {CL_DEVICE_VENDOR_ID, uint(0x10de)},
               {CL_DRIVER_VERSION, text("535.129.03")},
               {CL_DEVICE_VERSION, text("OpenCL 3.0 CUDA")},
               {CL_DEVICE_MAX_COMPUTE_UNITS, uint(28)},
               {CL_DEVICE_MAX_CLOCK_FREQUENCY, uint(1777)},
               {CL_DEVICE_GLOBAL_MEM_SIZE, ulong(12 * kGiB)},
               {CL_DEVICE_MAX_MEM_ALLOC_SIZE, ulong(3 * kGiB)},
               {CL_DEVICE_MAX_WORK_GROUP_SIZE, size(1024)},
               {CL_DEVICE_MAX_WORK_ITEM_SIZES, {size(1024).bytes + size(1024).bytes + size(64).bytes}},
               {CL_DEVICE_MAX_PARAMETER_SIZE, size(4352)},
               {CL_DEVICE_LOCAL_MEM_SIZE, ulong(49152)},
               {CL_DEVICE_EXTENSIONS, text("cl_khr_fp64 cl_nv_device_attribute_query cl_khr_int64_base_atomics")},
               {CL_DEVICE_COMPUTE_CAPABILITY_MAJOR_NV, uint(8)},
               {CL_DEVICE_COMPUTE_CAPABILITY_MINOR_NV, uint(6)},
               {CL_DEVICE_WARP_SIZE_NV, uint(32)},
               {CL_DEVICE_PCI_BUS_ID_NV, uint(0x2b)},
               {CL_DEVICE_PCI_SLOT_ID_NV, uint(1 << 3 | 2)},
               {CL_DEVICE_PCI_DOMAIN_ID_NV, uint(1)},
               {CL_DEVICE_PREFERRED_WORK_GROUP_SIZE_MULTIPLE, size(32)}});
}

// An integrated GPU.
Answers intel() {
  return with(gpu(), {{CL_DEVICE_NAME, text("  Intel(R) UHD Graphics 630 [0x3e92]  ")},
                      {CL_DEVICE_VENDOR, text("Intel(R) Corporation")},
                      {CL_DEVICE_VENDOR_ID, uint(0x8086)},
                      {CL_DRIVER_VERSION, text("23.35.27191.9")},
                      {CL_DEVICE_VERSION, text("OpenCL 3.0 NEO ")},
                      {CL_DEVICE_MAX_COMPUTE_UNITS, uint(24)},
                      {CL_DEVICE_MAX_CLOCK_FREQUENCY, uint(1150)},
                      {CL_DEVICE_GLOBAL_MEM_SIZE, ulong(25 * kGiB)},
                      {CL_DEVICE_MAX_MEM_ALLOC_SIZE, ulong(4 * kGiB - 4096)},
                      {CL_DEVICE_LOCAL_MEM_SIZE, ulong(65536)},
                      {CL_DEVICE_HOST_UNIFIED_MEMORY, uint(1)},
                      {CL_DEVICE_EXTENSIONS, text("cl_khr_fp16 cl_khr_fp64 cl_khr_pci_bus_info")},
                      {CL_DEVICE_PCI_BUS_INFO_KHR, pci_bus_info(0, 0, 2, 0)},
                      {CL_DEVICE_PREFERRED_WORK_GROUP_SIZE_MULTIPLE, size(32)}});
}

Answers processor() {
  return with(gpu(), {{CL_DEVICE_TYPE, ulong(CL_DEVICE_TYPE_CPU)},
                      {CL_DEVICE_NAME, text("AMD Ryzen 9 5950X 16-Core Processor")},
                      {CL_DEVICE_VENDOR, text("AuthenticAMD")},
                      {CL_DEVICE_VENDOR_ID, uint(0x1002)},
                      {CL_DRIVER_VERSION, text("3.1")},
                      {CL_DEVICE_VERSION, text("OpenCL 3.0 PoCL HSTR: pthread-x86_64-pc-linux-gnu-znver3")},
                      {CL_DEVICE_MAX_COMPUTE_UNITS, uint(32)},
                      {CL_DEVICE_MAX_CLOCK_FREQUENCY, uint(3400)},
                      {CL_DEVICE_GLOBAL_MEM_SIZE, ulong(64 * kGiB)},
                      {CL_DEVICE_MAX_MEM_ALLOC_SIZE, ulong(16 * kGiB)},
                      {CL_DEVICE_MAX_WORK_GROUP_SIZE, size(4096)},
                      {CL_DEVICE_MAX_WORK_ITEM_SIZES, {size(4096).bytes + size(4096).bytes + size(4096).bytes}}});
}

Answers groups_of(size_t most) {
  return with(rx_580(), {{CL_DEVICE_BOARD_NAME_AMD, text("Groups of " + std::to_string(most))},
                         {CL_DEVICE_MAX_WORK_GROUP_SIZE, size(most)},
                         {CL_DEVICE_MAX_WORK_ITEM_SIZES, {size(most).bytes + size(most).bytes + size(most).bytes}}});
}

constexpr char kAmdPlatform[] = "AMD Accelerated Parallel Processing";

std::vector<PresentedDevice> make() {
  const Answers no_float64 = {{CL_DEVICE_DOUBLE_FP_CONFIG, ulong(0)},
                              {CL_DEVICE_EXTENSIONS, text("cl_amd_device_attribute_query")}};
  const std::string unterminated = "Radeon RX 580 Series";
  const std::string padded = "Radeon RX 580 Series" + std::string(1, '\0') + std::string(235, '\xcd');
  return {
      // Devices that work.
      {"rx580", kAmdPlatform, rx_580()},
      {"rx580-no-float64", kAmdPlatform, with(rx_580(), no_float64)},
      {"rx580-mesa", "rusticl", rx_580_by_mesa()},
      {"rx6800xt", kAmdPlatform, rdna("gfx1030", "AMD Radeon RX 6800 XT", 36, 2250, 16 * kGiB, 0x0b)},
      {"rx7900xtx", kAmdPlatform, rdna("gfx1100", "AMD Radeon RX 7900 XTX", 48, 2500, 24 * kGiB, 0x0c)},
      {"rtx3060", "NVIDIA CUDA", rtx_3060()},
      {"intel", "Intel(R) OpenCL Graphics", intel()},
      {"fpga", "Accelerators",
       with(intel(),
            {{CL_DEVICE_TYPE, ulong(kOther)}, {CL_DEVICE_NAME, text("An FPGA")}, {CL_DEVICE_EXTENSIONS, text("")}})},
      {"processor", "Portable Computing Language", processor()},

      // Small limits.
      {"groups-64", kAmdPlatform, groups_of(64)},
      {"groups-16", kAmdPlatform, groups_of(16)},
      {"groups-1", kAmdPlatform, groups_of(1)},
      {"groups-64-along-x", kAmdPlatform,
       with(rx_580(), {{CL_DEVICE_MAX_WORK_ITEM_SIZES, {size(64).bytes + size(256).bytes + size(256).bytes}}})},

      // Devices that do not serve.
      {"local-16k", kAmdPlatform, with(rx_580(), {{CL_DEVICE_LOCAL_MEM_SIZE, ulong(16384)}})},
      {"few-arguments", kAmdPlatform, with(rx_580(), {{CL_DEVICE_MAX_PARAMETER_SIZE, size(256)}})},
      {"no-compiler", kAmdPlatform, with(rx_580(), {{CL_DEVICE_COMPILER_AVAILABLE, uint(0)}})},
      {"not-available", kAmdPlatform, with(rx_580(), {{CL_DEVICE_AVAILABLE, uint(0)}})},
      {"opencl-1.0", "ATI Stream", with(rx_580(), {{CL_DEVICE_VERSION, text("OpenCL 1.0 ATI-Stream-v2.2 (302)")}})},
      {"opencl-1.1", "Clover", with(rx_580_by_mesa(), {{CL_DEVICE_VERSION, text("OpenCL 1.1 Mesa 22.3.6")}})},
      {"no-version", kAmdPlatform, with(rx_580(), {{CL_DEVICE_VERSION, failing(-30)}})},
      {"embedded", kAmdPlatform, with(rx_580(), {{CL_DEVICE_PROFILE, text("EMBEDDED_PROFILE")}})},
      {"big-endian", kAmdPlatform, with(rx_580(), {{CL_DEVICE_ENDIAN_LITTLE, uint(0)}})},

      // Drivers that answer queries of extensions badly: the device serves, without what they would tell.
      {"queries-fail", kAmdPlatform,
       with(rx_580(), {{CL_DEVICE_BOARD_NAME_AMD, failing(-6)},
                       {CL_DEVICE_TOPOLOGY_AMD, failing(-5)},
                       {CL_DEVICE_WAVEFRONT_WIDTH_AMD, failing(-30)},
                       {CL_DEVICE_SIMD_WIDTH_AMD, failing(-30)},
                       {CL_DEVICE_GLOBAL_FREE_MEMORY_AMD, failing(-6)},
                       {CL_DEVICE_MAX_WORK_ITEM_SIZES, failing(-30)}})},
      {"queries-short", kAmdPlatform,
       with(rx_580(), {{CL_DEVICE_BOARD_NAME_AMD, {""}},
                       {CL_DEVICE_TOPOLOGY_AMD, uint(1)},
                       {CL_DEVICE_WAVEFRONT_WIDTH_AMD, {std::string(1, '\x40')}},
                       {CL_DEVICE_GLOBAL_FREE_MEMORY_AMD, size(1)}})},
      {"queries-unlisted", "Other",  // the numbers mean something else to this driver
       with(rx_580(), {{CL_DEVICE_EXTENSIONS, text("cl_khr_fp64")}, {CL_DEVICE_PCI_BUS_ID_NV, uint(7)}})},
      {"name-unterminated", kAmdPlatform, with(rx_580(), {{CL_DEVICE_BOARD_NAME_AMD, {unterminated}}})},
      {"name-padded", kAmdPlatform, with(rx_580(), {{CL_DEVICE_BOARD_NAME_AMD, {padded}}})},
      {"name-overlong", kAmdPlatform, with(rx_580(), {{CL_DEVICE_BOARD_NAME_AMD, text(std::string(5000, 'R'))}})},
      {"name-size-wrong", kAmdPlatform, with(rx_580(), {{CL_DEVICE_BOARD_NAME_AMD, {"R", 0, size_t{1} << 60}}})},
      {"name-odd", kAmdPlatform, with(rx_580(), {{CL_DEVICE_BOARD_NAME_AMD, text("Radeon\xae\n[red]RX\t580\x1b[0m")}})},
      {"name-missing", kAmdPlatform,
       with(rx_580(), {{CL_DEVICE_BOARD_NAME_AMD, text("")}, {CL_DEVICE_NAME, failing(-30)}})},
  };
}

}  // namespace

const std::vector<PresentedDevice>& presented_devices() {
  static const auto* const devices = new std::vector<PresentedDevice>(make());
  return *devices;
}

}  // namespace opencl_test
