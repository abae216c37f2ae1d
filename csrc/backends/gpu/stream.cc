#include "csrc/backends/gpu/stream.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "csrc/backends/gpu/device.h"
#include "csrc/backends/gpu/status.h"
#include "csrc/kernels/fill_pieces.h"
#include "csrc/kernels/ops.h"
#include "csrc/kernels/views.h"

namespace unihal::gpu {
namespace {

// Work-groups along the second and the third axis that every device takes.
constexpr int64_t kMostGroups = 65535;

long long signed_number(int64_t value) { return value; }

}  // namespace

Stream::Stream(Device& device, uhal_stream* owner)
    : Queue(device.traits), device_(device), owner_(owner), error_cell_(device), staging_(device) {}

Stream::~Stream() {
  host_work_.stop();
  if (stream_ == nullptr || device_.make_current() != UHAL_OK) return;
  fft_.reset();
  dnn_.reset();
  blas_.reset();
  static_cast<void>(api.stream_destroy(stream_));
}

uhal_status Stream::open() {
  if (const uhal_status status = device_.make_current(); status != UHAL_OK) return status;
  const int code = api.stream_create(&stream_, kStreamNonBlocking);
  if (code != kSuccess) return fail_native(code, "%s gives no stream", device_.name.c_str());
  if (!device_.blas.is_empty()) blas_ = std::make_unique<BlasQueue>(device_.blas, stream_);
  if (device_.dnn != nullptr) dnn_ = device_.dnn->open_stream(stream_);
  if (device_.fft != nullptr) fft_ = std::make_unique<FftStream>(*device_.fft, stream_);
  if (dnn_ != nullptr && measures_convolutions()) {
    dnn_->measure_with([this](const std::function<bool()>& submit) { return seconds_of(submit); },
                       std::string(device_.dnn->name()) + "\n" + device_.name + "\n" + device_.architecture.name);
  }
  return UHAL_OK;
}

double Stream::seconds_of(const std::function<bool()>& submit) const {
  if (capturing_ != nullptr) return std::numeric_limits<double>::infinity();  // nothing is to be waited for then
  NativeEvent events[2] = {};
  float milliseconds = 0;
  const auto record = [&](NativeEvent& event) {
    return api.event_create(&event, kEventTimed) == kSuccess && api.event_record(event, stream_) == kSuccess;
  };
  const bool is_measured = record(events[0]) && submit() && record(events[1]) &&
                           api.event_synchronize(events[1]) == kSuccess &&
                           api.event_elapsed(&milliseconds, events[0], events[1]) == kSuccess;
  for (const NativeEvent event : events) {
    if (event != nullptr) static_cast<void>(api.event_destroy(event));
  }
  return is_measured ? milliseconds / 1e3 : std::numeric_limits<double>::infinity();
}

uhal_status Stream::submitted(int code, const char* what) const {
  return code == kSuccess ? UHAL_OK : fail_native(code, "%s does not take %s", device_.name.c_str(), what);
}

uhal_status Stream::prepare() {
  const uhal_status status = device_.make_current();
  return status == UHAL_OK ? submit_held() : status;
}

// Hot, as what lies between it and the driver: such functions lie beside one another, in few pages.
__attribute__((hot)) uhal_status Stream::launch(const uhal_op& op) {
  uhal_status status = device_.make_current();
  if (status != UHAL_OK) return status;
  if (__builtin_expect(in_group_.load(std::memory_order_relaxed), 0) && (hold(op, &status) || status != UHAL_OK)) {
    return status;
  }
  return kernels::launch(*this, op);
}

uhal_status Stream::start_group() {
  std::lock_guard<std::mutex> lock(held_mutex_);
  if (held_ == nullptr) held_ = std::make_unique<kernels::HeldLaunches>(traits());
  in_group_.store(true, std::memory_order_release);
  return UHAL_OK;
}

uhal_status Stream::end_group() {
  const uhal_status status = prepare();
  in_group_.store(false, std::memory_order_release);
  return status;
}

// Whether the op is held back. Else it is to be launched, unless *status says that what was held before it failed.
bool Stream::hold(const uhal_op& op, uhal_status* status) {
  std::lock_guard<std::mutex> lock(held_mutex_);
  if (held_->hold(op)) return true;
  *status = held_->submit(*this);
  return *status == UHAL_OK && held_->hold(op);
}

uhal_status Stream::submit_held_launches() {
  std::lock_guard<std::mutex> lock(held_mutex_);
  return held_->submit(*this);
}

uhal_status Stream::add_kernel(const kernels::KernelSpec& spec, int32_t local_bytes, LoadedKernel** loaded) {
  Kernel kernel;
  uhal_status status = device_.programs.find(spec, &kernel);
  if (status == UHAL_OK && local_bytes > device_.traits.local_memory) {
    const int code = vendor.allow_local_memory(kernel.function, local_bytes);
    if (code != kSuccess) {
      status = fail_native(code, "%s gives %s no %d bytes of local memory", device_.name.c_str(),
                           spec.describe().c_str(), local_bytes);
    }
  }
  if (status == UHAL_OK) *loaded = kernels_.add(std::make_unique<LoadedKernel>(spec, kernel));
  return status;
}

uhal_status Stream::run(const kernels::KernelSpec& spec, const kernels::Arguments& arguments,
                        const kernels::Grid& grid) {
  LoadedKernel* loaded = kernels_.find(spec);
  if (loaded == nullptr) {
    if (const uhal_status status = add_kernel(spec, grid.local_bytes, &loaded); status != UHAL_OK) return status;
  }
  return run_known(*loaded, arguments, grid);
}

kernels::KnownKernel* Stream::find_known(const kernels::KernelSpec& spec) { return kernels_.find(spec); }

__attribute__((hot)) uhal_status Stream::run_known(kernels::KnownKernel& known, const kernels::Arguments& arguments,
                                                   const kernels::Grid& grid) {
  const Kernel& kernel = static_cast<LoadedKernel&>(known).kernel;
  int64_t groups = grid.groups[0];
  int32_t size = grid.group_size[0];
  const int32_t group_size = size * grid.group_size[1] * grid.group_size[2];
  if (group_size > kernel.max_group_size && group_size == size && kernel.takes_any_group_size) {
    // As many work-items in smaller groups: a kernel that declares no size only strides by the grid.
    groups = (groups * size + kernel.max_group_size - 1) / kernel.max_group_size;
    size = kernel.max_group_size;
  } else if (group_size > kernel.max_group_size) {
    return kernels::fail(UHAL_UNIMPLEMENTED, "%s runs %s with at most %d work-items in a group, and %d are needed",
                         device_.name.c_str(), known.spec().describe().c_str(), kernel.max_group_size, group_size);
  }
  if (groups > INT32_MAX || grid.groups[1] > kMostGroups || grid.groups[2] > kMostGroups) {
    return kernels::fail(
        UHAL_UNIMPLEMENTED,
        "%s runs a kernel with at most %d, %lld and %lld work-groups along its axes, and %s needs %lld, "
        "%lld and %lld",
        device_.name.c_str(), INT32_MAX, signed_number(kMostGroups), signed_number(kMostGroups),
        known.spec().describe().c_str(), signed_number(groups), signed_number(grid.groups[1]),
        signed_number(grid.groups[2]));
  }
  void* parameters[kernels::Arguments::kMaxItems];
  for (int i = 0; i < arguments.count(); ++i) parameters[i] = const_cast<void*>(arguments.data(i));
  const int code = api.launch(kernel.function, static_cast<unsigned>(groups), static_cast<unsigned>(grid.groups[1]),
                              static_cast<unsigned>(grid.groups[2]), static_cast<unsigned>(size),
                              static_cast<unsigned>(grid.group_size[1]), static_cast<unsigned>(grid.group_size[2]),
                              static_cast<unsigned>(grid.local_bytes), stream_, parameters, nullptr);
  return code == kSuccess ? UHAL_OK : submitted(code, known.spec().describe().c_str());
}

uhal_status Stream::copy(void* destination, const void* source, size_t bytes) {
  if (bytes == 0) return UHAL_OK;
  return submitted(vendor.copy(destination, source, bytes, stream_), "a copy");
}

uhal_status Stream::fill(void* destination, const void* pattern, size_t pattern_bytes, size_t bytes) {
  if (bytes == 0) return UHAL_OK;
  // A pattern that repeats itself is a shorter one.
  const char* const text = static_cast<const char*>(pattern);
  while (pattern_bytes > 1 && std::memcmp(text, text + pattern_bytes / 2, pattern_bytes / 2) == 0) pattern_bytes /= 2;
  return kernels::fill_pieces(reinterpret_cast<size_t>(destination), pattern, pattern_bytes, bytes,
                              [&](const char* begin, size_t piece, size_t offset, size_t length) -> uhal_status {
                                void* const at = static_cast<char*>(destination) + offset;
                                uint32_t value = 0;
                                switch (piece) {
                                  case 1:
                                    return submitted(
                                        api.fill_8(at, static_cast<unsigned char>(*begin), length, stream_), "a fill");
                                  case 2: {
                                    uint16_t half;
                                    std::memcpy(&half, begin, sizeof half);
                                    return submitted(api.fill_16(at, half, length / sizeof half, stream_), "a fill");
                                  }
                                  case 4:
                                    std::memcpy(&value, begin, sizeof value);
                                    return submitted(api.fill_32(at, value, length / sizeof value, stream_), "a fill");
                                  default:
                                    return kernels::fill_by_kernel(*this, at, begin, piece, length);
                                }
                              });
}

uhal_status Stream::workspace(size_t bytes, void** pointer) {
  return kernels::host().workspace(owner_, bytes, pointer);
}

uhal_status Stream::error_cell(const uhal_op& op, void** cell, int64_t* ticket) {
  ErrorCell& own = capturing_ != nullptr ? capturing_->errors->cell : error_cell_;
  return own.get(op, cell, ticket);
}

uhal_status Stream::library_gemm(const MatmulProblem& problem, kernels::LibraryAlgorithm algorithm, void* workspace) {
  return blas_ != nullptr ? blas_->run(problem, algorithm, workspace, capturing_ != nullptr) : UHAL_UNIMPLEMENTED;
}

bool Stream::plan_library_convolution(const kernels::ConvolutionTask& task, size_t* bytes) {
  return dnn_ != nullptr && dnn_->plan(task, bytes);
}

uhal_status Stream::library_convolution(const kernels::ConvolutionTask& task, void* workspace) {
  if (dnn_ == nullptr) return UHAL_UNIMPLEMENTED;
  const uhal_status status = dnn_->run(task, workspace);
  if (status == UHAL_OK) kernels::note_implementation("%s", device_.dnn->name());
  return status;
}

bool Stream::plan_library_fft(const kernels::FftTask& task, size_t* bytes) {
  return fft_ != nullptr && fft_->plan(task, bytes);
}

uhal_status Stream::library_fft(const kernels::FftTask& task, void* workspace) {
  if (fft_ == nullptr) return UHAL_UNIMPLEMENTED;
  const uhal_status status = fft_->run(task, workspace);
  if (status == UHAL_OK) kernels::note_implementation("%s", device_.fft->name());
  return status;
}

uhal_status Stream::submit_copy(void* destination, const void* source, size_t bytes, uhal_copy_kind kind) {
  if (const uhal_status status = prepare(); status != UHAL_OK) return status;
  if (capturing_ == nullptr && bytes > 0 && Staging::is_needed(kind, destination, source)) {
    return staging_.copy(host_work_, stream_, destination, source, bytes, kind);
  }
  return copy(destination, source, bytes);
}

uhal_status Stream::submit_fill(void* destination, const void* pattern, size_t pattern_bytes, size_t bytes) {
  const uhal_status status = prepare();
  return status == UHAL_OK ? fill(destination, pattern, pattern_bytes, bytes) : status;
}

uhal_status Stream::query(int32_t* done) {
  if (const uhal_status status = prepare(); status != UHAL_OK) return status;
  const int code = api.stream_query(stream_);
  *done = code == kSuccess ? 1 : 0;
  if (code == kNotReady) return UHAL_OK;
  return code == kSuccess ? collect_errors() : fail_work(code, device_.name);
}

uhal_status Stream::synchronize() {
  if (const uhal_status status = prepare(); status != UHAL_OK) return status;
  const int code = api.stream_synchronize(stream_);
  return code == kSuccess ? collect_errors() : fail_work(code, device_.name);
}

// What the work that has run noted of bad data.
uhal_status Stream::collect_errors() {
  uhal_status status = error_cell_.collect(owner_);
  if (!has_launched_.load(std::memory_order_acquire)) return status;
  std::vector<std::shared_ptr<GraphErrors>> launched;
  {
    std::lock_guard<std::mutex> lock(launched_mutex_);
    launched.swap(launched_);
    has_launched_.store(false);
  }
  for (const std::shared_ptr<GraphErrors>& errors : launched) {
    if (errors->last_stream.load() != this) continue;  // the graph runs elsewhere by now, after what it did here
    const uhal_status read = errors->cell.read_out(owner_);
    if (status == UHAL_OK) status = read;
  }
  return status;
}

uhal_status Stream::begin_capture() {
  if (const uhal_status status = prepare(); status != UHAL_OK) return status;
  auto graph = std::make_unique<Graph>(device_);
  const int code = api.stream_begin_capture(stream_, kCaptureRelaxed);
  if (code != kSuccess) return fail_native(code, "%s does not begin a capture", device_.name.c_str());
  capturing_ = std::move(graph);
  return UHAL_OK;
}

uhal_status Stream::end_capture(std::unique_ptr<Graph>* graph) {
  const uhal_status prepared = prepare();
  std::unique_ptr<Graph> captured = std::move(capturing_);
  NativeGraph native = nullptr;
  const int code = api.stream_end_capture(stream_, &native);
  if (prepared != UHAL_OK) {
    if (native != nullptr) static_cast<void>(api.graph_destroy(native));
    return prepared;
  }
  if (code != kSuccess || native == nullptr) {
    return fail_native(
        code,
        "%s lost what was captured: something in it, such as a library at its first call, cannot be; run "
        "the work once before the capture",
        device_.name.c_str());
  }
  const uhal_status status = captured->open(native);
  static_cast<void>(api.graph_destroy(native));
  if (status == UHAL_OK) *graph = std::move(captured);
  return status;
}

uhal_status Stream::cancel_capture() {
  const std::unique_ptr<Graph> dropped = std::move(capturing_);
  if (const uhal_status status = device_.make_current(); status != UHAL_OK) return status;
  static_cast<void>(submit_held());  // to be dropped with the rest
  NativeGraph native = nullptr;
  // A code says that the capture was lost before: then nothing is left of it either.
  if (api.stream_end_capture(stream_, &native) == kSuccess && native != nullptr) {
    static_cast<void>(api.graph_destroy(native));
  }
  return UHAL_OK;
}

uhal_status Stream::launch_graph(const Graph& graph) {
  if (const uhal_status status = prepare(); status != UHAL_OK) return status;
  const int code = api.graph_launch(graph.get(), stream_);
  if (code != kSuccess) return submitted(code, "a graph");
  if (!graph.errors->cell.is_used()) return UHAL_OK;
  graph.errors->last_stream.store(this);
  std::lock_guard<std::mutex> lock(launched_mutex_);
  if (std::find(launched_.begin(), launched_.end(), graph.errors) == launched_.end()) launched_.push_back(graph.errors);
  has_launched_.store(true, std::memory_order_release);
  return UHAL_OK;
}

uhal_status Stream::record(const Event& event) {
  if (const uhal_status status = prepare(); status != UHAL_OK) return status;
  return submitted(api.event_record(event.get(), stream_), "an event");
}

uhal_status Stream::wait(const Event& event) {
  if (const uhal_status status = prepare(); status != UHAL_OK) return status;
  return submitted(api.stream_wait_event(stream_, event.get(), 0), "a wait for an event");
}

uhal_status Stream::call(uhal_host_function function, void* user_data) {
  if (const uhal_status status = prepare(); status != UHAL_OK) return status;
  return submitted(host_work_.submit(stream_, function, user_data), "a function of the host");
}

}  // namespace unihal::gpu
