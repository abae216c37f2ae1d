// The hierarchical sigmoid: a class is a path of decisions in a tree, each of which has a row of the weights.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plugins/paddle/kernels/matrices.h"
#include "plugins/paddle/kernels/optimizer.h"
#include "plugins/paddle/kernels/row_groups.h"

namespace unihal::paddle {
namespace {

// The decisions of the tree that Paddle makes of so many classes.
int64_t default_length(int classes) {
  int64_t length = 0;
  for (int64_t rest = classes - 1; rest > 0; rest >>= 1) ++length;
  return length;
}

// For each label and each decision of its path the row of the weights, and which way is right.
class Paths {
 public:
  Scratch rows;   // int64; 0 where the path has ended
  Scratch valid;  // bool
  Scratch right;  // the numbers' dtype: 1 or 0; 0 where the path has ended

  Paths(const Context& context, uhal_dtype dtype, const View& labels, const OptionalInput& table,
        const OptionalInput& code, int classes, int64_t length)
      : rows(context, UHAL_INT64, {labels.elements(), length}),
        valid(context, UHAL_BOOL, {labels.elements(), length}),
        right(context, dtype, {labels.elements(), length}) {
    if (rows.elements() == 0) return;
    const Constant zero(context, 0), one(context, 1);
    const Scratch bits(context, UHAL_INT64, {labels.elements(), length});
    if (table) {
      const View given = table.view(), ways = code.view();
      copy_or_cast(context, given, rows);
      copy_or_cast(context, ways, bits);
      // A path ends with its first negative number.
      uhal_scan_attributes least = {};
      least.struct_size = sizeof least;
      least.reduction = UHAL_REDUCE_MINIMUM;
      least.axis = 1;
      const Scratch so_far(context, UHAL_INT64, {labels.elements(), length});
      context.run(UHAL_OP_SCAN, {&rows}, {&so_far}, &least);
      context.map(uhal_map_greater_equal, {&so_far, &zero}, {&valid});
      context.map(uhal_map_not_equal, {&bits, &zero}, {&right});
    } else {
      // The root is node 1 and class c node c + classes: the prefixes of its bits are the rows, the others the ways.
      const Scratch nodes(context, UHAL_INT64, {labels.elements(), 1}), bit(context, UHAL_INT64, {1, length});
      const Constant offset(context, classes);
      copy_or_cast(context, labels.reshaped({labels.elements(), 1}), nodes);
      context.map(uhal_map_add, {&nodes, &offset}, {&nodes});
      count_up(context, bit.reshaped({length}));
      context.map(uhal_map_shift_right, {&nodes, &bit}, {&rows});
      context.map(uhal_map_bitwise_and, {&rows, &one}, {&bits});
      context.map(uhal_map_shift_right, {&rows, &one}, {&rows});
      context.map(uhal_map_subtract, {&rows, &one}, {&rows});
      context.map(uhal_map_greater_equal, {&rows, &zero}, {&valid});
      copy_or_cast(context, bits, right);
    }
    context.map(uhal_map_multiply, {&right, &valid}, {&right});
    context.map(uhal_map_multiply, {&rows, &valid}, {&rows});
  }
};

int64_t path_length(const Context& context, const OptionalInput& table, const OptionalInput& code, int classes) {
  if (static_cast<bool>(table) != static_cast<bool>(code))
    invalid(context, "of path_table and path_code one is missing");
  if (!table) return default_length(classes);
  if (table.rank() != 2) invalid(context, "path_table has not two axes");
  return table.dim(1);
}

// The loss of a path is the sum of log(1 + exp(p)) - right p, with p within -40 to 40. Paddle adds log(2) for each
// decision that a path is shorter than the longest one, whose p is 0.
void hsigmoid_loss(Context context, Input x, Input label, Input weights, OptionalInput bias, OptionalInput table,
                   OptionalInput code, int classes, bool, Output loss, Output decisions, Output unused) {
  constexpr double kLimit = 40;
  const View in = x.view(), w = weights.view(), labels = flat(label.view());
  require_same_dtype(context, in, w);
  const int64_t count = in.shape[0], width = in.shape[1], length = path_length(context, table, code, classes);
  const int64_t column[] = {count, 1}, dims[] = {count, length};
  if (unused)
    fill_zero(context, context.allocate(unused, in.dtype, nullptr, 0));  // Paddle's room for weights of other hosts
  if (labels.elements() != count) invalid(context, "there is not a label for each row of x");
  const View out = context.allocate(loss, in.dtype, column, 2), kept = context.allocate(decisions, in.dtype, dims, 2);
  if (kept.elements() == 0) return fill_zero(context, out);
  const Paths paths(context, in.dtype, labels, table, code, classes, length);
  const Scratch rows(context, in.dtype, {count, length, width}), part(context, in.dtype, {count, length});
  gather_rows(context, w, paths.rows, rows);
  const View vectors = in.reshaped({count, width, 1}), products = kept.reshaped({count, length, 1});
  multiply(context, rows, vectors, 1, products);
  if (bias) {
    gather_rows(context, flat(bias.view()), paths.rows, part);
    context.map(uhal_map_add, {&kept, &part}, {&kept});
  }
  const Scratch most(context, in.dtype, nullptr, 0), least(context, in.dtype, nullptr, 0);
  fill(context, most, kLimit, 0);
  fill(context, least, -kLimit, 0);
  context.map(uhal_map_minimum, {&kept, &most}, {&kept});
  context.map(uhal_map_maximum, {&kept, &least}, {&kept});
  context.map(uhal_map_multiply, {&kept, &paths.valid}, {&kept});
  context.map(uhal_map_multiply, {&kept, &paths.right}, {&part});
  context.map(uhal_map_softplus, {&kept}, {&kept}, {1, 2 * kLimit});
  context.map(uhal_map_subtract, {&kept, &part}, {&part});
  const auto sum = reduce_attributes(UHAL_REDUCE_SUM);
  context.run(UHAL_OP_REDUCE, {&part}, {&out}, &sum);
}

// The weights' gradient: all rows, or those that stand in `rows`, ascending.
struct OfWeights {
  View view;
  const View* rows;
};

void write_gradients(const Context& context, Input x, Input weights, Input label, const OptionalInput& table,
                     const OptionalInput& code, Input decisions, Input dloss, int classes, Output dx,
                     const OfWeights* of_weights, Output dbias) {
  const View in = x.view(), w = weights.view(), kept = decisions.view(), gradient = dloss.view();
  const int64_t count = in.shape[0], width = in.shape[1], length = path_length(context, table, code, classes);
  const View of_x = dx ? context.allocate(dx, in.dtype) : View();
  const View of_bias = dbias ? context.allocate(dbias, in.dtype) : View();
  if (count == 0 || length == 0) {
    if (dx) fill_zero(context, of_x);
    if (of_weights != nullptr) fill_zero(context, of_weights->view);
    if (dbias) fill_zero(context, of_bias);
    return;
  }
  const Paths paths(context, in.dtype, flat(label.view()), table, code, classes, length);
  // d = (1 - exp(-kept) - right) dloss, for what was kept is log(1 + exp(p)).
  const Scratch d(context, in.dtype, {count, length}), rows(context, in.dtype, {count, length, width});
  const View shares = gradient.reshaped({count, 1});
  context.map(uhal_map_negative, {&kept}, {&d});
  context.map(uhal_map_expm1, {&d}, {&d});
  context.map(uhal_map_negative, {&d}, {&d});
  context.map(uhal_map_subtract, {&d, &paths.right}, {&d});
  context.map(uhal_map_multiply, {&d, &shares}, {&d});
  context.map(uhal_map_multiply, {&d, &paths.valid}, {&d});
  if (dx) {
    gather_rows(context, w, paths.rows, rows);
    multiply(context, d.reshaped({count, 1, length}), rows, 1, of_x.reshaped({count, 1, width}));
  }
  uhal_segment_attributes sum = {};
  sum.struct_size = sizeof sum;
  sum.reduction = UHAL_REDUCE_SUM;
  const View ids = paths.rows.reshaped({count * length}), factors = d.reshaped({count * length});
  if (of_weights != nullptr && of_weights->view.elements() > 0) {
    const Scratch own(context, UHAL_INT64, {count, 1}), each(context, UHAL_INT64, {count, length});
    count_up(context, own.reshaped({count}));
    copy_or_cast(context, own, each);
    const View examples = each.reshaped({count * length});
    View targets = ids;
    const Scratch places(context, UHAL_INT64, {count * length});
    if (of_weights->rows != nullptr) {
      uhal_search_attributes search = {};
      search.struct_size = sizeof search;
      context.run(UHAL_OP_SEARCH_SORTED, {of_weights->rows, &ids}, {&places}, &search);
      targets = places;
    }
    context.run(UHAL_OP_SEGMENT_REDUCE, {&in, &targets, &examples, &factors}, {&of_weights->view}, &sum);
  }
  if (dbias) {
    const View column = factors.unsqueezed(1), out = of_bias.reshaped({of_bias.elements(), 1});
    context.run(UHAL_OP_SEGMENT_REDUCE, {&column, &ids}, {&out}, &sum);
  }
}

void hsigmoid_loss_grad(Context context, Input x, Input weights, Input label, OptionalInput table, OptionalInput code,
                        OptionalInput, Input decisions, Input dloss, int classes, bool, Output dx, Output dweights,
                        Output dbias) {
  OfWeights of_weights = {};
  if (dweights) of_weights.view = context.allocate(dweights, weights.uhal());
  write_gradients(context, x, weights, label, table, code, decisions, dloss, classes, dx,
                  dweights ? &of_weights : nullptr, dbias);
}

// Rows of weights that no path has are not in their gradient.
void hsigmoid_loss_grad_sr(Context context, Input x, Input weights, Input label, OptionalInput table,
                           OptionalInput code, OptionalInput, Input decisions, Input dloss, int classes, bool,
                           Output dx, SparseOutput dweights, Output dbias) {
  if (!table) invalid(context, "path_table and path_code must be given for a sparse gradient");
  const View w = weights.layout();
  std::vector<int64_t> rows = read_integers(context, flat(table.view()));
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  rows.erase(rows.begin(), std::lower_bound(rows.begin(), rows.end(), 0));
  if (!rows.empty() && rows.back() >= w.shape[0]) {
    invalid(context, "path_table has " + std::to_string(rows.back()) + ", of " + std::to_string(w.shape[0]) + " rows");
  }
  const int64_t dims[] = {static_cast<int64_t>(rows.size()), w.shape[1]};
  const DeviceIntegers places(context, rows);
  dweights.rows() = std::move(rows);
  dweights.height() = w.shape[0];
  const OfWeights of_weights = {context.allocate(Output{{dweights.value().handle}}, w.dtype, dims, 2), &places};
  write_gradients(context, x, weights, label, table, code, decisions, dloss, classes, dx, &of_weights, dbias);
}

}  // namespace

KernelTable hierarchical_sigmoid_kernels() {
  return {
      UNIHAL_KERNEL("hsigmoid_loss", kWideFloats, hsigmoid_loss),
      UNIHAL_KERNEL("hsigmoid_loss_grad", kWideFloats, hsigmoid_loss_grad),
      UNIHAL_KERNEL("hsigmoid_loss_grad_sr", kWideFloats, hsigmoid_loss_grad_sr),
  };
}

}  // namespace unihal::paddle
