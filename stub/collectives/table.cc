#include "stub/collectives/table.h"

#include <new>

#include "csrc/backends/common/communicator_id.h"
#include "stub/backend/device.h"
#include "stub/backend/fault_table.h"
#include "stub/common/kernels.h"

namespace unihal::stub {
namespace {

uhal_status create_id(uhal_backend_device*, uhal_communicator_id* id) {
  return report(make_communicator_id("stub", nullptr, 0, id));
}

uhal_status create(uhal_backend_device*, int32_t rank, int32_t size, const uhal_communicator_id* id,
                   int64_t timeout_milliseconds, uhal_backend_communicator** communicator) {
  if (const uhal_status lost = fail_if_lost(); lost != UHAL_OK) return lost;
  try {
    RankFailure failure;
    std::unique_ptr<Communicator> created = Communicator::create(rank, size, *id, timeout_milliseconds, &failure);
    if (failure) return report(failure);
    *communicator = created.release()->handle();
    return UHAL_OK;
  } catch (const std::bad_alloc&) {
    return fail_without_host_memory("a communicator");
  }
}

uhal_status destroy(uhal_backend_communicator* communicator) {
  delete Communicator::from(communicator);
  return UHAL_OK;
}

uhal_status abort(uhal_backend_communicator* communicator) {
  Communicator::from(communicator)->abort();
  return UHAL_OK;
}

}  // namespace

uhal_status report(const RankFailure& failure) {
  return failure ? fail(failure.status, "%s", failure.message.c_str()) : UHAL_OK;
}

uhal_status check_batches(const uhal_collective_batch* batches, int32_t count) {
  if (const uhal_status lost = fail_if_lost(); lost != UHAL_OK) return lost;
  for (int32_t i = 0; i < count; ++i) {
    const RankFailure earlier = Communicator::from(batches[i].communicator)->earlier_failure();
    if (earlier) return fail(UHAL_FAILED_PRECONDITION, "the communicator failed before: %s", earlier.message.c_str());
  }
  return UHAL_OK;
}

const char* name_of(const uhal_collective_batch& batch) {
  static constexpr const char* kNames[] = {
#define UHAL_COLLECTIVE_KIND(KIND, name, ...) #name,
#include "csrc/tables/collectives.def"
  };
  return kNames[batch.collectives[0]->kind - 1];
}

uhal_collectives collectives_with(uhal_status (*launch)(const uhal_collective_batch* batches, int32_t count)) {
  return {sizeof(uhal_collectives), create_id, create, destroy, abort, launch};
}

}  // namespace unihal::stub
