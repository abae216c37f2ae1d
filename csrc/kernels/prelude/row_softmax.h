/* The sum of exponentials of a row, for softmax and cross entropy. Include it after group.h.
 *
 * NaN and infinities come out as in softmax by its definition, exp(x - largest) / sum: a row with a NaN or with
 * +infinity, or of -infinity only, gives NaN. */

typedef struct {
  T largest; /* -infinity of nothing */
  T sum;     /* of exp(x - largest) */
} uhal_exponentials;

/* Adds `count` elements to a work-item's own sum, without a branch. */
UHAL_INLINE uhal_exponentials uhal_add_exponentials(uhal_exponentials a, const T* x, int32 count) {
  uhal_exponentials result;
  result.largest = a.largest;
  UHAL_UNROLL for (int32 i = 0; i < count; ++i) result.largest = fmax(result.largest, x[i]); /* a NaN is in the sum */
  const T shift = result.largest == -INFINITY ? 0 : result.largest;
  result.sum = a.sum * exp(a.largest - shift);
  UHAL_UNROLL for (int32 i = 0; i < count; ++i) result.sum += exp(x[i] - shift);
  return result;
}

/* The sum of all members of a team. */
UHAL_INLINE uhal_exponentials uhal_team_exponentials(uhal_exponentials own, UHAL_LOCAL T* scratch, uhal_team team) {
  uhal_exponentials all;
  all.largest = uhal_team_maximum(own.largest, scratch, team);
  /* A member without elements has the sum 0, however far below its largest is. */
  all.sum = uhal_team_sum(own.sum == 0 ? 0 : own.sum * exp(own.largest - all.largest), scratch, team);
  return all;
}
