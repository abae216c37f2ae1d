// Attention as com.microsoft has it: what ONNX Runtime's tools make of exported transformers.
#include "plugins/onnxruntime/kernels/attention_support.h"
#include "plugins/onnxruntime/kernels/quantized.h"

namespace unihal::onnxruntime {
namespace {

// What a mask of integers adds to scores, with four axes: nothing, or `hidden` where it is 0. Its shape is (B,
// columns), (B, rows, columns), (B) for the number of columns that count, or (2 B) for where these end and, then, where
// they begin.
View padding_mask(Call& call, const View& mask, int64_t batch, int64_t columns, double hidden, uhal_dtype dtype) {
  View seen;
  if (mask.rank == 1) {
    call.require(mask.shape[0] == batch || mask.shape[0] == 2 * batch,
                 "a mask with one axis has not a length, or an end and a beginning, for each batch");
    const View numbers = call.scratch(Shape{columns}, mask.dtype);
    uhal_iota_attributes iota = {};
    iota.struct_size = sizeof iota;
    iota.integer_step = 1;
    call.launch(UHAL_OP_IOTA, {}, {&numbers}, &iota);
    const View ends = mask.sliced(0, 0, batch).reshaped({batch, 1, 1, 1});
    seen = call.scratch(Shape{batch, 1, 1, columns}, UHAL_BOOL);
    call.map(uhal_map_less, {&numbers, &ends}, {&seen});
    if (mask.shape[0] != batch) {
      const View begins = mask.sliced(0, batch, batch), from(begins.data, begins.dtype, {batch, 1, 1, 1});
      const View begun = call.scratch_like(seen, UHAL_BOOL);
      call.map(uhal_map_greater_equal, {&numbers, &from}, {&begun});
      call.map(uhal_map_logical_and, {&seen, &begun}, {&seen});
    }
  } else {
    call.require((mask.rank == 2 || mask.rank == 3) && mask.shape[0] == batch && mask.shape[mask.rank - 1] == columns,
                 "the mask is not (batch), (batch, keys) or (batch, rows, keys)");
    const View given = mask.rank == 2 ? mask.reshaped({batch, 1, 1, columns}) : mask.unsqueezed(1);
    seen = call.scratch_like(given, UHAL_BOOL);
    call.cast(given, seen);
  }
  const View added = call.scratch_like(seen, dtype);
  const View zero = call.constant(0, dtype), lowest = call.constant(hidden, dtype);
  call.map(uhal_map_select, {&seen, &zero, &lowest}, {&added});
  return added;
}

// x + the part of a bias that begins at `start`, as (B, H, M, D).
View biased_heads(Call& call, View x, const View& bias, int64_t start, int64_t heads) {
  if (bias.dtype != UHAL_DTYPE_INVALID) {
    const int64_t width = x.shape[x.rank - 1];
    const View part = bias.sliced(0, start, width);
    const View sum = call.scratch_like(x, x.dtype);
    call.map(uhal_map_add, {&x, &part}, {&sum});
    x = sum;
  }
  return heads_of(call, x, heads);
}

// query, key, value, bias, key_padding_mask, attention_bias, past_key, past_value -> output, present_key,
// present_value.
class MultiHeadAttention final : public Kernel {
 public:
  explicit MultiHeadAttention(const Description& node)
      : heads_(node.integer("num_heads", 0)),
        causal_(node.integer("unidirectional", 0) != 0),
        scale_(node.real("scale", 0)),
        hidden_(node.real("mask_filter_value", -10000)) {
    node.require(heads_ > 0, "no number of heads");
    for (int i = 8; i < node.input_count(); ++i) node.require(!node.has_input(i), "a past in a shared buffer");
    node.require(!node.has_output(3), "the scores as an output");
    const bool in_one = !node.has_input(1) || !node.has_input(2);
    node.require(!in_one || !node.has_input(3), "a bias of operands that are packed into one");
  }
  void run(Call& call) const override {
    const View query = call.input(0);
    View q, k, v;
    if (!call.has(1)) {
      q = packed(call, query, 0, 3);
      k = packed(call, query, 1, 3);
      v = packed(call, query, 2, 3);
    } else {
      call.require(query.rank == 3, "the query has not 3 axes");
      const View bias = call.has(3) ? call.input(3) : View();
      const View key = call.input(1);
      const int64_t width = query.shape[2];
      q = biased_heads(call, query, bias, 0, heads_);
      if (!call.has(2)) {
        k = packed(call, key, 0, 2);
        v = packed(call, key, 1, 2);
      } else {
        const View value = call.input(2);
        k = key.rank == 4 ? key : biased_heads(call, key, bias, width, heads_);
        v = value.rank == 4 ? value : biased_heads(call, value, bias, 2 * width, heads_);
      }
    }
    const int64_t past = call.has(6) ? call.shape(6).at(2) : 0;
    k = with_past(call, k, 6, 1);
    v = with_past(call, v, 7, 2);
    const int64_t batch = q.shape[0], columns = k.shape[2];
    const View y = call.output(0, {batch, q.shape[2], heads_ * v.shape[3]});
    if (y.elements() == 0) return;
    Scores scores;
    scores.scale = scale_;
    scores.offset = call.has(6) ? past : columns - q.shape[2];
    if (causal_) scores.be_causal();
    if (call.has(4)) scores.mask = padding_mask(call, call.input(4), batch, columns, hidden_, q.dtype);
    if (call.has(5)) scores.mask = sum_of_masks(call, scores.mask, call.input(5));
    attend(call, q, k, v, scores, heads_of(call, y, heads_));
  }

