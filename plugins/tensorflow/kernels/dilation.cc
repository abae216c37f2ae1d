// Grayscale dilation of images: y[b, i, j, c] is the largest x[b, i * stride + di * rate, j * stride + dj * rate, c] +
// filter[di, dj, c], one position of the filter after the other. Of equal sums the first counts in gradients.
#include <algorithm>

#include "plugins/tensorflow/registrar.h"

namespace unihal::tensorflow {
namespace {

class Dilation : public Kernel {
 public:
  explicit Dilation(Construction& construction)
      : Kernel(construction),
        strides_(construction.integers("strides")),
        rates_(construction.integers("rates")),
        same_(construction.text("padding") == "SAME") {
    const auto good = [](const Shape& list) {
      return list.size() == 4 && list[0] == 1 && list[3] == 1 && list[1] > 0 && list[2] > 0;
    };
    if (!good(strides_) || !good(rates_)) {
      construction.fail(
          TF_INVALID_ARGUMENT,
          "strides and rates must have 4 entries, positive ones in the middle and 1 for batch and channels, "
          "got " +
              to_text(strides_) + " and " + to_text(rates_));
    }
  }

 protected:
  struct Problem {
    View x, filter;
    Shape output;            // (batch, rows, columns, channels)
    int64_t before[2] = {};  // padding above and to the left
  };

  // Inputs 0 and 1; false if they do not fit.
  bool read(Context& context, Problem* problem) const {
    problem->x = context.input(0);
    problem->filter = context.input(1);
    if (!context.ok()) return false;
    const View& x = problem->x;
    const View& filter = problem->filter;
    if (x.rank != 4 || filter.rank != 3 || filter.shape[2] != x.shape[3]) {
      context.fail_invalid(std::string(op()) +
                           ": expected images of rank 4 and a filter (rows, columns, channels), got " + to_text(x) +
                           " and " + to_text(filter));
      return false;
    }
    problem->output = shape_of(x);
    for (int i = 0; i < 2; ++i) {
      const size_t axis = static_cast<size_t>(i + 1);
      const int64_t reach = (filter.shape[i] - 1) * rates_[axis] + 1;
      const int64_t length = x.shape[i + 1];
      int64_t& result = problem->output[axis];
      if (same_) {
        result = (length + strides_[axis] - 1) / strides_[axis];
        problem->before[i] = std::max<int64_t>((result - 1) * strides_[axis] + reach - length, 0) / 2;
      } else {
        result = (length - reach + strides_[axis]) / strides_[axis];
      }
      if (filter.shape[i] == 0 || result < 0) {
        context.fail_invalid(std::string(op()) + ": the filter " + to_text(filter) + " does not fit images " +
                             to_text(x));
        return false;
      }
    }
    return true;
  }

  // Calls use(part of x, part of a tensor of the output's shape, part of the filter, its number) for each position of
  // the filter that meets x.
  template <class Use>
  void visit(Context& context, const Problem& problem, const View& output, Use use) const {
    for (int64_t row = 0; row < problem.filter.shape[0]; ++row) {
      for (int64_t column = 0; column < problem.filter.shape[1]; ++column) {
        if (!context.ok()) return;
        View x = problem.x;
        View y = output;
        bool meets = true;
        for (int i = 0; i < 2; ++i) {
          const size_t axis = static_cast<size_t>(i + 1);
          const int64_t shift = (i == 0 ? row : column) * rates_[axis] - problem.before[i];
          const int64_t stride = strides_[axis];
          // Output k is at x's k * stride + shift.
          const int64_t first = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
          const int64_t end = std::min(problem.output[axis], (problem.x.shape[i + 1] - 1 - shift + stride) / stride);
          meets = meets && first < end && problem.x.shape[i + 1] - 1 - shift >= 0;
          if (!meets) break;
          x = x.sliced(i + 1, first * stride + shift, end - first, stride);
          y = y.sliced(i + 1, first, end - first);
        }
        if (!meets) continue;
        View weight = problem.filter.sliced(0, row, 1).sliced(1, column, 1);
        use(x, y, weight);
      }
    }
  }

