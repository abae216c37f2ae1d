// Fault injection, in both of the stub's modes: device memory is reached by copies only. ctest runs each test in a
// process of its own.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "unihal/event.h"
#include "unihal/fault_injection.h"
#include "unihal/memory.h"
#include "unihal/op.h"

namespace {

using testing::IsSubstring;

std::string message() { return uhal_last_error()->message; }

class Faults : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(UHAL_OK, uhal_select_backend("stub"));
    ASSERT_EQ(UHAL_OK, uhal_device_get("rdna", 0, &device)) << message();
    ASSERT_EQ(UHAL_OK, uhal_device_default_stream(device, &stream)) << message();
    const void* table = nullptr;
    ASSERT_EQ(UHAL_OK, uhal_device_extension(device, UHAL_FAULT_INJECTION_NAME, UHAL_FAULT_INJECTION_VERSION, &table))
        << message();
    faults = static_cast<const uhal_fault_injection*>(table);
    ASSERT_EQ(UHAL_OK, uhal_allocate(device, stream, UHAL_MEMORY_DEVICE, kBytes, &memory)) << message();
    ASSERT_EQ(UHAL_OK, uhal_allocate(device, stream, UHAL_MEMORY_DEVICE, kBytes, &other_memory)) << message();
  }

  void TearDown() override {
    EXPECT_EQ(UHAL_OK, faults->set_rules(nullptr));
    EXPECT_EQ(UHAL_OK, uhal_stream_synchronize(stream)) << message();
    EXPECT_EQ(UHAL_OK, uhal_free(device, stream, memory));
    EXPECT_EQ(UHAL_OK, uhal_free(device, stream, other_memory));
    uhal_finalize();
  }

  void set_rules(const char* rules) { ASSERT_EQ(UHAL_OK, faults->set_rules(rules)) << message(); }

  uhal_fault_counts counts() {
    uhal_fault_counts result = {};
    result.struct_size = sizeof result;
    EXPECT_EQ(UHAL_OK, faults->get_counts(&result)) << message();
    return result;
  }

  // y = function(x) for one float on a stream.
  uhal_status launch_map(const char* function, uhal_stream* on) {
    uhal_map_attributes attributes = {};
    attributes.struct_size = sizeof attributes;
    attributes.function = uhal_map_function_find(function);
    return launch(UHAL_OP_MAP, &attributes, on);
  }

  uhal_status launch(uhal_op_kind kind, const void* attributes, uhal_stream* on) {
    uhal_tensor x = {};
    x.struct_size = sizeof x;
    x.data = memory;
    x.dtype = UHAL_FLOAT32;
    uhal_tensor y = x;
    y.data = other_memory;
    const uhal_tensor* inputs[] = {&x};
    const uhal_tensor* outputs[] = {&y};
    uhal_op op = {};
    op.struct_size = sizeof op;
    op.kind = kind;
    op.inputs = inputs;
    op.input_count = 1;
    op.outputs = outputs;
    op.output_count = 1;
    op.attributes = attributes;
    return uhal_launch(on, &op);
  }

  uhal_status copy_in(float value) {
    host_values.push_back(value);
    return uhal_copy(stream, memory, &host_values.back(), sizeof value, UHAL_COPY_HOST_TO_DEVICE);
  }

  float read(void* from) {
    float value = -1;
    EXPECT_EQ(UHAL_OK, uhal_copy(stream, &value, from, sizeof value, UHAL_COPY_DEVICE_TO_HOST)) << message();
    EXPECT_EQ(UHAL_OK, uhal_stream_synchronize(stream)) << message();
    return value;
  }

  // Which of the first calls fail, as text: "..x..x" under every=3.
  template <class Call>
  std::string pattern(const char* rules, int calls, const Call& call) {
    EXPECT_EQ(UHAL_OK, faults->set_rules(rules)) << message();
    std::string text;
    for (int i = 0; i < calls; ++i) text += call() == UHAL_OK ? '.' : 'x';
    return text;
  }

  static constexpr size_t kBytes = 1024;
  uhal_device* device = nullptr;
  uhal_stream* stream = nullptr;
  const uhal_fault_injection* faults = nullptr;
  void* memory = nullptr;
  void* other_memory = nullptr;
  std::deque<float> host_values;  // a place for each copy, which may run much later
};

// -- conditions -------------------------------------------------------------------------------------

