/* A backend that does what the stub does, but for one planted fault: conformance must find each of them.
 *
 * MUTANT_STUB is the path of the stub's library; mutant_select chooses the fault by its name in mutations.py, "" for
 * none. Faults in what is computed read and write the operands and need the stub's fast mode, whose memory is the
 * host's and whose work is done when launch returns; faults in the order of work need the strict one, which works on
 * threads of its own. */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "unihal/backend.h"
#include "unihal/collectives.h"

enum { MOST_OPERANDS = 16, MOST_ATTRIBUTE_BYTES = 512, LARGE = 1 << 20 };

static const uhal_backend* stub;
static uhal_backend table;
static char selected[128];

static int is(const char* fault) { return strcmp(selected, fault) == 0; }

/* -- a copy of an op, which faults may change ---------------------------------------------------------------------- */

typedef struct changed_op {
  uhal_op op;
  uhal_tensor inputs[MOST_OPERANDS];
  uhal_tensor outputs[MOST_OPERANDS];
  const uhal_tensor* input_pointers[MOST_OPERANDS];
  const uhal_tensor* output_pointers[MOST_OPERANDS];
  union {
    char bytes[MOST_ATTRIBUTE_BYTES];
    uhal_map_attributes map;
    uhal_map_chain_attributes chain;
    uhal_fill_attributes fill;
    uhal_iota_attributes iota;
    uhal_triangular_attributes triangular;
    uhal_index_attributes index;
    uhal_reduce_attributes reduce;
    uhal_axis_attributes axis;
    uhal_scan_attributes scan;
    uhal_matmul_attributes matmul;
    uhal_convolution_attributes convolution;
    uhal_pool_attributes pool;
    uhal_softmax_attributes softmax;
    uhal_cross_entropy_attributes cross_entropy;
    uhal_norm_attributes norm;
    uhal_attention_attributes attention;
    uhal_random_attributes random;
    uhal_resize_attributes resize;
    uhal_grid_sample_attributes grid_sample;
    uhal_roi_align_attributes roi_align;
    uhal_roi_pool_attributes roi_pool;
    uhal_non_max_suppression_attributes suppression;
    uhal_fft_attributes fft;
    uhal_triangular_solve_attributes triangular_solve;
    uhal_triangle_attributes triangle;
    uhal_rnn_attributes rnn;
    uhal_ctc_attributes ctc;
  } attributes;
} changed_op;

static void copy_operands(uhal_tensor* copies, const uhal_tensor** pointers, const uhal_tensor* const* given,
                          int32_t count) {
  for (int32_t i = 0; i < count; ++i) {
    pointers[i] = given[i] == NULL ? NULL : &copies[i];
    if (given[i] != NULL) copies[i] = *given[i];
  }
}

static void copy_op(changed_op* copy, const uhal_op* op) {
  memset(copy, 0, sizeof *copy);
  copy->op = *op;
  copy_operands(copy->inputs, copy->input_pointers, op->inputs, op->input_count);
  copy_operands(copy->outputs, copy->output_pointers, op->outputs, op->output_count);
  copy->op.inputs = copy->input_pointers;
  copy->op.outputs = copy->output_pointers;
  if (op->attributes == NULL) return;
  memcpy(&copy->attributes, op->attributes, *(const size_t*)op->attributes);
  copy->op.attributes = &copy->attributes;
}

/* -- elements ------------------------------------------------------------------------------------------------------ */

static int64_t count_of(const uhal_tensor* x) {
  int64_t count = 1;
  for (int32_t axis = 0; axis < x->rank; ++axis) count *= x->shape[axis];
  return count;
}

static size_t size_of(uhal_dtype dtype) {
  switch (dtype) {
    case UHAL_BOOL:
    case UHAL_INT8:
    case UHAL_UINT8:
      return 1;
    case UHAL_INT16:
    case UHAL_UINT16:
    case UHAL_FLOAT16:
    case UHAL_BFLOAT16:
      return 2;
    case UHAL_INT32:
    case UHAL_UINT32:
    case UHAL_FLOAT32:
      return 4;
    case UHAL_COMPLEX128:
      return 16;
    default:
      return 8;
  }
}

/* The element of x that broadcasts to (or is reduced to, where x has length 1) element n of a shape, row by row. */
static char* beside(const uhal_tensor* x, const uhal_tensor* shape, int64_t n) {
  int64_t offset = 0;
  int32_t missing = shape->rank - x->rank;
  for (int32_t axis = shape->rank - 1; axis >= 0; --axis) {
    int64_t coordinate = n % shape->shape[axis];
    n /= shape->shape[axis];
    if (axis >= missing && x->shape[axis - missing] > 1) offset += coordinate * x->strides[axis - missing];
  }
  return (char*)x->data + offset * (int64_t)size_of(x->dtype);
}

static char* at(const uhal_tensor* x, int64_t n) { return beside(x, x, n); }

/* The view with an axis run through backwards. */
static void flip(uhal_tensor* x, int32_t axis) {
  if (x->shape[axis] == 0) return;
  x->data = (char*)x->data + (x->shape[axis] - 1) * x->strides[axis] * (int64_t)size_of(x->dtype);
  x->strides[axis] = -x->strides[axis];
}

static void swap_axes(uhal_tensor* x, int32_t first, int32_t second) {
  int64_t stride = x->strides[first];
  x->strides[first] = x->strides[second];
  x->strides[second] = stride;
}

static int64_t of_double(double value) {
  if (value >= 9223372036854775807.0) return INT64_MAX;
  return value <= -9223372036854775808.0 ? INT64_MIN : (int64_t)value;
}

static double read_number(const uhal_tensor* x, const char* p) {
  switch (x->dtype) {
    case UHAL_FLOAT32:
      return *(const float*)p;
    case UHAL_FLOAT64:
      return *(const double*)p;
    case UHAL_INT32:
      return *(const int32_t*)p;
    case UHAL_INT64:
      return (double)*(const int64_t*)p;
    case UHAL_INT16:
      return *(const int16_t*)p;
    case UHAL_INT8:
      return *(const int8_t*)p;
    default:
      return 0;
  }
}

static void write_number(const uhal_tensor* x, char* p, double value) {
  switch (x->dtype) {
    case UHAL_FLOAT32:
      *(float*)p = (float)value;
      break;
    case UHAL_FLOAT64:
      *(double*)p = value;
      break;
    case UHAL_INT32:
      *(int32_t*)p = (int32_t)of_double(value);
      break;
    case UHAL_INT64:
      *(int64_t*)p = of_double(value);
      break;
    default:
      break;
  }
}

/* -- faults in what an op is asked to do --------------------------------------------------------------------------- */

