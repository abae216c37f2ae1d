// What the Python side calls, by ctypes: python/unihal_torch.
#include <cstdlib>
#include <cstring>

#include "plugins/torch/call.h"
#include "plugins/torch/generator.h"
#include "plugins/torch/kernels/kernels.h"
#include "plugins/torch/tensors.h"

#define UNIHAL_TORCH_EXPORT extern "C" __attribute__((visibility("default")))

// Registers the devices of a type and all kernels. Returns NULL, or what went wrong; valid until the next call.
UNIHAL_TORCH_EXPORT const char* uhal_torch_init(const char* device_type, int32_t count) {
  using namespace unihal::pytorch;
  static auto* message = new std::string;
  try {
    set_device_type(device_type, count);
    register_device();
    register_profiler();
    const char* const without = std::getenv("UNIHAL_TORCH_NO_KERNELS");
    if (without != nullptr && std::strcmp(without, "1") == 0) return nullptr;
    register_elementwise();
    register_activation();
    register_antialias();
    register_arithmetic();
    register_attention();
    register_composed();
    register_convolution();
    register_decomposition();
    register_distance();
    register_distribution();
    register_factorization();
    register_fft();
    register_groups();
    register_index();
    register_loss();
    register_low_precision();
    register_matmul();
    register_movement();
    register_norm();
    register_optimizer();
    register_pool();
    register_random();
    register_recurrent();
    register_reduce();
    register_resample();
    register_search();
    register_sets();
    register_softmax();
    register_special();
    register_window();
  } catch (const std::exception& error) {
    *message = error.what();
    return message->c_str();
  }
  return nullptr;
}

// The ops with kernels and their dtypes, as JSON: [{"op": "add.Tensor", "dtypes": ["float32", ...]}, ...].
UNIHAL_TORCH_EXPORT const char* uhal_torch_coverage() {
  static auto* text = new std::string;
  *text = unihal::pytorch::coverage();
  return text->c_str();
}

// The state of a device's default generator: its seed, and how many blocks of random words were taken. Returns whether
// there is such a device.
UNIHAL_TORCH_EXPORT int32_t uhal_torch_random_get(int32_t device, uint64_t* seed, uint64_t* offset) {
  using namespace unihal::pytorch;
  if (device < 0 || device >= device_count()) return 0;
  at::Generator generator = default_generator(static_cast<c10::DeviceIndex>(device));
  std::lock_guard<std::mutex> lock(generator.mutex());
  *seed = generator.current_seed();
  *offset = generator.get_offset();
  return 1;
}
UNIHAL_TORCH_EXPORT int32_t uhal_torch_random_set(int32_t device, uint64_t seed, uint64_t offset) {
  using namespace unihal::pytorch;
  if (device < 0 || device >= device_count()) return 0;
  at::Generator generator = default_generator(static_cast<c10::DeviceIndex>(device));
  std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(seed);
  generator.set_offset(offset);
  return 1;
}
