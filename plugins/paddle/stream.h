// Paddle's C_Stream, as we make it: Paddle's device context does not tell its device, so the stream does.
#pragma once

#include "unihal/stream.h"

namespace unihal::paddle {

struct Stream {
  uhal_stream* handle;
  uhal_device* device;
  int ordinal;
};

}  // namespace unihal::paddle
