#include "csrc/backends/gpu/collectives.h"

#include <memory>

#include "csrc/backends/common/communicator_id.h"
#include "csrc/backends/gpu/communicator.h"
#include "csrc/backends/gpu/guarded.h"

namespace unihal::gpu {
namespace {

uhal_status report(const RankFailure& failure) {
  return failure ? kernels::fail(failure.status, "%s", failure.message.c_str()) : UHAL_OK;
}

uhal_status check_library() {
  const std::string& refusal = CollectiveLibrary::instance().refusal();
  return refusal.empty() ? UHAL_OK : kernels::fail(UHAL_UNAVAILABLE, "%s", refusal.c_str());
}

uhal_status create_id(uhal_backend_device* device, uhal_communicator_id* id) {
  return guarded([&]() -> uhal_status {
    if (const uhal_status status = check_library(); status != UHAL_OK) return status;
    if (const uhal_status status = Device::from(device)->make_current(); status != UHAL_OK) return status;
    const CollectiveLibrary& library = CollectiveLibrary::instance();
    NativeId native;
    if (const int code = library.functions().get_unique_id(&native); code != kCollectiveSuccess) {
      return kernels::fail(UHAL_UNAVAILABLE, "%s gives no id for a communicator; NCCL_DEBUG=INFO lets it say more",
                           library.describe(code).c_str());
    }
    return report(make_communicator_id(vendor.backend, native.bytes, sizeof native.bytes, id));
  });
}

uhal_status create(uhal_backend_device* device, int32_t rank, int32_t size, const uhal_communicator_id* id,
                   int64_t timeout_milliseconds, uhal_backend_communicator** communicator) {
  return guarded([&]() -> uhal_status {
    if (const uhal_status status = check_library(); status != UHAL_OK) return status;
    auto created = std::make_unique<Communicator>(*Device::from(device), timeout_milliseconds);
    if (const RankFailure failure = created->open(rank, size, *id)) return report(failure);
    *communicator = created.release()->handle();
    return UHAL_OK;
  });
}

uhal_status destroy(uhal_backend_communicator* communicator) {
  return guarded([&]() -> uhal_status {
    delete Communicator::from(communicator);
    return UHAL_OK;
  });
}

uhal_status abort(uhal_backend_communicator* communicator) {
  return guarded([&]() -> uhal_status {
    Communicator::from(communicator)->abort();
    return UHAL_OK;
  });
}

uhal_status launch(const uhal_collective_batch* batches, int32_t count) {
  return guarded([&]() -> uhal_status {
    const CollectiveLibrary& library = CollectiveLibrary::instance();
    for (int32_t i = 0; i < count; ++i) {
      if (const RankFailure earlier = Communicator::from(batches[i].communicator)->earlier_failure()) {
        return kernels::fail(UHAL_FAILED_PRECONDITION, "the communicator failed before: %s", earlier.message.c_str());
      }
      for (int32_t k = 0; k < batches[i].count; ++k) {
        const std::string refusal = library.refusal_of(*batches[i].collectives[k]);
        if (!refusal.empty()) return kernels::fail(UHAL_UNIMPLEMENTED, "%s", refusal.c_str());
      }
    }
    return report(Communicator::launch(batches, count));
  });
}

constexpr uhal_collectives kCollectivesTable = {sizeof kCollectivesTable, create_id, create, destroy, abort, launch};

}  // namespace

const uhal_collectives& collectives_table() { return kCollectivesTable; }

}  // namespace unihal::gpu