 private:
  // (B, H, M, D) of (B, M, H, `count`, D).
  View packed(const Call& call, const View& x, int64_t which, int64_t count) const {
    call.require(x.rank == 5 && x.shape[2] == heads_ && x.shape[3] == count,
                 "operands in one are not (batch, length, heads, 2 or 3, width)");
    View view = x.sliced(3, which, 1).permuted({0, 2, 1, 4, 3});
    view.rank = 4;
    return view;
  }

  const int64_t heads_;
  const bool causal_;
  const double scale_, hidden_;
};

// Attention of vectors for query, key and value that lie side by side, by whichever product.
class SideBySide {
 public:
  explicit SideBySide(const Description& node)
      : heads_(node.integer("num_heads", 0)),
        causal_(node.integer("unidirectional", 0) != 0),
        scale_(node.real("scale", 0)),
        hidden_(node.real("mask_filter_value", -10000)),
        sizes_(node.integers("qkv_hidden_sizes").value_or(Shape())) {
    node.require(node.integer("do_rotary", 0) == 0, "rotary embeddings within");
    node.require(node.integer("past_present_share_buffer", 0) == 0, "a past in a shared buffer");
    node.require(sizes_.empty() || sizes_.size() == 3, "qkv_hidden_sizes has not three entries");
  }

  // Fails unless `all` columns of weights are those of whole heads.
  Shape sizes(const Call& call, int64_t all) const {
    const Shape sizes = sizes_.empty() ? Shape{all / 3, all / 3, all / 3} : sizes_;
    call.require(heads_ > 0 && sizes[0] + sizes[1] + sizes[2] == all, "the weights are not as wide as the heads");
    for (const int64_t size : sizes) call.require(size % heads_ == 0, "the weights are not as wide as the heads");
    return sizes;
  }

