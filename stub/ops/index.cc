// UHAL_OP_GATHER, UHAL_OP_SCATTER and their nd and elements variants.

#include "stub/ops/index.h"

#include <cstdio>

#include "csrc/backends/common/op_names.h"

namespace unihal::stub {

void Resolver::report(const Launch& launch, const uhal_index_attributes& attributes) const {
  if (!out_of_range_.load(std::memory_order_relaxed) || attributes.ignore_out_of_range != 0) return;
  char text[256];
  std::snprintf(text, sizeof text,
                "%s: index %lld is out of range for an axis of length %lld; expected %lld to %lld. Elements read there "
                "are zero and updates are dropped.",
                op_kind_name(launch.op.kind), static_cast<long long>(bad_index_), static_cast<long long>(bad_length_),
                static_cast<long long>(wraps_ ? -bad_length_ : 0), static_cast<long long>(bad_length_ - 1));
  const char* label = launch.op.label != nullptr ? launch.op.label : op_kind_name(launch.op.kind);
  host().stream_error(launch.stream, UHAL_OUT_OF_RANGE, label, text);
}

const char* refuse_index(const uhal_op& op) { return is_gather(op) ? nullptr : refuse_scatter(op); }

uhal_status run_index(const Launch& launch) {
  const uhal_index_attributes attributes = index_attributes(launch.op);
  if (!is_gather(launch.op)) return scatter(launch, attributes);
  const IndexProblem problem = make_index_problem(launch.op);
  Resolver resolver(problem, attributes);
  gather(problem, resolver, attributes.negative_wraps != 0);
  resolver.report(launch, attributes);
  return UHAL_OK;
}

}  // namespace unihal::stub
