// Connectionist temporal classification.

#include "plugins/paddle/kernels/common.h"

namespace unihal::paddle {
namespace {

// Of sequences padded to one length; the gradient of the losses' sum comes with them. A sequence without a path has the
// loss 0, as on Paddle's CPU.
void warpctc(Context context, Input logits, Input label, OptionalInput logits_length, OptionalInput labels_length,
             int blank, bool, Output loss, Output gradient) {
  if (!logits_length || !labels_length) unsupported(context, "a loss of sequences in level-of-detail tensors");
  const View x = logits.view(), labels = label.view();
  if (x.rank != 3 || labels.rank != 2) invalid(context, "logits have three axes and labels two");
  const View steps = logits_length.view(), counts = labels_length.view();
  const int64_t loss_dims[] = {x.shape[1], 1};
  const View losses = context.allocate(loss, x.dtype, loss_dims, 2);
  const View dx = context.allocate(gradient, x.dtype, x.shape, x.rank);
  const WideIntegers wide(context, labels);
  uhal_ctc_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.blank = blank;
  attributes.zero_infinity = 1;
  const View row = flat(losses), lengths = flat(steps), label_lengths = flat(counts);
  context.run(UHAL_OP_CTC_LOSS, {&x, &wide, &lengths, &label_lengths}, {&row, &dx}, &attributes);
}

// norm_by_times: each sequence's gradient is divided by its steps.
void warpctc_grad(Context context, Input, OptionalInput logits_length, Input gradient, Input dloss, int,
                  bool norm_by_times, Output dx) {
  const View kept = gradient.view(), dlosses = dloss.view();
  const View out = context.allocate(dx, kept.dtype, kept.shape, kept.rank);
  const View factors = dlosses.reshaped({1, kept.shape[1], 1});
  if (!norm_by_times) return context.map(uhal_map_multiply, {&kept, &factors}, {&out});
  if (!logits_length) unsupported(context, "a loss of sequences in level-of-detail tensors");
  const int64_t dims[] = {1, kept.shape[1], 1};
  const Scratch quotients(context, kept.dtype, dims, 3);
  const View steps = logits_length.view().reshaped(dims, 3);
  context.map(uhal_map_divide_no_nan, {&factors, &steps}, {&quotients});
  context.map(uhal_map_multiply, {&kept, &quotients}, {&out});
}

}  // namespace

KernelTable ctc_kernels() {
  return {
      UNIHAL_KERNEL("warpctc", kWideFloats, warpctc),
      UNIHAL_KERNEL("warpctc_grad", kWideFloats, warpctc_grad),
  };
}

}  // namespace unihal::paddle
