#include "csrc/core/check/race_reports.h"

#include <cinttypes>
#include <cstdio>
#include <deque>
#include <mutex>
#include <set>
#include <string>

#include "csrc/core/base/error.h"
#include "csrc/core/base/struct_size.h"
#include "csrc/core/handle/device.h"
#include "unihal/check.h"

namespace unihal::core {
namespace {

constexpr size_t kMostKept = 1000;

struct Race {
  Access earlier;
  Access later;
};

struct Reports {
  std::mutex mutex;  // guards the fields below
  size_t count = 0;
  std::deque<Race> kept;
  std::set<std::string> printed;  // pairs of works and sites
};

Reports& reports() {
  static Reports* const instance = new Reports;
  return *instance;
}

std::string stream_name(const Work& work) {
  return work.stream == Work::kHost ? "the host" : "stream " + std::to_string(work.stream);
}

std::string describe_access(const char* which, const Access& access) {
  const Operand& operand = access.operand();
  char range[96];
  snprintf(range, sizeof range, "%" PRIu64 " bytes at 0x%" PRIxPTR,
           static_cast<uint64_t>(operand.bytes.end() - operand.bytes.begin()), operand.bytes.begin());
  return std::string("  ") + which + ": " + access.work->text + "\n    " + stream_name(*access.work) +
         (operand.writes ? " writes " : " reads ") + operand.role + ", " + range +
         (operand.bytes.dense() ? "" : " (some of them)") + "\n    submitted at " + access.work->site + "\n";
}

// What the program could do about it.
std::string advice(const Work& earlier, const Work& later) {
  const std::string first = stream_name(earlier), second = stream_name(later);
  if (later.stream == Work::kHost) {
    return "synchronize " + first + " before, or free the memory in the order of " + first + ".";
  }
  return "record an event on " + first + " after the earlier one and let " + second +
         " wait for it before the later one, or synchronize " + first + " in between.";
}

std::string describe_race(const Access& earlier, const Access& later) {
  return "unihal: race on " + later.work->device->label +
         ": two accesses of the same bytes that nothing orders (UHAL_CHECK_RACES).\n" +
         describe_access("earlier", earlier) + describe_access("later", later) +
         "  To order them: " + advice(*earlier.work, *later.work) + "\n";
}

uhal_race_access as_side(const Access& access) {
  const Operand& operand = access.operand();
  const Work& work = *access.work;
  return {sizeof(uhal_race_access),
          work.text.c_str(),
          operand.role,
          work.site.c_str(),
          work.stream,
          operand.writes ? 1 : 0,
          operand.bytes.begin(),
          operand.bytes.end() - operand.bytes.begin()};
}

}  // namespace

void report_race(const Access& earlier, const Access& later) {
  const std::string pair =
      earlier.work->text + '\n' + earlier.work->site + '\n' + later.work->text + '\n' + later.work->site;
  std::lock_guard<std::mutex> lock(reports().mutex);
  ++reports().count;
  if (reports().kept.size() < kMostKept) reports().kept.push_back({earlier, later});
  if (reports().printed.size() >= kMostKept || !reports().printed.insert(pair).second) return;
  fputs(describe_race(earlier, later).c_str(), stderr);
}

}  // namespace unihal::core

using namespace unihal::core;

size_t uhal_race_count(void) {
  std::lock_guard<std::mutex> lock(reports().mutex);
  return reports().count;
}

uhal_status uhal_race_get(size_t index, uhal_device** device, uhal_race_access* earlier, uhal_race_access* later) {
  return guarded([&]() -> uhal_status {
    std::lock_guard<std::mutex> lock(reports().mutex);
    if (index >= reports().kept.size()) {
      return UHAL_FAIL(UHAL_OUT_OF_RANGE, "There is no race %zu; %zu are kept of %zu found.", index,
                       reports().kept.size(), reports().count);
    }
    const Race& race = reports().kept[index];
    if (uhal_status status = copy_out(as_side(race.earlier), earlier, "earlier"); status != UHAL_OK) return status;
    if (uhal_status status = copy_out(as_side(race.later), later, "later"); status != UHAL_OK) return status;
    if (device != nullptr) *device = race.later.work->device;
    return UHAL_OK;
  });
}

void uhal_race_clear(void) {
  std::lock_guard<std::mutex> lock(reports().mutex);
  reports().count = 0;
  reports().kept.clear();
  reports().printed.clear();
}
