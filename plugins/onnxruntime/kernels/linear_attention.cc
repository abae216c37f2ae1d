// Attention whose past is a matrix of fixed size for each head, as Gated DeltaNet, GLA, RetNet and RWKV have it.
#include <cmath>

#include "plugins/onnxruntime/kernels/kernels.h"

namespace unihal::onnxruntime {
namespace {

// query, key, value (B, T, heads * width), past_state (B, H, dk, dv), decay, beta -> output, present_state. Each step
// the state decays by exp(decay), takes key times (value - what the key finds there already) * beta, and is read by the
// query. In float32, one step after the other.
class LinearAttention final : public Kernel {
 public:
  explicit LinearAttention(const Description& node)
      : q_heads_(node.integer("q_num_heads", 0)),
        heads_(node.integer("kv_num_heads", 0)),
        scale_(node.real("scale", 0)) {
    const std::string rule = node.text("update_rule", "gated_delta");
    node.require(rule == "linear" || rule == "gated" || rule == "delta" || rule == "gated_delta", "another rule");
    decays_ = rule == "gated" || rule == "gated_delta";
    corrects_ = rule == "delta" || rule == "gated_delta";
    node.require(heads_ > 0 && q_heads_ > 0 && q_heads_ % heads_ == 0,
                 "heads that are no multiple of those of keys and values");
    node.require(node.integer("state_window", 0) == 0, "several states");
    node.require(!decays_ || node.has_input(4), "a decay that is missing");
    node.require(!corrects_ || node.has_input(5), "beta that is missing");
  }

  void run(Call& call) const override {
    const View query = call.input(0), key = call.input(1), value = call.input(2);
    call.require(query.rank == 3 && key.rank == 3 && value.rank == 3, "an operand has not 3 axes");
    const int64_t batch = query.shape[0], steps = query.shape[1], group = q_heads_ / heads_;
    call.require(query.shape[2] % q_heads_ == 0 && key.shape[2] % heads_ == 0 && value.shape[2] % heads_ == 0,
                 "an operand has no whole heads");
    const int64_t width = query.shape[2] / q_heads_, value_width = value.shape[2] / heads_;
    call.require(key.shape[2] == heads_ * width && key.shape[1] == steps && value.shape[1] == steps,
                 "keys and values do not fit the queries");
    const View y = call.output(0, {batch, steps, q_heads_ * value_width});
    const Shape shape = {batch, heads_, width, value_width};
    const View state = call.scratch(shape, UHAL_FLOAT32);
    if (call.has(3)) {
      const View past = call.input(3);
      call.require(shape_of(past) == shape, "the past is not (batch, heads, width, width of values)");
      call.move(past, state);
    } else {
      call.fill(state, 0);
    }
    if (y.elements() != 0) {
      // (B, H, T, rows of a head, width)
      const View q = call.as(query, UHAL_FLOAT32).reshaped({batch, steps, heads_, group, width});
      const View k = call.as(key, UHAL_FLOAT32).reshaped({batch, steps, heads_, 1, width});
      const View v = call.as(value, UHAL_FLOAT32).reshaped({batch, steps, heads_, 1, value_width});
      const View kept = decays_ ? kept_parts(call, batch, steps, width) : View();
      const View rate = corrects_ ? rates(call, batch, steps) : View();
      const View result = call.scratch(Shape{batch, steps, heads_, group, value_width}, UHAL_FLOAT32);
      const View fresh = call.scratch(Shape{batch, heads_, 1, value_width}, UHAL_FLOAT32);
      for (int64_t t = 0; t < steps; ++t) {
        step(call, at(q, t), at(k, t), at(v, t), decays_ ? at(kept, t) : View(), corrects_ ? at(rate, t) : View(),
             state, fresh, at(result, t));
      }
      call.move(result.reshaped(shape_of(y)), y);
    }
    View present;
    if (call.wants(1, shape, &present) && present.elements() != 0) call.move(state, present);
  }

 private:
  // One step of (B, T, H, rows, columns).
  static View at(const View& view, int64_t t) {
    View result = view.sliced(1, t, 1);
    for (int i = 1; i < result.rank - 1; ++i) {
      result.shape[i] = result.shape[i + 1];
      result.strides[i] = result.strides[i + 1];
    }
    --result.rank;
    return result;
  }

  void step(Call& call, const View& q, const View& k, const View& v, const View& kept, const View& rate,
            const View& state, const View& fresh, const View& result) const {
    if (decays_) call.map(uhal_map_multiply, {&state, &kept}, {&state});
    uhal_matmul_attributes product = matmul_attributes(call.math_mode());
    if (corrects_) {
      product.alpha = -1;
      call.launch(UHAL_OP_MATMUL, {&k, &state, &v}, {&fresh}, &product);
      call.map(uhal_map_multiply, {&fresh, &rate}, {&fresh});
    } else {
      call.launch(UHAL_OP_COPY, {&v}, {&fresh});
    }
    product.alpha = 1;
    const View column = k.transposed();
    call.launch(UHAL_OP_MATMUL, {&column, &fresh, &state}, {&state}, &product);
    product.alpha = scale_ != 0 ? scale_ : 1 / std::sqrt(static_cast<double>(k.shape[3]));
    call.launch(UHAL_OP_MATMUL, {&q, &state}, {&result}, &product);
  }

  // exp(decay) as it meets the state: (B, T, H, width or 1, 1).
  View kept_parts(Call& call, int64_t batch, int64_t steps, int64_t width) const {
    const View given = call.input(4);
    call.require(given.rank == 3 && (given.shape[2] == heads_ || given.shape[2] == heads_ * width),
                 "decay has neither a number for each head nor one for each of its rows");
    const View result = call.scratch_like(given, UHAL_FLOAT32);
    call.move(given, result);
    call.map(uhal_map_exp, {&result}, {&result});
    return result.reshaped({batch, steps, heads_, given.shape[2] / heads_, 1});
  }

  // beta as it meets values: (B, T, H or 1, 1, 1).
  View rates(Call& call, int64_t batch, int64_t steps) const {
    const View given = call.input(5);
    call.require(given.rank == 3 && (given.shape[2] == heads_ || given.shape[2] == 1),
                 "beta has neither a number for each head nor one");
    return call.as(given, UHAL_FLOAT32).reshaped({batch, steps, given.shape[2], 1, 1});
  }

  const int64_t q_heads_, heads_;
  const double scale_;
  bool decays_ = false, corrects_ = false;
};

const Op kLinearAttentionOps[] = {
    {.name = "LinearAttention",
     .first = 27,
     .last = kNewestOpset,
     .dtypes = kNarrowFloats | only(UHAL_FLOAT32),
     .make = make<LinearAttention>},
    {.name = "LinearAttention",
     .first = 1,
     .last = 1,
     .dtypes = kNarrowFloats | only(UHAL_FLOAT32),
     .make = make<LinearAttention>,
     .domain = kMicrosoft},
};

}  // namespace

Table linear_attention_ops() { return table(kLinearAttentionOps); }

}  // namespace unihal::onnxruntime
