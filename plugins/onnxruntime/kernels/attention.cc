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

constexpr bool is_there(const View& view) { return view.dtype != UHAL_DTYPE_INVALID; }

// A mask as four axes.
View four_axes(const Call& call, View mask) {
  call.require(mask.rank <= 4, "the mask has more than 4 axes");
  while (mask.rank < 4) mask = mask.unsqueezed(0);
  return mask;
}

// 0 where `seen`, else -infinity.
View hiding(Call& call, const View& seen, uhal_dtype dtype) {
  const View added = call.scratch_like(seen, dtype);
  const View zero = call.constant(0, dtype), hidden = call.constant(-INFINITY, dtype);
  call.map(uhal_map_select, {&seen, &zero, &hidden}, {&added});
  return added;
}

// What attention adds to scores: of a mask of bool 0 or -infinity; what it says nothing of, beyond its columns, is
// hidden.
View additive(Call& call, const View& mask, int64_t columns, uhal_dtype dtype) {
  const View added = mask.dtype == UHAL_BOOL ? hiding(call, mask, dtype) : mask;
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

// -infinity above the diagonal (j > i + diagonal) or below it, else 0.
View beyond_diagonal(Call& call, const Shape& shape, bool upper, int64_t diagonal, uhal_dtype dtype) {
  const View hidden = call.scratch(shape, dtype), mask = call.scratch(shape, dtype);
  call.fill(hidden, -INFINITY);
  uhal_triangular_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.upper = upper ? 1 : 0;
  attributes.diagonal = upper ? diagonal + 1 : diagonal - 1;
  call.launch(UHAL_OP_TRIANGULAR, {&hidden}, {&mask}, &attributes);
  return mask.reshaped({1, 1, shape[0], shape[1]});
}

// The columns that each row sees, where batches have lengths of their own: (B, 1, rows, columns).
View seen_of_lengths(Call& call, const Scores& scores, int64_t batch, int64_t rows, int64_t columns) {
  call.require(scores.lengths.elements() == batch, "there is not a length for each batch");
  const View lengths = call.as(scores.lengths.reshaped({batch, 1, 1, 1}), UHAL_INT64);
  const auto numbers = [&](int64_t count, int64_t start) {
    const View result = call.scratch(Shape{count}, UHAL_INT64);
    uhal_iota_attributes iota = {};
    iota.struct_size = sizeof iota;
    iota.integer_start = start;
    iota.integer_step = 1;
    call.launch(UHAL_OP_IOTA, {}, {&result}, &iota);
    return result;
  };
  const View column = numbers(columns, 0);
  const View seen = call.scratch(Shape{batch, 1, rows, columns}, UHAL_BOOL), part = call.scratch_like(seen, UHAL_BOOL);
  call.map(uhal_map_less, {&column, &lengths}, {&seen});
  const auto limit = [&](uhal_map_function function, int64_t distance) {
    const View row = numbers(rows, distance - rows).reshaped({rows, 1});
    const View end = call.scratch(Shape{batch, 1, rows, 1}, UHAL_INT64);
    call.map(uhal_map_add, {&row, &lengths}, {&end});
    call.map(function, {&column, &end}, {&part});
    call.map(uhal_map_logical_and, {&seen, &part}, {&seen});
  };
  if (scores.right >= 0) limit(uhal_map_less_equal, scores.right);
  if (scores.left >= 0) limit(uhal_map_greater_equal, -scores.left);
  return seen;
}

// All that is added to scores; `causal` is what the device's attention does by itself.
View all_masks(Call& call, const Scores& scores, int64_t batch, int64_t rows, int64_t columns, uhal_dtype dtype,
               bool causal) {
  View mask;
  if (is_there(scores.mask)) mask = additive(call, four_axes(call, scores.mask), columns, dtype);
  if (is_there(scores.lengths)) {
    return sum_of_masks(call, mask, hiding(call, seen_of_lengths(call, scores, batch, rows, columns), dtype));
  }
  const Shape shape = {rows, columns};
  if (scores.right >= 0 && !causal && scores.offset + scores.right < columns - 1) {
    mask = sum_of_masks(call, mask, beyond_diagonal(call, shape, true, scores.offset + scores.right, dtype));
  }
  if (scores.left >= 0 && rows - 1 + scores.offset - scores.left > 0) {
    mask = sum_of_masks(call, mask, beyond_diagonal(call, shape, false, scores.offset - scores.left, dtype));
  }
  return mask;
}

// Of the heads of a mask or of sinks, those that go with every `group`th head of q from g on.
View heads_in_group(const View& view, int axis, int64_t heads, int64_t g, int64_t kept, int64_t group) {
  return view.shape[axis] == heads && heads > 1 ? view.sliced(axis, g, kept, group) : view;
}

// softmax(scores) in place; a row of nothing but -infinity becomes zeros. `sinks` (H) take their part of each row.
void weigh(Call& call, const View& scores, const View& sinks) {
  Shape column = shape_of(scores);
  column[3] = 1;
  const View most = call.scratch(column, scores.dtype), none = call.scratch(column, UHAL_BOOL);
  const uhal_reduce_attributes maximum = reduce_attributes(UHAL_REDUCE_MAXIMUM);
  call.launch(UHAL_OP_REDUCE, {&scores}, {&most}, &maximum);
  const View lowest = call.constant(-INFINITY, scores.dtype), zero = call.constant(0, scores.dtype);
  call.map(uhal_map_equal, {&most, &lowest}, {&none});
  if (is_there(sinks)) {
    // exp(s - m) / (sum of exp(s - m) + exp(sink - m)), where m is the largest of both.
    const View own = call.as(sinks, scores.dtype);
    const View heads = own.unsqueezed(0).unsqueezed(2).unsqueezed(3);
    call.map(uhal_map_maximum, {&most, &heads}, {&most});
    call.map(uhal_map_subtract, {&scores, &most}, {&scores});
    call.map(uhal_map_exp, {&scores}, {&scores});
    const View sum = call.scratch(column, scores.dtype), sunk = call.scratch(column, scores.dtype);
    const uhal_reduce_attributes total = reduce_attributes(UHAL_REDUCE_SUM);
    call.launch(UHAL_OP_REDUCE, {&scores}, {&sum}, &total);
    call.map(uhal_map_subtract, {&heads, &most}, {&sunk});
    call.map(uhal_map_exp, {&sunk}, {&sunk});
    call.map(uhal_map_add, {&sum, &sunk}, {&sum});
    call.map(uhal_map_divide, {&scores, &sum}, {&scores});
    return;
  }
  const uhal_softmax_attributes softmax = softmax_attributes(3);
  call.launch(UHAL_OP_SOFTMAX, {&scores}, {&scores}, &softmax);
  call.map(uhal_map_select, {&none, &zero, &scores}, {&scores});
}

// Attention whose scores are there one after the other: what the device's own does not do.
void attend_by_steps(Call& call, const View& q, const View& k, const View& v, const Scores& scores, const View& sinks,
                     const View& mask, const View& y, Stage stage, const View& given) {
  const uhal_dtype wide = q.dtype == UHAL_FLOAT64 ? UHAL_FLOAT64 : UHAL_FLOAT32;
  const View s = call.scratch(Shape{q.shape[0], q.shape[1], q.shape[2], k.shape[2]}, wide);
  const View turned = k.transposed();
  uhal_matmul_attributes product = matmul_attributes(call.math_mode());
  product.alpha = scores.scale != 0 ? scores.scale : 1 / std::sqrt(static_cast<double>(q.shape[3]));
  call.launch(UHAL_OP_MATMUL, {&q, &turned}, {&s}, &product);
  const auto give = [&](Stage at) {
    if (stage == at) call.move(s, given);
  };
  give(Stage::kProducts);
  if (scores.softcap > 0) {
    call.map(uhal_map_scale, {&s}, {&s}, {1 / scores.softcap, 0});
    call.map(uhal_map_tanh, {&s}, {&s});
    call.map(uhal_map_scale, {&s}, {&s}, {scores.softcap, 0});
  }
  give(Stage::kCapped);
  if (is_there(mask)) call.map(uhal_map_add, {&s, &mask}, {&s});
  give(Stage::kMasked);
  weigh(call, s, sinks);
  give(Stage::kWeights);
  product.alpha = 1;
  const View weights = call.as(s, v.dtype);
  call.launch(UHAL_OP_MATMUL, {&weights, &v}, {&y}, &product);
}

}  // namespace

