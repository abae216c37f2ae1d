/* Means of bins of regions, and their gradient (csrc/kernels/ops/roi_align.cc). Both gather.
 *
 * Macros: UHAL_WIDE_INDEX; dtypes X (of dx too), BOXES and Y (of dy too); OF_ and what is compiled; CHANNELS: the share
 * of a work-item. */

typedef struct {
  INDEX count;    /* work-items */
  INDEX channels;
  INDEX images;
  INDEX lengths[2]; /* of x: down, across */
  INDEX boxes;
  INDEX bins[2]; /* of y: rows, columns */
  INDEX samples; /* as in the attributes */
  INDEX aligned;
  INDEX x_strides[4];
  INDEX y_strides[4];
  INDEX box_strides[2];
  INDEX images_stride;
} Plan;

#define MOST_SAMPLES 1048576

/* A box along an axis: bin b's sample s lies at start + b * bin + (s + 1/2) * bin / samples. */
typedef struct {
  T start;
  T bin;
  INDEX samples;
} Axis;

UHAL_INLINE Axis axis_of(Plan plan, T scale, T low, T high, INDEX bins) {
  const T offset = plan.aligned ? C(0.5) : C(0);
  const T count = (T)bins;
  Axis axis;
  axis.start = low * scale - offset;
  T size = high * scale - offset - axis.start;
  if (!plan.aligned && size < 1) size = 1;
  axis.bin = size / count;
  axis.samples = plan.samples;
  if (plan.samples == 0) { /* ceil(size / bins), whatever the quotient's rounding; none of what is no number */
    T most = ceil(axis.bin);
    if ((most - 1) * count >= size) most -= 1;
    if (most * count < size) most += 1;
    axis.samples = most > 0 ? (most < MOST_SAMPLES ? (INDEX)most : MOST_SAMPLES) : 0;
  }
  return axis;
}

/* The samples of a bin that may lie from `low` to `high`: numbers *begin to *end - 1. */
UHAL_INLINE void samples_within(Axis axis, INDEX bin, T low, T high, INDEX* begin, INDEX* end) {
  const T most = (T)axis.samples;
  const T step = axis.bin / most;
  *begin = 0;
  *end = step <= 0 ? axis.samples : 0;
  if (step > 0) {
    const T origin = axis.start + (T)bin * axis.bin + step / 2;
    const T first = floor((low - origin) / step) - 1;
    const T last = ceil((high - origin) / step) + 2;
    if (first <= last) {
      *begin = first > 0 ? (first < most ? (INDEX)first : axis.samples) : 0;
      *end = last > 0 ? (last < most ? (INDEX)last : axis.samples) : 0;
    }
  }
}

/* What a sample reads along an axis: the pixel `first` (-1: the sample lies outside) and, unless `fraction` is 0, the
 * next one. */
typedef struct {
  INDEX first;
  T fraction;
} Sample;

UHAL_INLINE Sample sample_of(Axis axis, INDEX length, INDEX bin, INDEX number) {
  Sample sample;
  T at = axis.start + (T)bin * axis.bin + ((T)number + C(0.5)) * axis.bin / (T)axis.samples;
  sample.first = -1;
  sample.fraction = 0;
  if (at >= -1 && at <= (T)length) {
    at = at > 0 ? at : C(0);
    sample.first = (INDEX)at;
    if (sample.first >= length - 1) {
      sample.first = length - 1; /* -1 where there is no pixel */
    } else {
      sample.fraction = at - (T)sample.first;
    }
  }
  return sample;
}

UHAL_INLINE T share_of_mean(Axis down, Axis across) {
  const T count = (T)down.samples * (T)across.samples;
  return count > 1 ? 1 / count : C(1);
}

