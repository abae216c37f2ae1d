/* Sampling of images at given places, and its gradients (csrc/kernels/ops/grid_sample.cc).
 *
 * Macros: UHAL_WIDE_INDEX; dtypes X (of dx too), GRID, DGRID and Y (of dy too); AXES, 2 or 3 spatial axes; MODE, a
 * uhal_grid_sample_mode; WITH_IMAGES: grids name the images that they sample; OF_ and what is compiled; CHANNELS: the share of add_taps. */

/* The views. Strides of images are those of N, C and the spatial axes, of grids those of N, y's spatial axes and the
 * coordinates. */
typedef struct {
  INDEX count;    /* work-items */
  INDEX share;    /* channels of a work-item */
  INDEX places;   /* pixels of all images of y, without channels */
  INDEX channels;
  INDEX pixels;   /* of an image of x */
  INDEX padding;  /* a uhal_grid_sample_padding; this and what follows as in the attributes */
  INDEX align_corners;
  INDEX edge_gradient;
  INDEX in_pixels;
  INDEX images; /* of x */
  INDEX images_stride;
  INDEX x_lengths[AXES];
  INDEX y_lengths[AXES];
  INDEX x_strides[2 + AXES];
  INDEX y_strides[2 + AXES];
  INDEX grid_strides[2 + AXES];
  INDEX dgrid_strides[2 + AXES];
} Plan;

#if MODE == 0
#define AXIS_TAPS 1
#define TAP_BITS 0
#elif MODE == 1
#define AXIS_TAPS 2
#define TAP_BITS 1
#else
#define AXIS_TAPS 4
#define TAP_BITS 2
#endif
#define TAP_OF(number, axis) ((number) >> (TAP_BITS * (axis)) & (AXIS_TAPS - 1))
#define TAPS (AXES == 2 ? AXIS_TAPS * AXIS_TAPS : AXIS_TAPS * AXIS_TAPS * AXIS_TAPS)

/* The taps along an axis: the pixel `first` and, where there are more, those behind it. */
typedef struct {
  INDEX first;
  T fraction; /* how far the place is from the pixel before it */
  T slope;    /* of that, by the coordinate */
} AxisTaps;

UHAL_INLINE void axis_taps(Plan plan, INDEX length, T coordinate, AxisTaps* taps) {
  const T n = (T)length;
  const T last = n - 1;
  const T low = plan.align_corners ? C(0) : C(-0.5); /* where axes are mirrored, and how far from there again */
  const T span = plan.align_corners ? last : n;
  taps->slope = plan.in_pixels ? C(1) : span / 2;
  T at = plan.in_pixels ? coordinate : (coordinate + 1) * taps->slope + low;
#if MODE == 2
  /* Padding is the taps', not the place's: it is moved to where no integer overflows and the same pixels are read. */
  if (at - at != 0) {
    taps->slope = 0;
    at = plan.padding == 0 ? C(-4) : C(0);
  }
  const T floored = floor(at);
  taps->fraction = at - floored;
  if (plan.padding == 2 && span > 0) {
    taps->first = (INDEX)(floored - floor(floored / (2 * span)) * (2 * span)) - 1;
  } else {
    taps->first = (INDEX)(floored < -4 ? C(-4) : floored > n + 2 ? n + 2 : floored) - 1;
  }
}
#else
  if (plan.padding == 0) {
    /* Far enough outside that no tap is inside, and no integer overflows. */
    if (!(at >= -2)) at = -2;
    if (at > n + 1) at = n + 1;
  } else {
    if (plan.padding == 2) {
      const T distance = fabs(at - low);
      T rest = distance - floor(distance / (2 * span)) * (2 * span);
      if (rest < 0) rest += 2 * span; /* the quotient was rounded */
      if (rest >= 2 * span) rest -= 2 * span;
      if (span > 0 && rest >= 0 && rest <= 2 * span) {
        const int32 turns = rest > span;
        if ((at < low) != turns) taps->slope = -taps->slope;
        at = (turns ? 2 * span - rest : rest) + low;
      } else { /* of infinity, NaN, and what floats hold no fractions of */
        at = 0;
        taps->slope = 0;
      }
    }
    if (!(at > 0 && at < last) && !(plan.edge_gradient && (at == 0 || at == last))) taps->slope = 0;
    at = at > 0 ? (at < last ? at : last) : C(0);
  }
