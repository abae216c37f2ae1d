// Attention. Paddle's tensors are (batch, length, heads, features): the op's (batch, heads, length, features) by
// strides.
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "plugins/paddle/kernels/common.h"
#include "plugins/paddle/kernels/dropout.h"
#include "plugins/paddle/math_mode.h"

namespace unihal::paddle {
namespace {

// What flash_attn and memory_efficient_attention take as an attribute each.
struct AttentionSettings {
  double scale = 0;  // 0: 1 / sqrt(features)
  bool causal = false;
};

uhal_attention_attributes attention_attributes_of(const AttentionSettings& settings) {
  uhal_attention_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.scale = settings.scale;
  attributes.causal = settings.causal;
  attributes.math_mode = product_math_mode();
  return attributes;
}

View heads_first(const View& x) { return x.permuted({0, 2, 1, 3}); }

void check_operands(const Context& context, const View& q, const View& k, const View& v) {
  if (q.rank != 4 || k.rank != 4 || v.rank != 4) {
    invalid(context, "query, key and value have four axes: batch, length, heads, features");
  }
  require_same_dtype(context, q, k);
  require_same_dtype(context, q, v);
  const int64_t heads = k.shape[2];
  if (v.shape[2] != heads || (heads == 0 ? q.shape[2] != 0 : q.shape[2] % heads != 0)) {
    invalid(context, "key and value have " + std::to_string(heads) + " and " + std::to_string(v.shape[2]) +
                         " heads; expected one number for both, of which query's " + std::to_string(q.shape[2]) +
                         " is a multiple");
  }
}

// (batch, length, heads, 1, features), of which each head serves a group of the query's.
View with_groups(const View& x) { return x.unsqueezed(3); }

// Key or value with as many heads as the query: itself, or a copy that repeats each head for the group that shares it.
class RepeatedHeads : public View {
 public:
  RepeatedHeads(const Context& context, const View& x, int64_t heads) : View(x) {
    if (x.shape[2] == heads) return;
    prepare(context, x, heads);
    copy_or_cast(context, with_groups(x), groups_);
  }

  // For a gradient of x's shape, which is the sum over each group.
  struct Empty {};
  RepeatedHeads(const Context& context, const View& x, int64_t heads, Empty) : View(x) {
    if (x.shape[2] != heads) prepare(context, x, heads);
  }
  void sum_groups(const Context& context, const View& target) const {
    if (copy_.has_value()) sum_to_shape(context, groups_, with_groups(target));
  }

 private:
  void prepare(const Context& context, const View& x, int64_t heads) {
    const int64_t dims[] = {x.shape[0], x.shape[1], heads, x.shape[3]};
    copy_.emplace(context, x.dtype, dims, 4);
    groups_ =
        copy_->reshaped({x.shape[0], x.shape[1], x.shape[2], x.shape[2] == 0 ? 0 : heads / x.shape[2], x.shape[3]});
    static_cast<View&>(*this) = *copy_;
  }

  std::optional<Scratch> copy_;
  View groups_;
};

// The mask as the op takes it; Paddle ignores the one that is given beside `causal`.
std::optional<View> mask_of(const Context& context, OptionalInput mask, bool causal) {
  if (!mask || causal) return std::nullopt;
  const View given = mask.view();
  if (given.rank > 4) invalid(context, "the mask has at most four axes: batch, heads, queries, keys");
  return given;
}
const View* pointer(const std::optional<View>& view) { return view.has_value() ? &*view : nullptr; }

void attend(const Context& context, Input query, Input key, Input value, OptionalInput mask,
            const AttentionSettings& settings, Output out, Output logsumexp) {
  const View q = query.view(), k = key.view(), v = value.view();
  check_operands(context, q, k, v);
  const int64_t heads = q.shape[2];
  const int64_t out_dims[] = {q.shape[0], q.shape[1], heads, v.shape[3]};
  const int64_t row_dims[] = {q.shape[0], heads, q.shape[1]};
  const View result = context.allocate(out, q.dtype, out_dims, 4);
  const View rows = context.allocate(logsumexp, accumulator(q.dtype), row_dims, 3);
  const RepeatedHeads all_k(context, k, heads), all_v(context, v, heads);
  const View left = heads_first(q), right = heads_first(all_k), factors = heads_first(all_v), y = heads_first(result);
  const std::optional<View> added = mask_of(context, mask, settings.causal);
  const auto attributes = attention_attributes_of(settings);
  context.run(UHAL_OP_ATTENTION, {&left, &right, &factors, pointer(added)}, {&y, &rows}, &attributes);
}

// What gradients of attention read and write, heads first, with as many heads of keys and values as of queries.
class AttentionGradient {
 public:
  AttentionGradient(const Context& context, Input query, Input key, Input value, Output dquery, Output dkey,
                    Output dvalue)
      : context_(context),
        given_{checked(context, query.view(), key.view(), value.view())},
        dq_(context, dquery, given_.q),
        dk_(context, dkey, given_.k),
        dv_(context, dvalue, given_.v),
        all_k_(context, given_.k, given_.q.shape[2]),
        all_v_(context, given_.v, given_.q.shape[2]),
        all_dk_(context, dk_, given_.q.shape[2], RepeatedHeads::Empty{}),
        all_dv_(context, dv_, given_.q.shape[2], RepeatedHeads::Empty{}) {}

