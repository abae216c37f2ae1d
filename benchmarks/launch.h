// What the benchmarks of a launch share: microseconds from one add of 16 elements to the next through uhal_launch, by
// itself and in groups of 32 (uhal_launch_group_start), and from one chain of three functions to the next, against the
// bare call of a driver. All wait once at the end of a batch.
#ifndef UNIHAL_BENCHMARKS_LAUNCH_H_
#define UNIHAL_BENCHMARKS_LAUNCH_H_

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "plugins/common/view.h"
#include "unihal/memory.h"
#include "unihal/op.h"

namespace launch_benchmark {

constexpr int kBatches = 15;
constexpr int kCalls = 2016;
constexpr int kGroup = 32;
static_assert(kCalls % kGroup == 0);

inline void check(uhal_status status) {
  if (status == UHAL_OK) return;
  std::fprintf(stderr, "%s\n", uhal_last_error()->message);
  std::exit(1);
}

inline double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// Microseconds of one call, in a batch that ends with `wait`.
template <class Call, class Wait>
double batch(Call call, Wait wait) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) call();
  wait();
  const std::chrono::duration<double, std::micro> passed = std::chrono::steady_clock::now() - start;
  return passed.count() / kCalls;
}

// Measures a unihal device ("polaris:0") beside a bare kernel, which `make_bare` makes of the device's name, and which
// has launch() and wait(). Prints a JSON object for each; the ratio is ours over the bare call's.
template <class MakeBare>
void measure(const char* title, const std::string& name, const char* peer, double target, MakeBare make_bare) {
  using unihal::View;
  const size_t colon = name.find(':');
  const int ordinal = colon == std::string::npos ? 0 : std::atoi(name.c_str() + colon + 1);
  uhal_device* device = nullptr;
  uhal_stream* stream = nullptr;
  check(uhal_device_get(name.substr(0, colon).c_str(), ordinal, &device));
  check(uhal_stream_create(device, &stream));
  uhal_device_properties properties = {};
  properties.struct_size = sizeof properties;
  check(uhal_device_properties_get(device, &properties));
  void* memory = nullptr;
  check(uhal_allocate(device, stream, UHAL_MEMORY_DEVICE, size_t{2 + kGroup} * 256, &memory));
  char* base = static_cast<char*>(memory);
  const View a(base, UHAL_FLOAT32, {16});
  const View b(base + 256, UHAL_FLOAT32, {16});
  const View c(base + 512, UHAL_FLOAT32, {16});
  auto bare = make_bare(std::string(properties.name));

  // relu(a + b) * b as one op.
  uhal_map_chain_attributes program = {};
  program.struct_size = sizeof program;
  program.step_count = 3;
  const uhal_map_function functions[] = {uhal_map_add, uhal_map_relu, uhal_map_multiply};
  const int32_t operands[][2] = {{0, 1}, {2, 0}, {3, 1}};
  for (int i = 0; i < program.step_count; ++i) {
    program.functions[i] = functions[i];
    std::copy_n(operands[i], 2, program.operands[i]);
  }
  program.results[0] = 4;
  const uhal_tensor *chain_inputs[] = {&a, &b}, *chain_outputs[] = {&c};
  const uhal_op chain = {sizeof chain, UHAL_OP_MAP_CHAIN, 2, 1, 0, chain_inputs, chain_outputs, &program, nullptr};

  auto launch_ours = [&] { check(unihal::map(stream, uhal_map_add, {&a, &b}, {&c})); };
  int place = 0;  // in its group, whose sums lie side by side
  auto launch_grouped = [&] {
    if (place == 0) check(uhal_launch_group_start(stream));
    const View sum(base + 512 + 256 * place, UHAL_FLOAT32, {16});
    check(unihal::map(stream, uhal_map_add, {&a, &b}, {&sum}));
    place = (place + 1) % kGroup;
    if (place == 0) check(uhal_launch_group_end(stream));
  };
  auto launch_chain = [&] { check(uhal_launch(stream, &chain)); };
  auto wait_ours = [&] { check(uhal_stream_synchronize(stream)); };
  auto launch_bare = [&] { bare.launch(); };
  auto wait_bare = [&] { bare.wait(); };
  batch(launch_ours, wait_ours);  // compiles
  batch(launch_grouped, wait_ours);
  batch(launch_chain, wait_ours);
  batch(launch_bare, wait_bare);
  std::vector<double> ours;
  std::vector<double> grouped;
  std::vector<double> chains;
  std::vector<double> theirs;
  for (int i = 0; i < kBatches; ++i) {
    ours.push_back(batch(launch_ours, wait_ours));
    grouped.push_back(batch(launch_grouped, wait_ours));
    chains.push_back(batch(launch_chain, wait_ours));
    theirs.push_back(batch(launch_bare, wait_bare));
  }
  check(uhal_free(device, stream, memory));
  check(uhal_stream_destroy(stream));
  const auto print = [&](const char* what, const std::vector<double>& times) {
    std::printf(
        "{\"benchmark\": \"%s%s\", \"unit\": \"us\", \"device\": %.3f, \"peer\": %.3f, \"ratio\": %.2f, "
        "\"peer_name\": \"%s\", \"target\": %.1f}\n",
        title, what, median(times), median(theirs), median(times) / median(theirs), peer, target);
  };
  print("", ours);
  print(" in a group of 32", grouped);
  print(" of a chain of three functions", chains);
}

}  // namespace launch_benchmark

#endif  // UNIHAL_BENCHMARKS_LAUNCH_H_
