// Reading the stopped recording.
#include <algorithm>
#include <map>
#include <mutex>

#include "csrc/core/base/struct_size.h"
#include "csrc/core/profile/profiler.h"
#include "unihal/profiler.h"

namespace unihal::core {
namespace {

struct Results {
  std::mutex mutex;
  std::vector<ProfileRecord> records;
  std::vector<uhal_profiler_total> totals;             // names point into records and implementations
  std::map<std::string, std::string> implementations;  // of totals, by op
};

Results& results() {
  static Results* const instance = new Results;
  return *instance;
}

// What each op ran on, that with the longest device time first.
std::map<std::string, std::string> implementations_of(const std::vector<ProfileRecord>& records) {
  std::map<std::string, std::map<std::string, int64_t>> by_op;
  for (const ProfileRecord& record : records) {
    if (!record.implementation.empty()) by_op[record.op][record.implementation] += record.duration_nanoseconds;
  }
  std::map<std::string, std::string> texts;
  for (const auto& [op, times] : by_op) {
    std::vector<std::pair<std::string, int64_t>> ordered(times.begin(), times.end());
    std::stable_sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
    std::string& text = texts[op];
    for (const auto& [name, time] : ordered) text += (text.empty() ? "" : ", ") + name;
  }
  return texts;
}

std::vector<uhal_profiler_total> totals_of(const std::vector<ProfileRecord>& records) {
  std::map<std::string, uhal_profiler_total> by_op;
  for (const ProfileRecord& record : records) {
    uhal_profiler_total& total = by_op[record.op];
    total.struct_size = sizeof total;
    total.op = record.op.c_str();
    ++total.calls;
    total.duration_nanoseconds += record.duration_nanoseconds;
    total.bytes += record.bytes;
    total.flops += record.flops;
    total.estimated_nanoseconds += record.estimated_nanoseconds;
  }
  std::vector<uhal_profiler_total> totals;
  for (const auto& [op, total] : by_op) totals.push_back(total);
  std::stable_sort(totals.begin(), totals.end(), [](const uhal_profiler_total& a, const uhal_profiler_total& b) {
    return a.duration_nanoseconds > b.duration_nanoseconds;
  });
  return totals;
}

}  // namespace

void set_profile_records(std::vector<ProfileRecord> records) {
  std::lock_guard<std::mutex> lock(results().mutex);
  results().records = std::move(records);
  results().totals = totals_of(results().records);
  results().implementations = implementations_of(results().records);
  for (uhal_profiler_total& total : results().totals) {
    const auto found = results().implementations.find(total.op);
    total.implementations = found != results().implementations.end() ? found->second.c_str() : "";
  }
}

}  // namespace unihal::core

using namespace unihal::core;

size_t uhal_profiler_event_count(void) {
  std::lock_guard<std::mutex> lock(results().mutex);
  return results().records.size();
}

uhal_status uhal_profiler_event_get(size_t index, uhal_profiler_event* event) {
  return guarded([&]() -> uhal_status {
    std::lock_guard<std::mutex> lock(results().mutex);
    if (index >= results().records.size()) {
      return UHAL_FAIL(UHAL_OUT_OF_RANGE, "There is no event number %zu; the stopped recording has %zu.", index,
                       results().records.size());
    }
    const ProfileRecord& record = results().records[index];
    uhal_profiler_event value = {sizeof value,
                                 record.name.c_str(),
                                 record.op.c_str(),
                                 record.shape.c_str(),
                                 record.device,
                                 record.stream,
                                 record.start_nanoseconds,
                                 record.duration_nanoseconds,
                                 record.bytes,
                                 record.flops,
                                 record.estimated_nanoseconds,
                                 record.implementation.c_str(),
                                 record.submit_nanoseconds,
                                 record.submit_duration_nanoseconds,
                                 record.thread};
    return copy_out(value, event, "event");
  });
}

size_t uhal_profiler_total_count(void) {
  std::lock_guard<std::mutex> lock(results().mutex);
  return results().totals.size();
}

uhal_status uhal_profiler_total_get(size_t index, uhal_profiler_total* total) {
  return guarded([&]() -> uhal_status {
    std::lock_guard<std::mutex> lock(results().mutex);
    if (index >= results().totals.size()) {
      return UHAL_FAIL(UHAL_OUT_OF_RANGE, "There is no total number %zu; the stopped recording has %zu.", index,
                       results().totals.size());
    }
    return copy_out(results().totals[index], total, "total");
  });
}

uhal_status uhal_profiler_write_trace(const char* path) {
  return guarded([&]() -> uhal_status {
    std::lock_guard<std::mutex> lock(results().mutex);
    return write_trace(results().records, path);
  });
}

void uhal_profiler_clear(void) { set_profile_records({}); }
