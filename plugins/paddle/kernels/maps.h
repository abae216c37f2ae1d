// Kernels that are one function of elementwise.def.
#pragma once

#include "plugins/paddle/kernels/common.h"

namespace unihal::paddle {

// y = function(x)
template <int function>
void unary(Context context, Input x, Output y) {
  const View in = x.view();
  const View out = context.allocate(y, in.dtype);
  context.map(function, {&in}, {&out});
}

// The same, of integers as float32
template <int function>
void unary_floating(Context context, Input x, Output y) {
  const View in = x.view();
  const View out = context.allocate(y, is_integer(in.dtype) ? static_cast<uhal_dtype>(UHAL_FLOAT32) : in.dtype);
  context.map(function, {&in}, {&out});
}

// The same, of integers the numbers themselves
template <int function>
void rounding(Context context, Input x, Output y) {
  const View in = x.view();
  const View out = context.allocate(y, in.dtype);
  context.map(is_integer(in.dtype) ? uhal_map_identity : function, {&in}, {&out});
}

// y = function(x), a bool
template <int function>
void unary_test(Context context, Input x, Output y) {
  const View in = x.view();
  const View out = context.allocate(y, UHAL_BOOL);
  context.map(function, {&in}, {&out});
}

// z = function(x, y), broadcast
template <int function>
void binary(Context context, Input x, Input y, Output z) {
  const View a = x.view(), b = y.view();
  require_same_dtype(context, a, b);
  const View out = context.allocate(z, a.dtype);
  context.map(function, {&a, &b}, {&out});
}

// z = function(x, y), broadcast, a bool
template <int function>
void binary_test(Context context, Input x, Input y, Output z) {
  const View a = x.view(), b = y.view();
  require_same_dtype(context, a, b);
  const View out = context.allocate(z, UHAL_BOOL);
  context.map(function, {&a, &b}, {&out});
}

// dx = function(operand, dy): the gradient of a unary function, from its input or its output
template <int function>
void gradient(Context context, Input operand, Input dy, Output dx) {
  const View a = operand.view(), b = dy.view();
  const View out = context.allocate(dx, a.dtype);
  context.map(function, {&a, &b}, {&out});
}

// The same, where Paddle passes x and y and the function needs x
template <int function>
void gradient_of_input(Context context, Input x, Input, Input dy, Output dx) {
  gradient<function>(context, x, dy, dx);
}

// dx = 0
inline void gradient_zero(Context context, Input dy, Output dx) { fill_zero(context, context.allocate(dx, dy.uhal())); }

}  // namespace unihal::paddle
