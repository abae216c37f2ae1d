// csrc/tables/special_functions.h as C++, overloaded for float and double. Include it inside the namespace of one
// instruction set, after map_prelude.h and with C() defined, for that one's reason.

#define UHAL_INLINE static inline __attribute__((always_inline, unused))

#define T float
#include "csrc/tables/special_functions.h"
#undef T

#define T double
#include "csrc/tables/special_functions.h"
#undef T

#undef UHAL_INLINE
