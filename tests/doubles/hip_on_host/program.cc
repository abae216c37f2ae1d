#include "tests/doubles/hip_on_host/program.h"

#include <cctype>
#include <cstring>

namespace on_host {
namespace {

constexpr char kMagic[] = "ON_HOST ";
constexpr size_t kMagicBytes = sizeof kMagic - 1;

bool is_of_a_word(char letter) { return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_'; }

}  // namespace

std::string make_binary(const std::string& architecture, const std::string& text) {
  return kMagic + architecture + "\n" + text;
}

bool read_binary(const void* image, std::string* architecture, std::string* text) {
  const char* const begin = static_cast<const char*>(image);
  if (begin == nullptr || std::strncmp(begin, kMagic, kMagicBytes) != 0) return false;
  const char* const end = std::strchr(begin, '\n');
  if (end == nullptr) return false;
  architecture->assign(begin + kMagicBytes, end);
  *text = end + 1;
  return true;
}

bool has_kernel(const Program& program, const std::string& name) {
  for (size_t at = program.text.find(name); at != std::string::npos; at = program.text.find(name, at + 1)) {
    const bool begins = at == 0 || !is_of_a_word(program.text[at - 1]);
    const bool ends = at + name.size() == program.text.size() || !is_of_a_word(program.text[at + name.size()]);
    if (begins && ends && !name.empty()) return true;
  }
  return false;
}

}  // namespace on_host
