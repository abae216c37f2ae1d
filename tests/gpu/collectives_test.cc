// Collectives over NCCL's interface, on a library for ranks that are threads (tests/doubles/nccl_on_host): our own
// half, which is opening it, submitting in groups, waiting with a limit, and watching.
#include "unihal/collectives.h"

#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/gpu/gpu_test.h"

namespace gpu_test {
namespace {

constexpr int kCount = 1000;
constexpr size_t kBytes = kCount * sizeof(float);

// One rank, in its thread.
struct Rank {
  int32_t rank = 0;
  uhal_device* device = nullptr;
  uhal_stream* stream = nullptr;
  uhal_communicator* communicator = nullptr;
  std::vector<char*> allocations;

  float* allocate(int blocks) {
    void* pointer = nullptr;
    EXPECT_OK(uhal_allocate(device, stream, UHAL_MEMORY_DEVICE, kBytes * static_cast<size_t>(blocks), &pointer));
    allocations.push_back(static_cast<char*>(pointer));
    return static_cast<float*>(pointer);
  }

  // Blocks that are each full of `first`, `first` + 1, ...
  float* blocks(int count, float first) {
    float* const memory = allocate(count);
    std::vector<float> values;
    for (int block = 0; block < count; ++block) values.insert(values.end(), kCount, first + static_cast<float>(block));
    EXPECT_OK(uhal_copy(stream, memory, values.data(), kBytes * static_cast<size_t>(count), UHAL_COPY_HOST_TO_DEVICE));
    EXPECT_OK(uhal_stream_synchronize(stream));
    return memory;
  }

  // The first of each block.
  std::vector<float> firsts(const float* memory, int blocks) {
    std::vector<float> values(static_cast<size_t>(blocks) * kCount);
    EXPECT_OK(uhal_copy(stream, values.data(), memory, values.size() * sizeof(float), UHAL_COPY_DEVICE_TO_HOST));
    EXPECT_OK(uhal_stream_synchronize(stream));
    std::vector<float> firsts;
    for (int block = 0; block < blocks; ++block) firsts.push_back(values[static_cast<size_t>(block) * kCount]);
    return firsts;
  }

  uhal_status launch(uhal_collective_kind kind, const void* source, void* destination, int32_t peer = 0,
                     uhal_reduction reduction = UHAL_REDUCTION_SUM, uhal_dtype dtype = UHAL_FLOAT32) {
    const uhal_collective collective = {sizeof collective, kind, dtype, reduction, peer, source, destination, kCount};
    return uhal_communicator_launch(communicator, stream, &collective);
  }
};

class Collectives : public testing::Test {
 protected:
  void SetUp() override {
    use(kCorex);
    setenv("HIP_ON_HOST_DEVICES", "Iluvatar BI-V150:7.1:64,Iluvatar BI-V150:7.1:64,Iluvatar BI-V150:7.1:64", 1);
    ASSERT_OK(uhal_select_backend("corex"));
    ASSERT_OK(uhal_device_get("iluvatar", 0, &first_device));
  }
  void TearDown() override { uhal_finalize(); }