static void first_batch_stride_is_dense(uhal_tensor* x, int32_t axis) {
  if (axis >= 0 && axis + 1 < x->rank && x->strides[axis] != 0) {
    x->strides[axis] = x->strides[axis + 1] * x->shape[axis + 1];
  }
}

static void fourth_axis_dense(changed_op* c) { first_batch_stride_is_dense(&c->inputs[0], c->inputs[0].rank - 4); }
static void fourth_batch_axis_dense(changed_op* c) {
  first_batch_stride_is_dense(&c->inputs[0], c->inputs[0].rank - 6);
}
static void first_axis_dense(changed_op* c) { first_batch_stride_is_dense(&c->inputs[0], 0); }
static void output_axis_dense(changed_op* c) { first_batch_stride_is_dense(&c->outputs[0], 0); }

static void square_transposed(changed_op* c) {
  uhal_tensor* a = &c->inputs[0];
  if (a->shape[a->rank - 1] == a->shape[a->rank - 2]) swap_axes(a, a->rank - 1, a->rank - 2);
}
static void equal_axes_swapped(changed_op* c) {
  uhal_tensor* x = &c->inputs[0];
  if (x->rank >= 3 && x->shape[0] == x->shape[1]) swap_axes(x, 0, 1);
}
static void alpha_ignored(changed_op* c) { c->attributes.matmul.alpha = 1; }
static void beta_ignored(changed_op* c) { c->attributes.matmul.beta = 1; }
static void epsilon_ignored(changed_op* c) { c->attributes.norm.epsilon = 0; }
static void epsilon_fixed(changed_op* c) { c->attributes.norm.epsilon = 1e-5; }
static void inference_epsilon_ignored(changed_op* c) {
  if (c->attributes.norm.inference) c->attributes.norm.epsilon = 0;
}
static void momentum_ignored(changed_op* c) { c->attributes.norm.momentum = 0.9; }
static void unbiased_ignored(changed_op* c) { c->attributes.norm.unbiased_running = 0; }
static void dilation_ignored(changed_op* c) {
  for (int axis = 0; axis < UHAL_MAX_SPATIAL; ++axis) c->attributes.convolution.dilation[axis] = 1;
}
static void padding_swapped(changed_op* c) {
  for (int axis = 0; axis < UHAL_MAX_SPATIAL; ++axis) {
    int64_t before = c->attributes.convolution.pad_before[axis];
    c->attributes.convolution.pad_before[axis] = c->attributes.convolution.pad_after[axis];
    c->attributes.convolution.pad_after[axis] = before;
  }
}
static void groups_mixed(changed_op* c) {
  if (c->attributes.convolution.groups > 1) flip(&c->inputs[0], 1);
}
static void filter_flipped(changed_op* c) {
  for (int32_t axis = 2; axis < c->inputs[1].rank; ++axis) flip(&c->inputs[1], axis);
}
static void padding_counts(changed_op* c) {
  if (c->attributes.pool.mode == UHAL_POOL_AVERAGE_EXCLUDE_PADDING) {
    c->attributes.pool.mode = UHAL_POOL_AVERAGE_INCLUDE_PADDING;
  }
}
static void ceil_ignored(changed_op* c) {
  const uhal_pool_attributes* a = &c->attributes.pool;
  for (int32_t i = 0; i < c->outputs[0].rank - 2; ++i) {
    int64_t length = c->inputs[0].shape[i + 2] + a->pad_before[i] + a->pad_after[i];
    int64_t whole = a->adaptive || length < a->window[i] ? INT64_MAX : (length - a->window[i]) / a->stride[i] + 1;
    for (int32_t k = 0; k < c->op.output_count; ++k) {
      if (c->op.outputs[k] != NULL && c->outputs[k].shape[i + 2] > whole) c->outputs[k].shape[i + 2] = whole;
    }
  }
}
static void index_wraps(changed_op* c) { c->attributes.index.negative_wraps = 1; }
static void index_never_wraps(changed_op* c) {
  if (c->attributes.index.negative_wraps) c->attributes.index.ignore_out_of_range = 1;
  c->attributes.index.negative_wraps = 0;
}
static void index_unchecked(changed_op* c) { c->attributes.index.ignore_out_of_range = 1; }
static void first_update_wins(changed_op* c) {
  if (c->attributes.index.reduction != UHAL_REDUCE_NONE || c->inputs[0].rank == 0) return;
  flip(&c->inputs[0], 0);
  flip(&c->inputs[1], c->op.kind == UHAL_OP_SCATTER ? c->attributes.index.axis : 0);
}
static void updates_overwrite(changed_op* c) {
  if (c->attributes.index.reduction == UHAL_REDUCE_SUM) c->attributes.index.reduction = UHAL_REDUCE_NONE;
}
static void exclusive_ignored(changed_op* c) { c->attributes.scan.exclusive = 0; }
static void ignore_index_ignored(changed_op* c) { c->attributes.cross_entropy.has_ignore = 0; }
static void weights_ignored(changed_op* c) {
  if (c->op.input_count > 2) c->input_pointers[2] = NULL;
}
static void softmax_of_last_axis(changed_op* c) { c->attributes.softmax.axis = -1; }
static void mask_ignored(changed_op* c) {
  if (c->op.input_count > 3) c->input_pointers[3] = NULL;
}
static void scale_ignored(changed_op* c) { c->attributes.attention.scale = 0; }
static void causal_ignored(changed_op* c) { c->attributes.attention.causal = 0; }
static void key_cut(changed_op* c) { c->attributes.random.key &= 0xffffffff; }
static void counter_cut(changed_op* c) { c->attributes.random.counter[1] = 0; }
static void half_pixels_ignored(changed_op* c) { c->attributes.resize.half_pixel_centers = 0; }
static void resize_scale_ignored(changed_op* c) {
  for (int axis = 0; axis < UHAL_MAX_SPATIAL; ++axis) c->attributes.resize.scale[axis] = 0;
}
static void sample_padding_ignored(changed_op* c) { c->attributes.grid_sample.padding = UHAL_GRID_SAMPLE_ZEROS; }
static void sample_corners_ignored(changed_op* c) { c->attributes.grid_sample.align_corners = 0; }
static void sample_edges_ignored(changed_op* c) { c->attributes.grid_sample.edge_gradient = 0; }
static void sample_pixels_ignored(changed_op* c) { c->attributes.grid_sample.in_pixels = 0; }
static void roi_aligned_ignored(changed_op* c) { c->attributes.roi_align.aligned = 0; }
static void roi_samples_ignored(changed_op* c) { c->attributes.roi_align.samples = 0; }
static void threshold_ignored(changed_op* c) { c->attributes.suppression.threshold = 0.5; }
static void lists_joined(changed_op* c) {
  uhal_tensor *boxes = &c->inputs[0], *keep = &c->outputs[0];
  if (boxes->rank != 3) return;
  if (boxes->strides[0] != boxes->shape[1] * boxes->strides[1]) return;
  if (keep->strides[0] != keep->shape[1] * keep->strides[1]) return;
  boxes->shape[1] = keep->shape[1] = boxes->shape[0] * boxes->shape[1];
  boxes->shape[0] = keep->shape[0] = 1;
}
static void decay_ignored(changed_op* c) { c->attributes.suppression.decay = 1; }
static void extent_ignored(changed_op* c) { c->attributes.suppression.extent = 0; }
static void order_ignored(changed_op* c) {
  c->attributes.suppression.ordered = 0;
  c->attributes.suppression.extent = 0;
}
static void cubic_is_linear(changed_op* c) {
  if (c->attributes.grid_sample.mode == UHAL_GRID_SAMPLE_CUBIC) {
    c->attributes.grid_sample.mode = UHAL_GRID_SAMPLE_LINEAR;
  }
}
static void roi_scale_ignored(changed_op* c) { c->attributes.roi_pool.scale = 1; }
static void log_sum_exp_is_maximum(changed_op* c) {
  if (c->attributes.scan.reduction == UHAL_REDUCE_LOG_SUM_EXP) c->attributes.scan.reduction = UHAL_REDUCE_MAXIMUM;
}
static void direction_ignored(changed_op* c) { c->attributes.fft.direction = UHAL_FFT_FORWARD; }
static void normalization_ignored(changed_op* c) { c->attributes.fft.normalization = UHAL_FFT_UNSCALED; }
static void axes_ignored(changed_op* c) { c->attributes.fft.axis_count = 1; }
static void solve_triangle_exchanged(changed_op* c) { c->attributes.triangular_solve.upper ^= 1; }
static void unit_diagonal_ignored(changed_op* c) { c->attributes.triangular_solve.unit_diagonal = 0; }
static void conjugation_ignored(changed_op* c) { c->attributes.triangular_solve.conjugate = 0; }
static void directions_ignored(changed_op* c) { c->attributes.rnn.reverse = 0; }
static void blank_ignored(changed_op* c) { c->attributes.ctc.blank = 0; }
static void infinity_ignored(changed_op* c) { c->attributes.ctc.zero_infinity = 0; }
static void cell_clip_ignored(changed_op* c) { c->attributes.rnn.cell_clip = 0; }
static void upper_triangle_ignored(changed_op* c) { c->attributes.triangle.upper = 0; }
static void negative_diagonal_ignored(changed_op* c) {
  if (c->attributes.triangular.diagonal < 0) c->attributes.triangular.diagonal = 0;
}
static void first_parameter_ignored(changed_op* c) { c->attributes.map.parameters[0] = 0; }
static void chain_parameters_ignored(changed_op* c) {
  memset(c->attributes.chain.parameters[1], 0,
         sizeof c->attributes.chain.parameters - sizeof c->attributes.chain.parameters[0]);
}
static void chain_results_alike(changed_op* c) {
  for (int i = 1; i < UHAL_MAP_MAX_OUTPUTS; ++i) c->attributes.chain.results[i] = c->attributes.chain.results[0];
}
static void chain_operands_exchanged(changed_op* c) {
  for (int i = 0; i < c->attributes.chain.step_count; ++i) {
    int32_t* operands = c->attributes.chain.operands[i];
    if (operands[1] == 0) continue; /* there is none, or it may be none */
    int32_t first = operands[0];
    operands[0] = operands[1];
    operands[1] = first;
  }
}
/* The last step's arguments are what the steps before the ninth have made. */
static void chain_is_cut(changed_op* c) {
  uhal_map_chain_attributes* chain = &c->attributes.chain;
  for (int i = 8; i < chain->step_count; ++i) memcpy(chain->operands[i], chain->operands[7], sizeof chain->operands[i]);
}
static void later_parameters_ignored(changed_op* c) {
  for (int i = 2; i < UHAL_MAP_MAX_PARAMETERS; ++i) c->attributes.map.parameters[i] = 0;
}
static void fill_in_double(changed_op* c) {
  if (c->outputs[0].dtype == UHAL_INT64) {
    c->attributes.fill.integer_value = of_double((double)c->attributes.fill.integer_value);
  }
}
static void negative_zero_lost(changed_op* c) { c->attributes.fill.value += 0.0; }
static void iota_in_float(changed_op* c) {
  c->attributes.iota.integer_start = (int64_t)(float)c->attributes.iota.integer_start;
}
static void reduces_a_part(changed_op* c) {
  uhal_tensor* x = &c->inputs[0];
  for (int32_t axis = 0; axis < x->rank; ++axis) {
    if (c->outputs[0].shape[axis] == 1 && x->shape[axis] > LARGE) x->shape[axis] = LARGE;
  }
}

