// Whole runs of a session as one piece of work: captured once, launched by each later run.
#pragma once

#include <map>
#include <mutex>

#include "plugins/onnxruntime/runtime.h"
#include "unihal/graph_capture.h"

namespace unihal::onnxruntime {

// The graphs of one session, by the number that ONNX Runtime has for them ("gpu_graph_id" of a run; below 0: none). One
// run at a time.
class GraphCapture {
 public:
  explicit GraphCapture(std::shared_ptr<Stream> stream) : stream_(std::move(stream)) {}
  ~GraphCapture();
  GraphCapture(const GraphCapture&) = delete;
  GraphCapture& operator=(const GraphCapture&) = delete;

  // Whether there is a graph. ONNX Runtime asks at the beginning of each run: the number is that of the run which
  // follows.
  bool has(int number);
  // Around the work of a run: the first runs are as without graphs, so that programs are compiled and memory is there;
  // the next is captured, and its graph launched at its end. Both throw.
  void begin_run();
  void end_run();
  // Launches a graph, and waits for it. Throws.
  void replay(int number);

 private:
  const std::shared_ptr<Stream> stream_;
  std::mutex mutex_;
  int number_ = -1;  // of the run that goes on
  bool captures_ = false;
  std::map<int, int> runs_;
  std::map<int, uhal_graph*> graphs_;
};

// For what a capture must not hold, or has failed in: the capture of the stream, if there is one, ends without a graph.
// Gives whether there was one.
bool cancel_capture(uhal_stream* stream);

}  // namespace unihal::onnxruntime
