// Memory of the strict mode: poisoned when new, out of the host's reach, gone when freed, and a report for whoever
// touches it all the same.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "tests/stub/strict_test.h"

namespace strict_test {
namespace {

TEST(StrictMemory, NewMemoryIsPoisoned) {
  uhal_stream* stream = new_stream();
  for (const uhal_memory_kind kind : {UHAL_MEMORY_DEVICE, UHAL_MEMORY_PINNED, UHAL_MEMORY_MANAGED}) {
    for (const size_t bytes : {size_t{1}, size_t{255}, size_t{256}, size_t{4096}, (size_t{3} << 20) + 7}) {
      void* pointer = allocate(bytes, kind);
      EXPECT_EQ(0u, reinterpret_cast<uintptr_t>(pointer) % 256);
      std::vector<unsigned char> seen(bytes);
      require(uhal_copy(stream, seen.data(), pointer, bytes, UHAL_COPY_DEVICE_TO_HOST));
      require(uhal_stream_synchronize(stream));
      size_t wrong = 0;
      for (size_t i = 0; i < bytes; ++i) wrong += seen[i] != (i % 2 == 0 ? 0xF5 : 0x7F);
      EXPECT_EQ(0u, wrong) << bytes << " bytes of kind " << kind;
      require(uhal_free(device(), stream, pointer));
    }
  }
}

TEST(StrictMemory, PoisonIsNotANumberInEachFormat) {
  uint64_t bits = 0x7FF57FF57FF57FF5;
  double wide;
  float narrow;
  std::memcpy(&wide, &bits, sizeof wide);
  std::memcpy(&narrow, &bits, sizeof narrow);
  EXPECT_NE(wide, wide);
  EXPECT_NE(narrow, narrow);
  EXPECT_EQ(0u, bits >> 51 & 1) << "signalling in float64";
  const uint16_t half = bits & 0xFFFF;
  EXPECT_TRUE((half & 0x7C00) == 0x7C00 && (half & 0x03FF) != 0) << "float16";
  EXPECT_TRUE((half & 0x7F80) == 0x7F80 && (half & 0x007F) != 0) << "bfloat16";
}

TEST(StrictMemory, FreedAddressesAreNotUsedAgain) {
  uhal_stream* stream = new_stream();
  std::vector<void*> seen;
  for (int i = 0; i < 100; ++i) {
    void* pointer = allocate(64);
    for (void* other : seen) EXPECT_NE(other, pointer);
    seen.push_back(pointer);
    submit_fill(stream, pointer, 16, i);
    EXPECT_EQ(std::vector<int32_t>(16, i), read(stream, pointer, 16));
    require(uhal_free(device(), stream, pointer));
  }
}

TEST(StrictMemory, ManyLiveAllocations) {
  uhal_stream* stream = new_stream();
  std::vector<void*> live;
  for (int i = 0; i < 3000; ++i) {
    live.push_back(allocate(static_cast<size_t>(i) * 3 + 4));
    submit_fill(stream, live.back(), 1, i);
  }
  for (int i = 0; i < 3000; i += 97) {
    EXPECT_EQ(std::vector<int32_t>({i}), read(stream, live[static_cast<size_t>(i)], 1));
  }
  for (void* pointer : live) require(uhal_free(device(), stream, pointer));
}

// Kilobytes of a line of /proc/self/status.
int64_t status_kilobytes(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(name + ":", 0) == 0) return std::stoll(line.substr(name.size() + 1));
  }
  return -1;
}

// Addresses go up all the time; what they cost the system must not.
TEST(StrictMemory, UsedUpAddressesCostNothing) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers keep memory of their own for each address";
#endif
  device();
  constexpr size_t kBytes = size_t{1} << 20;
  require(uhal_free(device(), nullptr, allocate(kBytes)));
  const int64_t before = status_kilobytes("VmPTE");
  for (int i = 0; i < 1000; ++i) require(uhal_free(device(), nullptr, allocate(kBytes)));
  EXPECT_GT(before, 0);
  EXPECT_LT(status_kilobytes("VmPTE") - before, 200) << "page tables of 1 GiB take 2 MiB";
  EXPECT_LT(status_kilobytes("RssShmem"), 2 * static_cast<int64_t>(kBytes >> 10));
}

TEST(StrictMemory, IsAsLargeAsAskedFor) {
  setenv("UNIHAL_STUB_MEMORY", "1M", 1);
  device();
  void* pointer = nullptr;
  EXPECT_EQ(UHAL_RESOURCE_EXHAUSTED,
            uhal_allocate(device(), nullptr, UHAL_MEMORY_DEVICE, (size_t{1} << 20) + 1, &pointer));
  for (int i = 0; i < 3; ++i) {
    pointer = allocate(size_t{1} << 20);
    void* more = nullptr;
    EXPECT_EQ(UHAL_RESOURCE_EXHAUSTED, uhal_allocate(device(), nullptr, UHAL_MEMORY_DEVICE, 1, &more));
    require(uhal_free(device(), nullptr, pointer));
  }
}

// -- reports ---------------------------------------------------------------------------------------------

volatile int32_t sink;

void host_read(const void* address) { sink = *static_cast<const volatile int32_t*>(address); }
void host_write(void* address) { *static_cast<volatile int32_t*>(address) = 1; }

// By a signal, or by the handler of a sanitizer that was there before.
bool died(int status) { return WIFSIGNALED(status) || WEXITSTATUS(status) != 0; }

class StrictReport : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