  // Runs `body` on each rank, on a device and a thread of its own.
  static void on_ranks(int size, int64_t timeout, const std::function<void(Rank&)>& body) {
    uhal_device* device = nullptr;
    uhal_communicator_id id;
    ASSERT_OK(uhal_device_get("iluvatar", 0, &device));
    ASSERT_OK(uhal_communicator_id_create(device, &id));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        Rank self;
        self.rank = rank;
        ASSERT_OK(uhal_device_get("iluvatar", rank, &self.device));
        ASSERT_OK(uhal_stream_create(self.device, &self.stream));
        ASSERT_OK(uhal_communicator_create(self.device, rank, size, &id, timeout, &self.communicator));
        body(self);
        EXPECT_OK(uhal_communicator_destroy(self.communicator));
        for (char* pointer : self.allocations) EXPECT_OK(uhal_free(self.device, self.stream, pointer));
        EXPECT_OK(uhal_stream_destroy(self.stream));
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  uhal_device* first_device = nullptr;
};

using Floats = std::vector<float>;

TEST_F(Collectives, GiveWhatTheLibraryGives) {
  on_ranks(3, 20000, [](Rank& self) {
    const auto number = static_cast<float>(self.rank);
    const float* const one = self.blocks(1, 10 * number);
    const float* const each = self.blocks(3, 100 * number);
    float* const result = self.allocate(1);
    float* const results = self.allocate(3);

    EXPECT_OK(self.launch(UHAL_ALL_REDUCE, one, result));
    EXPECT_EQ(Floats({30}), self.firsts(result, 1));
    EXPECT_OK(self.launch(UHAL_ALL_REDUCE, one, result, 0, UHAL_REDUCTION_AVERAGE));
    EXPECT_EQ(Floats({10}), self.firsts(result, 1));
    EXPECT_OK(self.launch(UHAL_ALL_REDUCE, one, result, 0, UHAL_REDUCTION_MAXIMUM));
    EXPECT_EQ(Floats({20}), self.firsts(result, 1));
    EXPECT_OK(self.launch(UHAL_ALL_REDUCE, one, result, 0, UHAL_REDUCTION_MINIMUM));
    EXPECT_EQ(Floats({0}), self.firsts(result, 1));
    EXPECT_OK(self.launch(UHAL_ALL_GATHER, one, results));
    EXPECT_EQ(Floats({0, 10, 20}), self.firsts(results, 3));
    EXPECT_OK(self.launch(UHAL_REDUCE_SCATTER, each, result));
    EXPECT_EQ(Floats({300 + 3 * number}), self.firsts(result, 1));
    EXPECT_OK(self.launch(UHAL_ALL_TO_ALL, each, results));
    EXPECT_EQ(Floats({number, 100 + number, 200 + number}), self.firsts(results, 3));
    EXPECT_OK(self.launch(UHAL_BROADCAST, one, result, 2));
    EXPECT_EQ(Floats({20}), self.firsts(result, 1));
    EXPECT_OK(self.launch(UHAL_REDUCE, one, result, 1));
    EXPECT_EQ(Floats({self.rank == 1 ? 30.0F : 20.0F}), self.firsts(result, 1));

    EXPECT_OK(uhal_communicator_group_start());
    EXPECT_OK(self.launch(UHAL_SEND, one, nullptr, (self.rank + 1) % 3));
    EXPECT_OK(self.launch(UHAL_RECEIVE, nullptr, result, (self.rank + 2) % 3));
    EXPECT_OK(uhal_communicator_group_end());
    EXPECT_EQ(Floats({static_cast<float>((self.rank + 2) % 3 * 10)}), self.firsts(result, 1));
  });
}

TEST_F(Collectives, WhatTheLibraryDoesNotReduceIsRefused) {
  setenv("NCCL_ON_HOST_VERSION", "2804", 1);
  on_ranks(1, 20000, [](Rank& self) {
    float* const memory = self.blocks(1, 1);
    EXPECT_EQ(UHAL_UNIMPLEMENTED, self.launch(UHAL_ALL_REDUCE, memory, memory, 0, UHAL_REDUCTION_SUM, UHAL_INT16));
    EXPECT_MESSAGE("NCCL 2.8.4 does not reduce int16; use a wider dtype");
    EXPECT_EQ(UHAL_UNIMPLEMENTED, self.launch(UHAL_ALL_REDUCE, memory, memory, 0, UHAL_REDUCTION_SUM, UHAL_BFLOAT16));
    EXPECT_MESSAGE("does not reduce bfloat16 so before 2.10");
    EXPECT_EQ(UHAL_UNIMPLEMENTED, self.launch(UHAL_ALL_REDUCE, memory, memory, 0, UHAL_REDUCTION_AVERAGE));
    EXPECT_OK(self.launch(UHAL_ALL_REDUCE, memory, memory));
    EXPECT_EQ(Floats({1}), self.firsts(memory, 1));
  });
}

TEST_F(Collectives, RanksThatNeverComeAreNamed) {
  // The thread that is left to itself is gone when the process ends: the check for leaks cannot look at one there.
  setenv("NCCL_ON_HOST_PATIENCE", "900", 1);
  uhal_communicator_id id;
  ASSERT_OK(uhal_communicator_id_create(first_device, &id));
  uhal_communicator* communicator = nullptr;
  EXPECT_EQ(UHAL_DEADLINE_EXCEEDED, uhal_communicator_create(first_device, 1, 3, &id, 200, &communicator));
  EXPECT_MESSAGE("the creation of a communicator on rank 1 of 3 waited 0.2 s for ranks 0 and 2, in vain");
  EXPECT_MESSAGE("ranks of other hosts cannot be seen from here");
}

TEST_F(Collectives, ARankThatDoesNotSubmitIsNamed) {
  on_ranks(2, 300, [](Rank& self) {
    if (self.rank == 1) {
      std::this_thread::sleep_for(std::chrono::seconds(1));
      return;
    }
    float* const memory = self.blocks(1, 1);
    EXPECT_OK(self.launch(UHAL_ALL_REDUCE, memory, memory));
    EXPECT_EQ(UHAL_DEADLINE_EXCEEDED, uhal_stream_synchronize(self.stream));
    EXPECT_MESSAGE("all_reduce of 1000 float32 on rank 0 of 2 waited 0.3 s for rank 1, in vain");
    EXPECT_EQ(UHAL_FAILED_PRECONDITION, self.launch(UHAL_ALL_REDUCE, memory, memory));
    EXPECT_MESSAGE("the communicator failed before: all_reduce");
  });
}

// One of a kind and size for which the ranks were connected before: its call has two seconds to return by itself.
TEST_F(Collectives, ALaterOneThatIsNotSubmittedIsNamed) {
  on_ranks(2, 300, [](Rank& self) {
    float* const memory = self.blocks(1, 1);
    for (int i = 0; i < 3; ++i) EXPECT_OK(self.launch(UHAL_ALL_REDUCE, memory, memory));
    EXPECT_EQ(Floats({8}), self.firsts(memory, 1));
    if (self.rank == 1) {
      std::this_thread::sleep_for(std::chrono::seconds(1));
      return;
    }
    EXPECT_OK(self.launch(UHAL_ALL_REDUCE, memory, memory));
    EXPECT_EQ(UHAL_DEADLINE_EXCEEDED, uhal_stream_synchronize(self.stream));
    EXPECT_MESSAGE("all_reduce of 1000 float32 on rank 0 of 2 waited 0.3 s for rank 1, in vain");
  });
}

TEST_F(Collectives, WorkThatWaitsOnTheDeviceIsWatched) {
  setenv("NCCL_ON_HOST_STUCK", "1", 1);
  on_ranks(2, 300, [](Rank& self) {
    if (self.rank == 1) {
      std::this_thread::sleep_for(std::chrono::seconds(1));
      return;
    }
    float* const memory = self.blocks(1, 1);
    EXPECT_OK(self.launch(UHAL_ALL_REDUCE, memory, memory));
    EXPECT_EQ(UHAL_DEADLINE_EXCEEDED, uhal_stream_synchronize(self.stream));
    EXPECT_MESSAGE("all_reduce of 1000 float32 on rank 0 of 2 waited 0.3 s for rank 1, in vain");
  });
}

TEST_F(Collectives, AbortEndsWorkOnTheDevice) {
  setenv("NCCL_ON_HOST_STUCK", "1", 1);
  on_ranks(2, 60000, [](Rank& self) {
    float* const memory = self.blocks(1, 1);
    if (self.rank == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      EXPECT_OK(uhal_communicator_abort(self.communicator));
      return;
    }
    EXPECT_OK(self.launch(UHAL_ALL_REDUCE, memory, memory));
    EXPECT_EQ(UHAL_ABORTED, uhal_stream_synchronize(self.stream));
    EXPECT_MESSAGE("rank 1 of 2 aborted the communicator");
  });
}

TEST_F(Collectives, AnErrorThatTheLibraryFindsLaterEndsTheWork) {
  setenv("NCCL_ON_HOST_STUCK", "1", 1);
  setenv("NCCL_ON_HOST_ERROR", "8", 1);
  on_ranks(1, 60000, [](Rank& self) {
    float* const memory = self.blocks(1, 1);
    EXPECT_OK(self.launch(UHAL_ALL_REDUCE, memory, memory));
    EXPECT_EQ(UHAL_INTERNAL, uhal_stream_synchronize(self.stream));
    EXPECT_MESSAGE("NCCL 2.21.5: remote process exited or there was a network error (6)");
  });
}

TEST_F(Collectives, AnIdOfAnotherBackendIsRefused) {
  uhal_communicator_id id = {};
  uhal_communicator* communicator = nullptr;
  EXPECT_EQ(UHAL_INVALID_ARGUMENT, uhal_communicator_create(first_device, 0, 1, &id, 1000, &communicator));
  EXPECT_MESSAGE("the communicator's id is none of the backend corex");
}

TEST(CollectivesRefusal, AMissingLibraryIsNamed) {
  use(kRocm);
  ASSERT_OK(uhal_select_backend("hip"));
  uhal_device* device = nullptr;
  ASSERT_OK(uhal_device_get("rdna", 0, &device));
  uhal_communicator_id id;
  EXPECT_EQ(UHAL_UNAVAILABLE, uhal_communicator_id_create(device, &id));
  EXPECT_MESSAGE("there is no RCCL for collectives: ");
  EXPECT_MESSAGE("Install RCCL (package rccl of ROCm), or name ROCm's folder in ROCM_PATH");
}

}  // namespace
}  // namespace gpu_test
