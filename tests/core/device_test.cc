// Devices: properties and the end of their use.
#include "tests/core/core_test.h"

namespace core_test {
namespace {

class DeviceTest : public CoreTest {};

TEST_F(DeviceTest, PropertiesAreCompleted) {
  uhal_device_properties properties = {};
  properties.struct_size = sizeof properties;
  ASSERT_OK(uhal_device_properties_get(device, &properties));
  EXPECT_STREQ("rdna", properties.device_type);
  EXPECT_STREQ("fake", properties.backend);
  EXPECT_STREQ("fake board", properties.name);
  EXPECT_STREQ("", properties.vendor);  // the backend left it out
  EXPECT_STREQ("", properties.pci_bus_id);
  EXPECT_EQ(uint64_t{256} << 20, properties.total_memory);
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_device_properties_get(nullptr, &properties));
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_device_properties_get(device, nullptr));
  properties.struct_size = 0;
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_device_properties_get(device, &properties));
  EXPECT_MESSAGE("sizeof(*out)");
}

TEST_F(DeviceTest, NullDevicesAreRefused) {
  uhal_stream* made;
  uhal_event* event;
  uhal_memory_stats stats = {};
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_stream_create(nullptr, &made));
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_event_create(nullptr, &event));
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_device_synchronize(nullptr));
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_device_default_stream(nullptr, &made));
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_memory_stats_get(nullptr, 0, &stats));
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_memory_trim(nullptr, 0, nullptr));
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_memory_set_limit(nullptr, 0));
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_memory_reset_peak(nullptr));
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_supports(nullptr, nullptr));
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_stream_create(device, nullptr));
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_event_create(device, nullptr));
}

TEST_F(DeviceTest, FinalizeEndsTheUseOfDevices) {
  uhal_event* event;
  ASSERT_OK(uhal_event_create(device, &event));
  release(allocate(1000, stream), stream);
  EXPECT_GT(control->live_bytes.load(), 0);
  uhal_finalize();
  uhal_finalize();
  process_is_finished = true;
  EXPECT_EQ(1, control->finalize_calls.load());
  EXPECT_EQ(0, control->live_bytes.load());
  void* pointer;
  int32_t count;
  EXPECT_STATUS(UHAL_FAILED_PRECONDITION, uhal_allocate(device, nullptr, UHAL_MEMORY_DEVICE, 1, &pointer));
  EXPECT_MESSAGE("uhal_finalize was called");
  EXPECT_STATUS(UHAL_FAILED_PRECONDITION, uhal_device_count("rdna", &count));
  EXPECT_STATUS(UHAL_FAILED_PRECONDITION, uhal_stream_synchronize(stream));
  EXPECT_STATUS(UHAL_FAILED_PRECONDITION, uhal_event_destroy(event));
}

TEST(Finalize, WithoutAnyDeviceIsFine) {
  uhal_finalize();
  int32_t count;
  EXPECT_STATUS(UHAL_FAILED_PRECONDITION, uhal_device_count("rdna", &count));
}

}  // namespace
}  // namespace core_test
