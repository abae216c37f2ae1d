// Connectionist temporal classification.
//
// The labels and the lengths lie in host memory, as for TensorFlow's own GPUs: the CPU refuses some of them, and the
// sparse labels become rows of one length before they go to the device.
#include <algorithm>
#include <utility>

#include "plugins/tensorflow/registrar.h"

namespace unihal::tensorflow {
namespace {

// (inputs (T, B, C), labels_indices (N, 2), labels_values (N), sequence_length (B)) -> (loss (B), gradient). The blank
// is the last class of CTCLoss and the first of CTCLossV2.
template <bool kBlankFirst>
class CtcLoss : public Kernel {
 public:
  explicit CtcLoss(Construction& construction)
      : Kernel(construction),
        collapses_(construction.boolean("preprocess_collapse_repeated")),
        ignores_longer_(construction.boolean("ignore_longer_outputs_than_inputs")) {
    if (!construction.boolean("ctc_merge_repeated")) {
      construction.refuse("repeated classes are always merged (ctc_merge_repeated)");
    }
  }

  void compute(Context& context) const override {
    const View logits = context.input(0), indices = context.input(1), values = context.input(2);
    const View lengths = context.input(3);
    if (!context.ok() || !check(context, logits, indices, values, lengths)) return;
    std::vector<std::vector<int32_t>> labels;
    if (!collect(context, logits, indices, values, &labels)) return;
    const auto* steps = static_cast<const int32_t*>(lengths.data);
    bool has_paths = true;
    for (size_t b = 0; b < labels.size(); ++b) {
      if (!check_sequence(context, logits, static_cast<int64_t>(b), steps[b], &labels[b], &has_paths)) return;
    }
    // TensorFlow's CPU has an infinite loss then, and still a gradient, or a loss of its own.
    if (!has_paths && !kBlankFirst)
      return context.refuse("labels that no path of so few steps gives, or without a class");
    const View loss = context.output(0, logits.dtype, {logits.shape[1]});
    const View gradient = context.output_like(1, logits);
    if (!context.ok() || gradient.elements() == 0) return;

    int64_t width = 1;
    for (const auto& row : labels) width = std::max(width, static_cast<int64_t>(row.size()));
    const int64_t batch = logits.shape[1];
    // Rows of labels, their lengths and the steps: one copy.
    std::vector<char> bytes(static_cast<size_t>(batch * (width + 2)) * sizeof(int32_t));
    auto* numbers = reinterpret_cast<int32_t*>(bytes.data());
    for (size_t b = 0; b < labels.size(); ++b) {
      std::copy(labels[b].begin(), labels[b].end(), numbers + static_cast<int64_t>(b) * width);
      numbers[batch * width + static_cast<int64_t>(b)] = static_cast<int32_t>(labels[b].size());
    }
    std::copy(steps, steps + batch, numbers + batch * (width + 1));
    const View operands = context.temporary(UHAL_INT32, {batch * (width + 2)});
    if (!context.upload(std::move(bytes), operands)) return;
    auto* data = static_cast<int32_t*>(operands.data);
    const View rows(data, UHAL_INT32, {batch, width}), counts(data + batch * width, UHAL_INT32, {batch});
    const View times(data + batch * (width + 1), UHAL_INT32, {batch});
    uhal_ctc_attributes attributes = {};
    attributes.struct_size = sizeof attributes;
    attributes.blank = kBlankFirst ? 0 : static_cast<int32_t>(logits.shape[2] - 1);
    attributes.zero_infinity = ignores_longer_ || !kBlankFirst;
    context.launch(UHAL_OP_CTC_LOSS, {&logits, &rows, &times, &counts}, {&loss, &gradient}, &attributes);
  }

 private:
  bool check(Context& context, const View& logits, const View& indices, const View& values, const View& lengths) const {
    if (logits.rank != 3) {
      context.fail_invalid("inputs is not a 3-Tensor");
    } else if (lengths.rank != 1) {
      context.fail_invalid("sequence_length is not a vector");
    } else if (indices.rank != 2 || indices.shape[1] != 2) {
      context.fail_invalid("labels_indices is not a matrix of two columns");
    } else if (values.rank != 1) {
      context.fail_invalid("labels_values is not a vector");
    } else if (values.shape[0] != indices.shape[0]) {
      context.fail_invalid("labels_indices and labels_values must contain the same number of rows, but saw shapes: " +
                           to_text(indices) + " vs. " + to_text(values));
    } else if (lengths.shape[0] != logits.shape[1]) {
      context.fail_invalid("len(sequence_length) != batch_size.  len(sequence_length):  " +
                           std::to_string(lengths.shape[0]) + " batch_size: " + std::to_string(logits.shape[1]));
    } else if (logits.shape[0] == 0 || logits.shape[1] == 0 || logits.shape[2] == 0) {
      context.fail_invalid("inputs must have steps, sequences and classes, got shape " + to_text(logits));
    }
    return context.ok();
  }

