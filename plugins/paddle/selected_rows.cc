#include "plugins/paddle/selected_rows.h"

#include <dlfcn.h>

#include "plugins/paddle/library.h"

namespace unihal::paddle {
namespace {

// phi::SelectedRows: a table of virtual functions, a type's number, and a shared pointer to phi::SelectedRowsImpl,
// which begins with rows, has an index by row (std::unordered_map), the value and the height.
constexpr size_t kSelectedRowsBytes = 32;
constexpr size_t kImplementationOffset = 16;
constexpr size_t kValueOffset = 80;
constexpr size_t kHeightOffset = 88;

char* implementation(void* handle) {
  return *reinterpret_cast<char**>(static_cast<char*>(handle) + kImplementationOffset);
}

using Rows = std::vector<int64_t>;
using Construct = void (*)(void* object, const Rows& rows, const int64_t& height);
using Destroy = void (*)(void* object);
using Elements = int64_t (*)(const void* object);

template <class Function>
Function find(void* library, const char* symbol) {
  return reinterpret_cast<Function>(dlsym(library, symbol));
}

bool looks_as_expected() {
  constexpr const char* kConstructor = "_ZN3phi12SelectedRowsC1ERKSt6vectorIlSaIlEERKl";
  void* library = find_paddle_library(kConstructor);
  if (library == nullptr) return false;
  const auto construct = find<Construct>(library, kConstructor);
  const auto destroy = find<Destroy>(library, "_ZN3phi12SelectedRowsD1Ev");
  const auto elements = find<Elements>(library, "_ZNK3phi12SelectedRows5numelEv");
  if (destroy == nullptr || elements == nullptr) return false;

  const Rows rows = {3, 5, 3};
  const int64_t height = 7, dims[] = {3, 4};
  alignas(16) unsigned char object[2 * kSelectedRowsBytes] = {};
  construct(object, rows, height);
  const SelectedRows made{object};
  // The fields are compared in an order in which none is followed before what leads to it was right.
  bool right = made.height() == height && made.rows().data() != nullptr && made.rows() == rows;
  if (right) {
    phi.PD_TensorSetDims(made.value().handle, 2, dims, IgnoredStatus());
    right = elements(object) == 12;
  }
  destroy(object);
  return right;
}

}  // namespace

std::vector<int64_t>& SelectedRows::rows() const { return *reinterpret_cast<Rows*>(implementation(handle)); }
int64_t& SelectedRows::height() const { return *reinterpret_cast<int64_t*>(implementation(handle) + kHeightOffset); }
Tensor SelectedRows::value() const { return Tensor{*reinterpret_cast<void**>(implementation(handle) + kValueOffset)}; }

bool selected_rows_known() {
  static const bool known = looks_as_expected();
  return known;
}

}  // namespace unihal::paddle