View sum_of_masks(Call& call, const View& a, const View& b) {
  if (!is_there(a)) return b;
  if (!is_there(b)) return a;
  const View sum = call.scratch(broadcast(call, shape_of(a), shape_of(b)), a.dtype);
  call.map(uhal_map_add, {&a, &b}, {&sum});
  return sum;
}

void attend(Call& call, const View& q, const View& k, const View& v, const Scores& scores, const View& y, Stage stage,
            const View& given) {
  const int64_t batch = q.shape[0], heads = q.shape[1], kept = k.shape[1], rows = q.shape[2], columns = k.shape[2];
  call.require(kept > 0 && heads % kept == 0 && v.shape[1] == kept,
               "the heads of q are no multiple of those of k and v");
  call.require(!is_there(scores.sinks) || scores.sinks.elements() == heads, "there is not a sink for each head");
  if (columns == 0) return call.fill(y, 0);
  const bool by_steps = scores.softcap > 0 || stage != Stage::kNone || is_there(scores.sinks);
  uhal_attention_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.scale = scores.scale;
  attributes.math_mode = call.math_mode();
  const bool causal = !by_steps && scores.right == 0 && !is_there(scores.lengths) && columns - rows == scores.offset;
  attributes.causal = causal ? 1 : 0;
  const View mask = all_masks(call, scores, batch, rows, columns, q.dtype, causal);
  const int64_t group = heads / kept;
  for (int64_t g = 0; g < group; ++g) {
    const View from = q.sliced(1, g, kept, group), to = y.sliced(1, g, kept, group);
    const View own = is_there(mask) ? heads_in_group(mask, 1, heads, g, kept, group) : View();
    if (by_steps) {
      const View sinks = is_there(scores.sinks) ? heads_in_group(scores.sinks, 0, heads, g, kept, group) : View();
      attend_by_steps(call, from, k, v, scores, sinks, own, to, stage,
                      stage != Stage::kNone ? given.sliced(1, g, kept, group) : View());
    } else if (is_there(own)) {
      call.launch(UHAL_OP_ATTENTION, {&from, &k, &v, &own}, {&to}, &attributes);
    } else {
      call.launch(UHAL_OP_ATTENTION, {&from, &k, &v}, {&to}, &attributes);
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

// Q, K, V, attn_mask, past_key, past_value, nonpad_kv_seqlen -> Y, present_key, present_value, scores.
class Attention final : public Kernel {
 public:
  explicit Attention(const Description& node)
      : causal_(node.integer("is_causal", 0) != 0),
        q_heads_(node.integer("q_num_heads", 0)),
        kv_heads_(node.integer("kv_num_heads", 0)),
        scale_(node.real("scale", 0)),
        softcap_(node.real("softcap", 0)),
        left_(node.integer("left_window_size", -1)),
        right_(node.integer("right_window_size", -1)) {
    node.require(node.input_dtype(0) == node.input_dtype(1) && node.input_dtype(0) == node.input_dtype(2),
                 "operands of several dtypes");
    const int64_t mode = node.integer("qk_matmul_output_mode", 0);
    constexpr Stage kModes[] = {Stage::kProducts, Stage::kCapped, Stage::kMasked, Stage::kWeights};
    node.require(!node.has_output(3) || (mode >= 0 && mode <= 3), "scores at an unknown stage as an output");
    if (node.has_output(3)) stage_ = kModes[mode];
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
    View stage;
    if (stage_ != Stage::kNone) stage = call.output(3, {q.shape[0], q.shape[1], q.shape[2], k.shape[2]});
    if (output.elements() == 0) return;
    Scores scores;
    scores.scale = scale_;
    scores.softcap = softcap_;
    scores.offset = past;
    scores.left = left_;
    scores.right = right_;
    if (causal_) scores.be_causal();
    if (call.has(3)) scores.mask = call.input(3);
    if (call.has(6)) scores.lengths = call.input(6);
    attend(call, q, k, v, scores, heads_of(call, output, q_heads_), stage_, stage);
  }

 private:
  const bool causal_;
  const int64_t q_heads_, kv_heads_;
  const double scale_, softcap_;
  const int64_t left_, right_;
  Stage stage_ = Stage::kNone;
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

constexpr uhal_map_function kBiasGelu = uhal_map_gelu_erf;
constexpr uhal_map_function kFastGelu = uhal_map_gelu_tanh;

const Op kAttentionOps[] = {
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
     .data = &kBiasGelu,
     .domain = kMicrosoft},
    {.name = "FastGelu",
     .first = 1,
     .last = 1,
     .dtypes = kFloats,
     .make = make<BiasGelu>,
     .data = &kFastGelu,
     .domain = kMicrosoft},
};

}  // namespace

Table attention_ops() { return table(kAttentionOps); }

}  // namespace unihal::onnxruntime
