// Forked children of a process that used a device: every call is refused, nothing hangs, exit is clean.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/core/core_test.h"
#include "tests/forked_child.h"

namespace core_test {
namespace {

// Runs `body` in a forked child that exits as a program does; 0 if body returned true.
template <class Body>
int exit_code_of_child(Body body) {
  pid_t child = fork();
  if (child == 0) {
    is_forked_child = true;
    exit(body() ? 0 : 9);
  }
  int status = 0;
  EXPECT_EQ(child, waitpid(child, &status, 0));
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  return WEXITSTATUS(status);
}

class ForkTest : public CoreTest {
 protected:
  void configure() override { control->asynchronous = true; }
};

TEST_F(ForkTest, EveryCallIsRefusedInTheChild) {
  void* block = allocate(100, stream);
  uhal_event* event;
  ASSERT_OK(uhal_event_create(device, &event));
  int code = exit_code_of_child([&] {
    int32_t n;
    int64_t time;
    void* pointer;
    char byte = 0;
    uhal_device* again;
    uhal_stream* made;
    uhal_op op = {};
    uhal_pointer_info info = {};
    uhal_memory_stats stats = {};
    uhal_device_properties properties = {};
    uhal_status all[] = {uhal_device_count("rdna", &n),
                         uhal_device_get("rdna", 0, &again),
                         uhal_device_properties_get(device, &properties),
                         uhal_device_synchronize(device),
                         uhal_device_default_stream(device, &made),
                         uhal_select_backend("stub"),
                         uhal_backend_load("x", nullptr),
                         uhal_allocate(device, stream, UHAL_MEMORY_DEVICE, 1, &pointer),
                         uhal_free(device, stream, block),
                         uhal_pointer_query(block, &info),
                         uhal_memory_stats_get(device, 0, &stats),
                         uhal_memory_trim(device, 0, nullptr),
                         uhal_memory_set_limit(device, 0),
                         uhal_memory_reset_peak(device),
                         uhal_copy(stream, block, &byte, 1, UHAL_COPY_HOST_TO_DEVICE),
                         uhal_copy_peer(stream, device, block, device, block, 1),
                         uhal_memory_fill(stream, block, &byte, 1, 1),
                         uhal_stream_create(device, &made),
                         uhal_stream_destroy(stream),
                         uhal_stream_query(stream, &n),
                         uhal_stream_synchronize(stream),
                         uhal_stream_wait_event(stream, event),
                         uhal_stream_host_callback(stream, nullptr, nullptr),
                         uhal_event_create(device, &event),
                         uhal_event_destroy(event),
                         uhal_event_record(event, stream),
                         uhal_event_query(event, &n),
                         uhal_event_synchronize(event),
                         uhal_event_elapsed_nanoseconds(event, event, &time),
                         uhal_supports(device, &op),
                         uhal_launch(stream, &op),
                         uhal_profiler_start(),
                         uhal_profiler_stop()};
    for (uhal_status status : all) {
      if (status != UHAL_FAILED_PRECONDITION) return false;
    }
    uhal_finalize();
    return strstr(uhal_last_error()->message, "spawn") != nullptr && uhal_stream_device(stream) == nullptr;
  });
  EXPECT_EQ(0, code);
  EXPECT_OK(uhal_event_destroy(event));
  release(block, stream);
}

// Threads hold the core's locks all the time while others fork.
TEST_F(ForkTest, DoesNotHangUnderLoad) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      while (!stop) {
        void* pointer = nullptr;
        uhal_device* again;
        if (uhal_allocate(device, stream, UHAL_MEMORY_DEVICE, 1000, &pointer) == UHAL_OK) {
          uhal_free(device, stream, pointer);
        }
        uhal_device_get("rdna", 0, &again);
      }
    });
  }
  for (int i = 0; i < 10; ++i) {
    pid_t child = fork();
    if (child == 0) {
      void* pointer;
      bool refused = uhal_allocate(device, stream, UHAL_MEMORY_DEVICE, 1, &pointer) == UHAL_FAILED_PRECONDITION;
      _exit(refused ? 0 : 9);
    }
    int status = 0;
    ASSERT_EQ(child, waitpid(child, &status, 0));
    EXPECT_EQ(0, status);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

TEST(Fork, BeforeTheFirstUseIsFine) {
  int32_t count;
  ASSERT_OK(uhal_device_count("rdna", &count));  // looked for, none found
  EXPECT_EQ(0, exit_code_of_child([] {
              int32_t n = 1;
              return uhal_device_count("polaris", &n) == UHAL_OK && n == 0;
            }));
}

}  // namespace
}  // namespace core_test
