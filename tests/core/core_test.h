// What the core's suites share. Each test runs in a process of its own (see googletest.cmake).
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/core/fake/fake_control.h"
#include "unihal/backend.h"
#include "unihal/event.h"
#include "unihal/fallback.h"
#include "unihal/memory.h"
#include "unihal/op.h"
#include "unihal/profiler.h"

namespace core_test {

// No OpenCL of the machine serves: these suites have the fake backend, or no device.
inline const int without_opencl = setenv("UNIHAL_OPENCL_LIBRARY", "/no/libOpenCL.so", 1);

inline std::string last_message() { return uhal_last_error()->message; }

// The path of a variant of the fake backend.
inline std::string fake_path(const std::string& name) {
  return std::string(FAKE_FOLDER) + "/libunihal_" + name + ".so";
}

// A status as expected, by name, with the message where it is not.
inline testing::AssertionResult has_status(const char*, const char* expression, uhal_status expected,
                                           uhal_status actual) {
  if (expected == actual) return testing::AssertionSuccess();
  return testing::AssertionFailure() << expression << " gave " << uhal_status_name(actual) << ", expected "
                                     << uhal_status_name(expected) << "; last message: " << last_message();
}
#define EXPECT_STATUS(expected, expression) EXPECT_PRED_FORMAT2(core_test::has_status, expected, expression)
#define ASSERT_OK(expression) ASSERT_EQ(UHAL_OK, (expression)) << core_test::last_message()
#define EXPECT_OK(expression) EXPECT_EQ(UHAL_OK, (expression)) << core_test::last_message()

// The message of the last failure contains a text.
#define EXPECT_MESSAGE(text) EXPECT_PRED_FORMAT2(testing::IsSubstring, text, core_test::last_message())

inline fake::Control& control_of(const std::string& name) {
  void* library = dlopen(fake_path(name).c_str(), RTLD_NOW);
  if (library == nullptr) throw std::runtime_error(dlerror());
  return *reinterpret_cast<fake::ControlFunction>(dlsym(library, "fake_control"))();
}

// Loads and selects a variant of the fake backend.
inline void use_fake(const std::string& name) {
  const char* loaded = nullptr;
  ASSERT_OK(uhal_backend_load(fake_path(name).c_str(), &loaded));
  ASSERT_OK(uhal_select_backend(loaded));
}

// A device and a stream of the fake; at the end nothing may be left.
class CoreTest : public testing::Test {
 protected:
  void SetUp() override {
    control = &control_of("fake");
    // Each suite says itself which checks it is about.
    unsetenv("UNIHAL_CHECK_RACES");
    unsetenv("UNIHAL_CHECK_MEMORY");
    configure();
    use_fake("fake");
    ASSERT_OK(uhal_device_get("rdna", 0, &device));
    ASSERT_OK(uhal_device_default_stream(device, &stream));
  }

  // Where a suite sets the control before the device is opened.
  virtual void configure() {}

  void TearDown() override {
    if (process_is_finished) return;
    uhal_memory_stats stats = memory_stats();
    EXPECT_EQ(0u, stats.live_allocations);
    EXPECT_EQ(0u, stats.allocated_bytes);
    uhal_finalize();
    EXPECT_EQ(0, control->live_allocations.load());
    EXPECT_EQ(0, control->live_bytes.load());
    EXPECT_LE(control->concurrent_submissions.load(), 1);
  }

  uhal_memory_stats memory_stats(uhal_memory_kind kind = UHAL_MEMORY_DEVICE) {
    uhal_memory_stats stats = {};
    stats.struct_size = sizeof stats;
    EXPECT_OK(uhal_memory_stats_get(device, kind, &stats));
    return stats;
  }

  void* allocate(size_t bytes, uhal_stream* on = nullptr) {
    void* pointer = nullptr;
    EXPECT_OK(uhal_allocate(device, on, UHAL_MEMORY_DEVICE, bytes, &pointer));
    return pointer;
  }
  void release(void* pointer, uhal_stream* on = nullptr) { EXPECT_OK(uhal_free(device, on, pointer)); }

  fake::Control* control = nullptr;
  uhal_device* device = nullptr;
  uhal_stream* stream = nullptr;
  bool process_is_finished = false;  // a test that called uhal_finalize itself
};

}  // namespace core_test
