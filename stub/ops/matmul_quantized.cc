// UHAL_OP_MATMUL_QUANTIZED. Weights become float32 a part of the channels at a time: for few rows a channel's next
// weights, which stay in the first-level cache until all rows have been multiplied with them; for many as large a part
// as the product of matrices likes.
#include <algorithm>
#include <atomic>
#include <cmath>

#include "csrc/backends/common/dtype.h"
#include "csrc/backends/common/implementation_note.h"
#include "csrc/backends/common/quantized_problem.h"
#include "stub/common/activation.h"
#include "stub/common/parallel.h"
#include "stub/common/staging.h"
#include "stub/ops/copy.h"
#include "stub/vector/vectorize.h"

namespace unihal::stub {
namespace {

constexpr int64_t kFewRows = 16;
constexpr int64_t kPart = 2048;           // weights of a channel that few rows take at a time
constexpr int64_t kPanelBytes = 4 << 20;  // of float32 weights that many rows take at a time
constexpr int64_t kLeastPanelColumns = 64;
constexpr int64_t kMostOfPanel = 4 << 20;  // results of a panel that are put apart
// Between rows and between channels that a product of matrices reads: at multiples of 2 KiB they would share few sets
// of a cache.
constexpr int64_t kGap = 16;

// Whether oneDNN's products of whole matrices, of which it copies what would share sets, are faster than those of any
// rows: it has them for AVX-512, and takes them where nothing has gaps (measured: 256 rows 1.25 times as fast).
bool wants_no_gaps(int64_t rows) { return rows > kFewRows && has_wide_vectors(); }

// Scales and zero points as float32, by strides.
struct Blockwise {
  const float* data;
  int64_t row_stride;
  int64_t column_stride;

