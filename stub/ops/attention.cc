// Attention as matrix products and softmax over blocks of rows, so that the scores of a long sequence need not fit in
// memory at once, and those of a block stay in the cache from one step to the next.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "csrc/backends/common/attention.h"
#include "stub/common/parallel.h"
#include "stub/common/staging.h"
#include "stub/ops/softmax_rows.h"

namespace unihal::stub {
namespace {

// Bytes of scores that are held at once, and the rows of a head that they are of at least: products of fewer are slow.
constexpr int64_t kScoreBytes = int64_t{512} << 10;
constexpr int64_t kLeastRows = 64;
// Work per score, in the units of parallel_for.
constexpr int64_t kWork = 8;

// Rows [first, first + count) of some heads of one batch entry, and how many columns one of them sees.
struct Block {
  int64_t batch, head, heads, first, count, columns;
};

// (heads, rows, columns) of a (B, H, M, columns) view; axes of length 1 are broadcast.
uhal_tensor rows_of(const uhal_tensor& view, const Block& block) {
  uhal_tensor result = view;
  int64_t offset = 0;
  if (view.shape[0] > 1) offset += block.batch * view.strides[0];
  if (view.shape[1] > 1) {
    offset += block.head * view.strides[1];
    result.shape[1] = block.heads;
  }
  if (view.shape[2] > 1) {
    offset += block.first * view.strides[2];
    result.shape[2] = block.count;
  }
  if (view.data != nullptr) result.data = static_cast<char*>(view.data) + offset * dtype_size(view.dtype);
  result.rank = 3;
  std::copy_n(result.shape + 1, 3, result.shape);
  std::copy_n(result.strides + 1, 3, result.strides);
  return result;
}

// The first `count` rows of a block's heads: of keys and values those of the columns that it sees.
uhal_tensor columns_of(const uhal_tensor& view, Block block) {
  block.first = 0;
  block.count = block.columns;
  return rows_of(view, block);
}

uhal_tensor transposed(uhal_tensor view) {
  std::swap(view.shape[1], view.shape[2]);
  std::swap(view.strides[1], view.strides[2]);
  return view;
}

// A mask of lower rank with leading axes of length 1.
uhal_tensor with_four_axes(const uhal_tensor& view) {
  uhal_tensor result = view;
  const int missing = 4 - view.rank;
  for (int i = 0; i < 4; ++i) {
    result.shape[i] = i < missing ? 1 : view.shape[i - missing];
    result.strides[i] = i < missing ? 0 : view.strides[i - missing];
  }
  result.rank = 4;
  return result;
}

// d = alpha * a @ b + c, where c may be nullptr.
uhal_status multiply(const Launch& launch, double alpha, const uhal_tensor& a, const uhal_tensor& b,
                     const uhal_tensor* c, const uhal_tensor& d) {
  const uhal_tensor* inputs[] = {&a, &b, c};
  const uhal_tensor* outputs[] = {&d};
  uhal_matmul_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.alpha = alpha;
  attributes.beta = 1;
  uhal_op op = {};
  op.struct_size = sizeof op;
  op.kind = UHAL_OP_MATMUL;
  op.input_count = c != nullptr ? 3 : 2;
  op.output_count = 1;
  op.inputs = inputs;
  op.outputs = outputs;
  op.attributes = &attributes;
  return run_matmul({op, launch.stream});
}

struct Sizes {
  explicit Sizes(const uhal_op& op)
      : batches(op.inputs[0]->shape[0]),
        heads(op.inputs[0]->shape[1]),
        rows(op.inputs[0]->shape[2]),
        columns(op.inputs[1]->shape[2]) {}

  // The columns that a row sees.
  int64_t visible(int64_t row, bool causal) const {
    return causal ? std::clamp<int64_t>(row + columns - rows + 1, 0, columns) : columns;
  }

