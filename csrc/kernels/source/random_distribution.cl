/* Numbers of a distribution with parameters, an item each (csrc/kernels/ops/random_distribution.cc).
 *
 * Macros: UHAL_WIDE_INDEX, UHAL_RANK; dtypes Y, P, Q (P's, if there is no q); WIDE_T; DISTRIBUTION, a
 * uhal_parameter_distribution. */

/* A product and a sum each round, so that all devices make the same decisions. */
UHAL_NO_CONTRACTION

#include "csrc/tables/random_distributions.h"

UHAL_LAYOUT(DistributionLayout, 4) /* row-major order, y, p, q */

UHAL_KERNEL void random_distribution(UHAL_POINTER(y), UHAL_POINTER(p), UHAL_POINTER(q), INDEX count, uint64 key,
                                     uint64 counter_low, uint64 counter_high, DistributionLayout layout) {
  UHAL_FOR_ITEMS(i, count) {
    INDEX offsets[4] = {0, 0, 0, 0};
    UHAL_ADD_OFFSETS(layout, 4, i, offsets);
    const uhal_sequence sequence = uhal_sequence_of(key, counter_low, counter_high, (uint64)i);
    const T first = P_LOAD(UHAL_ADDRESS(const P_STORAGE, p), offsets[2]);
#if DISTRIBUTION == 0
    const T value = random_gamma(&sequence, first);
#elif DISTRIBUTION == 1
    const T value = random_poisson(&sequence, first);
#else
    const T value = random_binomial(&sequence, first, Q_LOAD(UHAL_ADDRESS(const Q_STORAGE, q), offsets[3]));
#endif
    Y_STORE(UHAL_ADDRESS(Y_STORAGE, y), offsets[1], value);
  }
}
