// Attention as matrix products and softmax over blocks of rows, so that the scores of a long sequence need not fit in
// memory at once.
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

// Bytes of scores that are held at once.
constexpr int64_t kScoreBytes = int64_t{32} << 20;
// Work per score, in the units of parallel_for.
constexpr int64_t kWork = 8;

// Rows [first, first + count) of all heads of one batch entry.
struct Block {
  int64_t batch, first, count;
};

// (H, rows, columns) of a (B, H, M, columns) view; axes of length 1 are broadcast.
uhal_tensor rows_of(const uhal_tensor& view, const Block& block) {
  uhal_tensor result = view;
  int64_t offset = 0;
  if (view.shape[0] > 1) offset += block.batch * view.strides[0];
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

// All rows of all heads of one batch entry.
uhal_tensor whole(const uhal_tensor& view, int64_t batch) { return rows_of(view, {batch, 0, view.shape[2]}); }

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

  // Rows whose scores are held at once.
  int64_t block_rows(int64_t element_bytes) const {
    const int64_t row_bytes = std::max<int64_t>(1, heads * columns * element_bytes);
    return std::clamp<int64_t>(kScoreBytes / row_bytes, 1, std::max<int64_t>(1, rows));
  }
  // The columns that a row sees.
  int64_t visible(int64_t row, bool causal) const {
    return causal ? std::clamp<int64_t>(row + columns - rows + 1, 0, columns) : columns;
  }

  int64_t batches, heads, rows, columns;
};

// A packed (H, count, columns) view of scores in scratch memory.
uhal_tensor scores_view(const Sizes& sizes, const Block& block, uhal_dtype dtype, void* data) {
  uhal_tensor view = {};
  view.struct_size = sizeof view;
  view.data = data;
  view.dtype = dtype;
  view.rank = 3;
  view.shape[0] = sizes.heads;
  view.shape[1] = block.count;
  view.shape[2] = sizes.columns;
  set_packed_strides(view, row_major(3));
  return view;
}

// Calls body(row of scores, head, row) for each row of a block.
template <typename T, typename Body>
void for_each_row(const Sizes& sizes, const Block& block, T* scores, const Body& body) {
  parallel_for(sizes.heads * block.count, sizes.columns * kWork, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      body(scores + i * sizes.columns, i / block.count, block.first + i % block.count);
    }
  });
}

// scores = scale * q @ k^T + mask
uhal_status score(const Launch& launch, double scale, const Block& block, const uhal_tensor& q, const uhal_tensor& k,
                  const uhal_tensor* mask, const uhal_tensor& scores) {
  uhal_tensor own_mask;
  if (mask != nullptr) own_mask = rows_of(*mask, block);
  return multiply(launch, scale, rows_of(q, block), transposed(whole(k, block.batch)),
                  mask != nullptr ? &own_mask : nullptr, scores);
}

// A view without elements may have no memory, and null then.
template <typename T>
T* row_of(const uhal_tensor& view, int64_t batch, int64_t head, int64_t row) {
  if (view.data == nullptr) return nullptr;
  return static_cast<T*>(view.data) + batch * view.strides[0] + head * view.strides[1] + row * view.strides[2];
}

