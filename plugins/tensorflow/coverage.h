// Which ops and dtypes have kernels: for the coverage page and for the reasons of fallbacks.
#pragma once

#include "plugins/tensorflow/dtype.h"

namespace unihal::tensorflow {

// Remembers an op; several records of one op join their dtypes. An empty set: the op has no dtype.
void record_coverage(const char* op, DtypeSet dtypes);

// The dtypes registered for an op; false if it has no kernel.
bool find_coverage(const char* op, DtypeSet* dtypes);

}  // namespace unihal::tensorflow
