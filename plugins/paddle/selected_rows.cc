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

using RowList = std::vector<int64_t>;
using ConstructRows = void (*)(void* object, const RowList& rows, const int64_t& height);
using DestroyRows = void (*)(void* object);
using Elements = int64_t (*)(const void* object);

ConstructRows construct = nullptr;
DestroyRows destroy = nullptr;

bool rows_look_as_expected() {
  constexpr const char* kConstructor = "_ZN3phi12SelectedRowsC1ERKSt6vectorIlSaIlEERKl";
  void* library = find_paddle_library(kConstructor);
  if (library == nullptr) return false;
  construct = find_function<ConstructRows>(library, kConstructor);
  destroy = find_function<DestroyRows>(library, "_ZN3phi12SelectedRowsD1Ev");
  const auto elements = find_function<Elements>(library, "_ZNK3phi12SelectedRows5numelEv");
  if (destroy == nullptr || elements == nullptr) return false;

  const RowList rows = {3, 5, 3};
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

std::vector<int64_t>& SelectedRows::rows() const { return *reinterpret_cast<RowList*>(implementation(handle)); }
int64_t& SelectedRows::height() const { return *reinterpret_cast<int64_t*>(implementation(handle) + kHeightOffset); }
Tensor SelectedRows::value() const { return Tensor{*reinterpret_cast<void**>(implementation(handle) + kValueOffset)}; }

bool selected_rows_known() {
  static const bool known = rows_look_as_expected();
  return known;
}

std::shared_ptr<void> make_selected_rows(const std::vector<int64_t>& rows, int64_t height) {
  void* const object = ::operator new(2 * kSelectedRowsBytes);
  construct(object, rows, height);
  return std::shared_ptr<void>(object, [](void* made) {
    destroy(made);
    ::operator delete(made);
  });
}

}  // namespace unihal::paddle
