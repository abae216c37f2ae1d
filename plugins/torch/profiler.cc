// What torch.profiler and torch.autograd.profiler ask of a device: marks in a stream, and the time between two of them.
#include <torch/csrc/profiler/stubs/base.h>

#include <chrono>

#include "plugins/torch/runtime.h"
#include "plugins/torch/tensors.h"
#include "unihal/event.h"

namespace unihal::pytorch {
namespace {

class Marks final : public torch::profiler::impl::ProfilerStubs {
 public:
  void record(c10::DeviceIndex* index, torch::profiler::impl::ProfilerVoidEventStub* mark,
              int64_t* nanoseconds) const override {
    const c10::DeviceIndex at = current_device();
    if (index != nullptr) *index = at;
    uhal_event* made = nullptr;
    check(uhal_event_create(device(at), &made));
    *mark = std::shared_ptr<void>(made, [](void* event) { uhal_event_destroy(static_cast<uhal_event*>(event)); });
    if (nanoseconds != nullptr) {
      const auto now = std::chrono::system_clock::now().time_since_epoch();
      *nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
    }
    check(uhal_event_record(made, current_stream(at)));
  }
  // In microseconds.
  float elapsed(const torch::profiler::impl::ProfilerVoidEventStub* start,
                const torch::profiler::impl::ProfilerVoidEventStub* end) const override {
    int64_t nanoseconds = 0;
    check(uhal_event_synchronize(static_cast<uhal_event*>(start->get())));
    check(uhal_event_synchronize(static_cast<uhal_event*>(end->get())));
    check(uhal_event_elapsed_nanoseconds(static_cast<uhal_event*>(start->get()), static_cast<uhal_event*>(end->get()),
                                         &nanoseconds));
    return static_cast<float>(static_cast<double>(nanoseconds) * 1e-3);
  }
  void mark(const char*) const override {}
  void rangePush(const char*) const override {}
  void rangePop() const override {}
  bool enabled() const override { return device_count() > 0; }
  void onEachDevice(std::function<void(int)> use) const override {
    for (int i = 0; i < device_count(); ++i) use(i);
  }
  void synchronize() const override {
    for (int i = 0; i < device_count(); ++i)
      check(uhal_stream_synchronize(current_stream(static_cast<c10::DeviceIndex>(i))));
  }
};

}  // namespace

void register_profiler() {
  static auto* marks = new Marks;  // PyTorch keeps it to the end of the process
  torch::profiler::impl::registerPrivateUse1Methods(marks);
}

}  // namespace unihal::pytorch
