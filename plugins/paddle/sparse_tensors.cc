#include "plugins/paddle/sparse_tensors.h"

#include <dlfcn.h>

#include <algorithm>

#include "plugins/paddle/library.h"

namespace unihal::paddle {
namespace {

// Both classes: a table of virtual functions, a type's number, the meta data, which begins with the shape, and dense
// tensors one behind the other; in SparseCooTensor a flag follows.
constexpr size_t kDimsOffset = 16;
constexpr size_t kFirstPart = 104;
constexpr size_t kPartBytes = 264;
constexpr size_t kSecondPart = kFirstPart + kPartBytes;
constexpr size_t kThirdPart = kSecondPart + kPartBytes;
constexpr size_t kMostObjectBytes = 2048;

// common::DDim.
struct PaddleDims {
  int64_t lengths[9];
  int rank;
};

using Construct = void (*)(void* object);
using Destroy = void (*)(void* object);
using Copy = void (*)(void* object, const void* other);
using DimsAt = const void* (*)(const void* object);
using AxesOfCoordinates = int32_t (*)(const void* object);
using SetCoo = void (*)(void* object, const void* indices, const void* values, const PaddleDims& dims, bool coalesced);
using SetCsr = void (*)(void* object, const void* crows, const void* cols, const void* values, const PaddleDims& dims);

constexpr const char* kSetCoo = "_ZN3phi15SparseCooTensor9SetMemberERKNS_11DenseTensorES3_RKN6common4DDimEb";
constexpr const char* kSetCsr = "_ZN3phi15SparseCsrTensor9SetMemberERKNS_11DenseTensorES3_S3_RKN6common4DDimE";

struct Functions {
  SetCoo set_coo = nullptr;
  SetCsr set_csr = nullptr;
};

const Functions& functions() {
  static const Functions found = [] {
    Functions result;
    void* library = find_paddle_library(kSetCoo);
    if (library == nullptr) return result;
    result.set_coo = find_function<SetCoo>(library, kSetCoo);
    result.set_csr = find_function<SetCsr>(library, kSetCsr);
    return result;
  }();
  return found;
}

PaddleDims as_dims(const std::vector<int64_t>& dims) {
  PaddleDims result = {};
  result.rank = static_cast<int>(std::min<size_t>(dims.size(), 9));
  std::copy_n(dims.begin(), result.rank, result.lengths);
  return result;
}

void resize(const Tensor& part, std::vector<int64_t> dims) {
  phi.PD_TensorSetDims(part.handle, static_cast<int64_t>(dims.size()), dims.data(), IgnoredStatus());
}

// An object of Paddle's own making.
class Made {
 public:
  Made(void* library, const char* destroy) : destroy_(find_function<Destroy>(library, destroy)), is_made_(false) {}
  Made(void* library, const char* construct, const char* destroy) : Made(library, destroy) {
    const auto make = find_function<Construct>(library, construct);
    if (make == nullptr || destroy_ == nullptr) return;
    make(object_);
    is_made_ = true;
  }
  Made(const Made&) = delete;
  Made& operator=(const Made&) = delete;
  ~Made() {
    if (is_made_) destroy_(object_);
  }
  void copy(void* library, const char* construct, const void* other) {
    const auto make = find_function<Copy>(library, construct);
    if (make == nullptr || destroy_ == nullptr) return;
    make(object_, other);
    is_made_ = true;
  }
  void* get() { return is_made_ ? object_ : nullptr; }

 private:
  alignas(16) unsigned char object_[kMostObjectBytes] = {};
  Destroy destroy_;
  bool is_made_;
};

bool sparse_tensors_look_as_expected() {
  if (functions().set_coo == nullptr || functions().set_csr == nullptr) return false;
  void* library = find_paddle_library(kSetCoo);
  const auto dims_at = find_function<DimsAt>(library, "_ZNK3phi15SparseCsrTensor4dimsEv");
  const auto axes = find_function<AxesOfCoordinates>(library, "_ZNK3phi15SparseCooTensor10sparse_dimEv");
  Made coo(library, "_ZN3phi15SparseCooTensorC1Ev", "_ZN3phi15SparseCooTensorD1Ev");
  Made csr(library, "_ZN3phi15SparseCsrTensorC1Ev", "_ZN3phi15SparseCsrTensorD1Ev");
  Made copied(library, "_ZN3phi15SparseCsrTensorD1Ev");
  if (axes == nullptr || dims_at == nullptr || coo.get() == nullptr || csr.get() == nullptr) return false;

  const std::vector<int64_t> dims = {5, 6, 7};
  const CooTensor x{{coo.get()}};
  resize(x.indices(), {2, 4});
  resize(x.values(), {4, 7});
  x.set(x.indices(), x.values(), dims, false);
  if (x.is_coalesced()) return false;
  x.set(x.indices(), x.values(), dims, true);
  if (!x.is_coalesced() || axes(coo.get()) != 2 || x.dims() != dims) return false;
  if (x.values().rank() != 2 || x.values().dim(0) != 4 || x.values().dim(1) != 7) return false;

  // Paddle's SetMember of this class refuses parts without memory, so a copy shows where they are.
  const CsrTensor y{{csr.get()}};
  resize(y.crows(), {6});
  resize(y.cols(), {4});
  resize(y.values(), {3});
  if (dims_at(csr.get()) != static_cast<const char*>(csr.get()) + kDimsOffset) return false;
  copied.copy(library, "_ZN3phi15SparseCsrTensorC1ERKS0_", csr.get());
  if (copied.get() == nullptr) return false;
  const CsrTensor z{{copied.get()}};
  return z.crows().dim(0) == 6 && z.cols().dim(0) == 4 && z.values().dim(0) == 3;
}

}  // namespace

std::vector<int64_t> SparseTensor::dims() const {
  const auto& dims = *reinterpret_cast<const PaddleDims*>(static_cast<const char*>(handle) + kDimsOffset);
  return {dims.lengths, dims.lengths + std::clamp(dims.rank, 0, 9)};
}

Tensor CooTensor::indices() const { return part(kFirstPart); }
Tensor CooTensor::values() const { return part(kSecondPart); }
bool CooTensor::is_coalesced() const {
  return *reinterpret_cast<const bool*>(static_cast<const char*>(handle) + kThirdPart);
}
void CooTensor::set(const Tensor& indices, const Tensor& values, const std::vector<int64_t>& dims,
                    bool coalesced) const {
  functions().set_coo(handle, indices.handle, values.handle, as_dims(dims), coalesced);
}

Tensor CsrTensor::crows() const { return part(kFirstPart); }
Tensor CsrTensor::cols() const { return part(kSecondPart); }
Tensor CsrTensor::values() const { return part(kThirdPart); }
void CsrTensor::set(const Tensor& crows, const Tensor& cols, const Tensor& values,
                    const std::vector<int64_t>& dims) const {
  functions().set_csr(handle, crows.handle, cols.handle, values.handle, as_dims(dims));
}

bool sparse_tensors_known() {
  static const bool known = sparse_tensors_look_as_expected();
  return known;
}

}  // namespace unihal::paddle
