// The race check: what is reported, and for which bytes.
#include <string>

#include "tests/core/race_fixture.h"

namespace core_test {
namespace {

// -- what is found ---------------------------------------------------------------------------------

TEST_F(RaceTest, TwoWritesAreReportedWithBothSides) {
  testing::internal::CaptureStderr();
  write(first, vector_of(x), "first layer");
  write(second, vector_of(x + 16));
  const std::string printed = testing::internal::GetCapturedStderr();
  ASSERT_EQ(1u, uhal_race_count());
  const Race found = race(0);
  EXPECT_EQ(device, found.device);
  EXPECT_STREQ("first layer (fill): -> float32(64,)", found.earlier.work);
  EXPECT_STREQ("fill: -> float32(64,)", found.later.work);
  EXPECT_STREQ("y", found.earlier.role);
  EXPECT_EQ(1, found.earlier.is_write);
  EXPECT_EQ(1, found.later.is_write);
  EXPECT_EQ(found.earlier.stream + 1, found.later.stream);
  EXPECT_EQ(reinterpret_cast<uint64_t>(x), found.earlier.address);
  EXPECT_EQ(reinterpret_cast<uint64_t>(x + 16), found.later.address);
  EXPECT_EQ(256u, found.later.bytes);
  EXPECT_STRNE("", found.earlier.site);
  EXPECT_STRNE("", found.later.site);
  const std::string number = std::to_string(found.earlier.stream);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "race on rdna:0 (fake)", printed);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "earlier: first layer (fill): -> float32(64,)", printed);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "stream " + number + " writes y, 256 bytes at 0x", printed);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "record an event on stream " + number, printed);
}

TEST_F(RaceTest, AReadAfterAWriteAndAWriteAfterARead) {
  write(first, x);
  read(second, x);
  ASSERT_EQ(1u, uhal_race_count());
  EXPECT_STREQ("x", race(0).later.role);
  EXPECT_EQ(0, race(0).later.is_write);
  read(first, y);
  write(second, y);
  ASSERT_EQ(2u, uhal_race_count());
  EXPECT_EQ(0, race(1).earlier.is_write);
  EXPECT_EQ(1, race(1).later.is_write);
}

TEST_F(RaceTest, ReadsDoNotRace) {
  write(first, x);
  order(first, second);
  order(first, third);
  for (uhal_stream* on : {first, second, third}) read(on, x);
  EXPECT_EQ(0u, uhal_race_count());
  // A write must come after each of them.
  order(second, first);
  write(first, x);
  ASSERT_EQ(1u, uhal_race_count());
  EXPECT_EQ(0, race(0).earlier.is_write);
}

TEST_F(RaceTest, CopiesAndFillsAreAccesses) {
  float host[kCount] = {};
  const uint32_t pattern = 7;
  EXPECT_OK(uhal_copy(first, x, host, sizeof host, UHAL_COPY_HOST_TO_DEVICE));
  read(second, x);
  ASSERT_EQ(1u, uhal_race_count());
  EXPECT_STREQ("copy.host_to_device of 256 bytes", race(0).earlier.work);
  EXPECT_STREQ("destination", race(0).earlier.role);
  EXPECT_OK(uhal_memory_fill(third, x, &pattern, sizeof pattern, sizeof host));
  ASSERT_EQ(3u, uhal_race_count());  // with the copy, and with the reading op
  EXPECT_STREQ("fill of 256 bytes", race(2).later.work);
  EXPECT_OK(uhal_copy(first, y, x, sizeof host, UHAL_COPY_DEVICE_TO_DEVICE));
  ASSERT_EQ(4u, uhal_race_count());
  EXPECT_STREQ("source", race(3).later.role);
}

TEST_F(RaceTest, AHostBufferIsMemoryToo) {
  float host[kCount] = {};
  EXPECT_OK(uhal_copy(first, host, x, sizeof host, UHAL_COPY_DEVICE_TO_HOST));
  EXPECT_OK(uhal_copy(second, y, host + 32, sizeof host / 2, UHAL_COPY_HOST_TO_DEVICE));
  ASSERT_EQ(1u, uhal_race_count());
  EXPECT_STREQ("copy.device_to_host of 256 bytes", race(0).earlier.work);
  EXPECT_EQ(reinterpret_cast<uint64_t>(host + 32), race(0).later.address);
  // The same source may be copied twice at once.
  EXPECT_OK(uhal_stream_synchronize(first));
  EXPECT_OK(uhal_copy(second, y, host, sizeof host, UHAL_COPY_HOST_TO_DEVICE));
  EXPECT_OK(uhal_copy(third, z, host, sizeof host, UHAL_COPY_HOST_TO_DEVICE));
  EXPECT_EQ(1u, uhal_race_count());
}

