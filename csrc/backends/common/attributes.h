// Reading an op's attributes: defaults where the caller gave none or was compiled against a shorter struct.
#pragma once

#include <algorithm>
#include <cstring>

#include "unihal/op.h"

namespace unihal {

template <typename Attributes>
Attributes attributes_or(const uhal_op& op, const Attributes& defaults) {
  Attributes attributes = defaults;
  if (op.attributes == nullptr) return attributes;
  size_t given;
  std::memcpy(&given, op.attributes, sizeof given);
  std::memcpy(static_cast<void*>(&attributes), op.attributes, std::min(given, sizeof attributes));
  return attributes;
}

}  // namespace unihal
