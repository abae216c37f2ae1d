#include "stub/backend/profiles.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "csrc/backends/common/regular_file.h"

namespace unihal::stub {
namespace {

constexpr uint64_t operator""_MiB(unsigned long long count) { return count << 20; }
constexpr uint64_t operator""_GiB(unsigned long long count) { return count << 30; }

struct BuiltIn {
  const char* name;
  DeviceProfile profile;
};

// Where the figures come from:
//
// - Memory, compute units, boost clock, and peaks of the Radeon cards: AMD's product pages. The peak is 2 operations
//   x 64 lanes x compute units x boost clock; of RDNA 3 twice that, since it issues two instructions at a time. The
//   RX 580 with 4 GB has slower memory chips than the one with 8 GB (7 and 8 Gbit/s on 256 bits).
// - Wavefront: 64 lanes on GCN, 32 on RDNA as HIP reports it; 64 on Iluvatar's CoreX. 64 KiB of local memory per
//   work-group everywhere.
// - BI-V150: 32 GB for each of the card's two chips, which are two devices. Iluvatar publishes neither compute units
// nor
//   clock (0: unknown) nor, that we found, the peaks: those here are the published ones of its predecessor, the
//   BI-V100. Estimates are therefore on the slow side.
//
// Assumptions, not specifications:
//
// - The reserve: 256 MiB for firmware, page tables and one process' context, on a card that drives no display; 512 MiB
//   on the BI-V150.
// - The largest allocation: 85 % of the memory on Polaris, as AMD's OpenCL has it unless told otherwise; elsewhere all
//   but the reserve.
// - The launch latency: 10 us with OpenCL on Polaris, 6 us otherwise.
constexpr BuiltIn kProfiles[] = {
    {"rx580-4gb",
     {"AMD Radeon RX 580 4 GB", "AMD", 4_GiB, 256_MiB, 3481_MiB, kUsualLocalMemory, 36, 64, 1340, 6175, 224, 10'000}},
    {"rx580-8gb",
     {"AMD Radeon RX 580 8 GB", "AMD", 8_GiB, 256_MiB, 6963_MiB, kUsualLocalMemory, 36, 64, 1340, 6175, 256, 10'000}},
    {"rx6800xt",
     {"AMD Radeon RX 6800 XT", "AMD", 16_GiB, 256_MiB, 16128_MiB, kUsualLocalMemory, 72, 32, 2250, 20'740, 512, 6'000}},
    {"rx7900xtx",
     {"AMD Radeon RX 7900 XTX", "AMD", 24_GiB, 256_MiB, 24320_MiB, kUsualLocalMemory, 96, 32, 2500, 61'440, 960,
      6'000}},
    {"bi-v150",
     {"Iluvatar BI-V150", "Iluvatar CoreX", 32_GiB, 512_MiB, 32256_MiB, kUsualLocalMemory, 0, 64, 0, 37'000, 1200,
      6'000}},
};

constexpr size_t kLargestFile = size_t{64} << 10;

bool ends_with(const std::string& text, const char* end) {
  const size_t length = std::strlen(end);
  return text.size() >= length && text.compare(text.size() - length, length, end) == 0;
}

bool read_file(const std::string& path, std::string* text, std::string* complaint) {
  struct stat status;
  const int descriptor = open_regular_file(AT_FDCWD, path.c_str(), 0, &status);
  FILE* file = descriptor >= 0 ? fdopen(descriptor, "rb") : nullptr;
  if (file == nullptr) {
    *complaint = "'" + path + "' cannot be read: " + std::strerror(errno);
    return false;
  }
  text->resize(kLargestFile + 1);
  const size_t length = std::fread(&(*text)[0], 1, text->size(), file);
  const int error = std::ferror(file) != 0 ? errno : 0;
  std::fclose(file);
  text->resize(length);
  if (error != 0) {
    *complaint = "'" + path + "' cannot be read: " + std::strerror(error);
  } else if (length > kLargestFile) {
    *complaint = "'" + path + "' is no profile: it is larger than 64 KiB";
  }
  return error == 0 && length <= kLargestFile;
}

}  // namespace

const DeviceProfile* find_profile(const std::string& name) {
  for (const BuiltIn& row : kProfiles) {
    if (name == row.name) return &row.profile;
  }
  return nullptr;
}

std::string profile_names() {
  std::string names;
  for (const BuiltIn& row : kProfiles) names += (names.empty() ? "" : ", ") + std::string(row.name);
  return names;
}

bool load_profile(const std::string& name_or_path, DeviceProfile* profile, std::string* complaint) {
  if (const DeviceProfile* built_in = find_profile(name_or_path)) {
    *profile = *built_in;
    return true;
  }
  const bool is_path = name_or_path.find('/') != std::string::npos || ends_with(name_or_path, ".yaml") ||
                       ends_with(name_or_path, ".yml");
  if (!is_path) {
    *complaint = "there is no profile '" + name_or_path.substr(0, 80) + "'; expected " + profile_names() +
                 ", or the path of a file that ends with .yaml";
    return false;
  }
  std::string text;
  return read_file(name_or_path, &text, complaint) && parse_profile(text, name_or_path, profile, complaint);
}

}  // namespace unihal::stub
