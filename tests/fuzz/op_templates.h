// Ops as they should be, one row per kind and form. The op target builds a sound op from a row, with sizes from the
// input, and then spoils it.
#pragma once

#include <cstddef>

#include "unihal/op.h"

namespace fuzz {

// Operands are separated by blanks. Each is a name per axis, then optionally '/' and its dtype, then optionally '?'
// where it may be absent.
//   axis   a digit: that length. x y z: spatial lengths, X Y Z: what a window (r s t) of the attributes makes of them.
//          C O: twice c and o. Any other letter: a length, the same wherever the letter stands.
//   dtype  i: int32 or int64, m: uint8 or bool, n: int32, q: int8 or uint8, h: a floating one of at most 32 bits, c:
//   complex, s: a statistic of the op's dtype, v: any; else the op's dtype.
//   "()"   a scalar.
struct OpTemplate {
  uhal_op_kind kind;
  const char* inputs;
  const char* outputs;
  const void* attributes;  // nullptr: none
  size_t attributes_size;
};

extern const OpTemplate kOpTemplates[];
extern const int kOpTemplateCount;

}  // namespace fuzz
