/* Discrete Fourier transforms of lines: a work-group transforms some lines in local memory, by passes of small radices
 * (Stockham's autosort form). What is read and written around the passes is a macro, so that one kernel transforms:
 *
 *   LOAD   complex numbers; a real signal; neighbours of one as a number's parts (PAIRS); half a spectrum of an even or an
 *          odd length; Bluestein's filter; the product of a spectrum with it
 *   STORE  complex numbers; the columns of a longer line, times their twiddles; half a spectrum, of an even or an odd
 *          length; parts of numbers as neighbours of a real signal; real parts
 *   CHIRP_IN, CHIRP_OUT   the numbers are multiplied by exp(-pi i k^2 / chirp) before the passes, and are zero from
 *          `chirp` on; or after them
 *
 * Signals of even real length are transformed as half as many complex numbers, n; their spectrum's other half is put
 * together at the store, or taken apart at the load. Roots of unity are computed where they are needed: their angles are
 * fractions of whole numbers, so that reduction is exact, and less than an octant is left for short polynomials.
 * Macros besides: CAPACITY, the numbers that local memory holds; UHAL_GROUP. */
#define COMPLEX 0
#define REAL 1
#define PAIRS 2
#define HALF_EVEN 3
#define HALF_ODD 4
#define FILTER 5
#define PRODUCT 6
#define TWIDDLED 7

UHAL_LAYOUT(two_lines, 2)

typedef struct {
  INDEX lines;          /* in all */
  INDEX group_lines;    /* of a work-group: a power of two */
  INDEX n;              /* numbers of a line that are transformed */
  INDEX count;          /* elements of a line that are written */
  INDEX steps[2];       /* from an element of a line to the next, of both operands */
  INDEX along_lines[2]; /* neighbours in memory are elements of different lines */
  INDEX whole;          /* TWIDDLED, PRODUCT: numbers of the longer line; offsets within it tell the column */
  INDEX filter_step;    /* PRODUCT: from an element of the filter to the next */
  INDEX chirp;          /* the length of Bluestein's transform */
  INDEX exchanged[2];   /* parts change places at the load, at the store: the inverse transform */
} problem;

typedef struct {
  T re, im;
} number;

UHAL_INLINE number make_number(T re, T im) {
  number result;
  result.re = re;
  result.im = im;
  return result;
}
UHAL_INLINE number plus(number a, number b) { return make_number(a.re + b.re, a.im + b.im); }
UHAL_INLINE number minus(number a, number b) { return make_number(a.re - b.re, a.im - b.im); }
UHAL_INLINE number times(number a, number b) {
  return make_number(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re);
}
UHAL_INLINE number conjugate(number a) { return make_number(a.re, -a.im); }
UHAL_INLINE number times_i(number a) { return make_number(-a.im, a.re); }
UHAL_INLINE number times_minus_i(number a) { return make_number(a.im, -a.re); }

/* exp(-2 pi i k / n), 0 <= k < n: Taylor's polynomials of the angle in its octant. */
UHAL_INLINE number root_of_unity(INDEX k, INDEX n) {
  const INDEX octant = 8 * k / n;
  const INDEX rest = 8 * k - octant * n;
  const INDEX odd = octant & 1;
  const T angle = (T)(odd ? n - rest : rest) / (T)n * C(0.785398163397448309615660845819875721);
  const T square = angle * angle;
#if UHAL_COMPUTE_double
  T sine = C(2.8114572543455206e-15), cosine = C(4.779477332387385e-14);
  sine = sine * square - C(7.647163731819816e-13), cosine = cosine * square - C(1.1470745597729725e-11);
  sine = sine * square + C(1.6059043836821613e-10), cosine = cosine * square + C(2.08767569878681e-9);
  sine = sine * square - C(2.505210838544172e-8), cosine = cosine * square - C(2.755731922398589e-7);
  sine = sine * square + C(2.7557319223985893e-6), cosine = cosine * square + C(2.48015873015873e-5);
#else
  T sine = C(2.7557319223985893e-6), cosine = C(-2.755731922398589e-7);
  cosine = cosine * square + C(2.48015873015873e-5);
#endif
  sine = sine * square - C(1.984126984126984e-4), cosine = cosine * square - C(1.388888888888889e-3);
  sine = sine * square + C(8.333333333333333e-3), cosine = cosine * square + C(4.1666666666666664e-2);
  sine = sine * square - C(0.16666666666666666), cosine = cosine * square - C(0.5);
  sine = angle + angle * square * sine, cosine = 1 + square * cosine;
  if (odd) sine = -sine;
  const INDEX quarters = (octant + 1) / 2 & 3;
  const T re = (quarters & 1) != 0 ? -sine : cosine;
  const T im = (quarters & 1) != 0 ? cosine : sine;
  return (quarters & 2) != 0 ? make_number(-re, im) : make_number(re, -im);
}

