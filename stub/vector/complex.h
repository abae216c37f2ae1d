// csrc/tables/complex_functions.h as C++, for parts of float and of double. Include it inside the namespace of one
// instruction set, after map_prelude.h, for that one's reason.

#define UHAL_INLINE static inline __attribute__((always_inline, unused))

namespace complex_float {
using R = float;
struct T {
  R x, y;
};
#include "csrc/tables/complex_functions.h"
}  // namespace complex_float

namespace complex_double {
using R = double;
struct T {
  R x, y;
};
#include "csrc/tables/complex_functions.h"
}  // namespace complex_double

#undef UHAL_INLINE
