// Sums of products by Einstein's notation, of one operand or two (Paddle's Python splits longer ones), as one matrix
// product of views, and their gradients, which are such sums again.
#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "plugins/paddle/kernels/matrices.h"

namespace unihal::paddle {
namespace {

using AxisLabels = std::vector<int>;

bool has_label(const AxisLabels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

// A view whose axes have names, each once.
struct Term {
  View view;
  AxisLabels labels;

  // The axis of a name, or -1.
  int axis(int label) const {
    const auto found = std::find(labels.begin(), labels.end(), label);
    return found == labels.end() ? -1 : static_cast<int>(found - labels.begin());
  }
  int64_t size(int label) const { return axis(label) < 0 ? 1 : view.shape[axis(label)]; }
  void drop(int label) {
    const int at = axis(label);
    for (int i = at; i + 1 < view.rank; ++i) {
      view.shape[i] = view.shape[i + 1];
      view.strides[i] = view.strides[i + 1];
    }
    --view.rank;
    labels.erase(labels.begin() + at);
  }
  // Axes in the order of `order`; those that are not there have length 1, those of length 1 are repeated to `sizes`.
  View ordered(const AxisLabels& order, const std::vector<int64_t>& sizes) const {
    View result = view;
    result.rank = static_cast<int>(order.size());
    for (int i = 0; i < result.rank; ++i) {
      const int from = axis(order[i]);
      result.shape[i] = sizes[i];
      result.strides[i] = from < 0 || view.shape[from] == 1 ? 0 : view.strides[from];
    }
    return result;
  }
};

// A name that stands twice is the diagonal.
Term term_of(const View& view, const AxisLabels& labels) {
  Term term{view, labels};
  for (size_t i = 0; i < term.labels.size(); ++i) {
    for (size_t j = term.labels.size() - 1; j > i; --j) {
      if (term.labels[j] != term.labels[i]) continue;
      term.view.strides[i] += term.view.strides[j];
      const int name = term.labels[j];
      term.labels[i] = -1;  // so that the second is dropped
      term.drop(name);
      term.labels[i] = name;
    }
  }
  return term;
}

// The equation's names of the operands' axes and of the result's. The axes of "..." are named by their distance from
// the last one, so that they are aligned there.
struct Equation {
  std::vector<AxisLabels> operands;
  AxisLabels result;

  Equation(const Context& context, const char* text, const std::vector<View>& views) {
    const char* arrow = std::strstr(text, "->");
    if (arrow == nullptr) invalid(context, std::string("the equation ") + text + " has no ->");
    int dots = 0;  // how many axes the longest "..." has
    const char* at = text;
    for (const View& view : views) {
      const char* end = std::find(at, arrow, ',');
      operands.push_back(read(context, at, end, view.rank, &dots));
      at = end == arrow ? arrow : end + 1;
    }
    const char* end = arrow + std::strlen(arrow);
    int named = static_cast<int>(std::count_if(arrow + 2, end, is_letter));
    result = read(context, arrow + 2, end, std::strchr(arrow, '.') == nullptr ? named : named + dots, &dots);
  }

 private:
  static constexpr int kFirstDot = 256;
  static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

  static AxisLabels read(const Context& context, const char* begin, const char* end, int rank, int* dots) {
    const int named = static_cast<int>(std::count_if(begin, end, is_letter));
    const bool has_dots = std::find(begin, end, '.') != end;
    if (named > rank || (!has_dots && named != rank)) {
      invalid(context,
              "the equation names " + std::to_string(named) + " axes of an operand that has " + std::to_string(rank));
    }
    AxisLabels labels;
    bool dots_done = false;
    for (const char* c = begin; c != end; ++c) {
      if (is_letter(*c)) labels.push_back(*c);
      if (*c != '.' || dots_done) continue;
      dots_done = true;
      for (int i = rank - named - 1; i >= 0; --i) labels.push_back(kFirstDot + i);
      *dots = std::max(*dots, rank - named);
    }
    return labels;
  }
};

// Sums over the axes whose names `keep` does not have.
class Summed {
 public:
  Summed(const Context& context, const Term& x, const AxisLabels& keep) : term(x) {
    AxisLabels gone;
    for (int label : x.labels) {
      if (!has_label(keep, label)) gone.push_back(label);
    }
    if (gone.empty()) return;
    int64_t dims[UHAL_MAX_RANK];
    for (int i = 0; i < x.view.rank; ++i) dims[i] = has_label(keep, x.labels[i]) ? x.view.shape[i] : 1;
    sum_.emplace(context, x.view.dtype, dims, x.view.rank);
    const auto attributes = reduce_attributes(UHAL_REDUCE_SUM);
    context.run(UHAL_OP_REDUCE, {&x.view}, {&*sum_}, &attributes);
    term.view = *sum_;
    for (int label : gone) term.drop(label);
  }
  Term term;

 private:
  std::optional<Scratch> sum_;
};

// A view as matrices (batch, rows, columns): dense memory of the axes in this order.
class TermMatrices {
 public:
  TermMatrices(const Context& context, const Term& x, const AxisLabels* groups, const std::vector<int64_t>* sizes) {
    AxisLabels order;
    std::vector<int64_t> lengths, dims;
    for (int i = 0; i < 3; ++i) {
      order.insert(order.end(), groups[i].begin(), groups[i].end());
      lengths.insert(lengths.end(), sizes[i].begin(), sizes[i].end());
      int64_t length = 1;
      for (int64_t size : sizes[i]) length *= size;
      dims.push_back(length);
    }
    const View view = x.ordered(order, lengths);
    const View dense(view.data, view.dtype, lengths);
    view_ = View(view.data, view.dtype, dims);
    bool is_dense = true;
    for (int i = 0; i < view.rank; ++i)
      is_dense = is_dense && (view.shape[i] == 1 || view.strides[i] == dense.strides[i]);
    if (is_dense) return;
    copy_.emplace(context, view.dtype, dims.data(), 3);
    const View target(copy_->data, view.dtype, lengths);
    copy_or_cast(context, view, target);
    view_ = *copy_;
  }
  const View& view() const { return view_; }

 private:
  std::optional<Scratch> copy_;
  View view_;
};

// y = the sum of products; y is a view with each name once.
void contract(const Context& context, const Term& x, const Term* other, const Term& y) {
  if (y.view.elements() == 0) return;
  if (other == nullptr) {
    const Summed sum(context, x, y.labels);
    return copy_or_cast(context, sum.term.ordered(y.labels, {y.view.shape, y.view.shape + y.view.rank}), y.view);
  }
  Term a = x, b = *other;
  // What one operand has in length 1 does not take part in the sum over the other's.
  for (int label : AxisLabels(a.labels)) {
    if (b.axis(label) < 0 || a.size(label) == b.size(label)) continue;
    if (a.size(label) != 1 && b.size(label) != 1) {
      invalid(context, "an axis has the lengths " + std::to_string(a.size(label)) + " and " +
                           std::to_string(b.size(label)) + " in the two operands");
    }
    (a.size(label) == 1 ? a : b).drop(label);
  }
  AxisLabels of_a = y.labels, of_b = y.labels;
  of_a.insert(of_a.end(), b.labels.begin(), b.labels.end());
  of_b.insert(of_b.end(), a.labels.begin(), a.labels.end());
  const Summed left(context, a, of_a), right(context, b, of_b);
  enum { kBatch, kLeft, kRight, kSum, kGroups };
  AxisLabels groups[kGroups];
  std::vector<int64_t> sizes[kGroups];
  const auto put = [&](int label) {
    const bool in_a = left.term.axis(label) >= 0, in_b = right.term.axis(label) >= 0, in_y = y.axis(label) >= 0;
    const int group = !in_y ? kSum : in_a && in_b ? kBatch : in_a ? kLeft : kRight;
    groups[group].push_back(label);
    sizes[group].push_back(in_a ? left.term.size(label) : right.term.size(label));
  };
  for (int label : y.labels) {
    if (left.term.axis(label) >= 0 || right.term.axis(label) >= 0) put(label);
  }
  for (int label : left.term.labels) {
    if (y.axis(label) < 0) put(label);
  }
  if (groups[kSum].empty()) {
    const std::vector<int64_t> shape(y.view.shape, y.view.shape + y.view.rank);
    const View p = left.term.ordered(y.labels, shape), q = right.term.ordered(y.labels, shape);
    return context.map(uhal_map_multiply, {&p, &q}, {&y.view});
  }
  const AxisLabels of_left[] = {groups[kBatch], groups[kLeft], groups[kSum]};
  const AxisLabels of_right[] = {groups[kBatch], groups[kSum], groups[kRight]};
  const std::vector<int64_t> left_sizes[] = {sizes[kBatch], sizes[kLeft], sizes[kSum]};
  const std::vector<int64_t> right_sizes[] = {sizes[kBatch], sizes[kSum], sizes[kRight]};
  const TermMatrices p(context, left.term, of_left, left_sizes), q(context, right.term, of_right, right_sizes);
  const int64_t dims[] = {p.view().shape[0], p.view().shape[1], q.view().shape[2]};
  const Scratch product(context, y.view.dtype, dims, 3);
  if (p.view().elements() == 0) {
    fill_zero(context, product);  // sums of nothing
  } else {
    multiply(context, p.view(), q.view(), 1, product);
  }
  Term result;
  std::vector<int64_t> shape;
  for (int group : {kBatch, kLeft, kRight}) {
    result.labels.insert(result.labels.end(), groups[group].begin(), groups[group].end());
    shape.insert(shape.end(), sizes[group].begin(), sizes[group].end());
  }
  result.view = product.reshaped(shape);
  copy_or_cast(context, result.ordered(y.labels, {y.view.shape, y.view.shape + y.view.rank}), y.view);
}

std::vector<View> views_of(const Context& context, const InputList& list) {
  if (list.size() < 1 || list.size() > 2) unsupported(context, std::to_string(list.size()) + " operands");
  std::vector<View> views;
  for (size_t i = 0; i < list.size(); ++i) views.push_back(list[i].view());
  return views;
}

// The gradient needs the operands, which Paddle keeps as `kept` only.
void einsum(Context context, InputList operands, Text text, Output out, OutputList kept, OutputList) {
  const std::vector<View> views = views_of(context, operands);
  const Equation equation(context, text.value, views);
  const Term first = term_of(views[0], equation.operands[0]);
  Term second;
  if (views.size() == 2) second = term_of(views[1], equation.operands[1]);
  std::vector<int64_t> shape;
  for (int label : equation.result) {
    const int64_t size = first.axis(label) < 0 ? second.size(label) : first.size(label);
    shape.push_back(size == 1 ? std::max<int64_t>(size, second.axis(label) < 0 ? 1 : second.size(label)) : size);
    if (first.axis(label) >= 0 && second.axis(label) >= 0 && (first.size(label) == 0 || second.size(label) == 0)) {
      shape.back() = 0;
    }
  }
  const View target = context.allocate(out, views[0].dtype, shape.data(), static_cast<int>(shape.size()));
  contract(context, first, views.size() == 2 ? &second : nullptr, {target, equation.result});
  for (size_t i = 0; i < kept.size() && i < views.size(); ++i) {
    if (kept[i])
      copy_or_cast(context, views[i], context.allocate(kept[i], views[i].dtype, views[i].shape, views[i].rank));
  }
}

void einsum_infer(Context context, InputList operands, Text text, Output out) {
  einsum(context, std::move(operands), text, out, OutputList(List{}, false), OutputList(List{}, false));
}

void einsum_grad(Context context, InputList, InputList kept, Input dout, Text text, OutputList gradients) {
  const std::vector<View> views = views_of(context, kept);
  const Equation equation(context, text.value, views);
  const Term gradient = {dout.view(), equation.result};
  for (size_t i = 0; i < views.size() && i < gradients.size(); ++i) {
    if (!gradients[i]) continue;
    const View target = context.allocate(gradients[i], views[i].dtype, views[i].shape, views[i].rank);
    if (target.elements() == 0) continue;
    // Off the diagonals of names that stand twice there is no gradient.
    Term place = term_of(target, equation.operands[i]);
    if (place.view.rank != target.rank) fill_zero(context, target);
    std::optional<Scratch> conjugated;
    Term other;
    if (views.size() == 2) {
      other = term_of(views[1 - i], equation.operands[1 - i]);
      if (is_complex(other.view.dtype)) {
        conjugated.emplace(context, other.view.dtype, other.view);
        context.map(uhal_map_conjugate, {&other.view}, {&*conjugated});
        other.view = *conjugated;
      }
    }
    // An axis of length 1 that was repeated gets the sum.
    for (int label : AxisLabels(place.labels)) {
      const int64_t full = std::max(gradient.size(label), other.size(label));
      if (place.size(label) == 1 && full > 1) place.drop(label);
    }
    contract(context, gradient, views.size() == 2 ? &other : nullptr, place);
  }
}

}  // namespace

KernelTable einsum_kernels() {
  return {
      UNIHAL_KERNEL("einsum", kFloats | kComplex, einsum),
      UNIHAL_KERNEL("einsum_infer", kFloats | kComplex, einsum_infer),
      UNIHAL_KERNEL("einsum_grad", kFloats | kComplex, einsum_grad),
  };
}

}  // namespace unihal::paddle
