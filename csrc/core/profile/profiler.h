// Recording device time: what the rest of the core calls.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "csrc/core/handle/stream.h"
#include "csrc/core/op/table.h"
#include "unihal/graph_capture.h"

namespace unihal::core {

// True while a recording runs.
extern std::atomic<bool> profiling;

// One finished piece of work.
struct ProfileRecord {
  std::string name;
  std::string op;
  std::string shape;
  uhal_device* device;
  uint64_t stream;
  int64_t start_nanoseconds;
  int64_t duration_nanoseconds;
  uint64_t bytes;
  uint64_t flops;
  int64_t estimated_nanoseconds;
  std::string implementation;
  int64_t submit_nanoseconds;
  int64_t submit_duration_nanoseconds;
  uint64_t thread;
};

// Records what is submitted to a stream between its construction and destruction; of a capture nothing, since nothing
// runs. The submission lock is held.
class ProfiledWork {
 public:
  ProfiledWork(Stream* stream, const char* name, uint64_t bytes) {
    if (is_recorded(*stream)) begin(stream, name, bytes);
  }
  // A graph's launch.
  ProfiledWork(Stream* stream, const uhal_graph_info& graph) {
    if (is_recorded(*stream)) begin(stream, graph);
  }
  // `where`, a literal, follows the op's name.
  ProfiledWork(Stream* stream, const OpView& op, const char* where = "") {
    if (is_recorded(*stream)) begin(stream, op, where);
  }
  ~ProfiledWork() {
    if (__builtin_expect(work_ != nullptr, 0)) end();
  }
  ProfiledWork(const ProfiledWork&) = delete;
  ProfiledWork& operator=(const ProfiledWork&) = delete;

  // The work was refused: there is nothing to record.
  void drop() {
    if (work_ != nullptr) forget();
  }

  struct Pending;

 private:
  static bool is_recorded(const Stream& stream) {
    return __builtin_expect(profiling.load(std::memory_order_relaxed), 0) && !stream.is_capturing();
  }
  void begin(Stream* stream, const char* name, uint64_t bytes);
  void begin(Stream* stream, const uhal_graph_info& graph);
  void begin(Stream* stream, const OpView& op, const char* where);
  void end();
  void forget();

  Pending* work_ = nullptr;
};

// As uhal_host.note_implementation.
void note_implementation(const char* format, ...) __attribute__((format(printf, 1, 2)));

// The stopped recording, and its totals per op (profiler_results.cc).
const std::vector<ProfileRecord>& profile_records();
void set_profile_records(std::vector<ProfileRecord> records);

// Writes records as a Chrome trace (trace.cc).
uhal_status write_trace(const std::vector<ProfileRecord>& records, const char* path);

// UNIHAL_PROFILE=<file>: records from the first device on, and writes the trace at finalize or exit.
void start_profiler_by_environment();
void finish_profiler_by_environment();

}  // namespace unihal::core