/* -- faults in what comes out -------------------------------------------------------------------------------------- */

static void each_int64_in_double(const uhal_op* op) {
  const uhal_tensor* y = op->outputs[0];
  if (y->dtype != UHAL_INT64) return;
  for (int64_t n = 0; n < count_of(y); ++n) write_number(y, at(y, n), read_number(y, at(y, n)));
}

static void cleared_beyond(const uhal_op* op) {
  const uhal_tensor* y = op->outputs[0];
  for (int64_t n = LARGE; n < count_of(y); ++n) memset(at(y, n), 0, size_of(y->dtype));
}

static double add(double a, double b) { return a + b; }
static double larger_number(double a, double b) { return isnan(a) || b > a ? b : a; }

static void reduce_again(const uhal_op* op, double first, double (*combine)(double, double)) {
  const uhal_tensor *x = op->inputs[0], *y = op->outputs[0];
  for (int64_t n = 0; n < count_of(y); ++n) write_number(y, at(y, n), first);
  /* In double whatever y is: integers up to 2^53 that are added up in y would be exact. */
  for (int64_t n = 0; n < count_of(x); ++n) {
    char* p = beside(y, x, n);
    write_number(y, p, combine(read_number(y, p), read_number(x, at(x, n))));
  }
}

static uhal_reduction reduction_of(const uhal_op* op) {
  return ((const uhal_reduce_attributes*)op->attributes)->reduction;
}

static void sum_in_double(const uhal_op* op) {
  if (op->inputs[0]->dtype != UHAL_INT64 || op->outputs[0]->dtype != UHAL_INT64) return;
  if (reduction_of(op) == UHAL_REDUCE_SUM) reduce_again(op, 0, add);
}

static void maximum_skips_nan(const uhal_op* op) {
  if (op->inputs[0]->dtype == UHAL_FLOAT32 && reduction_of(op) == UHAL_REDUCE_MAXIMUM && count_of(op->inputs[0]) > 0) {
    reduce_again(op, NAN, larger_number);
  }
}

