// The execution provider: one for each session that uses a device.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "plugins/onnxruntime/graph_capture.h"
#include "plugins/onnxruntime/runtime.h"
#include "unihal/op.h"

namespace unihal::onnxruntime {

inline constexpr const char* kProviderName = "UnihalExecutionProvider";

// How images lie in memory between ops that ONNX Runtime may convert.
enum class Layout {
  kAuto,  // whichever the device convolves faster
  kNchw,
  kNhwc,
};

// What a session may say, as options of the provider.
struct Options {
  uhal_math_mode math_mode = UHAL_MATH_STRICT;  // "math_mode": "strict" or "tf32"
  size_t memory_limit = 0;                      // "memory_limit": bytes, or with K, M, G; 0: none
  Layout layout = Layout::kAuto;                // "layout": "auto", "nchw" or "nhwc"
  bool graph = false;                           // "graph": "1": runs are captured and launched as one
};

// Reads the options of a session; throws for one that is unknown or wrong, naming it. `place` is where the session's
// device is; "device_type" and "ordinal" may only repeat it.
Options read_options(const OrtSessionOptions* session, const Place& place);

// What a provider takes of a graph, and what it leaves (capability.cc).
struct Choice {
  std::vector<const OrtNode*> nodes;  // for the device
  struct Left {
    std::string op;
    std::string dtype;
    std::string reason;
  };
  std::vector<Left> left;         // for the CPU, to be counted
  std::string graph;              // which graph of the model it is, by a text that is the same each time
  bool convolves = false;         // whether there is a convolution among the nodes
  bool convolves_halves = false;  // whether one of them is of float16 or bfloat16
  int64_t opset = 0;              // the graph's, of ONNX's own ops
};

class Provider final : public OrtEp {
 public:
  Provider(const Place& place, const Options& options);
  ~Provider();

  uhal_device* device() const { return stream_->device; }
  uhal_stream* stream() const { return stream_->handle; }
  uhal_math_mode math_mode() const { return options_.math_mode; }
  // Whose work is in this order; who keeps device memory keeps it, too.
  const std::shared_ptr<Stream>& shared_stream() const { return stream_; }
  // Whether host memory stands in for the device.
  bool is_on_host() const { return is_on_host_; }
  const std::string& label() const { return label_; }  // "rdna:0"

  // For random numbers: a key of the session, and a number that is another one each time.
  uint64_t random_key() const { return random_key_; }
  uint64_t next_random() const { return random_.fetch_add(1, std::memory_order_relaxed); }

  // Counts what is left to the CPU, now that ONNX Runtime has chosen for the last time: a kernel is made, or a run
  // begins. Throws under UNIHAL_STRICT=1 if something is.
  void settle() const;

 private:
  static Provider* of(OrtEp* self) { return static_cast<Provider*>(self); }

  bool prefers_nhwc(const Choice& choice) const;
  void choose_nodes(const OrtGraph* graph, OrtEpGraphSupportInfo* support);
  void count_left() const;  // holding the mutex

  const Place place_;
  const Options options_;
  const std::string label_;
  const std::shared_ptr<Stream> stream_;
  const bool is_on_host_;
  const uint64_t random_key_;
  mutable std::atomic<uint64_t> random_{0};
  mutable GraphCapture capture_;
  mutable std::mutex mutex_;
  // By graph, of the last choice from it: ONNX Runtime asks again where it has put a function's body in its place.
  mutable std::map<std::string, std::vector<Choice::Left>> left_;
  mutable std::string strict_failure_;
  std::atomic<bool> prefers_nhwc_{false};  // of the graph that was chosen from last
};

// The kernels of all providers. Made once, never destroyed.
const OrtKernelRegistry* kernel_registry();

// -- the choice of nodes (capability.cc) -------------------------------------------------------------------

// Nodes that compute shapes from shapes stay on the CPU and are in neither list, nor are If, Loop and Scan, whose
// bodies are chosen from like other graphs.
Choice choose(const OrtGraph* graph, const Provider& provider);

}  // namespace unihal::onnxruntime