TEST_F(RaceTest, AFreeMustComeAfterEachUse) {
  auto* memory = static_cast<float*>(allocate(1024, first));
  write(first, memory);
  order(first, second);
  read(second, memory);
  release(memory, first);
  ASSERT_EQ(1u, uhal_race_count());
  EXPECT_STREQ("free of 1024 bytes", race(0).later.work);
  EXPECT_STREQ("memory", race(0).later.role);
  EXPECT_EQ(1, race(0).later.is_write);
  EXPECT_EQ(1024u, race(0).later.bytes);

  memory = static_cast<float*>(allocate(1024));
  testing::internal::CaptureStderr();
  write(first, memory);
  release(memory);  // promises that no work uses it
  const std::string printed = testing::internal::GetCapturedStderr();
  ASSERT_EQ(2u, uhal_race_count());
  EXPECT_EQ(UINT64_MAX, race(1).later.stream);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "synchronize stream", printed);

  memory = static_cast<float*>(allocate(1024));
  write(first, memory);
  order(first, second);
  release(memory, second);
  memory = static_cast<float*>(allocate(1024));
  write(third, memory);
  EXPECT_OK(uhal_stream_synchronize(third));
  release(memory);
  EXPECT_EQ(2u, uhal_race_count());
}

TEST_F(RaceTest, TwoDevicesShareNoOrder) {
  uhal_device* other = nullptr;
  uhal_stream* on_other = nullptr;
  uhal_event* of_other = nullptr;
  ASSERT_OK(uhal_device_get("rdna", 1, &other));
  ASSERT_OK(uhal_stream_create(other, &on_other));
  ASSERT_OK(uhal_event_create(other, &of_other));
  void* there = nullptr;
  ASSERT_OK(uhal_allocate(other, on_other, UHAL_MEMORY_DEVICE, 256, &there));
  float host[kCount] = {};
  // By way of the host's memory: the second copy must wait for the first.
  EXPECT_OK(uhal_copy(first, host, x, sizeof host, UHAL_COPY_DEVICE_TO_HOST));
  EXPECT_OK(uhal_copy(on_other, there, host, sizeof host, UHAL_COPY_HOST_TO_DEVICE));
  ASSERT_EQ(1u, uhal_race_count());
  EXPECT_EQ(other, race(0).device);
  // An event orders devices as well.
  EXPECT_OK(uhal_event_record(of_other, on_other));
  EXPECT_OK(uhal_stream_wait_event(first, of_other));
  EXPECT_OK(uhal_copy(first, host, x, sizeof host, UHAL_COPY_DEVICE_TO_HOST));
  EXPECT_EQ(1u, uhal_race_count());
  // The copy between devices is done when it returns.
  EXPECT_OK(uhal_copy_peer(first, other, there, device, x, 256));
  EXPECT_OK(uhal_copy(on_other, host, there, sizeof host, UHAL_COPY_DEVICE_TO_HOST));
  EXPECT_EQ(1u, uhal_race_count());
  // But it waits for the work of its own stream only.
  write(second, y);
  EXPECT_OK(uhal_copy_peer(first, other, there, device, y, 256));
  EXPECT_EQ(3u, uhal_race_count());  // reads y, and writes what on_other still reads
  EXPECT_OK(uhal_stream_synchronize(on_other));
  EXPECT_OK(uhal_free(other, nullptr, there));
  EXPECT_OK(uhal_event_destroy(of_other));
  EXPECT_OK(uhal_stream_destroy(on_other));
}

TEST_F(RaceTest, AnOpThatReadsAndWritesItsOutput) {
  int32_t* indices = reinterpret_cast<int32_t*>(y);
  uhal_tensor index_view = {sizeof index_view, indices, UHAL_INT32, 1, {4}, {1}};
  uhal_tensor updates = vector_of(z, 4);
  uhal_tensor to = vector_of(x);
  const uhal_tensor* inputs[] = {&index_view, &updates};
  const uhal_tensor* outputs[] = {&to};
  uhal_op op = {sizeof op, UHAL_OP_SCATTER, 2, 1, 0, inputs, outputs, nullptr, nullptr};
  write(second, x);
  EXPECT_OK(uhal_launch(first, &op));
  ASSERT_EQ(1u, uhal_race_count());
  EXPECT_STREQ("y", race(0).later.role);
  EXPECT_EQ(1, race(0).later.is_write);
}

// -- which bytes -----------------------------------------------------------------------------------

