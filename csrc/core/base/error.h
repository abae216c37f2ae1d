// The calling thread's error record: how every failure in the core is reported.
#pragma once

#include <new>
#include <string>

#include "unihal/status.h"

namespace unihal::core {

// Fills the record with a printf-formatted message and returns `status`. Cold, so that what leads there is kept out of
// the code that a launch goes through: it runs every line once, and so waits for each to come from a farther cache.
uhal_status report_error(const char* file, int line, uhal_status status, const char* format, ...)
    __attribute__((cold, format(printf, 4, 5)));

#define UHAL_FAIL(status, ...) ::unihal::core::report_error(__FILE__, __LINE__, status, __VA_ARGS__)

// Returns the first failure of a list of expectations.
#define UHAL_EXPECT(expectation)                                                                    \
  if (uhal_status expected_status = (expectation); __builtin_expect(expected_status != UHAL_OK, 0)) \
  return expected_status

// Fills the record on behalf of a backend (host->report).
void report_native_error(uhal_status status, int32_t native_code, const char* native_name, const char* message);

// Adds to the message of the present record.
void append_error(const char* format, ...) __attribute__((cold, format(printf, 1, 2)));

// Names the op, the device or the vendor library's own error of the present record.
void set_error_op(const char* description) __attribute__((cold));
void set_error_device(const char* label) __attribute__((cold));
void set_error_native(int32_t code, const char* name) __attribute__((cold));

// Grows with each failure on this thread: tells whether a backend's slot has reported one.
uint64_t error_serial();

// The failures since error_serial() was `serial` were made up for: the record is as it was then, or, if there were
// several, empty.
void forget_errors_since(uint64_t serial);

// Keeps the record as it was before an attempt that may fail without failing the caller.
class ErrorRecordKeeper {
 public:
  ErrorRecordKeeper();
  ~ErrorRecordKeeper();
  ErrorRecordKeeper(const ErrorRecordKeeper&) = delete;
  ErrorRecordKeeper& operator=(const ErrorRecordKeeper&) = delete;

  // The record of the attempt stays.
  void keep_latest();

 private:
  struct Saved;
  Saved* saved_;
};

// Runs the body of a C function; no C++ exception leaves it.
template <class Body>
uhal_status guarded(Body&& body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return UHAL_FAIL(UHAL_RESOURCE_EXHAUSTED, "The host is out of memory. Close other programs, or use smaller data.");
  } catch (...) {
    return UHAL_FAIL(UHAL_INTERNAL, "An unexpected C++ exception in the core. Please report it with this program.");
  }
}

}  // namespace unihal::core
