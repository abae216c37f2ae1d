// The ops of the ABI as kernels on a Queue: one row per kind, in the table of ops.cc.
#ifndef UNIHAL_KERNELS_OPS_H_
#define UNIHAL_KERNELS_OPS_H_

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

// ops/: one file per family
const char* refuse_map(const DeviceTraits&, const uhal_op&);
uhal_status run_map(Queue&, const uhal_op&);
const char* refuse_copy(const DeviceTraits&, const uhal_op&);  // copy and cast
uhal_status run_copy(Queue&, const uhal_op&);
const char* refuse_generate(const DeviceTraits&, const uhal_op&);  // fill, iota, triangular, one_hot
uhal_status run_generate(Queue&, const uhal_op&);
const char* refuse_index(const DeviceTraits&, const uhal_op&);  // gather*, scatter*
uhal_status run_index(Queue&, const uhal_op&);
const char* refuse_reduce(const DeviceTraits&, const uhal_op&);
uhal_status run_reduce(Queue&, const uhal_op&);
const char* refuse_arg_reduce(const DeviceTraits&, const uhal_op&);
uhal_status run_arg_reduce(Queue&, const uhal_op&);
const char* refuse_scan(const DeviceTraits&, const uhal_op&);
uhal_status run_scan(Queue&, const uhal_op&);
const char* refuse_sort(const DeviceTraits&, const uhal_op&);  // sort and top_k
uhal_status run_sort(Queue&, const uhal_op&);
const char* refuse_matmul(const DeviceTraits&, const uhal_op&);
uhal_status run_matmul(Queue&, const uhal_op&);
const char* refuse_convolution(const DeviceTraits&, const uhal_op&);  // forward and both gradients
uhal_status run_convolution(Queue&, const uhal_op&);
const char* refuse_pool(const DeviceTraits&, const uhal_op&);  // forward and gradient
uhal_status run_pool(Queue&, const uhal_op&);
const char* refuse_softmax(const DeviceTraits&, const uhal_op&);  // softmax and its gradient
uhal_status run_softmax(Queue&, const uhal_op&);
const char* refuse_cross_entropy(const DeviceTraits&, const uhal_op&);  // and its gradient
uhal_status run_cross_entropy(Queue&, const uhal_op&);
const char* refuse_batch_norm(const DeviceTraits&, const uhal_op&);  // and its gradient
uhal_status run_batch_norm(Queue&, const uhal_op&);
const char* refuse_row_norm(const DeviceTraits&, const uhal_op&);  // layer, group and RMS norm and their gradients
uhal_status run_row_norm(Queue&, const uhal_op&);
const char* refuse_attention(const DeviceTraits&, const uhal_op&);  // and its gradient
uhal_status run_attention(Queue&, const uhal_op&);
const char* refuse_random(const DeviceTraits&, const uhal_op&);  // random and dropout
uhal_status run_random(Queue&, const uhal_op&);
const char* refuse_resize(const DeviceTraits&, const uhal_op&);  // and its gradient
uhal_status run_resize(Queue&, const uhal_op&);

// The core's services; set once by a backend's uhal_backend_query, before anything else here is called.
void set_host(const uhal_host* host);
const uhal_host& host();

// A refusal with a printf-formatted reason, in thread-local storage until the next one.
const char* refusal(const char* format, ...) __attribute__((format(printf, 1, 2)));

// Reports a failure with a printf-formatted message and returns `status`.
uhal_status fail(uhal_status status, const char* format, ...) __attribute__((format(printf, 2, 3)));

// nullptr if the device computes with the dtypes of all operands, else the refusal that names the first it does not.
const char* refuse_dtypes(const DeviceTraits& traits, const uhal_op& op);

}  // namespace unihal::kernels

#endif  // UNIHAL_KERNELS_OPS_H_