  // The labels of each sequence, in the order in which they come.
  bool collect(Context& context, const View& logits, const View& indices, const View& values,
               std::vector<std::vector<int32_t>>* labels) const {
    labels->resize(static_cast<size_t>(logits.shape[1]));
    const auto* places = static_cast<const int64_t*>(indices.data);
    const auto* given = static_cast<const int32_t*>(values.data);
    for (int64_t i = 0; i < values.shape[0]; ++i) {
      const int64_t sequence = places[2 * i];
      if (sequence < 0 || sequence >= logits.shape[1] || places[2 * i + 1] < 0) {
        context.fail_invalid("labels_indices(" + std::to_string(i) + ") is [" + std::to_string(sequence) + "," +
                             std::to_string(places[2 * i + 1]) + "], out of bounds for a batch of " +
                             std::to_string(logits.shape[1]));
        return false;
      }
      if (i > 0 &&
          (sequence < places[2 * i - 2] || (sequence == places[2 * i - 2] && places[2 * i + 1] <= places[2 * i - 1]))) {
        context.fail_invalid("labels_indices(" + std::to_string(i) + ") is out of order");
        return false;
      }
      (*labels)[static_cast<size_t>(sequence)].push_back(given[i]);
    }
    return true;
  }

  // Checks the labels as they are given, and leaves those that the loss is of. *has_paths becomes false if there are
  // too few steps for them because of equal neighbours, or none is left.
  bool check_sequence(Context& context, const View& logits, int64_t b, int32_t steps, std::vector<int32_t>* labels,
                      bool* has_paths) const {
    const std::string batch = ", batch: " + std::to_string(b);
    if (steps < 0 || steps > logits.shape[0]) {
      context.fail_invalid("sequence_length(" + std::to_string(b) + ") must be from 0 to " +
                           std::to_string(logits.shape[0]) + ", got " + std::to_string(steps));
      return false;
    }
    if (labels->empty() && !kBlankFirst) {
      context.fail_invalid("Labels length is zero in batch " + std::to_string(b));
      return false;
    }
    const auto given = static_cast<int64_t>(labels->size());
    std::vector<int32_t> kept;
    bool ended = false;  // by a label that is no class, which CTCLoss lets stand behind all others
    for (const int32_t label : *labels) {
      const bool is_class = kBlankFirst ? label > 0 && label < logits.shape[2] : label < logits.shape[2] - 1;
      if (label < 0 || (kBlankFirst && !is_class)) {
        context.fail_invalid("All labels must be nonnegative integers and classes other than the blank" + batch +
                             " label: " + std::to_string(label));
        return false;
      }
      if (is_class && ended) {
        context.fail_invalid("Saw a non-null label (index >= num_classes - 1) following a null label" + batch);
        return false;
      }
      ended = !is_class;
      if (is_class && (!collapses_ || kept.empty() || kept.back() != label)) kept.push_back(label);
    }
    if (given > steps && !ignores_longer_) {
      context.fail_invalid("Not enough time for target transition sequence (required: " + std::to_string(given) +
                           ", available: " + std::to_string(steps) + ")" + batch +
                           "; ignore_longer_outputs_than_inputs gives such sequences the loss 0");
      return false;
    }
    if (kept.empty()) *has_paths = false;
    auto needed = static_cast<int64_t>(kept.size());
    for (size_t i = 1; i < kept.size(); ++i) needed += kept[i] == kept[i - 1];
    if (given <= steps && needed > steps) *has_paths = false;
    if (given > steps) kept.assign(static_cast<size_t>(steps) + 1, kBlankFirst ? 1 : 0);  // as no path can
    *labels = std::move(kept);
    return true;
  }

  bool collapses_;
  bool ignores_longer_;
};

}  // namespace

void register_ctc(Registrar& registrar) {
  const std::initializer_list<const char*> host = {"labels_indices", "labels_values", "sequence_length"};
  registrar.add<CtcLoss<false>>("CTCLoss", {{"T", only(UHAL_FLOAT32) | only(UHAL_FLOAT64)}}, host);
  registrar.add<CtcLoss<true>>("CTCLossV2", {}, host);
}

}  // namespace unihal::tensorflow
