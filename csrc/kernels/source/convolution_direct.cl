/* Convolutions without a matrix product: where groups are too small for one (depthwise), and for whatever shapes and
 * strides no other kernel takes. Macros: HAS_BIAS, UHAL_ACTIVATION, the dtypes FILTER, SOURCE, BIAS, RESULT;
 *   TRANSPOSED   the source is the gradient of a convolution's result, and the result that of its input: pixel i takes
 *                the tap t from pixel (i + pad - t * dilation) / stride of the source, where that is whole */
#include "csrc/kernels/prelude/map_functions.h"

typedef struct {
  INDEX channels; /* of the source, per group */
  INDEX rows;     /* channels of the result per group */
  INDEX all_rows; /* in all groups */
  INDEX input[3], window[3], output[3]; /* input: of the source; output: of the result */
  INDEX stride[3], pad[3], dilation[3];
  INDEX tap_step[3], at_step[3]; /* TRANSPOSED: from one tap that meets a pixel to the next, and that pixel's distance */
  INDEX source_stride[5], filter_stride[5], result_stride[5]; /* image or row, channel, spatial axes */
  INDEX source_group_stride, filter_group_stride, result_group_stride, bias_stride;
  INDEX channels_last; /* the result's neighbours in memory are channels */
  INDEX count;         /* elements of the result */
} Problem;

/* The taps of a window along one axis: tap, tap + tap_step, ..., which see at, at + at_step, ... */
typedef struct {
  INDEX tap, tap_step;
  INDEX at, at_step;
} Taps;

UHAL_INLINE Taps taps_of(INDEX output, INDEX window, INDEX stride, INDEX pad, INDEX dilation, INDEX tap_step,
                         INDEX at_step) {
  Taps taps;
#if TRANSPOSED
  INDEX reach = output + pad;
  taps.tap = 0;
  while (taps.tap < window && reach % stride != 0) {
    ++taps.tap;
    reach -= dilation;
  }
  taps.tap_step = tap_step;
  taps.at = reach / stride;
  taps.at_step = at_step;
#else
  taps.tap = 0;
  taps.tap_step = 1;
  taps.at = output * stride - pad;
  taps.at_step = dilation;
#endif
  return taps;
}

#define TAPS(axis, output)                                                                                   \
  taps_of(output, problem.window[axis], problem.stride[axis], problem.pad[axis], problem.dilation[axis],     \
          problem.tap_step[axis], problem.at_step[axis])

/* Walks over the taps of an axis that lie in the image; declares the tap and its pixel. */
#define FOR_TAPS(axis, taps, tap_name, at_name)                                                                   \
  for (INDEX tap_name = taps.tap, at_name = taps.at; tap_name < problem.window[axis];                             \
       tap_name += taps.tap_step, at_name += taps.at_step)                                                        \
    if (at_name >= 0 && at_name < problem.input[axis])

UHAL_KERNEL void convolution_direct(UHAL_POINTER(filter), UHAL_POINTER(source), UHAL_POINTER(bias),
                                    UHAL_POINTER(result), Problem problem) {
  UHAL_GLOBAL const FILTER_STORAGE* const filter_data = UHAL_ADDRESS(const FILTER_STORAGE, filter);
  UHAL_GLOBAL const SOURCE_STORAGE* const source_data = UHAL_ADDRESS(const SOURCE_STORAGE, source);
  UHAL_GLOBAL RESULT_STORAGE* const result_data = UHAL_ADDRESS(RESULT_STORAGE, result);
  UHAL_FOR_ITEMS(i, problem.count) {
    INDEX rest = i;
    INDEX channel = 0;
    if (problem.channels_last) {
      const INDEX next = rest / problem.all_rows;
      channel = rest - next * problem.all_rows;
      rest = next;
    }
    INDEX at[3];
    UHAL_UNROLL for (int32 axis = 2; axis >= 0; --axis) {
      const INDEX next = rest / problem.output[axis];
      at[axis] = rest - next * problem.output[axis];
      rest = next;
    }
    if (!problem.channels_last) {
      const INDEX next = rest / problem.all_rows;
      channel = rest - next * problem.all_rows;
      rest = next;
    }
    const INDEX group = channel / problem.rows;
    const INDEX row = channel - group * problem.rows;
    const Taps planes = TAPS(0, at[0]);
    const Taps lines = TAPS(1, at[1]);
    const Taps columns = TAPS(2, at[2]);
    INDEX from = rest * problem.source_stride[0] + group * problem.source_group_stride;
    INDEX weights = row * problem.filter_stride[0] + group * problem.filter_group_stride;
    T sum = 0;
    for (INDEX c = 0; c < problem.channels; ++c) {
      FOR_TAPS(0, planes, tap_z, z) {
        FOR_TAPS(1, lines, tap_y, y) {
          const INDEX line = from + z * problem.source_stride[2] + y * problem.source_stride[3];
          const INDEX weight_line = weights + tap_z * problem.filter_stride[2] + tap_y * problem.filter_stride[3];
          FOR_TAPS(2, columns, tap_x, x) {
            sum += SOURCE_LOAD(source_data, line + x * problem.source_stride[4]) *
                   FILTER_LOAD(filter_data, weight_line + tap_x * problem.filter_stride[4]);
          }
        }
      }
      from += problem.source_stride[1];
      weights += problem.filter_stride[1];
    }
#if HAS_BIAS
    sum += BIAS_LOAD(UHAL_ADDRESS(const BIAS_STORAGE, bias), channel * problem.bias_stride);
#endif
    const INDEX to = rest * problem.result_stride[0] + group * problem.result_group_stride +
                     row * problem.result_stride[1] + at[0] * problem.result_stride[2] +
                     at[1] * problem.result_stride[3] + at[2] * problem.result_stride[4];
    RESULT_STORE(result_data, to, uhal_activate(sum));
  }
}
