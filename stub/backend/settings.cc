#include "stub/backend/settings.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "stub/common/kernels.h"

namespace unihal::stub {
namespace {

constexpr int32_t kMaxDevices = 64;

// Parses a whole number of decimal digits; *rest gets what follows it.
bool parse_digits(const char* text, uint64_t* value, const char** rest) {
  if (*text < '0' || *text > '9') return false;  // strtoull would take signs and blanks
  char* end = nullptr;
  errno = 0;
  *value = std::strtoull(text, &end, 10);
  *rest = end;
  return errno == 0;
}

bool parse_bytes(const char* text, uint64_t* bytes) {
  const char* rest = nullptr;
  if (!parse_digits(text, bytes, &rest) || *bytes == 0) return false;
  if (*rest == '\0') return true;
  const int shift = *rest == 'K' ? 10 : *rest == 'M' ? 20 : *rest == 'G' ? 30 : 0;
  if (shift == 0 || rest[1] != '\0' || *bytes > UINT64_MAX >> shift) return false;
  *bytes <<= shift;
  return true;
}

uhal_status read_profile(const char* name_or_path, Settings* settings) {
  std::string complaint;
  try {
    if (!load_profile(name_or_path, &settings->profile, &complaint)) {
      return fail(UHAL_INVALID_ARGUMENT, "UNIHAL_STUB_PROFILE: %s. Correct it or unset it.", complaint.c_str());
    }
  } catch (const std::bad_alloc&) {
    return fail(UHAL_RESOURCE_EXHAUSTED, "the host has no memory left to read the profile of UNIHAL_STUB_PROFILE");
  }
  settings->has_profile = true;
  settings->memory = settings->profile.memory - settings->profile.reserve;
  return UHAL_OK;
}

// A variable's value; nullptr if it is empty or not set.
const char* value_of(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr && *text != '\0' ? text : nullptr;
}

}  // namespace

uhal_status read_settings(Settings* settings) {
  if (const char* text = value_of("UNIHAL_STUB_DEVICES")) {
    uint64_t count = 0;
    const char* rest = nullptr;
    if (!parse_digits(text, &count, &rest) || *rest != '\0' || count < 1 || count > kMaxDevices) {
      return fail(UHAL_INVALID_ARGUMENT,
                  "UNIHAL_STUB_DEVICES is '%.80s'; expected a whole number from 1 to %d. Correct it or unset it.", text,
                  kMaxDevices);
    }
    settings->devices = static_cast<int32_t>(count);
  }
  if (const char* text = value_of("UNIHAL_STUB_PROFILE")) {
    if (const uhal_status status = read_profile(text, settings); status != UHAL_OK) return status;
  }
  // After the profile: a size that is asked for wins.
  if (const char* text = value_of("UNIHAL_STUB_MEMORY")) {
    if (!parse_bytes(text, &settings->memory)) {
      return fail(UHAL_INVALID_ARGUMENT,
                  "UNIHAL_STUB_MEMORY is '%.80s'; expected a number of bytes above 0, optionally with the suffix K, M "
                  "or G, such as 4G. Correct it or unset it.",
                  text);
    }
  }
  settings->max_allocation = settings->memory;
  if (settings->has_profile) {
    settings->max_allocation = std::min(settings->max_allocation, settings->profile.max_allocation);
  }
  if (const char* text = value_of("UNIHAL_STUB")) {
    if (std::strcmp(text, "strict") != 0 && std::strcmp(text, "fast") != 0) {
      return fail(UHAL_INVALID_ARGUMENT, "UNIHAL_STUB is '%.80s'; expected fast or strict. Correct it or unset it.",
                  text);
    }
    settings->strict = *text == 's';
  }
  if (const char* text = value_of("UNIHAL_STUB_SEED")) {
    const char* rest = nullptr;
    if (!parse_digits(text, &settings->seed, &rest) || *rest != '\0') {
      return fail(UHAL_INVALID_ARGUMENT,
                  "UNIHAL_STUB_SEED is '%.80s'; expected a whole number from 0 to 18446744073709551615. Correct it or "
                  "unset it.",
                  text);
    }
  }
  return UHAL_OK;
}

}  // namespace unihal::stub
