// Text as JSON.
#pragma once

#include <string>

namespace unihal::core {

// A JSON string literal, with quotes. Bytes that are not UTF-8 become U+FFFD; nullptr becomes "".
std::string json_string(const char* text);

}  // namespace unihal::core