  const View& query() const { return given_.q; }  // as Paddle gave it
  View q() const { return heads_first(given_.q); }
  View k() const { return heads_first(all_k_); }
  View v() const { return heads_first(all_v_); }
  View dq() const { return heads_first(dq_); }
  View dk() const { return heads_first(all_dk_); }
  View dv() const { return heads_first(all_dv_); }

  // When all of dk and dv are written: gradients of heads that several of the query's share.
  void finish() const {
    all_dk_.sum_groups(context_, dk_);
    all_dv_.sum_groups(context_, dv_);
  }

 private:
  struct Given {
    View q, k, v;
  };
  static Given checked(const Context& context, const View& q, const View& k, const View& v) {
    check_operands(context, q, k, v);
    return {q, k, v};
  }

  const Context& context_;
  Given given_;
  OutputOrScratch dq_, dk_, dv_;
  RepeatedHeads all_k_, all_v_, all_dk_, all_dv_;
};

void attend_grad(const Context& context, const AttentionGradient& gradient, OptionalInput mask, Input out,
                 Input logsumexp, Input dout, const AttentionSettings& settings) {
  const View y = heads_first(out.view()), dy = heads_first(dout.view()), rows = logsumexp.view();
  const View q = gradient.q(), k = gradient.k(), v = gradient.v();
  const View dq = gradient.dq(), dk = gradient.dk(), dv = gradient.dv();
  const std::optional<View> added = mask_of(context, mask, settings.causal);
  const auto attributes = attention_attributes_of(settings);
  context.run(UHAL_OP_ATTENTION_BACKWARD, {&q, &k, &v, pointer(added), &y, &rows, &dy}, {&dq, &dk, &dv}, &attributes);
  gradient.finish();
}

// What Paddle keeps of the random numbers of a dropout; without one nobody reads it.
void allocate_seed(const Context& context, Output seed, uhal_dtype dtype) {
  const int64_t two = 2;
  fill_zero(context, context.allocate(seed, dtype, &two, 1));
}

// -- with dropout of the weights ------------------------------------------------------------------------------------
//
// The op has none, so that two products, a softmax and a dropout are launched, in the operands' dtype. For the gradient
// Paddle's own kernels keep a sum of each row and the place of their random numbers; in their places are the weights
// before the dropout and what was kept of them.

struct DroppedAttention {
  AttentionSettings settings;
  double rate;                       // below 1
  Context::RandomSequence sequence;  // of the forward

