// The ops that the graph pass puts in the place of attention's products and softmax: see fusion/attention.cc.
#include <algorithm>
#include <iterator>

#include "plugins/tensorflow/registrar.h"
#include "plugins/tensorflow/variable_shim.h"

namespace unihal::tensorflow {
namespace {

// (mask: true where a column is seen) -> (what is added to scores: 0 or -infinity; whether a row sees a column). With
// `opens`, rows that see none get zeros: what attends by them is to have scores of zero, and weighs all columns alike.
class AttentionMask : public Kernel {
 public:
  explicit AttentionMask(Construction& construction)
      : Kernel(construction), opens_(construction.boolean("opens")), inverted_(construction.boolean("inverted")) {}

  void compute(Context& context) const override {
    View seen = context.input(0);
    if (!context.ok()) return;
    if (inverted_) {
      const View hidden = seen;
      seen = context.temporary_like(hidden);
      context.map(uhal_map_logical_not, {&hidden}, {&seen});
    }
    const View additive = context.output(0, UHAL_FLOAT32, shape_of(seen));
    Shape shape = shape_of(seen);
    if (!shape.empty()) shape.back() = 1;
    const View rows = context.output(1, UHAL_BOOL, opens_ ? shape : Shape{0});
    if (!context.ok() || seen.elements() == 0) return;
    if (opens_) {
      const uhal_reduce_attributes any = reduce_attributes(UHAL_REDUCE_ANY);
      context.launch(UHAL_OP_REDUCE, {&seen}, {&rows}, &any);
      const View open = context.temporary_like(seen);
      context.map(uhal_map_equal, {&seen, &rows}, {&open});
      seen = open;
    }
    context.cast(seen, additive);
    context.map(uhal_map_log, {&additive}, {&additive});
  }

 private:
  bool opens_, inverted_;
};

// Operands are tensors whose axes come in any order, and may lack the batch or the heads: for each axis that the ABI's
// op names, an attribute has the place of the tensor's, or -1.
class Attention : public Kernel {
 public:
  explicit Attention(Construction& construction)
      : Kernel(construction),
        q_axes_(construction.integers("q_axes")),
        k_axes_(construction.integers("k_axes")),
        v_axes_(construction.integers("v_axes")),
        y_axes_(construction.integers("y_axes")),
        score_axes_(construction.integers("score_axes")),
        mask_count_(static_cast<int>(construction.integer("mask_count"))),
        row_count_(static_cast<int>(construction.integer("row_count"))) {
    attributes_.struct_size = sizeof attributes_;
    attributes_.scale = construction.real("scale");
    attributes_.causal = construction.boolean("causal") ? 1 : 0;
  }

 protected:
  // What both directions read, as the ABI's op takes it.
  struct Parts {
    View q, k, v, mask, rows;
    bool has_mask = false, has_rows = false;
    uhal_attention_attributes attributes;

    const View* mask_or_null() const { return has_mask ? &mask : nullptr; }
    Shape result() const { return {q.shape[0], q.shape[1], q.shape[2], v.shape[3]}; }
  };

  static View arranged(const View& view, const Shape& axes) {
    View result = view;
    result.rank = static_cast<int>(axes.size());
    for (size_t i = 0; i < axes.size(); ++i) {
      result.shape[i] = axes[i] < 0 ? 1 : view.shape[axes[i]];
      result.strides[i] = axes[i] < 0 ? 0 : view.strides[axes[i]];
    }
    return result;
  }

  View operand(Context& context, int index, const Shape& axes) const {
    const View view = context.input(index);
    if (!context.ok()) return view;
    if (axes.size() != 4 || view.rank != rank_of(axes)) {
      context.fail_invalid(std::string(op()) + ": operand " + std::to_string(index) + " has shape " + to_text(view));
      return view;
    }
    return arranged(view, axes);
  }

  // What is (broadcast to) one number for each score, whose last axes are the scores' as the graph had them.
  View beside_scores(Context& context, int index) const {
    View view = context.input(index);
    const int rank = rank_of(score_axes_);
    if (!context.ok()) return view;
    if (view.rank > rank) {
      context.fail_invalid(std::string(op()) + ": a mask has shape " + to_text(view));
      return view;
    }
    const int missing = rank - view.rank;
    std::copy_backward(view.shape, view.shape + view.rank, view.shape + rank);
    std::copy_backward(view.strides, view.strides + view.rank, view.strides + rank);
    std::fill_n(view.shape, missing, 1);
    std::fill_n(view.strides, missing, 0);
    view.rank = rank;
    return arranged(view, score_axes_);
  }