/* Means of integers are floored. */
static void mean_floored(const uhal_op* op) {
  const uhal_tensor *x = op->inputs[0], *y = op->outputs[0];
  if (reduction_of(op) != UHAL_REDUCE_MEAN || y->dtype != UHAL_INT32 || count_of(y) == 0) return;
  if (x->dtype != UHAL_INT32 && x->dtype != UHAL_INT64) return;
  int64_t terms = count_of(x) / count_of(y);
  reduce_again(op, 0, add);
  for (int64_t n = 0; n < count_of(y); ++n) write_number(y, at(y, n), floor(read_number(y, at(y, n)) / (double)terms));
}

static uhal_activation activation_of(const uhal_op* op) {
  switch (op->kind) {
    case UHAL_OP_MATMUL:
      return ((const uhal_matmul_attributes*)op->attributes)->activation;
    case UHAL_OP_CONVOLUTION:
      return ((const uhal_convolution_attributes*)op->attributes)->activation;
    default:
      return ((const uhal_norm_attributes*)op->attributes)->activation;
  }
}

/* Results of float32 with so many bits of mantissa, in one math mode. */
static void keep_bits(const uhal_op* op, uhal_math_mode in_mode, int bits) {
  const uhal_matmul_attributes* attributes = op->attributes;
  const uhal_tensor* y = op->outputs[0];
  uhal_math_mode mode = attributes == NULL ? UHAL_MATH_STRICT : attributes->math_mode;
  if (mode != in_mode || y->dtype != UHAL_FLOAT32) return;
  for (int64_t n = 0; n < count_of(y); ++n) {
    uint32_t pattern;
    memcpy(&pattern, at(y, n), sizeof pattern);
    if (isfinite(*(float*)at(y, n))) pattern &= ~0u << (23 - bits);
    memcpy(at(y, n), &pattern, sizeof pattern);
  }
}
static void tf32_unasked(const uhal_op* op) { keep_bits(op, UHAL_MATH_STRICT, 10); }
static void bfloat16_for_tf32(const uhal_op* op) { keep_bits(op, UHAL_MATH_ALLOW_TF32, 7); }

static void relu_drops_nan(const uhal_op* op) {
  const uhal_tensor* y = op->outputs[0];
  if (activation_of(op) != UHAL_ACTIVATION_RELU || y->dtype != UHAL_FLOAT32) return;
  for (int64_t n = 0; n < count_of(y); ++n) write_number(y, at(y, n), fmax(read_number(y, at(y, n)), 0));
}

static void nan_quieted(const uhal_op* op) {
  const uhal_tensor* y = op->outputs[0];
  for (int64_t n = 0; n < count_of(y); ++n) {
    char* p = at(y, n);
    if (y->dtype == UHAL_FLOAT32 && isnan(*(float*)p)) *(uint32_t*)p |= 1u << 22;
    if (y->dtype == UHAL_FLOAT16 && (*(uint16_t*)p & 0x7fff) > 0x7c00) *(uint16_t*)p |= 1u << 9;
  }
}

static void negative_zero_cleared(const uhal_op* op) {
  const uhal_tensor* y = op->outputs[0];
  if (y->dtype != UHAL_FLOAT32) return;
  for (int64_t n = 0; n < count_of(y); ++n) *(float*)at(y, n) += 0.0f;
}

static void subnormals_flushed(const uhal_op* op) {
  const uhal_tensor* y = op->outputs[0];
  if (y->dtype != UHAL_FLOAT32) return;
  for (int64_t n = 0; n < count_of(y); ++n) {
    float* p = (float*)at(y, n);
    if (fabsf(*p) < 0x1p-126f) *p = copysignf(0, *p);
  }
}

/* A float16 that is larger than what it was rounded from becomes the next one toward zero. */
static void half_toward_zero(const uhal_op* op) {
  const uhal_tensor *x = op->inputs[0], *y = op->outputs[0];
  if (x->dtype != UHAL_FLOAT32 || y->dtype != UHAL_FLOAT16) return;
  for (int64_t n = 0; n < count_of(y); ++n) {
    _Float16* p = (_Float16*)at(y, n);
    if (fabsf((float)*p) > fabsf(*(float*)beside(x, y, n))) --*(uint16_t*)p;
  }
}

static void half_by_way_of_float(const uhal_op* op) {
  const uhal_tensor *x = op->inputs[0], *y = op->outputs[0];
  if (x->dtype != UHAL_FLOAT64 || y->dtype != UHAL_FLOAT16) return;
  for (int64_t n = 0; n < count_of(y); ++n) {
    volatile float single = (float)*(double*)beside(x, y, n);
    *(_Float16*)at(y, n) = (_Float16)single;
  }
}

static void cast_rounds(const uhal_op* op) {
  const uhal_tensor *x = op->inputs[0], *y = op->outputs[0];
  if (x->dtype != UHAL_FLOAT32 || y->dtype != UHAL_INT32) return;
  for (int64_t n = 0; n < count_of(y); ++n) write_number(y, at(y, n), rint(read_number(x, beside(x, y, n))));
}

/* As if unsigned numbers were signed. */
static void cast_of_uint64_signed(const uhal_op* op) {
  const uhal_tensor *x = op->inputs[0], *y = op->outputs[0];
  if (x->dtype != UHAL_UINT64 || y->dtype != UHAL_FLOAT64) return;
  for (int64_t n = 0; n < count_of(y); ++n) *(double*)at(y, n) = (double)*(int64_t*)beside(x, y, n);
}

/* exp without the maximum taken off. */
static void softmax_unguarded(const uhal_op* op) {
  const uhal_tensor *x = op->inputs[0], *y = op->outputs[0];
  const uhal_softmax_attributes* a = op->attributes;
  if (x->dtype != UHAL_FLOAT32 || x->rank == 0 || a->logarithm) return;
  int32_t axis = a->axis < 0 ? x->rank - 1 : a->axis;
  uhal_tensor sums = *y;
  for (int32_t i = 0, stride = 1; i < y->rank; ++i) {
    sums.shape[i] = i == axis ? 1 : y->shape[i];
    sums.strides[i] = stride;
    stride *= (int32_t)sums.shape[i];
  }
  sums.data = calloc((size_t)count_of(&sums) + 1, sizeof(float));
  for (int64_t n = 0; n < count_of(x); ++n) *(float*)beside(&sums, x, n) += expf(*(float*)at(x, n));
  for (int64_t n = 0; n < count_of(x); ++n) {
    *(float*)at(y, n) = expf(*(float*)at(x, n)) / *(float*)beside(&sums, x, n);
  }
  free(sums.data);
}