#if MODE == 0
  taps->first = (INDEX)rint(at);
  taps->fraction = 0;
  taps->slope = 0;
#else
  const T before = floor(at);
  taps->first = (INDEX)before;
  taps->fraction = at - before;
#endif
}
#endif

/* A place: its image, its offsets without those of channels and coordinates, and what it reads along each axis. */
typedef struct {
  INDEX image; /* -1: one that x does not have */
  INDEX y;
  INDEX dgrid;
  AxisTaps axes[AXES];
} Place;

UHAL_INLINE void find_place(Plan plan, INDEX number, UHAL_GLOBAL const GRID_STORAGE* grid,
                            UHAL_GLOBAL const int32* images, Place* place) {
  INDEX coordinates = 0;
  place->y = 0;
  place->dgrid = 0;
  for (int32 a = AXES - 1; a >= 0; --a) {
    const INDEX at = number % plan.y_lengths[a];
    number /= plan.y_lengths[a];
    place->y += at * plan.y_strides[2 + a];
    place->dgrid += at * plan.dgrid_strides[1 + a];
    coordinates += at * plan.grid_strides[1 + a];
  }
#if WITH_IMAGES
  place->image = images[number * plan.images_stride];
  if (place->image < 0 || place->image >= plan.images) place->image = -1;
#else
  place->image = number;
#endif
  place->y += number * plan.y_strides[0];
  place->dgrid += number * plan.dgrid_strides[0];
  coordinates += number * plan.grid_strides[0];
  for (int32 a = 0; a < AXES; ++a) { /* the last axis' coordinate comes first */
    const INDEX at = coordinates + (AXES - 1 - a) * plan.grid_strides[1 + AXES];
    axis_taps(plan, plan.x_lengths[a], GRID_LOAD(grid, at), &place->axes[a]);
  }
}

/* The pixel of tap k along an axis. */
UHAL_INLINE INDEX pixel_of(Plan plan, AxisTaps taps, INDEX length, int32 k) {
  const INDEX at = taps.first + k;
#if MODE == 2
  if (plan.padding == 1) return at < 0 ? 0 : at < length ? at : length - 1;
  if (plan.padding == 2) {
    const INDEX period = plan.align_corners ? 2 * length - 2 : 2 * length;
    if (period == 0) return 0;
    const INDEX rest = (at % period + period) % period;
    return rest < length ? rest : (plan.align_corners ? period : period - 1) - rest;
  }
#endif
  return at;
}

/* Its weight, and that weight's derivative by the coordinate. */
#if MODE == 2
#define CUBIC C(-0.75)
UHAL_INLINE T weight_of(AxisTaps taps, int32 k) {
  const T d = fabs(taps.fraction + 1 - k); /* the distance to the pixel */
  return k == 1 || k == 2 ? (1 - d) * (1 + d - (CUBIC + 2) * d * d) : CUBIC * (d - 1) * (2 - d) * (2 - d);
}
UHAL_INLINE T slope_of(AxisTaps taps, int32 k) {
  const T d = fabs(taps.fraction + 1 - k);
  const T slope = k == 1 || k == 2 ? (3 * (CUBIC + 2) * d - 2 * (CUBIC + 3)) * d : CUBIC * (2 - d) * (4 - 3 * d);
  return k < 2 ? slope * taps.slope : -slope * taps.slope;
}
#else
UHAL_INLINE T weight_of(AxisTaps taps, int32 k) { return k ? taps.fraction : 1 - taps.fraction; }
UHAL_INLINE T slope_of(AxisTaps taps, int32 k) { return k ? taps.slope : -taps.slope; }
#endif

/* One of what a place reads: TAP_OF its number chooses along each axis. */
typedef struct {
  int32 is_inside;
  INDEX pixel; /* row-major, in its image */
  INDEX x;     /* its offset without that of channels */
  T weight;
} Tap;

UHAL_INLINE void find_tap(Plan plan, const Place* place, int32 number, Tap* tap) {
  tap->is_inside = place->image >= 0;
  tap->pixel = 0;
  tap->x = place->image * plan.x_strides[0];
  tap->weight = 1;
  for (int32 a = 0; a < AXES; ++a) {
    const int32 k = TAP_OF(number, a);
    const INDEX at = pixel_of(plan, place->axes[a], plan.x_lengths[a], k);
    tap->is_inside = tap->is_inside && at >= 0 && at < plan.x_lengths[a];
    tap->pixel = tap->pixel * plan.x_lengths[a] + at;
    tap->x += at * plan.x_strides[2 + a];
    tap->weight *= weight_of(place->axes[a], k);
  }
}

