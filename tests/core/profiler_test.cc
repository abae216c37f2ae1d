// The recording, its totals, the trace file, and UNIHAL_PROFILE.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "csrc/tables/elementwise.h"
#include "tests/core/core_test.h"

namespace core_test {
namespace {

class ProfilerTest : public CoreTest {
 public:
  uhal_status fill_x() { return fill(x, "from a callback"); }

 protected:
  void configure() override { control->asynchronous = true; }

  void SetUp() override {
    CoreTest::SetUp();
    x = static_cast<float*>(allocate(6 * 4));
    y = static_cast<float*>(allocate(6 * 4));
  }
  void TearDown() override {
    if (!process_is_finished) {
      release(x);
      release(y);
    }
    CoreTest::TearDown();
    EXPECT_EQ(0, control->live_events.load());
  }

  uhal_status fill(float* to, const char* label) {
    uhal_tensor view = {sizeof view, to, UHAL_FLOAT32, 2, {2, 3}, {3, 1}};
    const uhal_tensor* outputs[] = {&view};
    uhal_op op = {sizeof op, UHAL_OP_FILL, 0, 1, 0, nullptr, outputs, nullptr, label};
    return uhal_launch(stream, &op);
  }
  uhal_status add() {
    uhal_tensor a = {sizeof a, x, UHAL_FLOAT32, 2, {2, 3}, {3, 1}};
    uhal_tensor b = {sizeof b, y, UHAL_FLOAT32, 2, {2, 3}, {3, 1}};
    const uhal_tensor* inputs[] = {&a, &b};
    const uhal_tensor* outputs[] = {&b};
    uhal_map_attributes map = {sizeof map, uhal_map_add};
    uhal_op op = {sizeof op, UHAL_OP_MAP, 2, 1, 0, inputs, outputs, &map, nullptr};
    return uhal_launch(stream, &op);
  }

