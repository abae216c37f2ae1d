/* Complex numbers: the part of the dialect that only programs with a complex T have (program_text.cc), between the
 * compiler's prelude and common.h. T is a struct without operators; what there is instead is in the file below. */
#include "csrc/tables/complex_functions.h"