  int64_t batches, heads, rows, columns;
};

// The rows and heads whose scores are held at once, at most: some heads for each thread.
struct BlockSizes {
  BlockSizes(const Sizes& sizes, bool causal, int64_t element_bytes) {
    const int64_t row_bytes = std::max<int64_t>(1, sizes.columns * element_bytes);
    const int64_t threads = kThreads ? omp_get_max_threads() : 1;
    rows = std::max(kScoreBytes / row_bytes, kLeastRows);
    if (causal)
      rows = std::min(rows, std::max(sizes.rows / 8, kLeastRows));  // of which few columns are computed in vain
    rows = std::clamp<int64_t>(rows, 1, std::max<int64_t>(1, sizes.rows));
    heads = std::max(kScoreBytes / (rows * row_bytes), threads);
    heads = std::clamp<int64_t>(heads, 1, std::max<int64_t>(1, sizes.heads));
  }
  int64_t scores(const Sizes& sizes) const { return heads * rows * sizes.columns; }

  int64_t rows, heads;
};

// Calls body(block, whether it is the first of its heads) for blocks of all scores, the last rows of heads first: they
// see all columns. Ends at the first failure.
template <typename Body>
uhal_status for_each_block(const Sizes& sizes, bool causal, int64_t element_bytes, const Body& body) {
  const BlockSizes most(sizes, causal, element_bytes);
  for (int64_t batch = 0; batch < sizes.batches; ++batch) {
    for (int64_t head = 0; head < sizes.heads; head += most.heads) {
      for (int64_t end = sizes.rows; end > 0; end -= most.rows) {
        const int64_t first = std::max<int64_t>(0, end - most.rows);
        const int64_t columns = std::max(std::min<int64_t>(1, sizes.columns), sizes.visible(end - 1, causal));
        const Block block = {batch, head, std::min(most.heads, sizes.heads - head), first, end - first, columns};
        const uhal_status status = body(block, end == sizes.rows);
        if (status != UHAL_OK) return status;
      }
    }
  }
  return UHAL_OK;
}

// A packed (heads, count, columns) view of scores in scratch memory.
uhal_tensor scores_view(const Block& block, uhal_dtype dtype, void* data) {
  uhal_tensor view = {};
  view.struct_size = sizeof view;
  view.data = data;
  view.dtype = dtype;
  view.rank = 3;
  view.shape[0] = block.heads;
  view.shape[1] = block.count;
  view.shape[2] = block.columns;
  set_packed_strides(view, row_major(3));
  return view;
}

// Calls body(row of scores, head, row) for each row of a block.
template <typename T, typename Body>
void for_each_row(const Block& block, T* scores, const Body& body) {
  parallel_for(block.heads * block.count, block.columns * kWork, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      body(scores + i * block.columns, block.head + i / block.count, block.first + i % block.count);
    }
  });
}

// scores = scale * q @ k^T
uhal_status score(const Launch& launch, double scale, const Block& block, const uhal_tensor& q, const uhal_tensor& k,
                  const uhal_tensor& scores) {
  return multiply(launch, scale, rows_of(q, block), transposed(columns_of(k, block)), nullptr, scores);
}

// A view without elements may have no memory, and null then.
template <typename T>
T* row_of(const uhal_tensor& view, int64_t batch, int64_t head, int64_t row) {
  if (view.data == nullptr) return nullptr;
  return static_cast<T*>(view.data) + batch * view.strides[0] + head * view.strides[1] + row * view.strides[2];
}

// row += what the mask has for it
template <typename T>
UNIHAL_VECTORIZED void add_row(int64_t count, const T* mask, T* row) {
  for (int64_t i = 0; i < count; ++i) row[i] += mask[i];
}

template <typename T>
void add_mask(const uhal_tensor& mask, const Block& block, int64_t head, int64_t index, int64_t count, T* row) {
  if (mask.data == nullptr) return;
  const T* values = static_cast<const T*>(mask.data);
  const int64_t place[] = {block.batch, head, index};
  for (int axis = 0; axis < 3; ++axis) {
    if (mask.shape[axis] > 1) values += place[axis] * mask.strides[axis];
  }
  const int64_t step = mask.shape[3] > 1 ? mask.strides[3] : 0;
  if (step == 1) return add_row(count, values, row);
  for (int64_t i = 0; i < count; ++i) row[i] += values[i * step];
}

