// cuBLASLt or, with ON_HOST_HIP, hipBLASLt.
#include <cmath>
#include <cstring>
#include <map>

#include "tests/doubles/libraries_on_host/control.h"
#include "tests/doubles/libraries_on_host/gemm.h"

#ifdef ON_HOST_HIP
#define LT(name) hipblasLt##name
namespace {
constexpr int kTransposed = 112;
constexpr int kCompute[] = {2, 7, 9};  // of float32, float64, int32
constexpr int kComputeTf32 = 6;
constexpr int kTransposeA = 0, kTransposeB = 1, kEpilogue = 2, kBias = 3, kBiasType = 4;
constexpr int kBatchCount = 0, kBatchOffset = 1;
constexpr size_t kAlgorithmBytes = 24;
constexpr int kNotSupported = 7;
constexpr int kInvalid = 3;
}  // namespace
#else
#define LT(name) cublasLt##name
namespace {
constexpr int kTransposed = 1;
constexpr int kCompute[] = {68, 70, 72};
constexpr int kComputeTf32 = 77;
constexpr int kTransposeA = 3, kTransposeB = 4, kEpilogue = 7, kBias = 8, kBiasType = 26;
constexpr int kBatchCount = 5, kBatchOffset = 6;
constexpr size_t kAlgorithmBytes = 64;
constexpr int kNotSupported = 15;
constexpr int kInvalid = 7;
}  // namespace
#endif

namespace {

LibraryControl control;

struct Description {
  int compute = 0;
  int scale = 0;
  int32_t transpose_a = 0;
  int32_t transpose_b = 0;
  uint32_t epilogue = 1;
  const void* bias = nullptr;
  int32_t bias_type = -1;
};

struct Layout {
  int type = 0;
  uint64_t rows = 0;
  uint64_t columns = 0;
  int64_t leading = 0;
  int32_t batch = 1;
  int64_t offset = 0;
};

struct Preference {
  std::map<int, uint64_t> values;
};

struct Algorithm {
  uint32_t mark;
  uint32_t number;
  uint32_t alignments[4];
};
constexpr uint32_t kMark = 0x616c676f;

template <class Value>
int copy(Value* to, const void* from, size_t bytes) {
  if (bytes != sizeof *to) return kInvalid;
  std::memcpy(to, from, bytes);
  return 0;
}

template <class Object>
int make(Object** object) {
  *object = new Object;
  ++control.descriptors;
  return 0;
}

template <class Object>
int drop(Object* object) {
  delete object;
  --control.descriptors;
  return 0;
}

on_host::Matrix matrix(const void* data, const Layout& layout, bool transposed) {
  return {data, layout.type, transposed, layout.leading, layout.offset};
}

// Whether the shapes of all operands agree, and each column has room.
bool agree(const Description& description, const Layout& a, const Layout& b, const Layout& c, const Layout& d) {
  const bool is_a = description.transpose_a == kTransposed;
  const bool is_b = description.transpose_b == kTransposed;
  const uint64_t m = is_a ? a.columns : a.rows;
  const uint64_t k = is_a ? a.rows : a.columns;
  const uint64_t n = is_b ? b.rows : b.columns;
  bool fits = (is_b ? b.columns : b.rows) == k && d.rows == m && d.columns == n && c.rows == m && c.columns == n;
  for (const Layout* layout : {&a, &b, &c, &d}) {
    fits &= layout->leading >= static_cast<int64_t>(layout->rows) && layout->batch == d.batch;
  }
  const int scale_of_compute = description.compute == kCompute[0]                                 ? on_host::kFloat
                               : description.compute == kCompute[1]                               ? on_host::kDouble
                               : description.compute == kCompute[2]                               ? on_host::kInt32
                               : description.compute == kComputeTf32 && a.type == on_host::kFloat ? on_host::kFloat
                                                                                                  : -1;
  return fits && a.type == b.type && c.type == d.type && description.scale == scale_of_compute;
}

double scalar(const void* value, int type) { return on_host::read(value, 0, type); }

#ifndef ON_HOST_HIP
uint32_t alignment_of(const void* address) {
  const auto value = reinterpret_cast<uintptr_t>(address) | 256;
  return static_cast<uint32_t>(value & -value);
}
#endif

}  // namespace

