#include "csrc/core/base/environment.h"

#include <unistd.h>  // environ

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "csrc/core/base/error.h"

namespace unihal::core {
namespace {

// Variables of vendor runtimes that change which devices are seen, or what they claim to be.
const char* const kVendorOverrides[] = {
    "HSA_OVERRIDE_GFX_VERSION", "HIP_VISIBLE_DEVICES",  "ROCR_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",       "CUDA_VISIBLE_DEVICES", "OCL_ICD_VENDORS",
    "OCL_ICD_FILENAMES",        "RUSTICL_ENABLE",       "POCL_DEVICES",
};

// environment.def has them in one table, with what they mean.
constexpr const char* kKnownVariables[] = {
#define UNIHAL_VARIABLE(name, read_in, otherwise, meaning) #name,
#include "csrc/tables/environment.def"
#undef UNIHAL_VARIABLE
};

std::string value_of(const char* name) {
  const char* value = getenv(name);
  return value != nullptr ? value : "";
}

void complain(Environment* environment, const char* name, const std::string& value, const std::string& allowed) {
  environment->complaint += std::string(environment->complaint.empty() ? "" : " ") + "The environment variable " +
                            name + " is '" + value + "', but must be " + allowed + "; correct or unset it.";
}

void parse_switch(Environment* environment, const char* name, bool* on) {
  std::string value = value_of(name);
  if (value == "1") {
    *on = true;
  } else if (!value.empty() && value != "0") {
    complain(environment, name, value, "0 or 1");
  }
}

bool is_override(const char* entry) {
  if (strncmp(entry, "UNIHAL_", 7) == 0) return true;
  for (const char* name : kVendorOverrides) {
    size_t length = strlen(name);
    if (strncmp(entry, name, length) == 0 && entry[length] == '=') return true;
  }
  return false;
}

}  // namespace

Environment read_environment() {
  Environment result;
  result.backend = value_of("UNIHAL_BACKEND");
  result.backend_path = value_of("UNIHAL_BACKEND_PATH");
  result.fallback_log = value_of("UNIHAL_FALLBACK_LOG");
  result.profile = value_of("UNIHAL_PROFILE");
  parse_switch(&result, "UNIHAL_STRICT", &result.strict);
  parse_switch(&result, "UNIHAL_CHECK_NAN", &result.check_nan);
  parse_switch(&result, "UNIHAL_CHECK_RACES", &result.check_races);
  parse_switch(&result, "UNIHAL_CHECK_MEMORY", &result.check_memory);
  std::string limit = value_of("UNIHAL_MEMORY_LIMIT");
  if (!limit.empty() && !parse_bytes(limit, &result.memory_limit)) {
    complain(&result, "UNIHAL_MEMORY_LIMIT", limit, "a number of bytes, or one with the suffix K, M or G (such as 4G)");
  }
  if (!value_of("UNIHAL_CHECK_LEAK_BYTES").empty() &&
      !parse_bytes(value_of("UNIHAL_CHECK_LEAK_BYTES"), &result.leak_bytes)) {
    complain(&result, "UNIHAL_CHECK_LEAK_BYTES", value_of("UNIHAL_CHECK_LEAK_BYTES"),
             "a number of bytes, or one with the suffix K, M or G (such as 64K)");
  }
  uint64_t code = 0;
  const std::string exit_code = value_of("UNIHAL_CHECK_EXIT_CODE");
  if (!exit_code.empty() && (!parse_bytes(exit_code, &code) || code < 1 || code > 255)) {
    complain(&result, "UNIHAL_CHECK_EXIT_CODE", exit_code, "a number from 1 to 255");
  }
  result.check_exit_code = static_cast<int>(code);
  return result;
}

namespace {

// Insertions, deletions and changes from one text to the other.
size_t distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0]++;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t changed = diagonal + (a[i - 1] != b[j - 1] ? 1 : 0);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
    }
  }
  return row[b.size()];
}

bool is_known(const std::string& name) {
  return std::find(std::begin(kKnownVariables), std::end(kKnownVariables), name) != std::end(kKnownVariables);
}

// Of other programs that share the prefix: the build's own options, and what tests tell themselves.
bool is_of_others(const std::string& name) { return name.rfind("UNIHAL_TESTS_", 0) == 0 || name == "UNIHAL_SITE"; }

}  // namespace

std::string unknown_variables(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    if (is_of_others(name) || is_known(name)) continue;
    const char* nearest = kKnownVariables[0];
    for (const char* known : kKnownVariables) {
      if (distance(name, known) < distance(name, nearest)) nearest = known;
    }
    text += (text.empty() ? "unihal: " : "; ") + name + " is set, but there is no such variable";
    // Half of a name's own part is still a typing error; more is another word.
    if (distance(name, nearest) <= std::max<size_t>(2, (name.size() - 7) / 3)) {
      text += ": " + std::string(nearest) + " is the nearest";
    }
  }
  return text.empty() ? text : text + ". docs/environment.md has them all.\n";
}

void name_unknown_variables() {
  static std::atomic<bool> named{false};
  if (named.exchange(true)) return;
  std::vector<std::string> names;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const char* equals = strchr(*entry, '=');
    if (strncmp(*entry, "UNIHAL_", 7) == 0 && equals != nullptr && equals[1] != '\0') {
      names.emplace_back(*entry, static_cast<size_t>(equals - *entry));
    }
  }
  std::sort(names.begin(), names.end());
  fputs(unknown_variables(names).c_str(), stderr);
}

uhal_status check_environment() {
  if (environment().complaint.empty()) return UHAL_OK;
  return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "%s", environment().complaint.c_str());
}

std::string overrides_in_force() {
  std::string text;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    if (is_override(*entry)) text += (text.empty() ? "" : ", ") + std::string(*entry);
  }
  return text;
}

bool parse_bytes(const std::string& text, uint64_t* bytes) {
  size_t digits = text.find_first_not_of("0123456789");
  if (digits == std::string::npos) digits = text.size();
  if (digits == 0 || digits > 19) return false;
  uint64_t number = strtoull(text.c_str(), nullptr, 10);
  std::string suffix = text.substr(digits);
  int shift = suffix.empty() ? 0 : suffix == "K" ? 10 : suffix == "M" ? 20 : suffix == "G" ? 30 : -1;
  if (shift < 0 || number > (UINT64_MAX >> shift)) return false;
  *bytes = number << shift;
  return true;
}

}  // namespace unihal::core
