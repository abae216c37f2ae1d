// Attention, and what stands around it in transformers.
#include <cmath>

#include "plugins/onnxruntime/kernels/attention_support.h"

namespace unihal::onnxruntime {

View heads_of(const Call& call, const View& x, int64_t heads) {
  if (x.rank == 4) return x;
  call.require(x.rank == 3 && heads > 0 && x.shape[2] % heads == 0,
               "an operand has neither 4 axes nor 3 with whole heads");
  return x.reshaped({x.shape[0], x.shape[1], heads, x.shape[2] / heads}).permuted({0, 2, 1, 3});
}

namespace {

// A mask as four axes.
View four_axes(const Call& call, View mask) {
  call.require(mask.rank <= 4, "the mask has more than 4 axes");
  while (mask.rank < 4) mask = mask.unsqueezed(0);
  return mask;
}

// What attention adds to scores: of a mask of bool 0 or -infinity; what it says nothing of, beyond its columns, is
// hidden.
View additive(Call& call, const View& mask, int64_t columns, uhal_dtype dtype) {
  View added = mask;
  if (mask.dtype == UHAL_BOOL) {
    added = call.scratch_like(mask, dtype);
    const View zero = call.constant(0, dtype), hidden = call.constant(-INFINITY, dtype);
    call.map(uhal_map_select, {&mask, &zero, &hidden}, {&added});
  }
  const int64_t own = added.shape[3];
  if (own == columns || own == 1) return added;
  call.require(own < columns, "the mask has more columns than there are keys");
  Shape shape = shape_of(added);
  shape[3] = columns;
  const View whole = call.scratch(shape, added.dtype);
  call.fill(whole, -INFINITY);
  const View known = whole.sliced(3, 0, own);
  call.launch(UHAL_OP_COPY, {&added}, {&known});
  return whole;
}

// 0 where row i sees column j <= i + offset, else -infinity.
View causal_mask(Call& call, int64_t rows, int64_t columns, int64_t offset, uhal_dtype dtype) {
  const Shape shape = {rows, columns};
  const View hidden = call.scratch(shape, dtype), mask = call.scratch(shape, dtype);
  call.fill(hidden, -INFINITY);
  uhal_triangular_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.upper = 1;
  attributes.diagonal = offset + 1;
  call.launch(UHAL_OP_TRIANGULAR, {&hidden}, {&mask}, &attributes);
  return mask.reshaped({1, 1, rows, columns});
}

}  // namespace

void attend(Call& call, const View& q, const View& k, const View& v, View mask, bool causal, int64_t offset,
            double scale, const View& y) {
  const int64_t rows = q.shape[2], columns = k.shape[2];
  uhal_attention_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.scale = scale;
  attributes.math_mode = call.math_mode();
  if (mask.dtype != UHAL_DTYPE_INVALID) mask = additive(call, four_axes(call, mask), columns, q.dtype);
  if (causal && columns - rows == offset) {
    attributes.causal = 1;
  } else if (causal) {
    const View hidden = causal_mask(call, rows, columns, offset, q.dtype);
    if (mask.dtype == UHAL_DTYPE_INVALID) {
      mask = hidden;
    } else {
      const View both = call.scratch(broadcast(call, shape_of(mask), shape_of(hidden)), q.dtype);
      call.map(uhal_map_add, {&mask, &hidden}, {&both});
      mask = both;
    }
  }
  const int64_t heads = q.shape[1], kept = k.shape[1];
  call.require(kept > 0 && heads % kept == 0 && v.shape[1] == kept,
               "the heads of q are no multiple of those of k and v");
  const int64_t group = heads / kept;
  for (int64_t g = 0; g < group; ++g) {
    const View from = q.sliced(1, g, kept, group), to = y.sliced(1, g, kept, group);
    if (mask.dtype == UHAL_DTYPE_INVALID) {
      call.launch(UHAL_OP_ATTENTION, {&from, &k, &v}, {&to}, &attributes);
    } else {
      const View own = mask.shape[1] == heads && heads > 1 ? mask.sliced(1, g, kept, group) : mask;
      call.launch(UHAL_OP_ATTENTION, {&from, &k, &v, &own}, {&to}, &attributes);
    }
  }
}

View with_past(Call& call, const View& fresh, int input, int output) {
  if (!call.has(input)) {
    View present;
    if (call.wants(output, shape_of(fresh), &present)) call.launch(UHAL_OP_COPY, {&fresh}, {&present});
    return fresh;
  }
  const View past = call.input(input);
  call.require(past.rank == 4, "the past has not 4 axes");
  Shape shape = shape_of(fresh);
  shape[2] += past.shape[2];
  View present;
  if (!call.wants(output, shape, &present)) present = call.scratch(shape, fresh.dtype);
  const View before = present.sliced(2, 0, past.shape[2]);
  const View after = present.sliced(2, past.shape[2], fresh.shape[2]);
  if (past.elements() != 0) call.launch(UHAL_OP_COPY, {&past}, {&before});
  if (fresh.elements() != 0) call.launch(UHAL_OP_COPY, {&fresh}, {&after});
  return present;
}

void turn_pairs(Call& call, const View& x, const View& y, const View& cosines, const View& sines, bool interleaved) {
  const int64_t pairs = cosines.shape[cosines.rank - 1];
  call.require(2 * pairs <= x.shape[3], "the tables are wider than a head");
  const auto half = [&](const View& view, int64_t which) {
    return interleaved ? view.sliced(3, which, pairs, 2) : view.sliced(3, which * pairs, pairs);
  };
  const View x1 = half(x, 0), x2 = half(x, 1), y1 = half(y, 0), y2 = half(y, 1);
  const Shape shape = shape_of(x1);
  const View product = call.scratch(shape, x.dtype), negative = call.scratch(shape, x.dtype);
  call.map(uhal_map_multiply, {&x2, &sines}, {&product});
  call.map(uhal_map_negative, {&product}, {&negative});
  call.map(uhal_map_multiply_add, {&x1, &cosines, &negative}, {&y1});
  call.map(uhal_map_multiply, {&x1, &sines}, {&product});
  call.map(uhal_map_multiply_add, {&x2, &cosines, &product}, {&y2});
  if (2 * pairs == x.shape[3]) return;
  const View rest = x.sliced(3, 2 * pairs, x.shape[3] - 2 * pairs);
  const View to = y.sliced(3, 2 * pairs, x.shape[3] - 2 * pairs);
  call.launch(UHAL_OP_COPY, {&rest}, {&to});
}

namespace {

class Attention final : public Kernel {
 public:
  explicit Attention(const Description& node)
      : causal_(node.integer("is_causal", 0) != 0),
        q_heads_(node.integer("q_num_heads", 0)),
        kv_heads_(node.integer("kv_num_heads", 0)),
        scale_(node.real("scale", 0)) {
    node.require(node.real("softcap", 0) == 0, "softcap");
    node.require(node.integer("left_window_size", -1) < 0 && node.integer("right_window_size", -1) < 0, "a window");
    node.require(!node.has_output(3), "the scores as an output");
    node.require(!node.has_input(6), "lengths without padding");
    node.require(node.input_dtype(0) == node.input_dtype(1) && node.input_dtype(0) == node.input_dtype(2),
                 "operands of several dtypes");
  }
  void run(Call& call) const override {
    const View given = call.input(0);
    const View q = heads_of(call, given, q_heads_);
    View k = heads_of(call, call.input(1), kv_heads_);
    View v = heads_of(call, call.input(2), kv_heads_);
    const int64_t past = call.has(4) ? call.shape(4).at(2) : 0;
    k = with_past(call, k, 4, 1);
    v = with_past(call, v, 5, 2);
    const int64_t width = v.shape[3];
    const Shape shape = given.rank == 4 ? Shape{q.shape[0], q.shape[1], q.shape[2], width}
                                        : Shape{q.shape[0], q.shape[2], q.shape[1] * width};
    const View output = call.output(0, shape);
    if (output.elements() == 0) return;
    attend(call, q, k, v, call.has(3) ? call.input(3) : View(), causal_, past, scale_,
           heads_of(call, output, q_heads_));
  }