TEST_F(Faults, ConditionsChooseCalls) {
  const auto copy = [&] { return copy_in(1); };
  EXPECT_EQ("xxxx", pattern("copy", 4, copy));
  EXPECT_EQ("..x..x..", pattern("copy:every=3", 8, copy));
  EXPECT_EQ("...xxx", pattern("copy:after=3", 6, copy));
  EXPECT_EQ("xxx", pattern("copy:after=0", 3, copy));
  EXPECT_EQ(".x....", pattern("copy:nth=2", 6, copy));
  EXPECT_EQ("x.....", pattern("copy:once", 6, copy));
  EXPECT_EQ(".x.x.x", pattern("copy:every=2,copy:every=4", 6, copy)) << "counted per rule";
  EXPECT_EQ("......", pattern("", 6, copy));
  EXPECT_EQ("......", pattern(nullptr, 6, copy));
}

TEST_F(Faults, FillsCountAsCopies) {
  const uint32_t pattern_word = 7;
  set_rules("copy:nth=2");
  EXPECT_EQ(UHAL_OK, uhal_memory_fill(stream, memory, &pattern_word, 4, kBytes)) << message();
  EXPECT_EQ(UHAL_INTERNAL, uhal_memory_fill(stream, memory, &pattern_word, 4, kBytes));
  EXPECT_EQ(
      "Injected fault: this copy fails. The rule 'copy:nth=2' (UNIHAL_STUB_FAULTS, or unihal.inject_faults) asks for "
      "it; "
      "remove the rule to go on without.",
      message());
  EXPECT_EQ(2u, counts().copies);
  EXPECT_EQ(1u, counts().injected);
}

TEST_F(Faults, LaunchRulesNameOps) {
  const auto relu = [&] { return launch_map("relu", stream); };
  const auto exp = [&] { return launch_map("exp", stream); };
  const auto copy_op = [&] { return launch(UHAL_OP_COPY, nullptr, stream); };
  EXPECT_EQ("xx", pattern("launch", 2, relu));
  EXPECT_EQ("xx", pattern("launch:map", 2, relu));
  EXPECT_EQ("xx", pattern("launch:map.relu", 2, relu));
  EXPECT_EQ("..", pattern("launch:map.relu", 2, exp));
  EXPECT_EQ("..", pattern("launch:map", 2, copy_op));
  EXPECT_EQ("xx", pattern("launch:copy", 2, copy_op));
  EXPECT_EQ("..", pattern("copy", 2, copy_op)) << "the op copy is a launch";

  set_rules("launch:map.relu:nth=2");
  EXPECT_EQ(UHAL_OK, relu());
  EXPECT_EQ(UHAL_OK, exp()) << "is not counted by the rule";
  EXPECT_EQ(UHAL_INTERNAL, relu());
  EXPECT_PRED_FORMAT2(IsSubstring, "Injected fault: this launch fails. The rule 'launch:map.relu:nth=2'", message());
  EXPECT_PRED_FORMAT2(IsSubstring, "map.relu", std::string(uhal_last_error()->op));
  EXPECT_EQ(3u, counts().launches);
}

TEST_F(Faults, EveryOpCanBeNamed) {
  for (uhal_op_kind kind = 1; kind < UHAL_OP_KIND_LIMIT; ++kind) {
    const std::string name = uhal_op_kind_name(kind);
    const bool exists = name != "invalid";
    EXPECT_EQ(exists, faults->set_rules(("launch:" + name).c_str()) == UHAL_OK) << name << " " << kind;
  }
  for (size_t i = 0; i < uhal_map_function_count(); ++i) {
    uhal_map_function_info info = {};
    info.struct_size = sizeof info;
    ASSERT_EQ(UHAL_OK, uhal_map_function_get(static_cast<uhal_map_function>(i), &info));
    EXPECT_EQ(UHAL_OK, faults->set_rules(("launch:map." + std::string(info.name)).c_str())) << message();
  }
}

// -- kinds of failures --------------------------------------------------------------------------------

TEST_F(Faults, AllocationsFailLikeAFullDevice) {
  set_rules("alloc");
  void* pointer = nullptr;
  EXPECT_EQ(UHAL_RESOURCE_EXHAUSTED, uhal_allocate(device, stream, UHAL_MEMORY_DEVICE, size_t{64} << 20, &pointer));
  EXPECT_EQ(nullptr, pointer);
  EXPECT_PRED_FORMAT2(IsSubstring,
                      "Injected fault: this allocation fails as if the device were out of memory. The rule 'alloc'",
                      message());
  EXPECT_GE(counts().allocations, 1u);
  EXPECT_EQ(counts().allocations, counts().injected);
  EXPECT_EQ(UHAL_RESOURCE_EXHAUSTED, uhal_allocate(device, stream, UHAL_MEMORY_PINNED, size_t{64} << 20, &pointer));
}

