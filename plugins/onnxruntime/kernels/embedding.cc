// com.microsoft: the first layer of BERT.
#include "plugins/onnxruntime/kernels/quantized.h"

namespace unihal::onnxruntime {
namespace {

// The ones in each row of a mask; without one 0.
void count_ones(Call& call, int mask_input, const View& counts) {
  if (!call.has(mask_input)) return call.fill(counts, 0);
  const View mask = call.input(mask_input);
  const View column = counts.unsqueezed(1);
  const uhal_reduce_attributes attributes = reduce_attributes(UHAL_REDUCE_SUM);
  if (counts.elements() != 0) call.launch(UHAL_OP_REDUCE, {&mask}, {&column}, &attributes);
}

// input_ids, segment_ids, word, position and segment embeddings, gamma, beta, mask, position_ids -> the norm of the sum
// of embeddings, the number of ones in each row of the mask (0 without one), the sum.
class EmbedLayerNormalization final : public Kernel {
 public:
  explicit EmbedLayerNormalization(const Description& node) : epsilon_(node.real("epsilon", 1e-12)) {
    node.require(node.integer("mask_index_type", 1) <= 1, "a mask index of another type");
    node.require(node.has_input(5) && node.has_input(6), "a norm without its scale and bias");
  }
  void run(Call& call) const override {
    const View ids = call.input(0), words = call.input(2), table = call.input(3);
    call.require(ids.rank == 2 && words.rank == 2 && table.rank == 2, "the words or an embedding have not 2 axes");
    const int64_t batch = ids.shape[0], length = ids.shape[1], width = words.shape[1];
    const Shape shape = {batch, length, width};
    const View y = call.output(0, shape);
    View counts, sum;
    const bool wants_counts = call.wants(1, {batch}, &counts);
    if (!call.wants(2, shape, &sum)) sum = call.scratch(shape, y.dtype);
    if (wants_counts) count_ones(call, 7, counts);
    if (y.elements() == 0) return;
    gather(call, words, ids, sum);
    if (call.has(8)) {
      add(call, table, call.input(8), sum);
    } else {
      call.require(length <= table.shape[0], "there are fewer positions than words");
      const View positions = table.sliced(0, 0, length);
      call.map(uhal_map_add, {&sum, &positions}, {&sum});
    }
    if (call.has(1) && call.has(4)) add(call, call.input(4), call.input(1), sum);
    const uhal_dtype dtype = y.dtype == UHAL_FLOAT64 ? UHAL_FLOAT64 : UHAL_FLOAT32;  // of statistics (op.h)
    const View gamma = call.as(call.input(5), dtype), beta = call.as(call.input(6), dtype);
    uhal_norm_attributes attributes = norm_attributes(epsilon_);
    attributes.axis = 2;
    call.launch(UHAL_OP_LAYER_NORM, {&sum, &gamma, &beta}, {&y}, &attributes);
  }

 private:
  static void gather(Call& call, const View& table, const View& rows, const View& y) {
    const uhal_index_attributes attributes = index_attributes(0);
    call.launch(UHAL_OP_GATHER, {&table, &rows}, {&y}, &attributes);
  }

  static void add(Call& call, const View& table, const View& rows, const View& sum) {
    Shape shape = shape_of(rows);
    shape.push_back(table.shape[1]);
    const View found = call.scratch(shape, sum.dtype);
    gather(call, table, rows, found);
    call.map(uhal_map_add, {&sum, &found}, {&sum});
  }

  const double epsilon_;
};

// The same of tables in 8 bits: input_ids, segment_ids, word, position and segment embeddings, gamma, beta, mask, five
// scales and five zero points -> the norm, the number of ones in each row of the mask.
class QEmbedLayerNormalization final : public Kernel {
 public:
  explicit QEmbedLayerNormalization(const Description& node) : epsilon_(node.real("epsilon", 1e-12)) {
    for (int i = 13; i < 18; ++i) {
      node.require(node.has_input(i) || (i == 15 && !node.has_input(4)), "a zero point that is missing");
    }
  }
  void run(Call& call) const override {
    const View ids = call.input(0), words = call.input(2), table = call.input(3);
    call.require(ids.rank == 2 && words.rank == 2 && table.rank == 2, "the words or an embedding have not 2 axes");
    const int64_t batch = ids.shape[0], length = ids.shape[1], width = words.shape[1];
    const View y = call.output(0, {batch, length, width});
    View counts;
    if (call.wants(1, {batch}, &counts)) count_ones(call, 7, counts);
    if (y.elements() == 0) return;
    call.require(length <= table.shape[0], "there are fewer positions than words");
    const View sum = rows_of(call, words, ids, 8, 13);
    const View positions = dequantized(call, table.sliced(0, 0, length), 9, 14);
    call.map(uhal_map_add, {&sum, &positions}, {&sum});
    if (call.has(1) && call.has(4)) {
      const View segments = rows_of(call, call.input(4), call.input(1), 10, 15);
      call.map(uhal_map_add, {&sum, &segments}, {&sum});
    }
    const View gamma = dequantized(call, call.input(5), 11, 16), beta = dequantized(call, call.input(6), 12, 17);
    uhal_norm_attributes attributes = norm_attributes(epsilon_);
    attributes.axis = 2;
    call.launch(UHAL_OP_LAYER_NORM, {&sum, &gamma, &beta}, {&y}, &attributes);
  }

 private:
  static View rows_of(Call& call, const View& table, const View& rows, int scale_input, int zero_input) {
    Shape shape = shape_of(rows);
    shape.push_back(table.shape[1]);
    const View found = call.scratch(shape, table.dtype);
    const uhal_index_attributes attributes = index_attributes(0);
    call.launch(UHAL_OP_GATHER, {&table, &rows}, {&found}, &attributes);
    return dequantized(call, found, scale_input, zero_input);
  }

  const double epsilon_;
};

const Op kEmbeddingOps[] = {
    {.name = "QEmbedLayerNormalization",
     .first = 1,
     .last = 1,
     .dtypes = only(UHAL_INT32),
     .make = make<QEmbedLayerNormalization>,
     .domain = kMicrosoft},
    {.name = "EmbedLayerNormalization",
     .first = 1,
     .last = 1,
     .dtypes = only(UHAL_INT32),
     .make = make<EmbedLayerNormalization>,
     .domain = kMicrosoft},
};

}  // namespace

Table embedding_ops() { return table(kEmbeddingOps); }

}  // namespace unihal::onnxruntime
