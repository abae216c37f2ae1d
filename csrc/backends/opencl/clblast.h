// CLBlast: matrix products tuned for many devices. Its library is opened at run time, where there is one.
//
// UNIHAL_CLBLAST=on: it takes every product that it can; off: it is not looked for. Without a wish our own kernels take
// all but what `unihal tune` found CLBlast faster at.
#pragma once

#include <string>

#include "csrc/backends/common/matmul_problem.h"
#include "csrc/backends/opencl/api.h"
#include "csrc/kernels/libraries.h"
#include "unihal/status.h"

namespace unihal::opencl {

enum class ClblastWish { kWhereTuned, kOff, kOn };

// UNIHAL_CLBLAST. UHAL_INVALID_ARGUMENT for a value that means nothing.
uhal_status clblast_wish(ClblastWish* wish);

// Whether libclblast.so.1 could be opened; tried once.
bool has_clblast();

// CLBlast as the ops know it. `preferred`: it takes every product that it can.
const kernels::GemmLibrary& clblast(bool preferred);

// Submits a product that it takes to a queue of `device`, which is named in messages.
uhal_status clblast_gemm(cl_command_queue queue, const MatmulProblem& problem, const std::string& device);

}  // namespace unihal::opencl
