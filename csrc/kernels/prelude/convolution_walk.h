/* Walks over the pixels of a result or the taps of a window, for the kernels of convolution. */
#if UHAL_WIDE_INDEX
typedef uint64 UNSIGNED_INDEX;
#else
typedef uint32 UNSIGNED_INDEX;
#endif

/* Five axes, the slowest first: an outer one (images, or channels), three spatial ones, an inner one (channels). Each
 * position has an offset into the source, another into a second operand, and coordinates in the source. */
typedef struct {
  INDEX count; /* the product of the lengths */
  INDEX length[5];
  INDEX source_stride[5]; /* spatial ones: per coordinate */
  INDEX other_stride[5];
  INDEX first[3]; /* the coordinates at position 0 */
  INDEX step[3];  /* from one position along an axis to the next */
} Walk;

typedef struct {
  INDEX at[5];
} Digits;

typedef struct {
  INDEX source, other;
  INDEX z, y, x;
} Place;

/* A position as a number on each axis; the outermost may pass its length. */
UHAL_INLINE Digits digits_of(Walk walk, INDEX position) {
  Digits digits;
  UHAL_UNROLL for (int32 axis = 4; axis > 0; --axis) {
    const INDEX next = position / walk.length[axis];
    digits.at[axis] = position - next * walk.length[axis];
    position = next;
  }
  digits.at[0] = position;
  return digits;
}

/* The sum of two positions, without divisions. */
UHAL_INLINE Digits digits_after(Walk walk, Digits digits, Digits distance) {
  INDEX carry = 0;
  UHAL_UNROLL for (int32 axis = 4; axis > 0; --axis) {
    const INDEX sum = digits.at[axis] + distance.at[axis] + carry;
    carry = sum >= walk.length[axis];
    digits.at[axis] = carry ? sum - walk.length[axis] : sum;
  }
  digits.at[0] += distance.at[0] + carry;
  return digits;
}

UHAL_INLINE Place place_at(Walk walk, Digits digits) {
  Place place;
  place.z = walk.first[0] + digits.at[1] * walk.step[0];
  place.y = walk.first[1] + digits.at[2] * walk.step[1];
  place.x = walk.first[2] + digits.at[3] * walk.step[2];
  place.source = digits.at[0] * walk.source_stride[0] + place.z * walk.source_stride[1] +
                 place.y * walk.source_stride[2] + place.x * walk.source_stride[3] +
                 digits.at[4] * walk.source_stride[4];
  place.other = digits.at[0] * walk.other_stride[0] + digits.at[1] * walk.other_stride[1] +
                digits.at[2] * walk.other_stride[2] + digits.at[3] * walk.other_stride[3] +
                digits.at[4] * walk.other_stride[4];
  return place;
}
