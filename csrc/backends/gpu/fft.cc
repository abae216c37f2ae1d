#include "csrc/backends/gpu/fft.h"

#include <algorithm>

#include "csrc/kernels/ops.h"

namespace unihal::gpu {
namespace {

using kernels::FftTask;

constexpr int kForward = -1;
constexpr int kInverse = 1;

// cufftType and hipfftType.
constexpr int kRealToComplex = 0x2a;
constexpr int kComplexToReal = 0x2c;
constexpr int kComplexToComplex = 0x29;
constexpr int kDoubleRealToComplex = 0x6a;
constexpr int kDoubleComplexToReal = 0x6c;
constexpr int kDoubleComplexToComplex = 0x69;

int kind_of(const FftTask& task) {
  switch (task.form) {
    case FftTask::kFromReal:
      return task.is_double ? kDoubleRealToComplex : kRealToComplex;
    case FftTask::kToReal:
      return task.is_double ? kDoubleComplexToReal : kComplexToReal;
    default:
      return task.is_double ? kDoubleComplexToComplex : kComplexToComplex;
  }
}

// Whether an address is aligned to a number of the operand, which libraries read and write as a whole.
bool is_aligned(const void* address, bool is_real, bool is_double) {
  const size_t bytes = (is_real ? 4 : 8) * (is_double ? 2 : 1);
  return reinterpret_cast<uintptr_t>(address) % bytes == 0;
}

struct FftRow {
  const char* name;  // of UNIHAL_GPU_LIBRARIES, and before its functions' names
  const char* title;
  Vendor vendor;
  std::vector<int> versions;
};

const FftRow kFftRows[] = {
    {"cufft", "cuFFT", Vendor::kCorex, {12, 11, 10}},
    {"hipfft", "hipFFT", Vendor::kHip, {0}},
};

// "11.4"; cuFFT counts by thousands from 11 on (11403) and before that likewise (10204), hipFFT by ten thousands.
std::string version_text(const FftRow& row, int version) {
  const int unit = row.vendor == Vendor::kHip ? 10000 : 1000;
  return std::to_string(version / unit) + "." + std::to_string(version % unit / 100);
}

std::unique_ptr<Fft> open_row(const FftRow& row, std::string* refusal) {
  Library library;
  if (!library.open(library_files(row.vendor, row.name, row.versions), refusal)) return nullptr;
  const std::string name = row.name;
  FftFunctions functions;
  library.find(name + "Create", &functions.create)
      .find(name + "Destroy", &functions.destroy)
      .find(name + "GetVersion", &functions.get_version)
      .find(name + "SetStream", &functions.set_stream)
      .find(name + "SetAutoAllocation", &functions.set_auto_allocation)
      .find(name + "SetWorkArea", &functions.set_work_area)
      .find(name + "MakePlanMany64", &functions.make_plan)
      .find(name + "ExecC2C", &functions.complex_to_complex)
      .find(name + "ExecZ2Z", &functions.double_complex_to_complex)
      .find(name + "ExecR2C", &functions.real_to_complex)
      .find(name + "ExecD2Z", &functions.double_real_to_complex)
      .find(name + "ExecC2R", &functions.complex_to_real)
      .find(name + "ExecZ2D", &functions.double_complex_to_real);
  if (!library.complete(refusal)) return nullptr;
  int version = 0;
  if (const int code = functions.get_version(&version); code != kLibrarySuccess) {
    *refusal = std::string(row.title) + " does not start: status " + std::to_string(code);
    return nullptr;
  }
  return std::make_unique<Fft>(functions, std::string(row.title) + " " + version_text(row, version));
}

}  // namespace

bool Fft::takes(const FftTask& task) const {
  for (const FftTask::Layout* layout : {&task.from, &task.to}) {
    if (layout->stride < 1 || layout->distance < 1) return false;
  }
  return task.batch > 0 && std::all_of(task.lengths, task.lengths + task.rank, [](int64_t n) { return n > 0; }) &&
         is_aligned(task.source, task.form == FftTask::kFromReal, task.is_double) &&
         is_aligned(task.target, task.form == FftTask::kToReal, task.is_double);
}

FftStream::~FftStream() { drop_plans(); }

void FftStream::drop_plans() {
  for (const auto& [key, plan] : plans_) {
    if (plan.is_made) library_.functions.destroy(plan.handle);
  }
  plans_.clear();
}

FftStream::Key FftStream::key_of(const FftTask& task) {
  Key key = {task.form, task.is_double, task.rank, task.batch};
  auto* word = key.begin() + 4;
  for (int i = 0; i < 3; ++i) *word++ = i < task.rank ? task.lengths[i] : 0;
  for (const FftTask::Layout* layout : {&task.from, &task.to}) {
    *word++ = layout->stride;
    *word++ = layout->distance;
    for (int i = 1; i < 3; ++i) *word++ = i < task.rank ? layout->embedding[i] : 0;
  }
  return key;
}

FftStream::Plan FftStream::make_plan(const FftTask& task) const {
  const FftFunctions& fft = library_.functions;
  Plan plan;
  if (fft.create(&plan.handle) != kLibrarySuccess) return {};
  long long lengths[3], from[3], to[3];
  for (int i = 0; i < task.rank; ++i) {
    lengths[i] = task.lengths[i];
    from[i] = task.from.embedding[i];
    to[i] = task.to.embedding[i];
  }
  plan.is_made =
      fft.set_auto_allocation(plan.handle, 0) == kLibrarySuccess &&
      fft.make_plan(plan.handle, task.rank, lengths, from, task.from.stride, task.from.distance, to, task.to.stride,
                    task.to.distance, kind_of(task), task.batch, &plan.bytes) == kLibrarySuccess &&
      fft.set_stream(plan.handle, stream_) == kLibrarySuccess;
  if (!plan.is_made) fft.destroy(plan.handle);
  return plan;
}

const FftStream::Plan& FftStream::find_plan(const FftTask& task) {
  const Key key = key_of(task);
  auto found = plans_.find(key);
  if (found == plans_.end()) {
    if (plans_.size() == kMostPlans) drop_plans();
    found = plans_.emplace(key, make_plan(task)).first;
  }
  return found->second;
}

bool FftStream::plan(const FftTask& task, size_t* bytes) {
  const Plan& plan = find_plan(task);
  *bytes = plan.bytes;
  return plan.is_made;
}

uhal_status FftStream::run(const FftTask& task, void* workspace) {
  const FftFunctions& fft = library_.functions;
  const Plan& plan = find_plan(task);
  if (!plan.is_made) return UHAL_UNIMPLEMENTED;
  if (plan.bytes > 0 && fft.set_work_area(plan.handle, workspace) != kLibrarySuccess) return UHAL_UNIMPLEMENTED;
  int code = kLibrarySuccess;
  if (task.form == FftTask::kComplex) {
    const auto run = task.is_double ? fft.double_complex_to_complex : fft.complex_to_complex;
    code = run(plan.handle, task.source, task.target, task.is_inverse ? kInverse : kForward);
  } else if (task.form == FftTask::kFromReal) {
    code = (task.is_double ? fft.double_real_to_complex : fft.real_to_complex)(plan.handle, task.source, task.target);
  } else {
    code = (task.is_double ? fft.double_complex_to_real : fft.complex_to_real)(plan.handle, task.source, task.target);
  }
  if (code == kLibrarySuccess) return UHAL_OK;
  return kernels::fail(UHAL_INTERNAL,
                       "%s failed at %lld transforms with status %d; UNIHAL_GPU_LIBRARIES=none does without it",
                       library_.name(), static_cast<long long>(task.batch), code);
}

std::unique_ptr<Fft> open_fft(const LibraryDevice& device, LibraryNotes* notes) {
  for (const FftRow& row : kFftRows) {
    if (row.vendor != device.vendor) continue;
    std::string refusal;
    std::unique_ptr<Fft> library;
    if (wants_library(row.name)) {
      library = open_row(row, &refusal);
    } else {
      refusal = "UNIHAL_GPU_LIBRARIES leaves it out";
    }
    notes->push_back(library != nullptr ? library->name() : std::string("no ") + row.title + " (" + refusal + ")");
    return library;
  }
  return nullptr;
}

}  // namespace unihal::gpu
