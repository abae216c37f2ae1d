// Einsum of one or two operands, as sums over labels, a matrix product, and permutations.
#include <algorithm>
#include <optional>

#include "plugins/tensorflow/registrar.h"
#include "plugins/tensorflow/shim_functions.h"

namespace unihal::tensorflow {
namespace {

// One character per axis. An ellipsis stands for as many axes as the operand has left; they get labels of their own,
// counted from the right, so that those of two operands broadcast.
using Labels = std::vector<int>;
constexpr int kFirstEllipsisLabel = 256;

bool has(const Labels& labels, int label) { return std::find(labels.begin(), labels.end(), label) != labels.end(); }

// The labels of one term ("ab...c") of an equation, with `ellipsis` axes for its ellipsis.
Labels expand(const std::string& term, int ellipsis) {
  Labels labels;
  for (size_t i = 0; i < term.size(); ++i) {
    if (term.compare(i, 3, "...") == 0) {
      for (int k = ellipsis; k > 0; --k) labels.push_back(kFirstEllipsisLabel + k);
      i += 2;
    } else {
      labels.push_back(static_cast<unsigned char>(term[i]));
    }
  }
  return labels;
}

// A view whose axes have labels.
struct Term {
  View view;
  Labels labels;

  int axis(int label) const {
    return static_cast<int>(std::find(labels.begin(), labels.end(), label) - labels.begin());
  }

  // The axes of `order`, in that order; labels that this lacks become axes of length 1.
  View arranged(const Labels& order) const {
    View result = view;
    result.rank = static_cast<int>(order.size());
    for (int i = 0; i < result.rank; ++i) {
      const int from = axis(order[static_cast<size_t>(i)]);
      const bool present = from < static_cast<int>(labels.size());
      result.shape[i] = present ? view.shape[from] : 1;
      result.strides[i] = present ? view.strides[from] : 0;
    }
    return result;
  }
};

// A repeated label walks the diagonal: one axis whose stride is the sum of theirs. False if the lengths differ.
bool take_diagonals(Term* term) {
  Term result;
  result.view = term->view;
  result.view.rank = 0;
  for (size_t i = 0; i < term->labels.size(); ++i) {
    const int axis = static_cast<int>(i);
    const int known = result.axis(term->labels[i]);
    if (known < result.view.rank) {
      if (result.view.shape[known] != term->view.shape[axis]) return false;
      result.view.strides[known] += term->view.strides[axis];
      continue;
    }
    result.labels.push_back(term->labels[i]);
    result.view.shape[result.view.rank] = term->view.shape[axis];
    result.view.strides[result.view.rank++] = term->view.strides[axis];
  }
  *term = result;
  return true;
}

int64_t size_of_axes(const View& view, size_t begin, size_t count) {
  int64_t elements = 1;
  for (size_t i = begin; i < begin + count; ++i) elements *= view.shape[i];
  return elements;
}

// Whether axes [begin, begin + count) step through memory like one axis.
bool is_one_axis(const View& view, size_t begin, size_t count) {
  for (size_t i = begin; i + 1 < begin + count; ++i) {
    if (view.strides[i] != view.strides[i + 1] * view.shape[i + 1]) return false;
  }
  return true;
}

// View (batch..., rows..., columns...) as matrices (batch..., row, column); through a dense copy where it must be.
View as_matrices(Context& context, View view, size_t batch, size_t rows, size_t columns) {
  if (!is_one_axis(view, batch, rows) || !is_one_axis(view, batch + rows, columns)) {
    const View dense = context.temporary_like(view);
    if (view.elements() > 0) context.copy(view, dense);
    view = dense;
  }
  View matrices = view;
  const int row = static_cast<int>(batch);
  matrices.rank = row + 2;
  matrices.shape[row] = size_of_axes(view, batch, rows);
  matrices.strides[row] = rows > 0 ? view.strides[batch + rows - 1] : 1;
  matrices.shape[row + 1] = size_of_axes(view, batch + rows, columns);
  matrices.strides[row + 1] = columns > 0 ? view.strides[batch + rows + columns - 1] : 1;
  return matrices;
}

class Einsum : public Kernel {
 public:
  explicit Einsum(Construction& construction) : Kernel(construction), equation_(construction.text("equation")) {
    const size_t arrow = equation_.find("->");
    const std::string left = equation_.substr(0, arrow);
    const size_t comma = left.find(',');
    inputs_.push_back(left.substr(0, comma));
    if (comma != std::string::npos) inputs_.push_back(left.substr(comma + 1));
    if (arrow != std::string::npos) output_ = equation_.substr(arrow + 2);
    if (arrow == std::string::npos || inputs_.back().find(',') != std::string::npos) {
      construction.refuse("the equation is not of one or two operands and an output");
    }
  }

