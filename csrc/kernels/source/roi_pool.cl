/* Pools of whole pixels over bins of regions, and their gradient (csrc/kernels/ops/roi_pool.cc). Both gather.
 *
 * Macros: UHAL_WIDE_INDEX; dtypes X (of dx too), BOXES, Y (of dy too) and INDICES; MODE, a uhal_roi_pool_mode;
 * WITH_INDICES: there are indices; OF_ and what is compiled. */

typedef struct {
  INDEX count; /* work-items */
  INDEX channels; /* of y */
  INDEX images;
  INDEX lengths[2]; /* of x: down, across */
  INDEX boxes;
  INDEX bins[2]; /* of y: rows, columns */
  INDEX x_strides[4];
  INDEX y_strides[4];
  INDEX indices_strides[4];
  INDEX box_strides[2];
  INDEX images_stride;
} Plan;

/* A box along an axis: bin b is from start + b * bin to start + (b + 1) * bin, rounded outwards to whole pixels. */
typedef struct {
  T start;
  T size;
} Axis;

/* Rounded half away from 0, within what integers hold; 0 of NaN. */
UHAL_INLINE T rounded(T v) { return v != v ? C(0) : v > C(1e9) ? C(1e9) : v < C(-1e9) ? C(-1e9) : round(v); }

UHAL_INLINE Axis axis_of(T scale, T low, T high) {
  Axis axis;
#if MODE == 0
  axis.start = rounded(low * scale);
  axis.size = rounded(high * scale) - axis.start + 1;
  if (axis.size < 1) axis.size = 1;
#else
  axis.start = rounded(low) * scale;
  axis.size = (rounded(high) + 1) * scale - axis.start;
  if (axis.size < C(0.1)) axis.size = C(0.1);
#endif
  return axis;
}

UHAL_INLINE INDEX cut(T place, INDEX length) { return place > 0 ? (place < (T)length ? (INDEX)place : length) : 0; }

/* The pixels of bin b: *begin to *end - 1. */
UHAL_INLINE void pixels_of(Axis axis, INDEX bins, INDEX length, INDEX b, INDEX* begin, INDEX* end) {
#if MODE == 0
  const int64 size = (int64)axis.size, start = (int64)axis.start;
  const int64 from = start + b * size / bins, to = start + ((b + 1) * size + bins - 1) / bins;
  *begin = from > 0 ? (from < length ? (INDEX)from : length) : 0;
  *end = to > 0 ? (to < length ? (INDEX)to : length) : 0;
#else
  const T bin = axis.size / (T)bins;
  *begin = cut(floor((T)b * bin + axis.start), length);
  *end = cut(ceil((T)(b + 1) * bin + axis.start), length);
#endif
}

/* x, boxes, images -> y, indices. A work-item has an element of y. */
#ifdef OF_FORWARD
UHAL_KERNEL void roi_pool(UHAL_POINTER(x), UHAL_POINTER(boxes), UHAL_POINTER(images), UHAL_POINTER(y),
                          UHAL_POINTER(indices), Plan plan, T scale) {
  UHAL_GLOBAL const X_STORAGE* x = UHAL_ADDRESS(const X_STORAGE, x);
  UHAL_GLOBAL const BOXES_STORAGE* boxes = UHAL_ADDRESS(const BOXES_STORAGE, boxes);
  UHAL_GLOBAL Y_STORAGE* y = UHAL_ADDRESS(Y_STORAGE, y);
  UHAL_FOR_ITEMS(i, plan.count) {
    INDEX rest = i;
    const INDEX column = rest % plan.bins[1];
    rest /= plan.bins[1];
    const INDEX row = rest % plan.bins[0];
    rest /= plan.bins[0];
    const INDEX channel = rest % plan.channels;
    const INDEX box = rest / plan.channels;
    const INDEX image = UHAL_ADDRESS(const int32, images)[box * plan.images_stride];
    T result = 0;
    INDEX found = -1;
    if (image >= 0 && image < plan.images) {
      const INDEX corner = box * plan.box_strides[0], step = plan.box_strides[1];
      const Axis across = axis_of(scale, BOXES_LOAD(boxes, corner), BOXES_LOAD(boxes, corner + 2 * step));
      const Axis down = axis_of(scale, BOXES_LOAD(boxes, corner + step), BOXES_LOAD(boxes, corner + 3 * step));
      INDEX top, bottom, left, right;
      pixels_of(down, plan.bins[0], plan.lengths[0], row, &top, &bottom);
      pixels_of(across, plan.bins[1], plan.lengths[1], column, &left, &right);
#if MODE == 0
      const INDEX from = image * plan.x_strides[0] + channel * plan.x_strides[1];
      const int32 is_empty = bottom <= top || right <= left;
      result = is_empty ? C(0) : -C(INFINITY);
#else
      const INDEX from = image * plan.x_strides[0] +
                         ((channel * plan.bins[0] + row) * plan.bins[1] + column) * plan.x_strides[1];
#endif
      for (INDEX h = top; h < bottom; ++h) {
        for (INDEX w = left; w < right; ++w) {
          const T value = X_LOAD(x, from + h * plan.x_strides[2] + w * plan.x_strides[3]);
#if MODE == 0
          if (value > result) {
            result = value;
            found = h * plan.lengths[1] + w;
          }
#else
          result += value;
#endif
        }
      }
#if MODE != 0
      if (bottom > top && right > left) result /= (T)((bottom - top) * (right - left));
#endif
    }
    Y_STORE(y, box * plan.y_strides[0] + channel * plan.y_strides[1] + row * plan.y_strides[2] + column * plan.y_strides[3],
            result);
#if WITH_INDICES
    UHAL_ADDRESS(INDICES_STORAGE, indices)[box * plan.indices_strides[0] + channel * plan.indices_strides[1] +
        row * plan.indices_strides[2] + column * plan.indices_strides[3]] = (INDICES_STORAGE)found;
#endif
  }
}
#endif

