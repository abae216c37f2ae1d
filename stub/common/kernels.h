// The stub's kernels: one row per op kind, in the table of stub/ops/launch.cc.
//
// Kernels run at once, on the calling thread and the OpenMP pool (libgomp, which oneDNN shares).
#pragma once

#include "unihal/backend.h"

namespace unihal::stub {

// Why an op is not supported: nullptr if it is, else a message that names what and what to do (static or
// thread-local storage). Operand data may be null.
using Refuse = const char* (*)(const uhal_op& op);

// A launch: the op, and the core's handle of the stream it was given to (for host().stream_error and
// host().workspace).
struct Launch {
  const uhal_op& op;
  uhal_stream* stream;
};

// Runs a supported, validated op. Failures are reported through host().
using Run = uhal_status (*)(const Launch& launch);

struct Kernel {
  uhal_op_kind kind;
  Refuse refuse;
  Run run;
};

// stub/ops: one pair of functions per family of kinds.
#define UHAL_OP_KIND(number, KIND, name, family, ...) \
  const char* refuse_##family(const uhal_op& op);     \
  uhal_status run_##family(const Launch& launch);
#include "csrc/tables/op_kinds.def"

// The core's services, set by uhal_backend_query before any kernel runs.
const uhal_host& host();

// A refusal with a printf-formatted reason, in thread-local storage until the next one.
const char* refusal(const char* format, ...) __attribute__((cold, format(printf, 1, 2)));

// Reports a failure with a printf-formatted message and returns `status`.
uhal_status fail(uhal_status status, const char* format, ...) __attribute__((cold, format(printf, 2, 3)));

}  // namespace unihal::stub
