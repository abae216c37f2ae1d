/* search_sorted: a bisection for each value (csrc/kernels/ops/search.cc).
 *
 * Macros: X: the dtype of the elements and of the values. */
UHAL_LAYOUT(SearchLayout, 3) /* y, values, the row of `sorted` for a value */

/* NaN counts as the largest. */
UHAL_INLINE int32 less(T a, T b) { return a < b || (b != b && a == a); }

UHAL_KERNEL void search_sorted(UHAL_POINTER(sorted), UHAL_POINTER(values), UHAL_POINTER(y), SearchLayout layout,
                               INDEX count, INDEX length, INDEX step, int32 right, int32 y_is_int64) {
  UHAL_GLOBAL const X_STORAGE* value_of = UHAL_ADDRESS(const X_STORAGE, values);
  UHAL_FOR_ITEMS(i, count) {
    INDEX offsets[3] = {0, 0, 0};
    UHAL_ADD_OFFSETS(layout, 3, i, offsets);
    UHAL_GLOBAL const X_STORAGE* row = UHAL_ADDRESS(const X_STORAGE, sorted) + offsets[2];
    const T value = X_LOAD(value_of, offsets[1]);
    INDEX begin = 0;
    INDEX rest = length;
    while (rest > 0) {
      const INDEX half_of_rest = rest / 2;
      const T middle = X_LOAD(row, (begin + half_of_rest) * step);
      const int32 goes_before = right ? !less(value, middle) : less(middle, value);
      begin = goes_before ? begin + half_of_rest + 1 : begin;
      rest = goes_before ? rest - half_of_rest - 1 : half_of_rest;
    }
    if (y_is_int64) {
      UHAL_ADDRESS(int64, y)[offsets[0]] = begin;
    } else {
      UHAL_ADDRESS(int32, y)[offsets[0]] = (int32)begin;
    }
  }
}
