// Device profiles: the figures of a card that the stub stands in for.
//
// Nothing here needs the core, so that it can be fuzzed by itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace unihal::stub {

struct DeviceProfile {
  char card[96];     // "AMD Radeon RX 580 4 GB"
  char vendor[64];   // "AMD"
  uint64_t memory;   // of the card, bytes
  uint64_t reserve;  // of that, what driver and context take
  uint64_t max_allocation;
  uint64_t local_memory;  // per work-group
  int32_t compute_units;  // 0 if unknown, as below
  int32_t wavefront_size;
  int32_t clock_megahertz;
  double peak_gigaflops_float32;
  double peak_gigabytes_per_second;
  int64_t launch_nanoseconds;
};

// What applies where a profile's file is silent.
inline constexpr uint64_t kUsualReserve = uint64_t{256} << 20;
inline constexpr uint64_t kUsualLocalMemory = uint64_t{64} << 10;

// The built-in profile of a name such as "rx580-4gb", or nullptr; and the names, comma-separated.
const DeviceProfile* find_profile(const std::string& name);
std::string profile_names();

// Parses a profile's text: "key: value" lines in the subset of YAML that docs/stub.md describes. If it is wrong: false,
// and *complaint names `file`, the line, and what was expected.
bool parse_profile(const std::string& text, const std::string& file, DeviceProfile* profile, std::string* complaint);

// What UNIHAL_STUB_PROFILE means: a built-in name, or the path of a file (anything with a '/' or that ends with .yaml
// or .yml). If it is wrong: false, and *complaint says what was expected.
bool load_profile(const std::string& name_or_path, DeviceProfile* profile, std::string* complaint);

}  // namespace unihal::stub
