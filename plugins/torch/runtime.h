// Devices and streams: PyTorch's numbers of them, and unihal's handles.
//
// The current device and the current stream of each device are a thread's own, as PyTorch has it. Stream 0 is the
// device's default stream; the others come from a pool, whose streams are created when they are first asked for and
// then shared.
#pragma once

#include "plugins/torch/pytorch.h"
#include "unihal/device.h"
#include "unihal/status.h"

namespace unihal::pytorch {

// Raises what PyTorch's users expect of a failure, with the error record's message: torch.OutOfMemoryError of
// RESOURCE_EXHAUSTED, NotImplementedError of UNIMPLEMENTED, IndexError of OUT_OF_RANGE, else RuntimeError.
[[noreturn]] void raise(uhal_status status);
inline void check(uhal_status status) {
  if (C10_UNLIKELY(status != UHAL_OK)) raise(status);
}

// The device type that the process asked for; set once, before PyTorch hears of the device.
void set_device_type(const char* name, int count);
const char* device_type();

c10::DeviceIndex device_count();
uhal_device* device(c10::DeviceIndex index);

c10::DeviceIndex current_device();
void set_current_device(c10::DeviceIndex index);

uhal_stream* stream_handle(c10::DeviceIndex device, c10::StreamId id);
inline uhal_stream* stream_handle(const c10::Stream& stream) {
  return stream_handle(stream.device_index(), stream.id());
}
c10::StreamId current_stream_id(c10::DeviceIndex device);
// Gives the one before.
c10::StreamId exchange_stream_id(c10::DeviceIndex device, c10::StreamId id);
inline uhal_stream* current_stream(c10::DeviceIndex device) { return stream_handle(device, current_stream_id(device)); }
c10::StreamId next_pool_stream();

}  // namespace unihal::pytorch
