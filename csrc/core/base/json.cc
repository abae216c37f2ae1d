#include "csrc/core/base/json.h"

#include <cstdio>
#include <cstring>

namespace unihal::core {
namespace {

// Length of the UTF-8 character at `text`, 0 if it is none.
size_t utf8_length(const unsigned char* text) {
  size_t length = text[0] < 0x80                      ? 1
                  : text[0] >= 0xc2 && text[0] < 0xe0 ? 2
                  : text[0] >= 0xe0 && text[0] < 0xf0 ? 3
                  : text[0] >= 0xf0 && text[0] < 0xf5 ? 4
                                                      : 0;
  for (size_t i = 1; i < length; ++i) {
    if ((text[i] & 0xc0) != 0x80) return 0;
  }
  // Overlong forms, surrogates, and beyond U+10FFFF.
  if ((text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xed && text[1] > 0x9f) ||
      (text[0] == 0xf0 && text[1] < 0x90) || (text[0] == 0xf4 && text[1] > 0x8f)) {
    return 0;
  }
  return length;
}

}  // namespace

std::string json_string(const char* text) {
  std::string literal = "\"";
  for (const auto* p = reinterpret_cast<const unsigned char*>(text != nullptr ? text : ""); *p != 0;) {
    if (*p == '"' || *p == '\\') {
      literal += '\\';
      literal += static_cast<char>(*p++);
    } else if (*p < 0x20) {
      char escape[8];
      snprintf(escape, sizeof escape, "\\u%04x", *p++);
      literal += escape;
    } else if (size_t length = utf8_length(p); length > 0) {
      literal.append(reinterpret_cast<const char*>(p), length);
      p += length;
    } else {
      literal += "\\ufffd";
      ++p;
    }
  }
  return literal + "\"";
}

}  // namespace unihal::core
