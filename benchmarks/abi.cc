// The cost of the ABI: nanoseconds per launch and per cached allocation, on the device given as the first
// argument (default rdna:0; set UNIHAL_BACKEND=stub where there is no hardware). Each figure is the median of
// several batches. Prints one JSON object.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "plugins/common/view.h"
#include "unihal/memory.h"
#include "unihal/op.h"

namespace {

void check(uhal_status status) {
  if (status == UHAL_OK) return;
  std::fprintf(stderr, "%s\n", uhal_last_error()->message);
  std::exit(1);
}

// Median nanoseconds of one call.
template <class Call>
double measure(Call call) {
  constexpr int kBatches = 21;
  constexpr int kCalls = 20000;
  std::vector<double> batches;
  for (int batch = 0; batch < kBatches; ++batch) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kCalls; ++i) call();
    const std::chrono::duration<double, std::nano> passed = std::chrono::steady_clock::now() - start;
    batches.push_back(passed.count() / kCalls);
  }
  std::nth_element(batches.begin(), batches.begin() + kBatches / 2, batches.end());
  return batches[kBatches / 2];
}

}  // namespace

int main(int argc, char** argv) {
  using unihal::View;
  std::string name = argc > 1 ? argv[1] : "rdna:0";
  const size_t colon = name.find(':');
  const int ordinal = colon == std::string::npos ? 0 : std::atoi(name.c_str() + colon + 1);
  uhal_device* device = nullptr;
  uhal_stream* stream = nullptr;
  check(uhal_device_get(name.substr(0, colon).c_str(), ordinal, &device));
  check(uhal_stream_create(device, &stream));
  void* memory = nullptr;
  check(uhal_allocate(device, stream, UHAL_MEMORY_DEVICE, 4096, &memory));
  char* base = static_cast<char*>(memory);

  const View nothing(base, UHAL_FLOAT32, {0});
  const double empty = measure([&] { check(unihal::launch(stream, UHAL_OP_FILL, {}, {&nothing})); });
  const View one(base, UHAL_FLOAT32, {1});
  const double fill = measure([&] { check(unihal::launch(stream, UHAL_OP_FILL, {}, {&one})); });
  const View a(base, UHAL_FLOAT32, {16});
  const View b(base + 256, UHAL_FLOAT32, {16});
  const View c(base + 512, UHAL_FLOAT32, {16});
  const double add = measure([&] { check(unihal::map(stream, uhal_map_add, {&a, &b}, {&c})); });
  const double pair = measure([&] {
    void* block = nullptr;
    check(uhal_allocate(device, stream, UHAL_MEMORY_DEVICE, 1024, &block));
    check(uhal_free(device, stream, block));
  });
  check(uhal_stream_synchronize(stream));
  check(uhal_free(device, stream, memory));
  check(uhal_stream_destroy(stream));
  std::printf("{\"empty_launch_ns\": %.0f, \"fill_1_ns\": %.0f, \"add_16_ns\": %.0f, \"allocate_and_free_ns\": %.0f}\n",
              empty, fill, add, pair);
  return 0;
}