  void compute(Context& context) const override {
    std::vector<Term> terms;
    int ellipsis = 0;
    if (context.input_count() != static_cast<int>(inputs_.size())) {
      return context.fail_invalid("Einsum: equation " + equation_ + " is not one of " +
                                  std::to_string(context.input_count()) + " operands");
    }
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const View view = context.input(static_cast<int>(i));
      if (!context.ok()) return;
      const bool open = inputs_[i].find("...") != std::string::npos;
      const int named = static_cast<int>(inputs_[i].size()) - (open ? 3 : 0);
      const int spread = open ? view.rank - named : 0;
      Term term = {view, expand(inputs_[i], spread)};
      if (spread < 0 || static_cast<int>(term.labels.size()) != view.rank || !take_diagonals(&term)) {
        return context.fail_invalid("Einsum: operand " + std::to_string(i) + " of shape " + to_text(view) +
                                    " does not fit equation " + equation_);
      }
      ellipsis = std::max(ellipsis, spread);
      terms.push_back(term);
    }
    if (ellipsis > 0 && output_.find("...") == std::string::npos) {
      return context.fail_invalid("Einsum: the output of equation " + equation_ + " must have the ellipsis, too");
    }
    const Labels result = expand(output_, ellipsis);
    const auto shape = shape_of_result(context, terms, result);
    if (!shape) return;
    for (size_t i = 0; i < terms.size(); ++i) sum_lone_labels(context, &terms[i], terms, i, result);
    const View output = context.output(0, terms[0].view.dtype, *shape);
    if (!context.ok() || output.elements() == 0) return;
    // A label that the output repeats is written along its diagonal.
    Term target = {output, result};
    take_diagonals(&target);
    if (target.labels.size() < result.size()) context.zero(output);
    if (terms.size() == 1) {
      context.copy(terms[0].arranged(target.labels), target.view);
    } else {
      multiply(context, terms[0], terms[1], target.labels, target.view, target.labels.size() == result.size());
    }
  }

 private:
  // The output's shape, after checking that the operands agree on each label. Axes of an ellipsis broadcast.
  std::optional<Shape> shape_of_result(Context& context, const std::vector<Term>& terms, const Labels& result) const {
    const auto length = [&](int label) -> std::optional<int64_t> {
      int64_t joint = -1;
      for (const Term& term : terms) {
        if (!has(term.labels, label)) continue;
        const int64_t own = term.view.shape[term.axis(label)];
        const bool broadcasts = label > kFirstEllipsisLabel && (own == 1 || joint == 1);
        if (joint != -1 && own != joint && !broadcasts) return std::nullopt;
        joint = joint == -1 || joint == 1 ? own : joint;
      }
      return joint == -1 ? std::nullopt : std::optional<int64_t>(joint);
    };
    Shape shape;
    bool fits = true;
    for (const Term& term : terms) {
      for (int label : term.labels) fits = fits && length(label).has_value();
    }
    for (int label : result) {
      const auto found = length(label);
      fits = fits && found.has_value();
      shape.push_back(found.value_or(0));
    }
    if (fits) return shape;
    std::string shapes;
    for (const Term& term : terms) shapes += " " + to_text(term.view);
    context.fail_invalid("Einsum: operands of shapes" + shapes + " do not fit equation " + equation_);
    return std::nullopt;
  }

  // Sums a term over labels that nothing else has.
  static void sum_lone_labels(Context& context, Term* term, const std::vector<Term>& terms, size_t self,
                              const Labels& result) {
    Term kept;
    int64_t with_ones[UHAL_MAX_RANK];
    for (size_t i = 0; i < term->labels.size(); ++i) {
      const int label = term->labels[i];
      bool lone = !has(result, label);
      for (size_t other = 0; other < terms.size(); ++other)
        lone = lone && (other == self || !has(terms[other].labels, label));
      const int64_t length = term->view.shape[i];
      with_ones[i] = lone ? 1 : length;
      if (!lone) kept.labels.push_back(label);
    }
    if (kept.labels.size() == term->labels.size()) return;
    const View sums = context.temporary(term->view.dtype, with_ones, term->view.rank);
    const uhal_reduce_attributes attributes = reduce_attributes(UHAL_REDUCE_SUM);
    if (sums.elements() > 0) context.launch(UHAL_OP_REDUCE, {&term->view}, {&sums}, &attributes);
    kept.view = Term{sums, term->labels}.arranged(kept.labels);
    *term = kept;
  }

  // `dense`: whether the output's axes are those of a dense tensor.
  static void multiply(Context& context, const Term& a, const Term& b, const Labels& result, const View& output,
                       bool dense) {
    Labels batch, rows, columns, summed;
    for (int label : result) {
      const bool in_a = has(a.labels, label);
      (in_a && has(b.labels, label) ? batch : in_a ? rows : columns).push_back(label);
    }
    for (int label : a.labels) {
      if (!has(result, label)) summed.push_back(label);
    }
    const auto joined = [&batch](const Labels& first, const Labels& second) {
      Labels all = batch;
      all.insert(all.end(), first.begin(), first.end());
      all.insert(all.end(), second.begin(), second.end());
      return all;
    };
    const View left = as_matrices(context, a.arranged(joined(rows, summed)), batch.size(), rows.size(), summed.size());
    const View right =
        as_matrices(context, b.arranged(joined(summed, columns)), batch.size(), summed.size(), columns.size());
    // The product comes as (batch..., rows..., columns...): the output itself, or a permutation of it.
    const Labels natural = joined(rows, columns);
    const View arranged = Term{output, result}.arranged(natural);
    const bool direct = dense && natural == result;
    const View product_view = direct ? output : context.temporary(output.dtype, arranged.shape, arranged.rank);
    const View matrices = as_matrices(context, product_view, batch.size(), rows.size(), columns.size());
    if (!context.ok()) return;
    if (left.shape[left.rank - 1] == 0) {
      context.zero(output);
      return;
    }
    const auto attributes = matmul_attributes(math_mode());
    context.launch(UHAL_OP_MATMUL, {&left, &right}, {&matrices}, &attributes);
    if (!direct) context.copy(product_view, arranged);
  }

  std::string equation_;
  std::vector<std::string> inputs_;
  std::string output_;
};

}  // namespace

void register_einsum(Registrar& registrar) { registrar.add<Einsum>("Einsum", {{"T", kFloats | kComplex}}); }

}  // namespace unihal::tensorflow