/* Statistics are divided by n - 1. */
static void variance_unbiased(const uhal_op* op) {
  const uhal_tensor *x = op->inputs[0], *variance = op->output_count > 2 ? op->outputs[2] : NULL;
  if (variance == NULL || variance->dtype != UHAL_FLOAT32 || count_of(variance) == 0) return;
  double terms = (double)count_of(x) / (double)count_of(variance);
  if (terms < 2) return;
  for (int64_t n = 0; n < count_of(variance); ++n) *(float*)at(variance, n) *= (float)(terms / (terms - 1));
}

/* Indices that were counted from the end are counted from the start again. */
static void recount(const uhal_tensor* y, int64_t length) {
  for (int64_t n = 0; n < count_of(y); ++n) write_number(y, at(y, n), (double)length - 1 - read_number(y, at(y, n)));
}

static int32_t axis_of(const uhal_op* op) { return ((const uhal_axis_attributes*)op->attributes)->axis; }
static void from_the_end(changed_op* c) { flip(&c->inputs[0], c->attributes.axis.axis); }
static void argument_recounted(const uhal_op* op) { recount(op->outputs[0], op->inputs[0]->shape[axis_of(op)]); }
static void places_recounted(const uhal_op* op) {
  if (op->output_count > 1 && op->outputs[1] != NULL) recount(op->outputs[1], op->inputs[0]->shape[axis_of(op)]);
}

typedef struct fault {
  const char* name;
  uhal_op_kind kind;
  void (*before)(changed_op* op);
  void (*after)(const uhal_op* op); /* the op as it was asked for */
} fault;