TEST_F(RaceTest, PartsOfOneAllocationAreApart) {
  write(first, x);
  write(second, x + kCount);
  EXPECT_EQ(0u, uhal_race_count());
  write(third, vector_of(x + kCount - 1, 2));
  EXPECT_EQ(2u, uhal_race_count());
}

TEST_F(RaceTest, ColumnsOfOneMatrixAreApart) {
  // 8 rows of 12 elements: columns 0-3, 4-7 and 8-11.
  write(first, matrix_of(x, 8, 4, 12));
  write(second, matrix_of(x + 4, 8, 4, 12));
  read(third, matrix_of(x + 8, 8, 4, 12));
  EXPECT_EQ(0u, uhal_race_count());
  // Columns 3-4 touch two of the slices; a single row that ends before column 8, too.
  write(third, matrix_of(x + 3, 8, 2, 12));
  EXPECT_EQ(2u, uhal_race_count());
  read(third, matrix_of(x + 12, 1, 8, 12));
  EXPECT_EQ(4u, uhal_race_count());
}

TEST_F(RaceTest, AWholeMatrixRacesWithItsColumns) {
  write(first, matrix_of(x, 8, 4, 12));
  read(second, matrix_of(x, 1, 96, 96));
  EXPECT_EQ(1u, uhal_race_count());
  write(second, vector_of(x, 96));
  EXPECT_EQ(2u, uhal_race_count());
  order(second, first);
  write(first, matrix_of(x + 4, 8, 4, 12));
  EXPECT_EQ(2u, uhal_race_count());
  write(third, matrix_of(x + 8, 8, 4, 12));  // with the whole matrix
  EXPECT_EQ(3u, uhal_race_count());
}

TEST_F(RaceTest, ReusedMemoryHasNoHistory) {
  void* memory = allocate(512, first);
  write(first, vector_of(static_cast<float*>(memory)));
  release(memory, first);
  ASSERT_OK(uhal_stream_synchronize(first));
  void* again = allocate(512, second);
  write(second, vector_of(static_cast<float*>(again)));
  release(again, second);
  void* at_once = allocate(512, second);
  write(second, vector_of(static_cast<float*>(at_once)));
  EXPECT_EQ(0u, uhal_race_count());
  release(at_once, second);
}

TEST_F(RaceTest, ViewsWithoutElementsTouchNothing) {
  write(first, x);
  write(second, vector_of(x, 0));
  write(second, matrix_of(x, 4, 0, 1));
  EXPECT_EQ(0u, uhal_race_count());
}

// -- reports ---------------------------------------------------------------------------------------

TEST_F(RaceTest, TheSamePairIsCountedEachTimeAndPrintedOnce) {
  testing::internal::CaptureStderr();
  for (int i = 0; i < 700; ++i) {
    for (uhal_stream* on : {first, second}) write(on, x);
  }
  const std::string printed = testing::internal::GetCapturedStderr();
  EXPECT_EQ(1399u, uhal_race_count());
  EXPECT_EQ(printed.find("unihal: race"), printed.rfind("unihal: race"));
  race(999);
  uhal_race_access side = {};
  side.struct_size = sizeof side;
  EXPECT_STATUS(UHAL_OUT_OF_RANGE, uhal_race_get(1000, nullptr, &side, &side));
  EXPECT_MESSAGE("1000 are kept of 1399 found");
  uhal_race_clear();
  EXPECT_EQ(0u, uhal_race_count());
  EXPECT_STATUS(UHAL_OUT_OF_RANGE, uhal_race_get(0, nullptr, &side, &side));
}

TEST_F(RaceTest, TheAnswerNeedsAPlace) {
  write(first, x);
  write(second, x);
  uhal_race_access side = {};
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_race_get(0, nullptr, &side, &side));
  EXPECT_MESSAGE("struct_size is 0");
  side.struct_size = sizeof side;
  EXPECT_STATUS(UHAL_INVALID_ARGUMENT, uhal_race_get(0, nullptr, &side, nullptr));
  EXPECT_OK(uhal_race_get(0, nullptr, &side, &side));
}

TEST_F(CoreTest, WithoutTheCheckNothingIsFound) {
  uhal_stream* other = nullptr;
  ASSERT_OK(uhal_stream_create(device, &other));
  void* memory = allocate(256);
  const char zero = 0;
  EXPECT_OK(uhal_memory_fill(stream, memory, &zero, 1, 256));
  EXPECT_OK(uhal_memory_fill(other, memory, &zero, 1, 256));
  EXPECT_EQ(0u, uhal_race_count());
  ASSERT_OK(uhal_stream_destroy(other));
  release(memory);
}

}  // namespace
}  // namespace core_test