  // product (B, M, all columns) to outputs 0 and 1. The numbers are those of the node's inputs.
  void run(Call& call, const View& product, int mask_input, int past_input, int bias_input) const {
    const int64_t batch = product.shape[0], rows = product.shape[1];
    const Shape widths = sizes(call, product.shape[2]);
    const auto part = [&](int which) {
      const int64_t start = which == 0 ? 0 : which == 1 ? widths[0] : widths[0] + widths[1];
      const int64_t width = widths[static_cast<size_t>(which)] / heads_;
      View view = product.sliced(2, start, width * heads_).unsqueezed(3);
      view.shape[2] = heads_;
      view.shape[3] = width;
      view.strides[2] = width;
      view.strides[3] = 1;
      return view.permuted({0, 2, 1, 3});
    };
    const View q = part(0);
    View k = part(1), v = part(2);
    int64_t past = 0;
    if (call.has(past_input) || call.output_count() > 1) extend(call, past_input, &k, &v, &past);
    const View y = call.output(0, {batch, rows, widths[2]});
    if (y.elements() == 0) return;
    Scores scores;
    scores.scale = scale_;
    scores.offset = past;
    if (causal_) scores.be_causal();
    if (call.has(mask_input)) {
      scores.mask = padding_mask(call, call.input(mask_input), batch, k.shape[2], hidden_, q.dtype);
    }
    if (call.has(bias_input)) scores.mask = sum_of_masks(call, scores.mask, call.input(bias_input));
    attend(call, q, k, v, scores, heads_of(call, y, heads_));
  }

 private:
  // Past and present are keys and values in one: (2, B, H, M, D).
  static void extend(Call& call, int past_input, View* k, View* v, int64_t* past) {
    View before;
    if (call.has(past_input)) {
      before = call.input(past_input);
      call.require(before.rank == 5 && before.shape[0] == 2, "the past is not (2, batch, heads, length, width)");
      *past = before.shape[3];
    }
    call.require(k->shape[3] == v->shape[3], "keys and values in one are not of one width");
    const Shape shape = {2, k->shape[0], k->shape[1], *past + k->shape[2], k->shape[3]};
    View whole;
    if (!call.wants(1, shape, &whole)) whole = call.scratch(shape, k->dtype);
    for (int i = 0; i < 2; ++i) {
      View* const one = i == 0 ? k : v;
      const View place =
          View(static_cast<char*>(whole.data) +
                   static_cast<size_t>(i) * static_cast<size_t>(whole.elements() / 2) * uhal_dtype_size(whole.dtype),
               whole.dtype, Shape(shape.begin() + 1, shape.end()));
      const View after = place.sliced(2, *past, one->shape[2]);
      if (one->elements() != 0) call.launch(UHAL_OP_COPY, {one}, {&after});
      if (*past != 0) {
        const View old =
            View(static_cast<char*>(before.data) + static_cast<size_t>(i) * static_cast<size_t>(before.elements() / 2) *
                                                       uhal_dtype_size(before.dtype),
                 before.dtype, Shape(before.shape + 1, before.shape + 5));
        const View to = place.sliced(2, 0, *past);
        if (old.elements() != 0) call.launch(UHAL_OP_COPY, {&old}, {&to});
      }
      *one = place;
    }
  }

  const int64_t heads_;
  const bool causal_;
  const double scale_, hidden_;
  const Shape sizes_;
};

// input, weights of query, key and value side by side, their bias, mask_index, past, attention_bias -> output, present.
class PackedAttention final : public Kernel {
 public:
  explicit PackedAttention(const Description& node) : attention_(node) {
    node.require(!node.has_input(6), "a past in a shared buffer");
    const auto& mask = node.input(3).shape;
    node.require(!mask || mask->size() <= 3, "a mask of four axes");
  }
  void run(Call& call) const override {
    const View x = call.input(0), weights = call.input(1);
    call.require(x.rank == 3 && weights.rank == 2 && x.shape[2] == weights.shape[0],
                 "the input and the weights do not go together");
    const int64_t batch = x.shape[0], rows = x.shape[1], all = weights.shape[1];
    attention_.sizes(call, all);
    const View product = call.scratch(Shape{batch, rows, all}, x.dtype);
    if (product.elements() != 0) {
      const uhal_matmul_attributes attributes = matmul_attributes(call.math_mode());
      const View from = x.reshaped({batch * rows, x.shape[2]}), to = product.reshaped({batch * rows, all});
      const View bias = call.has(2) ? call.input(2) : View();
      const bool adds = bias.dtype != UHAL_DTYPE_INVALID;
      call.launch(UHAL_OP_MATMUL, {&from, &weights, adds ? &bias : nullptr}, {&to}, &attributes);
    }
    attention_.run(call, product, 3, 4, 5);
  }