  View temporary(Context& context, uhal_dtype dtype, const Shape& shape) const {
    return context.temporary(dtype, shape.data(), static_cast<int>(shape.size()));
  }

  // Writes the dilation.
  void dilate(Context& context, const Problem& problem, const View& output) const {
    const Limits limits = limits_of(output.dtype);
    context.fill(output, limits.lowest, limits.integer_lowest);
    const View sums = temporary(context, output.dtype, problem.output);
    if (!context.ok()) return;
    visit(context, problem, output, [&](const View& x, const View& y, const View& weight) {
      const View sum = View(sums.data, sums.dtype, y.shape, y.rank);
      context.map(uhal_map_add, {&x, &weight}, {&sum});
      context.map(uhal_map_maximum, {&y, &sum}, {&y});
    });
  }

 private:
  Shape strides_;
  Shape rates_;
  bool same_;
};

class Dilation2D : public Dilation {
 public:
  using Dilation::Dilation;
  void compute(Context& context) const override {
    Problem problem;
    if (!read(context, &problem)) return;
    const View output = context.output(0, problem.x.dtype, problem.output);
    if (context.ok() && output.elements() > 0) dilate(context, problem, output);
  }
};

// (images, filter, gradient) -> gradient of the images, or of the filter
template <bool kOfFilter>
class DilationGrad : public Dilation {
 public:
  using Dilation::Dilation;
  void compute(Context& context) const override {
    Problem problem;
    if (!read(context, &problem)) return;
    const View dy = context.input(2);
    if (!context.ok()) return;
    if (shape_of(dy) != problem.output) {
      return context.fail_invalid(std::string(op()) + ": out_backprop has incompatible shape " + to_text(dy) +
                                  ", expected " + to_text(problem.output));
    }
    const View output = context.output_like(0, kOfFilter ? problem.filter : problem.x);
    if (!context.ok() || output.elements() == 0 || !context.zero(output) || dy.elements() == 0) return;
    const View y = temporary(context, dy.dtype, problem.output);
    const View sums = temporary(context, dy.dtype, problem.output);
    const View hits = temporary(context, UHAL_BOOL, problem.output);
    // What of the gradient has not found its place yet.
    const View rest = temporary(context, dy.dtype, problem.output);
    const View zero = context.temporary(dy.dtype, nullptr, 0);
    if (!context.ok()) return;
    context.zero(zero);
    context.copy(dy, rest);
    dilate(context, problem, y);
    const auto offset = [&](const View& part, const View& whole) {
      return static_cast<const char*>(part.data) - static_cast<const char*>(whole.data);
    };
    visit(context, problem, y, [&](const View& x, const View& top, const View& weight) {
      const View sum(sums.data, sums.dtype, top.shape, top.rank);
      const View hit(hits.data, UHAL_BOOL, top.shape, top.rank);
      View left = top;
      left.data = static_cast<char*>(rest.data) + offset(top, y);
      context.map(uhal_map_add, {&x, &weight}, {&sum});
      context.map(uhal_map_equal, {&sum, &top}, {&hit});
      context.map(uhal_map_select, {&hit, &left, &zero}, {&sum});
      context.map(uhal_map_select, {&hit, &zero, &left}, {&left});
      if (kOfFilter) {
        View to = weight;
        to.data = static_cast<char*>(output.data) + offset(weight, problem.filter);
        const View target = to.unsqueezed(0);
        const uhal_reduce_attributes attributes = reduce_attributes(UHAL_REDUCE_SUM);
        context.launch(UHAL_OP_REDUCE, {&sum}, {&target}, &attributes);
      } else {
        View to = x;
        to.data = static_cast<char*>(output.data) + offset(x, problem.x);
        context.map(uhal_map_add, {&to, &sum}, {&to});
      }
    });
  }
};

}  // namespace

void register_dilation(Registrar& registrar) {
  registrar.add<Dilation2D>("Dilation2D", {{"T", kNumbers}});
  registrar.add<DilationGrad<false>>("Dilation2DBackpropInput", {{"T", kFloats}});
  registrar.add<DilationGrad<true>>("Dilation2DBackpropFilter", {{"T", kFloats}});
}

}  // namespace unihal::tensorflow