  const float& at(int64_t block, int64_t column) const { return data[block * row_stride + column * column_stride]; }
};

struct Problem {
  QuantizedWeights weights;
  Blockwise scales;
  Blockwise zeros;
};

// Eight numbers, of which a block has at least twice as many: GCC keeps vectors that no register of AVX2 holds in
// memory.
typedef float Lanes __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t Words __attribute__((vector_size(32)));
typedef uint8_t Bytes __attribute__((vector_size(8), aligned(1), may_alias));
constexpr int64_t kLanes = 8, kSums = 8;

UNIHAL_INLINE int nibble(uint8_t byte, bool high, bool is_signed) {
  const int value = high ? byte >> 4 : byte & 15;
  return is_signed ? (value ^ 8) - 8 : value;
}

// The blocks of a part of a channel: their zero points and scales, from that of the first weight on.
struct Blocks {
  const float* zeros;
  int64_t zero_step;
  const float* scales;
  int64_t scale_step;
  int64_t length;  // weights of each; at least those of the part where there is one
};

Blocks blocks_at(const Problem& problem, int64_t column, int64_t first) {
  const int64_t block = first / problem.weights.block;
  return {&problem.zeros.at(block, column), problem.zeros.row_stride, &problem.scales.at(block, column),
          problem.scales.row_stride, problem.weights.block};
}

// to[i] = (q[i] - zero) * scale of `count` weights of 8 bits that lie `step` apart.
template <class Byte>
UNIHAL_INLINE void expand_bytes(const Byte* q, int64_t step, int64_t count, const Blocks& blocks, float* to) {
  for (int64_t at = 0, block = 0; at < count; at += blocks.length, ++block) {
    const int64_t end = std::min(count, at + blocks.length);
    const float zero = blocks.zeros[block * blocks.zero_step];
    const float scale = blocks.scales[block * blocks.scale_step];
    if (step == 1) {
      for (int64_t i = at; i < end; ++i) to[i] = (static_cast<float>(q[i]) - zero) * scale;
    } else {
      for (int64_t i = at; i < end; ++i) to[i] = (static_cast<float>(q[i * step]) - zero) * scale;
    }
  }
}

UNIHAL_VECTORIZED void expand_int8(const int8_t* q, int64_t step, int64_t count, const Blocks& blocks, float* to) {
  expand_bytes(q, step, count, blocks, to);
}

UNIHAL_VECTORIZED void expand_uint8(const uint8_t* q, int64_t step, int64_t count, const Blocks& blocks, float* to) {
  expand_bytes(q, step, count, blocks, to);
}

// `count` weights of 4 bits as numbers, the low halves of bytes apart from the high ones, as they come out of a vector
// of bytes. Signed halves count from -8 by the sum modulo 16: as unsigned ones with 8 more, and a zero point of 8 more.
UNIHAL_VECTORIZED void expand_halves(const uint8_t* q, int64_t step, int64_t pairs, bool is_signed,
                                     const Blocks& blocks, float* low, float* high) {
  const uint8_t flip = is_signed ? 0x88 : 0;
  const int64_t each = blocks.length / 2;
  for (int64_t at = 0, block = 0; at < pairs; at += each, ++block) {
    const int64_t end = std::min(pairs, at + each);
    const float zero = blocks.zeros[block * blocks.zero_step] + (is_signed ? 8 : 0);
    const float scale = blocks.scales[block * blocks.scale_step];
    int64_t i = at;
    for (; step == 1 && i + kLanes <= end; i += kLanes) {
      const Bytes bytes = *reinterpret_cast<const Bytes*>(q + i) ^ flip;
      const Words words = __builtin_convertvector(bytes, Words);  // bytes would be shifted one by one
      const Words low_words = words & 15, high_words = words >> 4;
      *reinterpret_cast<Lanes*>(low + i) = (__builtin_convertvector(low_words, Lanes) - zero) * scale;
      *reinterpret_cast<Lanes*>(high + i) = (__builtin_convertvector(high_words, Lanes) - zero) * scale;
    }
    for (; i < end; ++i) {
      const int byte = q[i * step] ^ flip;
      low[i] = (static_cast<float>(byte & 15) - zero) * scale;
      high[i] = (static_cast<float>(byte >> 4) - zero) * scale;
    }
  }
}

// Weights [first, first + count) of a channel, in the order in which sums take them: as they are, or of 4 bits those
// with even numbers from `to` on and those with odd ones from `odd` on. `first` is a multiple of kPart.
void expand_channel(const Problem& problem, int64_t column, int64_t first, int64_t count, float* to, float* odd) {
  const QuantizedWeights& weights = problem.weights;
  const QuantizedOperand& b = weights.b;
  const auto* bytes = static_cast<const uint8_t*>(b.data) + column * b.column_stride;
  const Blocks blocks = blocks_at(problem, column, first);
  if (weights.bits == 4) {
    const int64_t pairs = (count + 1) / 2;
    expand_halves(bytes + first / 2 * b.row_stride, b.row_stride, pairs, weights.is_signed, blocks, to, odd);
  } else if (weights.is_signed) {
    expand_int8(reinterpret_cast<const int8_t*>(bytes) + first * b.row_stride, b.row_stride, count, blocks, to);
  } else {
    expand_uint8(bytes + first * b.row_stride, b.row_stride, count, blocks, to);
  }
}

// One row of `count` channels that lie side by side: bytes, or one half of them.
template <class Decode>
UNIHAL_INLINE void expand_row_by(int64_t count, const float* zeros, const float* scales, float* to,
                                 const Decode& decode) {
  for (int64_t j = 0; j < count; ++j) to[j] = (static_cast<float>(decode(j)) - zeros[j]) * scales[j];
}

UNIHAL_VECTORIZED void expand_row(const uint8_t* q, int64_t step, int64_t count, int half, bool is_signed,
                                  const float* zeros, const float* scales, float* to) {
  if (half >= 0) {
    const int shift = 4 * half;
    const int flip = is_signed ? 8 : 0;
    if (step == 1) {
      expand_row_by(count, zeros, scales, to, [=](int64_t j) { return ((q[j] >> shift & 15) ^ flip) - flip; });
    } else {
      expand_row_by(count, zeros, scales, to, [=](int64_t j) { return ((q[j * step] >> shift & 15) ^ flip) - flip; });
    }
  } else if (is_signed) {
    expand_row_by(count, zeros, scales, to, [=](int64_t j) { return static_cast<int8_t>(q[j * step]); });
  } else {
    expand_row_by(count, zeros, scales, to, [=](int64_t j) { return q[j * step]; });
  }
}

// Rows [first, last) of channels [column, column + count) into `to`, row by row.
void expand_rows(const Problem& problem, int64_t first, int64_t last, int64_t column, int64_t count, float* zeros,
                 float* scales, float* to) {
  const QuantizedWeights& weights = problem.weights;
  const QuantizedOperand& b = weights.b;
  const auto* bytes = static_cast<const uint8_t*>(b.data) + column * b.column_stride;
  int64_t block = -1;
  for (int64_t i = first; i < last; ++i) {
    if (i / weights.block != block) {
      block = i / weights.block;
      for (int64_t j = 0; j < count; ++j) {
        zeros[j] = problem.zeros.at(block, column + j);
        scales[j] = problem.scales.at(block, column + j);
      }
    }
    const int64_t row = weights.bits == 4 ? i / 2 : i;
    expand_row(bytes + row * b.row_stride, b.column_stride, count, weights.bits == 4 ? static_cast<int>(i % 2) : -1,
               weights.is_signed, zeros, scales, to + (i - first) * count);
  }
}

UNIHAL_INLINE float sum_of(const Lanes& lanes) {
  float sum = 0;
  for (int64_t lane = 0; lane < kLanes; ++lane) sum += lanes[lane];
  return sum;
}

UNIHAL_VECTORIZED float dot(const float* a, const float* w, int64_t count) {
  Lanes sums[kSums] = {};
  int64_t i = 0;
  for (; i + kSums * kLanes <= count; i += kSums * kLanes) {
#pragma GCC unroll 8
    for (int64_t part = 0; part < kSums; ++part) {
      sums[part] += *reinterpret_cast<const Lanes*>(a + i + part * kLanes) *
                    *reinterpret_cast<const Lanes*>(w + i + part * kLanes);
    }
  }
  for (; i + kLanes <= count; i += kLanes) {
    sums[0] += *reinterpret_cast<const Lanes*>(a + i) * *reinterpret_cast<const Lanes*>(w + i);
  }
  const Lanes all = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
  float sum = sum_of(all);
  for (; i < count; ++i) sum += a[i] * w[i];
  return sum;
}

// -- one row: its product with a channel of adjacent weights needs each of them once, so that they stay in registers
// and only the sums of blocks are scaled

// Of 4 bits: even[i] goes with the low half of q[i], odd[i] with the high one.
UNIHAL_VECTORIZED float dot_halves(const float* even, const float* odd, const uint8_t* q, int64_t pairs, bool is_signed,
                                   const Blocks& blocks) {
  constexpr int64_t kParts = 2;  // whose sums do not wait for each other
  const uint8_t sign = is_signed ? 0x88 : 0;
  const Bytes flip = sign - Bytes{};
  const Lanes bias = Lanes{} + (is_signed ? 8.0F : 0.0F);
  const int64_t each = blocks.length / 2;
  const float *zeros = blocks.zeros, *scales = blocks.scales;
  Lanes all = {};
  float rest = 0;
  for (int64_t at = 0; at < pairs; at += each, zeros += blocks.zero_step, scales += blocks.scale_step) {
    const int64_t end = std::min(pairs, at + each);
    const Lanes zero = *zeros + bias;
    const float scale = *scales;
    Lanes low[kParts] = {}, high[kParts] = {};
    const auto add = [&](int64_t i, int64_t part) UNIHAL_INLINE_LAMBDA {
      const Bytes bytes = *reinterpret_cast<const Bytes*>(q + i) ^ flip;
      const Words words = __builtin_convertvector(bytes, Words), low_words = words & 15, high_words = words >> 4;
      low[part] += (__builtin_convertvector(low_words, Lanes) - zero) * *reinterpret_cast<const Lanes*>(even + i);
      high[part] += (__builtin_convertvector(high_words, Lanes) - zero) * *reinterpret_cast<const Lanes*>(odd + i);
    };
    int64_t i = at;
    for (; i + kParts * kLanes <= end; i += kParts * kLanes) {
#pragma GCC unroll 2
      for (int64_t part = 0; part < kParts; ++part) add(i + part * kLanes, part);
    }
    for (; i + kLanes <= end; i += kLanes) add(i, 0);
    all += ((low[0] + high[0]) + (low[1] + high[1])) * scale;
    for (; i < end; ++i) {
      const int byte = q[i] ^ sign;
      const auto low_half = static_cast<float>(byte & 15), high_half = static_cast<float>(byte >> 4);
      rest += ((low_half - zero[0]) * even[i] + (high_half - zero[0]) * odd[i]) * scale;
    }
  }
  return sum_of(all) + rest;
}

// Of 8 bits; signed ones count from -128 as signed halves do from -8.
UNIHAL_VECTORIZED float dot_bytes(const float* a, const uint8_t* q, int64_t count, bool is_signed,
                                  const Blocks& blocks) {
  constexpr int64_t kParts = 4;
  const uint8_t flip = is_signed ? 0x80 : 0;
  Lanes all = {};
  float rest = 0;
  for (int64_t at = 0, block = 0; at < count; at += blocks.length, ++block) {
    const int64_t end = std::min(count, at + blocks.length);
    const float zero = blocks.zeros[block * blocks.zero_step] + (is_signed ? 128 : 0);
    const float scale = blocks.scales[block * blocks.scale_step];
    Lanes sums[kParts] = {};
    const auto add = [&](int64_t i, int64_t part) UNIHAL_INLINE_LAMBDA {
      const Bytes bytes = *reinterpret_cast<const Bytes*>(q + i) ^ flip;
      const Words words = __builtin_convertvector(bytes, Words);
      sums[part] += (__builtin_convertvector(words, Lanes) - zero) * *reinterpret_cast<const Lanes*>(a + i);
    };
    int64_t i = at;
    for (; i + kParts * kLanes <= end; i += kParts * kLanes) {
#pragma GCC unroll 4
      for (int64_t part = 0; part < kParts; ++part) add(i + part * kLanes, part);
    }
    for (; i + kLanes <= end; i += kLanes) add(i, 0);
    all += ((sums[0] + sums[1]) + (sums[2] + sums[3])) * scale;
    for (; i < end; ++i) rest += (static_cast<float>(q[i] ^ flip) - zero) * a[i] * scale;
  }
  return sum_of(all) + rest;
}

// a's rows in the order of expand_channel: those of 4 bits as `half_pitch` elements with even numbers, then as many
// with odd ones, of which the last is 0 if k is odd.
struct Rows {
  const float* data;
  int64_t pitch;
  int64_t half_pitch;
};

void put_apart(const float* from, int64_t rows, int64_t k, int64_t pitch, int64_t half_pitch, float* to) {
  for (int64_t i = 0; i < rows; ++i) {
    const float* row = from + i * k;
    float* even = to + i * pitch;
    float* odd = even + half_pitch;
    for (int64_t p = 0; p < k / 2; ++p) even[p] = row[2 * p], odd[p] = row[2 * p + 1];
    if (k % 2 != 0) even[k / 2] = row[k - 1], odd[k / 2] = 0;
  }
}

// The product of one row with a channel whose weights are adjacent.
float dot_channel(const Problem& problem, const Rows& a, int64_t column) {
  const QuantizedWeights& weights = problem.weights;
  const auto* q = static_cast<const uint8_t*>(weights.b.data) + column * weights.b.column_stride;
  const Blocks blocks = blocks_at(problem, column, 0);
  if (weights.bits == 4) {
    return dot_halves(a.data, a.data + a.half_pitch, q, (weights.k + 1) / 2, weights.is_signed, blocks);
  }
  return dot_bytes(a.data, q, weights.k, weights.is_signed, blocks);
}

// d (rows, n) = activation(a (rows, k) @ w + c), all dense; c may be nullptr.
void multiply_few(const Problem& problem, int64_t rows, const Rows& a, const float* c, uhal_activation activation,
                  float* d) {
  const QuantizedWeights& weights = problem.weights;
  const int64_t work = weights.k * (rows + 2) / 8 + rows;
  const bool by_dots = rows == 1 && weights.b.row_stride == 1;
  parallel_for(weights.n, work, [&](int64_t begin, int64_t end) {
    alignas(64) float part[kPart];
    for (int64_t j = begin; j < end; ++j) {
      float sums[kFewRows] = {};
      if (by_dots) sums[0] = dot_channel(problem, a, j);
      for (int64_t at = 0; !by_dots && at < weights.k; at += kPart) {
        const int64_t count = std::min(kPart, weights.k - at);
        if (weights.bits == 4) {
          const int64_t pairs = (count + 1) / 2;
          expand_channel(problem, j, at, count, part, part + kPart / 2);
          for (int64_t i = 0; i < rows; ++i) {
            const float* even = a.data + i * a.pitch + at / 2;
            sums[i] += dot(even, part, pairs) + dot(even + a.half_pitch, part + kPart / 2, pairs);
          }
        } else {
          expand_channel(problem, j, at, count, part, nullptr);
          for (int64_t i = 0; i < rows; ++i) sums[i] += dot(a.data + i * a.pitch + at, part, count);
        }
      }
      for (int64_t i = 0; i < rows; ++i) {
        const float sum = c != nullptr ? sums[i] + c[i * weights.n + j] : sums[i];
        d[i * weights.n + j] = activate(activation, sum);
      }
    }
  });
}

// A view of the channels [column, column + count) of a view that has d's channels, or repeats one.
uhal_tensor channels_of(const uhal_tensor& view, int64_t column, int64_t count) {
  uhal_tensor part = view;
  if (view.rank == 0 || view.shape[view.rank - 1] == 1) return part;
  part.shape[view.rank - 1] = count;
  part.data = static_cast<char*>(view.data) + column * view.strides[view.rank - 1] * dtype_size(view.dtype);
  return part;
}

// The same as a product of matrices, a panel of channels at a time.
uhal_status multiply_many(const Launch& launch, const Problem& problem, const uhal_tensor& a, bool along_k,
                          uhal_activation activation) {
  const QuantizedWeights& weights = problem.weights;
  const int64_t depth = a.shape[a.rank - 1];  // k, or one more
  const uhal_tensor* c = input_of(launch.op, 4);
  const uhal_tensor& d = *launch.op.outputs[0];
  const int64_t wanted = kPanelBytes / (static_cast<int64_t>(sizeof(float)) * std::max<int64_t>(1, weights.k));
  const int64_t panel = std::min(weights.n, std::max(kLeastPanelColumns, wanted / 16 * 16));
  ScratchFrame frame;
  const int64_t rows = element_count(d) / weights.n;
  const bool whole = wants_no_gaps(rows) && (panel == weights.n || rows * panel <= kMostOfPanel);
  const int64_t pitch = !along_k ? 0 : whole ? depth : depth + kGap;
  float* dense = frame.take<float>(static_cast<size_t>(std::max<int64_t>(1, std::max(depth, pitch) * panel)));
  float* const panel_of_d = whole && panel < weights.n ? frame.take<float>(static_cast<size_t>(rows * panel)) : nullptr;
  if (dense == nullptr || (whole && panel < weights.n && panel_of_d == nullptr)) {
    return fail(UHAL_RESOURCE_EXHAUSTED, "matmul_quantized: the host has no memory left");
  }
  uhal_matmul_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.alpha = attributes.beta = 1;
  attributes.activation = activation;
  for (int64_t column = 0; column < weights.n; column += panel) {
    const int64_t count = std::min(panel, weights.n - column);
    if (along_k) {
      parallel_for(count, weights.k, [&](int64_t begin, int64_t end) {
        for (int64_t j = begin; j < end; ++j) {
          float* channel = dense + j * pitch;
          expand_channel(problem, column + j, 0, weights.k, channel, channel + depth / 2);
        }
      });
    } else {
      std::atomic<bool> out_of_memory{false};
      parallel_for(weights.k, count, [&](int64_t begin, int64_t end) {
        ScratchFrame own;
        float* rows = own.take<float>(static_cast<size_t>(2 * count));
        if (rows == nullptr) {
          out_of_memory = true;
          return;
        }
        expand_rows(problem, begin, end, column, count, rows, rows + count, dense + begin * count);
      });
      if (out_of_memory) return fail(UHAL_RESOURCE_EXHAUSTED, "matmul_quantized: the host has no memory left");
    }
    uhal_tensor b = {};
    b.struct_size = sizeof b;
    b.data = dense;
    b.dtype = UHAL_FLOAT32;
    b.rank = 2;
    b.shape[0] = depth;
    b.shape[1] = count;
    b.strides[0] = along_k ? 1 : count;
    b.strides[1] = along_k ? pitch : 1;
    const uhal_tensor to = channels_of(d, column, count);
    uhal_tensor result = to;
    if (panel_of_d != nullptr) {
      result.data = panel_of_d;
      result.dtype = UHAL_FLOAT32;
      set_packed_strides(result, row_major(result.rank));
    }
    uhal_tensor addend = {};
    if (c != nullptr) addend = channels_of(*c, column, count);
    const uhal_tensor* inputs[] = {&a, &b, &addend};
    const uhal_tensor* outputs[] = {&result};
    uhal_op product = {};
    product.struct_size = sizeof product;
    product.kind = UHAL_OP_MATMUL;
    product.input_count = c != nullptr ? 3 : 2;
    product.output_count = 1;
    product.inputs = inputs;
    product.outputs = outputs;
    product.attributes = &attributes;
    if (const uhal_status status = run_matmul({product, launch.stream}); status != UHAL_OK) return status;
    if (panel_of_d != nullptr) cast_views(result, to);
  }
  return UHAL_OK;
}

// c at each element of d.
uhal_tensor spread(const uhal_tensor& c, const uhal_tensor& d) {
  uhal_tensor view = d;
  view.data = c.data;
  view.dtype = c.dtype;
  for (int i = 0; i < d.rank; ++i) {
    const int axis = i - (d.rank - c.rank);
    view.strides[i] = axis < 0 || c.shape[axis] == 1 ? 0 : c.strides[axis];
  }
  return view;
}

// What has one number for each block and channel, as float32.
bool read_blockwise(Staging& staging, const QuantizedWeights& weights, const QuantizedOperand& operand, bool packed,
                    double otherwise, Blockwise* numbers) {
  if (operand.data == nullptr) {
    float* number = staging.take<float>(1);
    if (number == nullptr) return false;
    *number = static_cast<float>(otherwise);
    *numbers = {number, 0, 0};
    return true;
  }
  if (packed) {
    float* all = staging.take<float>(static_cast<size_t>(weights.blocks * weights.n));
    if (all == nullptr) return false;
    const auto* bytes = static_cast<const uint8_t*>(operand.data);
    parallel_for(weights.n, weights.blocks, [&](int64_t begin, int64_t end) {
      for (int64_t j = begin; j < end; ++j) {
        for (int64_t g = 0; g < weights.blocks; ++g) {
          const uint8_t byte = bytes[g / 2 * operand.row_stride + j * operand.column_stride];
          all[j * weights.blocks + g] = static_cast<float>(nibble(byte, g % 2 != 0, weights.is_signed));
        }
      }
    });
    *numbers = {all, 1, weights.blocks};
    return true;
  }
  uhal_tensor view = {};
  view.struct_size = sizeof view;
  view.data = const_cast<void*>(operand.data);
  view.dtype = operand.dtype;
  view.rank = 2;
  view.shape[0] = operand.row_stride == 0 ? 1 : weights.blocks;
  view.shape[1] = operand.column_stride == 0 ? 1 : weights.n;
  view.strides[0] = operand.row_stride;
  view.strides[1] = operand.column_stride;
  const uhal_tensor* read = staging.read(&view, UHAL_FLOAT32);
  if (read == nullptr) return false;
  *numbers = {static_cast<const float*>(read->data), operand.row_stride == 0 ? 0 : read->strides[0],
              operand.column_stride == 0 ? 0 : read->strides[1]};
  return true;
}

}  // namespace

const char* refuse_matmul_quantized(const uhal_op&) { return nullptr; }

uhal_status run_matmul_quantized(const Launch& launch) {
  const uhal_op& op = launch.op;
  const uhal_tensor& d = *op.outputs[0];
  if (element_count(d) == 0) return UHAL_OK;
  const uhal_activation activation = matmul_quantized_attributes(op).activation;
  Problem problem = {quantized_weights(op), {}, {}};
  const QuantizedWeights& weights = problem.weights;
  Staging staging(launch);
  const AxisOrder order = row_major(d.rank);
  const int64_t rows = element_count(d) / weights.n;
  const uhal_tensor* a = staging.input(0, UHAL_FLOAT32, &order);
  if (a == nullptr || !read_blockwise(staging, weights, weights.scales, false, 1, &problem.scales) ||
      !read_blockwise(staging, weights, weights.zero_points, weights.packed_zeros, weights.zero_point,
                      &problem.zeros)) {
    return staging.status();
  }
  const bool along_k = weights.along_k();
  const bool is_apart = along_k && weights.bits == 4;
  uhal_tensor ordered = *a;
  Rows in_order = {static_cast<const float*>(a->data), weights.k, 0};
  if (is_apart) {
    in_order.half_pitch = (weights.k + 1) / 2;
    in_order.pitch = 2 * in_order.half_pitch + (wants_no_gaps(rows) ? 0 : kGap);
    float* apart = staging.take<float>(static_cast<size_t>(std::max<int64_t>(1, rows * in_order.pitch)));
    if (apart == nullptr) return staging.status();
    put_apart(in_order.data, rows, weights.k, in_order.pitch, in_order.half_pitch, apart);
    in_order.data = apart;
    ordered.data = apart;
    ordered.shape[ordered.rank - 1] = in_order.pitch;
  }
  set_packed_strides(ordered, order);
  if (is_apart) ordered.shape[ordered.rank - 1] = 2 * in_order.half_pitch;
  if (rows > kFewRows || !along_k) {
    const uhal_status status = multiply_many(launch, problem, ordered, along_k, activation);
    return status == UHAL_OK ? staging.finish() : status;
  }
  const uhal_tensor* c = input_of(op, 4);
  uhal_tensor everywhere;
  if (c != nullptr) {
    everywhere = spread(*c, d);
    c = staging.read(&everywhere, UHAL_FLOAT32, &order);
  }
  const uhal_tensor* y = staging.output(0, UHAL_FLOAT32, &order);
  if (staging.status() != UHAL_OK) return staging.status();
  note_implementation(host(), "built-in quantized product");
  multiply_few(problem, rows, in_order, data_of<const float>(c), activation, static_cast<float*>(y->data));
  return staging.finish();
}

}  // namespace unihal::stub
