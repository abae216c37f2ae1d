#include "csrc/backends/common/space.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace unihal {
namespace {

struct Axis {
  int64_t length;
  int64_t strides[kMaxOperands];
};

// Whether a belongs outside b: by the first operand that tells them apart.
bool outside(const Axis& a, const Axis& b, int operands) {
  for (int k = 0; k < operands; ++k) {
    const int64_t left = std::abs(a.strides[k]);
    const int64_t right = std::abs(b.strides[k]);
    if (left != right) return left > right;
  }
  return false;
}

// The usual case, whose space is one axis: views of one shape without gaps, in row-major order.
bool are_alike_and_contiguous(const uhal_tensor* const* views, int operands) {
  const uhal_tensor& first = *views[0];
  for (int k = 1; k < operands; ++k) {
    if (views[k]->rank != first.rank) return false;
  }
  int64_t stride = 1;
  for (int i = first.rank - 1; i >= 0; --i) {
    const int64_t length = first.shape[i];
    if (length == 1) continue;
    for (int k = 0; k < operands; ++k) {
      if (views[k]->shape[i] != length || views[k]->strides[i] != stride) return false;
    }
    stride *= length;
  }
  return true;
}

}  // namespace

bool Space::dense(int operand) const {
  int64_t expected = 1;
  for (int axis = rank - 1; axis >= 0; --axis) {
    if (strides[operand][axis] != expected) return false;
    expected *= shape[axis];
  }
  return true;
}

int64_t Space::period(int operand) const {
  for (int axis = 0; axis + 1 < rank; ++axis) {
    if (strides[operand][axis] != 0) return 0;
  }
  return strides[operand][rank - 1] == 0 ? 1 : rank > 1 ? inner() : 0;
}

Space make_space(const uhal_tensor* const* views, int operands) {
  Space space;
  space.operands = operands;
  const uhal_tensor& first = *views[0];
  if (are_alike_and_contiguous(views, operands)) {
    for (int i = 0; i < first.rank; ++i) space.count *= first.shape[i];
    space.rank = 1;
    space.shape[0] = space.count;
    for (int k = 0; k < operands; ++k) space.strides[k][0] = 1;
    return space;
  }
  Axis axes[UHAL_MAX_RANK];
  int rank = 0;
  for (int i = 0; i < first.rank; ++i) {
    space.count *= first.shape[i];
    if (first.shape[i] == 1) continue;
    Axis axis;
    axis.length = first.shape[i];
    for (int k = 0; k < operands; ++k) {
      const int own = i - first.rank + views[k]->rank;  // broadcasting aligns the last axes
      axis.strides[k] = own < 0 || views[k]->shape[own] == 1 ? 0 : views[k]->strides[own];
    }
    // Insertion keeps the order of equal axes; ranks are small.
    int at = rank++;
    for (; at > 0 && outside(axis, axes[at - 1], operands); --at) axes[at] = axes[at - 1];
    axes[at] = axis;
  }
  int merged = 0;
  for (int i = 0; i < rank; ++i) {
    bool fits = merged > 0;
    for (int k = 0; fits && k < operands; ++k) {
      fits = space.strides[k][merged - 1] == axes[i].strides[k] * axes[i].length;
    }
    if (fits) {
      space.shape[merged - 1] *= axes[i].length;
    } else {
      space.shape[merged++] = axes[i].length;
    }
    for (int k = 0; k < operands; ++k) space.strides[k][merged - 1] = axes[i].strides[k];
  }
  if (merged == 0) {  // one element
    space.shape[0] = 1;
    for (int k = 0; k < operands; ++k) space.strides[k][0] = 1;
    merged = 1;
  }
  space.rank = merged;
  return space;
}

void lengthen_rows(Space& space) {
  constexpr int64_t kShortRow = 8;
  const int last = space.rank - 1;
  if (space.inner() >= kShortRow || std::abs(space.strides[0][last]) == 1) return;
  const auto apart = [&](int axis) {
    int64_t sum = 0;
    for (int k = 0; k < space.operands; ++k) sum += std::abs(space.strides[k][axis]);
    return sum;
  };
  int best = last;
  for (int axis = 0; axis < last; ++axis) {
    if (space.shape[axis] < 2 * space.inner()) continue;
    if (best == last || apart(axis) < apart(best)) best = axis;
  }
  std::swap(space.shape[best], space.shape[last]);
  for (int k = 0; k < space.operands; ++k) std::swap(space.strides[k][best], space.strides[k][last]);
}

uhal_tensor row_major_view(const uhal_tensor& view) {
  uhal_tensor result = view;
  int64_t stride = 1;
  for (int i = view.rank - 1; i >= 0; --i) {
    result.strides[i] = stride;
    stride *= view.shape[i];
  }
  return result;
}

Cursor::Cursor(const Space& space, int64_t position) : space_(space) {
  const int last = space.rank - 1;
  inner_ = position % space.shape[last];
  position /= space.shape[last];
  std::fill_n(outer_offset_, space.operands, int64_t{0});
  for (int i = last - 1; i >= 0; --i) {
    coordinates_[i] = position % space.shape[i];
    position /= space.shape[i];
    for (int k = 0; k < space.operands; ++k) outer_offset_[k] += coordinates_[i] * space.strides[k][i];
  }
}

void Cursor::carry() {
  inner_ = 0;
  for (int i = space_.rank - 2; i >= 0; --i) {
    const bool wraps = ++coordinates_[i] == space_.shape[i];
    const int64_t steps = wraps ? 1 - space_.shape[i] : 1;
    if (wraps) coordinates_[i] = 0;
    for (int k = 0; k < space_.operands; ++k) outer_offset_[k] += steps * space_.strides[k][i];
    if (!wraps) return;
  }
}

void Cursor::skip(int64_t elements) {
  // A division costs about as much as a few carries.
  if (elements <= 4 * space_.inner()) {
    while (elements > 0) {
      const int64_t step = std::min(elements, run());
      advance(step);
      elements -= step;
    }
    return;
  }
  int64_t rows = (inner_ + elements) / space_.inner();
  inner_ = (inner_ + elements) % space_.inner();
  for (int i = space_.rank - 2; i >= 0 && rows > 0; --i) {
    const int64_t reached = coordinates_[i] + rows;
    const int64_t coordinate = reached % space_.shape[i];
    const int64_t steps = coordinate - coordinates_[i];
    for (int k = 0; k < space_.operands; ++k) outer_offset_[k] += steps * space_.strides[k][i];
    coordinates_[i] = coordinate;
    rows = reached / space_.shape[i];
  }
}

}  // namespace unihal
