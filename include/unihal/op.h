/* Ops: the compute primitives, as data.
 *
 * An op is a kind, operands (strided views) and a struct of attributes. uhal_launch validates it and
 * submits it to a stream; uhal_supports says beforehand whether the device takes it, and why not.
 *
 * Rules that hold for all kinds
 * - Logical order. Axes come in one fixed order per kind (N, C, spatial... for images; O, I, spatial...
 *   for filters; batch..., rows, columns for matrices). Memory layout (NHWC, HWIO, transposed) is
 *   expressed by strides alone.
 * - Operands are device pointers of the stream's device. Each view must lie inside one live allocation.
 * - Outputs are allocated by the caller, have distinct elements (no zero stride along an axis longer than 1), and
 *   overlap neither each other nor inputs, except where a kind says that an output may be the same view as an input.
 *   Views overlap if they have a byte in common; what a search of 65,536 steps cannot tell counts as overlap.
 * - Optional operands are NULL pointers; trailing absent operands may be left out of the count.
 * - Views without elements are legal; a reduction over nothing gives its neutral element.
 * - Arithmetic. Unless a kind says otherwise, it is done in float64 if any operand is float64, else in
 *   float32 if any is floating, else in 64-bit integers; results are rounded to nearest even when
 *   stored. float16 and bfloat16 always accumulate in float32.
 * - Complex numbers (since ABI 1.6). An op with a complex operand computes with complex numbers, of float64 if any
 * operand is float64 or complex128, else of float32; real operands lie on the real axis, and a real output takes the
 * real part. Errors are relative to the modulus. What needs an order, and what a kind does not name, is refused.
 * - float8_e4m3fn and float8_e5m2 (since ABI 1.8) are dtypes to store in: copy, cast, fill, gathering and compaction
 *   take them, all other kinds refuse them as INVALID_ARGUMENT.
 * - `attributes` may be NULL where the defaults below are wanted; its struct begins with struct_size.
 */
#ifndef UNIHAL_OP_H_
#define UNIHAL_OP_H_

#include "unihal/stream.h"
#include "unihal/tensor.h"

UHAL_EXTERN_C_BEGIN

typedef int32_t uhal_op_kind;
enum {
  UHAL_OP_INVALID = 0,

  /* -- elementwise and data movement -------------------------------------------------------- */

  /* inputs broadcast (NumPy's rule) to the one shape that all outputs have; outputs[k] =
   * function(inputs...). Functions, their operands and parameters: csrc/tables/elementwise.def and, for complex
   * operands, complex.def, by uhal_map_function. Dtypes may be mixed. An output may be the same view as an input of its
   * dtype. attributes: uhal_map_attributes (required). */
  UHAL_OP_MAP = 1,

  /* [x] -> [y]. x broadcasts to y's shape; same dtype, any dtype. The bits are kept, also those of NaN. Transpose,
   * slice, reverse, pad, concat, tile and broadcast are copies between views. */
  UHAL_OP_COPY = 2,

  /* [x] -> [y]. As UHAL_OP_COPY with conversion: to integer truncates toward zero, to bool gives x != 0, complex to
   * real (and to bool) drops the imaginary part. What is outside the range wraps (the low bits) where it fits into
   * int32, of 8 and 16 bits, or into int64, of uint32, as C++ compilers make it on processors; further out, and NaN,
   * the result is unspecified. */
  UHAL_OP_CAST = 3,

  /* [] -> [y]. attributes: uhal_fill_attributes (default: zero). */
  UHAL_OP_FILL = 4,

  /* [] -> [y]. y[i] = start + i * step along the last axis, repeated along the others.
   * attributes: uhal_iota_attributes (default: 0, 1). */
  UHAL_OP_IOTA = 5,

  /* [x] -> [y]. Keeps the lower (upper) triangle of the last two axes: elements with column - row <=
   * diagonal (>= diagonal); zero elsewhere. attributes: uhal_triangular_attributes. In place allowed. */
  UHAL_OP_TRIANGULAR = 6,

  /* Since ABI 1.10. 1 to 8 inputs -> 1 to 4 outputs: several functions of UHAL_OP_MAP in one pass over memory. The
   * program (uhal_map_chain_attributes) is over numbered values. Its inputs are values 0, 1, ...; then come the results
   * of each step, in order. A step takes values with smaller numbers than its results', and outputs[k] is value
   * results[k], which may be an input and may be given to several outputs. Inputs broadcast to the one shape that all
   * outputs have, and every step computes on that shape. An output may be the same view as an input of its dtype:
   * inputs have the values from before the op throughout. All steps compute in one type, that of "Arithmetic" above
   * over all operands of the chain (64-bit integers only if all functions are defined on them). Values between steps
   * are of that type and not rounded to any dtype; an output is rounded once, when it is stored. So a chain of float16
   * operands gives what float32 gives, rounded: closer to the exact result than the single ops, not the same bits.
   * Comparisons give 0 and 1. A program that is wrong is INVALID_ARGUMENT, and the message names the step. attributes:
   * uhal_map_chain_attributes (required). */
  UHAL_OP_MAP_CHAIN = 7,

  /* -- indexing ------------------------------------------------------------------------------
   * Indices are int32 or int64. An index outside its axis is an OUT_OF_RANGE error of the stream; it reads
   * as zero, and its update is dropped. What is only moved keeps its bits, also those of NaN.
   * attributes: uhal_index_attributes. */

  /* [x, indices] -> [y]. y's shape is x's with `axis` replaced by all axes of indices:
   * y[a..., i..., b...] = x[a..., indices[i...], b...]. With batch_dimensions b, the first b axes of
   * x and indices run together and indices' other axes take the place of `axis`. */
  UHAL_OP_GATHER = 16,

  /* [indices, updates] -> [y], y read and written. y[a..., indices[i...], b...] is combined with
   * updates[a..., i..., b...] by `reduction` (UHAL_REDUCE_NONE: the last in row-major order wins; of complex
   * numbers that, sum or product). */
  UHAL_OP_SCATTER = 17,

  /* [x, indices] -> [y]. indices' last axis (length k) addresses x's first k axes:
   * y[i..., b...] = x[indices[i..., 0], ..., indices[i..., k-1], b...]. */
  UHAL_OP_GATHER_ND = 18,

  /* [indices, updates] -> [y], y read and written: the inverse of UHAL_OP_GATHER_ND. */
  UHAL_OP_SCATTER_ND = 19,

  /* [x, indices] -> [y]. y, indices of one shape: y[.., i, ..] = x[.., indices[.., i, ..], ..] along axis. */
  UHAL_OP_GATHER_ELEMENTS = 20,

  /* [indices, updates] -> [y], y read and written: the inverse of UHAL_OP_GATHER_ELEMENTS. */
  UHAL_OP_SCATTER_ELEMENTS = 21,

  /* [indices] -> [y]. y has one axis more, at `axis`; y = 1 where its coordinate there equals the index,
   * else 0. Indices out of range give zeros and no error. */
  UHAL_OP_ONE_HOT = 22,