 private:
  const SideBySide attention_;
};

// The same of quantized numbers: input, weights, bias, input_scale, weight_scale, mask_index, input_zero_point,
// weight_zero_point, past -> output, present.
class QAttention final : public Kernel {
 public:
  explicit QAttention(const Description& node) : attention_(node) {
    node.require(node.output_dtype(0) == UHAL_FLOAT32, "a result of other than float32");
    const auto& mask = node.input(5).shape;
    node.require(!mask || mask->size() <= 3, "a mask of four axes");
  }
  void run(Call& call) const override {
    const View x = call.input(0), weights = call.input(1), bias = call.input(2);
    call.require(x.rank == 3 && weights.rank == 2 && x.shape[2] == weights.shape[0],
                 "the input and the weights do not go together");
    const int64_t batch = x.shape[0], rows = x.shape[1], all = weights.shape[1];
    attention_.sizes(call, all);
    const View product = call.scratch(Shape{batch, rows, all}, UHAL_FLOAT32);
    if (product.elements() != 0) {
      const View a = centred(call, x, 6, false), b = centred(call, weights, 7, false);
      const View sums = call.scratch_like(product, UHAL_INT32);
      call.launch(UHAL_OP_MATMUL, {&a, &b}, {&sums});
      const View scale_a = single(call, 3), scale_b = of_columns(call, 4);
      call.copy(scaled(call, sums, scale_a, scale_b), product);
      call.map(uhal_map_add, {&product, &bias}, {&product});
    }
    attention_.run(call, product, 5, 8, kNoInput);
  }

