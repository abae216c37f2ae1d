// The cells of recurrent layers (UHAL_OP_RNN), on one row of one step: `count` units, all operands with adjacent
// elements. T is float or double.
#pragma once

#include "unihal/op.h"

namespace unihal::stub {

// A row of a step. `x` and `product` have the gates' parts one after the other, each `count` wide; the bias is in the
// product already. `reserve` has room for what the gradient needs, also where nobody wants it.
template <typename T>
struct CellRow {
  int64_t count;
  const T* x;
  const T* product;
  T* h;  // the state: read and written
  T* c;  // an LSTM's, likewise
  T* reserve;
  T clip;  // 0: none
};

template <typename T>
void run_cell(uhal_rnn_mode mode, const CellRow<T>& row);

// The gradient of a row. `dh` is all that arrives at h; in its place it leaves what goes past the product to the state
// before. `dc` is of the cell, before and after.
template <typename T>
struct CellGradientRow {
  int64_t count;
  const T* y;         // h of this step, of TANH and RELU
  const T* reserve;   // of the others
  const T* previous;  // an LSTM's c, a GRU's h of the step before; nullptr: zeros
  T* dh;
  T* dc;
  T* dx;
  T* dproduct;  // of a GRU, else nullptr
};

template <typename T>
void run_cell_gradient(uhal_rnn_mode mode, const CellGradientRow<T>& row);

}  // namespace unihal::stub