  /* [x (n, ...), ids, indices (m; optional), weights (m; optional)] -> [y (segments, ...), counts (segments; optional;
   * int32 or int64)]. Rows of x are combined by segments: element i is row indices[i] of x (row i where there are no
   * indices; then m is n), times weights[i], and y[s] is the reduction over the elements of segment s, in the order of
   * i. Where elements are: by the attribute `form`. An id outside the segments is an error of the stream as the other
   * kinds' indices are, and its element is left out; an index outside x is one too, and its row is zeros. weights have
   * x's dtype. A mean is divided by the number of elements; that of integers is cut toward zero.
   * Bags of embeddings, products of sparse matrices (CSR, COO) with dense ones and reductions over the edges of graphs
   * are this, and their gradients with respect to x are it with ids and indices exchanged.
   * The order of combination depends on shapes and ids alone: the same bits each time.
   * attributes: uhal_segment_attributes. */
  UHAL_OP_SEGMENT_REDUCE = 23,

  /* -- reductions ---------------------------------------------------------------------------- */

  /* [x] -> [y]. y has x's rank; an axis where y has length 1 is reduced, others are equal. NaN wins in
   * maximum and minimum. The mean of nothing is NaN (of integers 0); that of integers is cut toward zero.
   * Complex numbers have sum, mean and product. attributes: uhal_reduce_attributes. */
  UHAL_OP_REDUCE = 32,

  /* [x] -> [y] int32 or int64; y has x's rank and length 1 at `axis`. The first of equals; NaN counts as
   * the extreme. attributes: uhal_axis_attributes; flag UHAL_AXIS_DESCENDING: argmax, else argmin. */
  UHAL_OP_ARG_REDUCE = 33,

  /* [x] -> [y, indices (optional, since ABI 1.11; int32 or int64)] of one shape: running sum, product, maximum, minimum
   * or, since ABI 1.8, of floating dtypes UHAL_REDUCE_LOG_SUM_EXP along an axis; of complex numbers sum or product.
   * indices, of a maximum or minimum that is not exclusive: where along the axis y's element is in x, the last in the
   * order of the scan of those that equal it; NaN counts as the extreme, and as equal to NaN.
   * attributes: uhal_scan_attributes. */
  UHAL_OP_SCAN = 34,

  /* [x] -> [values, indices (optional; int32 or int64)]. Stable; NaN last (first when descending).
   * attributes: uhal_axis_attributes. */
  UHAL_OP_SORT = 35,

  /* [x] -> [values, indices]; k is the outputs' length at `axis`; sorted; ties by lower index.
   * attributes: uhal_axis_attributes; UHAL_AXIS_DESCENDING: the largest, else the smallest. */
  UHAL_OP_TOP_K = 36,

  /* -- linear algebra ------------------------------------------------------------------------ */

  /* [a (..., m, k), b (..., k, n), c (optional)] -> [d (..., m, n)].
   * d = activation(alpha * a @ b + beta * c); leading axes of a, b broadcast to d's; c broadcasts to d (a
   * bias is a row), and may be the same view as d. Transposed operands are strides. A d of float16 or bfloat16 may be
   * rounded to its dtype before the activation, too. Complex numbers have no activation; nothing is conjugated.
   * attributes: uhal_matmul_attributes. */
  UHAL_OP_MATMUL = 48,

  /* Matrices (..., rows, columns) of float32, float64, complex64 or complex128, one dtype for all operands but those
   * named otherwise; leading axes are batches. A transposed operand is strides; a solution from the right, X A = B, is
   * the one of A^T X^T = B^T. `info` (batches; int32; optional) tells of each matrix what LAPACK's does: 0, or what is
   * wrong with it, which is no error of the stream. Of a matrix whose info is not 0 the other outputs are unspecified
   * unless said otherwise; of one with infinity or NaN they are too, and so is its info. */

  /* [a (..., n, n), b (..., n, k)] -> [x (..., n, k), info (a's batches)]: a @ x = b for the triangle of a that the
   * attributes name; the other one is not read. Leading axes of a and b broadcast to x's; x may be the same view as b.
   * info: the number (from 1) of the first 0 on a's diagonal, by which x is divided all the same.
   * attributes: uhal_triangular_solve_attributes. */
  UHAL_OP_TRIANGULAR_SOLVE = 49,

  /* [a (..., n, n)] -> [l (..., n, n), info]: a = l @ l^H, l lower triangular with zeros above; with `upper`
   * a = l^H @ l, l upper triangular. Only that triangle of a is read, of its diagonal the real parts. l may be the same
   * view as a. info: the order (from 1) of the first leading minor that is not positive; the triangle of l is NaN then.
   * attributes: uhal_triangle_attributes. */
  UHAL_OP_CHOLESKY = 50,

  /* [a (..., m, n)] -> [lu (..., m, n), pivots (..., min(m, n); int32), permutation (..., m; int32; optional), info]:
   * rows of a in the order of permutation are l @ u, l the part of lu below its diagonal with ones on it, u the rest.
   * At step i row i was exchanged with row pivots[i] >= i, which has the largest element of what is left of column i
   * (of complex numbers that of a norm); numbers count from 0. lu may be the same view as a. info: the number (from 1)
   * of the first 0 on u's diagonal; all outputs are right all the same. */
  UHAL_OP_LU = 51,

  /* [a (..., m, n)] -> [r (..., k, n), q (..., m, k; optional)]: a = q @ r, q^H @ q = 1, r zero below its diagonal; k
   * is min(m, n) or m. Columns of q, and with them rows of r, are unique but for a factor of modulus 1. */
  UHAL_OP_QR = 52,

  /* [a (..., n, n)] -> [values (..., n; real), vectors (..., n, n; optional), info]: a @ v = v * values for each column
   * v of vectors, v^H @ v = 1; values ascend. a is symmetric, or Hermitian: one triangle is read, of its diagonal the
   * real parts. info: not 0 if the iteration did not converge. attributes: uhal_triangle_attributes. */
  UHAL_OP_EIGEN_SYMMETRIC = 53,

  /* [a (..., m, n)] -> [s (..., min(m, n); real), u (..., m, j; optional), vh (..., k, n; optional), info]:
   * a = u[:, :min(m, n)] * s @ vh[:min(m, n)] with orthonormal columns of u and rows of vh; s descends, and is not
   * negative. j is min(m, n) or m, k is min(m, n) or n, both the smaller or both the larger; u and vh come together.
   * info: not 0 if the iteration did not converge. */
  UHAL_OP_SVD = 54,

  /* [a (..., n, n)] -> [values (..., n), vectors (..., n, n; optional), info], values and vectors complex, of a's
   * precision: a @ v = v * values for each column v of vectors, of norm 1. In no order; those of a real matrix in
   * conjugate pairs, the one with the positive imaginary part first. info: not 0 if the iteration did not converge. */
  UHAL_OP_EIGEN = 55,

  /* [a (..., m, k), b, scales, zero_points (optional), c (optional)] -> [d (..., m, n)]: a matrix product whose weights
   * are stored in 8 or 4 bits, d = activation(a @ w + c), w[i, j] = (q[i, j] - zero[g, j]) * scales[g, j], where g =
   * i / block_size is the block of row i. Since ABI 1.8.
   * - b of 8 bits is (k, n), int8 or uint8: b[i, j] = q[i, j]. Of 4 bits it is (ceil(k / 2), n), two weights a byte:
   * the low half of b[p, j] is q[2 p, j], the high half q[2 p + 1, j]; of uint8 they are 0 to 15, of int8 -8 to 7
   * (two's complement).
   * - scales broadcast to (blocks, n), blocks = ceil(k / block_size), or 1 if block_size is 0 (per channel; a scalar:
   *   per matrix).
   * - zero_points of b's dtype are packed as b is: they broadcast to (blocks, n), or of 4 bits to (ceil(blocks / 2),
   * n), that of block 2 p in the low half. Floating ones broadcast to (blocks, n). Where there are none, the attribute
   *   zero_point stands for all.
   * - a, scales, c and d are float32, float16 or bfloat16; c broadcasts to d (a bias is a row) and may be the same view
   *   as d. Sums are float32; w may be rounded to a's dtype first, and d as that of UHAL_OP_MATMUL.
   *
   * Any strides: weights that lie channel by channel, (n, k) in memory, are a transposed view, and are read fastest.
   * ONNX Runtime's MatMulNBits needs no repacking: its B (n, blocks, block_size / 2) is a view (k / 2, n) with strides
   * (1, blocks * block_size / 2), its scales (n, blocks) and zero points (n, ceil(blocks / 2)) are transposed views,
   * and zero_point is 8 (128 of 8 bits) where it has none. attributes: uhal_matmul_quantized_attributes. */
  UHAL_OP_MATMUL_QUANTIZED = 56,

