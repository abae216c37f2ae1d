// Communicators at the boundary: what the core refuses before a backend sees it. What collectives give is in
// tests/python/test_collectives.py and tests/gpu/collectives_test.cc.
#include "unihal/collectives.h"

#include <cstring>
#include <string>

#include "tests/core/core_test.h"

namespace {

class Collective : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(UHAL_OK, uhal_select_backend("stub"));
    ASSERT_EQ(UHAL_OK, uhal_device_get("rdna", 0, &device));
    ASSERT_EQ(UHAL_OK, uhal_stream_create(device, &stream));
    ASSERT_EQ(UHAL_OK, uhal_communicator_id_create(device, &id));
    ASSERT_EQ(UHAL_OK, uhal_communicator_create(device, 0, 1, &id, 1000, &communicator));
    void* pointer = nullptr;
    ASSERT_EQ(UHAL_OK, uhal_allocate(device, stream, UHAL_MEMORY_DEVICE, 4000, &pointer));
    memory = static_cast<char*>(pointer);
  }

  void TearDown() override {
    EXPECT_EQ(UHAL_OK, uhal_communicator_destroy(communicator));
    EXPECT_EQ(UHAL_OK, uhal_free(device, stream, memory));
    EXPECT_EQ(UHAL_OK, uhal_stream_destroy(stream));
  }

  uhal_collective all_reduce(int64_t count = 1000) {
    return {sizeof(uhal_collective), UHAL_ALL_REDUCE, UHAL_FLOAT32, UHAL_REDUCTION_SUM, 0, memory, memory, count};
  }

  void expect(uhal_status status, const uhal_collective& collective, const std::string& text) {
    EXPECT_EQ(status, uhal_communicator_launch(communicator, stream, &collective));
    EXPECT_PRED_FORMAT2(testing::IsSubstring, text, std::string(uhal_last_error()->message));
  }

  uhal_device* device = nullptr;
  uhal_stream* stream = nullptr;
  uhal_communicator* communicator = nullptr;
  uhal_communicator_id id = {};
  char* memory = nullptr;
};

TEST_F(Collective, WrongFieldsAreNamed) {
  uhal_collective wrong = all_reduce();
  wrong.struct_size = 8;
  expect(UHAL_INVALID_ARGUMENT, wrong, "The collective is too short");
  wrong = all_reduce();
  wrong.kind = 9;
  expect(UHAL_INVALID_ARGUMENT, wrong, "There is no collective of kind 9");
  wrong = all_reduce();
  wrong.dtype = UHAL_DTYPE_COUNT;
  expect(UHAL_INVALID_ARGUMENT, wrong, "there is no dtype " + std::to_string(UHAL_DTYPE_COUNT));
  wrong = all_reduce();
  wrong.reduction = -1;
  expect(UHAL_INVALID_ARGUMENT, wrong, "there is no reduction -1");
  wrong = all_reduce();
  wrong.kind = UHAL_BROADCAST;
  wrong.peer = 1;
  expect(UHAL_INVALID_ARGUMENT, wrong, "there is no rank 1; the communicator has ranks 0 to 0");
  wrong = all_reduce(-1);
  expect(UHAL_INVALID_ARGUMENT, wrong, "the count is -1 elements");
  wrong = all_reduce(INT64_MAX / 2);
  expect(UHAL_INVALID_ARGUMENT, wrong, "less than 2^63 bytes");
  wrong = all_reduce(1001);
  expect(UHAL_OUT_OF_RANGE, wrong, "the source of 4004 bytes");
  wrong = all_reduce(10);
  wrong.destination = nullptr;
  expect(UHAL_INVALID_ARGUMENT, wrong, "the destination is NULL");
  wrong.destination = memory + 4;
  expect(UHAL_INVALID_ARGUMENT, wrong, "overlap on rank 0; in place they are the same");
  wrong.destination = &wrong;
  expect(UHAL_OUT_OF_RANGE, wrong, "lies in no live allocation of rdna:0 (stub)");
  EXPECT_STREQ("all_reduce of 10 float32", uhal_last_error()->op);
  EXPECT_STREQ("rdna:0 (stub)", uhal_last_error()->device);
}

TEST_F(Collective, NothingIsDoneWithoutElements) {
  uhal_collective nothing = all_reduce(0);
  nothing.source = nothing.destination = nullptr;
  EXPECT_EQ(UHAL_OK, uhal_communicator_launch(communicator, stream, &nothing));
}

