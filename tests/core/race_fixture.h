// What the suites of the race check share: a device with the check, three streams, and memory.
#pragma once

#include <cstdlib>

#include "tests/core/core_test.h"
#include "unihal/check.h"

namespace core_test {

constexpr int64_t kCount = 64;  // elements of the views below

// A float32 view of one or two axes.
inline uhal_tensor vector_of(float* data, int64_t count = kCount) {
  return {sizeof(uhal_tensor), data, UHAL_FLOAT32, 1, {count}, {1}};
}
inline uhal_tensor matrix_of(float* data, int64_t rows, int64_t columns, int64_t row_stride) {
  return {sizeof(uhal_tensor), data, UHAL_FLOAT32, 2, {rows, columns}, {row_stride, 1}};
}

class RaceTest : public CoreTest {
 protected:
  void configure() override { setenv("UNIHAL_CHECK_RACES", "1", 1); }

  void SetUp() override {
    CoreTest::SetUp();
    for (uhal_stream** made : {&first, &second, &third}) ASSERT_OK(uhal_stream_create(device, made));
    ASSERT_OK(uhal_event_create(device, &event));
    x = static_cast<float*>(allocate(4096));
    y = static_cast<float*>(allocate(4096));
    z = static_cast<float*>(allocate(4096));
  }

  void TearDown() override {
    ASSERT_OK(uhal_device_synchronize(device));
    for (float* memory : {x, y, z}) release(memory);
    ASSERT_OK(uhal_event_destroy(event));
    for (uhal_stream* made : {first, second, third}) ASSERT_OK(uhal_stream_destroy(made));
    CoreTest::TearDown();
  }

  static void write(uhal_stream* on, const uhal_tensor& to, const char* label = nullptr) {
    const uhal_tensor* outputs[] = {&to};
    uhal_op op = {sizeof op, UHAL_OP_FILL, 0, 1, 0, nullptr, outputs, nullptr, label};
    EXPECT_OK(uhal_launch(on, &op));
  }
  static void write(uhal_stream* on, float* to) { write(on, vector_of(to)); }

  static void copy(uhal_stream* on, const uhal_tensor& from, const uhal_tensor& to) {
    const uhal_tensor* inputs[] = {&from};
    const uhal_tensor* outputs[] = {&to};
    uhal_op op = {sizeof op, UHAL_OP_COPY, 1, 1, 0, inputs, outputs, nullptr, nullptr};
    EXPECT_OK(uhal_launch(on, &op));
  }
  // Reads `from`; writes the first bytes of z that this stream has for itself.
  void read(uhal_stream* on, const uhal_tensor& from) {
    float* own = z + (on == first ? 0 : on == second ? 256 : 512);
    copy(on, from,
         {sizeof(uhal_tensor), own, from.dtype, from.rank, {from.shape[0], from.shape[1]}, {from.shape[1], 1}});
  }
  void read(uhal_stream* on, float* from) { read(on, matrix_of(from, 1, kCount, kCount)); }

  void order(uhal_stream* before, uhal_stream* after) {
    ASSERT_OK(uhal_event_record(event, before));
    ASSERT_OK(uhal_stream_wait_event(after, event));
  }

  struct Race {
    uhal_device* device = nullptr;
    uhal_race_access earlier = {};
    uhal_race_access later = {};
  };
  static Race race(size_t index) {
    Race found;
    found.earlier.struct_size = sizeof found.earlier;
    found.later.struct_size = sizeof found.later;
    EXPECT_OK(uhal_race_get(index, &found.device, &found.earlier, &found.later));
    return found;
  }

  uhal_stream *first = nullptr, *second = nullptr, *third = nullptr;
  uhal_event* event = nullptr;
  float *x = nullptr, *y = nullptr, *z = nullptr;
};

}  // namespace core_test