  /* -- convolution and pooling: 1 to 3 spatial axes -------------------------------------------
   * attributes: uhal_convolution_attributes, uhal_pool_attributes. */

  /* [x (N, C, spatial...), w (O, C/groups, spatial...), bias (O; optional)] -> [y (N, O, spatial...)].
   * Cross-correlation, as all frameworks mean by convolution. y = activation(conv + bias). A y of float16 or bfloat16
   * may be rounded to its dtype once more, before the bias is added or before the activation. Since ABI 1.8 also int8
   * or uint8 into int32, exactly, with an int32 bias and relu as the only activation. */
  UHAL_OP_CONVOLUTION = 64,

  /* [dy, w] -> [dx]. Also the forward transposed convolution. */
  UHAL_OP_CONVOLUTION_BACKWARD_DATA = 65,

  /* [x, dy] -> [dw, dbias (O; optional)]. */
  UHAL_OP_CONVOLUTION_BACKWARD_FILTER = 66,

  /* [x (N, C, spatial...)] -> [y, indices (optional, max only; int32 or int64: flat spatial index in x)].
   * The maximum is the first of equals, a NaN if there is one; of a window outside x the neutral element, with
   * any index. The average of a window outside x is 0. */
  UHAL_OP_POOL = 67,

  /* [dy, x (max only), y (max only)] -> [dx]. Max: the gradient goes to the first maximum of each window. */
  UHAL_OP_POOL_BACKWARD = 68,

  /* -- normalization and losses ---------------------------------------------------------------
   * Statistics, scale and bias are float32 (float64 for float64 x); variances are biased (divided by n). */

  /* [x] -> [y]: (log-)softmax along `axis`. attributes: uhal_softmax_attributes. In place allowed. */
  UHAL_OP_SOFTMAX = 80,

  /* [y, dy] -> [dx], y the forward's output. */
  UHAL_OP_SOFTMAX_BACKWARD = 81,

  /* [logits, labels, weights (optional)] -> [loss, probabilities (optional), gradient (optional)].
   * Classes lie along `axis`. Sparse labels (int32, int64) have logits' rank with length 1 there; soft
   * labels (floating) have logits' shape. loss has length 1 there:
   * loss = -sum(label * log_softmax(logits)); probabilities = softmax(logits); gradient = probabilities -
   * label, of an unweighted loss. Labels equal to ignore_index give zero loss and gradient;
   * so do other numbers that are no class, which are an OUT_OF_RANGE error of the stream besides.
   * attributes: uhal_cross_entropy_attributes. */
  UHAL_OP_CROSS_ENTROPY = 82,

  /* [probabilities, labels, dloss] -> [dlogits] = (probabilities - label) * dloss, 0 where ignored.
   * dlogits may be the same view as probabilities. */
  UHAL_OP_CROSS_ENTROPY_BACKWARD = 83,

  /* [x (N, C, ...), scale (C; optional), bias (C; optional), running_mean (C), running_variance (C)] ->
   * [y, mean (C), variance (C), running_mean (C), running_variance (C)].
   * Training (the default): normalizes by the batch's mean and variance, gives them out, and updates
   * running = momentum * running + (1 - momentum) * batch; running operands are optional and may be the
   * same view in and out; the running variance takes the unbiased variance if unbiased_running is set.
   * Inference: normalizes by the running ones; only y is written.
   * attributes: uhal_norm_attributes. */
  UHAL_OP_BATCH_NORM = 84,

  /* [x, dy, scale (optional), mean (C), variance (C)] -> [dx, dscale (optional), dbias (optional)].
   * Inference: mean and variance are constants. */
  UHAL_OP_BATCH_NORM_BACKWARD = 85,

  /* [x, scale (optional), bias (optional)] -> [y, mean (optional), variance (optional)].
   * Over all axes from `axis` on; scale and bias have the shape of those axes, mean and variance x's with those
   * axes of length 1. */
  UHAL_OP_LAYER_NORM = 86,

  /* [x, dy, scale (optional), mean, variance] -> [dx, dscale (optional), dbias (optional)]. */
  UHAL_OP_LAYER_NORM_BACKWARD = 87,

  /* [x (N, C, ...), scale (C; optional), bias (C; optional)] -> [y, mean (N, groups), variance (N, groups)]. */
  UHAL_OP_GROUP_NORM = 88,
  UHAL_OP_GROUP_NORM_BACKWARD = 89, /* as UHAL_OP_LAYER_NORM_BACKWARD, scale and bias per channel */

  /* [x, scale (optional)] -> [y, inverse_rms (optional)], over all axes from `axis` on. */
  UHAL_OP_RMS_NORM = 90,
  UHAL_OP_RMS_NORM_BACKWARD = 91, /* [x, dy, scale (optional), inverse_rms] -> [dx, dscale (optional)] */

  /* -- attention ------------------------------------------------------------------------------ */

  /* [q (B, H, M, D), k (B, H, N, D), v (B, H, N, E), mask (broadcast to B, H, M, N; optional)] ->
   * [y (B, H, M, E), logsumexp (B, H, M; optional)]; y = softmax(scale * q @ k^T + mask) @ v.
   * A row that sees no column (all are hidden, or scores are -infinity) gives zeros and the logsumexp -infinity.
   * What scores become before they multiply v, dy, q or k (weights, and their gradients) may be rounded to q's dtype.
   * attributes: uhal_attention_attributes. */
  UHAL_OP_ATTENTION = 96,
  UHAL_OP_ATTENTION_BACKWARD = 97, /* [q, k, v, mask, y, logsumexp, dy] -> [dq, dk, dv] */

  /* -- random ---------------------------------------------------------------------------------
   * Philox4x32-10. Element i (row-major) of the output takes word i % 4 of block counter + i / 4, for
   * 64-bit dtypes words 2*(i % 2) and 2*(i % 2) + 1 of block counter + i / 2. This is TensorFlow's order:
   * a stateless op gives the same numbers as on its CPU. attributes: uhal_random_attributes.
   * turn (one element; int64; optional; since ABI 1.8) is read when the op runs, and added to the counter's upper half:
   * a graph that counts its launches there draws other numbers in each. */

  /* [turn (optional)] -> [y] */
  UHAL_OP_RANDOM = 112,

  /* [x, turn (optional)] -> [y, mask (uint8 or bool)]. mask = uniform >= rate; y = mask * x / (1 - rate), or mask * x
   * with scale_at_inference. attributes: uhal_random_attributes (a = rate). */
  UHAL_OP_DROPOUT = 113,

