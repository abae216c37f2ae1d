// scaled_dot_product_attention by unihal's attention, forward and backward.
#include <ATen/ExpandUtils.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>

#include <cmath>

#include "plugins/torch/generator.h"
#include "plugins/torch/kernels/kernels.h"

namespace unihal::pytorch {
namespace {

bool is_batched(const at::Tensor& tensor) { return tensor.key_set().has(c10::DispatchKey::FuncTorchBatched); }

}  // namespace

// Which way PyTorch takes: our op where it computes the same, else products and a softmax in float32. With dropout
// there is no mask here: a row that is hidden as a whole is 0 by our op, and NaN by a softmax; and no float64, of which
// the CPU has second derivatives.
int64_t choose_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                         const std::optional<at::Tensor>& mask, double dropout, bool causal,
                         std::optional<double> scale, bool) {
  TORCH_CHECK(c10::isFloatingType(query.scalar_type()) || c10::isComplexType(query.scalar_type()),
              "expected scalar type Float but found ", c10::toString(query.scalar_type()));
  TORCH_CHECK(dropout >= 0, "dropout probability has to be between 0 and 1, but got ", dropout);
  TORCH_CHECK(!mask.has_value() || !causal || value.sym_size(-1) == query.sym_size(-1),
              "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True");
  const bool fits = !is_batched(query) && !is_batched(key) && !is_batched(value) && query.dim() == 4 &&
                    key.dim() == 4 && value.dim() == 4 && dropout >= 0 && dropout < 1 &&
                    !(dropout != 0 && (mask.has_value() || query.scalar_type() == at::kDouble)) &&
                    c10::isFloatingType(query.scalar_type()) && query.scalar_type() == key.scalar_type() &&
                    query.scalar_type() == value.scalar_type() && query.sym_size(1) == key.sym_size(1) &&
                    query.sym_size(1) == value.sym_size(1) && query.sym_size(0) == key.sym_size(0) &&
                    query.sym_size(0) == value.sym_size(0) && scale != 0.0 &&
                    !(mask.has_value() && (mask->requires_grad() || is_batched(*mask))) && query.sym_numel() != 0 &&
                    key.sym_numel() != 0 && value.sym_numel() != 0;
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

// Of heads (B, H, L, D), dense, with axes in the order in which they lie in memory: so that heads which are a view of
// rows (B, L, H, D), as they are when a model has split them, are one again without a copy. PyTorch's graphs count on
// it.
at::Tensor empty_heads(const at::Tensor& heads, int64_t width) {
  if (heads.size(3) == width && heads.is_non_overlapping_and_dense()) {
    return empty_strided(heads.sizes(), heads.strides(), heads.scalar_type());
  }
  const int64_t sizes[] = {heads.size(0), heads.size(1), heads.size(2), width};
  return empty_strided(sizes, at::infer_dense_strides(sizes, heads.strides()), heads.scalar_type());
}
at::Tensor empty_heads(const at::Tensor& heads) { return empty_heads(heads, heads.size(3)); }

at::Tensor causal_mask(const at::Tensor& query, const at::Tensor& key) {
  const at::Tensor rows = at::arange(query.size(2), query.options().dtype(at::kLong)).unsqueeze(1);
  const at::Tensor columns = at::arange(key.size(2), query.options().dtype(at::kLong)).unsqueeze(0);
  return at::zeros({query.size(2), key.size(2)}, query.options()).masked_fill_(at::gt(columns, rows), -kInfinity);
}

// An additive mask: the caller's, made of a mask of truths, or the causal one of sides that differ.
at::Tensor additive(Call& call, const at::Tensor& query, const at::Tensor& key, at::Tensor mask, bool causal) {
  if (mask.defined() && mask.scalar_type() == at::kBool) {
    mask = at::zeros(mask.sizes(), query.options()).masked_fill_(at::logical_not(mask), -kInfinity);
  }
  if (causal && query.size(2) != key.size(2)) mask = causal_mask(query, key);
  return mask.defined() ? call.keep(mask) : mask;
}

// -- with dropout ---------------------------------------------------------------------------------------------------
//
// unihal's attention has none, so that products and a softmax are launched, in the operands' dtype: half the launches
// of PyTorch's own way, whose ops have gradients one by one. Kept for the gradient are the weights before the dropout
// and the place of its random numbers, by which it is drawn again.

double scale_of(const Call& call, const at::Tensor& query, int scale) {
  return call.real_or(scale, 1 / std::sqrt(static_cast<double>(query.size(3))));
}

void multiply(Call& call, const View& a, const View& b, const View& d, double alpha = 1, const View* c = nullptr) {
  uhal_matmul_attributes attributes = matmul_attributes(math_mode());
  attributes.alpha = alpha;
  call.launch(UHAL_OP_MATMUL, {&a, &b, c}, {&d}, &attributes);
}

// Dropout of weights, or of their gradient: it is linear.
void drop(Call& call, const View& x, const View& y, double rate, const RandomPart& part) {
  const View mask = view_of(call.scratch({x.shape[0], x.shape[1], x.shape[2], x.shape[3]}, at::kBool));
  const uhal_random_attributes attributes = random_attributes(UHAL_RANDOM_UNIFORM, rate, 1, part.key, part.counter);
  call.launch(UHAL_OP_DROPOUT, {&x}, {&y, &mask}, &attributes);
}

at::Tensor whole_number(uint64_t value) { return at::scalar_tensor(static_cast<int64_t>(value), at::kLong); }

// Arguments and results as attention's.
void attention_with_dropout(Call& call) {
  const at::Tensor &query = call.tensor(0), &key = call.tensor(1), &value = call.tensor(2);
  call.require(!call.optional_tensor(3).defined(), "a mask with dropout");
  const at::Tensor hidden = call.boolean(5) ? call.keep(causal_mask(query, key)) : at::Tensor();
  const at::Tensor weights = empty({query.size(0), query.size(1), query.size(2), key.size(2)}, query.scalar_type());
  const at::Tensor result = empty_heads(query, value.size(3));
  const RandomPart part = take_random(std::nullopt, call.device(), weights.numel(), weights.itemsize());
  const View q = view_of(query), k = view_of(key), v = view_of(value), w = view_of(weights), y = view_of(result);
  const View dropped = view_of(call.scratch(weights.sizes(), weights.scalar_type()));
  const View c = hidden.defined() ? view_of(hidden) : View();
  multiply(call, q, k.transposed(), w, scale_of(call, query, 7), hidden.defined() ? &c : nullptr);
  const uhal_softmax_attributes softmax = softmax_attributes(3);
  call.launch(UHAL_OP_SOFTMAX, {&w}, {&w}, &softmax);
  drop(call, w, dropped, call.real(4), part);
  multiply(call, dropped, v, y);
  const at::Tensor none;
  call.set_values({result, weights, none, none, query.size(2), key.size(2), whole_number(part.key),
                   whole_number(part.counter), none});
}

// Arguments and results as attention_backward's.
void attention_with_dropout_backward(Call& call) {
  const at::Tensor &query = call.tensor(1), &key = call.tensor(2), &value = call.tensor(3), &weights = call.tensor(7);
  const at::Tensor dq = empty_heads(query), dk = empty_heads(key), dv = empty_heads(value);
  const double rate = call.real(12), scale = scale_of(call, query, 16);
  const RandomPart part = {static_cast<uint64_t>(call.tensor(14).item<int64_t>()),
                           static_cast<uint64_t>(call.tensor(15).item<int64_t>())};
  const View q = view_of(query), k = view_of(key), v = view_of(value), w = view_of(weights),
             dy = view_of(call.tensor(0));
  const View to_q = view_of(dq), to_k = view_of(dk), to_v = view_of(dv);
  const View one = view_of(call.scratch(weights.sizes(), weights.scalar_type()));
  const View other = view_of(call.scratch(weights.sizes(), weights.scalar_type()));
  drop(call, w, one, rate, part);
  multiply(call, one.transposed(), dy, to_v);
  multiply(call, dy, v.transposed(), one);
  drop(call, one, other, rate, part);
  const uhal_softmax_attributes softmax = softmax_attributes(3);
  call.launch(UHAL_OP_SOFTMAX_BACKWARD, {&w, &other}, {&one}, &softmax);
  multiply(call, one, k, to_q, scale);
  multiply(call, one.transposed(), q, to_k, scale);
  call.set_values({dq, dk, dv, at::Tensor()});
}

// (query, key, value, attn_bias, dropout_p, is_causal, return_debug_mask, scale) -> (output, logsumexp, cum_seq_q,
// cum_seq_k, max_q, max_k, philox_seed, philox_offset, debug_attn_mask)
void attention(Call& call) {
  const at::Tensor &query = call.tensor(0), &key = call.tensor(1), &value = call.tensor(2);
  const bool causal = call.boolean(5);
  if (call.real(4) != 0) return attention_with_dropout(call);
  const uhal_attention_attributes attributes = attributes_of(call, query, key, causal, 7);
  const at::Tensor mask = additive(call, query, key, call.optional_tensor(3), causal);
  const at::Tensor result = empty_heads(query, value.size(3));
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
  if (call.real(12) != 0) return attention_with_dropout_backward(call);
  const uhal_attention_attributes attributes = attributes_of(call, query, key, causal, 16);
  const at::Tensor mask = additive(call, query, key, call.optional_tensor(4), causal);
  const at::Tensor dq = empty_heads(query), dk = empty_heads(key), dv = empty_heads(value);
  const View q = view_of(query), k = view_of(key), v = view_of(value), y = view_of(call.tensor(6)),
             s = view_of(call.tensor(7)), dy = view_of(gradient);
  const View to_q = view_of(dq), to_k = view_of(dk), to_v = view_of(dv);
  const View m = mask.defined() ? view_of(mask) : View();
  call.launch(UHAL_OP_ATTENTION_BACKWARD, {&q, &k, &v, mask.defined() ? &m : nullptr, &y, &s, &dy},
              {&to_q, &to_k, &to_v}, &attributes);
  call.set_values({dq, dk, dv, at::Tensor()});
}

// -- what nn.MultiheadAttention and nn.TransformerEncoderLayer call when nothing is to have a gradient ----------------

// A mask of PyTorch's (true: hidden; by its type of sides, of keys, or of both and heads) for scores (B, H, L, S), true
// where they are seen.
at::Tensor seen(const at::Tensor& mask, int64_t type) {
  if (!mask.defined()) return mask;
  const at::Tensor wide = type == 1 ? mask.unsqueeze(1).unsqueeze(1) : mask;
  return wide.scalar_type() == at::kBool ? wide.logical_not() : wide;
}

struct Heads {
  int64_t width, count;
  at::Tensor weight, bias, out_weight, out_bias;
};

// The output (B, L, width), and the weights (B, H, L, S) if they are wanted.
std::pair<at::Tensor, at::Tensor> attend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                         const Heads& heads, const at::Tensor& mask, bool with_weights) {
  const auto part = [&heads](const at::Tensor& x, int64_t number) {
    const at::Tensor weight = heads.weight.narrow(0, number * heads.width, heads.width);
    const at::Tensor projected = at::linear(x, weight, heads.bias.narrow(0, number * heads.width, heads.width));
    return projected.view({x.size(0), x.size(1), heads.count, -1}).transpose(1, 2);
  };
  const at::Tensor q = part(query, 0), k = part(key, 1), v = part(value, 2);
  at::Tensor mixed, weights;
  if (with_weights) {
    at::Tensor scores = at::matmul(q, k.mT()) * (1 / std::sqrt(static_cast<double>(q.size(-1))));
    if (mask.defined() && mask.scalar_type() == at::kBool) {
      scores = scores.masked_fill(mask.logical_not(), -kInfinity);
    } else if (mask.defined()) {
      scores = scores + mask;
    }
    weights = scores.softmax(-1);
    mixed = at::matmul(weights, v);
  } else {
    mixed = at::scaled_dot_product_attention(q, k, v, mask.defined() ? std::optional(mask) : std::nullopt);
  }
  const at::Tensor flat = mixed.transpose(1, 2).reshape({query.size(0), query.size(1), heads.width});
  return {at::linear(flat, heads.out_weight, heads.out_bias), weights};
}

