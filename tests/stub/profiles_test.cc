// Device profiles: figures, memory, files, and the estimates made from them. ctest runs each test in a process of its
// own.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "unihal/memory.h"
#include "unihal/op.h"
#include "unihal/profiler.h"

namespace {

using testing::IsSubstring;

constexpr uint64_t kMebibyte = uint64_t{1} << 20;
constexpr uint64_t kGibibyte = uint64_t{1} << 30;

std::string message() { return uhal_last_error()->message; }

// A file that the process leaves nothing of.
struct TemporaryFile {
  ~TemporaryFile() { static_cast<void>(std::remove(path.c_str())); }
  const std::string path;
};

std::string write_profile(const std::string& text) {
  static const TemporaryFile file{testing::TempDir() + "unihal_profile_" + std::to_string(getpid()) + ".yaml"};
  std::ofstream(file.path, std::ios::binary) << text;
  return file.path;
}

uhal_status open(const std::string& profile, uhal_device** device) {
  setenv("UNIHAL_STUB_PROFILE", profile.c_str(), 1);
  EXPECT_EQ(UHAL_OK, uhal_select_backend("stub"));
  return uhal_device_get("polaris", 0, device);
}

uhal_device_properties properties_of(uhal_device* device) {
  uhal_device_properties properties = {};
  properties.struct_size = sizeof properties;
  EXPECT_EQ(UHAL_OK, uhal_device_properties_get(device, &properties)) << message();
  return properties;
}

// -- built-in profiles --------------------------------------------------------------------------------

struct Card {
  const char* profile;
  const char* name;
  uint64_t memory;
  int compute_units;
  int wavefront_size;
  double gigaflops;
  double gigabytes_per_second;
};

class BuiltIn : public testing::TestWithParam<Card> {};

TEST_P(BuiltIn, HasTheFiguresOfItsCard) {
  uhal_device* device = nullptr;
  ASSERT_EQ(UHAL_OK, open(GetParam().profile, &device)) << message();
  const uhal_device_properties properties = properties_of(device);
  EXPECT_EQ(UHAL_FIGURES_OF_PROFILE, properties.figures_are_of);
  EXPECT_EQ(1, properties.is_stub);
  EXPECT_STREQ(GetParam().name, properties.name);
  EXPECT_EQ(GetParam().memory, properties.total_memory);
  EXPECT_LE(properties.max_allocation, properties.total_memory);
  EXPECT_GE(properties.max_allocation, properties.total_memory / 10 * 8);
  EXPECT_EQ(64u << 10, properties.local_memory);
  EXPECT_EQ(GetParam().compute_units, properties.compute_units);
  EXPECT_EQ(GetParam().wavefront_size, properties.wavefront_size);
  EXPECT_EQ(GetParam().gigaflops, properties.peak_gigaflops_float32);
  EXPECT_EQ(GetParam().gigabytes_per_second, properties.peak_gigabytes_per_second);
  EXPECT_GT(properties.launch_nanoseconds, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Cards, BuiltIn,
    testing::Values(Card{"rx580-4gb", "AMD Radeon RX 580 4 GB (profile, stub)", 3840 * kMebibyte, 36, 64, 6175, 224},
                    Card{"rx580-8gb", "AMD Radeon RX 580 8 GB (profile, stub)", 7936 * kMebibyte, 36, 64, 6175, 256},
                    Card{"rx6800xt", "AMD Radeon RX 6800 XT (profile, stub)", 16128 * kMebibyte, 72, 32, 20740, 512},
                    Card{"rx7900xtx", "AMD Radeon RX 7900 XTX (profile, stub)", 24320 * kMebibyte, 96, 32, 61440, 960},
                    Card{"bi-v150", "Iluvatar BI-V150 (profile, stub)", 32256 * kMebibyte, 0, 64, 37000, 1200}));

TEST(Profile, WithoutOneFiguresAreTheDevices) {
  ASSERT_EQ(UHAL_OK, uhal_select_backend("stub"));
  uhal_device* device = nullptr;
  ASSERT_EQ(UHAL_OK, uhal_device_get("polaris", 0, &device)) << message();
  const uhal_device_properties properties = properties_of(device);
  EXPECT_EQ(UHAL_FIGURES_OF_DEVICE, properties.figures_are_of);
  EXPECT_EQ(0, properties.peak_gigaflops_float32);
  EXPECT_EQ(properties.total_memory, properties.max_allocation);
}

TEST(Profile, UnknownNamesListTheKnown) {
  uhal_device* device = nullptr;
  EXPECT_NE(UHAL_OK, open("rx590", &device));
  EXPECT_PRED_FORMAT2(IsSubstring,
                      "UNIHAL_STUB_PROFILE: there is no profile 'rx590'; expected rx580-4gb, rx580-8gb, rx6800xt, "
                      "rx7900xtx, bi-v150, or the path of a file that ends with .yaml. Correct it or unset it.",
                      message());
}

// -- memory ---------------------------------------------------------------------------------------------

// Allocates blocks of a size that the core passes on as it is until the device is full; the number of bytes got.
uint64_t fill_device(uhal_device* device, size_t block, std::vector<void*>* blocks) {
  uint64_t bytes = 0;
  for (void* pointer = nullptr; uhal_allocate(device, nullptr, UHAL_MEMORY_DEVICE, block, &pointer) == UHAL_OK;) {
    blocks->push_back(pointer);
    bytes += block;
  }
  return bytes;
}

TEST(Profile, MemoryEndsWhereTheCardsDoes) {
  uhal_device* device = nullptr;
  ASSERT_EQ(UHAL_OK, open("rx580-4gb", &device)) << message();
  std::vector<void*> blocks;
  EXPECT_EQ(4 * kGibibyte - 256 * kMebibyte, fill_device(device, 64 * kMebibyte, &blocks));
  EXPECT_PRED_FORMAT2(IsSubstring, "4026531840 of 4026531840 in use", message());
  void* pointer = nullptr;
  EXPECT_EQ(UHAL_RESOURCE_EXHAUSTED, uhal_allocate(device, nullptr, UHAL_MEMORY_DEVICE, 1, &pointer));
  for (void* block : blocks) EXPECT_EQ(UHAL_OK, uhal_free(device, nullptr, block));
  EXPECT_EQ(UHAL_OK, uhal_allocate(device, nullptr, UHAL_MEMORY_DEVICE, 3480 * kMebibyte, &pointer)) << message();
  EXPECT_EQ(UHAL_OK, uhal_free(device, nullptr, pointer));
}

constexpr char kSmallCard[] =
    "# a card for tests\n"
    "name: \"Small: card\"  # with a colon\n"
    "vendor: 'Nobody'\r\n"
    "\n"
    "memory: 0.0625 GiB\n"
    "reserve: 16384 KiB # a quarter\n"
    "max_allocation: 28 MiB\n"
    "compute_units: 3\n"
    "wavefront_size: 64\n"
    "clock_megahertz: 1000\n"
    "peak_gigaflops_float32: 100\n"
    "peak_gigabytes_per_second: 12.5\n"
    "launch_nanoseconds: 1000";

TEST(Profile, FilesAreRead) {
  uhal_device* device = nullptr;
  ASSERT_EQ(UHAL_OK, open(write_profile(kSmallCard), &device)) << message();
  const uhal_device_properties properties = properties_of(device);
  EXPECT_STREQ("Small: card (profile, stub)", properties.name);
  EXPECT_STREQ("Nobody", properties.vendor);
  EXPECT_EQ(48 * kMebibyte, properties.total_memory);
  EXPECT_EQ(28 * kMebibyte, properties.max_allocation);
  EXPECT_EQ(65536u, properties.local_memory);
  EXPECT_EQ(3, properties.compute_units);
  EXPECT_EQ(1000, properties.clock_megahertz);
  EXPECT_EQ(12.5, properties.peak_gigabytes_per_second);
  EXPECT_EQ(1000, properties.launch_nanoseconds);
}

TEST(Profile, LargeAllocationsAreRefusedAsByTheCard) {
  uhal_device* device = nullptr;
  ASSERT_EQ(UHAL_OK, open(write_profile(kSmallCard), &device)) << message();
  void* pointer = nullptr;
  EXPECT_EQ(UHAL_RESOURCE_EXHAUSTED, uhal_allocate(device, nullptr, UHAL_MEMORY_DEVICE, 30 * kMebibyte, &pointer));
  EXPECT_PRED_FORMAT2(IsSubstring,
                      "stub device 0 gives at most 29360128 bytes in one allocation, as the card of its profile does; "
                      "31457280 were asked for. Use several smaller ones.",
                      message());
  std::vector<void*> blocks;
  EXPECT_EQ(48 * kMebibyte, fill_device(device, 24 * kMebibyte, &blocks));
  for (void* block : blocks) EXPECT_EQ(UHAL_OK, uhal_free(device, nullptr, block));
}

TEST(Profile, AnExplicitMemorySizeWins) {
  setenv("UNIHAL_STUB_MEMORY", "96M", 1);
  uhal_device* device = nullptr;
  ASSERT_EQ(UHAL_OK, open("rx7900xtx", &device)) << message();
  const uhal_device_properties properties = properties_of(device);
  EXPECT_EQ(96 * kMebibyte, properties.total_memory);
  EXPECT_EQ(96 * kMebibyte, properties.max_allocation);
  std::vector<void*> blocks;
  EXPECT_EQ(96 * kMebibyte, fill_device(device, 32 * kMebibyte, &blocks));
  for (void* block : blocks) EXPECT_EQ(UHAL_OK, uhal_free(device, nullptr, block));
}

// -- wrong files ------------------------------------------------------------------------------------------

// The whole card but for one line.
constexpr char kRest[] =
    "name: Card\n"
    "memory: 1 GiB\n"
    "compute_units: 3\n"
    "wavefront_size: 64\n"
    "peak_gigaflops_float32: 100\n"
    "peak_gigabytes_per_second: 10\n";

struct WrongText {
  std::string text;
  const char* complaint;  // after the file's name
};

class WrongFile : public testing::TestWithParam<WrongText> {};

TEST_P(WrongFile, IsRefusedWithItsLine) {
  const std::string path = write_profile(GetParam().text);
  uhal_device* device = nullptr;
  EXPECT_NE(UHAL_OK, open(path, &device));
  EXPECT_PRED_FORMAT2(IsSubstring,
                      "UNIHAL_STUB_PROFILE: '" + path + "'" + GetParam().complaint + ". Correct it or unset it.",
                      message());
}

const std::string kCard = kRest;

INSTANTIATE_TEST_SUITE_P(
    Texts, WrongFile,
    testing::Values(
        WrongText{kCard, ": required keys are missing: launch_nanoseconds"},
        WrongText{"",
                  ": required keys are missing: name, memory, compute_units, wavefront_size, peak_gigaflops_float32, "
                  "peak_gigabytes_per_second, launch_nanoseconds"},
        WrongText{
            kCard + "launch: 5\n",
            ", line 7: unknown key 'launch'; expected name, vendor, memory, reserve, max_allocation, local_memory, "
            "compute_units, wavefront_size, clock_megahertz, peak_gigaflops_float32, peak_gigabytes_per_second, "
            "launch_nanoseconds"},
        WrongText{kCard + "\n# again\nmemory: 2 GiB\n",
                  ", line 9: 'memory' is given twice, in line 2 before; expected each key once"},
        WrongText{
            "memory: 4 GB\n",
            ", line 1: 'memory' is '4 GB'; expected a number with the unit B, KiB, MiB or GiB, such as 4 GiB, from "
            "1048576 B to 131072 GiB"},
        WrongText{"memory: 4\n",
                  ", line 1: 'memory' is '4'; expected a number with the unit B, KiB, MiB or GiB, such as 4 GiB, from "
                  "1048576 B to 131072 GiB"},
        WrongText{
            "memory: 0.3 B\n",
            ", line 1: 'memory' is '0.3 B'; expected a number with the unit B, KiB, MiB or GiB, such as 4 GiB, from "
            "1048576 B to 131072 GiB"},
        WrongText{
            "memory: 999999999 GiB\n",
            ", line 1: 'memory' is '999999999 GiB'; expected a number with the unit B, KiB, MiB or GiB, such as 4 "
            "GiB, from 1048576 B to 131072 GiB"},
        WrongText{"compute_units: 3.5\n",
                  ", line 1: 'compute_units' is '3.5'; expected a whole number from 0 to 1000000"},
        WrongText{"compute_units: -3\n",
                  ", line 1: 'compute_units' is '-3'; expected a whole number from 0 to 1000000"},
        WrongText{"wavefront_size: 0\n", ", line 1: 'wavefront_size' is '0'; expected a whole number from 1 to 1024"},
        WrongText{"peak_gigabytes_per_second: fast\n",
                  ", line 1: 'peak_gigabytes_per_second' is 'fast'; expected a number from 0 to 1000000000"},
        WrongText{"memory: 1 GiB\nreserve: 1 GiB\n"
                  "name: C\ncompute_units: 1\nwavefront_size: 1\npeak_gigaflops_float32: 1\n"
                  "peak_gigabytes_per_second: 1\nlaunch_nanoseconds: 1\n",
                  ": the reserve of 1073741824 bytes leaves nothing of the memory of 1073741824 bytes; expected less"},
        WrongText{"memory: 1 GiB\nmax_allocation: 2 GiB\n"
                  "name: C\ncompute_units: 1\nwavefront_size: 1\npeak_gigaflops_float32: 1\n"
                  "peak_gigabytes_per_second: 1\nlaunch_nanoseconds: 1\n",
                  ": the max_allocation of 2147483648 bytes is more than the memory of 1073741824 bytes; expected at "
                  "most that"},
        WrongText{"name:\n", ", line 1: 'name' has no value"},
        WrongText{"name: # none\n", ", line 1: 'name' has no value"},
        WrongText{"name: 'Card\n", ", line 1: the quote ''Card' has no end"},
        WrongText{"name: 'Card' 5\n", ", line 1: '5' follows the value; expected nothing or # ..."},
        WrongText{"card:\n  name: x\n",
                  ", line 1: unknown key 'card'; expected name, vendor, memory, reserve, max_allocation, local_memory, "
                  "compute_units, wavefront_size, clock_megahertz, peak_gigaflops_float32, peak_gigabytes_per_second, "
                  "launch_nanoseconds"},
        WrongText{"  name: x\n",
                  ", line 1: the line is indented; expected one 'key: value' to a line, from its beginning"},
        WrongText{"name\n", ", line 1: 'name' is no 'key: value'; expected a key, a colon, a blank, a value"},
        WrongText{"name:Card\n", ", line 1: 'name:Card' is no 'key: value'; expected a key, a colon, a blank, a value"},
        WrongText{"name: \x01\n", ", line 1: 'name' has a control character"},
        WrongText{"vendor: " + std::string(64, 'v') + "\n", ", line 1: 'vendor' has 64 bytes; expected up to 63"},
        WrongText{std::string((64 << 10) + 1, '#'), " is no profile: it is larger than 64 KiB"}));

TEST(Profile, MissingFilesAreNamed) {
  uhal_device* device = nullptr;
  EXPECT_NE(UHAL_OK, open("/nowhere/card.yaml", &device));
  EXPECT_PRED_FORMAT2(
      IsSubstring, "UNIHAL_STUB_PROFILE: '/nowhere/card.yaml' cannot be read: No such file or directory.", message());
}

// -- estimates ----------------------------------------------------------------------------------------------

int64_t estimate_of(const std::string& op) {
  for (size_t i = 0; i < uhal_profiler_event_count(); ++i) {
    uhal_profiler_event event = {};
    event.struct_size = sizeof event;
    EXPECT_EQ(UHAL_OK, uhal_profiler_event_get(i, &event));
    if (op == event.op) return event.estimated_nanoseconds;
  }
  ADD_FAILURE() << op << " was not recorded";
  return -1;
}

// Multiplies matrices of m x k and k x n and fills one element, recorded.
void record_work(uhal_device* device, int64_t m, int64_t n, int64_t k) {
  uhal_stream* stream = nullptr;
  ASSERT_EQ(UHAL_OK, uhal_device_default_stream(device, &stream));
  const int64_t shapes[3][2] = {{m, k}, {k, n}, {m, n}};
  uhal_tensor views[3] = {};
  for (int i = 0; i < 3; ++i) {
    views[i].struct_size = sizeof views[i];
    views[i].dtype = UHAL_FLOAT32;
    views[i].rank = 2;
    views[i].shape[0] = shapes[i][0];
    views[i].shape[1] = views[i].strides[0] = shapes[i][1];
    views[i].strides[1] = 1;
    const auto bytes = static_cast<size_t>(shapes[i][0] * shapes[i][1] * 4);
    ASSERT_EQ(UHAL_OK, uhal_allocate(device, stream, UHAL_MEMORY_DEVICE, bytes, &views[i].data));
    const float one = 1;
    ASSERT_EQ(UHAL_OK, uhal_memory_fill(stream, views[i].data, &one, sizeof one, bytes));
  }
  const uhal_tensor* inputs[] = {&views[0], &views[1]};
  const uhal_tensor* outputs[] = {&views[2]};
  uhal_op matmul = {};
  matmul.struct_size = sizeof matmul;
  matmul.kind = UHAL_OP_MATMUL;
  matmul.inputs = inputs;
  matmul.input_count = 2;
  matmul.outputs = outputs;
  matmul.output_count = 1;
  ASSERT_EQ(UHAL_OK, uhal_profiler_start()) << message();
  ASSERT_EQ(UHAL_OK, uhal_launch(stream, &matmul)) << message();
  const uint32_t word = 0;
  ASSERT_EQ(UHAL_OK, uhal_memory_fill(stream, views[2].data, &word, sizeof word, sizeof word));
  ASSERT_EQ(UHAL_OK, uhal_profiler_stop()) << message();
  for (const uhal_tensor& view : views) EXPECT_EQ(UHAL_OK, uhal_free(device, stream, view.data));
}

TEST(Estimates, AreTheLargestOfMovingComputingAndLaunching) {
  uhal_device* device = nullptr;
  ASSERT_EQ(UHAL_OK, open(write_profile(kSmallCard), &device)) << message();
  record_work(device, 64, 64, 64);
  // 2 * 64^3 = 524,288 operations at 100 in a nanosecond; 3 * 64 * 64 * 4 = 49,152 bytes at 12.5 would take 3,933 ns.
  EXPECT_EQ(5243, estimate_of("matmul"));
  EXPECT_EQ(1000, estimate_of("fill")) << "4 bytes: the launch";
  record_work(device, 128, 64, 1);
  // 4 * (128 + 64 + 128 * 64) = 33,536 bytes at 12.5 in a nanosecond; 16,384 operations would take 164 ns.
  EXPECT_EQ(2683, estimate_of("matmul"));

  uhal_profiler_total total = {};
  total.struct_size = sizeof total;
  int64_t sum = 0;
  for (size_t i = 0; i < uhal_profiler_total_count(); ++i) {
    ASSERT_EQ(UHAL_OK, uhal_profiler_total_get(i, &total));
    sum += total.estimated_nanoseconds;
  }
  EXPECT_EQ(2683 + 1000, sum);
}

TEST(Estimates, AreWrittenToTraces) {
  uhal_device* device = nullptr;
  ASSERT_EQ(UHAL_OK, open(write_profile(kSmallCard), &device)) << message();
  record_work(device, 64, 64, 64);
  const std::string path = testing::TempDir() + "unihal_trace_" + std::to_string(getpid()) + ".json";
  ASSERT_EQ(UHAL_OK, uhal_profiler_write_trace(path.c_str())) << message();
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_PRED_FORMAT2(IsSubstring, "\"estimated_us\":5.243", text);
  std::remove(path.c_str());
}

TEST(Estimates, AreZeroWithoutPeaks) {
  ASSERT_EQ(UHAL_OK, uhal_select_backend("stub"));
  uhal_device* device = nullptr;
  ASSERT_EQ(UHAL_OK, uhal_device_get("polaris", 0, &device)) << message();
  record_work(device, 8, 8, 8);
  EXPECT_EQ(0, estimate_of("matmul"));
}

}  // namespace