  /* [p, q (binomial only)] -> [y]. A number for each element of y, of a distribution whose parameters p and q are
   * floating and broadcast to y:
   *   UHAL_RANDOM_GAMMA     of shape p >= 0 and scale 1; y is floating
   *   UHAL_RANDOM_POISSON   of mean p >= 0; y is real
   *   UHAL_RANDOM_BINOMIAL  successes of p trials (a whole number) of probability q, from 0 to 1; y is real
   * Of other parameters a floating y is NaN, and an integer is unspecified. Computed in float64 if an operand is
   * float64, else in float32. As numbers are redrawn until they are accepted, each element has a sequence of its own:
   * attempt j of element i (row-major) takes block counter + i + j * 2^96, in float64 the blocks of attempts 2 j and 2
   * j + 1; what is made of its words is in csrc/tables/random_distributions.h, and the same on every device but where a
   * decision hangs on a rounding. Since ABI 1.8. attributes: uhal_random_distribution_attributes. */
  UHAL_OP_RANDOM_DISTRIBUTION = 114,

  /* -- resampling ------------------------------------------------------------------------------ */

  /* [x (N, C, spatial...)] -> [y (N, C, spatial...)]. attributes: uhal_resize_attributes. */
  UHAL_OP_RESIZE = 128,
  UHAL_OP_RESIZE_BACKWARD = 129, /* [dy] -> [dx] */

  /* [x (N, C, spatial...), grid (N, y's spatial..., 2 or 3), images (optional)] -> [y (N, C, spatial...)]: x at the
   * places that grid names, for each pixel of y one coordinate per spatial axis of x, that of the last axis first. With
   * `images` (int32, one for each grid; optional, since ABI 1.8) there may be any number M of grids and y is (M, C,
   * spatial...): grid m samples image images[m]. Of an image that x does not have, y is 0 and there is no gradient.
   * attributes: uhal_grid_sample_attributes. Since ABI 1.7. */
  UHAL_OP_GRID_SAMPLE = 130,
  UHAL_OP_GRID_SAMPLE_BACKWARD_DATA = 131, /* [dy, grid, images] -> [dx]. Since ABI 1.7. */
  UHAL_OP_GRID_SAMPLE_BACKWARD_GRID = 132, /* [dy, x, grid, images] -> [dgrid]. Since ABI 1.7. */

  /* [x, first (n) int32, weights (n, taps)] -> [y]: weighted sums of neighbours along an axis, where y has n elements
   * and elsewhere x's shape: y[i] = sum over t of weights[i, t] * x[first[i] + t]. What lies outside x counts as 0, and
   * so does what a weight of 0 meets, be it infinite. A resize of any kernel is such a sum along one axis after the
   * other, and its gradient one by the table of the transpose. Computed in float32, or float64 if an operand is; terms
   * are added in the order of t. attributes: uhal_axis_attributes. Since ABI 1.8. */
  UHAL_OP_RESAMPLE = 133,

  /* [x (N, C, height, width), boxes (R, 4), images (R) int32] -> [y (R, C, rows, columns)]: the means of bins of
   * regions, box r of image images[r] (He et al. 2017, Mask R-CNN). Of an image that x does not have, y is 0 and there
   * is no gradient. attributes: uhal_roi_align_attributes. Since ABI 1.8. */
  UHAL_OP_ROI_ALIGN = 134,
  UHAL_OP_ROI_ALIGN_BACKWARD = 135, /* [dy, boxes, images] -> [dx] */

  /* [x (N, C, height, width), boxes (R, 4), images (R) int32] -> [y (R, D, rows, columns), indices (y's shape; int32 or
   * int64; optional)]: pools of whole pixels over the bins of regions, box r of image images[r]. Of an image that x
   * does not have, y is 0 and there is no gradient. attributes: uhal_roi_pool_attributes. Since ABI 1.9. */
  UHAL_OP_ROI_POOL = 136,
  /* [dy, boxes, images, indices (required of UHAL_ROI_POOL_MAX)] -> [dx]. Since ABI 1.9. */
  UHAL_OP_ROI_POOL_BACKWARD = 137,

  /* [boxes (n, 4)] -> [keep (n) bool or uint8]: of boxes in their order, those that no box kept before overlaps by more
   * than a threshold. A box is two opposite corners (x, y, x, y); two overlap by the area that they share over the area
   * that they cover, by nothing if one has none. UHAL_OP_NONZERO makes a list of it. Since ABI 1.10 also lists of
   * boxes, each by itself: [boxes (lists, n, 4)] -> [keep (lists, n)]. attributes: uhal_non_max_suppression_attributes.
   * Since ABI 1.8. */
  UHAL_OP_NON_MAX_SUPPRESSION = 139,

  /* -- transforms ------------------------------------------------------------------------------ */

  /* [x] -> [y]: the discrete Fourier transform along one to three axes,
   * y[k] = scale * sum over j of x[j] * exp(sign * 2 pi i * j * k / n), along each of the axes. What is transformed
   * follows from the dtypes, complex64 with float32 or complex128 with float64:
   * - complex to complex: one shape;
   * - real to complex: y holds the first n / 2 + 1 frequencies along the last of the axes, where x has n elements; the
   *   others are their conjugates;
   * - complex to real: x holds the first n / 2 + 1 frequencies along the last of the axes, where y has n elements (n
   *   is odd or even). The other axes are transformed first; then imaginary parts of frequency 0, and of n / 2 if n is
   *   even, count as zero.
   *
   * A transform of nothing is nothing, or zeros. attributes: uhal_fft_attributes. */
  UHAL_OP_FFT = 144,

  /* -- results whose size depends on data ---------------------------------------------------------
   * Outputs are allocated for the largest case, or for what an earlier launch counted; the caller reads the count by
   * one small copy and takes the first `count`. */

  /* [mask] -> [count (one element; int32 or int64), indices (optional; int32 or int64)]. count is the number of
   * elements of mask that are not 0 (NaN is not). indices are their positions in row-major order: numbers of elements
   * if indices is (k), coordinates if it is (k, mask's rank). k is free: positions beyond it are dropped, and of more
   * room than `count` the rest keeps its contents. */
  UHAL_OP_NONZERO = 160,

  /* [sorted (..., n), values] -> [y (values' shape; int32 or int64)]. How many elements of a row of `sorted` go before
   * the value: those that are less, with `right` also those that are equal. A `sorted` of rank 1 is searched for all
   * values; else its leading axes are those of values (..., m). Rows are in ascending order, NaN last, as UHAL_OP_SORT
   * puts them; of others any number from 0 to n is given. attributes: uhal_search_attributes. */
  UHAL_OP_SEARCH_SORTED = 161,

  /* [x, mask (x's shape)] -> [values (k; x's dtype), count (optional: one element; int32 or int64)]: the elements of x
   * where the mask is not 0 (NaN is not), in row-major order. k is free, as the room of UHAL_OP_NONZERO's indices:
   * elements beyond it are dropped, and of more room than `count` the rest keeps its contents. Since ABI 1.12. */
  UHAL_OP_COMPACT = 162,

  /* -- sequences, since ABI 1.8 ---------------------------------------------------------------- */