  double scale(const View& q) const {
    return settings.scale != 0 ? settings.scale : 1 / std::sqrt(static_cast<double>(q.shape[3]));
  }
};

void multiply(const Context& context, const View& a, const View& b, const View& d, double alpha = 1,
              const View* c = nullptr) {
  if (d.elements() == 0) return;
  if (a.elements() == 0) return fill_zero(context, d);
  auto attributes = matmul_attributes(product_math_mode());
  attributes.alpha = alpha;
  context.run(UHAL_OP_MATMUL, {&a, &b, c}, {&d}, &attributes);
}

void refuse_with_dropout(const Context& context, const Tensor& q, const Tensor& k, bool has_mask, bool causal,
                         double rate) {
  const char* const why = has_mask    ? "with a mask"
                          : rate >= 1 ? "of all weights"
                          : causal && q.dim(1) != k.dim(1)
                              ? "of causal attention whose queries and keys differ in number"
                              : nullptr;
  if (why == nullptr) return;
  unsupported(context,
              std::string("dropout ") + why + " in one kernel (sdpa_kernel(SDPBackend.MATH) computes it by several)");
}

// -inf above the diagonal.
void hide_what_comes(const Context& context, const View& scores) {
  fill(context, scores, -std::numeric_limits<double>::infinity(), 0);
  uhal_triangular_attributes above = {};
  above.struct_size = sizeof above;
  above.diagonal = 1;
  above.upper = 1;
  context.run(UHAL_OP_TRIANGULAR, {&scores}, {&scores}, &above);
}

void attend_with_dropout(const Context& context, Input query, Input key, Input value, const DroppedAttention& dropped,
                         Output out, Output weights, Output kept) {
  const View q = query.view(), k = key.view(), v = value.view();
  check_operands(context, q, k, v);
  const int64_t heads = q.shape[2];
  const int64_t out_dims[] = {q.shape[0], q.shape[1], heads, v.shape[3]};
  const int64_t weight_dims[] = {q.shape[0], heads, q.shape[1], k.shape[1]};
  const View result = context.allocate(out, q.dtype, out_dims, 4);
  const View w = context.allocate(weights, q.dtype, weight_dims, 4);
  const View mask = context.allocate(kept, UHAL_UINT8, weight_dims, 4);
  const RepeatedHeads all_k(context, k, heads), all_v(context, v, heads);
  const Scratch passed(context, q.dtype, w);
  std::optional<Scratch> hidden;
  if (dropped.settings.causal) {
    hidden.emplace(context, q.dtype, weight_dims + 2, 2);
    if (hidden->elements() > 0) hide_what_comes(context, *hidden);
  }
  multiply(context, heads_first(q), heads_first(all_k).transposed(), w, dropped.scale(q),
           hidden.has_value() ? &*hidden : nullptr);
  const auto softmax = softmax_attributes(3);
  context.run(UHAL_OP_SOFTMAX, {&w}, {&w}, &softmax);
  const auto random = random_attributes(UHAL_RANDOM_UNIFORM, dropped.rate, 0, dropped.sequence.key, 0);
  context.run(UHAL_OP_DROPOUT, {&w, dropped.sequence.turn}, {&passed, &mask}, &random);
  multiply(context, passed, heads_first(all_v), heads_first(result));
}

void attend_with_dropout_grad(const Context& context, const AttentionGradient& gradient, Input weights, Input kept,
                              Input dout, const DroppedAttention& dropped) {
  const View w = weights.view(), mask = kept.view(), dy = heads_first(dout.view());
  const Scratch passed(context, w.dtype, w), dw(context, w.dtype, w);
  const double scale = dropped.scale(gradient.query());
  pass_kept(context, mask, w, dropped.rate, passed);
  multiply(context, passed.transposed(), dy, gradient.dv());
  multiply(context, dy, gradient.v().transposed(), passed);
  pass_kept(context, mask, passed, dropped.rate, dw);
  const auto softmax = softmax_attributes(3);
  context.run(UHAL_OP_SOFTMAX_BACKWARD, {&w, &dw}, {&passed}, &softmax);
  multiply(context, passed, gradient.k(), gradient.dq(), scale);
  multiply(context, passed.transposed(), gradient.q(), gradient.dk(), scale);
  gradient.finish();
}

void flash_attn(Context context, Input q, Input k, Input v, OptionalInput, OptionalInput mask, float dropout,
                bool causal, bool return_softmax, bool inference, Text, Output out, Output softmax, Output logsumexp,
                Output seed) {
  if (return_softmax) unsupported(context, "returning the weights of attention (return_softmax)");
  const auto rate = static_cast<double>(dropout);
  if (rate != 0 && !inference) {
    refuse_with_dropout(context, q, k, static_cast<bool>(mask), causal, rate);
    attend_with_dropout(context, q, k, v, {{0, causal}, rate, context.random_sequence()}, out, logsumexp, seed);
  } else {
    attend(context, q, k, v, mask, {0, causal}, out, logsumexp);
    if (seed) allocate_seed(context, seed, UHAL_INT64);
  }
  const int64_t none = 0;
  if (softmax) context.allocate(softmax, q.uhal(), &none, 1);
}

// Whether weights were kept. A rate may have been given for inference, where nothing is dropped.
bool has_dropped(double rate, const Tensor& kept) { return rate != 0 && kept.uhal() == UHAL_UINT8; }

void flash_attn_grad(Context context, Input q, Input k, Input v, Input out, Input logsumexp, Input kept,
                     OptionalInput mask, Input dout, float dropout, bool causal, Output dq, Output dk, Output dv) {
  const auto rate = static_cast<double>(dropout);
  const AttentionGradient gradient(context, q, k, v, dq, dk, dv);
  if (has_dropped(rate, kept)) {
    return attend_with_dropout_grad(context, gradient, logsumexp, kept, dout, {{0, causal}, rate, {}});
  }
  attend_grad(context, gradient, mask, out, logsumexp, dout, {0, causal});
}

// Sequences of several lengths in one tensor, and diagonals elsewhere than from the first row and column.
AttentionSettings efficient_settings(const Context& context, const Tensor& q, const Tensor& k, bool packed, bool causal,
                                     float scale) {
  if (packed) unsupported(context, "attention over sequences that are packed into one (cu_seqlens)");
  if (causal && q.dim(1) != k.dim(1)) {
    unsupported(context, "causal attention of " + std::to_string(q.dim(1)) + " queries and " +
                             std::to_string(k.dim(1)) + " keys, counted from the first of each");
  }
  return {scale > 0 ? static_cast<double>(scale) : 0, causal};
}

void memory_efficient_attention(Context context, Input q, Input k, Input v, OptionalInput bias, OptionalInput starts_q,
                                OptionalInput starts_k, OptionalInput diagonal, OptionalInput lengths, Scalar, Scalar,
                                bool causal, double dropout, float scale, bool inference, Output out, Output logsumexp,
                                Output seed) {
  const bool packed = starts_q || starts_k || diagonal || lengths;
  const AttentionSettings settings = efficient_settings(context, q, k, packed, causal, scale);
  if (dropout != 0 && !inference) {
    refuse_with_dropout(context, q, k, static_cast<bool>(bias), causal, dropout);
    return attend_with_dropout(context, q, k, v, {settings, dropout, context.random_sequence()}, out, logsumexp, seed);
  }
  attend(context, q, k, v, bias, settings, out, logsumexp);
  if (seed) allocate_seed(context, seed, UHAL_INT64);
}

void memory_efficient_attention_grad(Context context, Input q, Input k, Input v, OptionalInput bias,
                                     OptionalInput starts_q, OptionalInput starts_k, Input out, Input logsumexp,
                                     Input kept, Input dout, Scalar, Scalar, bool causal, double dropout, float scale,
                                     Output dq, Output dk, Output dv, Output dbias) {
  if (dbias) unsupported(context, "the gradient of attention's bias (sdpa_kernel(SDPBackend.MATH) computes it)");
  const AttentionSettings settings = efficient_settings(context, q, k, starts_q || starts_k, causal, scale);
  const AttentionGradient gradient(context, q, k, v, dq, dk, dv);
  if (has_dropped(dropout, kept)) {
    return attend_with_dropout_grad(context, gradient, logsumexp, kept, dout, {settings, dropout, {}});
  }
  attend_grad(context, gradient, bias, out, logsumexp, dout, settings);
}

// Softmax of scores of which row i has the columns up to i.
void causal_softmax(Context context, Input x, Output y) {
  const View scores = x.view();
  const View weights = context.allocate(y, scores.dtype);
  if (scores.rank < 2) invalid(context, "scores have at least two axes: queries and keys");
  if (scores.elements() == 0) return;
  const int64_t dims[] = {scores.shape[scores.rank - 2], scores.shape[scores.rank - 1]};
  const Scratch mask(context, scores.dtype, dims, 2);
  hide_what_comes(context, mask);
  context.map(uhal_map_add, {&scores, &mask}, {&weights});
  const auto attributes = softmax_attributes(scores.rank - 1);
  context.run(UHAL_OP_SOFTMAX, {&weights}, {&weights}, &attributes);
}

void causal_softmax_grad(Context context, Input y, Input dy, Output dx) {
  const View weights = y.view(), gradient = dy.view();
  const View out = context.allocate(dx, weights.dtype);
  const auto attributes = softmax_attributes(weights.rank - 1);
  context.run(UHAL_OP_SOFTMAX_BACKWARD, {&weights, &gradient}, {&out}, &attributes);
}

}  // namespace

KernelTable attention_kernels() {
  return {
      UNIHAL_KERNEL("flash_attn", kFloats, flash_attn),
      UNIHAL_KERNEL("flash_attn_grad", kFloats, flash_attn_grad),
      UNIHAL_KERNEL("memory_efficient_attention", kFloats, memory_efficient_attention),
      UNIHAL_KERNEL("memory_efficient_attention_grad", kFloats, memory_efficient_attention_grad),
      UNIHAL_KERNEL("fused_softmax_mask_upper_triangle", kFloats, causal_softmax),
      UNIHAL_KERNEL("fused_softmax_mask_upper_triangle_grad", kFloats, causal_softmax_grad),
  };
}

}  // namespace unihal::paddle