TEST_F(Faults, TheCoreGetsOverOneFailedAllocation) {
  set_rules("alloc:once");
  void* pointer = nullptr;
  EXPECT_EQ(UHAL_OK, uhal_allocate(device, stream, UHAL_MEMORY_DEVICE, size_t{64} << 20, &pointer)) << message();
  EXPECT_EQ(2u, counts().allocations) << "it waits, returns what is cached, and asks again";
  EXPECT_EQ(1u, counts().injected);
  EXPECT_EQ(UHAL_OK, uhal_free(device, stream, pointer));
}

TEST_F(Faults, AsynchronousErrorsStickToTheStream) {
  ASSERT_EQ(UHAL_OK, copy_in(-3));
  ASSERT_EQ(UHAL_OK, launch_map("identity", stream));
  ASSERT_EQ(-3, read(other_memory));
  set_rules("launch:map.relu:async");
  EXPECT_EQ(UHAL_OK, launch_map("relu", stream)) << message();
  EXPECT_EQ(1u, counts().injected);
  EXPECT_EQ(UHAL_INTERNAL, uhal_stream_synchronize(stream));
  EXPECT_PRED_FORMAT2(IsSubstring, "Earlier work of this stream failed: map.relu: Injected fault: this launch fails.",
                      message());
  set_rules("");
  EXPECT_EQ(UHAL_OK, uhal_stream_synchronize(stream)) << "an error is told once";
  EXPECT_EQ(-3, read(other_memory)) << "the work was left out";

  set_rules("copy:async");
  EXPECT_EQ(UHAL_OK, copy_in(5));
  EXPECT_EQ(UHAL_INTERNAL, uhal_device_synchronize(device));
  EXPECT_PRED_FORMAT2(IsSubstring, "Earlier work of this stream failed: copy: Injected fault: this copy fails.",
                      message());
  set_rules("");
  EXPECT_EQ(-3, read(memory));
}

TEST_F(Faults, ALostDeviceFailsInEveryCallAndCanBeCleanedUp) {
  uhal_stream* own = nullptr;
  uhal_event* event = nullptr;
  void* pointer = nullptr;
  ASSERT_EQ(UHAL_OK, uhal_stream_create(device, &own));
  ASSERT_EQ(UHAL_OK, uhal_event_create(device, &event));
  ASSERT_EQ(UHAL_OK, uhal_allocate(device, own, UHAL_MEMORY_DEVICE, kBytes, &pointer));
  EXPECT_EQ("..xxx", pattern("device-lost:after=2", 5, [&] { return copy_in(1); }));

  EXPECT_EQ(UHAL_UNAVAILABLE, copy_in(1));
  EXPECT_EQ(
      "Injected fault: the device is lost, and every call fails until the rules are replaced. The rule "
      "'device-lost:after=2' (UNIHAL_STUB_FAULTS, or unihal.inject_faults) asks for it; remove the rule to go on "
      "without.",
      message());
  int32_t done = 0;
  uhal_stream* another_stream = nullptr;
  uhal_event* another_event = nullptr;
  void* another_pointer = nullptr;
  EXPECT_EQ(UHAL_UNAVAILABLE, launch_map("relu", own));
  EXPECT_EQ(UHAL_UNAVAILABLE, uhal_stream_synchronize(own));
  EXPECT_EQ(UHAL_UNAVAILABLE, uhal_stream_query(own, &done));
  EXPECT_EQ(UHAL_UNAVAILABLE, uhal_device_synchronize(device));
  EXPECT_EQ(UHAL_UNAVAILABLE, uhal_event_record(event, own));
  EXPECT_EQ(UHAL_UNAVAILABLE, uhal_stream_create(device, &another_stream));
  EXPECT_EQ(UHAL_UNAVAILABLE, uhal_event_create(device, &another_event));
  EXPECT_EQ(UHAL_UNAVAILABLE, uhal_allocate(device, own, UHAL_MEMORY_DEVICE, size_t{64} << 20, &another_pointer));
  bool called = false;
  EXPECT_EQ(UHAL_UNAVAILABLE,
            uhal_stream_host_callback(own, [](void* seen) { *static_cast<bool*>(seen) = true; }, &called));
  EXPECT_FALSE(called);

  EXPECT_EQ(UHAL_OK, uhal_free(device, own, pointer)) << message();
  EXPECT_EQ(UHAL_OK, uhal_event_destroy(event)) << message();
  EXPECT_EQ(UHAL_UNAVAILABLE, uhal_stream_destroy(own)) << "destroyed, though its work cannot be waited for";

  set_rules("");
  EXPECT_EQ(UHAL_OK, copy_in(2)) << message();
  EXPECT_EQ(2, read(memory));
}

TEST_F(Faults, ALostDeviceCanBeFinalized) {
  set_rules("device-lost");
  EXPECT_EQ(UHAL_UNAVAILABLE, copy_in(1));
  uhal_finalize();
  EXPECT_EQ(UHAL_FAILED_PRECONDITION, copy_in(1));
  EXPECT_PRED_FORMAT2(IsSubstring, "uhal_finalize was called", message());
  std::_Exit(testing::Test::HasFailure() ? 1 : 0);  // TearDown needs a device
}

