// The ops that the graph pass puts in the place of attention's products and softmax: see fusion/attention.cc.
#include <algorithm>
#include <initializer_list>
#include <limits>

#include "plugins/tensorflow/registrar.h"
#include "plugins/tensorflow/shim_functions.h"

namespace unihal::tensorflow {
namespace {

// (mask: true where a column is seen) -> (what is added to scores: 0, or what hides them; whether a row sees a column).
// In a row that sees none the composed ops weigh all columns alike. An ABI's attention does if what hides is a number
// beside which scores vanish (`finite`), of which no logsumexp is left; else if such rows get zeros here (`opens`), and
// have scores of zero. Where neither is asked for they give zeros.
class AttentionMask : public Kernel {
 public:
  explicit AttentionMask(Construction& construction)
      : Kernel(construction),
        opens_(construction.boolean("opens")),
        finite_(construction.boolean("finite")),
        inverted_(construction.boolean("inverted")) {}

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
    constexpr double kFar = 1e30;
    if (finite_) {
      context.map(uhal_map_scale, {&additive}, {&additive}, {kFar, -kFar});
    } else {
      context.map(uhal_map_log, {&additive}, {&additive});
    }
  }

 private:
  bool opens_, finite_, inverted_;
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
    broadcasts_ = construction.boolean("broadcasts");
  }

 protected:
  // What both directions read, as the ABI's op takes it.
  struct Parts {
    View q, k, v, mask, rows;
    Shape shapes[3];  // of q, k and v before they were broadcast
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
    View &q = parts->q, &k = parts->k, &v = parts->v;
    parts->has_mask = mask_count_ > 0;
    parts->has_rows = row_count_ > 0;
    parts->attributes = attributes_;
    parts->attributes.math_mode = math_mode();
    if (parts->has_mask) parts->mask = beside_scores(context, 3);
    if (parts->has_rows) parts->rows = beside_scores(context, 3 + mask_count_);
    if (!context.ok()) return false;
    for (int i = 0; i < 3; ++i) parts->shapes[i] = shape_of(i == 0 ? q : i == 1 ? k : v);
    bool fits = q.shape[3] == k.shape[3] && k.shape[2] == v.shape[2];
    for (int axis = 0; axis < 2; ++axis) {
      int64_t size = q.shape[axis];
      for (const View* view : std::initializer_list<const View*>{&k, &v, &parts->mask}) {
        if (broadcasts_ && size == 1 && view->rank == 4) size = view->shape[axis];
      }
      for (View* view : {&q, &k, &v}) {
        if (broadcasts_ && view->shape[axis] == 1 && size != 1) {
          view->shape[axis] = size;
          view->strides[axis] = 0;
        }
        fits &= view->shape[axis] == size;
      }
    }
    if (!fits) {
      context.fail_invalid(std::string(op()) + ": Incompatible shapes: queries " + to_text(context.input(0)) +
                           ", keys " + to_text(context.input(1)) + ", values " + to_text(context.input(2)));
      return false;
    }
    // Rows and columns are counted from the first ones here, from the last ones in the ABI's op.
    if (attributes_.causal != 0 && q.shape[2] != k.shape[2]) {
      parts->attributes.causal = 0;
      parts->mask = causal_mask(context, q.shape[2], k.shape[2]);
      parts->has_mask = true;
    }
    const Shape scores = {q.shape[0], q.shape[1], q.shape[2], k.shape[2]};
    Shape joint;
    if (parts->has_mask && (!broadcast_shape(scores, shape_of(parts->mask), &joint) || joint != scores)) {
      context.fail_invalid(std::string(op()) + ": Incompatible shapes: scores " + to_text(scores) + " and a mask " +
                           to_text(context.input(3)));
      return false;
    }
    if (parts->has_rows) parts->q = only_rows(context, parts->rows, q, q_axes_, /*in_place=*/false);
    return context.ok();
  }

  static View causal_mask(Context& context, int64_t rows, int64_t columns) {
    const View mask = context.temporary(UHAL_FLOAT32, Shape{rows, columns});
    if (!context.ok() || mask.elements() == 0) return mask;
    std::vector<float> values(static_cast<size_t>(rows * columns));
    for (int64_t row = 0; row < rows; ++row) {
      const auto first = values.begin() + row * columns;
      std::fill(first + std::min(row + 1, columns), first + columns, -std::numeric_limits<float>::infinity());
    }
    const auto* bytes = reinterpret_cast<const char*>(values.data());
    context.upload(std::vector<char>(bytes, bytes + values.size() * sizeof(float)), mask);
    return mask;
  }

