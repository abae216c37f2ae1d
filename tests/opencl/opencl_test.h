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

  // y = function(x), elementwise, for `count` float32 in memory that is made for it.
  uhal_status launch_map(const char* function, int64_t count = 4) {
    uhal_map_attributes attributes = {};
    attributes.struct_size = sizeof attributes;
    attributes.function = uhal_map_function_find(function);
    uhal_tensor x = {};
    x.struct_size = sizeof x;
    x.data = allocate(static_cast<size_t>(count) * 4);
    x.dtype = UHAL_FLOAT32;
    x.rank = 1;
    x.shape[0] = count;
    x.strides[0] = 1;
    uhal_tensor y = x;
    y.data = allocate(static_cast<size_t>(count) * 4);
    const uhal_tensor* inputs[] = {&x};
    const uhal_tensor* outputs[] = {&y};
    uhal_op op = {};
    op.struct_size = sizeof op;
    op.kind = UHAL_OP_MAP;
    op.inputs = inputs;
    op.input_count = 1;
    op.outputs = outputs;
    op.output_count = 1;
    op.attributes = &attributes;
    return uhal_launch(stream, &op);
  }

  uhal_device* device = nullptr;
  uhal_stream* stream = nullptr;
  std::vector<void*> allocations;
};

}  // namespace opencl_test
