#include "stub/ops/launch.h"

#include <new>

#include "csrc/backends/common/dtype.h"

namespace unihal::stub {
namespace {

constexpr Kernel kKernels[] = {
#define UHAL_OP_KIND(number, KIND, name, family, ...) {UHAL_OP_##KIND, refuse_##family, run_##family},
#include "csrc/tables/op_kinds.def"
};

// The rows by kind, so that a launch finds its own without a search.
struct Index {
  const Kernel* rows[UHAL_OP_KIND_LIMIT] = {};
  constexpr Index() {
    for (const Kernel& kernel : kKernels) rows[kernel.kind] = &kernel;
  }
};
constexpr Index kIndex;

const Kernel* find(uhal_op_kind kind) { return kind > 0 && kind < UHAL_OP_KIND_LIMIT ? kIndex.rows[kind] : nullptr; }

const char* refuse(const Kernel* kernel, const uhal_op& op) {
  return kernel == nullptr ? refusal("the stub has no kernel for op kind %d", op.kind) : kernel->refuse(op);
}

}  // namespace

uhal_status supports(const uhal_op& op) {
  const char* reason = refuse(find(op.kind), op);
  return reason == nullptr ? UHAL_OK : fail(UHAL_UNIMPLEMENTED, "%s", reason);
}

uhal_status launch(uhal_stream* stream, const uhal_op& op) {
  const Kernel* kernel = find(op.kind);
  const char* reason = refuse(kernel, op);
  if (reason != nullptr) return fail(UHAL_UNIMPLEMENTED, "%s", reason);
  try {
    return kernel->run({op, stream});
  } catch (const std::bad_alloc&) {  // the cache of oneDNN's primitives grows
    return fail(UHAL_RESOURCE_EXHAUSTED, "the host has no memory left to prepare the op");
  }
}

}  // namespace unihal::stub
