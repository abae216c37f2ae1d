// Paddle's SelectedRows: a tensor of `height` rows of which only some are stored, as gradients of sparse embeddings
// are.
//
// Paddle's C functions do not know the class. Its fields are where C++ puts them, the same in Paddle 3.0 to 3.3;
// whether that holds is tried on an object that Paddle's own constructor has made, before a kernel with such an
// argument is registered.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "plugins/paddle/arguments.h"

namespace unihal::paddle {

struct SelectedRows {
  void* handle = nullptr;

  // In any order, and a row may stand there several times: the values of one row add up. Host memory.
  std::vector<int64_t>& rows() const;
  int64_t& height() const;
  // One row of it for each of rows().
  Tensor value() const;
};

struct SparseInput : SelectedRows {};
struct SparseOutput : SelectedRows {};

struct SparseInputList : TensorList {
  using TensorList::TensorList;
  SparseInput operator[](size_t i) const { return SparseInput{{handle(i)}}; }
};

// How signatures spell the class.
constexpr const char* kSelectedRowsCode = "selected rows";
constexpr const char* kSelectedRowsListCode = "selected rows list";

// Whether this Paddle's class looks as expected.
bool selected_rows_known();

// A new object, whose value has no memory yet. Only if selected_rows_known().
std::shared_ptr<void> make_selected_rows(const std::vector<int64_t>& rows, int64_t height);

// A class of tensors travels as a pointer to its base, so the C functions for dense ones hand it over too.
UNIHAL_ARGUMENT(SparseInput, kInput, kArgumentTensor, kSelectedRowsCode, void*, (SparseInput{{raw}}),
                (SparseInput{{phi.PD_KernelContextInputAt(context, i)}}));
UNIHAL_ARGUMENT(SparseInputList, kInput, kArgumentListTensor, kSelectedRowsListCode, void*,
                SparseInputList(phi.PD_TensorVectorToList(raw), false),
                SparseInputList(phi.PD_KernelContextMultiInputAt(context, i), true));
UNIHAL_ARGUMENT(SparseOutput, kOutput, kArgumentTensor, kSelectedRowsCode, void*, (SparseOutput{{raw}}),
                (SparseOutput{{phi.PD_KernelContextOutputAt(context, i)}}));

}  // namespace unihal::paddle
