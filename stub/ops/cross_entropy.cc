#include <atomic>
#include <cstdio>

#include "csrc/backends/common/attributes.h"
#include "csrc/backends/common/dtype.h"
#include "stub/common/parallel.h"
#include "stub/common/staging.h"
#include "stub/ops/softmax_rows.h"

namespace unihal::stub {
namespace {

// Work per class, in the units of parallel_for.
constexpr int64_t kWork = 10;

uhal_cross_entropy_attributes attributes_of(const uhal_op& op) {
  uhal_cross_entropy_attributes defaults = {};
  defaults.axis = -1;
  return attributes_or(op, defaults);
}

// The label of a row that is left out.
constexpr int64_t kIgnored = -1;

// Class numbers, or one distribution per row.
template <typename T>
class Labels {
 public:
  Labels(Staging& staging, const uhal_tensor& view, uhal_dtype dtype, const AxisOrder& order,
         const uhal_cross_entropy_attributes& attributes, int64_t classes)
      : attributes_(attributes), classes_(classes), sparse_(is_integer(view.dtype)) {
    const uhal_tensor* staged = staging.read(&view, sparse_ ? UHAL_INT64 : dtype, &order);
    if (staged != nullptr) data_ = staged->data;
  }

  bool sparse() const { return sparse_; }
  const T* distribution(int64_t row) const { return static_cast<const T*>(data_) + row * classes_; }

  // The class of a row, or kIgnored. A number that is no class is remembered, and its row left out.
  int64_t number(int64_t row) const {
    const int64_t label = static_cast<const int64_t*>(data_)[row];
    if (attributes_.has_ignore != 0 && label == attributes_.ignore_index) return kIgnored;
    if (label >= 0 && label < classes_) return label;
    wrong_label_.store(label, std::memory_order_relaxed);
    wrong_.store(true, std::memory_order_relaxed);
    return kIgnored;
  }

  // Makes a wrong label an error of the stream.
  void report(const Launch& launch) const {
    if (!wrong_.load(std::memory_order_relaxed)) return;
    char text[200];
    std::snprintf(
        text, sizeof text,
        "cross_entropy: label %lld is out of range for %lld classes; expected 0 to %lld, or ignore_index. Its "
        "loss and gradient are zero.",
        static_cast<long long>(wrong_label_.load(std::memory_order_relaxed)), static_cast<long long>(classes_),
        static_cast<long long>(classes_ - 1));
    const char* label = launch.op.label != nullptr ? launch.op.label : "cross_entropy";
    host().stream_error(launch.stream, UHAL_OUT_OF_RANGE, label, text);
  }

