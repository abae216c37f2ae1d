#include "csrc/backends/gpu/device.h"

#include <cstdlib>
#include <cstring>

#include "csrc/backends/gpu/compiler.h"
#include "csrc/backends/gpu/status.h"
#include "csrc/kernels/device_properties.h"
#include "csrc/kernels/layout.h"
#include "csrc/kernels/ops.h"
#include "csrc/kernels/tuning.h"

namespace unihal::gpu {
namespace {

// What both vendors take at least: CUDA since its first version, HIP on all devices.
constexpr int64_t kMaxParameters = 4096;

}  // namespace

Device::Device(int32_t place, int driver_number)
    : ordinal(place), number(driver_number), memory(*this), programs(*this) {}

uhal_status Device::open() {
  int code = vendor.open(number, &context_);
  if (code != kSuccess) return fail_native(code, "device %d of %s does not open", number, vendor.driver);
  if (const uhal_status status = make_current(); status != UHAL_OK) return status;
  if (const uhal_status status = read_limits(); status != UHAL_OK) return status;
  code = api.stream_create(&side_stream_, kStreamNonBlocking);
  if (code != kSuccess) return fail_native(code, "%s gives no stream", name.c_str());
  if (const uhal_status status = programs.open(); status != UHAL_OK) return status;
  LibraryNotes libraries;
  if (const uhal_status status = open_libraries(&libraries); status != UHAL_OK) return status;
  software =
      std::string(vendor.driver) + ", " + vendor.version_name(driver_version()) + ", " + programs.compiler_name();
  for (const std::string& note : libraries) software += ", " + note;
  software += overrides_in_force();
  // What was measured beside one version of a library says nothing about another one, whose algorithms differ too.
  std::string tuned = name + "\n" + architecture.name + "\n" + vendor.version_name(driver_version());
  if (traits.gemm_library != nullptr) tuned += std::string("\n") + traits.gemm_library->name();
  if (traits.convolution_library != nullptr) tuned += std::string("\n") + traits.convolution_library->name();
  kernels::open_tuning(ordinal, tuned, traits);
  return UHAL_OK;
}

__attribute__((hot)) uhal_status Device::make_current() const {
  const int code = vendor.make_current(number, context_);
  return code == kSuccess ? UHAL_OK : fail_native(code, "%s cannot be used from this thread", name.c_str());
}

uhal_status Device::ask(int attribute, int32_t* value) const {
  const int code = api.device_attribute(value, attribute, number);
  return code == kSuccess ? UHAL_OK : fail_native(code, "%s does not tell its attribute %d", name.c_str(), attribute);
}

uhal_status Device::read_limits() {
  char text[256] = "";
  int code = api.device_name(text, sizeof text, number);
  if (code != kSuccess) return fail_native(code, "device %d of %s has no name", number, vendor.driver);
  name = text;
  code = vendor.architecture(number, &architecture);
  if (code != kSuccess) return fail_native(code, "%s does not tell its architecture", name.c_str());
  if (name.empty()) name = architecture.name;  // as AMD's driver without its table of names
  if (api.device_pci_bus_id(text, sizeof text, number) == kSuccess) pci_bus_id = text;
  size_t bytes = 0;
  code = api.device_total_memory(&bytes, number);
  if (code != kSuccess) return fail_native(code, "%s does not tell its memory", name.c_str());
  total_memory = bytes;

  const Attributes& numbers = vendor.attributes;
  int32_t local_memory = 0;
  int32_t clock = 0;
  int32_t memory_clock = 0;
  int32_t memory_bits = 0;
  int32_t managed = 0;
  int32_t integrated = 0;
  const struct {
    int attribute;
    int32_t* value;
  } questions[] = {
      {numbers.compute_units, &traits.compute_units},
      {numbers.wavefront_size, &traits.wavefront_size},
      {numbers.max_group_size, &traits.max_group_size},
      {numbers.local_memory, &local_memory},
      {numbers.clock_kilohertz, &clock},
      {numbers.memory_clock_kilohertz, &memory_clock},
      {numbers.memory_bus_bits, &memory_bits},
      {numbers.managed_memory, &managed},
      {numbers.integrated, &integrated},
  };
  for (const auto& [attribute, value] : questions) {
    if (const uhal_status status = ask(attribute, value); status != UHAL_OK) return status;
  }
  clock_megahertz = clock / 1000;
  // Both edges of the clock carry data.
  peak_gigabytes_per_second = 2.0 * memory_clock * (memory_bits / 8) / 1e6;
  has_managed_memory = managed != 0;
  shares_host_memory = integrated != 0;
  traits.has_float64 = true;
  traits.has_float16_arithmetic = true;
  traits.has_int64_atomics = true;
  traits.local_memory = local_memory;
  if (vendor.kind == Vendor::kHip) traits.item_share = kernels::item_share(traits.wavefront_size);
  traits.launched_local_memory = local_memory;
  traits.matrix_form = architecture.matrix_form;
  int32_t launched = 0;
  if (numbers.launched_local_memory != 0 &&
      api.device_attribute(&launched, numbers.launched_local_memory, number) == kSuccess && launched > local_memory) {
    traits.launched_local_memory = launched;
  }
  traits.max_parameters = kMaxParameters;
  traits.takes_addresses = true;
  for (uhal_dtype dtype = UHAL_BOOL; dtype < UHAL_DTYPE_COUNT; ++dtype) traits.dtypes |= uint64_t{1} << dtype;
  // For tests: small operands run the kernels meant for large ones.
  const char* index = std::getenv("UNIHAL_GPU_INDEX");
  if (index != nullptr && std::strcmp(index, "64") == 0) {
    kernels::always_use_wide_indices();
  } else if (index != nullptr && *index != '\0') {
    return kernels::fail(UHAL_INVALID_ARGUMENT, "UNIHAL_GPU_INDEX is '%s'; expected 64", index);
  }
  return UHAL_OK;
}

bool Device::enable_peer(const Device& peer) {
  std::lock_guard<std::mutex> lock(peers_mutex_);
  const auto known = peers_.find(peer.number);
  if (known != peers_.end()) return known->second;
  int can = 0;
  bool enabled = api.device_can_access_peer(&can, number, peer.number) == kSuccess && can != 0;
  if (enabled) {
    const int code = vendor.enable_peer(peer.number, peer.context_);
    enabled = code == kSuccess || code == kPeerAlreadyEnabled;
  }
  peers_.emplace(peer.number, enabled);
  return enabled;
}

bool Device::reaches(Device& peer) {
  return peer.make_current() == UHAL_OK && peer.enable_peer(*this) && make_current() == UHAL_OK && enable_peer(peer);
}

uhal_status Device::open_libraries(LibraryNotes* notes) {
  if (const uhal_status status = check_library_settings(); status != UHAL_OK) return status;
  const LibraryDevice asked = {vendor.kind, architecture.name, [this] { static_cast<void>(make_current()); }};
  blas.open(asked, notes);
  if (!blas.is_empty()) traits.gemm_library = &blas;
  dnn = open_dnn(asked, notes);
  traits.convolution_library = dnn.get();
  fft = open_fft(asked, notes);
  traits.fft_library = fft.get();
  traits.has_tf32 = has_tf32(asked);
  return UHAL_OK;
}

uhal_status Device::read(void* destination, const void* source, size_t bytes) {
  std::lock_guard<std::mutex> lock(side_mutex_);
  int code = vendor.copy(destination, source, bytes, side_stream_);
  if (code == kSuccess) code = api.stream_synchronize(side_stream_);
  return code == kSuccess ? UHAL_OK : fail_work(code, name);
}

uhal_status Device::clear(void* destination, size_t bytes) {
  std::lock_guard<std::mutex> lock(side_mutex_);
  int code = api.fill_8(destination, 0, bytes, side_stream_);
  if (code == kSuccess) code = api.stream_synchronize(side_stream_);
  return code == kSuccess ? UHAL_OK : fail_work(code, name);
}

}  // namespace unihal::gpu