/* exp(-pi i k^2 / n) */
UHAL_INLINE number chirp_at(INDEX k, INDEX n) {
  return root_of_unity((INDEX)((uint64)k * (uint64)k % (2 * (uint64)n)), 2 * n);
}

/* -- operands ------------------------------------------------------------------------------------------------------ */

UHAL_INLINE number number_at(UHAL_GLOBAL const T* data, INDEX at) { return make_number(data[2 * at], data[2 * at + 1]); }
UHAL_INLINE number exchange(number a) { return make_number(a.im, a.re); }

/* A number of half a spectrum whose signal is real; `sign` is -1 for the forward direction, which transforms the
 * spectrum's conjugate. */
UHAL_INLINE number half_at(UHAL_GLOBAL const T* data, INDEX at, T sign, INDEX is_real) {
  return make_number(data[2 * at], is_real ? 0 : sign * data[2 * at + 1]);
}

/* Number k of a line before the passes; x is the line's beginning. */
UHAL_INLINE number load_number(UHAL_GLOBAL const T* x, UHAL_GLOBAL const T* filter, problem p, INDEX column, T sign,
                               INDEX k) {
  const INDEX step = p.steps[0];
#if CHIRP_IN
  if (k >= p.chirp) return make_number(0, 0);
  const INDEX n = p.chirp;
#else
  const INDEX n = p.n;
#endif
#if LOAD == REAL
  number a = make_number(x[k * step], 0);
#elif LOAD == PAIRS
  number a = make_number(x[2 * k * step], x[(2 * k + 1) * step]);
#elif LOAD == HALF_EVEN
  const number low = half_at(x, k * step, sign, k == 0);
  const number high = conjugate(half_at(x, (n - k) * step, sign, k == 0));
  number a = plus(plus(low, high), times_i(times(conjugate(root_of_unity(k, 2 * n)), minus(low, high))));
#elif LOAD == HALF_ODD
  number a = 2 * k <= n ? half_at(x, k * step, sign, k == 0) : conjugate(half_at(x, (n - k) * step, sign, 0));
#elif LOAD == FILTER
  number a = make_number(0, 0);
  const INDEX distance = k < p.whole - k ? k : p.whole - k;
  if (distance < p.chirp) a = conjugate(chirp_at(distance, p.chirp));
#elif LOAD == PRODUCT
  number a = times(number_at(x, k * step), number_at(filter, column + k * p.filter_step));
#else
  number a = number_at(x, k * step);
#endif
  if (p.exchanged[0]) a = exchange(a);
#if CHIRP_IN
  a = times(a, chirp_at(k, n));
#endif
  return a;
}

/* Writes what element k of a line becomes; RESULT(k) is number k after the passes. Bluestein's second transform is an
 * inverse one, so its parts have changed places. */
#if CHIRP_OUT
#define FINAL(k) times(exchange(RESULT(k)), chirp_at(k, p.chirp))
#define FINAL_LENGTH p.chirp
#else
#define FINAL(k) RESULT(k)
#define FINAL_LENGTH p.n
#endif
#if STORE == HALF_EVEN
#define STORE_ELEMENT(k)                                                                                     \
  do {                                                                                                       \
    const INDEX length = FINAL_LENGTH;                                                                       \
    const INDEX low_at = (k) == length ? 0 : (k), high_at = (k) == 0 ? 0 : length - (k);                     \
    const number low = FINAL(low_at), high = conjugate(FINAL(high_at));                                      \
    const number turned = times_minus_i(times(root_of_unity(k, 2 * length), minus(low, high)));              \
    y[2 * (k) * step] = (low.re + high.re + turned.re) * re_factor;                                          \
    y[2 * (k) * step + 1] = (low.im + high.im + turned.im) * im_factor;                                      \
  } while (0)