  /* [x (D, T, B, G H), r (D, G H, H), h0 (D, B, H; optional), c0 (D, B, H; optional), bias (D, G H; optional),
   * lengths (B; int32 or int64; optional)] -> [y (D, T, B, H), c_last (D, B, H; optional), reserve (D, T, B, K H;
   * optional)]. One recurrent layer of H units over T steps of B sequences, in D directions, each of which has its own
   * states and matrix r: x is what the inputs contribute, the product of all steps with the input matrix and its bias,
   * which is one matmul before. At each step p = h r^T + bias, and of the parts of x and p, H wide each:
   *   LSTM (G = 4)   i = sigmoid(x1 + p1), f = sigmoid(x2 + p2), g = tanh(x3 + p3), o = sigmoid(x4 + p4);
   *                  c = f c + i g, cut to [-cell_clip, cell_clip] if that is positive; h = o tanh(c)
   *   GRU (G = 3)    r = sigmoid(x1 + p1), z = sigmoid(x2 + p2), n = tanh(x3 + r p3); h = (1 - z) n + z h
   *   TANH (G = 1)   h = tanh(x + p)
   *   RELU (G = 1)   h = max(x + p, 0)
   * y[d, t] is h after step t. A direction of the bit mask `reverse` takes the steps from the last to the first. States
   * begin as h0 and c0, as zeros where these are absent; c0 and c_last are an LSTM's only. Steps t >= lengths[b] leave
   * the states of sequence b as they are, so that after the last step of a direction y always has its last state. A
   * length below 0 counts as 0, one above T as T.
   * reserve is what the gradient needs: of an LSTM i, f, g, o, c (K = 5), of a GRU r, z, n, p3 (K = 4); the others
   * need none and must not have it. At steps that are left out it is 0, but c as it is.
   * All operands but lengths have one floating dtype; the products are of float32 or float64, as are the cells between
   * steps; h is rounded to the dtype. attributes: uhal_rnn_attributes (default: an LSTM forwards). */
  UHAL_OP_RNN = 176,

  /* [dy (D, T, B, H), r, y, reserve (optional: required of LSTM and GRU), initial (D, B, H; optional), lengths
   * (optional), dh_last (D, B, H; optional), dc_last (D, B, H; optional)] -> [dx (D, T, B, G H), dproduct (D, T, B,
   * G H; optional: a GRU's only, required of it), dh0 (D, B, H; optional), dc0 (D, B, H; optional)]. The gradient of
   * UHAL_OP_RNN, of which it gets operands and results. initial is c0 of an LSTM and h0 of a GRU, absent where that
   * was; the others need none. dh_last and dc_last are gradients of the last states beside dy; dc_last and dc0 are an
   * LSTM's only. dx is 0 at steps that were left out. dproduct is the gradient of p, which of the others is dx: that of
   * r is the sum over the steps of dproduct^T h, of h before the step, one matmul, and that of bias the sum of
   * dproduct. cell_clip is passed over, as if the cells had not been cut (as TensorFlow has it). */
  UHAL_OP_RNN_BACKWARD = 177,

  /* [logits (T, B, C), labels (B, L; int32 or int64), logit_lengths (B; int32 or int64; optional), label_lengths (B;
   * int32 or int64; optional)] -> [loss (B), gradient (T, B, C; optional)]. Connectionist temporal classification
   * (Graves, Fernandez, Gomez and Schmidhuber 2006): with the probabilities softmax(logits[t, b]), loss[b] is minus the
   * logarithm of the probability that the classes of all steps, with runs of equal ones joined and then the class
   * `blank` taken out, are labels[b]. gradient is that of the sum of all losses with respect to logits.
   * A length below 0 counts as 0, one above T or L as that; absent ones are T and L. A label outside [0, C), and the
   * blank as a label, are never seen. Where no path gives the labels (too few steps), the loss is infinite, or 0 with
   * zero_infinity, and the gradient 0; it is 0 at steps beyond a length too. logits, loss and gradient have one
   * floating dtype. attributes: uhal_ctc_attributes. */
  UHAL_OP_CTC_LOSS = 178,

  UHAL_OP_KIND_LIMIT = 256
};

/* "matmul"; "invalid" for a number that is no kind. Static. */
UHAL_API const char* uhal_op_kind_name(uhal_op_kind kind);

/* -- map ------------------------------------------------------------------------------------- */

/* The function's number is its line's position in csrc/tables/elementwise.def, which is append-only.
 * C and C++ callers inside the project take the enumerators from csrc/tables/elementwise.h; others ask
 * uhal_map_function_find("silu"). */
typedef int32_t uhal_map_function;

enum { UHAL_MAP_MAX_INPUTS = 8, UHAL_MAP_MAX_OUTPUTS = 4, UHAL_MAP_MAX_PARAMETERS = 8 };

typedef struct uhal_map_function_info {
  size_t struct_size;
  const char* name; /* "silu" */
  int32_t input_count;
  int32_t output_count;
  int32_t integer;                /* 1 if it is defined on integers and bool, 0 if it computes in floating point */
  int32_t flops;                  /* nominal operations per element */
  const char* expression;         /* the text of its line */
  const char* complex_expression; /* since ABI 1.6: that of its line in csrc/tables/complex.def; NULL: it has none, and
                                   * refuses complex operands */
} uhal_map_function_info;

UHAL_API size_t uhal_map_function_count(void);
UHAL_API uhal_status uhal_map_function_get(uhal_map_function function, uhal_map_function_info* info);

/* The function with a name, or -1. */
UHAL_API uhal_map_function uhal_map_function_find(const char* name);

typedef struct uhal_map_attributes {
  size_t struct_size;
  uhal_map_function function;
  int32_t reserved;
  double parameters[UHAL_MAP_MAX_PARAMETERS]; /* p0, p1, ... of the expression */
} uhal_map_attributes;

enum { UHAL_MAP_CHAIN_MAX_STEPS = 16 };

/* The program of UHAL_OP_MAP_CHAIN. Of a step's operands and parameters the first count, as many as its function has;
 * what lies beyond, steps from step_count on and results from the op's output count on included, is not read. */
typedef struct uhal_map_chain_attributes {
  size_t struct_size;
  int32_t step_count;                                              /* 1 to UHAL_MAP_CHAIN_MAX_STEPS */
  int32_t results[UHAL_MAP_MAX_OUTPUTS];                           /* the numbers of the outputs' values */
  uhal_map_function functions[UHAL_MAP_CHAIN_MAX_STEPS];           /* of each step */
  int32_t operands[UHAL_MAP_CHAIN_MAX_STEPS][UHAL_MAP_MAX_INPUTS]; /* the numbers of the values that it takes */
  int32_t reserved;
  double parameters[UHAL_MAP_CHAIN_MAX_STEPS][UHAL_MAP_MAX_PARAMETERS]; /* its p0, p1, ... */
} uhal_map_chain_attributes;

/* -- data movement --------------------------------------------------------------------------- */

typedef struct uhal_fill_attributes {
  size_t struct_size;
  double value;          /* for floating outputs, and the real part of complex ones */
  int64_t integer_value; /* for integer and bool outputs; the bits of a uint64 */
} uhal_fill_attributes;

typedef struct uhal_iota_attributes {
  size_t struct_size;
  double start; /* for floating outputs */
  double step;
  int64_t integer_start; /* for integer outputs */
  int64_t integer_step;
} uhal_iota_attributes;

typedef struct uhal_triangular_attributes {
  size_t struct_size;
  int32_t upper; /* 0: lower */
  int32_t reserved;
  int64_t diagonal;
} uhal_triangular_attributes;

/* -- indexing and reductions ------------------------------------------------------------------ */