template <typename T>
uhal_status forward(const Launch& launch, uhal_dtype dtype) {
  const uhal_attention_attributes attributes = attention_attributes(launch.op);
  const Sizes sizes(launch.op);
  const bool causal = attributes.causal != 0;
  Staging staging(launch);
  const uhal_tensor* q = staging.input(0, dtype);
  const uhal_tensor* k = staging.input(1, dtype);
  const uhal_tensor* v = staging.input(2, dtype);
  const uhal_tensor* given_mask = staging.input(3, dtype);
  const uhal_tensor* y = staging.output(0, dtype);
  const uhal_tensor* logsumexp = staging.output(1, dtype);
  T* scores = staging.take<T>(static_cast<size_t>(BlockSizes(sizes, causal, sizeof(T)).scores(sizes)));
  if (staging.status() != UHAL_OK) return staging.status();
  uhal_tensor mask;
  if (given_mask != nullptr) mask = with_four_axes(*given_mask);

  const uhal_status status = for_each_block(sizes, causal, sizeof(T), [&](const Block& block, bool) {
    const uhal_tensor scores_of_block = scores_view(block, dtype, scores);
    const uhal_status scored = score(launch, attributes.scale, block, *q, *k, scores_of_block);
    if (scored != UHAL_OK) return scored;
    for_each_row(block, scores, [&](T* row, int64_t head, int64_t index) {
      const int64_t visible = sizes.visible(index, causal);
      if (given_mask != nullptr) add_mask(mask, block, head, index, visible, row);
      T log_sum = -std::numeric_limits<T>::infinity();
      if (row_maximum(visible, row) == log_sum) {  // a row that sees nothing gives zeros
        std::fill_n(row, visible, T(0));
      } else {
        log_sum = softmax_row(visible, row, row).total();
      }
      std::fill(row + visible, row + block.columns, T(0));
      if (logsumexp != nullptr) *row_of<T>(*logsumexp, block.batch, head, index) = log_sum;
    });
    return multiply(launch, 1, scores_of_block, columns_of(*v, block), nullptr, rows_of(*y, block));
  });
  return status == UHAL_OK ? staging.finish() : status;
}

// Turns scores into probabilities, given the forward's logsumexp.
template <typename T>
UNIHAL_VECTORIZED void subtract_or_hide(int64_t visible, int64_t count, T log_sum, T* row) {
  // A row that saw nothing has a sum of 0; any finite shift keeps its probabilities at exp(-infinity) = 0.
  const T shift = log_sum == -std::numeric_limits<T>::infinity() ? T(0) : log_sum;
  for (int64_t i = 0; i < visible; ++i) row[i] -= shift;
  for (int64_t i = visible; i < count; ++i) row[i] = -std::numeric_limits<T>::infinity();
}

// dscores = probabilities * (dprobabilities - offset) * scale
template <typename T>
UNIHAL_VECTORIZED void score_gradient(int64_t count, const T* probabilities, T offset, T scale, T* row) {
  for (int64_t i = 0; i < count; ++i) row[i] = probabilities[i] * (row[i] - offset) * scale;
}

template <typename T>
T dot_rows(const uhal_tensor& a, const uhal_tensor& b, int64_t batch, int64_t head, int64_t row) {
  const T* left = row_of<T>(a, batch, head, row);
  const T* right = row_of<T>(b, batch, head, row);
  T sum = 0;
  for (int64_t i = 0; i < a.shape[3]; ++i) sum += left[i * a.strides[3]] * right[i * b.strides[3]];
  return sum;
}

uhal_status set_to_zero(const Launch& launch, const uhal_tensor* view) {
  uhal_op fill = {};
  fill.struct_size = sizeof fill;
  fill.kind = UHAL_OP_FILL;
  fill.output_count = 1;
  fill.outputs = &view;
  return run_generate({fill, launch.stream});
}