#elif STORE == PAIRS
#define STORE_ELEMENT(k)                           \
  do {                                             \
    const number a = exchange(FINAL(k));           \
    y[2 * (k) * step] = a.re * re_factor;          \
    y[(2 * (k) + 1) * step] = a.im * im_factor;    \
  } while (0)
#elif STORE == REAL
#define STORE_ELEMENT(k)                  \
  do {                                    \
    const number a = exchange(FINAL(k));  \
    y[(k) * step] = a.re * re_factor;     \
  } while (0)
#else
#if STORE == TWIDDLED
#define TWIDDLED_FINAL(k) times(FINAL(k), root_of_unity(column * (k), p.whole))
#else
#define TWIDDLED_FINAL(k) FINAL(k)
#endif
#define STORE_ELEMENT(k)                      \
  do {                                        \
    number a = TWIDDLED_FINAL(k);             \
    if (p.exchanged[1]) a = exchange(a);      \
    y[2 * (k) * step] = a.re * re_factor;     \
    y[2 * (k) * step + 1] = a.im * im_factor; \
  } while (0)
#endif

/* The beginning of line `line` in both operands, for kernels with arguments x, y and lines. */
#define FIND_LINE(line)                                          \
  INDEX offsets[2] = {x_start, y_start};                         \
  UHAL_ADD_OFFSETS(lines, 2, line, offsets);                     \
  UHAL_GLOBAL const T* x = UHAL_ADDRESS(const T, x) + offsets[0] * X_PARTS; \
  UHAL_GLOBAL T* y = UHAL_ADDRESS(T, y) + offsets[1] * Y_PARTS

#if LOAD == REAL || LOAD == PAIRS
#define X_PARTS 1
#else
#define X_PARTS 2
#endif
#if STORE == REAL || STORE == PAIRS
#define Y_PARTS 1
#else
#define Y_PARTS 2
#endif

#ifdef MOVE

/* Elements one by one: what goes before and after the transforms of lines that local memory does not hold. */
#define RESULT(k) load_number(x, filter, p, 0, sign, k)
UHAL_KERNEL void fft_move(UHAL_POINTER(x), UHAL_POINTER(y), UHAL_POINTER(filter), two_lines lines, problem p,
                          T re_factor, T im_factor, T sign) {
  const INDEX x_start = 0, y_start = 0;
  UHAL_GLOBAL const T* filter = UHAL_ADDRESS(const T, filter);
  const INDEX all = p.lines * p.count;
  UHAL_FOR_ITEMS(i, all) {
    const INDEX line = p.along_lines[1] ? i % p.lines : i / p.count;
    const INDEX k = p.along_lines[1] ? i / p.lines : i - line * p.count;
    FIND_LINE(line);
    const INDEX step = p.steps[1];
    STORE_ELEMENT(k);
  }
}

#else

/* -- butterflies: transforms of `a`, a power of two or a small prime of numbers --------------------------------------- */

UHAL_INLINE void butterfly_2(number* a) {
  const number first = a[0];
  a[0] = plus(first, a[1]);
  a[1] = minus(first, a[1]);
}

UHAL_INLINE void butterfly_3(number* a) {
  const number sum = plus(a[1], a[2]);
  const number difference = minus(a[1], a[2]);
  const number middle = make_number(a[0].re - C(0.5) * sum.re, a[0].im - C(0.5) * sum.im);
  const T sine = C(0.866025403784438646763723170752936183);
  const number turned = make_number(sine * difference.im, -sine * difference.re);
  a[0] = plus(a[0], sum);
  a[1] = plus(middle, turned);
  a[2] = minus(middle, turned);
}

