// Owners of what the C ABI hands out. They hold no Python objects, so that a DLPack consumer may release them from a
// thread without the GIL.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "unihal/event.h"
#include "unihal/memory.h"
#include "unihal/stream.h"

namespace unihal::python {

// A device; owned by the core.
struct Device {
  uhal_device* handle;
};

// What work uses that was submitted and whose wait was interrupted. Deleted with the GIL.
class InFlight {
 public:
  virtual ~InFlight() = default;
};

// A stream: the caller's own, or the device's default one, which the core owns.
class Stream {
 public:
  Stream(const Device& device, bool is_default);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Waits for the stream's work and destroys it; no effect on a closed or default stream. If the wait is interrupted,
  // the stream stays as it is.
  void close();

  // Waits for the stream's work; UHAL_CANCELLED if a signal's handler raised.
  uhal_status synchronize();

  // Keeps something, which its work uses, until a wait for the work has ended.
  void keep(std::unique_ptr<InFlight> used);

  bool closed() const { return handle_ == nullptr; }
  uhal_device* device() const { return device_; }

  // The handle; an exception if the stream was closed.
  uhal_stream* get() const;

 private:
  uhal_device* device_;
  uhal_stream* handle_ = nullptr;
  bool is_default_;
  std::vector<std::unique_ptr<InFlight>> kept_;
};

// The device's own stream, the same object each time. Needs the GIL.
std::shared_ptr<Stream> default_stream(const Device& device);

class Event {
 public:
  explicit Event(const Device& device);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void close();
  uhal_event* get() const;

 private:
  uhal_event* handle_ = nullptr;
};

// A block of memory from the caching allocator. Views share it.
//
// It remembers the streams whose work used it, so that it can be freed without waiting: the memory goes back in the
// order of one of them, after that one was made to wait for the others.
class Allocation {
 public:
  Allocation(const Device& device, std::shared_ptr<Stream> stream, uhal_memory_kind kind, size_t bytes);
  ~Allocation();
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;

  // Frees the memory now. Throws BufferError while somebody looks at it (see Pin).
  void close();

  bool closed() const { return closed_; }
  void require_open() const;
  void used_on(const std::shared_ptr<Stream>& stream);

  uhal_device* device() const { return device_; }
  uhal_memory_kind kind() const { return kind_; }
  size_t bytes() const { return bytes_; }
  char* pointer() const { return pointer_; }

 private:
  friend class Pin;
  uhal_status release();

  uhal_device* device_;
  uhal_memory_kind kind_;
  size_t bytes_;
  char* pointer_ = nullptr;
  bool closed_ = false;
  std::atomic<int> pins_{0};
  std::vector<std::shared_ptr<Stream>> streams_;
};

// Keeps an allocation from being closed: while an op on it is submitted, or its memory is exported.
class Pin {
 public:
  explicit Pin(std::shared_ptr<Allocation> allocation);
  ~Pin();
  Pin(Pin&& other) noexcept = default;
  Pin& operator=(Pin&& other) = delete;

  const std::shared_ptr<Allocation>& allocation() const { return allocation_; }

 private:
  std::shared_ptr<Allocation> allocation_;
};

}  // namespace unihal::python
