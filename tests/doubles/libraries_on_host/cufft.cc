// cuFFT, and hipFFT with ON_HOST_HIP: transforms by the definition, in the advanced layout of cufftMakePlanMany64. Real
// forms want half spectra that are those of real signals, and say so by NaN.
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/doubles/libraries_on_host/control.h"

namespace {

LibraryControl control;
constexpr int kInvalidPlan = 1;
constexpr int kInvalidValue = 4;

struct Layout {
  long long stride, distance, embedding[3];
};

struct Plan {
  int rank = 0;
  int kind = 0;
  long long batch = 0;
  long long lengths[3] = {1, 1, 1};
  Layout from = {}, to = {};
  bool allocates = true;
  void* work_area = nullptr;
};

using Number = std::complex<double>;

// cuFFT's handles are small numbers.
std::vector<Plan>& plans() {
  static std::vector<Plan> all;
  return all;
}
Plan* find(intptr_t handle) {
  const auto number = static_cast<int>(handle);
  return number > 0 && number <= static_cast<int>(plans().size()) ? &plans()[static_cast<size_t>(number - 1)] : nullptr;
}

// The offset of an element of transform b; `lengths` are those of the side.
long long offset(const Layout& layout, int rank, const long long* at, long long b) {
  long long inside = at[0];
  for (int i = 1; i < rank; ++i) inside = inside * layout.embedding[i] + at[i];
  return b * layout.distance + inside * layout.stride;
}

template <class Visit>
void for_each(int rank, const long long* lengths, const Visit& visit) {
  long long at[3] = {};
  long long count = 1;
  for (int i = 0; i < rank; ++i) count *= lengths[i];
  for (long long n = 0; n < count; ++n) {
    long long rest = n;
    for (int i = rank - 1; i >= 0; rest /= lengths[i--]) at[i] = rest % lengths[i];
    visit(at);
  }
}

// The value of a whole spectrum where half of it is stored.
template <class Real>
Number spectrum_at(const Plan& plan, const Real* from, const long long* at, long long b) {
  const int last = plan.rank - 1;
  const bool is_stored = 2 * at[last] <= plan.lengths[last];
  long long where[3] = {};
  for (int i = 0; i < plan.rank; ++i) where[i] = is_stored ? at[i] : (plan.lengths[i] - at[i]) % plan.lengths[i];
  const long long place = 2 * offset(plan.from, plan.rank, where, b);
  const Number stored(from[place], from[place + 1]);
  const bool is_own_mirror = at[last] == 0 || 2 * at[last] == plan.lengths[last];
  if (plan.rank == 1 && is_own_mirror && stored.imag() != 0) return std::numeric_limits<double>::quiet_NaN();
  return is_stored ? stored : std::conj(stored);
}

template <class Real>
int run(intptr_t handle, int kind, void* source, void* target, int direction) {
  Plan* plan = find(handle);
  if (plan == nullptr || plan->kind != kind) return kInvalidPlan;
  if (control.work_status != 0) return control.work_status;
  if (plan->allocates || (control.workspace > 0 && plan->work_area == nullptr)) return kInvalidValue;
  ++control.works;
  if (!control.computes) return 0;
  const bool from_real = (kind & 0xf) == 0xa, to_real = (kind & 0xf) == 0xc;
  const auto* from = static_cast<const Real*>(source);
  auto* to = static_cast<Real*>(target);
  long long results[3] = {plan->lengths[0], plan->lengths[1], plan->lengths[2]};
  if (from_real) results[plan->rank - 1] = results[plan->rank - 1] / 2 + 1;
  for (long long b = 0; b < plan->batch; ++b) {
    for_each(plan->rank, results, [&](const long long* k) {
      Number sum = 0;
      for_each(plan->rank, plan->lengths, [&](const long long* j) {
        double turns = 0;
        for (int i = 0; i < plan->rank; ++i) {
          turns += static_cast<double>(j[i] * k[i] % plan->lengths[i]) / static_cast<double>(plan->lengths[i]);
        }
        const long long place = offset(plan->from, plan->rank, j, b);
        const Number x = from_real ? Number(from[place])
                         : to_real ? spectrum_at(*plan, from, j, b)
                                   : Number(from[2 * place], from[2 * place + 1]);
        sum += x * std::polar(1.0, direction * 2 * M_PI * turns);
      });
      const long long place = offset(plan->to, plan->rank, k, b);
      if (to_real) {
        to[place] = static_cast<Real>(sum.real());
      } else {
        to[2 * place] = static_cast<Real>(sum.real());
        to[2 * place + 1] = static_cast<Real>(sum.imag());
      }
    });
  }
  return 0;
}

}  // namespace

#ifdef ON_HOST_HIP
#define NAME(name) hipfft##name
using Handle = intptr_t;
constexpr int kVersion = 10015;
#else
#define NAME(name) cufft##name
using Handle = int;
constexpr int kVersion = 11403;
#endif

extern "C" {

LibraryControl* on_host_control() { return &control; }

int NAME(Create)(Handle* handle) {
  if (control.create_status != 0) return control.create_status;
  plans().emplace_back();
  *handle = static_cast<Handle>(plans().size());
  ++control.handles;
  return 0;
}

int NAME(Destroy)(Handle) {
  --control.handles;
  return 0;
}

int NAME(GetVersion)(int* version) {
  *version = control.version != 0 ? control.version : kVersion;
  return 0;
}

int NAME(SetStream)(Handle handle, void*) { return find(handle) != nullptr ? 0 : kInvalidPlan; }

int NAME(SetAutoAllocation)(Handle handle, int allocates) {
  find(handle)->allocates = allocates != 0;
  return 0;
}

int NAME(SetWorkArea)(Handle handle, void* memory) {
  find(handle)->work_area = memory;
  return 0;
}

int NAME(MakePlanMany64)(Handle handle, int rank, long long* lengths, long long* from_embedding, long long from_stride,
                         long long from_distance, long long* to_embedding, long long to_stride, long long to_distance,
                         int kind, long long batch, size_t* bytes) {
  ++control.questions;
  if (control.advice_status != 0) return control.advice_status;
  if (from_stride < 1 || from_distance < 1 || to_stride < 1 || to_distance < 1) return kInvalidValue;
  Plan& plan = *find(handle);
  plan.rank = rank;
  plan.kind = kind;
  plan.batch = batch;
  plan.from = {from_stride, from_distance, {}};
  plan.to = {to_stride, to_distance, {}};
  for (int i = 0; i < rank; ++i) {
    plan.lengths[i] = lengths[i];
    plan.from.embedding[i] = from_embedding[i];
    plan.to.embedding[i] = to_embedding[i];
  }
  *bytes = control.workspace;
  return 0;
}

int NAME(ExecC2C)(Handle handle, void* from, void* to, int direction) {
  return run<float>(handle, 0x29, from, to, direction);
}
int NAME(ExecZ2Z)(Handle handle, void* from, void* to, int direction) {
  return run<double>(handle, 0x69, from, to, direction);
}
int NAME(ExecR2C)(Handle handle, void* from, void* to) { return run<float>(handle, 0x2a, from, to, -1); }
int NAME(ExecD2Z)(Handle handle, void* from, void* to) { return run<double>(handle, 0x6a, from, to, -1); }
int NAME(ExecC2R)(Handle handle, void* from, void* to) { return run<float>(handle, 0x2c, from, to, 1); }
int NAME(ExecZ2D)(Handle handle, void* from, void* to) { return run<double>(handle, 0x6c, from, to, 1); }

}  // extern "C"