/* x, boxes, images -> y. A work-item has CHANNELS channels of a bin. */
#ifdef OF_FORWARD
UHAL_KERNEL void roi_align(UHAL_POINTER(x), UHAL_POINTER(boxes), UHAL_POINTER(images), UHAL_POINTER(y), Plan plan,
                           T scale) {
  UHAL_GLOBAL const X_STORAGE* x = UHAL_ADDRESS(const X_STORAGE, x);
  UHAL_GLOBAL const BOXES_STORAGE* boxes = UHAL_ADDRESS(const BOXES_STORAGE, boxes);
  UHAL_GLOBAL Y_STORAGE* y = UHAL_ADDRESS(Y_STORAGE, y);
  UHAL_FOR_ITEMS(i, plan.count) {
    const INDEX shares = (plan.channels + CHANNELS - 1) / CHANNELS;
    /* Neighbours have the next bins or, where a share is one channel, the next channels. */
    const INDEX bins = plan.bins[0] * plan.bins[1];
    INDEX rest = CHANNELS == 1 ? i / shares : i;
    const INDEX bin = rest % bins;
    rest /= bins;
    const INDEX share = CHANNELS == 1 ? i % shares : rest % shares;
    const INDEX box = CHANNELS == 1 ? rest : rest / shares;
    const INDEX row = bin / plan.bins[1];
    const INDEX column = bin - row * plan.bins[1];
    const INDEX image = UHAL_ADDRESS(const int32, images)[box * plan.images_stride];
    T sums[CHANNELS];
    for (int32 c = 0; c < CHANNELS; ++c) sums[c] = 0;
    T part = 0;
    if (image >= 0 && image < plan.images) {
      const INDEX corners = box * plan.box_strides[0];
      const INDEX step = plan.box_strides[1];
      const Axis across =
          axis_of(plan, scale, BOXES_LOAD(boxes, corners), BOXES_LOAD(boxes, corners + 2 * step), plan.bins[1]);
      const Axis down =
          axis_of(plan, scale, BOXES_LOAD(boxes, corners + step), BOXES_LOAD(boxes, corners + 3 * step), plan.bins[0]);
      part = share_of_mean(down, across);
      const INDEX from = image * plan.x_strides[0] + share * CHANNELS * plan.x_strides[1];
      INDEX first_y, last_y, first_x, last_x;
      samples_within(down, row, C(-1), (T)plan.lengths[0], &first_y, &last_y);
      samples_within(across, column, C(-1), (T)plan.lengths[1], &first_x, &last_x);
      for (INDEX sy = first_y; sy < last_y; ++sy) {
        const Sample at_y = sample_of(down, plan.lengths[0], row, sy);
        if (at_y.first < 0) continue;
        for (INDEX sx = first_x; sx < last_x; ++sx) {
          const Sample at_x = sample_of(across, plan.lengths[1], column, sx);
          if (at_x.first < 0) continue;
          for (int32 tap = 0; tap < 4; ++tap) {
            const T weight_y = tap & 2 ? at_y.fraction : 1 - at_y.fraction;
            const T weight_x = tap & 1 ? at_x.fraction : 1 - at_x.fraction;
            if ((tap & 2 && at_y.fraction == 0) || (tap & 1 && at_x.fraction == 0)) continue;
            const INDEX pixel = from + (at_y.first + (tap >> 1)) * plan.x_strides[2] +
                                (at_x.first + (tap & 1)) * plan.x_strides[3];
            for (int32 c = 0; c < CHANNELS; ++c) {
              if (share * CHANNELS + c < plan.channels) {
                sums[c] += weight_y * weight_x * X_LOAD(x, pixel + c * plan.x_strides[1]);
              }
            }
          }
        }
      }
    }
    const INDEX to = box * plan.y_strides[0] + share * CHANNELS * plan.y_strides[1] + row * plan.y_strides[2] +
                     column * plan.y_strides[3];
    for (int32 c = 0; c < CHANNELS; ++c) {
      if (share * CHANNELS + c < plan.channels) Y_STORE(y, to + c * plan.y_strides[1], sums[c] * part);
    }
  }
}
#endif

#ifdef OF_BACKWARD
/* Between which places a sample reads pixel i. */
UHAL_INLINE T before(INDEX i) { return i == 0 ? C(-1) : (T)(i - 1); }
UHAL_INLINE T after(INDEX i, INDEX length) { return i == length - 1 ? (T)length : (T)(i + 1); }

/* The bins that may read pixel i: *begin to *end - 1. */
UHAL_INLINE void readers_of(Axis axis, INDEX bins, INDEX length, INDEX i, INDEX* begin, INDEX* end) {
  *begin = 0;
  *end = axis.samples > 0 ? bins : 0;
  if (axis.bin > 0) {
    const T most = (T)bins;
    const T first = floor((before(i) - axis.start) / axis.bin) - 1;
    const T last = floor((after(i, length) - axis.start) / axis.bin) + 2;
    if (first > 0) *begin = first < most ? (INDEX)first : bins;
    if (last < most) *end = last > 0 ? (INDEX)last : 0;
  }
}