static const fault faults[] = {
    {"map/first axis dense", UHAL_OP_MAP, first_axis_dense, NULL},
    {"map/output axis dense", UHAL_OP_MAP, output_axis_dense, NULL},
    {"map/parameters", UHAL_OP_MAP, later_parameters_ignored, NULL},
    {"map/box extent", UHAL_OP_MAP, first_parameter_ignored, NULL},
    {"map_chain/parameters", UHAL_OP_MAP_CHAIN, chain_parameters_ignored, NULL},
    {"map_chain/results", UHAL_OP_MAP_CHAIN, chain_results_alike, NULL},
    {"map_chain/operands", UHAL_OP_MAP_CHAIN, chain_operands_exchanged, NULL},
    {"map_chain/eight steps", UHAL_OP_MAP_CHAIN, chain_is_cut, NULL},
    {"map/int64 in double", UHAL_OP_MAP, NULL, each_int64_in_double},
    {"map/beyond 2^20", UHAL_OP_MAP, NULL, cleared_beyond},
    {"copy/equal axes swapped", UHAL_OP_COPY, equal_axes_swapped, NULL},
    {"copy/int64 in double", UHAL_OP_COPY, NULL, each_int64_in_double},
    {"copy/nan quieted", UHAL_OP_COPY, NULL, nan_quieted},
    {"copy/negative zero", UHAL_OP_COPY, NULL, negative_zero_cleared},
    {"copy/subnormals", UHAL_OP_COPY, NULL, subnormals_flushed},
    {"copy/beyond 2^20", UHAL_OP_COPY, NULL, cleared_beyond},
    {"gather/nan quieted", UHAL_OP_GATHER, NULL, nan_quieted},
    {"cast/half toward zero", UHAL_OP_CAST, NULL, half_toward_zero},
    {"cast/double rounding", UHAL_OP_CAST, NULL, half_by_way_of_float},
    {"cast/integers rounded", UHAL_OP_CAST, NULL, cast_rounds},
    {"cast/int64 in double", UHAL_OP_CAST, NULL, each_int64_in_double},
    {"cast/uint64 signed", UHAL_OP_CAST, NULL, cast_of_uint64_signed},
    {"cast/beyond 2^20", UHAL_OP_CAST, NULL, cleared_beyond},
    {"fill/int64 in double", UHAL_OP_FILL, fill_in_double, NULL},
    {"fill/negative zero", UHAL_OP_FILL, negative_zero_lost, NULL},
    {"fill/beyond 2^20", UHAL_OP_FILL, NULL, cleared_beyond},
    {"iota/start in float", UHAL_OP_IOTA, iota_in_float, NULL},
    {"iota/int64 in double", UHAL_OP_IOTA, NULL, each_int64_in_double},
    {"triangular/negative diagonal", UHAL_OP_TRIANGULAR, negative_diagonal_ignored, NULL},
    {"triangular/beyond 2^20", UHAL_OP_TRIANGULAR, NULL, cleared_beyond},
    {"gather/int64 in double", UHAL_OP_GATHER, NULL, each_int64_in_double},
    {"gather/index wraps", UHAL_OP_GATHER, index_wraps, NULL},
    {"gather/index never wraps", UHAL_OP_GATHER, index_never_wraps, NULL},
    {"gather/index unchecked", UHAL_OP_GATHER, index_unchecked, NULL},
    {"gather/beyond 2^20", UHAL_OP_GATHER, NULL, cleared_beyond},
    {"scatter/first wins", UHAL_OP_SCATTER, first_update_wins, NULL},
    {"scatter/overwrites", UHAL_OP_SCATTER, updates_overwrite, NULL},
    {"scatter/int64 in double", UHAL_OP_SCATTER, NULL, each_int64_in_double},
    {"scatter_nd/first wins", UHAL_OP_SCATTER_ND, first_update_wins, NULL},
    {"reduce/int64 in double", UHAL_OP_REDUCE, NULL, sum_in_double},
    {"reduce/beyond 2^20", UHAL_OP_REDUCE, reduces_a_part, NULL},
    {"reduce/nan skipped", UHAL_OP_REDUCE, NULL, maximum_skips_nan},
    {"reduce/mean floored", UHAL_OP_REDUCE, NULL, mean_floored},
    {"reduce/first axis dense", UHAL_OP_REDUCE, first_axis_dense, NULL},
    {"arg_reduce/last of equals", UHAL_OP_ARG_REDUCE, from_the_end, argument_recounted},
    {"scan/exclusive", UHAL_OP_SCAN, exclusive_ignored, NULL},
    {"scan/log sum exp", UHAL_OP_SCAN, log_sum_exp_is_maximum, NULL},
    {"scan/int64 in double", UHAL_OP_SCAN, NULL, each_int64_in_double},
    {"scan/beyond 2^20", UHAL_OP_SCAN, NULL, cleared_beyond},
    {"sort/not stable", UHAL_OP_SORT, from_the_end, places_recounted},
    {"sort/int64 in double", UHAL_OP_SORT, NULL, each_int64_in_double},
    {"top_k/ties by higher index", UHAL_OP_TOP_K, from_the_end, places_recounted},
    {"matmul/fourth axis", UHAL_OP_MATMUL, fourth_axis_dense, NULL},
    {"matmul/fourth batch axis", UHAL_OP_MATMUL, fourth_batch_axis_dense, NULL},
    {"matmul/square transposed", UHAL_OP_MATMUL, square_transposed, NULL},
    {"matmul/alpha", UHAL_OP_MATMUL, alpha_ignored, NULL},
    {"matmul/beta", UHAL_OP_MATMUL, beta_ignored, NULL},
    {"matmul/int64 in double", UHAL_OP_MATMUL, NULL, each_int64_in_double},
    {"matmul/relu drops nan", UHAL_OP_MATMUL, NULL, relu_drops_nan},
    {"matmul/tf32 unasked", UHAL_OP_MATMUL, NULL, tf32_unasked},
    {"matmul/bfloat16 for tf32", UHAL_OP_MATMUL, NULL, bfloat16_for_tf32},
    {"convolution/relu drops nan", UHAL_OP_CONVOLUTION, NULL, relu_drops_nan},
    {"convolution/dilation", UHAL_OP_CONVOLUTION, dilation_ignored, NULL},
    {"convolution/padding swapped", UHAL_OP_CONVOLUTION, padding_swapped, NULL},
    {"convolution/groups mixed", UHAL_OP_CONVOLUTION, groups_mixed, NULL},
    {"convolution/filter flipped", UHAL_OP_CONVOLUTION, filter_flipped, NULL},
    {"pool/padding counts", UHAL_OP_POOL, padding_counts, NULL},
    {"pool/ceil mode", UHAL_OP_POOL, ceil_ignored, NULL},
    {"softmax/unguarded", UHAL_OP_SOFTMAX, NULL, softmax_unguarded},
    {"softmax/axis", UHAL_OP_SOFTMAX, softmax_of_last_axis, NULL},
    {"softmax/beyond 2^20", UHAL_OP_SOFTMAX, NULL, cleared_beyond},
    {"cross_entropy/ignore index", UHAL_OP_CROSS_ENTROPY, ignore_index_ignored, NULL},
    {"cross_entropy/weights", UHAL_OP_CROSS_ENTROPY, weights_ignored, NULL},
    {"batch_norm/epsilon", UHAL_OP_BATCH_NORM, epsilon_ignored, NULL},
    {"batch_norm/epsilon fixed", UHAL_OP_BATCH_NORM, epsilon_fixed, NULL},
    {"batch_norm/epsilon in inference", UHAL_OP_BATCH_NORM, inference_epsilon_ignored, NULL},
    {"batch_norm/momentum", UHAL_OP_BATCH_NORM, momentum_ignored, NULL},
    {"batch_norm/unbiased running", UHAL_OP_BATCH_NORM, unbiased_ignored, NULL},
    {"batch_norm/variance unbiased", UHAL_OP_BATCH_NORM, NULL, variance_unbiased},
    {"batch_norm/relu drops nan", UHAL_OP_BATCH_NORM, NULL, relu_drops_nan},
    {"batch_norm_backward/epsilon", UHAL_OP_BATCH_NORM_BACKWARD, epsilon_ignored, NULL},
    {"layer_norm/epsilon", UHAL_OP_LAYER_NORM, epsilon_ignored, NULL},
    {"layer_norm_backward/epsilon", UHAL_OP_LAYER_NORM_BACKWARD, epsilon_ignored, NULL},
    {"group_norm/epsilon", UHAL_OP_GROUP_NORM, epsilon_ignored, NULL},
    {"group_norm_backward/epsilon", UHAL_OP_GROUP_NORM_BACKWARD, epsilon_ignored, NULL},
    {"rms_norm/epsilon", UHAL_OP_RMS_NORM, epsilon_ignored, NULL},
    {"attention/mask", UHAL_OP_ATTENTION, mask_ignored, NULL},
    {"attention/scale", UHAL_OP_ATTENTION, scale_ignored, NULL},
    {"attention/causal", UHAL_OP_ATTENTION, causal_ignored, NULL},
    {"random/key cut", UHAL_OP_RANDOM, key_cut, NULL},
    {"random/counter cut", UHAL_OP_RANDOM, counter_cut, NULL},
    {"random/beyond 2^20", UHAL_OP_RANDOM, NULL, cleared_beyond},
    {"dropout/key cut", UHAL_OP_DROPOUT, key_cut, NULL},
    {"resize/half pixels", UHAL_OP_RESIZE, half_pixels_ignored, NULL},
    {"resize/scale", UHAL_OP_RESIZE, resize_scale_ignored, NULL},
    {"resize_backward/scale", UHAL_OP_RESIZE_BACKWARD, resize_scale_ignored, NULL},
    {"grid_sample/padding", UHAL_OP_GRID_SAMPLE, sample_padding_ignored, NULL},
    {"grid_sample_backward_data/corners", UHAL_OP_GRID_SAMPLE_BACKWARD_DATA, sample_corners_ignored, NULL},
    {"grid_sample_backward_grid/edges", UHAL_OP_GRID_SAMPLE_BACKWARD_GRID, sample_edges_ignored, NULL},
    {"grid_sample/cubic", UHAL_OP_GRID_SAMPLE, cubic_is_linear, NULL},
    {"grid_sample_backward_data/cubic", UHAL_OP_GRID_SAMPLE_BACKWARD_DATA, cubic_is_linear, NULL},
    {"grid_sample_backward_grid/cubic", UHAL_OP_GRID_SAMPLE_BACKWARD_GRID, cubic_is_linear, NULL},
    {"grid_sample/pixels", UHAL_OP_GRID_SAMPLE, sample_pixels_ignored, NULL},
    {"roi_align/aligned", UHAL_OP_ROI_ALIGN, roi_aligned_ignored, NULL},
    {"roi_align_backward/samples", UHAL_OP_ROI_ALIGN_BACKWARD, roi_samples_ignored, NULL},
    {"non_max_suppression/threshold", UHAL_OP_NON_MAX_SUPPRESSION, threshold_ignored, NULL},
    {"non_max_suppression/lists", UHAL_OP_NON_MAX_SUPPRESSION, lists_joined, NULL},
    {"non_max_suppression/decay", UHAL_OP_NON_MAX_SUPPRESSION, decay_ignored, NULL},
    {"non_max_suppression/extent", UHAL_OP_NON_MAX_SUPPRESSION, extent_ignored, NULL},
    {"non_max_suppression/ordered", UHAL_OP_NON_MAX_SUPPRESSION, order_ignored, NULL},
    {"roi_pool/scale", UHAL_OP_ROI_POOL, roi_scale_ignored, NULL},
    {"roi_pool_backward/scale", UHAL_OP_ROI_POOL_BACKWARD, roi_scale_ignored, NULL},
    {"fft/direction", UHAL_OP_FFT, direction_ignored, NULL},
    {"fft/normalization", UHAL_OP_FFT, normalization_ignored, NULL},
    {"fft/axes", UHAL_OP_FFT, axes_ignored, NULL},
    {"triangular_solve/triangle", UHAL_OP_TRIANGULAR_SOLVE, solve_triangle_exchanged, NULL},
    {"triangular_solve/unit diagonal", UHAL_OP_TRIANGULAR_SOLVE, unit_diagonal_ignored, NULL},
    {"triangular_solve/conjugate", UHAL_OP_TRIANGULAR_SOLVE, conjugation_ignored, NULL},
    {"cholesky/upper", UHAL_OP_CHOLESKY, upper_triangle_ignored, NULL},
    {"eigen_symmetric/upper", UHAL_OP_EIGEN_SYMMETRIC, upper_triangle_ignored, NULL},
    {"rnn/reverse", UHAL_OP_RNN, directions_ignored, NULL},
    {"rnn/clip", UHAL_OP_RNN, cell_clip_ignored, NULL},
    {"rnn_backward/reverse", UHAL_OP_RNN_BACKWARD, directions_ignored, NULL},
    {"ctc_loss/blank", UHAL_OP_CTC_LOSS, blank_ignored, NULL},
    {"ctc_loss/infinity", UHAL_OP_CTC_LOSS, infinity_ignored, NULL},
};

