// What backends share of connectionist temporal classification: the operands of UHAL_OP_CTC_LOSS by name.
#pragma once

#include "csrc/backends/common/attributes.h"
#include "unihal/op.h"

namespace unihal {

struct CtcProblem {
  uhal_ctc_attributes attributes;
  const uhal_tensor* logits;         // (T, B, C)
  const uhal_tensor* labels;         // (B, L)
  const uhal_tensor* logit_lengths;  // (B), or nullptr
  const uhal_tensor* label_lengths;  // (B), or nullptr
  const uhal_tensor* loss;           // (B)
  const uhal_tensor* gradient;       // (T, B, C), or nullptr
  int64_t steps, batch, classes, labels_count;

  explicit CtcProblem(const uhal_op& op)
      : attributes(attributes_or(op, uhal_ctc_attributes{sizeof(uhal_ctc_attributes), 0, 0})),
        logits(op.inputs[0]),
        labels(op.inputs[1]),
        logit_lengths(op.input_count > 2 ? op.inputs[2] : nullptr),
        label_lengths(op.input_count > 3 ? op.inputs[3] : nullptr),
        loss(op.outputs[0]),
        gradient(op.output_count > 1 ? op.outputs[1] : nullptr),
        steps(logits->shape[0]),
        batch(logits->shape[1]),
        classes(logits->shape[2]),
        labels_count(labels->shape[1]) {}

  // The longest row of labels with blanks before, between and behind them.
  int64_t states() const { return 2 * labels_count + 1; }
};

}  // namespace unihal
