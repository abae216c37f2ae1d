// The stub as a device: properties, memory, events, settings. ctest runs each test in a process of its own.
#include <cstdlib>
#include <cstring>

#include "tests/stub/data_test.h"
#include "unihal/check.h"
#include "unihal/event.h"
#include "unihal/memory.h"

namespace data_test {
namespace {

std::string message() { return uhal_last_error()->message; }

bool is_strict() {
  const char* mode = std::getenv("UNIHAL_STUB");
  return mode != nullptr && std::string(mode) == "strict";
}

TEST(Device, Properties) {
  uhal_device_properties properties = attributes_of<uhal_device_properties>();
  ASSERT_EQ(UHAL_OK, uhal_device_properties_get(device(), &properties)) << message();
  EXPECT_STREQ("stub", properties.backend);
  EXPECT_STREQ("rdna", properties.device_type);
  EXPECT_EQ(1, properties.is_stub);
  EXPECT_EQ(is_strict() ? 0 : 1, properties.unified_memory);
  EXPECT_STREQ(is_strict() ? "unihal stub (strict)" : "unihal stub (host memory)", properties.name);
  EXPECT_EQ(is_strict() ? uint32_t{UHAL_CHECK_RACES | UHAL_CHECK_MEMORY} : 0u, properties.checks);
  EXPECT_EQ(uint64_t{8} << 30, properties.total_memory);
  EXPECT_NE(0u, properties.supported_dtypes >> UHAL_BFLOAT16 & 1);
  EXPECT_NE(0u, properties.supported_dtypes >> UHAL_COMPLEX64 & 1);
}

TEST(Device, CopiesAndFillsBytes) {
  for (const size_t bytes : {size_t{1}, size_t{63}, size_t{4096}, (size_t{20} << 20) + 5}) {
    std::vector<uint8_t> sent(bytes);
    for (size_t i = 0; i < bytes; ++i) sent[i] = static_cast<uint8_t>(i * 7 + i / 251);
    std::vector<uint8_t> received(bytes);
    void* pointers[2] = {};
    for (void*& pointer : pointers) {
      ASSERT_EQ(UHAL_OK, uhal_allocate(device(), stream(), UHAL_MEMORY_DEVICE, bytes, &pointer)) << message();
      EXPECT_EQ(0u, reinterpret_cast<uintptr_t>(pointer) % 256);
    }
    EXPECT_EQ(UHAL_OK, uhal_copy(stream(), pointers[0], sent.data(), bytes, UHAL_COPY_HOST_TO_DEVICE));
    EXPECT_EQ(UHAL_OK, uhal_copy(stream(), pointers[1], pointers[0], bytes, UHAL_COPY_DEVICE_TO_DEVICE));
    EXPECT_EQ(UHAL_OK, uhal_copy(stream(), received.data(), pointers[1], bytes, UHAL_COPY_DEVICE_TO_HOST));
    EXPECT_EQ(UHAL_OK, uhal_stream_synchronize(stream()));
    EXPECT_TRUE(sent == received) << bytes;

    for (const size_t size : {size_t{1}, size_t{2}, size_t{4}, size_t{8}, size_t{16}}) {
      const size_t filled = bytes / size * size;
      EXPECT_EQ(UHAL_OK, uhal_memory_fill(stream(), pointers[0], sent.data(), size, filled)) << message();
      EXPECT_EQ(UHAL_OK, uhal_copy(stream(), received.data(), pointers[0], bytes, UHAL_COPY_DEVICE_TO_HOST));
      EXPECT_EQ(UHAL_OK, uhal_stream_synchronize(stream()));
      size_t wrong = 0;
      for (size_t i = 0; i < filled; ++i) wrong += received[i] != sent[i % size];
      EXPECT_EQ(0u, wrong) << size << " in " << bytes;
    }
    for (void* pointer : pointers) EXPECT_EQ(UHAL_OK, uhal_free(device(), stream(), pointer));
  }
}

TEST(Device, EventsMeasureTime) {
  uhal_event* events[2];
  for (uhal_event*& event : events) ASSERT_EQ(UHAL_OK, uhal_event_create(device(), &event));
  Array x(UHAL_FLOAT32, {1 << 20});
  ASSERT_EQ(UHAL_OK, uhal_event_record(events[0], stream()));
  run(UHAL_OP_FILL, {}, {&x});
  ASSERT_EQ(UHAL_OK, uhal_event_record(events[1], stream()));
  ASSERT_EQ(UHAL_OK, uhal_event_synchronize(events[1]));
  int64_t nanoseconds = -1;
  EXPECT_EQ(UHAL_OK, uhal_event_elapsed_nanoseconds(events[0], events[1], &nanoseconds)) << message();
  EXPECT_GT(nanoseconds, 0);
  for (uhal_event* event : events) EXPECT_EQ(UHAL_OK, uhal_event_destroy(event));
}

TEST(Device, HostCallbacksSeeFinishedWork) {
  Array x(UHAL_INT32, {1});
  uhal_fill_attributes attributes = attributes_of<uhal_fill_attributes>();
  attributes.integer_value = 5;
  run(UHAL_OP_FILL, {}, {&x}, &attributes);
  // Pinned memory is the host's: what the copy before the callback brings must be there when it runs.
  void* pinned = nullptr;
  ASSERT_EQ(UHAL_OK, uhal_allocate(device(), stream(), UHAL_MEMORY_PINNED, sizeof(int32_t), &pinned)) << message();
  EXPECT_EQ(UHAL_OK, uhal_copy(stream(), pinned, x.view()->data, sizeof(int32_t), UHAL_COPY_DEVICE_TO_HOST));
  struct Seen {
    const void* data;
    int32_t value;
  } seen = {pinned, 0};
  EXPECT_EQ(UHAL_OK, uhal_stream_host_callback(
                         stream(),
                         [](void* user_data) {
                           Seen* s = static_cast<Seen*>(user_data);
                           s->value = *static_cast<const int32_t*>(s->data);
                         },
                         &seen));
  EXPECT_EQ(UHAL_OK, uhal_stream_synchronize(stream()));
  EXPECT_EQ(5, seen.value);
  EXPECT_EQ(UHAL_OK, uhal_free(device(), stream(), pinned));
}

TEST(Device, MemoryIsAsLargeAsAskedFor) {
  setenv("UNIHAL_STUB_MEMORY", "64M", 1);
  void* pointer = nullptr;
  EXPECT_EQ(UHAL_RESOURCE_EXHAUSTED, uhal_allocate(device(), nullptr, UHAL_MEMORY_DEVICE, size_t{65} << 20, &pointer));
  EXPECT_EQ(nullptr, pointer);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "memory", message());
  ASSERT_EQ(UHAL_OK, uhal_allocate(device(), nullptr, UHAL_MEMORY_DEVICE, size_t{60} << 20, &pointer)) << message();
  EXPECT_EQ(UHAL_OK, uhal_free(device(), nullptr, pointer));
  ASSERT_EQ(UHAL_OK, uhal_allocate(device(), nullptr, UHAL_MEMORY_DEVICE, size_t{60} << 20, &pointer))
      << "after a free";
  EXPECT_EQ(UHAL_OK, uhal_free(device(), nullptr, pointer));
}

TEST(Device, SeveralDevices) {
  setenv("UNIHAL_STUB_DEVICES", "3", 1);
  ASSERT_EQ(UHAL_OK, uhal_select_backend("stub"));
  int32_t count = 0;
  ASSERT_EQ(UHAL_OK, uhal_device_count("polaris", &count)) << message();
  EXPECT_EQ(3, count);
}

// A refused setting makes the backend unusable; the report says why.
class WrongSetting : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(WrongSetting, IsRefusedByName) {
  const auto [name, value] = GetParam();
  setenv(name, value, 1);
  ASSERT_EQ(UHAL_OK, uhal_select_backend("stub"));
  uhal_device* opened = nullptr;
  EXPECT_NE(UHAL_OK, uhal_device_get("rdna", 0, &opened));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, name, message());
  EXPECT_PRED_FORMAT2(testing::IsSubstring, value, message());
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "expected", message());
}

INSTANTIATE_TEST_SUITE_P(Values, WrongSetting,
                         testing::Values(std::pair("UNIHAL_STUB_DEVICES", "0"), std::pair("UNIHAL_STUB_DEVICES", "65"),
                                         std::pair("UNIHAL_STUB_DEVICES", "two"),
                                         std::pair("UNIHAL_STUB_DEVICES", "-1"), std::pair("UNIHAL_STUB_MEMORY", "4GB"),
                                         std::pair("UNIHAL_STUB", "harsh"), std::pair("UNIHAL_STUB_SEED", "1.5"),
                                         std::pair("UNIHAL_STUB_MEMORY", "0"),
                                         std::pair("UNIHAL_STUB_MEMORY", "99999999999G")));

}  // namespace
}  // namespace data_test