extern "C" {

LibraryControl* on_host_control() { return &control; }

#ifdef ON_HOST_HIP
int hipblasLtGetVersion(void*, int* version) {
  *version = control.version != 0 ? control.version : 1000;  // 0.10
  return 0;
}
#else
size_t cublasLtGetVersion() { return control.version != 0 ? static_cast<size_t>(control.version) : 120405; }
#endif

int LT(Create)(void** handle) {
  if (control.create_status != 0) return control.create_status;
  *handle = &control;
  ++control.handles;
  return 0;
}

int LT(Destroy)(void*) {
  --control.handles;
  return 0;
}

int LT(MatmulDescCreate)(Description** description, int compute, int scale) {
  make(description);
  (*description)->compute = compute;
  (*description)->scale = scale;
  return 0;
}

int LT(MatmulDescDestroy)(Description* description) { return drop(description); }

int LT(MatmulDescSetAttribute)(Description* description, int attribute, const void* value, size_t bytes) {
  switch (attribute) {
    case kTransposeA:
      return copy(&description->transpose_a, value, bytes);
    case kTransposeB:
      return copy(&description->transpose_b, value, bytes);
    case kEpilogue:
      return copy(&description->epilogue, value, bytes);
    case kBias:
      return copy(&description->bias, value, bytes);
    case kBiasType:
      return copy(&description->bias_type, value, bytes);
    default:
      return kInvalid;
  }
}

int LT(MatrixLayoutCreate)(Layout** layout, int type, uint64_t rows, uint64_t columns, int64_t leading) {
  make(layout);
  (*layout)->type = type;
  (*layout)->rows = rows;
  (*layout)->columns = columns;
  (*layout)->leading = leading;
  return 0;
}

int LT(MatrixLayoutDestroy)(Layout* layout) { return drop(layout); }

int LT(MatrixLayoutSetAttribute)(Layout* layout, int attribute, const void* value, size_t bytes) {
  if (attribute == kBatchCount) return copy(&layout->batch, value, bytes);
  if (attribute == kBatchOffset) return copy(&layout->offset, value, bytes);
  return kInvalid;
}

int LT(MatmulPreferenceCreate)(Preference** preference) { return make(preference); }

int LT(MatmulPreferenceDestroy)(Preference* preference) { return drop(preference); }

int LT(MatmulPreferenceSetAttribute)(Preference* preference, int attribute, const void* value, size_t bytes) {
  uint64_t number = 0;
  if (bytes > sizeof number) return kInvalid;
  std::memcpy(&number, value, bytes);
  preference->values[attribute] = number;
  return 0;
}

int LT(MatmulAlgoGetHeuristic)(void*, const Description* description, const Layout* a, const Layout* b, const Layout* c,
                               const Layout* d, const Preference* preference, int wanted, unsigned char* answers,
                               int* found) {
  ++control.questions;
  *found = 0;
  if (control.advice_status != 0) return control.advice_status;
  if (description->compute == control.refused_compute) return kNotSupported;
  constexpr int kMostWorkspace = 1;
  const auto limit = preference->values.find(kMostWorkspace);
  if (wanted < 1 || !agree(*description, *a, *b, *c, *d)) return kInvalid;
  if (control.workspace > (limit == preference->values.end() ? 0 : limit->second)) return kNotSupported;
  Algorithm algorithm = {kMark, 0, {1, 1, 1, 1}};
#ifndef ON_HOST_HIP
  constexpr int kReductions = 3;
  constexpr int kAlignment = 5;
  const auto reductions = preference->values.find(kReductions);
  if (reductions == preference->values.end() || (reductions->second & 4) != 0) return kNotSupported;
  // An algorithm that sums in parts rounds the sums to a narrow output before it adds the bias: none of those is
  // wanted.
  const bool is_narrow = d->type != description->scale;
  if ((reductions->second & 2) != 0 && (description->epilogue & 4) != 0 && is_narrow) return kNotSupported;
  for (int i = 0; i < 4; ++i) {
    const auto alignment = preference->values.find(kAlignment + i);
    algorithm.alignments[i] = alignment == preference->values.end() ? 256 : static_cast<uint32_t>(alignment->second);
  }
#endif
  constexpr size_t kAnswerBytes = kAlgorithmBytes + 32;
  for (; *found < wanted && *found < control.algorithms; ++*found, answers += kAnswerBytes) {
    algorithm.number = static_cast<uint32_t>(*found);
    std::memset(answers, 0, kAnswerBytes);
    std::memcpy(answers, &algorithm, kAlgorithmBytes < sizeof algorithm ? kAlgorithmBytes : sizeof algorithm);
    std::memcpy(answers + kAlgorithmBytes, &control.workspace, sizeof control.workspace);
  }
  return *found > 0 ? 0 : kNotSupported;
}

int LT(Matmul)(void*, const Description* description, const void* alpha, const void* a, const Layout* a_layout,
               const void* b, const Layout* b_layout, const void* beta, const void* c, const Layout* c_layout, void* d,
               const Layout* d_layout, const Algorithm* algorithm, void* workspace, size_t workspace_bytes, void*) {
  if (control.work_status != 0) return control.work_status;
  if (algorithm->mark != kMark || !agree(*description, *a_layout, *b_layout, *c_layout, *d_layout)) return kInvalid;
  if (control.workspace != 0 && (workspace == nullptr || workspace_bytes < control.workspace)) return kInvalid;
#ifndef ON_HOST_HIP
  const void* const operands[] = {a, b, c, d};
  for (int i = 0; i < 4; ++i) {
    if (alignment_of(operands[i]) < algorithm->alignments[i]) return kInvalid;
  }
#endif
  if (static_cast<int>(algorithm->number) == control.refused_algorithm) return kNotSupported;
  control.last_algorithm = static_cast<int>(algorithm->number);
  ++control.works;
  control.compute = description->compute;
  if (!control.computes) return 0;
  const bool is_a = description->transpose_a == kTransposed;
  const bool is_b = description->transpose_b == kTransposed;
  const int bias_type = description->bias_type >= 0 ? description->bias_type : d_layout->type;
  const auto finish = [&](double value, int64_t row) {
    if ((description->epilogue & 4) != 0) value += on_host::read(description->bias, row, bias_type);
    if ((description->epilogue & 2) != 0) value = value > 0 ? value : 0;
    if ((description->epilogue & 32) == 0) return value;
    return 0.5 * value * (1 + std::tanh(0.79788456080286535588 * (value + 0.044715 * value * value * value)));
  };
  on_host::multiply(static_cast<int64_t>(d_layout->rows), static_cast<int64_t>(d_layout->columns),
                    static_cast<int64_t>(is_a ? a_layout->rows : a_layout->columns), d_layout->batch,
                    scalar(alpha, description->scale), matrix(a, *a_layout, is_a), matrix(b, *b_layout, is_b),
                    scalar(beta, description->scale), matrix(c, *c_layout, false), d, matrix(d, *d_layout, false),
                    finish);
  return 0;
}

}  // extern "C"