typedef int32_t uhal_reduction;
enum {
  UHAL_REDUCE_NONE = 0, /* scatter: overwrite */
  UHAL_REDUCE_SUM = 1,
  UHAL_REDUCE_MEAN = 2,
  UHAL_REDUCE_PRODUCT = 3,
  UHAL_REDUCE_MAXIMUM = 4,
  UHAL_REDUCE_MINIMUM = 5,
  UHAL_REDUCE_ALL = 6, /* logical and */
  UHAL_REDUCE_ANY = 7,
  UHAL_REDUCE_SUM_OF_SQUARES = 8,
  UHAL_REDUCE_L1_NORM = 9,
  UHAL_REDUCE_L2_NORM = 10,
  UHAL_REDUCE_LOG_SUM_EXP = 11
};

typedef struct uhal_index_attributes {
  size_t struct_size;
  int32_t axis;                /* default 0 */
  int32_t batch_dimensions;    /* default 0 */
  uhal_reduction reduction;    /* scatter only; default UHAL_REDUCE_NONE */
  int32_t negative_wraps;      /* 1: an index in [-n, 0) counts from the end; default 0 */
  int32_t ignore_out_of_range; /* 1: zeros and dropped updates without an error; default 0 */
  int32_t reserved;
} uhal_index_attributes;

/* What the ids of UHAL_OP_SEGMENT_REDUCE say. */
typedef int32_t uhal_segment_form;
enum {
  UHAL_SEGMENT_UNSORTED = 0, /* ids (m): the segment of each element */
  UHAL_SEGMENT_SORTED = 1,   /* the same, ascending; of others y is unspecified */
  UHAL_SEGMENT_OFFSETS = 2 /* ids (segments + 1), ascending: elements ids[s] to ids[s + 1] - 1 are segment s; what lies
                              before ids[0], or from the last one on, is in none */
};

typedef struct uhal_segment_attributes {
  size_t struct_size;
  uhal_reduction reduction;    /* SUM (default), MEAN, PRODUCT, MAXIMUM, MINIMUM; NaN wins in the last two */
  uhal_segment_form form;      /* default UHAL_SEGMENT_UNSORTED */
  int32_t ignore_negative;     /* 1: negative ids and indices are no error; default 0 */
  int32_t ignore_out_of_range; /* 1: all ids and indices that are outside are no error; default 0 */
  double empty;                /* y of a segment without elements, of floating dtypes; default 0 */
  int64_t integer_empty;       /* of integer dtypes; the bits of a uint64; default 0 */
} uhal_segment_attributes;

typedef struct uhal_reduce_attributes {
  size_t struct_size;
  uhal_reduction reduction; /* default UHAL_REDUCE_SUM */
  int32_t reserved;
} uhal_reduce_attributes;

enum { UHAL_AXIS_DESCENDING = 1 };
typedef struct uhal_axis_attributes {
  size_t struct_size;
  int32_t axis; /* default 0 */
  uint32_t flags;
} uhal_axis_attributes;

typedef struct uhal_scan_attributes {
  size_t struct_size;
  int32_t axis;             /* default 0 */
  uhal_reduction reduction; /* SUM (default), PRODUCT, MAXIMUM, MINIMUM */
  int32_t exclusive;
  int32_t reverse;
} uhal_scan_attributes;

/* -- matrix product, convolution, pooling ------------------------------------------------------ */

/* Activations that can be fused into a producing op. NaN stays NaN in all of them. */
typedef int32_t uhal_activation;
enum {
  UHAL_ACTIVATION_NONE = 0,
  UHAL_ACTIVATION_RELU = 1,
  UHAL_ACTIVATION_GELU_ERF = 2,
  UHAL_ACTIVATION_GELU_TANH = 3,
  UHAL_ACTIVATION_SIGMOID = 4,
  UHAL_ACTIVATION_TANH = 5,
  UHAL_ACTIVATION_SILU = 6,
  UHAL_ACTIVATION_RELU6 = 7
};

/* How precisely float32 is multiplied, since ABI 1.5. A mode allows and never demands: a device that cannot, or finds
 * no use in it, computes strictly. What is not multiplied in float32 from factors of float32 is the same in all modes.
 */
typedef int32_t uhal_math_mode;
enum {
  UHAL_MATH_STRICT = 0,    /* factors have the precision of their dtype */
  UHAL_MATH_ALLOW_TF32 = 1 /* factors may be rounded to TF32 first (10 bits of mantissa); sums are float32 */
};

typedef struct uhal_matmul_attributes {
  size_t struct_size;
  double alpha; /* default 1 */
  double beta;  /* default 1 if c is given */
  uhal_activation activation;
  uhal_math_mode math_mode; /* default UHAL_MATH_STRICT */
} uhal_matmul_attributes;

typedef struct uhal_matmul_quantized_attributes {
  size_t struct_size;
  int32_t bits; /* of a weight: 8 (the default) or 4 */
  uhal_activation activation;
  int64_t block_size; /* rows of b that share a scale: a power of two from 16; 0 (the default): all */
  double zero_point;  /* where there are no zero_points; default 0 */
} uhal_matmul_quantized_attributes;

/* -- linear algebra: which triangle of a matrix is meant ------------------------------------------ */

typedef struct uhal_triangular_solve_attributes {
  size_t struct_size;
  int32_t upper;         /* 1: a's upper triangle; 0 (the default): its lower one */
  int32_t unit_diagonal; /* 1: a's diagonal counts as ones and is not read; default 0 */
  int32_t conjugate;     /* 1: a's elements are conjugated first; default 0 */
  int32_t reserved;
} uhal_triangular_solve_attributes;

typedef struct uhal_triangle_attributes {
  size_t struct_size;
  int32_t upper; /* 1: the upper triangle is read (and written); 0 (the default): the lower one */
  int32_t reserved;
} uhal_triangle_attributes;

enum { UHAL_MAX_SPATIAL = 3 };

/* Spatial entries beyond the operands' spatial rank are ignored. */
typedef struct uhal_convolution_attributes {
  size_t struct_size;
  int64_t stride[UHAL_MAX_SPATIAL];     /* default 1 */
  int64_t dilation[UHAL_MAX_SPATIAL];   /* 1 (default): dense */
  int64_t pad_before[UHAL_MAX_SPATIAL]; /* default 0 */
  int64_t pad_after[UHAL_MAX_SPATIAL];
  int64_t groups; /* default 1 */
  uhal_activation activation;
  uhal_math_mode math_mode; /* default UHAL_MATH_STRICT */
} uhal_convolution_attributes;

/* An average is divided by the window's size where padding counts (also if the window reaches beyond the
 * padding), else by the number of pixels of x under it. Adaptive windows have no padding. */
typedef int32_t uhal_pool_mode;
enum { UHAL_POOL_MAXIMUM = 0, UHAL_POOL_AVERAGE_INCLUDE_PADDING = 1, UHAL_POOL_AVERAGE_EXCLUDE_PADDING = 2 };

typedef struct uhal_pool_attributes {
  size_t struct_size;
  uhal_pool_mode mode;
  int32_t adaptive; /* 1: window i of n covers [floor(i*size/n), ceil((i+1)*size/n)); the rest is ignored */
  int64_t window[UHAL_MAX_SPATIAL];
  int64_t stride[UHAL_MAX_SPATIAL];
  int64_t pad_before[UHAL_MAX_SPATIAL];
  int64_t pad_after[UHAL_MAX_SPATIAL]; /* windows may reach beyond x + padding (ceil mode) */
} uhal_pool_attributes;