  // The other way round: axes as a tensor has them, in which it is dense.
  static View as_given(const View& view, const Shape& axes) {
    View result = view;
    result.rank = rank_of(axes);
    for (size_t i = 0; i < axes.size(); ++i) {
      if (axes[i] < 0) continue;
      result.shape[axes[i]] = view.shape[i];
      result.strides[axes[i]] = view.strides[i];
    }
    return result;
  }

  // Zeros in the rows that see nothing, of a tensor with these axes; in place, or in a new one.
  static View only_rows(Context& context, const View& rows, const View& view, const Shape& axes, bool in_place) {
    const View from = as_given(view, axes), condition = as_given(rows, axes);
    const View to = in_place ? from : context.temporary_like(from);
    const View zero = context.temporary(from.dtype, Shape{});
    if (context.ok() && from.elements() > 0) {
      context.zero(zero);
      context.map(uhal_map_select, {&condition, &from, &zero}, {&to});
    }
    return arranged(to, axes);
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

  const Shape& q_axes() const { return q_axes_; }
  const Shape& y_axes() const { return y_axes_; }
  int operand_count() const { return 3 + mask_count_ + row_count_; }

 private:
  static int rank_of(const Shape& axes) {
    return static_cast<int>(std::count_if(axes.begin(), axes.end(), [](int64_t axis) { return axis >= 0; }));
  }

  Shape q_axes_, k_axes_, v_axes_, y_axes_, score_axes_;
  int mask_count_, row_count_;
  bool broadcasts_;
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
  explicit FusedAttentionGrad(Construction& construction)
      : Attention(construction),
        dy_axes_(construction.integers("dy_axes")),
        gradient_axes_{construction.integers("dq_axes"), construction.integers("dk_axes"),
                       construction.integers("dv_axes")} {}

  void compute(Context& context) const override {
    Parts parts;
    if (!read(context, &parts)) return;
    const View y = operand(context, operand_count(), y_axes());
    const View sums = context.input(operand_count() + 1);
    const View dy = operand(context, operand_count() + 2, dy_axes_);
    if (!context.ok()) return;
    if (shape_of(y) != parts.result() || shape_of(dy) != parts.result()) {
      return context.fail_invalid(std::string(op()) + ": Incompatible shapes: " + to_text(y) + " vs. " + to_text(dy));
    }
    View results[3], gradients[3];
    int64_t elements = 0;
    for (int i = 0; i < 3; ++i) {
      const View& operand = i == 0 ? parts.q : i == 1 ? parts.k : parts.v;
      results[i] = result(context, i, operand.dtype, parts.shapes[i], gradient_axes_[i]);
      gradients[i] = shape_of(operand) == parts.shapes[i] ? results[i] : context.temporary_like(operand);
      elements += results[i].elements();
    }
    if (!context.ok() || elements == 0) return;
    context.launch(UHAL_OP_ATTENTION_BACKWARD, {&parts.q, &parts.k, &parts.v, parts.mask_or_null(), &y, &sums, &dy},
                   {&gradients[0], &gradients[1], &gradients[2]}, &parts.attributes);
    if (parts.has_rows) only_rows(context, parts.rows, gradients[0], q_axes(), /*in_place=*/true);
    for (int i = 0; i < 3; ++i) {
      if (shape_of(gradients[i]) == shape_of(results[i])) continue;
      const uhal_reduce_attributes sum = reduce_attributes(UHAL_REDUCE_SUM);
      context.launch(UHAL_OP_REDUCE, {&gradients[i]}, {&results[i]}, &sum);
    }
  }

 private:
  Shape dy_axes_, gradient_axes_[3];
};

}  // namespace

void register_fused_attention(Registrar& registrar) {
  const std::initializer_list<TypeConstraint> types = {{"T", kReducedFloats | only(UHAL_FLOAT32)}};
  registrar.add_own<AttentionMask>("UnihalAttentionMask", {});
  registrar.add_own<FusedAttention>("UnihalAttention", types);
  registrar.add_own<FusedAttentionGrad>("UnihalAttentionGrad", types);
}

}  // namespace unihal::tensorflow