UHAL_INLINE void butterfly_4_of(number* a, number* b, number* c, number* d) {
  const number sum = plus(*a, *c), difference = minus(*a, *c);
  const number other = plus(*b, *d), turned = times_minus_i(minus(*b, *d));
  *a = plus(sum, other);
  *b = plus(difference, turned);
  *c = minus(sum, other);
  *d = minus(difference, turned);
}

UHAL_INLINE void butterfly_4(number* a) { butterfly_4_of(a, a + 1, a + 2, a + 3); }

UHAL_INLINE void butterfly_5(number* a) {
  const T cosine1 = C(0.309016994374947424102293417182819059), cosine2 = C(-0.809016994374947424102293417182819059);
  const T sine1 = C(0.951056516295153572116439333379382143), sine2 = C(0.587785252292473129168705954639072769);
  const number sum1 = plus(a[1], a[4]), difference1 = minus(a[1], a[4]);
  const number sum2 = plus(a[2], a[3]), difference2 = minus(a[2], a[3]);
  const number middle1 = make_number(a[0].re + sum1.re * cosine1 + sum2.re * cosine2,
                                     a[0].im + sum1.im * cosine1 + sum2.im * cosine2);
  const number middle2 = make_number(a[0].re + sum1.re * cosine2 + sum2.re * cosine1,
                                     a[0].im + sum1.im * cosine2 + sum2.im * cosine1);
  const number turned1 = make_number(difference1.im * sine1 + difference2.im * sine2,
                                     -(difference1.re * sine1 + difference2.re * sine2));
  const number turned2 = make_number(difference1.im * sine2 - difference2.im * sine1,
                                     difference2.re * sine1 - difference1.re * sine2);
  a[0] = plus(a[0], plus(sum1, sum2));
  a[1] = plus(middle1, turned1);
  a[2] = plus(middle2, turned2);
  a[3] = minus(middle2, turned2);
  a[4] = minus(middle1, turned1);
}

UHAL_INLINE void butterfly_8(number* a) {
  butterfly_4_of(a, a + 2, a + 4, a + 6);
  butterfly_4_of(a + 1, a + 3, a + 5, a + 7);
  const T root = C(0.707106781186547524400844362104849039);
  const number odd1 = make_number(root * (a[3].re + a[3].im), root * (a[3].im - a[3].re));
  const number odd2 = times_minus_i(a[5]);
  const number odd3 = make_number(root * (a[7].im - a[7].re), -root * (a[7].re + a[7].im));
  const number even0 = a[0], even1 = a[2], even2 = a[4], even3 = a[6], odd0 = a[1];
  a[0] = plus(even0, odd0);
  a[1] = plus(even1, odd1);
  a[2] = plus(even2, odd2);
  a[3] = plus(even3, odd3);
  a[4] = minus(even0, odd0);
  a[5] = minus(even1, odd1);
  a[6] = minus(even2, odd2);
  a[7] = minus(even3, odd3);
}

/* Local memory has gaps, so that the strides of the passes, powers of two, meet different banks. */
#define PLACE(i) ((i) + ((i) >> 5))
#define READ(i) make_number(from_re[PLACE(i)], from_im[PLACE(i)])
#define WRITE(i, value)         \
  do {                          \
    const number v = (value);   \
    to_re[PLACE(i)] = v.re;     \
    to_im[PLACE(i)] = v.im;     \
  } while (0)

/* One pass: transforms of `length` numbers become as many of length / radix, `stride` of them side by side. */
#define PASS(radix)                                                                                     \
  case radix:                                                                                           \
    for (INDEX i = lane; i < p.n / radix; i += team) {                                                  \
      const INDEX part = i / stride;                                                                    \
      const INDEX side = i - part * stride;                                                             \
      number a[radix];                                                                                  \
      UHAL_UNROLL for (int32 j = 0; j < radix; ++j) a[j] = READ(side + stride * (part + parts * j));    \
      butterfly_##radix(a);                                                                             \
      const number turn = root_of_unity(part, length);                                                  \
      number power = turn;                                                                              \
      WRITE(side + stride * radix * part, a[0]);                                                        \
      UHAL_UNROLL for (int32 j = 1; j < radix; ++j) {                                                   \
        WRITE(side + stride * (radix * part + j), times(a[j], power));                                  \
        power = times(power, turn);                                                                     \
      }                                                                                                 \
    }                                                                                                   \
    break;

