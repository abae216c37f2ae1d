#include "csrc/core/collective/communicator.h"

#include <atomic>

#include "csrc/core/base/process_state.h"
#include "csrc/core/handle/waiting.h"

namespace unihal::core {
namespace {

bool is_complete(const uhal_collectives& table) {
  return table.struct_size >= sizeof table && table.create_id != nullptr && table.create != nullptr &&
         table.destroy != nullptr && table.abort != nullptr && table.launch != nullptr;
}

uhal_status find_collectives(const uhal_device& device, const uhal_collectives** table) {
  const uhal_backend& backend = device.backend->table;
  const void* found = backend.extension != nullptr
                          ? backend.extension(UHAL_COLLECTIVES_NAME, static_cast<uint32_t>(UHAL_COLLECTIVES_VERSION))
                          : nullptr;
  *table = static_cast<const uhal_collectives*>(found);
  if (found == nullptr) {
    return UHAL_FAIL(UHAL_UNIMPLEMENTED,
                     "The backend '%s' has no collectives (its extension '%s' of version %u); use one device, or a "
                     "backend that has them.",
                     backend.name, UHAL_COLLECTIVES_NAME, static_cast<unsigned>(UHAL_COLLECTIVES_VERSION));
  }
  if (is_complete(**table)) return UHAL_OK;
  return UHAL_FAIL(UHAL_INTERNAL, "The collectives of the backend '%s' lack a function; rebuild the backend.",
                   backend.name);
}

uhal_status check_creation(int32_t rank, int32_t size, const uhal_communicator_id* id, int64_t timeout) {
  if (size < 1 || rank < 0 || rank >= size) {
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT,
                     "The communicator is to be rank %d of %d; expected a size of at least 1, and a rank from 0 to "
                     "size - 1.",
                     rank, size);
  }
  if (id == nullptr) {
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT,
                     "The communicator's id is NULL; pass what one rank got from uhal_communicator_id_create.");
  }
  if (timeout < 1) {
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT,
                     "The communicator's timeout is %lld ms; expected a time above 0, such as 600000.",
                     static_cast<long long>(timeout));
  }
  return UHAL_OK;
}

}  // namespace

CommunicatorPool& communicator_pool() {
  static CommunicatorPool* const instance = new CommunicatorPool;
  return *instance;
}

uhal_status refuse_communicator(const void* handle) {
  if (handle == nullptr) {
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "The communicator is NULL; pass one from uhal_communicator_create.");
  }
  return UHAL_FAIL(UHAL_INVALID_ARGUMENT,
                   "The communicator %p does not exist: it was destroyed, or is no communicator. Use a communicator "
                   "between its creation and its destruction.",
                   handle);
}

}  // namespace unihal::core

using namespace unihal::core;

uhal_status uhal_communicator_id_create(uhal_device* device, uhal_communicator_id* id) {
  UHAL_CHECK_PROCESS();
  if (device == nullptr) return refuse_null_device();
  if (id == nullptr) return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "id is NULL; pass the place for the id.");
  return guarded([&]() -> uhal_status {
    *id = {};
    const uhal_collectives* table = nullptr;
    uhal_status status = find_collectives(*device, &table);
    if (status == UHAL_OK) {
      status = call_backend(*device->backend, "create_id", table->create_id, device->backend_device, id);
    }
    return with_device(*device, status);
  });
}

uhal_status uhal_communicator_create(uhal_device* device, int32_t rank, int32_t size, const uhal_communicator_id* id,
                                     int64_t timeout_milliseconds, uhal_communicator** communicator) {
  UHAL_CHECK_PROCESS();
  if (device == nullptr) return refuse_null_device();
  if (communicator == nullptr) {
    return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "communicator is NULL; pass the place for the communicator.");
  }
  *communicator = nullptr;
  return guarded([&]() -> uhal_status {
    UHAL_EXPECT(refuse_wait_in_callback("uhal_communicator_create"));
    UHAL_EXPECT(check_creation(rank, size, id, timeout_milliseconds));
    const uhal_collectives* table = nullptr;
    if (uhal_status status = find_collectives(*device, &table); status != UHAL_OK) return with_device(*device, status);
    Communicator* created = communicator_pool().acquire();
    if (created == nullptr) {
      return UHAL_FAIL(UHAL_RESOURCE_EXHAUSTED,
                       "There are too many communicators; destroy those that are not used any more.");
    }
    static std::atomic<uint64_t> numbers{0};
    created->device = device;
    created->table = table;
    created->rank = rank;
    created->size = size;
    created->number = numbers.fetch_add(1);
    created->backend_communicator = nullptr;
    const uhal_status status = call_backend(*device->backend, "create", table->create, device->backend_device, rank,
                                            size, id, timeout_milliseconds, &created->backend_communicator);
    if (status != UHAL_OK) {
      communicator_pool().recycle(created);
      return with_device(*device, status);
    }
    *communicator = communicator_pool().publish(created);
    return UHAL_OK;
  });
}

uhal_status uhal_communicator_destroy(uhal_communicator* handle) {
  UHAL_CHECK_PROCESS();
  if (handle == nullptr) return UHAL_OK;
  return guarded([&]() -> uhal_status {
    PinnedCommunicator pinned(communicator_pool(), handle);
    if (!pinned) return refuse_communicator(handle);
    UHAL_EXPECT(refuse_wait_in_callback("uhal_communicator_destroy"));
    Communicator* communicator = pinned.release();
    if (!communicator_pool().retire(communicator)) return refuse_communicator(handle);
    const uhal_device& device = *communicator->device;
    const uhal_status status =
        call_backend(*device.backend, "destroy", communicator->table->destroy, communicator->backend_communicator);
    communicator->backend_communicator = nullptr;
    communicator_pool().recycle(communicator);
    return with_device(device, status);
  });
}

uhal_status uhal_communicator_abort(uhal_communicator* handle) {
  UHAL_CHECK_PROCESS();
  return guarded([&]() -> uhal_status {
    PinnedCommunicator communicator(communicator_pool(), handle);
    if (!communicator) return refuse_communicator(handle);
    const uhal_device& device = *communicator->device;
    return with_device(
        device, call_backend(*device.backend, "abort", communicator->table->abort, communicator->backend_communicator));
  });
}