static const fault* fault_of(uhal_op_kind kind) {
  for (size_t i = 0; i < sizeof faults / sizeof *faults; ++i) {
    if (faults[i].kind == kind && is(faults[i].name)) return &faults[i];
  }
  return NULL;
}

/* -- streams ------------------------------------------------------------------------------------------------------- */

/* What uhal_backend_stream is here: one of the stub's streams, and a second one for what runs out of order. */
typedef struct stream {
  uhal_backend_stream* inner;
  uhal_backend_stream* side;
  /* Work that a fault holds back until the stream's next call. */
  int held;
  void* destination;
  const void* pattern;
  size_t pattern_bytes, bytes;
  const uhal_op* op;
} stream;

static stream* of(uhal_backend_stream* given) { return (stream*)given; }

/* Submits what was held back, and gives the stub's stream. */
static uhal_backend_stream* inner(uhal_backend_stream* given) {
  stream* s = of(given);
  int held = s->held;
  s->held = 0;
  if (held == 1) stub->fill(s->inner, s->destination, s->pattern, s->pattern_bytes, s->bytes);
  if (held == 2) stub->launch(s->inner, s->op);
  return s->inner;
}

static uhal_status stream_create(uhal_backend_device* device, uhal_stream* owner, uhal_backend_stream** made) {
  stream* s = calloc(1, sizeof *s);
  uhal_status status = stub->stream_create(device, owner, &s->inner);
  if (status == UHAL_OK) status = stub->stream_create(device, owner, &s->side);
  *made = (uhal_backend_stream*)s;
  return status;
}

static uhal_status stream_destroy(uhal_backend_stream* given) {
  uhal_status status = stub->stream_destroy(inner(given));
  if (status == UHAL_OK) status = stub->stream_destroy(of(given)->side);
  free(given);
  return status;
}

static uhal_status stream_query(uhal_backend_stream* given, int32_t* done) {
  int32_t side = 1;
  uhal_status status = stub->stream_query(inner(given), done);
  if (status == UHAL_OK) status = stub->stream_query(of(given)->side, &side);
  *done = is("streams/query") || (*done && side);
  return status;
}

static uhal_status stream_synchronize(uhal_backend_stream* given) {
  if (is("streams/synchronize")) return UHAL_OK;
  uhal_status status = stub->stream_synchronize(inner(given));
  uhal_status side = stub->stream_synchronize(of(given)->side);
  return status != UHAL_OK ? status : side;
}

static uhal_status stream_wait_event(uhal_backend_stream* given, uhal_backend_event* event);

static uhal_status launch(uhal_backend_stream* given, const uhal_op* op) {
  uhal_backend_stream* target = inner(given);
  if (is("launch/read later")) {
    of(given)->held = 2;
    of(given)->op = op;
    return UHAL_OK;
  }
  const fault* f = fault_of(op->kind);
  if (f == NULL) return stub->launch(target, op);
  changed_op changed;
  copy_op(&changed, op);
  if (f->before != NULL) f->before(&changed);
  uhal_status status = stub->launch(target, &changed.op);
  if (status == UHAL_OK && f->after != NULL) f->after(op);
  return status;
}

static uhal_status copy(uhal_backend_stream* given, void* destination, const void* source, size_t bytes,
                        uhal_copy_kind kind) {
  uhal_backend_stream* target = inner(given);
  if (is("copies/overtake") && kind == UHAL_COPY_DEVICE_TO_HOST) target = of(given)->side;
  if (is("copies/whole words") && kind == UHAL_COPY_DEVICE_TO_DEVICE) bytes = bytes / 4 * 4;
  return stub->copy(target, destination, source, bytes, kind);
}

static uhal_status fill(uhal_backend_stream* given, void* destination, const void* pattern, size_t pattern_bytes,
                        size_t bytes) {
  uhal_backend_stream* target = inner(given);
  if (is("fill/pattern read later")) {
    stream* s = of(given);
    s->held = 1;
    s->destination = destination;
    s->pattern = pattern;
    s->pattern_bytes = pattern_bytes;
    s->bytes = bytes;
    return UHAL_OK;
  }
  if (is("fill/half a pattern") && pattern_bytes == 16) pattern_bytes = 8;
  return stub->fill(target, destination, pattern, pattern_bytes, bytes);
}

static uhal_status host_callback(uhal_backend_stream* given, uhal_host_function function, void* user_data) {
  if (!is("streams/callback early")) return stub->host_callback(inner(given), function, user_data);
  function(user_data);
  return UHAL_OK;
}

/* -- events -------------------------------------------------------------------------------------------------------- */

/* What uhal_backend_event is here: one of the stub's, with the time at which it was last recorded. */
typedef struct event {
  uhal_backend_event* inner;
  struct timespec recorded;
} event;

static uhal_backend_event* stubs(uhal_backend_event* given) { return ((event*)given)->inner; }

static uhal_status event_create(uhal_backend_device* device, uhal_backend_event** made) {
  event* e = calloc(1, sizeof *e);
  *made = (uhal_backend_event*)e;
  return stub->event_create(device, &e->inner);
}

static uhal_status event_destroy(uhal_backend_event* given) {
  uhal_status status = stub->event_destroy(stubs(given));
  free(given);
  return status;
}

static uhal_status event_record(uhal_backend_event* given, uhal_backend_stream* on) {
  uhal_backend_stream* target = inner(on);
  clock_gettime(CLOCK_MONOTONIC, &((event*)given)->recorded);
  return stub->event_record(stubs(given), is("events/record overtakes") ? of(on)->side : target);
}