 private:
  const bool causal_;
  const int64_t q_heads_, kv_heads_;
  const double scale_;
};

// Pairs of numbers turned by angles whose cosines and sines a table has for each position.
class RotaryEmbedding final : public Kernel {
 public:
  RotaryEmbedding(const Description& node, const void* data)
      : positions_first_(*static_cast<const bool*>(data)),
        heads_(node.integer("num_heads", 0)),
        turned_(node.integer("rotary_embedding_dim", 0)),
        interleaved_(node.integer("interleaved", 0) != 0) {
    node.require(node.integer("is_packed_batching", 0) == 0, "packed batches");
  }
  void run(Call& call) const override {
    const View given = call.input(0);
    const View cosines = call.input(positions_first_ ? 2 : 1);
    const int64_t pairs = cosines.shape[cosines.rank - 1];
    int64_t heads = heads_;
    if (given.rank == 3 && heads == 0) heads = given.shape[2] / (turned_ != 0 ? turned_ : 2 * pairs);
    const View x = heads_of(call, given, heads);
    const View output = call.output_like(0, given);
    if (output.elements() == 0) return;
    const View y = heads_of(call, output, heads);
    const View c = angles(call, cosines, x), s = angles(call, call.input(positions_first_ ? 3 : 2), x);
    turn_pairs(call, x, y, c, s, interleaved_);
  }

