#include "csrc/core/check/race_checker.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

#include "csrc/core/check/call_site.h"
#include "csrc/core/check/race_reports.h"
#include "csrc/core/memory/allocator.h"
#include "csrc/core/op/description.h"

namespace unihal::core {
namespace {

struct RaceChecker {
  std::mutex mutex;  // guards the fields below, and the clocks of streams and events
  AccessHistory history;
  VectorClock host;
};

RaceChecker& checker() {
  static RaceChecker* const instance = new RaceChecker;
  return *instance;
}

std::shared_ptr<Work> describe(uhal_device* device, const Stream* stream, std::string text) {
  auto work = std::make_shared<Work>();
  work->text = std::move(text);
  work->site = call_site();
  work->device = device;
  work->stream = stream != nullptr ? stream->number : Work::kHost;
  return work;
}

void add_range(Work* work, const char* role, bool writes, const void* address, size_t bytes) {
  work->operands.push_back({role, writes, ByteSet(reinterpret_cast<uintptr_t>(address), bytes)});
}

void add_views(Work* work, const uhal_tensor* const* views, int count, const OperandList& list, bool writes) {
  for (int i = 0; i < count; ++i) {
    if (views[i] != nullptr) work->operands.push_back({list.names[i], writes, ByteSet(*views[i])});
  }
}

using Races = std::vector<std::pair<Access, Access>>;  // earlier, later

// Called with the checker's lock held.
Races find_races(const std::shared_ptr<const Work>& work, const VectorClock& before) {
  Races races;
  for (size_t i = 0; i < work->operands.size(); ++i) {
    Access later = {work, i};
    for (Access& earlier : checker().history.conflicts(later, before)) races.emplace_back(std::move(earlier), later);
  }
  return races;
}

void report(const Races& races) {
  for (const auto& [earlier, later] : races) report_race(earlier, later);
}

}  // namespace

// -- work ---------------------------------------------------------------------------------------

void TrackedWork::begin(Stream* stream, const OpView& op) {
  stream_ = stream;
  work_ = describe(stream->device, stream, describe_op(op.op));
  add_views(work_.get(), op.op->inputs, op.op->input_count, op.row->inputs, false);
  add_views(work_.get(), op.op->outputs, op.op->output_count, op.row->outputs, true);
}

void TrackedWork::begin(Stream* stream, const char* name, const void* destination, const void* source, size_t bytes) {
  stream_ = stream;
  work_ = describe(stream->device, stream, std::string(name) + " of " + std::to_string(bytes) + " bytes");
  if (source != nullptr) add_range(work_.get(), "source", false, source, bytes);
  add_range(work_.get(), "destination", true, destination, bytes);
}

void TrackedWork::begin(Stream* stream, const char* name, const TouchedRange* ranges, size_t count) {
  stream_ = stream;
  work_ = describe(stream->device, stream, name);
  for (size_t i = 0; i < count; ++i) {
    add_range(work_.get(), ranges[i].role, ranges[i].writes, ranges[i].address, ranges[i].bytes);
  }
}

void TrackedWork::begin(Stream* stream, const Capture& graph) {
  stream_ = stream;
  work_ = describe(stream->device, stream, "graph of " + std::to_string(graph.work_count) + " pieces of work");
  if (graph.touched != nullptr) work_->operands = graph.touched->operands;
}

void TrackedWork::record() {
  if (Capture* capture = stream_->capture.load(std::memory_order_relaxed)) {
    if (capture->touched == nullptr) capture->touched = std::make_shared<Work>();
    std::vector<Operand>& all = capture->touched->operands;
    all.insert(all.end(), work_->operands.begin(), work_->operands.end());
    return;
  }
  Races races;
  {
    std::lock_guard<std::mutex> lock(checker().mutex);
    VectorClock& clock = stream_->clock;
    clock.join(checker().host);
    work_->moment = clock.tick(stream_->index);
    races = find_races(work_, clock);
    for (size_t i = 0; i < work_->operands.size(); ++i) checker().history.add({work_, i}, clock);
    // What the host has waited for comes before all work to come, since submitting is the host's doing.
    checker().history.forget_old(checker().host);
  }
  report(races);
}

// -- order ---------------------------------------------------------------------------------------

void HostWait::begin(const VectorClock& clock) {
  std::lock_guard<std::mutex> lock(checker().mutex);
  begun_ = true;
  clock_ = clock;
}

void HostWait::join() {
  std::lock_guard<std::mutex> lock(checker().mutex);
  checker().host.join(clock_);
}

void note_record(Event* event, const Stream& stream) {
  if (!checks_races(*stream.device)) return;
  std::lock_guard<std::mutex> lock(checker().mutex);
  event->clock = stream.clock;
}

void note_wait(Stream* stream, const Event& event) {
  if (!checks_races(*stream->device)) return;
  std::lock_guard<std::mutex> lock(checker().mutex);
  stream->clock.join(event.clock);
}

void note_place(const Stream& stream, VectorClock* clock) {
  if (!checks_races(*stream.device)) return;
  std::lock_guard<std::mutex> lock(checker().mutex);
  *clock = stream.clock;
}

void note_wait(Stream* stream, const VectorClock& place) {
  if (!checks_races(*stream->device)) return;
  std::lock_guard<std::mutex> lock(checker().mutex);
  stream->clock.join(place);
}

void note_callback_submission(const Stream& stream, VectorClock* clock) {
  if (!checks_races(*stream.device)) return;
  std::lock_guard<std::mutex> lock(checker().mutex);
  *clock = stream.clock;
}

void note_host_callback(const Stream& stream, const VectorClock& clock) {
  if (!checks_races(*stream.device)) return;
  static_cast<void>(guarded([&]() -> uhal_status {
    std::lock_guard<std::mutex> lock(checker().mutex);
    checker().host.join(clock);
    return UHAL_OK;
  }));
}

// -- memory ---------------------------------------------------------------------------------------

void note_allocation(const uhal_device& device, const void* pointer, size_t bytes) {
  if (!checks_races(device)) return;
  auto begin = reinterpret_cast<uintptr_t>(pointer);
  std::lock_guard<std::mutex> lock(checker().mutex);
  checker().history.forget(begin, begin + bytes);
}

void note_free(uhal_device* device, const Stream* stream, const void* pointer) {
  if (!checks_races(*device)) return;
  LiveBlock live;
  bool found = std::any_of(std::begin(device->allocators), std::end(device->allocators),
                           [&](Allocator* allocator) { return allocator->find(pointer, &live); });
  if (!found || live.base != pointer) return;  // the free will be refused
  if (live.graph != nullptr) {
    // The graph keeps it until its launches have run.
    const auto begin = reinterpret_cast<uintptr_t>(pointer);
    std::lock_guard<std::mutex> lock(checker().mutex);
    return checker().history.forget(begin, begin + live.bytes);
  }
  std::shared_ptr<Work> work = describe(device, stream, "free of " + std::to_string(live.bytes) + " bytes");
  add_range(work.get(), "memory", true, pointer, live.bytes);
  Races races;
  {
    std::lock_guard<std::mutex> lock(checker().mutex);
    VectorClock before = checker().host;
    if (stream != nullptr) before.join(stream->clock);
    races = find_races(work, before);
    checker().history.forget(work->operands[0].bytes.begin(), work->operands[0].bytes.end());
  }
  report(races);
}

}  // namespace unihal::core