/* -- normalization and losses ------------------------------------------------------------------- */

typedef struct uhal_softmax_attributes {
  size_t struct_size;
  int32_t axis;      /* 0 to rank-1; -1 (the default): the last */
  int32_t logarithm; /* 1: log-softmax */
} uhal_softmax_attributes;

typedef struct uhal_cross_entropy_attributes {
  size_t struct_size;
  int32_t axis;       /* -1 (the default): the last */
  int32_t has_ignore; /* 1: ignore_index is in force */
  int64_t ignore_index;
} uhal_cross_entropy_attributes;

typedef struct uhal_norm_attributes {
  size_t struct_size;
  double epsilon;           /* default 1e-5 */
  double momentum;          /* batch norm; default 0.9 */
  int32_t inference;        /* batch norm; default 0 */
  int32_t unbiased_running; /* batch norm; default 0 */
  int32_t axis;             /* layer and RMS norm: first normalized axis; default -1, the last */
  int32_t activation;       /* uhal_activation applied to y; default none */
  int64_t groups;           /* group norm */
} uhal_norm_attributes;

typedef struct uhal_attention_attributes {
  size_t struct_size;
  double scale;             /* 0 (the default): 1 / sqrt(D) */
  int32_t causal;           /* 1: row i sees columns j <= i + N - M */
  uhal_math_mode math_mode; /* of both products; default UHAL_MATH_STRICT */
} uhal_attention_attributes;

/* -- random and resampling ---------------------------------------------------------------------- */

typedef int32_t uhal_distribution;
enum {
  UHAL_RANDOM_UNIFORM = 0,          /* floating: [a, b); integers: a + bits % (b - a), in 64 bits */
  UHAL_RANDOM_NORMAL = 1,           /* mean a, standard deviation b */
  UHAL_RANDOM_TRUNCATED_NORMAL = 2, /* redrawn beyond two standard deviations */
  UHAL_RANDOM_BERNOULLI = 3,        /* 1 with probability a */
  UHAL_RANDOM_BITS = 4              /* raw words; integer outputs */
};

typedef struct uhal_random_attributes {
  size_t struct_size;
  uhal_distribution distribution;
  int32_t scale_at_inference; /* dropout */
  uint64_t key;
  uint64_t counter[2]; /* low, high */
  double a;            /* defaults 0 and 1 */
  double b;
} uhal_random_attributes;

typedef int32_t uhal_parameter_distribution;
enum { UHAL_RANDOM_GAMMA = 0, UHAL_RANDOM_POISSON = 1, UHAL_RANDOM_BINOMIAL = 2 };

typedef struct uhal_random_distribution_attributes {
  size_t struct_size;
  uhal_parameter_distribution distribution; /* default UHAL_RANDOM_GAMMA */
  int32_t reserved;
  uint64_t key;
  uint64_t counter[2]; /* low, high */
} uhal_random_distribution_attributes;

/* Output coordinate i of an axis lies at position p of the input: i * (x's length - 1) / (y's length - 1) with
 * align_corners (0 for a single output); else (i + 0.5) * step - 0.5 with half_pixel_centers; else i * step, where
 * step is the attribute scale or x's length / y's length.
 * NEAREST takes pixel floor(p + 0.5) if either flag is set, else floor(p): exactly where the step comes from the sizes;
 * with a scale it is the float32 product of i (i + 0.5 with half_pixel_centers) and the scale that is rounded down, as
 * frameworks do it, whatever the dtype. LINEAR weighs the two pixels around
 * max(p, 0), CUBIC the four around p by cubic convolution (Keys 1981) with a = -0.75. A pixel outside x stands for
 * the nearest one inside. Weights along several axes multiply. */
typedef int32_t uhal_resize_mode;
enum { UHAL_RESIZE_NEAREST = 0, UHAL_RESIZE_LINEAR = 1, UHAL_RESIZE_CUBIC = 2 };

typedef struct uhal_resize_attributes {
  size_t struct_size;
  uhal_resize_mode mode;
  int32_t align_corners;
  int32_t half_pixel_centers;
  int32_t reserved;
  double scale[UHAL_MAX_SPATIAL]; /* input step per output step, finite; 0 (the default): from the sizes */
} uhal_resize_attributes;

/* A coordinate g of an axis of n pixels lies at position p: (g + 1) * (n - 1) / 2 with align_corners, so that -1 and 1
 * are the centres of the first and the last pixel; else ((g + 1) * n - 1) / 2: the outer edges of these.
 * BORDER moves a position outside [0, n - 1] to its nearest end. REFLECTION mirrors it at 0 and n - 1 with
 * align_corners (0 if n is 1), else at -1/2 and n - 1/2, and then takes the nearest end. With ZEROS pixels outside x
 * count as 0. NEAREST takes the pixel at p rounded to an integer, of two as near the even one; LINEAR weighs the two
 * pixels around p along each axis; weights multiply. CUBIC, of two spatial axes, weighs the four around p by cubic
 * convolution (Keys 1981) with a = -0.75; there it is not p but each of the four that BORDER and REFLECTION move, so
 * that p has a gradient everywhere and edge_gradient changes nothing (as PyTorch has it). Of coordinates that are
 * infinite or NaN, ZEROS gives 0 and the others a pixel of x, or a weighted sum around pixel 0. Computed in float32, or
 * float64 if an operand is. Each element of a gradient is summed in an order of its own: the same bits each time. */
typedef int32_t uhal_grid_sample_mode;
enum {
  UHAL_GRID_SAMPLE_NEAREST = 0,
  UHAL_GRID_SAMPLE_LINEAR = 1,
  UHAL_GRID_SAMPLE_CUBIC = 2 /* since ABI 1.9 */
};

typedef int32_t uhal_grid_sample_padding;
enum { UHAL_GRID_SAMPLE_ZEROS = 0, UHAL_GRID_SAMPLE_BORDER = 1, UHAL_GRID_SAMPLE_REFLECTION = 2 };

typedef struct uhal_grid_sample_attributes {
  size_t struct_size;
  uhal_grid_sample_mode mode;       /* default UHAL_GRID_SAMPLE_LINEAR */
  uhal_grid_sample_padding padding; /* default UHAL_GRID_SAMPLE_ZEROS */
  int32_t align_corners;
  int32_t edge_gradient; /* 1: a position that padding finds or leaves exactly at an end has the inside's gradient
                          * (Paddle); 0: none (PyTorch) */
  int32_t in_pixels;     /* 1: a coordinate is itself the position, and align_corners says only where REFLECTION
                          * mirrors. Since ABI 1.8 */
  int32_t reserved;
} uhal_grid_sample_attributes;

/* Regions of images. A box is (x0, y0, x1, y1) in the units that, times `scale`, are pixels; with aligned half a pixel
 * is taken off, without it a box is at least one pixel wide and high. It is cut into the bins of y, and a bin's value
 * is the mean of `samples` x `samples` places at even distances in it, or, for 0, of ceil(height / rows of bins) x
 * ceil(width / columns of bins): the number that is a place a pixel (at most 2^20 along an axis). A place further than
 * a pixel outside (below -1 or above the length of an axis) counts as 0; any other is moved to the nearest end of the
 * pixels and weighs the four around it. A bin without places is 0. Positions are computed in float32, or float64 if an
 * operand is. Each element of the gradient is summed in an order of its own: the same bits each time. */
