#include "csrc/backends/common/lanes.h"

#include <cstdlib>

namespace unihal {

int lanes_of_capability(int major, int minor) {
  switch (major) {
    case 3:
      return 192;
    case 5:
      return 128;
    case 6:
      return minor == 0 ? 64 : 128;
    case 7:
      return 64;
    case 8:
      return minor == 0 ? 64 : 128;
    case 9:
    case 10:
    case 12:
      return 128;
    default:
      return 0;
  }
}

int lanes_of_gfx(const std::string& name) {
  if (name.rfind("gfx", 0) != 0) return 0;
  // The last two places are minor version and stepping, the stepping in hexadecimal: gfx90a is 9.0.10.
  const size_t end = name.find(':');
  const std::string digits = name.substr(3, end == std::string::npos ? end : end - 3);
  if (digits.size() < 3) return 0;
  const int major = std::atoi(digits.substr(0, digits.size() - 2).c_str());
  if (major < 6) return 0;
  return major < 10 ? 64 : major == 10 ? 128 : 256;
}

}  // namespace unihal