UHAL_KERNEL UHAL_GROUP_SIZE(UHAL_GROUP, 1, 1) void fft_lines(UHAL_POINTER(x), UHAL_POINTER(y), UHAL_POINTER(filter),
                                                            two_lines lines, problem p, uint64 radices, T re_factor,
                                                            T im_factor, T sign) {
  UHAL_LAUNCHED_LOCAL_MEMORY(T, local_numbers, 4 * CAPACITY)
  const INDEX id = UHAL_LOCAL_ID(0);
  const INDEX team = UHAL_GROUP / p.group_lines;
  const INDEX first = UHAL_GROUP_ID(0) * p.group_lines;
  const INDEX room = PLACE(p.n) + 1;
  const INDEX x_start = 0, y_start = 0;
  {
    const INDEX own = p.along_lines[0] ? id & (p.group_lines - 1) : id / team;
    const INDEX lane = p.along_lines[0] ? id / p.group_lines : id & (team - 1);
    if (first + own < p.lines) {
      FIND_LINE(first + own);
      (void)y;
      UHAL_GLOBAL const T* filter = UHAL_ADDRESS(const T, filter);
#if LOAD == PRODUCT
      const INDEX column = offsets[0] % p.whole;
#else
      const INDEX column = 0;
#endif
      UHAL_LOCAL T* to_re = local_numbers + own * room;
      UHAL_LOCAL T* to_im = to_re + CAPACITY;
      for (INDEX k = lane; k < p.n; k += team) WRITE(k, load_number(x, filter, p, column, sign, k));
    }
  }
  UHAL_BARRIER();
  INDEX current = 0;
  {
    const INDEX own = id / team;
    const INDEX lane = id & (team - 1);
    INDEX stride = 1;
    INDEX length = p.n;
    for (; radices != 0; radices >>= 5) {
      const INDEX radix = (INDEX)(radices & 31);
      const INDEX parts = length / radix;
      UHAL_LOCAL const T* from_re = local_numbers + current + own * room;
      UHAL_LOCAL const T* from_im = from_re + CAPACITY;
      UHAL_LOCAL T* to_re = local_numbers + (2 * CAPACITY - current) + own * room;
      UHAL_LOCAL T* to_im = to_re + CAPACITY;
      switch (radix) {
        PASS(2)
        PASS(3)
        PASS(4)
        PASS(5)
        PASS(8)
        default: /* one result at a time: sums over all elements */
          for (INDEX i = lane; i < p.n; i += team) {
            const INDEX row = i / stride;
            const INDEX side = i - row * stride;
            const INDEX part = row / radix;
            const INDEX result = row - part * radix;
            const number turn = root_of_unity(result, radix);
            number power = root_of_unity(result * part, length);
            number sum = make_number(0, 0);
            for (INDEX j = 0; j < radix; ++j) {
              sum = plus(sum, times(READ(side + stride * (part + parts * j)), power));
              power = times(power, turn);
            }
            WRITE(i, sum);
          }
      }
      UHAL_BARRIER();
      current = 2 * CAPACITY - current;
      stride *= radix;
      length = parts;
    }
  }
  {
    const INDEX own = p.along_lines[1] ? id & (p.group_lines - 1) : id / team;
    const INDEX lane = p.along_lines[1] ? id / p.group_lines : id & (team - 1);
    if (first + own < p.lines) {
      FIND_LINE(first + own);
      (void)x;
      UHAL_LOCAL const T* from_re = local_numbers + current + own * room;
      UHAL_LOCAL const T* from_im = from_re + CAPACITY;
      const INDEX step = p.steps[1];
#if STORE == TWIDDLED
      const INDEX column = offsets[1] % p.whole;
#endif
#define RESULT(k) READ(k)
      for (INDEX k = lane; k < p.count; k += team) STORE_ELEMENT(k);
    }
  }
}

#endif