typedef struct uhal_roi_align_attributes {
  size_t struct_size;
  double scale;    /* finite and positive; default 1 */
  int32_t samples; /* default 0; at most 4096 */
  int32_t aligned; /* default 0 */
} uhal_roi_align_attributes;

/* A box is (x0, y0, x1, y1); it is cut into the bins of y, each of which begins and ends at the next whole pixels
 * outwards and within the image; a bin without pixels is 0. MAX (Girshick 2015, Fast R-CNN): from pixel round(x0 scale)
 * to pixel round(x1 scale), both included, one at least; D is C. y is the largest number of a bin, the first of them if
 * there are several (a NaN is none; of nothing else y is -infinity), and indices its pixel, row * width + column; -1:
 * none. AVERAGE_BY_POSITION (Dai et al. 2016, R-FCN): from round(x0) scale to (round(x1) + 1) scale, 0.1 at least; C is
 * D rows columns, and bin (row, column) of channel d of y is the mean of channel (d rows + row) columns + column of x.
 * There are no indices. Positions are computed in float32, or float64 if an operand is; round takes halves away from 0.
 */
typedef int32_t uhal_roi_pool_mode;
enum { UHAL_ROI_POOL_MAX = 0, UHAL_ROI_POOL_AVERAGE_BY_POSITION = 1 };

typedef struct uhal_roi_pool_attributes {
  size_t struct_size;
  double scale;            /* finite and positive; default 1 */
  uhal_roi_pool_mode mode; /* default UHAL_ROI_POOL_MAX */
  int32_t reserved;
} uhal_roi_pool_attributes;

typedef struct uhal_non_max_suppression_attributes {
  size_t struct_size;
  double threshold; /* default 0.5 */
  /* Since ABI 1.10. */
  double decay;    /* default 1; while the threshold is above 0.5, each box that is kept multiplies it by this */
  double extent;   /* default 0; of ordered boxes: what they are longer along both axes than their corners are apart */
  int32_t ordered; /* default 0. Else the corners are the low and the high one: boxes whose corners lie apart overlap by
                    * nothing, one with a high corner below its low one covers nothing, and a quotient that is no number
                    * (of two equal boxes without area) is more than any threshold */
  int32_t reserved;
} uhal_non_max_suppression_attributes;

/* -- transforms ----------------------------------------------------------------------------------- */

typedef int32_t uhal_fft_direction;
enum {
  UHAL_FFT_FORWARD = 0, /* the exponent's sign is -1 */
  UHAL_FFT_INVERSE = 1  /* it is 1 */
};

/* The scale; n is the product of the lengths of the real or complex signals along the axes. */
typedef int32_t uhal_fft_normalization;
enum {
  UHAL_FFT_UNSCALED = 0,   /* 1 */
  UHAL_FFT_BY_LENGTH = 1,  /* 1 / n */
  UHAL_FFT_ORTHONORMAL = 2 /* 1 / sqrt(n) */
};

enum { UHAL_FFT_MAX_AXES = 3 };

typedef struct uhal_fft_attributes {
  size_t struct_size;
  uhal_fft_direction direction;         /* default UHAL_FFT_FORWARD */
  uhal_fft_normalization normalization; /* default UHAL_FFT_UNSCALED */
  int32_t axis_count;                   /* 1 (the default) to UHAL_FFT_MAX_AXES */
  int32_t axes[UHAL_FFT_MAX_AXES]; /* each once; -1 (the default): the last. Entries beyond the count are ignored */
} uhal_fft_attributes;

/* -- results whose size depends on data ---------------------------------------------------------- */

typedef struct uhal_search_attributes {
  size_t struct_size;
  int32_t right; /* 1: equal elements go before the value as well; default 0 */
  int32_t reserved;
} uhal_search_attributes;

/* -- sequences ------------------------------------------------------------------------------------ */

typedef int32_t uhal_rnn_mode;
enum { UHAL_RNN_LSTM = 0, UHAL_RNN_GRU = 1, UHAL_RNN_TANH = 2, UHAL_RNN_RELU = 3 };

enum { UHAL_RNN_MAX_DIRECTIONS = 8 };

typedef struct uhal_rnn_attributes {
  size_t struct_size;
  uhal_rnn_mode mode;       /* default UHAL_RNN_LSTM */
  int32_t reverse;          /* bit d: direction d begins at the last step; default 0 */
  double cell_clip;         /* 0 (the default): cells are not cut */
  uhal_math_mode math_mode; /* of the products; default UHAL_MATH_STRICT */
  int32_t reserved;
} uhal_rnn_attributes;

typedef struct uhal_ctc_attributes {
  size_t struct_size;
  int32_t blank;         /* a class; default 0 */
  int32_t zero_infinity; /* 1: a loss that would be infinite is 0; default 0 */
} uhal_ctc_attributes;

/* -- launching ----------------------------------------------------------------------------------- */

typedef struct uhal_op {
  size_t struct_size;
  uhal_op_kind kind;
  int32_t input_count;
  int32_t output_count;
  int32_t reserved;
  const uhal_tensor* const* inputs;
  const uhal_tensor* const* outputs;
  const void* attributes; /* the kind's struct, or NULL */
  const char* label;      /* the caller's name for it ("Conv2D"), or NULL; must be a literal or interned */
} uhal_op;

/* Whether the device itself runs the op: UHAL_OK, or UHAL_UNIMPLEMENTED (or UHAL_INVALID_ARGUMENT) with the
 * reason in the error record. Operand data pointers are not looked at and may be NULL. */
UHAL_API uhal_status uhal_supports(uhal_device* device, const uhal_op* op);

/* Whether uhal_launch takes the op: as uhal_supports, but UHAL_OK too where the host runs it in the device's place.
 * *on_host, if wanted, tells which, 1: the host. */
UHAL_API uhal_status uhal_can_run(uhal_device* device, const uhal_op* op, int32_t* on_host);

/* Validates the op and submits it. On failure nothing was submitted and the outputs are unchanged. The op,
 * its views and attributes are read before the call returns.
 *
 * What the device refuses runs on the host: unihal's host kernels (the stub's) compute on copies of the operands, in
 * the stream's order, and write the outputs' own elements back. Each such launch is counted as a fallback
 * (fallback.h) with the device's reason. It is UHAL_UNIMPLEMENTED under UNIHAL_STRICT=1, on the stub itself, and
 * where the host's kernels refuse the op as well. */
UHAL_API uhal_status uhal_launch(uhal_stream* stream, const uhal_op* op);

/* Between both, a backend may hold back ops launched on the stream, to make one launch of several that are alike and do
 * not depend on one another: on GPU backends maps of one function with the same parameters over dense operands, which
 * are an optimizer's step of many parameters, and copies of rows, which are the parts of a concatenation or a split.
 * Results and their order are those of single launches. Whatever else is done with the stream, by any thread, submits
 * what is held back first, a wait or a query too; a call that does so may return the error of such an op, at the latest
 * uhal_launch_group_end, which ends the group all the same.
 *
 * Groups may be nested, the outermost counts. UHAL_FAILED_PRECONDITION for an end without a start. While the profiler
 * records, each op is submitted by itself. Since ABI 1.13. */
UHAL_API uhal_status uhal_launch_group_start(uhal_stream* stream);
UHAL_API uhal_status uhal_launch_group_end(uhal_stream* stream);

UHAL_EXTERN_C_END

#endif /* UNIHAL_OP_H_ */
