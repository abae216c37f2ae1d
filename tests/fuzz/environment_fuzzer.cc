// The environment variables of core and stub. An input is text, one NAME=value a line.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "csrc/core/base/environment.h"
#include "stub/backend/settings.h"
#include "tests/fuzz/expect.h"
#include "unihal/backend.h"

extern char** environ;

namespace {

// What the stub reported last, instead of to the core.
std::string reported;

void report(uhal_status, int32_t, const char*, const char* message) { reported = message; }

constexpr uhal_host kHost = {sizeof kHost, UHAL_ABI_MAJOR, UHAL_ABI_MINOR, report};

// The process's environment for as long as it lives: without setenv, which keeps a copy of every value.
class TemporaryEnvironment {
 public:
  explicit TemporaryEnvironment(std::string text) : text_(std::move(text)), before_(environ) {
    std::replace(text_.begin(), text_.end(), '\n', '\0');
    for (size_t start = 0; start < text_.size(); start += std::string_view(&text_[start]).size() + 1) {
      if (text_[start] != '\0') entries_.push_back(&text_[start]);
    }
    entries_.push_back(nullptr);
    environ = entries_.data();
  }
  ~TemporaryEnvironment() { environ = before_; }

 private:
  std::string text_;
  std::vector<char*> entries_;
  char** before_;
};

}  // namespace

namespace unihal::stub {

const uhal_host& host() { return kHost; }

}  // namespace unihal::stub

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  TemporaryEnvironment temporary(std::string(reinterpret_cast<const char*>(data), size));
  const unihal::core::Environment core = unihal::core::read_environment();
  FUZZ_EXPECT(core.complaint.empty() || core.complaint.find("UNIHAL_") != std::string::npos);
  unihal::core::overrides_in_force();

  unihal::stub::Settings stub;
  reported.clear();
  if (unihal::stub::read_settings(&stub) == UHAL_OK) {
    FUZZ_EXPECT(stub.devices >= 1 && stub.devices <= 64);
    FUZZ_EXPECT(stub.memory > 0);
  } else {
    FUZZ_EXPECT(reported.find("UNIHAL_STUB") != std::string::npos);
  }
  return 0;
}
