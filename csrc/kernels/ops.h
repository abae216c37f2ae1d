// The ops of the ABI as kernels on a Queue: one row per kind, in the table of ops.cc.
#ifndef UNIHAL_KERNELS_OPS_H_
#define UNIHAL_KERNELS_OPS_H_

#include "csrc/backends/common/implementation_note.h"
#include "csrc/kernels/queue.h"
#include "unihal/backend.h"

namespace unihal::kernels {

// Why a device cannot run an op: nullptr if it can, else a message that names what and what to do (static or
// thread-local storage). Operand data may be NULL.
using Refuse = const char* (*)(const DeviceTraits& traits, const uhal_op& op);

// Submits a validated op that Refuse takes. Failures are reported through host().
using Run = uhal_status (*)(Queue& queue, const uhal_op& op);

struct OpRow {
  uhal_op_kind kind;
  Refuse refuse;
  Run run;
};

// The slots of a backend's table, for validated ops: what `supports` refuses `launch` refuses alike.
uhal_status supports(const DeviceTraits& traits, const uhal_op& op);
uhal_status launch(Queue& queue, const uhal_op& op);

// ops/: one file per family of kinds
#define UHAL_OP_KIND(number, KIND, name, family, ...)                         \
  const char* refuse_##family(const DeviceTraits& traits, const uhal_op& op); \
  uhal_status run_##family(Queue& queue, const uhal_op& op);
#include "csrc/tables/op_kinds.def"

// The core's services; set once by a backend's uhal_backend_query, before anything else here is called.
void set_host(const uhal_host* host);
const uhal_host& host();

// Says, for the profiler, what the op that is launched runs on.
template <class... Values>
void note_implementation(const char* format, Values... values) {
  unihal::note_implementation(host(), format, values...);
}

// A refusal with a printf-formatted reason, in thread-local storage until the next one.
const char* refusal(const char* format, ...) __attribute__((cold, format(printf, 1, 2)));

// Reports a failure with a printf-formatted message and returns `status`.
uhal_status fail(uhal_status status, const char* format, ...) __attribute__((cold, format(printf, 2, 3)));

// nullptr if the device computes with the dtypes of all operands, else the refusal that names the first it does not.
const char* refuse_dtypes(const DeviceTraits& traits, const uhal_op& op);

}  // namespace unihal::kernels

#endif  // UNIHAL_KERNELS_OPS_H_