TEST_F(Collective, HandlesAreChecked) {
  const uhal_collective collective = all_reduce();
  EXPECT_EQ(UHAL_INVALID_ARGUMENT, uhal_communicator_launch(nullptr, stream, &collective));
  EXPECT_EQ(UHAL_INVALID_ARGUMENT, uhal_communicator_launch(communicator, nullptr, &collective));
  EXPECT_EQ(UHAL_INVALID_ARGUMENT, uhal_communicator_launch(communicator, stream, nullptr));
  EXPECT_EQ(UHAL_INVALID_ARGUMENT, uhal_communicator_abort(nullptr));
  EXPECT_EQ(UHAL_OK, uhal_communicator_destroy(nullptr));
  uhal_communicator* other = nullptr;
  EXPECT_EQ(UHAL_INVALID_ARGUMENT, uhal_communicator_create(device, 0, 1, nullptr, 1000, &other));
  EXPECT_EQ(UHAL_INVALID_ARGUMENT, uhal_communicator_create(device, 0, 1, &id, 0, &other));
  EXPECT_EQ(UHAL_INVALID_ARGUMENT, uhal_communicator_create(device, -1, 1, &id, 1000, &other));
  EXPECT_EQ(UHAL_INVALID_ARGUMENT, uhal_communicator_create(nullptr, 0, 1, &id, 1000, &other));
  EXPECT_EQ(UHAL_INVALID_ARGUMENT, uhal_communicator_create(device, 0, 1, &id, 1000, nullptr));
  EXPECT_EQ(UHAL_INVALID_ARGUMENT, uhal_communicator_id_create(device, nullptr));
  EXPECT_EQ(UHAL_INVALID_ARGUMENT, uhal_communicator_id_create(nullptr, &id));
  uhal_communicator_id second;
  ASSERT_EQ(UHAL_OK, uhal_communicator_id_create(device, &second));
  EXPECT_NE(0, memcmp(&id, &second, sizeof id));
  ASSERT_EQ(UHAL_OK, uhal_communicator_create(device, 0, 1, &second, 1000, &other));
  EXPECT_EQ(UHAL_OK, uhal_communicator_destroy(other));
  EXPECT_EQ(UHAL_INVALID_ARGUMENT, uhal_communicator_destroy(other));
  EXPECT_EQ(UHAL_INVALID_ARGUMENT, uhal_communicator_launch(other, stream, &collective));
}

TEST_F(Collective, GroupsNestAndCanBeDropped) {
  EXPECT_EQ(UHAL_FAILED_PRECONDITION, uhal_communicator_group_end());
  uhal_collective collective = all_reduce();
  const float two = 2;
  ASSERT_EQ(UHAL_OK, uhal_memory_fill(stream, memory, &two, sizeof two, 4000));
  collective.reduction = UHAL_REDUCTION_AVERAGE;
  ASSERT_EQ(UHAL_OK, uhal_communicator_group_start());
  ASSERT_EQ(UHAL_OK, uhal_communicator_group_start());
  EXPECT_EQ(UHAL_OK, uhal_communicator_launch(communicator, stream, &collective));
  EXPECT_EQ(UHAL_OK, uhal_communicator_group_end());
  EXPECT_EQ(UHAL_OK, uhal_communicator_launch(communicator, stream, &collective));
  EXPECT_EQ(UHAL_OK, uhal_communicator_group_end());
  ASSERT_EQ(UHAL_OK, uhal_communicator_group_start());
  EXPECT_EQ(UHAL_OK, uhal_communicator_launch(communicator, stream, &collective));
  uhal_communicator_group_cancel();
  EXPECT_EQ(UHAL_FAILED_PRECONDITION, uhal_communicator_group_end());
  EXPECT_EQ(UHAL_OK, uhal_stream_synchronize(stream));
}

TEST(CollectiveWithoutBackend, IsUnimplemented) {
  ASSERT_EQ(UHAL_OK, uhal_backend_load(FAKE_FOLDER "/libunihal_fake.so", nullptr));
  ASSERT_EQ(UHAL_OK, uhal_select_backend("fake"));
  uhal_device* device = nullptr;
  ASSERT_EQ(UHAL_OK, uhal_device_get("rdna", 0, &device));
  uhal_communicator_id id;
  EXPECT_EQ(UHAL_UNIMPLEMENTED, uhal_communicator_id_create(device, &id));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "The backend 'fake' has no collectives",
                      std::string(uhal_last_error()->message));
}

}  // namespace
