#include "plugins/onnxruntime/provider.h"

#include <cctype>
#include <cstring>
#include <random>

#include "plugins/onnxruntime/description.h"
#include "unihal/fallback.h"

namespace unihal::onnxruntime {
namespace {

// "512M" in bytes; throws for what is no size.
size_t read_size(const std::string& text) {
  size_t used = 0;
  unsigned long long number = 0;
  try {
    number = std::stoull(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  size_t unit = 1;
  if (used != 0 && used + 1 == text.size()) {
    switch (std::toupper(static_cast<unsigned char>(text[used]))) {
      case 'K':
        unit = size_t{1} << 10;
        break;
      case 'M':
        unit = size_t{1} << 20;
        break;
      case 'G':
        unit = size_t{1} << 30;
        break;
      default:
        used = 0;
    }
  } else if (used != text.size()) {
    used = 0;
  }
  if (used == 0 || text[0] == '-' || number > SIZE_MAX / unit) {
    throw Failure(kOrtInvalidArgument, std::string(kProviderName) + ": memory_limit is '" + text +
                                           "', expected bytes, or a number with K, M or G: 512M");
  }
  return static_cast<size_t>(number) * unit;
}

[[noreturn]] void refuse_option(const std::string& name, const std::string& value, const std::string& expected) {
  throw Failure(kOrtInvalidArgument,
                std::string(kProviderName) + ": option " + name + " is '" + value + "', expected " + expected);
}

// Under which ONNX Runtime hands down a provider's options: its name in small letters.
constexpr char kOptionPrefix[] = "ep.unihalexecutionprovider.";
constexpr size_t kOptionPrefixLength = sizeof kOptionPrefix - 1;

}  // namespace

Options read_options(const OrtSessionOptions* session, const Place& place) {
  Options options;
  OrtKeyValuePairs* pairs = nullptr;
  check(ort.GetSessionOptionsConfigEntries(session, &pairs));
  const std::unique_ptr<OrtKeyValuePairs, void (*)(OrtKeyValuePairs*)> owned(pairs, ort.ReleaseKeyValuePairs);
  const char* const* keys = nullptr;
  const char* const* values = nullptr;
  size_t count = 0;
  ort.GetKeyValuePairs(pairs, &keys, &values, &count);
  for (size_t i = 0; i < count; ++i) {
    if (std::strncmp(keys[i], kOptionPrefix, kOptionPrefixLength) != 0) continue;
    const std::string name = keys[i] + kOptionPrefixLength;
    const std::string value = values[i];
    if (name == "math_mode") {
      if (value != "strict" && value != "tf32") refuse_option(name, value, "strict or tf32");
      options.math_mode = value == "tf32" ? UHAL_MATH_ALLOW_TF32 : UHAL_MATH_STRICT;
    } else if (name == "memory_limit") {
      options.memory_limit = read_size(value);
    } else if (name == "layout") {
      if (value != "auto" && value != "nchw" && value != "nhwc") refuse_option(name, value, "auto, nchw or nhwc");
      options.layout = value == "nchw" ? Layout::kNchw : value == "nhwc" ? Layout::kNhwc : Layout::kAuto;
    } else if (name == "graph") {
      if (value != "0" && value != "1") refuse_option(name, value, "0 or 1");
      constexpr uint32_t kFirstVersion = 26;
      if (value == "1" && ort.version < kFirstVersion) refuse_option(name, value, "0: it needs ONNX Runtime 1.26");
      options.graph = value == "1";
    } else if (name == "device_type") {
      if (value != place.type_name()) refuse_option(name, value, std::string(place.type_name()) + ", the device's own");
    } else if (name == "ordinal") {
      const std::string own = std::to_string(place.ordinal);
      if (value != own) refuse_option(name, value, own + ", the device's own");
    } else {
      throw Failure(kOrtInvalidArgument,
                    std::string(kProviderName) + ": there is no option '" + name +
                        "'; there are math_mode, memory_limit, layout, graph, device_type and ordinal");
    }
  }
  return options;
}

namespace {

bool is_stub(uhal_device* device) {
  uhal_device_properties properties = {};
  properties.struct_size = sizeof properties;
  check(uhal_device_properties_get(device, &properties));
  return properties.is_stub != 0;
}

// Ops of which ONNX Runtime makes others that have the channels last.
constexpr const char* kConverted[] = {"Conv", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"};

}  // namespace

Provider::Provider(const Place& place, const Options& options)
    : OrtEp{},
      place_(place),
      options_(options),
      label_(std::string(place.type_name()) + ":" + std::to_string(place.ordinal)),
      stream_(std::make_shared<Stream>(place.open())),
      is_on_host_(is_stub(stream_->device)),
      random_key_((uint64_t{std::random_device()()} << 32) | std::random_device()()),
      capture_(stream_) {
  if (options.memory_limit != 0) check(uhal_memory_set_limit(stream_->device, options.memory_limit));
  version = ort.version;
  GetName = [](const OrtEp*) { return kProviderName; };
  GetCapability = [](OrtEp* self, const OrtGraph* graph, OrtEpGraphSupportInfo* support) {
    return guarded([&] { of(self)->choose_nodes(graph, support); });
  };
  GetPreferredDataLayout = [](OrtEp* self, int32_t* layout) -> OrtStatus* {
    *layout = of(self)->prefers_nhwc_ ? kOrtLayoutNhwc : kOrtLayoutNchw;
    return nullptr;
  };
  ShouldConvertDataLayoutForOp = [](OrtEp*, const char* domain, const char* op, int32_t layout,
                                    int* answer) -> OrtStatus* {
    *answer = 0;
    if (layout != kOrtLayoutNhwc || domain[0] != '\0') return nullptr;
    for (const char* converted : kConverted) *answer |= std::strcmp(converted, op) == 0 ? 1 : 0;
    return nullptr;
  };
  OnRunStart = [](OrtEp* self, const OrtRunOptions*) {
    return guarded([&] {
      of(self)->settle();
      if (of(self)->options_.graph) of(self)->capture_.begin_run();
    });
  };
  OnRunEnd = [](OrtEp* self, const OrtRunOptions*, bool synchronize) {
    return guarded([&] {
      if (of(self)->options_.graph) of(self)->capture_.end_run();
      if (synchronize) check(uhal_stream_synchronize(of(self)->stream()));
    });
  };
  Sync = [](OrtEp* self) { return guarded([&] { check(uhal_stream_synchronize(of(self)->stream())); }); };
  CreateAllocator = [](OrtEp* self, const OrtMemoryInfo* info, OrtAllocator** owned) {
    return guarded([&] {
      const OrtMemoryDevice* const memory = ort.MemoryInfo_GetMemoryDevice(info);
      const bool is_of_host = ort.MemoryDevice_GetMemoryType(memory) == kOrtMemoryOfHost;
      *owned = make_allocator(of(self)->device(), is_of_host ? UHAL_MEMORY_PINNED : UHAL_MEMORY_DEVICE,
                              of(self)->stream_, info);
    });
  };
  CreateSyncStreamForDevice = [](OrtEp* self, const OrtMemoryDevice*, OrtSyncStreamImpl** owned) {
    return guarded([&] { *owned = make_stream(of(self)->stream_); });
  };
  GetKernelRegistry = [](OrtEp*, const OrtKernelRegistry** borrowed) {
    return guarded([&] { *borrowed = kernel_registry(); });
  };
  IsConcurrentRunSupported = [](OrtEp* self, bool* is_supported) -> OrtStatus* {
    *is_supported = !of(self)->options_.graph;
    return nullptr;
  };
  IsGraphCaptureEnabled = [](const OrtEp* self) { return static_cast<const Provider*>(self)->options_.graph; };
  IsGraphCaptured = [](const OrtEp* self, int number) {
    return static_cast<const Provider*>(self)->capture_.has(number);
  };
  ReplayGraph = [](OrtEp* self, int number) { return guarded([&] { of(self)->capture_.replay(number); }); };
}

// Measured on ResNet-50: on the host oneDNN's convolutions are a quarter faster with the channels last. A GPU's units
// for half precision want them last; in float32 vendors' libraries are as fast or faster with them first.
bool Provider::prefers_nhwc(const Choice& choice) const {
  // Of a graph of another opset ONNX Runtime converts nothing, and gives a provider that wants it no node at all. The
  // first release that loads this provider converts these.
  constexpr int64_t kFirstOpset = 7, kLastOpset = 21;
  if (!choice.convolves || choice.opset < kFirstOpset || choice.opset > kLastOpset) return false;
  if (options_.layout != Layout::kAuto) return options_.layout == Layout::kNhwc;
  return is_on_host_ || choice.convolves_halves;
}

void Provider::choose_nodes(const OrtGraph* graph, OrtEpGraphSupportInfo* support) {
  Choice choice = choose(graph, *this);
  prefers_nhwc_ = prefers_nhwc(choice);
  for (const OrtNode* node : choice.nodes) check(ort.EpGraphSupportInfo_AddSingleNode(support, node));
  const std::lock_guard<std::mutex> lock(mutex_);
  left_[choice.graph] = std::move(choice.left);
}

Provider::~Provider() {
  const std::lock_guard<std::mutex> lock(mutex_);
  count_left();  // of a session that never ran
}

void Provider::settle() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  count_left();
  if (!strict_failure_.empty()) throw Failure(kOrtNotImplemented, strict_failure_);
}

void Provider::count_left() const {
  for (const auto& [graph, nodes] : left_) {
    for (const Choice::Left& left : nodes) {
      uhal_fallback record = {};
      record.struct_size = sizeof record;
      record.framework = "onnxruntime";
      record.op = left.op.c_str();
      record.dtype = left.dtype.c_str();
      record.reason = left.reason.c_str();
      if (uhal_fallback_record(&record) != UHAL_OK && strict_failure_.empty()) {
        strict_failure_ = uhal_last_error()->message;
      }
    }
  }
  left_.clear();
}

}  // namespace unihal::onnxruntime
