#include "csrc/backends/gpu/blas.h"

#include "csrc/kernels/ops.h"

namespace unihal::gpu {
namespace {

struct BlasRow {
  const char* name;  // of UNIHAL_GPU_LIBRARIES
  const char* title;
  Vendor vendor;
  bool only_if_alone;  // for where those above are missing
  std::unique_ptr<Blas> (*open)(const LibraryDevice& device, std::string* refusal);
};

constexpr BlasRow kBlasRows[] = {
    {"cublaslt", "cuBLASLt", Vendor::kCorex, false, open_cublaslt},
    {"cublas", "cuBLAS", Vendor::kCorex, true, open_cublas},
    {"hipblaslt", "hipBLASLt", Vendor::kHip, false, open_hipblaslt},
    {"rocblas", "rocBLAS", Vendor::kHip, false, open_rocblas},
};

}  // namespace

void BlasLibraries::open(const LibraryDevice& device, LibraryNotes* notes) {
  make_current_ = device.make_current;
  for (const BlasRow& row : kBlasRows) {
    if (row.vendor != device.vendor || (row.only_if_alone && !libraries_.empty())) continue;
    std::string refusal;
    std::unique_ptr<Blas> library;
    if (wants_library(row.name)) {
      library = row.open(device, &refusal);
    } else {
      refusal = "UNIHAL_GPU_LIBRARIES leaves it out";
    }
    if (library == nullptr) {
      notes->push_back(std::string("no ") + row.title + " (" + refusal + ")");
      continue;
    }
    notes->push_back(library->name());
    name_ += (name_.empty() ? "" : " or ") + library->name();
    libraries_.push_back(std::move(library));
  }
}

const Blas* BlasLibraries::first_for(const MatmulProblem& problem) const {
  for (const std::unique_ptr<Blas>& library : libraries_) {
    if (library->takes(problem)) return library.get();
  }
  return nullptr;
}

bool BlasLibraries::takes(const MatmulProblem& problem) const { return first_for(problem) != nullptr; }

int64_t BlasLibraries::line_bytes(const MatmulProblem& problem) const {
  const Blas* library = first_for(problem);
  return library != nullptr ? library->line_bytes(problem) : 1;
}

int BlasLibraries::algorithms(const MatmulProblem& problem, kernels::LibraryAlgorithm* numbers) const {
  const Blas* library = first_for(problem);
  if (library == nullptr) return 0;
  make_current_();
  return library->algorithms(problem, numbers);
}

BlasQueue::BlasQueue(const BlasLibraries& libraries, NativeStream stream) {
  for (const std::unique_ptr<Blas>& library : libraries.libraries_) {
    entries_.push_back({library.get(), library->open_stream(stream)});
  }
}

uhal_status BlasQueue::run(const MatmulProblem& problem, kernels::LibraryAlgorithm algorithm, void* workspace,
                           bool is_captured) {
  for (const Entry& entry : entries_) {
    if (!entry.library->takes(problem) || (is_captured && !entry.library->uses_given_workspace())) continue;
    const uhal_status status = entry.stream->run(problem, algorithm, workspace);
    algorithm = kernels::kBestAlgorithm;
    if (status == UHAL_OK) kernels::note_implementation("%s", entry.library->name().c_str());
    if (status != UHAL_UNIMPLEMENTED) return status;
  }
  return UHAL_UNIMPLEMENTED;
}

}  // namespace unihal::gpu
