// Einsum: operands are joined one after the other, each time as one product of matrices.
#include <algorithm>
#include <set>

#include "plugins/onnxruntime/kernels/kernels.h"

namespace unihal::onnxruntime {
namespace {

// A view and the letters of its axes.
struct Term {
  View view;
  std::string letters;
};

// Stands for an ellipsis in equations; the axes that it means are called by the digits, the last by the last.
constexpr char kEllipsis = '.';

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts(1);
  for (const char c : text) c == ',' ? (void)parts.emplace_back() : parts.back().push_back(c);
  return parts;
}

class Einsum final : public Kernel {
 public:
  explicit Einsum(const Description& node) {
    std::string text;
    for (const char c : node.text("equation", "")) {
      if (c != ' ') text.push_back(c);
    }
    for (size_t at = text.find("..."); at != std::string::npos; at = text.find("...")) {
      text.replace(at, 3, 1, '*');
    }
    node.require(text.find('.') == std::string::npos, "a dot that is no ellipsis");
    std::replace(text.begin(), text.end(), '*', kEllipsis);
    const size_t arrow = text.find("->");
    inputs_ = split(text.substr(0, arrow));
    if (static_cast<int>(inputs_.size()) != node.input_count())
      node.refuse("an equation for another number of operands");
    if (arrow != std::string::npos) {
      output_ = text.substr(arrow + 2);
    } else {
      // What an ellipsis means, and what stands once, in the order of the alphabet.
      if (text.find(kEllipsis) != std::string::npos) output_.push_back(kEllipsis);
      std::set<char> letters(text.begin(), text.end());
      for (const char c : letters) {
        if (c != ',' && c != kEllipsis && std::count(text.begin(), text.end(), c) == 1) output_.push_back(c);
      }
    }
    std::set<char> seen;
    for (const std::string& input : inputs_) seen.insert(input.begin(), input.end());
    for (const char c : output_) node.require(seen.count(c) != 0, "a letter of the result that no operand has");
  }

  void run(Call& call) const override {
    std::vector<Term> terms;
    size_t most = 0;  // axes of an ellipsis
    for (size_t i = 0; i < inputs_.size(); ++i) most = std::max(most, ellipsis_of(call, static_cast<int>(i)));
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const std::string letters = spelled(inputs_[i], ellipsis_of(call, static_cast<int>(i)), most);
      terms.push_back(diagonal(call, call.input(static_cast<int>(i)), letters));
    }
    const std::string output = spelled(output_, most, most);
    Shape shape;
    for (const char c : output) shape.push_back(length(call, terms, c));
    const View y = call.output(0, shape);
    if (y.elements() == 0) return;
    spread(call, &terms);
    Term result = terms[0];
    for (size_t i = 1; i < terms.size(); ++i) {
      std::string needed = output;
      for (size_t k = i + 1; k < terms.size(); ++k) needed += terms[k].letters;
      result = join(call, result, terms[i], needed);
    }
    result = sum(call, result, output);
    call.copy(arranged(result, output), y);
  }

 private:
  // How many axes the ellipsis of an operand stands for.
  size_t ellipsis_of(const Call& call, int operand) const {
    const std::string& letters = inputs_[static_cast<size_t>(operand)];
    if (letters.find(kEllipsis) == std::string::npos) return 0;
    const size_t rank = call.shape(operand).size();
    call.require(rank + 1 >= letters.size(), "an operand has fewer axes than letters");
    return rank + 1 - letters.size();
  }

  // Letters with digits for an ellipsis of `own` axes, which are the last of `most`.
  static std::string spelled(std::string letters, size_t own, size_t most) {
    const size_t at = letters.find(kEllipsis);
    if (at == std::string::npos) return letters;
    return letters.replace(at, 1, std::string("0123456789").substr(most - own, own));
  }

  // An axis of length 1 goes with each element of a longer one of its letter.
  static void spread(const Call& call, std::vector<Term>* terms) {
    for (Term& term : *terms) {
      for (size_t i = 0; i < term.letters.size(); ++i) {
        if (term.view.shape[i] != 1) continue;
        term.view.shape[i] = length(call, *terms, term.letters[i]);
        if (term.view.shape[i] != 1) term.view.strides[i] = 0;
      }
    }
  }

  static int64_t length(const Call& call, const std::vector<Term>& terms, char letter) {
    int64_t found = 1;
    for (const Term& term : terms) {
      const size_t at = term.letters.find(letter);
      if (at == std::string::npos) continue;
      const int64_t own = term.view.shape[at];
      call.require(found == 1 || own == 1 || own == found, "a letter stands for axes of several lengths");
      if (own != 1) found = own;
    }
    return found;
  }

