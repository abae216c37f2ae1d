/* A backend that does what the stub does, but for one lie: the suite must find it.
 *
 * LIAR_STUB is the path of the stub's library, LIAR_LIE the name of a lie below. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unihal/backend.h"

static const uhal_host* host;
static const uhal_backend* stub;
static uhal_backend table;

static int lies(const char* lie) {
  const char* told = getenv("LIAR_LIE");
  return told != NULL && strcmp(told, lie) == 0;
}

static int is_float16(const uhal_op* op) { return op->outputs[0]->dtype == UHAL_FLOAT16; }

static uhal_status refuse(void) {
  host->report(UHAL_UNIMPLEMENTED, 0, NULL, "liar: iota of float16 is not implemented");
  return UHAL_UNIMPLEMENTED;
}

static uhal_status supports(uhal_backend_device* device, const uhal_op* op) {
  int declares = lies("declared gap") || lies("unexpected pass");
  if (op->kind == UHAL_OP_IOTA && is_float16(op) && declares) return refuse();
  return stub->supports(device, op);
}

/* y is filled with a value that is too large by 1. */
static uhal_status wrong_fill(uhal_backend_stream* stream, uhal_op op) {
  uhal_fill_attributes attributes = *(const uhal_fill_attributes*)op.attributes;
  attributes.value += 1;
  attributes.integer_value += 1;
  op.attributes = &attributes;
  return stub->launch(stream, &op);
}

/* The last axis is taken for one element longer than it is. */
static uhal_status long_fill(uhal_backend_stream* stream, uhal_op op) {
  uhal_tensor y = *op.outputs[0];
  const uhal_tensor* outputs[] = {&y};
  if (y.rank > 0 && y.shape[y.rank - 1] > 0) ++y.shape[y.rank - 1];
  op.outputs = outputs;
  return stub->launch(stream, &op);
}

/* The copy's source is cleared behind it. */
static uhal_status destructive_copy(uhal_backend_stream* stream, const uhal_op* op) {
  uhal_status status = stub->launch(stream, op);
  uhal_fill_attributes attributes = {sizeof attributes, 0, 0};
  uhal_op clear = *op;
  clear.kind = UHAL_OP_FILL;
  clear.input_count = 0;
  clear.outputs = op->inputs;
  clear.attributes = &attributes;
  return status != UHAL_OK ? status : stub->launch(stream, &clear);
}

/* Indices out of range are no error. */
static uhal_status silent_gather(uhal_backend_stream* stream, uhal_op op) {
  uhal_index_attributes attributes = *(const uhal_index_attributes*)op.attributes;
  attributes.ignore_out_of_range = 1;
  op.attributes = &attributes;
  return stub->launch(stream, &op);
}

static uhal_status launch(uhal_backend_stream* stream, const uhal_op* op) {
  if (op->kind == UHAL_OP_FILL && lies("wrong result")) return wrong_fill(stream, *op);
  if (op->kind == UHAL_OP_FILL && lies("writes beyond")) return long_fill(stream, *op);
  if (op->kind == UHAL_OP_COPY && lies("changes an input")) return destructive_copy(stream, op);
  if (op->kind == UHAL_OP_GATHER && lies("silent error")) return silent_gather(stream, *op);
  if (op->kind == UHAL_OP_IOTA && is_float16(op)) {
    if (lies("declared gap") || lies("undeclared gap")) return refuse();
    if (lies("crash")) abort();
    if (lies("hang")) sleep(60);
  }
  return stub->launch(stream, op);
}

/* Whole words only. */
static uhal_status copy(uhal_backend_stream* stream, void* destination, const void* source, size_t bytes,
                        uhal_copy_kind kind) {
  size_t copied = kind == UHAL_COPY_DEVICE_TO_DEVICE && lies("rounds copies") ? bytes / 4 * 4 : bytes;
  return stub->copy(stream, destination, source, copied, kind);
}

__attribute__((visibility("default"))) const uhal_backend* uhal_backend_query(const uhal_host* services,
                                                                              uint32_t abi_major);

const uhal_backend* uhal_backend_query(const uhal_host* services, uint32_t abi_major) {
  host = services;
  void* library = dlopen(getenv("LIAR_STUB"), RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "liar: %s\n", dlerror());
    return NULL;
  }
  const uhal_backend* (*query)(const uhal_host*, uint32_t);
  *(void**)&query = dlsym(library, "uhal_backend_query");
  stub = query(services, abi_major);
  if (stub == NULL) return NULL;
  memcpy(&table, stub, sizeof table < stub->struct_size ? sizeof table : stub->struct_size);
  table.name = "liar";
  table.supports = supports;
  table.launch = launch;
  table.copy = copy;
  return &table;
}
