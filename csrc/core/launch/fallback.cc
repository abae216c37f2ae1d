#include "csrc/core/launch/fallback.h"

#include <deque>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include "csrc/core/base/environment.h"
#include "csrc/core/base/json.h"
#include "csrc/core/base/struct_size.h"
#include "unihal/fallback.h"

namespace unihal::core {
namespace {

using Key = std::tuple<std::string, std::string, std::string, std::string>;  // framework, op, dtype, reason

struct Entry {
  Key key;
  uint64_t count = 0;
};

// Never destroyed: entries' strings live as long as the process.
struct Account {
  std::mutex mutex;
  std::deque<Entry> entries;  // in order of first occurrence
  std::map<Key, Entry*> by_key;
  std::ofstream log;
  bool log_opened = false;
};

Account& account() {
  static Account* const instance = new Account;
  return *instance;
}

uhal_status append_to_log(Account& a, const Key& key) {
  const std::string& path = environment().fallback_log;
  if (path.empty()) return UHAL_OK;
  if (!a.log_opened) {
    a.log.open(path, std::ios::app);
    a.log_opened = true;
  }
  const auto& [framework, op, dtype, reason] = key;
  // Flushed line by line: the process may end at any time, and children append to the same file.
  a.log << "{\"framework\": " + json_string(framework.c_str()) + ", \"op\": " + json_string(op.c_str()) +
               ", \"dtype\": " + json_string(dtype.c_str()) + ", \"reason\": " + json_string(reason.c_str()) + "}\n"
        << std::flush;
  if (a.log) return UHAL_OK;
  return UHAL_FAIL(
      UHAL_PERMISSION_DENIED,
      "The environment variable UNIHAL_FALLBACK_LOG is '%s', but that file cannot be written; name one that "
      "can.",
      path.c_str());
}

std::string text_of(const char* text) { return text != nullptr ? text : ""; }

}  // namespace

uhal_status count_fallback(const std::string& framework, const std::string& op, const std::string& dtype,
                           const std::string& reason) {
  const Key key{framework, op, dtype, reason};
  uhal_status logged;
  {
    Account& a = account();
    std::lock_guard<std::mutex> lock(a.mutex);
    Entry*& entry = a.by_key[key];
    if (entry == nullptr) {
      a.entries.push_back({key, 0});
      entry = &a.entries.back();
    }
    ++entry->count;
    logged = append_to_log(a, key);
  }
  const uhal_status checked = check_environment();
  return checked != UHAL_OK ? checked : logged;
}

}  // namespace unihal::core

using namespace unihal::core;

uhal_status uhal_fallback_record(const uhal_fallback* fallback) {
  return guarded([&]() -> uhal_status {
    if (fallback == nullptr || fallback->struct_size < offsetof(uhal_fallback, count)) {
      return UHAL_FAIL(UHAL_INVALID_ARGUMENT,
                       "The fallback is NULL or its struct_size too short; set it to sizeof(uhal_fallback).");
    }
    const std::string framework = text_of(fallback->framework), op = text_of(fallback->op);
    const std::string dtype = text_of(fallback->dtype), reason = text_of(fallback->reason);
    const uhal_status counted = count_fallback(framework, op, dtype, reason);
    if (!environment().strict || !environment().complaint.empty()) return counted;
    return UHAL_FAIL(
        UHAL_UNIMPLEMENTED,
        "The %s op '%s'%s%s would run on the CPU: %s. UNIHAL_STRICT=1 forbids that; unset it to let the op "
        "fall back, or place it on the CPU explicitly.",
        framework.c_str(), op.c_str(), dtype.empty() ? "" : " of ", dtype.c_str(), reason.c_str());
  });
}

size_t uhal_fallback_count(void) {
  Account& a = account();
  std::lock_guard<std::mutex> lock(a.mutex);
  return a.entries.size();
}

uhal_status uhal_fallback_get(size_t index, uhal_fallback* fallback) {
  return guarded([&]() -> uhal_status {
    Account& a = account();
    std::lock_guard<std::mutex> lock(a.mutex);
    if (index >= a.entries.size()) {
      return UHAL_FAIL(UHAL_OUT_OF_RANGE, "There is no fallback number %zu; %zu were recorded.", index,
                       a.entries.size());
    }
    const Entry& entry = a.entries[index];
    const auto& [framework, op, dtype, reason] = entry.key;
    uhal_fallback value = {sizeof value, framework.c_str(), op.c_str(), dtype.c_str(), reason.c_str(), entry.count};
    return copy_out(value, fallback, "fallback");
  });
}

int32_t uhal_strict(void) { return environment().strict ? 1 : 0; }