  // A letter that stands twice in an operand means its diagonal.
  static Term diagonal(const Call& call, const View& view, const std::string& letters) {
    call.require(letters.size() == static_cast<size_t>(view.rank), "an operand has not as many axes as letters");
    Term term;
    term.view = view;
    term.view.rank = 0;
    for (size_t i = 0; i < letters.size(); ++i) {
      const size_t at = term.letters.find(letters[i]);
      if (at != std::string::npos) {
        call.require(term.view.shape[at] == view.shape[i], "a diagonal of axes of two lengths");
        term.view.strides[at] += view.strides[i];
        continue;
      }
      term.view.shape[term.view.rank] = view.shape[i];
      term.view.strides[term.view.rank++] = view.strides[i];
      term.letters.push_back(letters[i]);
    }
    return term;
  }

  // Axes in the order of `letters`, each of which the term has.
  static View arranged(const Term& term, const std::string& letters) {
    int order[UHAL_MAX_RANK];
    for (size_t i = 0; i < letters.size(); ++i) order[i] = static_cast<int>(term.letters.find(letters[i]));
    return term.view.permuted(order, static_cast<int>(letters.size()));
  }

  // The sum over the letters that nobody needs any more.
  static Term sum(Call& call, const Term& term, const std::string& needed) {
    std::string kept;
    Shape whole, shape;
    for (size_t i = 0; i < term.letters.size(); ++i) {
      const bool stays = needed.find(term.letters[i]) != std::string::npos;
      whole.push_back(stays ? term.view.shape[i] : 1);
      if (!stays) continue;
      kept.push_back(term.letters[i]);
      shape.push_back(term.view.shape[i]);
    }
    if (kept.size() == term.letters.size()) return term;
    const View to = call.scratch(whole, term.view.dtype);
    const uhal_reduce_attributes attributes = reduce_attributes(UHAL_REDUCE_SUM);
    call.launch(UHAL_OP_REDUCE, {&term.view}, {&to}, &attributes);
    return {to.reshaped(shape), kept};
  }

  // A dense copy with the axes of `letters`, merged into groups.
  static View merged(Call& call, const Term& term, const std::string& letters, const Shape& groups) {
    const View view = arranged(term, letters);
    const View dense = call.scratch_like(view, view.dtype);
    call.launch(UHAL_OP_COPY, {&view}, {&dense});
    return dense.reshaped(groups);
  }

  static Term join(Call& call, const Term& left, const Term& right, const std::string& needed) {
    const Term a = sum(call, left, needed + right.letters);
    const Term b = sum(call, right, needed + left.letters);
    std::string batch, rows, columns, contracted;
    for (const char c : a.letters) {
      const bool is_shared = b.letters.find(c) != std::string::npos;
      const bool stays = needed.find(c) != std::string::npos;
      (is_shared ? (stays ? batch : contracted) : rows).push_back(c);
    }
    for (const char c : b.letters) {
      if (a.letters.find(c) == std::string::npos) columns.push_back(c);
    }
    const auto size = [&](const Term& term, const std::string& letters) {
      int64_t product = 1;
      for (const char c : letters) product *= term.view.shape[term.letters.find(c)];
      return product;
    };
    for (const char c : batch + contracted) {
      call.require(a.view.shape[a.letters.find(c)] == b.view.shape[b.letters.find(c)],
                   "a letter stands for axes of several lengths");
    }
    const int64_t batches = size(a, batch), m = size(a, rows), n = size(b, columns), k = size(a, contracted);
    Term result;
    result.letters = batch + rows + columns;
    Shape shape;
    for (const char c : batch + rows) shape.push_back(a.view.shape[a.letters.find(c)]);
    for (const char c : columns) shape.push_back(b.view.shape[b.letters.find(c)]);
    call.require(shape.size() <= UHAL_MAX_RANK, "a product has more than 10 axes");
    result.view = call.scratch(shape, a.view.dtype);
    if (result.view.elements() == 0) return result;
    const View x = merged(call, a, batch + rows + contracted, {batches, m, k});
    const View y = merged(call, b, batch + contracted + columns, {batches, k, n});
    const View to = result.view.reshaped({batches, m, n});
    const uhal_matmul_attributes attributes = matmul_attributes(call.math_mode());
    call.launch(UHAL_OP_MATMUL, {&x, &y}, {&to}, &attributes);
    return result;
  }

  std::vector<std::string> inputs_;
  std::string output_;
};

const Op kEinsumOps[] = {
    {.name = "Einsum", .first = 12, .last = kNewestOpset, .dtypes = kFloats, .make = make<Einsum>},
};

}  // namespace

Table einsum_ops() { return table(kEinsumOps); }

}  // namespace unihal::onnxruntime
