// The stub's kernels: one row per op kind, in the table of launch.cc.
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

// map.cc, copy.cc, index.cc, reduce.cc, sort.cc, random.cc
const char* refuse_map(const uhal_op& op);
uhal_status run_map(const Launch& launch);
const char* refuse_copy(const uhal_op& op);  // copy and cast
uhal_status run_copy(const Launch& launch);
const char* refuse_generate(const uhal_op& op);  // fill, iota, triangular, one_hot
uhal_status run_generate(const Launch& launch);
const char* refuse_index(const uhal_op& op);  // gather*, scatter*
uhal_status run_index(const Launch& launch);
const char* refuse_reduce(const uhal_op& op);
uhal_status run_reduce(const Launch& launch);
const char* refuse_axis(const uhal_op& op);  // arg_reduce, scan, sort, top_k
uhal_status run_axis(const Launch& launch);
const char* refuse_random(const uhal_op& op);  // random, dropout
uhal_status run_random(const Launch& launch);

// matmul.cc, convolution.cc, pool.cc, softmax.cc, norm.cc, attention.cc, resize.cc
const char* refuse_matmul(const uhal_op& op);
uhal_status run_matmul(const Launch& launch);
const char* refuse_convolution(const uhal_op& op);  // forward and both gradients
uhal_status run_convolution(const Launch& launch);
const char* refuse_pool(const uhal_op& op);  // forward and gradient
uhal_status run_pool(const Launch& launch);
const char* refuse_softmax(const uhal_op& op);  // softmax, cross_entropy and their gradients
uhal_status run_softmax(const Launch& launch);
const char* refuse_norm(const uhal_op& op);  // batch, layer, group, rms and their gradients
uhal_status run_norm(const Launch& launch);
const char* refuse_attention(const uhal_op& op);
uhal_status run_attention(const Launch& launch);
const char* refuse_resize(const uhal_op& op);
uhal_status run_resize(const Launch& launch);

// The core's services, set by uhal_backend_query before any kernel runs.
const uhal_host& host();

// A refusal with a printf-formatted reason, in thread-local storage until the next one.
const char* refusal(const char* format, ...) __attribute__((format(printf, 1, 2)));

// Reports a failure with a printf-formatted message and returns `status`.
uhal_status fail(uhal_status status, const char* format, ...) __attribute__((format(printf, 2, 3)));

}  // namespace unihal::stub