  bool read(Context& context, Parts* parts) const {
    parts->q = operand(context, 0, q_axes_);
    parts->k = operand(context, 1, k_axes_);
    parts->v = operand(context, 2, v_axes_);
    if (!context.ok()) return false;
    const View &q = parts->q, &k = parts->k, &v = parts->v;
    const bool fits = std::equal(q.shape, q.shape + 2, k.shape) && std::equal(q.shape, q.shape + 2, v.shape) &&
                      q.shape[3] == k.shape[3] && k.shape[2] == v.shape[2];
    if (!fits) {
      context.fail_invalid(std::string(op()) + ": Incompatible shapes: queries " + to_text(context.input(0)) +
                           ", keys " + to_text(context.input(1)) + ", values " + to_text(context.input(2)));
      return false;
    }
    const Shape scores = {q.shape[0], q.shape[1], q.shape[2], k.shape[2]};
    parts->has_mask = mask_count_ > 0;
    parts->has_rows = row_count_ > 0;
    parts->attributes = attributes_;
    parts->attributes.math_mode = math_mode();
    Shape joint;
    for (int i = 0; i < mask_count_ + row_count_; ++i) {
      const View view = beside_scores(context, 3 + i);
      if (!context.ok()) return false;
      if (!broadcast_shape(scores, shape_of(view), &joint) || joint != scores) {
        context.fail_invalid(std::string(op()) + ": Incompatible shapes: scores " + to_text(scores) + " and a mask " +
                             to_text(context.input(3 + i)));
        return false;
      }
      (i < mask_count_ ? parts->mask : parts->rows) = view;
    }
    if (parts->has_rows) parts->q = only_rows(context, parts->rows, parts->q, context.temporary_like(parts->q));
    return context.ok();
  }

  // Zeros in the rows that see nothing. `to` may be `from`.
  static View only_rows(Context& context, const View& rows, const View& from, const View& to) {
    const View zero = context.temporary(from.dtype, Shape{});
    if (context.ok() && from.elements() > 0) {
      context.zero(zero);
      context.map(uhal_map_select, {&rows, &from, &zero}, {&to});
    }
    return to;
  }

  // An output of a tensor's axes, as the ABI's op writes it.
  static View result(Context& context, int index, uhal_dtype dtype, const Shape& sizes, const Shape& axes) {
    Shape shape(static_cast<size_t>(rank_of(axes)));
    for (size_t i = 0; i < axes.size(); ++i) {
      if (axes[i] >= 0) shape[static_cast<size_t>(axes[i])] = sizes[i];
    }
    const View output = context.output(index, dtype, shape);
    return context.ok() ? arranged(output, axes) : output;
  }

  const Shape &q_axes() const { return q_axes_; }
  const Shape &k_axes() const { return k_axes_; }
  const Shape &v_axes() const { return v_axes_; }
  const Shape &y_axes() const { return y_axes_; }
  int operand_count() const { return 3 + mask_count_ + row_count_; }

 private:
  static int rank_of(const Shape& axes) {
    return static_cast<int>(std::count_if(axes.begin(), axes.end(), [](int64_t axis) { return axis >= 0; }));
  }

  Shape q_axes_, k_axes_, v_axes_, y_axes_, score_axes_;
  int mask_count_, row_count_;
  uhal_attention_attributes attributes_ = {};
};

// (q, k, v, [mask], [rows]) -> (y, logsumexp)
class FusedAttention : public Attention {
 public:
  using Attention::Attention;
  void compute(Context& context) const override {
    Parts parts;
    if (!read(context, &parts)) return;
    const View y = result(context, 0, parts.q.dtype, parts.result(), y_axes());
    const View sums = context.output(1, UHAL_FLOAT32, Shape{parts.q.shape[0], parts.q.shape[1], parts.q.shape[2]});
    if (!context.ok() || (y.elements() == 0 && sums.elements() == 0)) return;
    context.launch(UHAL_OP_ATTENTION, {&parts.q, &parts.k, &parts.v, parts.mask_or_null()}, {&y, &sums},
                   &parts.attributes);
  }
};

// (q, k, v, [mask], [rows], y, logsumexp, gradient) -> (q_gradient, k_gradient, v_gradient)
class FusedAttentionGrad : public Attention {
 public:
  using Attention::Attention;
  void compute(Context& context) const override {
    Parts parts;
    if (!read(context, &parts)) return;
    const View y = operand(context, operand_count(), y_axes());
    const View sums = context.input(operand_count() + 1);
    const View gradient = operand(context, operand_count() + 2, y_axes());
    if (!context.ok()) return;
    if (shape_of(y) != parts.result() || shape_of(gradient) != parts.result()) {
      return context.fail_invalid(std::string(op()) + ": Incompatible shapes: " + to_text(y) + " vs. " +
                                  to_text(gradient));
    }
    const uhal_dtype dtype = parts.q.dtype;
    const View dq = result(context, 0, dtype, shape_of(parts.q), q_axes());
    const View dk = result(context, 1, dtype, shape_of(parts.k), k_axes());
    const View dv = result(context, 2, dtype, shape_of(parts.v), v_axes());
    if (!context.ok() || dq.elements() + dk.elements() + dv.elements() == 0) return;
    context.launch(UHAL_OP_ATTENTION_BACKWARD,
                   {&parts.q, &parts.k, &parts.v, parts.mask_or_null(), &y, &sums, &gradient}, {&dq, &dk, &dv},
                   &parts.attributes);
    if (parts.has_rows) only_rows(context, parts.rows, dq, dq);
  }
};

}  // namespace

void register_fused_attention(Registrar& registrar) {
  const std::initializer_list<TypeConstraint> types = {{"T", kReducedFloats | only(UHAL_FLOAT32)}};
  registrar.add_own<AttentionMask>("UnihalAttentionMask", {});
  registrar.add_own<FusedAttention>("UnihalAttention", types);
  registrar.add_own<FusedAttentionGrad>("UnihalAttentionGrad", types);
}

}  // namespace unihal::tensorflow
