#include "stub/strict/table.h"

#include <array>
#include <cstring>
#include <memory>
#include <new>
#include <system_error>
#include <utility>
#include <vector>

#include "csrc/backends/common/op_names.h"
#include "csrc/backends/common/owned_op.h"
#include "stub/backend/device.h"
#include "stub/backend/fault_table.h"
#include "stub/backend/faults.h"
#include "stub/collectives/table.h"
#include "stub/common/move.h"
#include "stub/ops/launch.h"
#include "stub/strict/address_space.h"
#include "stub/strict/event.h"
#include "stub/strict/fault_report.h"
#include "stub/strict/guarded_memory.h"
#include "stub/strict/live_streams.h"

namespace unihal::stub::strict {
namespace {

// Runs the body of a slot; no C++ exception leaves it.
template <class Body>
uhal_status guarded(const Body& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return fail_without_host_memory("the stub's record of submitted work");
  } catch (const std::system_error& error) {
    return fail(UHAL_RESOURCE_EXHAUSTED, "the system starts no thread for a stream: %s", error.what());
  }
}

uhal_status submit(uhal_backend_stream* stream, std::string name, std::function<uhal_status()> run) {
  Stream::from(stream)->submit({std::move(name), std::move(run)});
  return UHAL_OK;
}

// The same for work that a graph may hold.
uhal_status submit_work(uhal_backend_stream* stream, std::string name, StreamWork run) {
  Stream& target = *Stream::from(stream);
  if (target.capturing != nullptr) {
    target.capturing->add(std::move(name), std::move(run));
    return UHAL_OK;
  }
  return submit(stream, std::move(name), [run = std::move(run), owner = target.owner()] { return run(owner); });
}

// -- memory ----------------------------------------------------------------------------------------------------------

uhal_status device_open(int32_t ordinal, uhal_backend_device** device) {
  if (const uhal_status status = AddressSpace::instance().open(); status != UHAL_OK) return status;
  install_fault_report();
  return stub::device_open(ordinal, device);
}

uhal_status allocate(uhal_backend_device* device, uhal_memory_kind kind, size_t bytes, void** pointer) {
  *pointer = nullptr;
  if (kind != UHAL_MEMORY_DEVICE) return allocate_guarded(bytes, pointer);
  if (const uhal_status status = take_memory(device, bytes); status != UHAL_OK) return status;
  const uhal_status status = AddressSpace::instance().allocate(device->ordinal, bytes, pointer);
  if (status != UHAL_OK) give_memory(device, bytes);
  return status;
}

uhal_status free(uhal_backend_device* device, uhal_memory_kind kind, void* pointer, size_t bytes) {
  if (kind != UHAL_MEMORY_DEVICE) return free_guarded(pointer, bytes);
  give_memory(device, bytes);
  return AddressSpace::instance().free(pointer);
}

// -- streams and events

uhal_status stream_create(uhal_backend_device*, uhal_stream* owner, uhal_backend_stream** stream) {
  return guarded([&]() -> uhal_status {
    *stream = create_stream(owner, settings().seed)->handle();
    return UHAL_OK;
  });
}

uhal_status stream_destroy(uhal_backend_stream* stream) {
  destroy_stream(Stream::from(stream));
  return UHAL_OK;
}

uhal_status stream_query(uhal_backend_stream* stream, int32_t* done) {
  *done = Stream::from(stream)->idle() ? 1 : 0;
  return UHAL_OK;
}

uhal_status stream_synchronize(uhal_backend_stream* stream) {
  Stream::from(stream)->synchronize();
  return UHAL_OK;
}

uhal_status stream_wait_event(uhal_backend_stream* stream, uhal_backend_event* event) {
  return guarded([&]() -> uhal_status {
    const std::shared_ptr<Record> record = Event::from(event)->last();
    if (record == nullptr || record->reached()) return UHAL_OK;
    return submit(stream, "wait for an event", [record] {
      record->wait();
      return UHAL_OK;
    });
  });
}

uhal_status event_create(uhal_backend_device*, uhal_backend_event** event) {
  return guarded([&]() -> uhal_status {
    *event = (new Event)->handle();
    return UHAL_OK;
  });
}

uhal_status event_destroy(uhal_backend_event* event) {
  delete Event::from(event);
  return UHAL_OK;
}

uhal_status event_record(uhal_backend_event* event, uhal_backend_stream* stream) {
  return guarded([&]() -> uhal_status {
    const auto record = std::make_shared<Record>(Stream::from(stream));
    submit(stream, "record of an event", [record] {
      record->reach();
      return UHAL_OK;
    });
    Event::from(event)->set_last(record);
    return UHAL_OK;
  });
}

uhal_status event_query(uhal_backend_event* event, int32_t* done) {
  const std::shared_ptr<Record> record = Event::from(event)->last();
  *done = record == nullptr || record->reached() ? 1 : 0;
  return UHAL_OK;
}

uhal_status event_synchronize(uhal_backend_event* event) {
  if (const std::shared_ptr<Record> record = Event::from(event)->last()) record->wait();
  return UHAL_OK;
}

uhal_status event_elapsed(uhal_backend_event* start, uhal_backend_event* end, int64_t* nanoseconds) {
  // The core has seen to it that both were recorded; another thread may be recording them again.
  *nanoseconds = Event::from(end)->last()->nanoseconds() - Event::from(start)->last()->nanoseconds();
  return UHAL_OK;
}

// -- work

const char* const kCopyNames[] = {"copy.host_to_device", "copy.device_to_host", "copy.device_to_device"};

// Host memory is read and written when the command runs, not at the call: it has to stay valid until then.
uhal_status copy(uhal_backend_stream* stream, void* destination, const void* source, size_t bytes,
                 uhal_copy_kind kind) {
  return guarded([&]() -> uhal_status {
    void* to = AddressSpace::instance().shadow(destination);
    const void* from = AddressSpace::instance().shadow(source);
    return submit_work(stream, kCopyNames[kind], [to, from, bytes](uhal_stream*) {
      SlowedWork slowed;
      move_bytes(to, from, static_cast<int64_t>(bytes));
      return UHAL_OK;
    });
  });
}

uhal_status fill(uhal_backend_stream* stream, void* destination, const void* pattern, size_t pattern_bytes,
                 size_t bytes) {
  return guarded([&]() -> uhal_status {
    std::array<char, 16> own;
    std::memcpy(own.data(), pattern, pattern_bytes);
    void* to = AddressSpace::instance().shadow(destination);
    return submit_work(stream, "fill", [to, own, pattern_bytes, bytes](uhal_stream*) {
      SlowedWork slowed;
      fill_bytes(to, own.data(), static_cast<int64_t>(pattern_bytes), static_cast<int64_t>(bytes));
      return UHAL_OK;
    });
  });
}

uhal_status launch(uhal_backend_stream* stream, const uhal_op* op) {
  if (const uhal_status status = stub::supports(*op); status != UHAL_OK) return status;
  return guarded([&]() -> uhal_status {
    const auto owned = std::make_shared<const OwnedOp>(
        *op, [](const uhal_tensor& operand) { return AddressSpace::instance().shadow(operand.data); });
    return submit_work(stream, op_name(*op), [owned](uhal_stream* owner) {
      SlowedWork slowed;
      return stub::launch(owner, owned->op());
    });
  });
}

uhal_status host_callback(uhal_backend_stream* stream, uhal_host_function function, void* user_data) {
  return guarded([&]() -> uhal_status {
    return submit(stream, "host callback", [function, user_data] {
      function(user_data);
      return UHAL_OK;
    });
  });
}

// -- collectives

// What a communicator does in its turn, on the shadows of its memory.
class Turn {
 public:
  explicit Turn(const uhal_collective_batch& batch) : communicator_(*Communicator::from(batch.communicator)) {
    const AddressSpace& space = AddressSpace::instance();
    for (int32_t i = 0; i < batch.count; ++i) {
      collectives_.push_back(*batch.collectives[i]);
      collectives_.back().source = space.shadow(collectives_.back().source);
      collectives_.back().destination = space.shadow(collectives_.back().destination);
    }
    for (const uhal_collective& collective : collectives_) pointers_.push_back(&collective);
    turn_ = communicator_.take_turn();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  RankFailure run() {
    SlowedWork slowed;
    return communicator_.run(turn_, pointers_.data(), static_cast<int32_t>(pointers_.size()));
  }

  // It could not be submitted: those behind it go on, and fail.
  void drop() {
    communicator_.abort();
    static_cast<void>(run());
  }

 private:
  Communicator& communicator_;
  std::vector<uhal_collective> collectives_;
  std::vector<const uhal_collective*> pointers_;
  uint64_t turn_ = 0;
};

uhal_status launch_collectives(const uhal_collective_batch* batches, int32_t count) {
  if (const uhal_status status = check_batches(batches, count); status != UHAL_OK) return status;
  return guarded([&]() -> uhal_status {
    for (int32_t i = 0; i < count; ++i) {
      const auto turn = std::make_shared<Turn>(batches[i]);
      try {
        submit(batches[i].stream, name_of(batches[i]), [turn] { return report(turn->run()); });
      } catch (const std::bad_alloc&) {
        turn->drop();
        throw;
      }
    }
    return UHAL_OK;
  });
}

const uhal_collectives kCollectives = collectives_with(launch_collectives);

// -- graphs

uhal_status begin_capture(uhal_backend_stream* stream) { return stub::begin_capture(&Stream::from(stream)->capturing); }

uhal_status end_capture(uhal_backend_stream* stream, uhal_backend_graph** graph) {
  *graph = Stream::from(stream)->capturing.release()->handle();
  return UHAL_OK;
}

uhal_status cancel_capture(uhal_backend_stream* stream) {
  Stream::from(stream)->capturing.reset();
  return UHAL_OK;
}

uhal_status launch_graph(uhal_backend_graph* handle, uhal_backend_stream* stream) {
  if (const uhal_status lost = fail_if_lost(); lost != UHAL_OK) return lost;
  return guarded([&]() -> uhal_status {
    const Graph* graph = Graph::from(handle);  // which lives until this has run
    uhal_stream* owner = Stream::from(stream)->owner();
    return submit(stream, "graph", [graph, owner] {
      graph->run(owner);
      return UHAL_OK;
    });
  });
}

constexpr uhal_graph_capture kGraphCapture = {sizeof kGraphCapture, begin_capture, end_capture,
                                              cancel_capture,       launch_graph,  destroy_graph};

const uhal_backend* fast_table = nullptr;

const void* extension(const char* name, uint32_t version) {
  if (std::strcmp(name, UHAL_COLLECTIVES_NAME) == 0 && version == UHAL_COLLECTIVES_VERSION) return &kCollectives;
  if (std::strcmp(name, UHAL_GRAPH_CAPTURE_NAME) == 0 && version == UHAL_GRAPH_CAPTURE_VERSION) return &kGraphCapture;
  return fast_table->extension(name, version);
}

void finalize() { stop_all_streams(); }

// Slots that are the fast mode's.
constexpr struct Inherited {
} device_count, device_properties, memory_info, supports;

template <class Slot>
void fill_slot(Slot*, Inherited) {}
template <class Slot>
void fill_slot(Slot* slot, Slot function) {
  *slot = function;
}

}  // namespace

const uhal_backend* table(const uhal_backend& fast) {
  fast_table = &fast;
  static const uhal_backend strict = [&] {
    uhal_backend table = fast;
#define UHAL_BACKEND_SLOT(slot, ...) fill_slot(&table.slot, slot);
#include "csrc/tables/backend_slots.def"
    return table;
  }();
  return &strict;
}

}  // namespace unihal::stub::strict