/* A work-item's share of `channels` channels: those from `first` on, `plan.share` at most. Its neighbours have the next
 * places (or pixels) or, where channels lie side by side and a share is one channel, the next channels. */
typedef struct {
  INDEX place;
  INDEX first;
  INDEX last;
} Share;

UHAL_INLINE void find_share(Plan plan, INDEX item, INDEX places, Share* share) {
  if (plan.share == 1) {
    share->place = item / plan.channels;
    share->first = item - share->place * plan.channels;
  } else {
    share->first = item / places * plan.share;
    share->place = item % places;
  }
  share->last = share->first + plan.share < plan.channels ? share->first + plan.share : plan.channels;
}

/* x, grid -> y. A work-item has a share of a place's channels. */
#ifdef OF_FORWARD
UHAL_KERNEL void grid_sample(UHAL_POINTER(x), UHAL_POINTER(grid), UHAL_POINTER(images), UHAL_POINTER(y), Plan plan) {
  UHAL_GLOBAL const X_STORAGE* x = UHAL_ADDRESS(const X_STORAGE, x);
  UHAL_GLOBAL const GRID_STORAGE* grid = UHAL_ADDRESS(const GRID_STORAGE, grid);
  UHAL_GLOBAL Y_STORAGE* y = UHAL_ADDRESS(Y_STORAGE, y);
  UHAL_FOR_ITEMS(i, plan.count) {
    Share share;
    find_share(plan, i, plan.places, &share);
    Place place;
    find_place(plan, share.place, grid, UHAL_ADDRESS(const int32, images), &place);
    Tap taps[TAPS];
    for (int32 t = 0; t < TAPS; ++t) find_tap(plan, &place, t, &taps[t]);
    for (INDEX c = share.first; c < share.last; ++c) {
      T sum = 0;
      for (int32 t = 0; t < TAPS; ++t) {
        if (taps[t].is_inside) sum += taps[t].weight * X_LOAD(x, taps[t].x + c * plan.x_strides[1]);
      }
      Y_STORE(y, place.y + c * plan.y_strides[1], sum);
    }
  }
}
#endif

/* dy, x, grid -> dgrid. A work-item has a place. */
#ifdef OF_BACKWARD_GRID
UHAL_KERNEL void grid_sample_backward_grid(UHAL_POINTER(dy), UHAL_POINTER(x), UHAL_POINTER(grid), UHAL_POINTER(images),
                                           UHAL_POINTER(dgrid), Plan plan) {
  UHAL_GLOBAL const Y_STORAGE* dy = UHAL_ADDRESS(const Y_STORAGE, dy);
  UHAL_GLOBAL const X_STORAGE* x = UHAL_ADDRESS(const X_STORAGE, x);
  UHAL_GLOBAL const GRID_STORAGE* grid = UHAL_ADDRESS(const GRID_STORAGE, grid);
  UHAL_GLOBAL DGRID_STORAGE* dgrid = UHAL_ADDRESS(DGRID_STORAGE, dgrid);
  UHAL_FOR_ITEMS(i, plan.count) {
    Place place;
    find_place(plan, i, grid, UHAL_ADDRESS(const int32, images), &place);
    Tap taps[TAPS];
    T products[TAPS]; /* of what comes back with what was read */
    for (int32 t = 0; t < TAPS; ++t) {
      find_tap(plan, &place, t, &taps[t]);
      products[t] = 0;
    }
    for (INDEX c = 0; c < plan.channels; ++c) {
      const T gradient = Y_LOAD(dy, place.y + c * plan.y_strides[1]);
      for (int32 t = 0; t < TAPS; ++t) {
        if (taps[t].is_inside) products[t] += gradient * X_LOAD(x, taps[t].x + c * plan.x_strides[1]);
      }
    }
    for (int32 a = 0; a < AXES; ++a) {
      T sum = 0;
      for (int32 t = 0; t < TAPS; ++t) {
        T slope = slope_of(place.axes[a], TAP_OF(t, a));
        for (int32 b = 0; b < AXES; ++b) slope *= b == a ? C(1) : weight_of(place.axes[b], TAP_OF(t, b));
        sum += slope * products[t];
      }
      DGRID_STORE(dgrid, place.dgrid + (AXES - 1 - a) * plan.dgrid_strides[1 + AXES], sum);
    }
  }
}
#endif

