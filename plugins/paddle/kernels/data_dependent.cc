// Positions in a mask and what it selects, searches, and reductions over segments and the edges of graphs. Where an
// output's size depends on data, it is read back from the device before the output can be allocated: these wait.
#include <algorithm>
#include <optional>
#include <string>

#include "plugins/paddle/kernels/true_places.h"

namespace unihal::paddle {
namespace {

void nonzero(Context context, Input x, Output y) {
  const View in = x.view();
  const Scratch test(context, UHAL_BOOL, in);
  if (is_complex(in.dtype)) as_test(context, in, test);
  const TruePlaces places(context, is_complex(in.dtype) ? static_cast<const View&>(test) : in);
  const int64_t dims[] = {places.count(), places.rank()};
  places.write(context, context.allocate(y, UHAL_INT64, dims, 2));
}

// A view broadcast together with another.
View broadcast_with(const Context& context, const View& view, const View& other) {
  View result = with_rank(view, std::max(view.rank, other.rank));
  const View shape = with_rank(other, result.rank);
  for (int i = 0; i < result.rank; ++i) {
    if (result.shape[i] == shape.shape[i] || shape.shape[i] == 1) continue;
    if (result.shape[i] != 1) {
      // The class of error that Paddle's CPU has here.
      raise(UHAL_FAILED_PRECONDITION,
            std::string("(unihal) ") + context.kernel() + ": x and mask have shapes that do not broadcast together");
    }
    result.shape[i] = shape.shape[i];
    result.strides[i] = 0;
  }
  return result;
}

// What a mask chooses of a view of this shape.
View chosen_of(const Context& context, Input mask, const View& shape) {
  const View given = mask.view();
  if (given.dtype != UHAL_BOOL) {
    invalid(context, std::string("the mask has the dtype ") + uhal_dtype_name(given.dtype) + ", expected bool");
  }
  return broadcast_with(context, given, shape);
}

void masked_select(Context context, Input x, Input mask, Output y) {
  const View in = broadcast_with(context, x.view(), mask.view());
  const View chosen = chosen_of(context, mask, x.view());
  const TruePlaces places(context, chosen);
  const int64_t count = places.count();
  const View out = context.allocate(y, in.dtype, &count, 1);
  if (count > 0) context.run(UHAL_OP_COMPACT, {&in, &chosen}, {&out});
}

void masked_select_grad(Context context, Input x, Input mask, Input dy, Output dx) {
  const View in = broadcast_with(context, x.shape_only(), mask.view()), gradient = dy.view();
  const View out = context.allocate(dx, gradient.dtype);
  const Scratch spread(context, gradient.dtype, in.shape, in.rank);
  fill_zero(context, spread);
  TruePlaces places(context, chosen_of(context, mask, x.shape_only()));
  if (places.count() > 0) {
    const auto attributes = index_attributes(0);
    context.run(UHAL_OP_SCATTER_ND, {&places.view(context), &gradient}, {&spread}, &attributes);
  }
  sum_to_shape(context, spread, out);
}

void searchsorted(Context context, Input sorted, Input values, bool in_int32, bool right, Output y) {
  const View in = sorted.view(), wanted = values.view();
  require_same_dtype(context, in, wanted);
  const View out = context.allocate(y, in_int32 ? UHAL_INT32 : UHAL_INT64, wanted.shape, wanted.rank);
  if (out.elements() == 0) return;
  uhal_search_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.right = right;
  context.run(UHAL_OP_SEARCH_SORTED, {&in, &wanted}, {&out}, &attributes);
}

// -- segments

uhal_segment_attributes segment_attributes(const Context& context, const char* name) {
  uhal_segment_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  const std::string given = name;
  attributes.reduction = given == "SUM"    ? UHAL_REDUCE_SUM
                         : given == "MEAN" ? UHAL_REDUCE_MEAN
                         : given == "MAX"  ? UHAL_REDUCE_MAXIMUM
                                           : UHAL_REDUCE_MINIMUM;
  if (attributes.reduction == UHAL_REDUCE_MINIMUM && given != "MIN") unsupported(context, "the reduction " + given);
  return attributes;
}

// Which rows were combined in which segments.
struct Edges {
  const View* sources;  // nullptr: element i is row i
  const View& targets;
};

// The gradient of rows of `x` that were reduced to `y`, from as many elements as `given` says where the forward counted
// them. Of a maximum or minimum each row that equals it has all of the gradient, as in Paddle.
void reduce_rows_grad(const Context& context, const uhal_segment_attributes& forward, const Edges& edges, const View& x,
                      const View* y, OptionalInput given, const View& dy, const View& dx) {
  const auto at = index_attributes(0);
  uhal_segment_attributes sum = {};
  sum.struct_size = sizeof sum;
  sum.reduction = UHAL_REDUCE_SUM;
  int64_t dims[UHAL_MAX_RANK];
  std::copy_n(dy.shape, dy.rank, dims);
  dims[0] = edges.targets.shape[0];
  const bool looked_up = edges.sources != nullptr && y == nullptr;  // the sum finds its rows of the gradient itself
  std::optional<Scratch> own;
  if (edges.sources != nullptr && !looked_up) own.emplace(context, dy.dtype, dims, dy.rank);
  const View messages = own ? static_cast<const View&>(*own) : dx;
  const auto bring = [&](const View& gradient) {
    if (looked_up) {
      context.run(UHAL_OP_SEGMENT_REDUCE, {&gradient, edges.sources, &edges.targets}, {&dx}, &sum);
    } else {
      context.run(UHAL_OP_GATHER, {&gradient, &edges.targets}, {&messages}, &at);
    }
  };
  if (forward.reduction == UHAL_REDUCE_MEAN) {
    // Divided by the elements of each segment.
    const Scratch shares(context, dy.dtype, dy);
    std::optional<Scratch> counts;
    View divisors;
    if (given && given.elements() == dy.shape[0]) {
      divisors = flat(given.view());
    } else {
      const Constant number(context, UHAL_INT64, 1);
      View ones = number;
      ones.rank = 1;
      ones.shape[0] = dims[0];
      ones.strides[0] = 0;
      divisors = counts.emplace(context, UHAL_INT64, dy.shape, 1);
      context.run(UHAL_OP_SEGMENT_REDUCE, {&ones, &edges.targets}, {&divisors}, &sum);
    }
    for (divisors.rank = 1; divisors.rank < dy.rank; ++divisors.rank) {
      divisors.shape[divisors.rank] = 1;
      divisors.strides[divisors.rank] = 0;
    }
    context.map(uhal_map_divide_no_nan, {&dy, &divisors}, {&shares});
    bring(shares);
  } else {
    bring(dy);
  }
  if (y != nullptr) {
    const Scratch results(context, dy.dtype, dims, dy.rank);
    context.run(UHAL_OP_GATHER, {y, &edges.targets}, {&results}, &at);
    if (edges.sources != nullptr) {
      const Scratch rows(context, dy.dtype, dims, dy.rank);
      context.run(UHAL_OP_GATHER, {&x, edges.sources}, {&rows}, &at);
      multiply_by_equality(context, rows, results, messages);
    } else {
      multiply_by_equality(context, x, results, messages);
    }
  }
  if (own) context.run(UHAL_OP_SEGMENT_REDUCE, {&messages, edges.sources}, {&dx}, &sum);
}

// As many segments as the last id says.
void segment_pool(Context context, Input x, Input ids, Text pooltype, Output y, Output counts) {
  const View in = x.view(), at = flat(ids.view());
  auto attributes = segment_attributes(context, pooltype.value);
  attributes.form = UHAL_SEGMENT_SORTED;
  int64_t dims[UHAL_MAX_RANK];
  std::copy_n(in.shape, in.rank, dims);
  dims[0] =
      1 + static_cast<int64_t>(at.elements() == 0 ? -1 : read_number(context, at.sliced(0, at.elements() - 1, 1)));
  if (dims[0] < 0) invalid(context, "segment ids must not be negative");
  const View out = context.allocate(y, in.dtype, dims, in.rank);
  if (!counts || attributes.reduction != UHAL_REDUCE_MEAN) {  // Paddle counts for means only
    return context.run(UHAL_OP_SEGMENT_REDUCE, {&in, &at}, {&out}, &attributes);
  }
  const int64_t column[] = {dims[0], 1};
  const Scratch elements(context, UHAL_INT64, column, 1);
  context.run(UHAL_OP_SEGMENT_REDUCE, {&in, &at}, {&out, &elements}, &attributes);
  copy_or_cast(context, elements.unsqueezed(1), context.allocate(counts, in.dtype, column, 2));
}

void segment_pool_grad(Context context, Input x, Input ids, Input y, OptionalInput counts, Input dy, Text pooltype,
                       Output dx) {
  const View at = flat(ids.view()), gradient = dy.view();
  const auto attributes = segment_attributes(context, pooltype.value);
  const View out = context.allocate(dx, gradient.dtype);
  const View in = is_extreme(attributes.reduction) ? x.view() : View(),
             result = is_extreme(attributes.reduction) ? y.view() : View();
  reduce_rows_grad(context, attributes, {nullptr, at}, in, is_extreme(attributes.reduction) ? &result : nullptr, counts,
                   gradient, out);
}

void send_u_recv(Context context, Input x, Input sources, Input targets, Text reduction, Integers size, Output y,
                 Output counts) {
  const View in = x.view(), from = flat(sources.view()), to = flat(targets.view());
  const auto attributes = segment_attributes(context, reduction.value);
  int64_t dims[UHAL_MAX_RANK];
  std::copy_n(in.shape, in.rank, dims);
  if (size.size() > 0 && size[0] > 0) dims[0] = size[0];
  const View out = context.allocate(y, in.dtype, dims, in.rank);
  if (!counts) return context.run(UHAL_OP_SEGMENT_REDUCE, {&in, &to, &from}, {&out}, &attributes);
  const View elements = context.allocate(counts, UHAL_INT32, dims, 1);
  context.run(UHAL_OP_SEGMENT_REDUCE, {&in, &to, &from}, {&out, &elements}, &attributes);
}

void send_u_recv_grad(Context context, Input x, Input sources, Input targets, OptionalInput y, OptionalInput counts,
                      Input dy, Text reduction, Output dx) {
  const View from = flat(sources.view()), to = flat(targets.view()), gradient = dy.view();
  const auto attributes = segment_attributes(context, reduction.value);
  const View out = context.allocate(dx, gradient.dtype);
  const View in = is_extreme(attributes.reduction) ? x.view() : View(),
             result = is_extreme(attributes.reduction) ? y.view() : View();
  reduce_rows_grad(context, attributes, {&from, to}, in, is_extreme(attributes.reduction) ? &result : nullptr, counts,
                   gradient, out);
}

}  // namespace

KernelTable data_dependent_kernels() {
  return {
      UNIHAL_KERNEL("masked_select", kEvery, masked_select),
      UNIHAL_KERNEL("masked_select_grad", kNumbers | kComplex, masked_select_grad),
      UNIHAL_KERNEL("nonzero", kEvery, nonzero),
      UNIHAL_KERNEL("searchsorted", kNumbers, searchsorted),
      UNIHAL_KERNEL("segment_pool", kNumbers, segment_pool),
      UNIHAL_KERNEL("segment_pool_grad", kNumbers, segment_pool_grad),
      UNIHAL_KERNEL("send_u_recv", kNumbers, send_u_recv),
      UNIHAL_KERNEL("send_u_recv_grad", kNumbers, send_u_recv_grad),
  };
}

}  // namespace unihal::paddle
