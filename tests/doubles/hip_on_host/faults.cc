#include "tests/doubles/hip_on_host/faults.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <sstream>
#include <string>

#include "tests/doubles/hip_on_host/vendor.h"

namespace on_host {
namespace {

struct Rule {
  int code = 0;
  int after = 0;
  int times = 0;
};

struct State {
  std::mutex mutex;
  std::map<std::string, Rule> rules;
  std::map<std::string, int> calls;
};

// FUNCTION=CODE[@AFTER[xTIMES]],...
void read_rules(const char* text, std::map<std::string, Rule>* rules) {
  std::istringstream items(text);
  for (std::string item; std::getline(items, item, ',');) {
    const size_t equals = item.find('=');
    Rule rule;
    rule.times = 1;
    if (equals == std::string::npos ||
        std::sscanf(item.c_str() + equals + 1, "%d@%dx%d", &rule.code, &rule.after, &rule.times) < 1) {
      std::fprintf(stderr, "HIP_ON_HOST_FAULTS has '%s'; expected FUNCTION=CODE[@AFTER[xTIMES]]\n", item.c_str());
      std::abort();
    }
    (*rules)[item.substr(0, equals)] = rule;
  }
}

State& state() {
  static State* const instance = [] {
    State* made = new State;
    if (const char* text = std::getenv("HIP_ON_HOST_FAULTS")) read_rules(text, &made->rules);
    return made;
  }();
  return *instance;
}

}  // namespace

int failure(const char* function) {
  std::lock_guard<std::mutex> lock(state().mutex);
  ++state().calls[function];
  const auto found = state().rules.find(function);
  if (found == state().rules.end() || found->second.times == 0) return 0;
  Rule& rule = found->second;
  if (rule.after > 0) {
    --rule.after;
    return 0;
  }
  if (rule.times > 0) --rule.times;
  return rule.code;
}

bool is_asked_for(const char* function) {
  std::lock_guard<std::mutex> lock(state().mutex);
  const auto found = state().rules.find(function);
  return found != state().rules.end() && found->second.times != 0;
}

}  // namespace on_host

ON_HOST_EXPORT void on_host_fail(const char* function, int code, int after, int times) {
  std::lock_guard<std::mutex> lock(on_host::state().mutex);
  on_host::state().rules[function] = {code, after, times};
}

ON_HOST_EXPORT int on_host_calls(const char* function) {
  std::lock_guard<std::mutex> lock(on_host::state().mutex);
  return on_host::state().calls[function];
}