#if defined(__x86_64__)
#define READ "read"
#define WROTE "wrote"
#else
#define READ "touched"
#define WROTE "touched"
#endif

TEST_F(StrictReport, HostReads) {
  EXPECT_EXIT(host_read(static_cast<char*>(allocate(100)) + 16), died,
              "unihal: the host " READ
              " device memory at 0x[0-9a-f]+: 16 bytes into the 100 bytes at 0x[0-9a-f]+ of stub device 0\\.\n"
              "unihal: It was allocated at [^\n]+\\.\nunihal: Only the device can follow a device pointer\\. Copy to "
              "host memory first");
}

TEST_F(StrictReport, HostWrites) {
  EXPECT_EXIT(host_write(allocate(100)), died,
              "unihal: the host " WROTE " device memory at (0x[0-9a-f]+): 0 bytes into the 100 bytes at");
}

TEST_F(StrictReport, HostBeyondTheEnd) {
  EXPECT_EXIT(host_read(static_cast<char*>(allocate(4096)) + 4100), died,
              "4 bytes beyond the end of the 4096 bytes at 0x[0-9a-f]+ of stub device 0\\.");
}

TEST_F(StrictReport, HostAfterFree) {
  EXPECT_EXIT(
      {
        void* pointer = allocate(100);
        require(uhal_free(device(), nullptr, pointer));
        host_read(pointer);
      },
      died, "0 bytes into the 100 bytes at 0x[0-9a-f]+ of stub device 0, which were freed\\.");
}

TEST_F(StrictReport, HostWhereNothingWas) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  EXPECT_EXIT(host_read(static_cast<char*>(allocate(page)) - page), died,
              "unihal: the host " READ " device memory at 0x[0-9a-f]+, where nothing was allocated\\.\n");
}

TEST_F(StrictReport, KernelAfterFree) {
  EXPECT_EXIT(
      {
        uhal_stream* stream = new_stream();
        void* pointer = allocate(100);
        Gate gate(stream);
        submit_fill(stream, pointer, 25, 1);
        require(uhal_free(device(), nullptr, pointer));  // promises that no work uses it
        gate.open();
        static_cast<void>(uhal_stream_synchronize(stream));
      },
      died,
      "unihal: a kernel or copy of the stub " WROTE
      " what is no live device memory, at 0x[0-9a-f]+: 0 bytes into the 100 bytes at 0x[0-9a-f]+ of stub device 0, "
      "which were freed\\.\nunihal: It was allocated at [^\n]+ and freed at [^\n]+\\.\nunihal: It happened in fill on "
      "stream [0-9]+\\.\nunihal: Either memory was freed");
}

TEST_F(StrictReport, CopyAfterTheHostsMemoryIsGone) {
  EXPECT_EXIT(
      {
        uhal_stream* stream = new_stream();
        void* pointer = allocate(16);
        void* host = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        Gate gate(stream);
        require(uhal_copy(stream, pointer, host, 16, UHAL_COPY_HOST_TO_DEVICE));
        mprotect(host, 4096, PROT_NONE);  // as gone as after munmap, and nothing else can come to lie there
        gate.open();
        static_cast<void>(uhal_stream_synchronize(stream));
      },
      died,
      "unihal: copy\\.host_to_device on stream [0-9]+ " READ
      " host memory at 0x[0-9a-f]+, where nothing is\\.\nunihal: The host memory of a copy must stay valid");
}

TEST_F(StrictReport, PinnedMemoryHasGuards) {
  device();
  char* pointer = static_cast<char*>(allocate(256, UHAL_MEMORY_PINNED));
  host_write(pointer);
  host_write(pointer + 252);
  EXPECT_EXIT(host_write(pointer + 256), died, "");
}

// -- other handlers
// ----------------------------------------------------------------------------------------------------

constexpr int kOfTheHandler = 23;

// An address of nobody's, which the compiler cannot see through; not the null pointer, which sanitizers check before it
// is followed.
const void* nowhere() {
  static volatile uintptr_t address = 64;
  return reinterpret_cast<const void*>(address);
}

void previous_handler(int, siginfo_t* info, void*) {
  const char text[] = "the previous handler\n";
  static_cast<void>(write(STDERR_FILENO, text, sizeof text - 1));
  _exit(info->si_addr != nowhere() ? kOfTheHandler : kOfTheHandler + 1);
}

void install_previous_handler() {
  struct sigaction action = {};
  action.sa_sigaction = previous_handler;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
}

TEST_F(StrictReport, GoesOnToThePreviousHandler) {
  EXPECT_EXIT(
      {
        install_previous_handler();
        host_read(allocate(4));
      },
      testing::ExitedWithCode(kOfTheHandler), "unihal: the host .*the previous handler");
}

TEST_F(StrictReport, LeavesOtherFaultsToThePreviousHandler) {
  EXPECT_EXIT(
      {
        install_previous_handler();
        device();
        host_read(nowhere());
      },
      testing::ExitedWithCode(kOfTheHandler + 1), "^the previous handler\n$");
}

TEST_F(StrictReport, LeavesOtherFaultsToTheSystem) {
  EXPECT_EXIT(
      {
        signal(SIGSEGV, SIG_DFL);
        device();
        host_read(nowhere());
      },
      testing::KilledBySignal(SIGSEGV), "^$");
  EXPECT_EXIT(
      {
        signal(SIGSEGV, SIG_DFL);
        device();
        raise(SIGSEGV);
        sleep(10);
      },
      testing::KilledBySignal(SIGSEGV), "^$");
}

}  // namespace
}  // namespace strict_test
