// Text of a user's as messages quote it.
#pragma once

#include <string>

namespace unihal::stub {

inline std::string quoted(const std::string& text) {
  constexpr size_t kShownLength = 80;
  return "'" + (text.size() <= kShownLength ? text : text.substr(0, kShownLength) + "...") + "'";
}

}  // namespace unihal::stub
