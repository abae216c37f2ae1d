// scaled_dot_product_attention by unihal's attention, forward and backward.
#include <ATen/native/DispatchStub.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>

#include "plugins/torch/kernels/kernels.h"

namespace unihal::pytorch {

// Which way PyTorch takes: our op where it computes the same, else products and a softmax.
int64_t choose_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                         const std::optional<at::Tensor>& mask, double dropout, bool, std::optional<double>, bool) {
  const bool fits = query.dim() == 4 && key.dim() == 4 && value.dim() == 4 && dropout == 0 &&
                    c10::isFloatingType(query.scalar_type()) && query.scalar_type() == key.scalar_type() &&
                    query.scalar_type() == value.scalar_type() && query.size(1) == key.size(1) &&
                    query.size(1) == value.size(1) && !(mask.has_value() && mask->requires_grad()) &&
                    query.numel() != 0 && key.numel() != 0 && value.numel() != 0;
  return static_cast<int64_t>(fits ? sdp::SDPBackend::overrideable : sdp::SDPBackend::math);
}

namespace {

// PyTorch's causal mask begins at the first row and column; unihal's ends at the last ones.
uhal_attention_attributes attributes_of(Call& call, const at::Tensor& query, const at::Tensor& key, bool causal,
                                        int scale) {
  uhal_attention_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.scale = call.real_or(scale, 0);
  attributes.causal = causal && query.size(2) == key.size(2);
  attributes.math_mode = math_mode();
  return attributes;
}

// An additive mask: the caller's, made of a mask of truths, or the causal one of sides that differ.
at::Tensor additive(Call& call, const at::Tensor& query, const at::Tensor& key, at::Tensor mask, bool causal) {
  const double hidden = -std::numeric_limits<double>::infinity();
  if (mask.defined() && mask.scalar_type() == at::kBool) {
    mask = at::zeros(mask.sizes(), query.options()).masked_fill_(at::logical_not(mask), hidden);
  }
  if (causal && query.size(2) != key.size(2)) {
    const at::Tensor rows = at::arange(query.size(2), query.options().dtype(at::kLong)).unsqueeze(1);
    const at::Tensor columns = at::arange(key.size(2), query.options().dtype(at::kLong)).unsqueeze(0);
    mask = at::zeros({query.size(2), key.size(2)}, query.options()).masked_fill_(at::gt(columns, rows), hidden);
  }
  return mask.defined() ? call.keep(mask) : mask;
}

// (query, key, value, attn_bias, dropout_p, is_causal, return_debug_mask, scale) -> (output, logsumexp, cum_seq_q,
// cum_seq_k, max_q, max_k, philox_seed, philox_offset, debug_attn_mask)
void attention(Call& call) {
  const at::Tensor &query = call.tensor(0), &key = call.tensor(1), &value = call.tensor(2);
  const bool causal = call.boolean(5);
  call.require(call.real(4) == 0, "dropout");
  const uhal_attention_attributes attributes = attributes_of(call, query, key, causal, 7);
  const at::Tensor mask = additive(call, query, key, call.optional_tensor(3), causal);
  const at::Tensor result = empty({query.size(0), query.size(1), query.size(2), value.size(3)}, query.scalar_type());
  const at::ScalarType wide = query.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor sums = empty({query.size(0), query.size(1), query.size(2)}, wide);
  const View q = view_of(query), k = view_of(key), v = view_of(value), y = view_of(result), s = view_of(sums);
  const View m = mask.defined() ? view_of(mask) : View();
  call.launch(UHAL_OP_ATTENTION, {&q, &k, &v, mask.defined() ? &m : nullptr}, {&y, &s}, &attributes);
  const at::Tensor none;
  call.set_values(
      {result, sums, none, none, query.size(2), key.size(2), at::empty({}, at::kLong), at::empty({}, at::kLong), none});
}

// (grad_out, query, key, value, attn_bias, grad_input_mask, out, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k,
// dropout_p, is_causal, philox_seed, philox_offset, *, scale)
void attention_backward(Call& call) {
  const at::Tensor &gradient = call.tensor(0), &query = call.tensor(1), &key = call.tensor(2), &value = call.tensor(3);
  const bool causal = call.boolean(13);
  const uhal_attention_attributes attributes = attributes_of(call, query, key, causal, 16);
  const at::Tensor mask = additive(call, query, key, call.optional_tensor(4), causal);
  const at::Tensor dq = empty(query.sizes(), query.scalar_type()), dk = empty(key.sizes(), key.scalar_type()),
                   dv = empty(value.sizes(), value.scalar_type());
  const View q = view_of(query), k = view_of(key), v = view_of(value), y = view_of(call.tensor(6)),
             s = view_of(call.tensor(7)), dy = view_of(gradient);
  const View to_q = view_of(dq), to_k = view_of(dk), to_v = view_of(dv);
  const View m = mask.defined() ? view_of(mask) : View();
  call.launch(UHAL_OP_ATTENTION_BACKWARD, {&q, &k, &v, mask.defined() ? &m : nullptr, &y, &s, &dy},
              {&to_q, &to_k, &to_v}, &attributes);
  call.set_values({dq, dk, dv, at::Tensor()});
}

constexpr Kernel kKernels[] = {
    {"_scaled_dot_product_fused_attention_overrideable", kFloats, attention},
    {"_scaled_dot_product_fused_attention_overrideable_backward", kFloats, attention_backward},
};

}  // namespace

void register_attention() { register_kernels(kKernels); }

}  // namespace unihal::pytorch

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &unihal::pytorch::choose_attention)
}  // namespace at::native