/* What pixel i weighs in a bin. */
UHAL_INLINE T weight_of(Axis axis, INDEX length, INDEX bin, INDEX i) {
  INDEX begin, end;
  samples_within(axis, bin, before(i), after(i, length), &begin, &end);
  T sum = 0;
  for (INDEX s = begin; s < end; ++s) {
    const Sample sample = sample_of(axis, length, bin, s);
    if (sample.first < 0) continue;
    if (sample.first == i) sum += 1 - sample.fraction;
    if (sample.first + 1 == i) sum += sample.fraction;
  }
  return sum;
}

/* dy, boxes, images -> dx. A work-item has CHANNELS channels of a pixel; boxes come in their order. */
UHAL_KERNEL void roi_align_backward(UHAL_POINTER(dy), UHAL_POINTER(boxes), UHAL_POINTER(images), UHAL_POINTER(dx),
                                    Plan plan, T scale) {
  UHAL_GLOBAL const Y_STORAGE* dy = UHAL_ADDRESS(const Y_STORAGE, dy);
  UHAL_GLOBAL const BOXES_STORAGE* boxes = UHAL_ADDRESS(const BOXES_STORAGE, boxes);
  UHAL_GLOBAL X_STORAGE* dx = UHAL_ADDRESS(X_STORAGE, dx);
  UHAL_FOR_ITEMS(i, plan.count) {
    const INDEX shares = (plan.channels + CHANNELS - 1) / CHANNELS;
    const INDEX pixels = plan.lengths[0] * plan.lengths[1];
    INDEX rest = CHANNELS == 1 ? i / shares : i;
    const INDEX pixel = rest % pixels;
    rest /= pixels;
    const INDEX share = CHANNELS == 1 ? i % shares : rest % shares;
    const INDEX image = CHANNELS == 1 ? rest : rest / shares;
    const INDEX at_y = pixel / plan.lengths[1];
    const INDEX at_x = pixel - at_y * plan.lengths[1];
    T sums[CHANNELS];
    for (int32 c = 0; c < CHANNELS; ++c) sums[c] = 0;
    for (INDEX box = 0; box < plan.boxes; ++box) {
      if (UHAL_ADDRESS(const int32, images)[box * plan.images_stride] != image) continue;
      const INDEX corners = box * plan.box_strides[0];
      const INDEX step = plan.box_strides[1];
      INDEX row, last_row, first_column, last_column;
      const Axis down =
          axis_of(plan, scale, BOXES_LOAD(boxes, corners + step), BOXES_LOAD(boxes, corners + 3 * step), plan.bins[0]);
      readers_of(down, plan.bins[0], plan.lengths[0], at_y, &row, &last_row);
      if (row >= last_row) continue;
      const Axis across =
          axis_of(plan, scale, BOXES_LOAD(boxes, corners), BOXES_LOAD(boxes, corners + 2 * step), plan.bins[1]);
      readers_of(across, plan.bins[1], plan.lengths[1], at_x, &first_column, &last_column);
      if (first_column >= last_column) continue;
      const T part = share_of_mean(down, across);
      for (; row < last_row; ++row) {
        const T weight_y = weight_of(down, plan.lengths[0], row, at_y);
        if (weight_y == 0) continue;
        for (INDEX column = first_column; column < last_column; ++column) {
          const T weight_x = weight_of(across, plan.lengths[1], column, at_x);
          if (weight_x == 0) continue;
          const INDEX from = box * plan.y_strides[0] + share * CHANNELS * plan.y_strides[1] + row * plan.y_strides[2] +
                             column * plan.y_strides[3];
          for (int32 c = 0; c < CHANNELS; ++c) {
            if (share * CHANNELS + c < plan.channels) {
              sums[c] += weight_y * weight_x * part * Y_LOAD(dy, from + c * plan.y_strides[1]);
            }
          }
        }
      }
    }
    const INDEX to = image * plan.x_strides[0] + share * CHANNELS * plan.x_strides[1] + at_y * plan.x_strides[2] +
                     at_x * plan.x_strides[3];
    for (int32 c = 0; c < CHANNELS; ++c) {
      if (share * CHANNELS + c < plan.channels) X_STORE(dx, to + c * plan.x_strides[1], sums[c]);
    }
  }
}
#endif
