// What the suites of the strict mode share. ctest runs each test in a process of its own.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "unihal/device.h"
#include "unihal/memory.h"
#include "unihal/op.h"
#include "unihal/stream.h"

namespace strict_test {

inline std::string message() { return uhal_last_error()->message; }

// Aborts the test program with the message of a failed call.
void require(uhal_status status);

// A device of the stub in strict mode.
uhal_device* device(int32_t ordinal = 0);
uhal_stream* new_stream(int32_t ordinal = 0);
void* allocate(size_t bytes, uhal_memory_kind kind = UHAL_MEMORY_DEVICE, int32_t ordinal = 0);

// Fills int32 elements, by the op.
void submit_fill(uhal_stream* stream, void* data, int64_t elements, int64_t value);

// y += x over int32 elements.
void submit_add(uhal_stream* stream, void* y, const void* x, int64_t elements);

// The elements as they are when the stream has run.
std::vector<int32_t> read(uhal_stream* stream, const void* data, size_t elements);

// Keeps a stream from running what is submitted after it, until opened.
class Gate {
 public:
  explicit Gate(uhal_stream* stream);
  ~Gate() { open(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  void open();

 private:
  // Owned by the gate, or by the stream if that comes later.
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool open = false;
  };
  std::shared_ptr<State> state_;
};

}  // namespace strict_test