template <typename T>
uhal_status backward(const Launch& launch, uhal_dtype dtype) {
  const uhal_attention_attributes attributes = attention_attributes(launch.op);
  const Sizes sizes(launch.op);
  const bool causal = attributes.causal != 0;
  Staging staging(launch);
  const uhal_tensor* q = staging.input(0, dtype);
  const uhal_tensor* k = staging.input(1, dtype);
  const uhal_tensor* v = staging.input(2, dtype);
  const uhal_tensor* given_mask = staging.input(3, dtype);
  const uhal_tensor* y = staging.input(4, dtype);
  const uhal_tensor* logsumexp = staging.input(5, dtype);
  const uhal_tensor* dy = staging.input(6, dtype);
  const uhal_tensor* dq = staging.output(0, dtype);
  const uhal_tensor* dk = staging.output(1, dtype);
  const uhal_tensor* dv = staging.output(2, dtype);
  const auto block_scores = static_cast<size_t>(BlockSizes(sizes, causal, 2 * sizeof(T)).scores(sizes));
  T* probabilities = staging.take<T>(block_scores);
  T* dscores = staging.take<T>(block_scores);
  if (staging.status() != UHAL_OK) return staging.status();
  uhal_tensor mask;
  if (given_mask != nullptr) mask = with_four_axes(*given_mask);
  for (const uhal_tensor* gradient : {dk, dv}) {  // without rows, nothing else writes them
    const uhal_status status = sizes.rows == 0 ? set_to_zero(launch, gradient) : UHAL_OK;
    if (status != UHAL_OK) return status;
  }

  const uhal_status status = for_each_block(sizes, causal, 2 * sizeof(T), [&](const Block& block, bool is_first) {
    const uhal_tensor p = scores_view(block, dtype, probabilities);
    const uhal_tensor ds = scores_view(block, dtype, dscores);
    const uhal_tensor dy_of_block = rows_of(*dy, block);
    const uhal_tensor dk_of_block = columns_of(*dk, block);
    const uhal_tensor dv_of_block = columns_of(*dv, block);
    uhal_status done = score(launch, attributes.scale, block, *q, *k, p);
    if (done != UHAL_OK) return done;
    for_each_row(block, probabilities, [&](T* row, int64_t head, int64_t index) {
      const int64_t visible = sizes.visible(index, causal);
      if (given_mask != nullptr) add_mask(mask, block, head, index, visible, row);
      subtract_or_hide(visible, block.columns, *row_of<T>(*logsumexp, block.batch, head, index), row);
      exponentiate_weights(block.columns, row);
    });
    // Later blocks of the same heads add to what the first one gave.
    done = multiply(launch, 1, transposed(p), dy_of_block, is_first ? nullptr : &dv_of_block, dv_of_block);
    if (done == UHAL_OK) done = multiply(launch, 1, dy_of_block, transposed(columns_of(*v, block)), nullptr, ds);
    if (done != UHAL_OK) return done;
    for_each_row(block, dscores, [&](T* row, int64_t head, int64_t index) {
      score_gradient(block.columns, probabilities + (row - dscores), dot_rows<T>(*y, *dy, block.batch, head, index),
                     static_cast<T>(attributes.scale), row);
    });
    done = multiply(launch, 1, ds, columns_of(*k, block), nullptr, rows_of(*dq, block));
    if (done != UHAL_OK) return done;
    return multiply(launch, 1, transposed(ds), rows_of(*q, block), is_first ? nullptr : &dk_of_block, dk_of_block);
  });
  return status == UHAL_OK ? staging.finish() : status;
}

}  // namespace

const char* refuse_attention(const uhal_op& op) { return refuse_attention_dtypes(op); }

uhal_status run_attention(const Launch& launch) {
  const uhal_dtype dtype = arithmetic_dtype(launch.op);
  if (launch.op.kind == UHAL_OP_ATTENTION) {
    return dtype == UHAL_FLOAT64 ? forward<double>(launch, dtype) : forward<float>(launch, dtype);
  }
  return dtype == UHAL_FLOAT64 ? backward<double>(launch, dtype) : backward<float>(launch, dtype);
}

}  // namespace unihal::stub
