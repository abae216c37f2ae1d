// The OpenCL library of the tests: the system's, but calls fail on request.
#pragma once

#include <cstdint>

// Exported as "faulty_opencl_fail": the (`after` + 1)-th call from now of an OpenCL function fails with `code`, and as
// many as `times` of them. Functions: those that faulty_opencl.cc defines, and
//   "source"    clCreateProgramWithSource gets a program with a mistake in it, for which `code` is of no meaning
//   "markers"   markers have no times
//   "embedded"  devices say that they have OpenCL's embedded profile
//   "fills"     fills that reach more than `code` bytes into a buffer are lost
using FaultyOpenclFail = void (*)(const char* function, int32_t code, int after, int times);
