// What the suites of the opencl backend share. Each test runs in a process of its own, with an OpenCL that
// with_opencl.sh chooses.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/opencl/faulty_opencl.h"
#include "unihal/event.h"
#include "unihal/memory.h"
#include "unihal/op.h"

namespace opencl_test {

inline std::string message() { return uhal_last_error()->message; }

#define EXPECT_OK(expression) EXPECT_EQ(UHAL_OK, (expression)) << opencl_test::message()
#define ASSERT_OK(expression) ASSERT_EQ(UHAL_OK, (expression)) << opencl_test::message()
#define EXPECT_MESSAGE(text) EXPECT_PRED_FORMAT2(testing::IsSubstring, text, opencl_test::message())

// Lets the backend use the OpenCL that fails on request. Before anything else of unihal.
inline void use_faulty_opencl() { setenv("UNIHAL_OPENCL_LIBRARY", FAULTY_OPENCL, 1); }

// Lets the backend use the OpenCL that presents devices of presented_devices.h: keys, separated by commas. Before
// anything else of unihal.
inline void present(const std::string& keys) {
  setenv("UNIHAL_OPENCL_LIBRARY", PRESENTED_OPENCL, 1);
  setenv("PRESENTED_OPENCL", keys.c_str(), 1);
}

// Whether the machine has an OpenCL to compute with, or to be refused by.
inline bool needs_opencl() { return std::getenv("UNIHAL_TESTS_NEED_OPENCL") != nullptr; }

// From now on the (`after` + 1)-th call of an OpenCL function fails with a code, and as many as `times` of them.
inline void fail_call(const char* function, int32_t code, int after = 0, int times = 1) {
  void* library = dlopen(FAULTY_OPENCL, RTLD_NOW);
  ASSERT_NE(nullptr, library) << dlerror();
  reinterpret_cast<FaultyOpenclFail>(dlsym(library, "faulty_opencl_fail"))(function, code, after, times);
}

// A device and a stream. Without an OpenCL the test is skipped.
class OpenclTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(uhal_select_backend("opencl"));
    const uhal_status status = uhal_device_get("polaris", 0, &device);
    if (status == UHAL_UNAVAILABLE && std::getenv("UNIHAL_TESTS_NEED_OPENCL") == nullptr) {
      GTEST_SKIP() << "there is no OpenCL: run tests/fetch_pocl.sh. " << message();
    }
    ASSERT_EQ(UHAL_OK, status) << message();
    ASSERT_OK(uhal_stream_create(device, &stream));
  }

  void TearDown() override {
    if (stream == nullptr) return;
    for (void* pointer : allocations) EXPECT_OK(uhal_free(device, stream, pointer));
    EXPECT_OK(uhal_stream_destroy(stream));
    uhal_finalize();
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

  // A vector in memory that is made for it.
  uhal_tensor vector(int64_t count, uhal_dtype dtype = UHAL_FLOAT32) {
    uhal_tensor view = {};
    view.struct_size = sizeof view;
    view.data = allocate(static_cast<size_t>(count) * uhal_dtype_size(dtype));
    view.dtype = dtype;
    view.rank = 1;
    view.shape[0] = count;
    view.strides[0] = 1;
    return view;
  }

  // y = function(x), elementwise.
  uhal_status launch_map(const char* function, int64_t count = 4, uhal_dtype dtype = UHAL_FLOAT32) {
    uhal_map_attributes attributes = {};
    attributes.struct_size = sizeof attributes;
    attributes.function = uhal_map_function_find(function);
    return launch(UHAL_OP_MAP, vector(count, dtype), vector(count, dtype), &attributes);
  }

  // y = the op of x.
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

  uhal_device* device = nullptr;
  uhal_stream* stream = nullptr;
  std::vector<void*> allocations;
};

}  // namespace opencl_test
