// Convolutions by cuDNN's graphs (9 and later): an execution plan is made once and then run with little work of the
// host, by the engines that later versions of cuDNN are made of.
#pragma once

#include <memory>
#include <vector>

#include "csrc/backends/gpu/dnn.h"
#include "csrc/backends/gpu/library.h"

namespace unihal::gpu {

using CudnnHandle = struct CudnnContext*;
using CudnnDescriptor = void*;

// cudnnDataType_t, for the older functions too.
int cudnn_data_type(uhal_dtype dtype);

// cudnnConvolutionMode_t.
constexpr int kCudnnCrossCorrelation = 1;

// All are absent, or none is.
struct CudnnGraphFunctions {
  int (*create)(int type, CudnnDescriptor* descriptor);
  int (*destroy)(CudnnDescriptor descriptor);
  int (*set)(CudnnDescriptor descriptor, int name, int type, int64_t count, const void* values);
  int (*get)(CudnnDescriptor descriptor, int name, int type, int64_t room, int64_t* count, void* values);
  int (*finalize)(CudnnDescriptor descriptor);
  int (*execute)(CudnnHandle handle, CudnnDescriptor plan, CudnnDescriptor pack);

  bool is_complete() const { return create && destroy && set && get && finalize && execute; }
};

void find_graph_functions(Library& library, CudnnGraphFunctions* functions);

// Whether an algorithm's number is one of a graph's: its engine's place among those that cuDNN offers.
bool is_graph_algorithm(LibraryAlgorithm number);

// The engines that give the same bits each time, in the math mode's precision, within the limit on workspaces; the
// better ones first, at most so many.
std::vector<LibraryAlgorithm> graph_algorithms(const CudnnGraphFunctions& functions, CudnnHandle handle,
                                               const DnnProblem& problem, size_t most);

// A plan by one of them, or by the first of kBestAlgorithm; nullptr where there is none.
std::unique_ptr<DnnPlan> make_graph_plan(const CudnnGraphFunctions& functions, CudnnHandle handle,
                                         const DnnProblem& problem, LibraryAlgorithm wanted);

}  // namespace unihal::gpu
