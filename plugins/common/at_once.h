// Errors of launches that have computed when they return, as the fast stub's: they can be those of the call that made
// them, where another device finds them later.
#pragma once

#include <string>

#include "unihal/device.h"
#include "unihal/op.h"
#include "unihal/status.h"
#include "unihal/stream.h"

namespace unihal {

// Whether a stream's launches have computed when they return, in memory of the host's.
inline bool computes_at_once(uhal_stream* stream) {
  static thread_local uhal_device* asked = nullptr;
  static thread_local bool at_once = false;
  uhal_device* const device = stream != nullptr ? uhal_stream_device(stream) : nullptr;
  if (device != asked) {
    uhal_device_properties properties = {};
    properties.struct_size = sizeof properties;
    at_once = uhal_device_properties_get(device, &properties) == UHAL_OK && properties.is_stub != 0 &&
              properties.unified_memory != 0;
    asked = device;
  }
  return at_once;
}

// Whether an op of this kind counts by numbers that may be outside of what they count.
inline bool counts_by_numbers(uhal_op_kind kind) {
  switch (kind) {
    case UHAL_OP_GATHER:
    case UHAL_OP_SCATTER:
    case UHAL_OP_GATHER_ND:
    case UHAL_OP_SCATTER_ND:
    case UHAL_OP_GATHER_ELEMENTS:
    case UHAL_OP_SCATTER_ELEMENTS:
    case UHAL_OP_SEGMENT_REDUCE:
    case UHAL_OP_CROSS_ENTROPY:
      return true;
    default:
      return false;
  }
}

// After launches on such a stream: UHAL_OUT_OF_RANGE if one met a number outside, which `message` says then and the
// stream forgets. Any other failure is that of earlier work. A stream that is being captured has computed nothing.
inline uhal_status met_outside(uhal_stream* stream, std::string* message) {
  int32_t done = 0;
  const uhal_status status = uhal_stream_query(stream, &done);
  if (status == UHAL_FAILED_PRECONDITION) return UHAL_OK;
  if (status != UHAL_OUT_OF_RANGE) return status;
  // The record tells of earlier work, as it does to who asks later.
  const std::string told = uhal_last_error()->message;
  const size_t begin = told.find(": ");
  *message = begin == std::string::npos ? told : told.substr(begin + 2);
  // Numbers that a copy on another stream failed to bring are no fault of the program's.
  const uhal_status others = uhal_device_synchronize(uhal_stream_device(stream));
  return others == UHAL_OK || others == UHAL_FAILED_PRECONDITION ? status : others;
}

}  // namespace unihal