 private:
  static constexpr int kNoInput = Call::kMostInputs;
  const SideBySide attention_;
};

// query, key, value, past_key, past_value, seqlens_k, total_sequence_length, cos_cache, sin_cache, position_ids,
// attention_bias, head_sink, k_scale, v_scale, q_norm_weight, k_norm_weight -> output, present_key, present_value. Each
// batch has a past of its own length.
class GroupQueryAttention final : public Kernel {
 public:
  explicit GroupQueryAttention(const Description& node)
      : heads_(node.integer("num_heads", 0)),
        kept_(node.integer("kv_num_heads", 0)),
        window_(node.integer("local_window_size", -1)),
        scale_(node.real("scale", 0)),
        softcap_(node.real("softcap", 0)),
        causal_(node.integer("causal", 1) != 0),
        smooth_(node.integer("smooth_softmax", 0) > 0),
        rotates_(node.integer("do_rotary", 0) != 0),
        interleaved_(node.integer("rotary_interleaved", 0) != 0) {
    node.require(heads_ > 0 && kept_ > 0 && heads_ % kept_ == 0, "heads that are no multiple of the kept ones");
    node.require(node.integer("qk_output", 0) == 0, "the scores as an output");
    node.require(node.integer("sliding_window_cache", 0) == 0, "a past as long as the window");
    for (const char* name : {"k_quant_type", "v_quant_type"}) {
      node.require(node.text(name, "NONE") == "NONE", "a quantized past");
    }
    node.require(!node.has_input(12) && !node.has_input(13), "a quantized past");
    node.require(node.has_input(kQueryNorm) == node.has_input(kKeyNorm), "a norm of queries or keys alone");
    for (int i = kKeyNorm + 1; i < node.input_count(); ++i) node.require(!node.has_input(i), "lengths of queries");
    const double epsilon = node.real("qk_norm_epsilon", 1e-6);
    query_epsilon_ = node.real("q_norm_epsilon", epsilon);
    key_epsilon_ = node.real("k_norm_epsilon", epsilon);
    node.require(!rotates_ || (node.has_input(7) && node.has_input(8)), "rotary embeddings without their tables");
  }
  void run(Call& call) const override {
    const View query = call.input(0);
    call.require(query.rank == 3, "the query has not 3 axes");
    const int64_t batch = query.shape[0], rows = query.shape[1];
    const bool packed = !call.has(1);
    const int64_t width = query.shape[2] / (packed ? heads_ + 2 * kept_ : heads_);
    View q = part(query, 0, heads_, width);
    View k = packed ? part(query, heads_ * width, kept_, width) : part(call.input(1), 0, kept_, width);
    if (call.has(kQueryNorm)) {
      q = normed(call, q, kQueryNorm, query_epsilon_);
      k = normed(call, k, kKeyNorm, key_epsilon_);
    }
    const View v = packed ? part(query, (heads_ + kept_) * width, kept_, width) : part(call.input(2), 0, kept_, width);
    const Shape lengths = call.integers(5);
    call.require(static_cast<int64_t>(lengths.size()) == batch, "seqlens_k has not a number for each batch");
    const int64_t total = static_cast<int64_t>(call.scalar(6));
    const int64_t room = call.has(3) ? call.shape(3).at(2) : 0;
    const Shape shape = {batch, kept_, std::max(room, total), width};
    View keys, values;
    if (!call.wants(1, shape, &keys)) keys = call.scratch(shape, query.dtype);
    if (!call.wants(2, shape, &values)) values = call.scratch(shape, query.dtype);
    const View y = call.output(0, {batch, rows, heads_ * width});
    if (y.elements() == 0) return;
    const View to = heads_of(call, y, heads_);
    Scores scores;
    scores.scale = scale_;
    scores.softcap = softcap_;
    scores.left = window_ < 0 ? -1 : window_ - 1;  // a window is a row's own column and what is before it
    if (causal_) scores.be_causal();
    if (call.has(11)) scores.sinks = call.input(11);
    if (smooth_ && !call.has(11)) {
      scores.sinks = call.scratch(Shape{heads_}, UHAL_FLOAT32);
      call.fill(scores.sinks, 0);
    }
    const View turned = rotates_ ? call.scratch(shape_of(q), q.dtype) : q;
    for (int64_t b = 0; b < batch; ++b) {
      const int64_t known = lengths[static_cast<size_t>(b)] + 1;
      const int64_t past = std::max<int64_t>(0, known - rows);  // a prompt may be shorter than its row
      call.require(past + rows <= shape[2] && past <= room, "seqlens_k is beyond the past and the query");
      keep(call, 3, k, keys, b, past, rotates_);
      keep(call, 4, v, values, b, past, false);
      const View own = turned.sliced(0, b, 1);
      if (rotates_) turn(call, q.sliced(0, b, 1), own, b, past);
      scores.offset = past;
      if (call.has(10)) {
        const View bias = call.input(10);
        call.require(bias.rank == 4 && bias.shape[3] >= past + rows, "attention_bias has fewer columns than keys");
        scores.mask = (bias.shape[0] == 1 ? bias : bias.sliced(0, b, 1)).sliced(3, 0, past + rows);
      }
      attend(call, own, keys.sliced(0, b, 1).sliced(2, 0, past + rows),
             values.sliced(0, b, 1).sliced(2, 0, past + rows), scores, to.sliced(0, b, 1));
    }
  }

 private:
  // (B, H, M, D) of columns of a packed operand.
  static View part(const View& x, int64_t start, int64_t heads, int64_t width) {
    View view = x.sliced(2, start, heads * width).unsqueezed(3);
    view.shape[2] = heads;
    view.shape[3] = width;
    view.strides[2] = width;
    view.strides[3] = 1;
    return view.permuted({0, 2, 1, 3});
  }

  // Each head's vectors over the root of the mean of their squares, times a weight.
  static View normed(Call& call, const View& x, int weight_input, double epsilon) {
    const View dense = call.scratch_like(x, x.dtype), result = call.scratch_like(x, x.dtype);
    if (x.elements() == 0) return result;
    call.launch(UHAL_OP_COPY, {&x}, {&dense});
    const View weight = call.as(call.input(weight_input), UHAL_FLOAT32);
    call.require(weight.elements() == x.shape[3], "a norm's weight does not fit the heads");
    uhal_norm_attributes attributes = norm_attributes(epsilon);
    attributes.axis = 3;
    call.launch(UHAL_OP_RMS_NORM, {&dense, &weight}, {&result}, &attributes);
    return result;
  }

