#include "csrc/core/base/error.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace unihal::core {

// Fixed buffers: a failure allocates nothing, and a thread that ends has nothing to destroy.
struct ErrorRecord {
  uhal_error error;
  char native_name[96];
  char message[8192];
  char op[1024];
  char device[128];
  char file[128];
};

// Written in turn: the one before the latest failure stays, for who makes up for that failure.
struct ErrorRecords {
  ErrorRecord two[2];
  int latest;
  uint64_t serial;
};

namespace {

thread_local ErrorRecords records;

ErrorRecord& latest() { return records.two[records.latest]; }

void store(char* buffer, size_t capacity, const char* text) { snprintf(buffer, capacity, "%s", text ? text : ""); }

void link_buffers() {
  ErrorRecord& record = latest();
  record.error.struct_size = sizeof(uhal_error);
  record.error.native_name = record.native_name;
  record.error.message = record.message;
  record.error.op = record.op;
  record.error.device = record.device;
  record.error.file = record.file;
}

void clear(const char* file, int line, uhal_status status) {
  link_buffers();
  ErrorRecord& record = latest();
  record.error.status = status;
  record.error.native_code = 0;
  record.error.line = line;
  record.native_name[0] = record.message[0] = record.op[0] = record.device[0] = '\0';
  store(record.file, sizeof record.file, file);
}

void start_record(const char* file, int line, uhal_status status) {
  ++records.serial;
  records.latest ^= 1;
  clear(file, line, status);
}

}  // namespace

uhal_status report_error(const char* file, int line, uhal_status status, const char* format, ...) {
  // The arguments may point into the record that is replaced.
  char message[sizeof latest().message];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  start_record(file, line, status);
  memcpy(latest().message, message, strlen(message) + 1);
  return status;
}

void report_native_error(uhal_status status, int32_t native_code, const char* native_name, const char* message) {
  start_record("", 0, status);
  ErrorRecord& record = latest();
  record.error.native_code = native_code;
  store(record.native_name, sizeof record.native_name, native_name);
  store(record.message, sizeof record.message, message);
}

void append_error(const char* format, ...) {
  ErrorRecord& record = latest();
  size_t used = strlen(record.message);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(record.message + used, sizeof record.message - used, format, arguments);
  va_end(arguments);
}

void set_error_op(const char* description) { store(latest().op, sizeof latest().op, description); }

void set_error_device(const char* label) { store(latest().device, sizeof latest().device, label); }

void set_error_native(int32_t code, const char* name) {
  ErrorRecord& record = latest();
  record.error.native_code = code;
  store(record.native_name, sizeof record.native_name, name);
}

__attribute__((hot)) uint64_t error_serial() { return records.serial; }

void forget_errors_since(uint64_t serial) {
  if (records.serial == serial) return;
  if (records.serial == serial + 1) {
    records.latest ^= 1;
  } else {
    uhal_clear_error();  // the record of then was written over
  }
}

struct ErrorRecordKeeper::Saved {
  ErrorRecords records;
};

ErrorRecordKeeper::ErrorRecordKeeper() : saved_(new Saved{records}) {}

ErrorRecordKeeper::~ErrorRecordKeeper() {
  if (saved_ == nullptr) return;
  records = saved_->records;
  delete saved_;
}

void ErrorRecordKeeper::keep_latest() {
  delete saved_;
  saved_ = nullptr;
}

}  // namespace unihal::core

using namespace unihal::core;

const uhal_error* uhal_last_error(void) {
  link_buffers();
  return &latest().error;
}

void uhal_clear_error(void) { clear("", 0, UHAL_OK); }
