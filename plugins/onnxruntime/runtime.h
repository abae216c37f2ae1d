// unihal's devices as ONNX Runtime names them, and its failures as ONNX Runtime reports them.
//
// A memory device of ONNX Runtime is a type (GPU), a vendor's number and a device's number. Ours has a vendor's number
// of its own for each device type of unihal, which no hardware has, and the ordinal as its number: so that several
// types fit into one process, beside other providers for the same card.
#pragma once

#include <memory>
#include <string>

#include "plugins/onnxruntime/ort.h"
#include "unihal/device.h"
#include "unihal/memory.h"
#include "unihal/stream.h"

namespace unihal::onnxruntime {

// Throws what unihal's error record says.
[[noreturn]] void raise(uhal_status status);
inline void check(uhal_status status) {
  if (__builtin_expect(status != UHAL_OK, 0)) raise(status);
}

// A device of unihal.
struct Place {
  size_t type = 0;  // its number among unihal's device types
  int32_t ordinal = 0;

  const char* type_name() const;
  uint32_t vendor_id() const;
  uhal_device* open() const;  // throws
};

// Whether memory is that of one of our devices, and of which one.
bool find_place(const OrtMemoryDevice* memory, Place* place);
bool is_host(const OrtMemoryDevice* memory);

// A stream, destroyed with the last that refers to it.
class Stream {
 public:
  explicit Stream(uhal_device* device) : device(device) { check(uhal_stream_create(device, &handle)); }
  ~Stream() { uhal_stream_destroy(handle); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  uhal_device* const device;
  uhal_stream* handle = nullptr;
};

// What ONNX Runtime asks a provider and its factory for. All of it keeps what it needs.

// Memory of a device. `stream` is that for whose work memory is given back; NULL: giving back waits for the device.
// Fails for a tensor whose memory could not be allocated, with the allocation's message.
void require_memory(const void* data, size_t bytes);

OrtAllocator* make_allocator(uhal_device* device, uhal_memory_kind kind, std::shared_ptr<Stream> stream,
                             const OrtMemoryInfo* info);
void release_allocator(OrtAllocator* allocator);

OrtSyncStreamImpl* make_stream(std::shared_ptr<Stream> stream);
// The stream behind one of theirs; NULL for NULL.
uhal_stream* handle_of(const OrtSyncStream* stream);

OrtDataTransferImpl* make_data_transfer();

// Copies from memory of the host that may change as soon as this returns: through pinned memory, in the stream's order.
void copy_from_host(uhal_stream* stream, void* destination, const void* source, size_t bytes);

}  // namespace unihal::onnxruntime
