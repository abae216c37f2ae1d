#include "plugins/onnxruntime/graph_capture.h"

namespace unihal::onnxruntime {
namespace {

// Runs before the one that is captured. In the second one memory comes from what the first gave back.
constexpr int kRunsBefore = 2;

}  // namespace

GraphCapture::~GraphCapture() {
  cancel_capture(stream_->handle);
  for (const auto& [number, graph] : graphs_) uhal_graph_destroy(graph);
}

bool GraphCapture::has(int number) {
  const std::lock_guard<std::mutex> lock(mutex_);
  number_ = number;
  return graphs_.count(number) != 0;
}

void GraphCapture::begin_run() {
  const std::lock_guard<std::mutex> lock(mutex_);
  captures_ = false;
  if (number_ < 0 || graphs_.count(number_) != 0 || runs_[number_]++ < kRunsBefore) return;
  check(uhal_graph_capture_begin(stream_->handle));
  captures_ = true;
}

void GraphCapture::end_run() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!captures_) return;
  captures_ = false;
  int32_t is_capturing = 0;
  check(uhal_graph_capture_query(stream_->handle, &is_capturing));
  if (is_capturing == 0) return;  // the run failed, and says so
  uhal_graph* graph = nullptr;
  check(uhal_graph_capture_end(stream_->handle, &graph));
  graphs_[number_] = graph;
  check(uhal_graph_launch(graph, stream_->handle));
}

void GraphCapture::replay(int number) {
  uhal_graph* graph = nullptr;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    graph = graphs_.at(number);
  }
  check(uhal_graph_launch(graph, stream_->handle));
  check(uhal_stream_synchronize(stream_->handle));
}

bool cancel_capture(uhal_stream* stream) {
  int32_t is_capturing = 0;
  if (uhal_graph_capture_query(stream, &is_capturing) != UHAL_OK || is_capturing == 0) return false;
  uhal_graph_capture_cancel(stream);
  return true;
}

}  // namespace unihal::onnxruntime
