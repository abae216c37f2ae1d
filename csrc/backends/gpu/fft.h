// Fourier transforms by a vendor's library: cuFFT, or hipFFT, which has cuFFT's functions under names of its own and
// runs them on rocFFT.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "csrc/backends/gpu/api.h"
#include "csrc/backends/gpu/library.h"
#include "csrc/kernels/libraries.h"
#include "unihal/status.h"

namespace unihal::gpu {

// A number of cuFFT's, a pointer of hipFFT's. A number is passed where a pointer is: what is above its 32 bits is not
// looked at, and stays zero where one is given out.
using FftHandle = intptr_t;

// Statuses, kinds of transform and directions have the same numbers in both libraries.
struct FftFunctions {
  int (*create)(FftHandle* handle);
  int (*destroy)(FftHandle handle);
  int (*get_version)(int* version);
  int (*set_stream)(FftHandle handle, NativeStream stream);
  int (*set_auto_allocation)(FftHandle handle, int allocates);
  int (*set_work_area)(FftHandle handle, void* memory);
  int (*make_plan)(FftHandle handle, int rank, long long* lengths, long long* from_embedding, long long from_stride,
                   long long from_distance, long long* to_embedding, long long to_stride, long long to_distance,
                   int kind, long long batch, size_t* bytes);
  int (*complex_to_complex)(FftHandle handle, void* from, void* to, int direction);
  int (*double_complex_to_complex)(FftHandle handle, void* from, void* to, int direction);
  int (*real_to_complex)(FftHandle handle, void* from, void* to);
  int (*double_real_to_complex)(FftHandle handle, void* from, void* to);
  int (*complex_to_real)(FftHandle handle, void* from, void* to);
  int (*double_complex_to_real)(FftHandle handle, void* from, void* to);
};

// A library on a device. All functions from any thread.
class Fft final : public kernels::FftLibrary {
 public:
  Fft(const FftFunctions& functions, std::string name) : functions(functions), name_(std::move(name)) {}

  const char* name() const override { return name_.c_str(); }
  bool takes(const kernels::FftTask& task) const override;

  const FftFunctions functions;

 private:
  const std::string name_;  // "cuFFT 11.4"
};

// What it keeps for a stream. The device is current in all calls. Threads: as submissions, one at a time.
class FftStream {
 public:
  FftStream(const Fft& library, NativeStream stream) : library_(library), stream_(stream) {}
  ~FftStream();
  FftStream(const FftStream&) = delete;
  FftStream& operator=(const FftStream&) = delete;

  // As the functions of kernels::Queue.
  bool plan(const kernels::FftTask& task, size_t* bytes);
  uhal_status run(const kernels::FftTask& task, void* workspace);

 private:
  // All of a task but its addresses.
  using Key = std::array<int64_t, 18>;
  struct Plan {
    FftHandle handle = 0;
    bool is_made = false;  // else the library refused it
    size_t bytes = 0;
  };

  // Programs whose shapes change all the time start again at this number.
  static constexpr size_t kMostPlans = 256;

  static Key key_of(const kernels::FftTask& task);
  Plan make_plan(const kernels::FftTask& task) const;
  const Plan& find_plan(const kernels::FftTask& task);
  void drop_plans();

  const Fft& library_;
  const NativeStream stream_;
  std::map<Key, Plan> plans_;
};

// The library of a device; nullptr where there is none that can be used. `notes` gets a line.
std::unique_ptr<Fft> open_fft(const LibraryDevice& device, LibraryNotes* notes);

}  // namespace unihal::gpu