static uhal_status event_query(uhal_backend_event* given, int32_t* done) {
  uhal_status status = stub->event_query(stubs(given), done);
  if (is("events/query")) *done = 1;
  return status;
}

static uhal_status event_synchronize(uhal_backend_event* given) {
  return is("events/synchronize") ? UHAL_OK : stub->event_synchronize(stubs(given));
}

static uhal_status event_elapsed(uhal_backend_event* start, uhal_backend_event* end, int64_t* nanoseconds) {
  uhal_status status = stub->event_elapsed(stubs(start), stubs(end), nanoseconds);
  const struct timespec *from = &((event*)start)->recorded, *to = &((event*)end)->recorded;
  if (is("events/elapsed a thousandth")) *nanoseconds /= 1000;
  if (is("events/elapsed a thousandfold")) *nanoseconds *= 1000;
  if (is("events/elapsed constant")) *nanoseconds = 1000000;
  if (is("events/elapsed at submission")) {
    *nanoseconds = (to->tv_sec - from->tv_sec) * 1000000000LL + to->tv_nsec - from->tv_nsec;
  }
  return status;
}

static uhal_status stream_wait_event(uhal_backend_stream* given, uhal_backend_event* event) {
  if (is("events/wait")) return UHAL_OK;
  return stub->stream_wait_event(inner(given), stubs(event));
}

/* -- memory -------------------------------------------------------------------------------------------------------- */

enum { SHIFT = 64 };
static int memory_at_fault;

static uhal_status allocate(uhal_backend_device* device, uhal_memory_kind kind, size_t bytes, void** pointer) {
  static char* last;
  static size_t last_bytes;
  uhal_status status = stub->allocate(device, kind, bytes + 4096, pointer);
  if (status != UHAL_OK) return status;
  if (is("memory/aligned to 64")) *pointer = (char*)*pointer + SHIFT;
  if (is("memory/handed out twice") && kind == UHAL_MEMORY_DEVICE) {
    if (last != NULL && last_bytes >= bytes) *pointer = last;
    last = *pointer;
    last_bytes = bytes;
  }
  return status;
}

/* After a fault of memory an address may not be the stub's: nothing is given back. */
static uhal_status free_memory(uhal_backend_device* device, uhal_memory_kind kind, void* pointer, size_t bytes) {
  return memory_at_fault ? UHAL_OK : stub->free(device, kind, pointer, bytes + 4096);
}

/* -- collectives --------------------------------------------------------------------------------------------------- */

enum { MOST_RANKS = 8, MOST_COLLECTIVES = 8 };

static uhal_collective changed_collective(const uhal_collective* given) {
  uhal_collective c = *given;
  if (is("collectives/average") && c.reduction == UHAL_REDUCTION_AVERAGE) c.reduction = UHAL_REDUCTION_SUM;
  if (is("collectives/product") && c.reduction == UHAL_REDUCTION_PRODUCT) c.reduction = UHAL_REDUCTION_SUM;
  if (is("collectives/minimum") && c.reduction == UHAL_REDUCTION_MINIMUM) c.reduction = UHAL_REDUCTION_MAXIMUM;
  if (is("collectives/signed") && c.dtype == UHAL_UINT64) c.dtype = UHAL_INT64;
  if (is("collectives/root") && c.kind == UHAL_BROADCAST) c.peer = 0;
  if (is("collectives/beyond 2^20") && c.count > LARGE) c.count = LARGE;
  return c;
}

static uhal_status launch_collectives(const uhal_collective_batch* batches, int32_t count) {
  const uhal_collectives* stubs_own = stub->extension(UHAL_COLLECTIVES_NAME, UHAL_COLLECTIVES_VERSION);
  uhal_collective_batch changed[MOST_RANKS];
  uhal_collective collectives[MOST_RANKS][MOST_COLLECTIVES];
  const uhal_collective* pointers[MOST_RANKS][MOST_COLLECTIVES];
  if (count > MOST_RANKS) return UHAL_INTERNAL;
  for (int32_t i = 0; i < count; ++i) {
    if (batches[i].count > MOST_COLLECTIVES) return UHAL_INTERNAL;
    uhal_backend_stream* target = inner(batches[i].stream);
    changed[i] = batches[i];
    changed[i].stream = is("collectives/overtake") ? of(batches[i].stream)->side : target;
    changed[i].collectives = pointers[i];
    for (int32_t j = 0; j < batches[i].count; ++j) {
      collectives[i][j] = changed_collective(batches[i].collectives[j]);
      pointers[i][j] = &collectives[i][j];
    }
  }
  return stubs_own->launch(changed, count);
}

/* Of the stub's extensions the one that knows of our streams. */
static const void* extension(const char* name, uint32_t version) {
  static uhal_collectives collectives;
  if (strcmp(name, UHAL_COLLECTIVES_NAME) != 0 || version != UHAL_COLLECTIVES_VERSION) return NULL;
  collectives = *(const uhal_collectives*)stub->extension(name, version);
  collectives.launch = launch_collectives;
  return &collectives;
}

/* -- the library --------------------------------------------------------------------------------------------------- */

#define EXPORTED __attribute__((visibility("default")))

EXPORTED int mutant_select(const char* name);
EXPORTED const uhal_backend* uhal_backend_query(const uhal_host* services, uint32_t abi_major);

int mutant_select(const char* name) {
  if (strlen(name) >= sizeof selected) return -1;
  strcpy(selected, name);
  if (strncmp(name, "memory/", 7) == 0) memory_at_fault = 1;
  return 0;
}

const uhal_backend* uhal_backend_query(const uhal_host* services, uint32_t abi_major) {
  void* library = dlopen(getenv("MUTANT_STUB"), RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "mutant: %s\n", dlerror());
    return NULL;
  }
  const uhal_backend* (*query)(const uhal_host*, uint32_t);
  *(void**)&query = dlsym(library, "uhal_backend_query");
  stub = query(services, abi_major);
  if (stub == NULL) return NULL;
  memcpy(&table, stub, sizeof table < stub->struct_size ? sizeof table : stub->struct_size);
  table.name = "mutant";
  table.allocate = allocate;
  table.free = free_memory;
  table.stream_create = stream_create;
  table.stream_destroy = stream_destroy;
  table.stream_query = stream_query;
  table.stream_synchronize = stream_synchronize;
  table.stream_wait_event = stream_wait_event;
  table.event_create = event_create;
  table.event_destroy = event_destroy;
  table.event_record = event_record;
  table.event_query = event_query;
  table.event_synchronize = event_synchronize;
  table.event_elapsed = event_elapsed;
  table.copy = copy;
  table.fill = fill;
  table.launch = launch;
  table.host_callback = host_callback;
  table.extension = extension;
  return &table;
}