 private:
  // A table's rows for the positions of x, as (B, 1, M, pairs).
  View angles(Call& call, const View& table, const View& x) const {
    const int64_t pairs = table.shape[table.rank - 1];
    const int input = positions_first_ ? 1 : 3;
    if (!call.has(input)) {
      call.require(table.rank == 3, "the tables have not a row for each position");
      return table.unsqueezed(1);
    }
    View positions = call.input(input);
    const Shape whole = {x.shape[0], x.shape[2]};
    if (positions.elements() == 1 && elements_of(whole) != 1) {
      // The first position; the others follow it.
      const View numbers = call.scratch(Shape{x.shape[2]}, UHAL_INT64);
      uhal_iota_attributes iota = {};
      iota.struct_size = sizeof iota;
      iota.integer_step = 1;
      call.launch(UHAL_OP_IOTA, {}, {&numbers}, &iota);
      const View start = positions.reshaped(Shape());
      call.map(uhal_map_add, {&numbers, &start}, {&numbers});
      const View rows = call.scratch(whole, UHAL_INT64);
      call.launch(UHAL_OP_COPY, {&numbers}, {&rows});
      positions = rows;
    }
    call.require(positions.rank == 2, "position_ids have not 2 axes");
    const View rows = call.scratch(Shape{positions.shape[0], positions.shape[1], pairs}, table.dtype);
    const uhal_index_attributes attributes = index_attributes(0);
    call.launch(UHAL_OP_GATHER, {&table, &positions}, {&rows}, &attributes);
    return rows.unsqueezed(1);
  }

  const bool positions_first_;
  const int64_t heads_, turned_;
  const bool interleaved_;
};

constexpr bool kTablesFirst = false;
constexpr bool kPositionsFirst = true;

// com.microsoft: gelu(x + bias), exact or by tanh.
class BiasGelu final : public Kernel {
 public:
  BiasGelu(const Description&, const void* data) : function_(*static_cast<const uhal_map_function*>(data)) {}
  void run(Call& call) const override {
    const View x = call.input(0);
    const View y = call.output_like(0, x);
    if (y.elements() == 0) return;
    if (!call.has(1)) return call.map(function_, {&x}, {&y});
    const View bias = call.input(1);
    const uhal_map_function functions[] = {uhal_map_add, function_};
    uhal_map_chain_attributes attributes = {};
    attributes.struct_size = sizeof attributes;
    attributes.step_count = 2;
    attributes.functions[0] = functions[0];
    attributes.functions[1] = functions[1];
    attributes.operands[0][0] = 0;
    attributes.operands[0][1] = 1;
    attributes.operands[1][0] = 2;
    attributes.results[0] = 3;
    call.launch(UHAL_OP_MAP_CHAIN, {&x, &bias}, {&y}, &attributes);
  }

 private:
  const uhal_map_function function_;
};

constexpr uhal_map_function kGeluErf = uhal_map_gelu_erf;
constexpr uhal_map_function kGeluTanh = uhal_map_gelu_tanh;

const Op kRows[] = {
    {.name = "Attention", .first = 23, .last = kNewestOpset, .dtypes = kFloats, .make = make<Attention>},
    {.name = "RotaryEmbedding",
     .first = 23,
     .last = kNewestOpset,
     .dtypes = kFloats,
     .make = make<RotaryEmbedding>,
     .data = &kTablesFirst},
    {.name = "RotaryEmbedding",
     .first = 1,
     .last = 1,
     .dtypes = kFloats,
     .make = make<RotaryEmbedding>,
     .data = &kPositionsFirst,
     .domain = kMicrosoft},
    {.name = "BiasGelu",
     .first = 1,
     .last = 1,
     .dtypes = kFloats,
     .make = make<BiasGelu>,
     .data = &kGeluErf,
     .domain = kMicrosoft},
    {.name = "FastGelu",
     .first = 1,
     .last = 1,
     .dtypes = kFloats,
     .make = make<BiasGelu>,
     .data = &kGeluTanh,
     .domain = kMicrosoft},
};

}  // namespace

Table attention_ops() { return table(kRows); }

}  // namespace unihal::onnxruntime