TEST_F(Faults, SlowWorkTakesItsTimeAndIsRight) {
  // No host writes a mebibyte in less than 2 us, and a sleep never ends early.
  constexpr size_t kMebibyte = size_t{1} << 20;
  void* block = nullptr;
  ASSERT_EQ(UHAL_OK, uhal_allocate(device, stream, UHAL_MEMORY_DEVICE, kMebibyte, &block)) << message();
  const float value = 3;
  set_rules("slow:x1000:nth=1");
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(UHAL_OK, uhal_memory_fill(stream, block, &value, sizeof value, kMebibyte)) << message();
  EXPECT_EQ(UHAL_OK, uhal_stream_synchronize(stream)) << message();
  const std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - start;
  EXPECT_GT(taken.count(), 2.0 * 999);
  EXPECT_EQ(3, read(block));
  EXPECT_EQ(0u, counts().injected);
  EXPECT_EQ(2u, counts().copies);
  EXPECT_EQ(UHAL_OK, uhal_free(device, stream, block));
}

// -- rules and counts -----------------------------------------------------------------------------------

TEST_F(Faults, CountsBelongToTheRules) {
  EXPECT_EQ(UHAL_OK, copy_in(1));
  EXPECT_EQ(0u, counts().copies) << "without rules nothing is counted";
  set_rules("slow:x1");
  EXPECT_EQ(UHAL_OK, copy_in(1));
  EXPECT_EQ(UHAL_OK, launch_map("relu", stream));
  EXPECT_EQ(1u, counts().copies);
  EXPECT_EQ(1u, counts().launches);
  set_rules("copy:nth=9");
  EXPECT_EQ(0u, counts().copies);

  uhal_fault_counts older = {};  // of a caller that knows only the allocations
  older.struct_size = offsetof(uhal_fault_counts, launches);
  older.launches = 77;
  EXPECT_EQ(UHAL_OK, faults->get_counts(&older));
  EXPECT_EQ(77u, older.launches);
  EXPECT_EQ(UHAL_INVALID_ARGUMENT, faults->get_counts(nullptr));
  EXPECT_EQ("The counts of faults are NULL; pass a struct with struct_size set to its size.", message());
}

TEST_F(Faults, ThreadsShareTheCounts) {
  set_rules("launch:every=10");
  constexpr int kThreads = 8;
  constexpr int kLaunches = 100;
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      uhal_stream* own = nullptr;
      ASSERT_EQ(UHAL_OK, uhal_stream_create(device, &own));
      uhal_tensor y = {};
      y.struct_size = sizeof y;
      y.dtype = UHAL_FLOAT32;
      ASSERT_EQ(UHAL_OK, uhal_allocate(device, own, UHAL_MEMORY_DEVICE, 4, &y.data));
      const uhal_tensor* outputs[] = {&y};
      uhal_op fill = {};
      fill.struct_size = sizeof fill;
      fill.kind = UHAL_OP_FILL;
      fill.outputs = outputs;
      fill.output_count = 1;
      for (int j = 0; j < kLaunches; ++j) failed += uhal_launch(own, &fill) != UHAL_OK;
      EXPECT_EQ(UHAL_OK, uhal_free(device, own, y.data));
      EXPECT_EQ(UHAL_OK, uhal_stream_destroy(own));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(kThreads * kLaunches / 10, failed.load());
  EXPECT_EQ(static_cast<uint64_t>(kThreads * kLaunches), counts().launches);
  EXPECT_EQ(static_cast<uint64_t>(failed.load()), counts().injected);
}

TEST_F(Faults, WrongRulesChangeNothing) {
  set_rules("copy:every=2");
  EXPECT_EQ(UHAL_OK, copy_in(1));
  EXPECT_EQ(UHAL_INVALID_ARGUMENT, faults->set_rules("copy,launched"));
  EXPECT_PRED_FORMAT2(IsSubstring, "The rules of fault injection: rule 2, 'launched', is wrong at character 6",
                      message());
  EXPECT_EQ(1u, counts().copies);
  EXPECT_EQ(UHAL_INTERNAL, copy_in(1));
}

TEST_F(Faults, OtherExtensionsAreUnknown) {
  const void* table = nullptr;
  EXPECT_EQ(UHAL_UNIMPLEMENTED, uhal_device_extension(device, "uhal.fault_injection", 2, &table));
  EXPECT_EQ(nullptr, table);
  EXPECT_EQ(UHAL_UNIMPLEMENTED, uhal_device_extension(device, "uhal.faults", 1, &table));
}

}  // namespace
