// Cross entropy and its gradient, as rows of the launch table see them: through refuse_softmax and run_softmax.
#pragma once

#include "stub/common/kernels.h"

namespace unihal::stub {

const char* refuse_cross_entropy(const uhal_op& op);
uhal_status run_cross_entropy(const Launch& launch);

}  // namespace unihal::stub