 private:
  uhal_cross_entropy_attributes attributes_;
  int64_t classes_;
  bool sparse_;
  const void* data_ = nullptr;
  mutable std::atomic<bool> wrong_{false};
  mutable std::atomic<int64_t> wrong_label_{0};
};

// -sum(weight * label * (logit - sum)) over one row of soft labels.
template <typename T>
UNIHAL_VECTORIZED T soft_loss(int64_t classes, const T* logits, const T* labels, const T* weights, LogSum<T> sum) {
  T loss = 0;
  if (weights != nullptr) {
#pragma omp simd reduction(+ : loss)
    for (int64_t i = 0; i < classes; ++i) loss -= weights[i] * labels[i] * ((logits[i] - sum.largest) - sum.rest);
  } else {
#pragma omp simd reduction(+ : loss)
    for (int64_t i = 0; i < classes; ++i) loss -= labels[i] * ((logits[i] - sum.largest) - sum.rest);
  }
  return loss;
}

template <typename T>
UNIHAL_VECTORIZED void subtract_rows(int64_t count, const T* x, const T* y, T factor, T* result) {
  for (int64_t i = 0; i < count; ++i) result[i] = (x[i] - y[i]) * factor;
}

template <typename T>
UNIHAL_VECTORIZED void scale_row(int64_t count, const T* x, T factor, T* result) {
  for (int64_t i = 0; i < count; ++i) result[i] = x[i] * factor;
}

// result = (probabilities - label) * factor for one row.
template <typename T>
void gradient_row(const Labels<T>& labels, int64_t row, int64_t classes, const T* probabilities, T factor, T* result) {
  if (!labels.sparse()) {
    subtract_rows(classes, probabilities, labels.distribution(row), factor, result);
    return;
  }
  const int64_t label = labels.number(row);
  if (label == kIgnored) {
    std::fill_n(result, classes, T(0));
    return;
  }
  scale_row(classes, probabilities, factor, result);
  result[label] -= factor;
}

template <typename T>
uhal_status forward(const Launch& launch, uhal_dtype dtype) {
  const uhal_cross_entropy_attributes attributes = attributes_of(launch.op);
  const AxisOrder order = order_with_axis_last(*launch.op.inputs[0], attributes.axis);
  const int64_t classes = launch.op.inputs[0]->shape[order.axes[order.rank - 1]];
  const AxisOrder vector = row_major(1);
  Staging staging(launch);
  const T* logits = data_of<const T>(staging.input(0, dtype, &order));
  const Labels<T> labels(staging, *launch.op.inputs[1], dtype, order, attributes, classes);
  const T* weights = data_of<const T>(staging.input(2, dtype, &vector));
  T* loss = data_of<T>(staging.output(0, dtype, &order));
  T* probabilities = data_of<T>(staging.output(1, dtype, &order));
  T* gradient = data_of<T>(staging.output(2, dtype, &order));
  if (staging.status() != UHAL_OK) return staging.status();

  std::atomic<bool> out_of_memory{false};
  const int64_t rows = element_count(*launch.op.outputs[0]);
  parallel_for(rows, classes * kWork, [&](int64_t begin, int64_t end) {
    ScratchFrame frame;
    T* scratch = probabilities == nullptr && gradient == nullptr ? frame.take<T>(classes) : nullptr;
    if (probabilities == nullptr && gradient == nullptr && scratch == nullptr) {
      out_of_memory = true;
      return;
    }
    for (int64_t row = begin; row < end; ++row) {
      const T* x = logits + row * classes;
      T* softmax = probabilities != nullptr ? probabilities + row * classes
                   : gradient != nullptr    ? gradient + row * classes
                                            : scratch;
      const LogSum<T> log_sum = softmax_row(classes, x, softmax);
      if (labels.sparse()) {
        const int64_t label = labels.number(row);
        const T weight = weights != nullptr && label != kIgnored ? weights[label] : T(1);
        loss[row] = label == kIgnored ? T(0) : (log_sum.rest - (x[label] - log_sum.largest)) * weight;
      } else {
        loss[row] = soft_loss(classes, x, labels.distribution(row), weights, log_sum);
      }
      if (gradient != nullptr) gradient_row(labels, row, classes, softmax, T(1), gradient + row * classes);
    }
  });
  if (out_of_memory) return fail(UHAL_RESOURCE_EXHAUSTED, "cross_entropy: the host has no memory left for a row");
  labels.report(launch);
  return staging.finish();
}

template <typename T>
uhal_status backward(const Launch& launch, uhal_dtype dtype) {
  const uhal_cross_entropy_attributes attributes = attributes_of(launch.op);
  const AxisOrder order = order_with_axis_last(*launch.op.inputs[0], attributes.axis);
  const int64_t classes = launch.op.inputs[0]->shape[order.axes[order.rank - 1]];
  Staging staging(launch);
  const T* probabilities = data_of<const T>(staging.input(0, dtype, &order));
  const Labels<T> labels(staging, *launch.op.inputs[1], dtype, order, attributes, classes);
  const T* dloss = data_of<const T>(staging.input(2, dtype, &order));
  T* dlogits = data_of<T>(staging.output(0, dtype, &order));
  if (staging.status() != UHAL_OK) return staging.status();

  parallel_for(element_count(*launch.op.inputs[2]), classes * kWork, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      gradient_row(labels, row, classes, probabilities + row * classes, dloss[row], dlogits + row * classes);
    }
  });
  labels.report(launch);
  return staging.finish();
}

}  // namespace

const char* refuse_cross_entropy(const uhal_op& op) {
  const uhal_tensor* labels = op.inputs[1];
  if (!is_floating(labels->dtype) && labels->dtype != UHAL_INT32 && labels->dtype != UHAL_INT64) {
    return "cross_entropy takes labels of int32 or int64 (class numbers) or floating point (distributions)";
  }
  for (const uhal_tensor* view :
       {input_of(op, 0), input_of(op, 2), output_of(op, 0), output_of(op, 1), output_of(op, 2)}) {
    if (view != nullptr && !is_floating(view->dtype)) {
      return "cross_entropy takes floating point logits, weights and results: cast the operands first";
    }
  }
  return nullptr;
}

uhal_status run_cross_entropy(const Launch& launch) {
  const uhal_op& op = launch.op;
  const uhal_dtype dtype = arithmetic_dtype(op);
  if (op.kind == UHAL_OP_CROSS_ENTROPY) {
    return dtype == UHAL_FLOAT64 ? forward<double>(launch, dtype) : forward<float>(launch, dtype);
  }
  return dtype == UHAL_FLOAT64 ? backward<double>(launch, dtype) : backward<float>(launch, dtype);
}

}  // namespace unihal::stub