template <typename T>
uhal_status forward(const Launch& launch, uhal_dtype dtype) {
  const uhal_attention_attributes attributes = attention_attributes(launch.op);
  const Sizes sizes(launch.op);
  Staging staging(launch);
  const uhal_tensor* q = staging.input(0, dtype);
  const uhal_tensor* k = staging.input(1, dtype);
  const uhal_tensor* v = staging.input(2, dtype);
  const uhal_tensor* given_mask = staging.input(3, dtype);
  const uhal_tensor* y = staging.output(0, dtype);
  const uhal_tensor* logsumexp = staging.output(1, dtype);
  const int64_t block_rows = sizes.block_rows(sizeof(T));
  T* scores = staging.take<T>(static_cast<size_t>(sizes.heads * block_rows * sizes.columns));
  if (staging.status() != UHAL_OK) return staging.status();
  uhal_tensor mask;
  if (given_mask != nullptr) mask = with_four_axes(*given_mask);

  for (int64_t batch = 0; batch < sizes.batches; ++batch) {
    for (int64_t first = 0; first < sizes.rows; first += block_rows) {
      const Block block = {batch, first, std::min(block_rows, sizes.rows - first)};
      const uhal_tensor scores_of_block = scores_view(sizes, block, dtype, scores);
      uhal_status status =
          score(launch, attributes.scale, block, *q, *k, given_mask != nullptr ? &mask : nullptr, scores_of_block);
      if (status != UHAL_OK) return status;
      for_each_row(sizes, block, scores, [&](T* row, int64_t head, int64_t index) {
        const int64_t visible = sizes.visible(index, attributes.causal != 0);
        T log_sum = -std::numeric_limits<T>::infinity();
        if (row_maximum(visible, row) == log_sum) {  // a row that sees nothing gives zeros
          std::fill_n(row, visible, T(0));
        } else {
          log_sum = softmax_row(visible, row, row).total();
        }
        std::fill(row + visible, row + sizes.columns, T(0));
        if (logsumexp != nullptr) *row_of<T>(*logsumexp, batch, head, index) = log_sum;
      });
      status = multiply(launch, 1, scores_of_block, whole(*v, batch), nullptr, rows_of(*y, block));
      if (status != UHAL_OK) return status;
    }
  }
  return staging.finish();
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
  const int64_t block_rows = sizes.block_rows(2 * sizeof(T));
  const size_t block_scores = static_cast<size_t>(sizes.heads * block_rows * sizes.columns);
  T* probabilities = staging.take<T>(block_scores);
  T* dscores = staging.take<T>(block_scores);
  if (staging.status() != UHAL_OK) return staging.status();
  uhal_tensor mask;
  if (given_mask != nullptr) mask = with_four_axes(*given_mask);
  for (const uhal_tensor* gradient : {dk, dv}) {  // without rows, nothing else writes them
    const uhal_status status = sizes.rows == 0 ? set_to_zero(launch, gradient) : UHAL_OK;
    if (status != UHAL_OK) return status;
  }

  for (int64_t batch = 0; batch < sizes.batches; ++batch) {
    const uhal_tensor dk_of_batch = whole(*dk, batch);
    const uhal_tensor dv_of_batch = whole(*dv, batch);
    for (int64_t first = 0; first < sizes.rows; first += block_rows) {
      const Block block = {batch, first, std::min(block_rows, sizes.rows - first)};
      const uhal_tensor p = scores_view(sizes, block, dtype, probabilities);
      const uhal_tensor ds = scores_view(sizes, block, dtype, dscores);
      const uhal_tensor dy_of_block = rows_of(*dy, block);
      uhal_status status = score(launch, attributes.scale, block, *q, *k, given_mask != nullptr ? &mask : nullptr, p);
      if (status != UHAL_OK) return status;
      for_each_row(sizes, block, probabilities, [&](T* row, int64_t head, int64_t index) {
        subtract_or_hide(sizes.visible(index, attributes.causal != 0), sizes.columns,
                         *row_of<T>(*logsumexp, batch, head, index), row);
        exponentiate(sizes.columns, row);
      });
      const bool more = first > 0;  // later blocks add to what the first ones gave
      status = multiply(launch, 1, transposed(p), dy_of_block, more ? &dv_of_batch : nullptr, dv_of_batch);
      if (status == UHAL_OK) {
        status = multiply(launch, 1, dy_of_block, transposed(whole(*v, batch)), nullptr, ds);
      }
      if (status != UHAL_OK) return status;
      for_each_row(sizes, block, dscores, [&](T* row, int64_t head, int64_t index) {
        score_gradient(sizes.columns, probabilities + (row - dscores), dot_rows<T>(*y, *dy, batch, head, index),
                       static_cast<T>(attributes.scale), row);
      });
      status = multiply(launch, 1, ds, whole(*k, batch), nullptr, rows_of(*dq, block));
      if (status == UHAL_OK) {
        status = multiply(launch, 1, transposed(ds), rows_of(*q, block), more ? &dk_of_batch : nullptr, dk_of_batch);
      }
      if (status != UHAL_OK) return status;
    }
  }
  return staging.finish();
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
