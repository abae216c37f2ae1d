// Messages along the edges of graphs: of nodes and edges together, and the sums of those that come to a node.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "plugins/paddle/kernels/common.h"

namespace unihal::paddle {
namespace {

bool adds(const Context& context, Text operation) {
  const std::string name = operation.value;
  if (name != "ADD" && name != "MUL")
    unsupported(context, "the operation " + name);  // Paddle turns SUB and DIV into them
  return name == "ADD";
}

uhal_segment_attributes segments(uhal_reduction reduction) {
  uhal_segment_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.reduction = reduction;
  return attributes;
}

uhal_reduction message_reduction_of(const Context& context, Text name) {
  const std::string given = name.value;
  if (given == "SUM") return UHAL_REDUCE_SUM;
  if (given == "MEAN") return UHAL_REDUCE_MEAN;
  if (given == "MAX") return UHAL_REDUCE_MAXIMUM;
  if (given == "MIN") return UHAL_REDUCE_MINIMUM;
  unsupported(context, "the reduction " + given);
}

// A row of x with as many axes as the longer of two kinds of rows.
View with_row_rank(const View& x, const View& other) {
  View result = x;
  while (result.rank < other.rank) result = result.unsqueezed(1);
  return result;
}

// The shape of `rows` messages of x and y, whose rows broadcast.
std::vector<int64_t> message_shape(const View& x, const View& y, int64_t rows) {
  std::vector<int64_t> dims{rows};
  for (int i = 1; i < x.rank; ++i) dims.push_back(std::max(x.shape[i], y.shape[i]));
  return dims;
}
std::vector<int64_t> with_rows(const View& x, int64_t rows) {
  std::vector<int64_t> dims(x.shape, x.shape + x.rank);
  dims[0] = rows;
  return dims;
}

class Gathered : public Scratch {
 public:
  Gathered(const Context& context, const View& x, const View& places)
      : Scratch(context, x.dtype, with_rows(x, places.elements())) {
    gather_rows(context, x, places, *this);
  }
};

// y := for each node the sum of the messages of its number.
void sum_at_nodes(const Context& context, const View& messages, const View& nodes, const View& y) {
  const auto sum = segments(UHAL_REDUCE_SUM);
  if (messages.elements() == 0) return fill_zero(context, y);
  context.run(UHAL_OP_SEGMENT_REDUCE, {&messages, &nodes}, {&y}, &sum);
}

// dx := what the messages' gradient is to rows of x that `nodes` names, each combined with a row of `other`.
void gradient_at_nodes(const Context& context, const View& messages, const View* other, const View& nodes,
                       const View& dx) {
  std::optional<Scratch> part, reduced;
  const View* rows = &messages;
  if (other != nullptr) {
    rows = &part.emplace(context, messages.dtype, with_rows(messages, messages.shape[0]));
    context.map(uhal_map_multiply, {&messages, other}, {rows});
  }
  if (!std::equal(dx.shape + 1, dx.shape + dx.rank, messages.shape + 1)) {
    const View& wide = *rows;
    rows = &reduced.emplace(context, messages.dtype, with_rows(dx, messages.shape[0]));
    sum_to_shape(context, wide, *rows);
  }
  sum_at_nodes(context, *rows, nodes, dx);
}

// -- a message for each edge

void send_uv(Context context, Input x, Input y, Input sources, Input targets, Text operation, Output out) {
  const View from = flat(sources.view()), to = flat(targets.view());
  const View a = with_row_rank(x.view(), y.view()), b = with_row_rank(y.view(), x.view());
  const auto dims = message_shape(a, b, from.elements());
  const View messages = context.allocate(out, a.dtype, dims.data(), static_cast<int>(dims.size()));
  if (messages.elements() == 0) return;
  const Gathered left(context, a, from), right(context, b, to);
  context.map(adds(context, operation) ? uhal_map_add : uhal_map_multiply, {&left, &right}, {&messages});
}

void send_uv_grad(Context context, Input x, Input y, Input sources, Input targets, Input dout, Text operation,
                  Output dx, Output dy) {
  const View from = flat(sources.view()), to = flat(targets.view()), gradient = dout.view();
  const View a = with_row_rank(x.view(), y.view()), b = with_row_rank(y.view(), x.view());
  const bool plain = adds(context, operation);
  const auto one = [&](Output wanted, const View& mine, const View& nodes, const View& other, const View& places) {
    if (!wanted) return;
    const View target = context.allocate(wanted, mine.dtype).reshaped(mine.shape, mine.rank);
    if (plain) return gradient_at_nodes(context, gradient, nullptr, nodes, target);
    const Gathered factors(context, other, places);
    gradient_at_nodes(context, gradient, &factors, nodes, target);
  };
  one(dx, a, from, b, to);
  one(dy, b, to, a, from);
}

// -- messages of nodes and edges, combined at the nodes to which they go

void send_ue_recv(Context context, Input x, Input y, Input sources, Input targets, Text operation, Text reduction,
                  Integers size, Output out, Output counts) {
  const View from = flat(sources.view()), to = flat(targets.view());
  const View a = with_row_rank(x.view(), y.view()), edges = with_row_rank(y.view(), x.view());
  const int64_t nodes = size.size() > 0 && size[0] > 0 ? size[0] : a.shape[0];
  const auto dims = message_shape(a, edges, nodes);
  const View result = context.allocate(out, a.dtype, dims.data(), static_cast<int>(dims.size()));
  const View elements = counts ? context.allocate(counts, UHAL_INT32, &nodes, 1) : View();
  if (from.elements() == 0 || result.elements() == 0) {
    fill_zero(context, result);
    if (counts) fill_zero(context, elements);
    return;
  }
  const Gathered rows(context, a, from);
  const Scratch messages(context, a.dtype, message_shape(a, edges, from.elements()));
  context.map(adds(context, operation) ? uhal_map_add : uhal_map_multiply, {&rows, &edges}, {&messages});
  const auto attributes = segments(message_reduction_of(context, reduction));
  context.run(UHAL_OP_SEGMENT_REDUCE, {&messages, &to}, {&result, counts ? &elements : nullptr}, &attributes);
}

// The gradient of each message. Of a maximum or minimum, which alone ask for the messages, each that equals it has all
// of the gradient, as in Paddle.
void message_gradient(const Context& context, uhal_reduction reduction, const View* messages, const View& to,
                      const View& result, const View& dout, const View& y) {
  gather_rows(context, dout, to, y);
  if (is_extreme(reduction)) {
    const Gathered extremes(context, result, to);
    multiply_by_equality(context, *messages, extremes, y);
  } else if (reduction == UHAL_REDUCE_MEAN) {
    const int64_t nodes = dout.shape[0], one[] = {1}, edges[] = {to.elements()};
    const Scratch number(context, UHAL_INT64, one, 1), counts(context, UHAL_INT64, &nodes, 1);
    fill(context, number, 1, 1);
    View ones = number;
    ones.shape[0] = edges[0];
    ones.strides[0] = 0;
    sum_at_nodes(context, ones, to, counts);
    const Gathered shares(context, counts, to);
    View divisors = shares;
    for (divisors.rank = 1; divisors.rank < y.rank; ++divisors.rank) {
      divisors.shape[divisors.rank] = 1;
      divisors.strides[divisors.rank] = 0;
    }
    context.map(uhal_map_divide_no_nan, {&y, &divisors}, {&y});
  }
}

void send_ue_recv_grad(Context context, Input x, Input y, Input sources, Input targets, OptionalInput out,
                       OptionalInput, Input dout, Text operation, Text reduction, Output dx, Output dy) {
  const View from = flat(sources.view()), to = flat(targets.view()), gradient = dout.view();
  const View a = with_row_rank(x.view(), y.view()), edges = with_row_rank(y.view(), x.view());
  const bool plain = adds(context, operation);
  const uhal_reduction how = message_reduction_of(context, reduction);
  const View dnodes = dx ? context.allocate(dx, a.dtype).reshaped(a.shape, a.rank) : View();
  const View dedges = dy ? context.allocate(dy, a.dtype).reshaped(edges.shape, edges.rank) : View();
  if (from.elements() == 0 || gradient.elements() == 0) {
    if (dx) fill_zero(context, dnodes);
    if (dy) fill_zero(context, dedges);
    return;
  }
  const auto dims = message_shape(a, edges, from.elements());
  std::optional<Gathered> rows;
  std::optional<Scratch> messages;
  if (is_extreme(how) || (dy && !plain)) rows.emplace(context, a, from);
  if (is_extreme(how)) {
    messages.emplace(context, a.dtype, dims);
    context.map(plain ? uhal_map_add : uhal_map_multiply, {&*rows, &edges}, {&*messages});
  }
  const Scratch dmessages(context, a.dtype, dims);
  const View result = out ? out.view() : View();
  message_gradient(context, how, messages ? &*messages : nullptr, to, result, gradient, dmessages);
  if (dx) gradient_at_nodes(context, dmessages, plain ? nullptr : &edges, from, dnodes);
  if (!dy) return;
  const bool direct = same_shape(dmessages, dedges);
  if (!plain) context.map(uhal_map_multiply, {&dmessages, &*rows}, {direct ? &dedges : &dmessages});
  if (plain || !direct) sum_to_shape(context, dmessages, dedges);
}

}  // namespace

KernelTable message_kernels() {
  constexpr DtypeSet kTypes = kFloats | kInt32And64;
  return {
      UNIHAL_KERNEL("send_ue_recv", kTypes, send_ue_recv),
      UNIHAL_KERNEL("send_ue_recv_grad", kTypes, send_ue_recv_grad),
      UNIHAL_KERNEL("send_uv", kTypes, send_uv),
      UNIHAL_KERNEL("send_uv_grad", kTypes, send_uv_grad),
  };
}

}  // namespace unihal::paddle