#ifdef OF_BACKWARD_DATA
/* The taps of all places as updates of pixels: the pixel's number among all images of x, or `outside`, and the weight. */
UHAL_KERNEL void list_taps(UHAL_POINTER(grid), UHAL_POINTER(images), UHAL_POINTER(keys), UHAL_POINTER(weights), Plan plan, uint32 outside) {
  UHAL_GLOBAL const GRID_STORAGE* grid = UHAL_ADDRESS(const GRID_STORAGE, grid);
  UHAL_FOR_ITEMS(i, plan.count) {
    Place place;
    find_place(plan, i, grid, UHAL_ADDRESS(const int32, images), &place);
    for (int32 t = 0; t < TAPS; ++t) {
      Tap tap;
      find_tap(plan, &place, t, &tap);
      const INDEX update = i * TAPS + t;
      UHAL_ADDRESS(uint32, keys)[update] = tap.is_inside ? (uint32)(place.image * plan.pixels + tap.pixel) : outside;
      UHAL_ADDRESS(T, weights)[update] = tap.weight;
    }
  }
}

/* The first update of each pixel that has one. Updates come in the order of their pixels, here and below. */
UHAL_KERNEL void find_first(UHAL_POINTER(keys), UHAL_POINTER(firsts), INDEX updates, uint32 outside) {
  UHAL_GLOBAL const uint32* keys = UHAL_ADDRESS(const uint32, keys);
  UHAL_FOR_ITEMS(i, updates) {
    const uint32 pixel = keys[i];
    if (pixel != outside && (i == 0 || keys[i - 1] != pixel)) UHAL_ADDRESS(uint32, firsts)[pixel] = (uint32)i;
  }
}

/* dy -> dx. `firsts` holds 2^32 - 1 where there is none. A work-item has a share of CHANNELS channels of a pixel; its
 * updates come as they were listed. */
UHAL_KERNEL void add_taps(UHAL_POINTER(dy), UHAL_POINTER(keys), UHAL_POINTER(order), UHAL_POINTER(weights),
                          UHAL_POINTER(firsts), UHAL_POINTER(dx), Plan plan, INDEX updates, uint32 outside) {
  UHAL_GLOBAL const Y_STORAGE* dy = UHAL_ADDRESS(const Y_STORAGE, dy);
  UHAL_GLOBAL X_STORAGE* dx = UHAL_ADDRESS(X_STORAGE, dx);
  UHAL_GLOBAL const uint32* keys = UHAL_ADDRESS(const uint32, keys);
  UHAL_GLOBAL const uint32* order = UHAL_ADDRESS(const uint32, order);
  UHAL_FOR_ITEMS(i, plan.count) {
    Share share;
    find_share(plan, i, (INDEX)outside, &share);
    const uint32 first = UHAL_ADDRESS(const uint32, firsts)[share.place];
    T sums[CHANNELS];
    for (int32 c = 0; c < CHANNELS; ++c) sums[c] = 0;
    for (INDEX update = (INDEX)first; first != 0xffffffff && update < updates && keys[update] == (uint32)share.place;
         ++update) {
      INDEX rest = (INDEX)(order[update] / TAPS);
      INDEX from = 0;
      for (int32 a = AXES - 1; a >= 0; --a) {
        from += rest % plan.y_lengths[a] * plan.y_strides[2 + a];
        rest /= plan.y_lengths[a];
      }
      from += rest * plan.y_strides[0];
      const T weight = UHAL_ADDRESS(const T, weights)[order[update]];
      for (int32 c = 0; c < CHANNELS; ++c) {
        if (share.first + c < share.last) sums[c] += weight * Y_LOAD(dy, from + (share.first + c) * plan.y_strides[1]);
      }
    }
    INDEX rest = share.place;
    INDEX to = 0;
    for (int32 a = AXES - 1; a >= 0; --a) {
      to += rest % plan.x_lengths[a] * plan.x_strides[2 + a];
      rest /= plan.x_lengths[a];
    }
    to += rest * plan.x_strides[0];
    for (int32 c = 0; c < CHANNELS; ++c) {
      if (share.first + c < share.last) X_STORE(dx, to + (share.first + c) * plan.x_strides[1], sums[c]);
    }
  }
}
#endif