// (query, key, value, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, need_weights,
// average_attn_weights, mask_type)
void multi_head_attention(Call& call) {
  const at::Tensor& query = call.tensor(0);
  const Heads heads = {call.integer(3), call.integer(4), call.tensor(5),
                       call.tensor(6),  call.tensor(7),  call.tensor(8)};
  TORCH_CHECK(query.dim() == 3, "expected 3-D `query`, got ", query.dim(), "-D tensor");
  TORCH_CHECK(query.size(2) == heads.width, "passed-in embed_dim ", heads.width, " didn't match last dim of query ",
              query.size(2));
  TORCH_CHECK(heads.count > 0 && heads.width % heads.count == 0, "`embed_dim` must divide evenly by `num_heads`");
  const at::Tensor mask = seen(call.optional_tensor(9), call.integer_or(12, 2));
  const auto [output, weights] = attend(query, call.tensor(1), call.tensor(2), heads, mask, call.boolean(10));
  const at::Tensor given = weights.defined() && call.boolean(11) ? weights.mean(1) : weights;
  call.set_values({output, given});
}

// (src, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, use_gelu, norm_first, eps, norm_weight_1,
// norm_bias_1, norm_weight_2, norm_bias_2, ffn_weight_1, ffn_bias_1, ffn_weight_2, ffn_bias_2, mask, mask_type)
void encoder_layer(Call& call) {
  const at::Tensor& source = call.tensor(0);
  const Heads heads = {call.integer(1), call.integer(2), call.tensor(3),
                       call.tensor(4),  call.tensor(5),  call.tensor(6)};
  const bool norm_first = call.boolean(8);
  const auto norm = [&](const at::Tensor& x, int first) {
    return at::layer_norm(x, {heads.width}, call.tensor(first), call.tensor(first + 1), call.real(9));
  };
  const at::Tensor mask = seen(call.optional_tensor(18), call.integer_or(19, 2));
  const at::Tensor x = norm_first ? norm(source, 10) : source;
  at::Tensor attended = source + attend(x, x, x, heads, mask, /*with_weights=*/false).first;
  if (!norm_first) attended = norm(attended, 10);
  at::Tensor inner = at::linear(norm_first ? norm(attended, 12) : attended, call.tensor(14), call.tensor(15));
  inner = call.boolean(7) ? at::gelu(inner) : at::relu(inner);
  const at::Tensor result = attended + at::linear(inner, call.tensor(16), call.tensor(17));
  call.set_result(0, norm_first ? result : norm(result, 12));
}

// Whether a nested tensor is to stand for a padded one: there are none on this device.
void is_left_aligned(Call& call) { call.set_values({false}); }

constexpr Kernel kAttentionKernels[] = {
    {"_native_multi_head_attention", kFloats, multi_head_attention},
    {"_transformer_encoder_layer_fwd", kFloats, encoder_layer},
    {"_nested_tensor_from_mask_left_aligned", kAll, is_left_aligned},
    {"_scaled_dot_product_fused_attention_overrideable", kFloats, attention},
    {"_scaled_dot_product_fused_attention_overrideable_backward", kFloats, attention_backward},
};

}  // namespace

void register_attention() { register_kernels(kAttentionKernels); }

}  // namespace unihal::pytorch

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &unihal::pytorch::choose_attention)
}  // namespace at::native