  float* x = nullptr;
  float* y = nullptr;
};

uhal_profiler_event event_at(size_t index) {
  uhal_profiler_event event = {};
  event.struct_size = sizeof event;
  EXPECT_OK(uhal_profiler_event_get(index, &event));
  return event;
}

int64_t system_nanoseconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

TEST_F(ProfilerTest, LiesBesideWhatOthersNoteByTheSystemsClock) {
  constexpr int64_t kApart = 50'000;  // nanoseconds, by which the clocks may differ
  for (int recording = 0; recording < 2; ++recording) {
    const int64_t before = system_nanoseconds();
    ASSERT_OK(uhal_profiler_start());
    const int64_t started = system_nanoseconds();
    ASSERT_OK(fill(x, "Zeros"));
    const int64_t filled = system_nanoseconds();
    EXPECT_LE(before, uhal_profiler_start_time());
    EXPECT_GE(started, uhal_profiler_start_time());
    ASSERT_OK(uhal_profiler_stop());
    const uhal_profiler_event event = event_at(0);
    const int64_t submitted = uhal_profiler_start_time() + event.submit_nanoseconds;
    EXPECT_LE(started - kApart, submitted);
    EXPECT_GE(filled + kApart, submitted + event.submit_duration_nanoseconds);
  }
}

TEST_F(ProfilerTest, RecordsOpsCopiesAndFills) {
  ASSERT_OK(fill(x, "before"));  // not recorded
  ASSERT_OK(uhal_profiler_start());
  EXPECT_STATUS(UHAL_FAILED_PRECONDITION, uhal_profiler_start());
  EXPECT_MESSAGE("running already");
  ASSERT_OK(fill(x, "Zeros"));
  ASSERT_OK(add());
  ASSERT_OK(add());
  ASSERT_OK(uhal_copy(stream, y, x, 24, UHAL_COPY_DEVICE_TO_DEVICE));
  char zero = 0;
  ASSERT_OK(uhal_memory_fill(stream, y, &zero, 1, 24));
  EXPECT_EQ(0u, uhal_profiler_event_count());  // while it is running
  ASSERT_OK(uhal_profiler_stop());
  EXPECT_OK(uhal_profiler_stop());
  ASSERT_OK(fill(x, "after"));
  ASSERT_EQ(5u, uhal_profiler_event_count());

  uhal_profiler_event zeros = event_at(0);
  EXPECT_STREQ("Zeros", zeros.name);
  EXPECT_STREQ("fill", zeros.op);
  EXPECT_STREQ("-> float32(2, 3)", zeros.shape);
  EXPECT_EQ(device, zeros.device);
  EXPECT_EQ(24u, zeros.bytes);
  EXPECT_GE(zeros.start_nanoseconds, 0);
  EXPECT_GE(zeros.duration_nanoseconds, 0);
  uhal_profiler_event sum = event_at(2);
  EXPECT_STREQ("map.add", sum.name);
  EXPECT_STREQ("float32(2, 3), float32(2, 3) -> float32(2, 3)", sum.shape);
  EXPECT_EQ(72u, sum.bytes);
  EXPECT_EQ(6u, sum.flops);
  EXPECT_STREQ("adder 2 + adder 12", sum.implementation) << "each part once";
  EXPECT_STREQ("", zeros.implementation) << "nobody said what it ran on";
  EXPECT_GE(sum.start_nanoseconds, zeros.start_nanoseconds + zeros.duration_nanoseconds);
  EXPECT_STREQ("copy.device_to_device", event_at(3).op);
  EXPECT_EQ(48u, event_at(3).bytes);
  EXPECT_STREQ("fill", event_at(4).op);

  ASSERT_EQ(3u, uhal_profiler_total_count());  // fill (twice), map.add (twice), copy
  int64_t sum_of_times = 0, last = INT64_MAX;
  uint64_t calls = 0;
  for (size_t i = 0; i < 3; ++i) {
    uhal_profiler_total total = {};
    total.struct_size = sizeof total;
    ASSERT_OK(uhal_profiler_total_get(i, &total));
    EXPECT_LE(total.duration_nanoseconds, last);
    last = total.duration_nanoseconds;
    sum_of_times += last;
    calls += total.calls;
    if (std::string("map.add") == total.op) {
      EXPECT_EQ(2u, total.calls);
      EXPECT_EQ(12u, total.flops);
      EXPECT_EQ(144u, total.bytes);
      EXPECT_STREQ("adder 2 + adder 12", total.implementations);
    } else {
      EXPECT_STREQ("", total.implementations);
    }
  }
  EXPECT_EQ(5u, calls);
  int64_t sum_of_events = 0;
  for (size_t i = 0; i < 5; ++i) sum_of_events += event_at(i).duration_nanoseconds;
  EXPECT_EQ(sum_of_events, sum_of_times);

  uhal_profiler_event event = {sizeof event};
  uhal_profiler_total total = {sizeof total};
  EXPECT_STATUS(UHAL_OUT_OF_RANGE, uhal_profiler_event_get(5, &event));
  EXPECT_STATUS(UHAL_OUT_OF_RANGE, uhal_profiler_total_get(3, &total));
  uhal_profiler_clear();
  EXPECT_EQ(0u, uhal_profiler_event_count());
  EXPECT_EQ(0u, uhal_profiler_total_count());
}

TEST_F(ProfilerTest, FailedWorkIsNoFailureOfTheRecording) {
  ASSERT_OK(uhal_profiler_start());
  EXPECT_STATUS(UHAL_INTERNAL, fill(x, fake::kFailNow));
  EXPECT_MESSAGE("the fake's compiler said no");
  ASSERT_OK(uhal_profiler_stop());
}

// A callback that is still queued submits work itself, while the recording begins and while it stops.
TEST_F(ProfilerTest, WaitsForWorkThatSubmitsWork) {
  control->hold_streams = true;
  auto submit = [](void* test) { EXPECT_OK(static_cast<ProfilerTest*>(test)->fill_x()); };
  ASSERT_OK(uhal_profiler_start());
  ASSERT_OK(uhal_stream_host_callback(stream, submit, this));
  ASSERT_OK(fill(y, "first"));  // sets the device's clock
  ASSERT_OK(uhal_stream_host_callback(stream, submit, this));
  ASSERT_OK(fill(y, "last"));
  control->hold_streams = false;
  ASSERT_OK(uhal_profiler_stop());
  EXPECT_GE(uhal_profiler_event_count(), 2u);
  ASSERT_OK(uhal_stream_synchronize(stream));
  ASSERT_OK(uhal_stream_synchronize(stream));
}

std::string text_of(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Whether Python's parser takes a file as JSON.
bool is_json(const std::string& path) { return system(("python3 -m json.tool " + path + " > /dev/null").c_str()) == 0; }

TEST_F(ProfilerTest, WritesATrace) {
  std::string path = testing::TempDir() + "unihal_trace_" + std::to_string(getpid()) + ".json";
  ASSERT_OK(uhal_profiler_start());
  ASSERT_OK(fill(x, "a \"quoted\" \\ name\n"));
  ASSERT_OK(add());
  ASSERT_OK(uhal_profiler_stop());
  ASSERT_OK(uhal_profiler_write_trace(path.c_str()));
  EXPECT_TRUE(is_json(path)) << text_of(path);
  std::string text = text_of(path);
  for (const char* part : {"\"traceEvents\":[", "\"a \\\"quoted\\\" \\\\ name\\u000a\"", "\"op\":\"map.add\"",
                           "\"implementation\":\"adder 2 + adder 12\"", "\"flops\":6", "\"process_name\"",
                           "\"rdna:0 (fake)\"", "\"thread_name\"", "\"ph\":\"X\""}) {
    EXPECT_PRED_FORMAT2(testing::IsSubstring, part, text);
  }
  uhal_profiler_clear();
  ASSERT_OK(uhal_profiler_write_trace(path.c_str()));  // an empty recording is a valid trace
  EXPECT_TRUE(is_json(path));
  remove(path.c_str());
  EXPECT_STATUS(UHAL_NOT_FOUND, uhal_profiler_write_trace("/no/such/folder/trace.json"));
  EXPECT_MESSAGE("/no/such/folder/trace.json");
  EXPECT_STATUS(UHAL_NOT_FOUND, uhal_profiler_write_trace(nullptr));
  EXPECT_STATUS(UHAL_PERMISSION_DENIED, uhal_profiler_write_trace("/"));
}

class ProfileVariableTest : public ProfilerTest {
 protected:
  void configure() override {
    path = testing::TempDir() + "unihal_profile_" + std::to_string(getpid()) + ".json";
    setenv("UNIHAL_PROFILE", path.c_str(), 1);
  }
  std::string path;
};

TEST_F(ProfileVariableTest, TheTraceIsWrittenAtFinalize) {
  ASSERT_OK(fill(x, "Recorded"));
  release(x);
  release(y);
  uhal_finalize();
  process_is_finished = true;
  EXPECT_TRUE(is_json(path));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "\"Recorded\"", text_of(path));
  remove(path.c_str());
}

}  // namespace
}  // namespace core_test