  // The past of a batch, and what is new behind it.
  void keep(Call& call, int input, const View& fresh, const View& whole, int64_t b, int64_t past, bool rotates) const {
    const View place = whole.sliced(0, b, 1);
    if (past > 0) {
      const View from = call.input(input).sliced(0, b, 1).sliced(2, 0, past), to = place.sliced(2, 0, past);
      if (from.data != to.data) call.launch(UHAL_OP_COPY, {&from}, {&to});
    }
    const View from = fresh.sliced(0, b, 1), to = place.sliced(2, past, fresh.shape[2]);
    if (rotates) return turn(call, from, to, b, past);
    call.launch(UHAL_OP_COPY, {&from}, {&to});
  }

  // Batch b's vectors, by the positions that are given or those behind the past.
  void turn(Call& call, const View& x, const View& y, int64_t b, int64_t past) const {
    const View cosines = call.input(7), sines = call.input(8);
    call.require(cosines.rank == 2 && sines.rank == 2, "the tables have not 2 axes");
    if (call.has(9)) {
      const View positions = call.input(9);
      call.require(positions.rank == 2 && positions.shape[0] > b && positions.shape[1] == x.shape[2],
                   "position_ids are not (batch, length)");
      View rows(positions.sliced(0, b, 1).data, positions.dtype, {x.shape[2]});
      if (past == 0) {  // a prompt's positions follow the first of all
        const View first(positions.data, positions.dtype, Shape()), own = call.scratch(Shape{x.shape[2]}, UHAL_INT64);
        uhal_iota_attributes iota = {};
        iota.struct_size = sizeof iota;
        iota.integer_step = 1;
        call.launch(UHAL_OP_IOTA, {}, {&own}, &iota);
        call.map(uhal_map_add, {&own, &first}, {&own});
        rows = own;
      }
      const auto at = [&](const View& table) {
        const View found = call.scratch(Shape{x.shape[2], table.shape[1]}, table.dtype);
        const uhal_index_attributes attributes = index_attributes(0);
        call.launch(UHAL_OP_GATHER, {&table, &rows}, {&found}, &attributes);
        return found;
      };
      return turn_pairs(call, x, y, at(cosines), at(sines), interleaved_);
    }
    call.require(past + x.shape[2] <= cosines.shape[0], "the tables have too few positions");
    const View c = cosines.sliced(0, past, x.shape[2]), s = sines.sliced(0, past, x.shape[2]);
    turn_pairs(call, x, y, c, s, interleaved_);
  }

  static constexpr int kQueryNorm = 14, kKeyNorm = 15;

  const int64_t heads_, kept_, window_;
  const double scale_, softcap_;
  const bool causal_, smooth_, rotates_, interleaved_;
  double query_epsilon_ = 0, key_epsilon_ = 0;
};

constexpr DtypeSet kHalfAndFloat = kNarrowFloats | only(UHAL_FLOAT32);

const Op kAttentionMicrosoftOps[] = {
    {.name = "MultiHeadAttention",
     .first = 1,
     .last = 1,
     .dtypes = kFloats,
     .make = make<MultiHeadAttention>,
     .domain = kMicrosoft},
    {.name = "Attention",
     .first = 1,
     .last = 1,
     .dtypes = kFloats,
     .make = make<PackedAttention>,
     .domain = kMicrosoft},
    {.name = "QAttention", .first = 1, .last = 1, .dtypes = kBytes, .make = make<QAttention>, .domain = kMicrosoft},
    {.name = "GroupQueryAttention",
     .first = 1,
     .last = 1,
     .dtypes = kHalfAndFloat,
     .make = make<GroupQueryAttention>,
     .host_inputs = host({5, 6}),
     .domain = kMicrosoft},
};

}  // namespace

Table attention_microsoft_ops() { return table(kAttentionMicrosoftOps); }

}  // namespace unihal::onnxruntime
