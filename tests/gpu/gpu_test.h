// What the suites of the GPU backends share. Each test runs in a process of its own, with drivers on host memory
// (tests/doubles/hip_on_host), which compute no kernels.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/doubles/hip_on_host/control.h"
#include "unihal/event.h"
#include "unihal/memory.h"
#include "unihal/op.h"

namespace gpu_test {

inline std::string message() { return uhal_last_error()->message; }

#define EXPECT_OK(expression) EXPECT_EQ(UHAL_OK, (expression)) << gpu_test::message()
#define ASSERT_OK(expression) ASSERT_EQ(UHAL_OK, (expression)) << gpu_test::message()
#define EXPECT_MESSAGE(text) EXPECT_PRED_FORMAT2(testing::IsSubstring, text, gpu_test::message())
#define EXPECT_SAYS(text, whole) EXPECT_PRED_FORMAT2(testing::IsSubstring, text, std::string(whole))

// A driver, which the build makes as the root folder of a vendor's software.
struct Vendor {
  const char* backend;
  const char* device_type;
  const char* root_variable;
  const char* root;
  const char* library;
};
constexpr Vendor kRocm = {"hip", "rdna", "ROCM_PATH", ROCM_ON_HOST, "/lib/libamdhip64.so"};
constexpr Vendor kRocm5 = {"hip", "rdna", "ROCM_PATH", ROCM_5_ON_HOST, "/lib/libamdhip64.so"};
constexpr Vendor kRocmIncomplete = {"hip", "rdna", "ROCM_PATH", ROCM_INCOMPLETE_ON_HOST, "/lib/libamdhip64.so"};
constexpr Vendor kRocmWithoutCompiler = {"hip", "rdna", "ROCM_PATH", ROCM_WITHOUT_COMPILER_ON_HOST,
                                         "/lib/libamdhip64.so"};
constexpr Vendor kHipOnCuda = {"hip", "rdna", "ROCM_PATH", HIP_ON_CUDA, "/lib/libamdhip64.so"};
constexpr Vendor kCorex = {"corex", "iluvatar", "COREX_ROOT", COREX_ON_HOST, "/lib64/libcuda.so.1"};

// Lets the backend use the driver. Before anything else of unihal.
inline void use(const Vendor& vendor) {
  setenv(vendor.root_variable, vendor.root, 1);
  setenv("UNIHAL_CACHE", "off", 1);           // kernels are compiled, whatever was compiled before
  setenv("UNIHAL_GPU_LIBRARIES", "none", 1);  // this machine may have some, which need a real driver
}

template <class Control>
Control control(const Vendor& vendor, const char* name) {
  void* library = dlopen((std::string(vendor.root) + vendor.library).c_str(), RTLD_NOW);
  EXPECT_NE(nullptr, library) << dlerror();
  return reinterpret_cast<Control>(dlsym(library, name));
}

// As control.h says.
inline void fail_call(const Vendor& vendor, const char* function, int code, int after = 0, int times = 1) {
  control<OnHostFail>(vendor, "on_host_fail")(function, code, after, times);
}
inline int calls(const Vendor& vendor, const char* function) {
  return control<OnHostCalls>(vendor, "on_host_calls")(function);
}

// What a backend said when it was asked for its devices.
inline std::string refusal(const Vendor& vendor) {
  uhal_backend_report report = {};
  report.struct_size = sizeof report;
  EXPECT_OK(uhal_backend_report_get(vendor.device_type, 0, &report));
  EXPECT_STREQ(vendor.backend, report.backend);
  EXPECT_EQ(UHAL_BACKEND_REFUSED, report.state) << "a driver of this machine serves";
  return report.reason;
}

// A device and a stream of a driver.
class GpuTest : public testing::Test {
 protected:
  explicit GpuTest(const Vendor& tested = kRocm) : vendor(tested) {}

  void SetUp() override {
    use(vendor);
    setenv("UNIHAL_STRICT", "1", 1);  // what the backend refuses is seen
    ASSERT_OK(uhal_select_backend(vendor.backend));
    ASSERT_OK(uhal_device_get(vendor.device_type, 0, &device));
    ASSERT_OK(uhal_stream_create(device, &stream));
  }

  void TearDown() override {
    if (stream == nullptr) return;
    for (void* pointer : allocations) EXPECT_OK(uhal_free(device, stream, pointer));
    EXPECT_OK(uhal_stream_destroy(stream));
    uhal_finalize();
  }

  void fail_call(const char* function, int code, int after = 0, int times = 1) {
    gpu_test::fail_call(vendor, function, code, after, times);
  }

  void expect_native(int code, const char* name) {
    EXPECT_EQ(code, uhal_last_error()->native_code);
    EXPECT_STREQ(name, uhal_last_error()->native_name);
    EXPECT_MESSAGE(std::string(name) + " (" + std::to_string(code) + ")");
  }

  uhal_device_properties properties() {
    uhal_device_properties all = {};
    all.struct_size = sizeof all;
    EXPECT_OK(uhal_device_properties_get(device, &all));
    return all;
  }

  // Memory that lives as long as the test.
  char* allocate(size_t bytes, uhal_memory_kind kind = UHAL_MEMORY_DEVICE) {
    void* pointer = nullptr;
    EXPECT_OK(uhal_allocate(device, stream, kind, bytes, &pointer));
    allocations.push_back(pointer);
    return static_cast<char*>(pointer);
  }

  std::string download(const void* source, size_t bytes) {
    std::string result(bytes, '?');
    EXPECT_OK(uhal_copy(stream, result.data(), source, bytes, UHAL_COPY_DEVICE_TO_HOST));
    EXPECT_OK(uhal_stream_synchronize(stream));
    return result;
  }

  void upload(void* destination, const std::string& bytes) {
    EXPECT_OK(uhal_copy(stream, destination, bytes.data(), bytes.size(), UHAL_COPY_HOST_TO_DEVICE));
    EXPECT_OK(uhal_stream_synchronize(stream));
  }

  uhal_event* record(uhal_stream* on) {
    uhal_event* event = nullptr;
    EXPECT_OK(uhal_event_create(device, &event));
    EXPECT_OK(uhal_event_record(event, on));
    return event;
  }

  // A vector in memory that is made for it.
  uhal_tensor vector(int64_t count) {
    uhal_tensor view = {};
    view.struct_size = sizeof view;
    view.data = allocate(static_cast<size_t>(count) * sizeof(float));
    view.dtype = UHAL_FLOAT32;
    view.rank = 1;
    view.shape[0] = count;
    view.strides[0] = 1;
    return view;
  }

  // y = relu(x), which no one computes.
  uhal_status launch_relu(int64_t count = 4) {
    const uhal_tensor x = vector(count);
    const uhal_tensor y = vector(count);
    uhal_map_attributes attributes = {};
    attributes.struct_size = sizeof attributes;
    attributes.function = uhal_map_function_find("relu");
    return launch(UHAL_OP_MAP, x, y, &attributes);
  }

  uhal_status launch(uhal_op_kind kind, const uhal_tensor& x, const uhal_tensor& y, const void* attributes) {
    const uhal_tensor* inputs[] = {&x};
    const uhal_tensor* outputs[] = {&y};
    uhal_op op = {};
    op.struct_size = sizeof op;
    op.kind = kind;
    op.inputs = inputs;
    op.input_count = 1;
    op.outputs = outputs;
    op.output_count = 1;
    op.attributes = attributes;
    return uhal_launch(stream, &op);
  }

  const Vendor vendor;
  uhal_device* device = nullptr;
  uhal_stream* stream = nullptr;
  std::vector<void*> allocations;
};

}  // namespace gpu_test
