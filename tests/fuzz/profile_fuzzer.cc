// The text of a device profile (docs/stub.md), as in the file that UNIHAL_STUB_PROFILE names.
#include <cstring>

#include "stub/backend/profiles.h"
#include "tests/fuzz/expect.h"

namespace {

template <size_t length>
bool is_text(const char (&text)[length]) {
  return memchr(text, '\0', length) != nullptr;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  unihal::stub::DeviceProfile profile = {};
  std::string complaint;
  if (!unihal::stub::parse_profile(text, "fuzzed.yaml", &profile, &complaint)) {
    FUZZ_EXPECT(complaint.find("fuzzed.yaml") != std::string::npos);
    return 0;
  }
  FUZZ_EXPECT(is_text(profile.card) && is_text(profile.vendor));
  FUZZ_EXPECT(profile.memory > profile.reserve);
  FUZZ_EXPECT(profile.max_allocation > 0 && profile.max_allocation <= profile.memory);
  FUZZ_EXPECT(profile.compute_units >= 0 && profile.wavefront_size >= 0 && profile.clock_megahertz >= 0);
  FUZZ_EXPECT(profile.peak_gigaflops_float32 >= 0 && profile.peak_gigabytes_per_second >= 0);
  FUZZ_EXPECT(profile.launch_nanoseconds >= 0);
  return 0;
}