/* dy, boxes, images, indices -> dx. A work-item has an element of dx; boxes come in their order. */
#ifdef OF_BACKWARD
UHAL_KERNEL void roi_pool_backward(UHAL_POINTER(dy), UHAL_POINTER(boxes), UHAL_POINTER(images), UHAL_POINTER(indices),
                                   UHAL_POINTER(dx), Plan plan, T scale) {
  UHAL_GLOBAL const Y_STORAGE* dy = UHAL_ADDRESS(const Y_STORAGE, dy);
  UHAL_GLOBAL const BOXES_STORAGE* boxes = UHAL_ADDRESS(const BOXES_STORAGE, boxes);
  UHAL_GLOBAL X_STORAGE* dx = UHAL_ADDRESS(X_STORAGE, dx);
  UHAL_FOR_ITEMS(i, plan.count) {
    const INDEX planes = MODE == 0 ? plan.channels : plan.channels * plan.bins[0] * plan.bins[1];
    INDEX rest = i;
    const INDEX w = rest % plan.lengths[1];
    rest /= plan.lengths[1];
    const INDEX h = rest % plan.lengths[0];
    rest /= plan.lengths[0];
    const INDEX plane = rest % planes;
    const INDEX image = rest / planes;
#if MODE == 0
    const INDEX channel = plane, first_row = 0, last_row = plan.bins[0], first_column = 0, last_column = plan.bins[1];
#else
    const INDEX channel = plane / (plan.bins[0] * plan.bins[1]);
    const INDEX first_row = plane / plan.bins[1] % plan.bins[0], last_row = first_row + 1;
    const INDEX first_column = plane % plan.bins[1], last_column = first_column + 1;
#endif
    T sum = 0;
    for (INDEX box = 0; box < plan.boxes; ++box) {
      if (UHAL_ADDRESS(const int32, images)[box * plan.images_stride] != image) continue;
      const INDEX corner = box * plan.box_strides[0], step = plan.box_strides[1];
      const Axis across = axis_of(scale, BOXES_LOAD(boxes, corner), BOXES_LOAD(boxes, corner + 2 * step));
      const Axis down = axis_of(scale, BOXES_LOAD(boxes, corner + step), BOXES_LOAD(boxes, corner + 3 * step));
      for (INDEX row = first_row; row < last_row; ++row) {
        INDEX top, bottom;
        pixels_of(down, plan.bins[0], plan.lengths[0], row, &top, &bottom);
        if (h < top || h >= bottom) continue;
        for (INDEX column = first_column; column < last_column; ++column) {
          INDEX left, right;
          pixels_of(across, plan.bins[1], plan.lengths[1], column, &left, &right);
          if (w < left || w >= right) continue;
          const T gradient = Y_LOAD(dy, box * plan.y_strides[0] + channel * plan.y_strides[1] +
                                            row * plan.y_strides[2] + column * plan.y_strides[3]);
#if MODE == 0
          const INDEX at = box * plan.indices_strides[0] + channel * plan.indices_strides[1] +
                           row * plan.indices_strides[2] + column * plan.indices_strides[3];
          if ((INDEX)UHAL_ADDRESS(const INDICES_STORAGE, indices)[at] == h * plan.lengths[1] + w) sum += gradient;
#else
          sum += gradient / (T)((bottom - top) * (right - left));
#endif
        }
      }
    }
    X_STORE(dx, image * plan.x_strides[0] + plane * plan.x_strides[1] + h * plan.x_strides[2] + w * plan.x_strides[3], sum);
  }
}
#endif
