// Recordings as Chrome trace-event JSON: one process per device, one thread per stream.
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <set>

#include "csrc/core/base/json.h"
#include "csrc/core/profile/profiler.h"

namespace unihal::core {
namespace {

struct CloseFile {
  void operator()(FILE* file) const { fclose(file); }
};

// The elements of the array, with commas between.
class Events {
 public:
  explicit Events(FILE* file) : file_(file) {}

  void add_name(const char* what, int process, uint64_t thread, const std::string& name) {
    fprintf(file_, "%s{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%d,\"tid\":%" PRIu64 ",\"args\":{\"name\":%s}}",
            separator(), what, process, thread, json_string(name.c_str()).c_str());
  }

  // The format counts in microseconds.
  void add_work(const ProfileRecord& record, int process) {
    fprintf(file_,
            "%s{\"ph\":\"X\",\"name\":%s,\"cat\":\"op\",\"pid\":%d,\"tid\":%" PRIu64
            ",\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"op\":%s,\"shape\":%s,\"bytes\":%" PRIu64 ",\"flops\":%" PRIu64,
            separator(), json_string(record.name.c_str()).c_str(), process, record.stream,
            static_cast<double>(record.start_nanoseconds) / 1e3, static_cast<double>(record.duration_nanoseconds) / 1e3,
            json_string(record.op.c_str()).c_str(), json_string(record.shape.c_str()).c_str(), record.bytes,
            record.flops);
    if (record.estimated_nanoseconds > 0) {
      fprintf(file_, ",\"estimated_us\":%.3f", static_cast<double>(record.estimated_nanoseconds) / 1e3);
    }
    if (!record.implementation.empty()) {
      fprintf(file_, ",\"implementation\":%s", json_string(record.implementation.c_str()).c_str());
    }
    fprintf(file_, "}}");
  }

 private:
  const char* separator() {
    const char* text = first_ ? "\n" : ",\n";
    first_ = false;
    return text;
  }

  FILE* file_;
  bool first_ = true;
};

}  // namespace

uhal_status write_trace(const std::vector<ProfileRecord>& records, const char* path) {
  std::unique_ptr<FILE, CloseFile> file(path != nullptr ? fopen(path, "w") : nullptr);
  if (file == nullptr) {
    int cause = path != nullptr ? errno : ENOENT;
    return UHAL_FAIL(cause == ENOENT || cause == ENOTDIR ? UHAL_NOT_FOUND : UHAL_PERMISSION_DENIED,
                     "The trace file '%s' cannot be written: %s. Name a file in an existing, writable folder.",
                     path != nullptr ? path : "(NULL)", strerror(cause));
  }
  std::map<uhal_device*, int> processes;
  for (const ProfileRecord& record : records) {
    processes.emplace(record.device, static_cast<int>(processes.size()) + 1);
  }
  fprintf(file.get(), "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
  Events events(file.get());
  std::set<std::pair<int, uint64_t>> named;
  for (const auto& [device, process] : processes) events.add_name("process_name", process, 0, device->label);
  for (const ProfileRecord& record : records) {
    int process = processes[record.device];
    if (named.emplace(process, record.stream).second) {
      events.add_name("thread_name", process, record.stream, "stream " + std::to_string(record.stream));
    }
    events.add_work(record, process);
  }
  fprintf(file.get(), "\n]}\n");
  if (ferror(file.get()) == 0 && fflush(file.get()) == 0) return UHAL_OK;
  return UHAL_FAIL(UHAL_DATA_LOSS, "The trace file '%s' could not be written in full: %s. Free space on its disk.",
                   path, strerror(errno));
}

}  // namespace unihal::core
