// What gathers and scatters share: indices made offsets, and looked at as vectors.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>

#include "csrc/backends/common/dtype.h"
#include "csrc/backends/common/index_problem.h"
#include "csrc/backends/common/space.h"
#include "stub/common/indices.h"
#include "stub/common/kernels.h"
#include "stub/vector/vectorize.h"

namespace unihal::stub {

// The operands of a Space over an index op: gathered rows or updates, what is gathered from or scattered into, indices,
// and, of a scatter, the updates in row-major order.
inline constexpr int kRows = 0;
inline constexpr int kData = 1;
inline constexpr int kIndices = 2;
inline constexpr int kOrder = 3;

// Turns indices into offsets, and keeps the first one that is out of range.
class Resolver {
 public:
  Resolver(const IndexProblem& problem, const uhal_index_attributes& attributes)
      : problem_(problem), read_(problem.indices), wraps_(attributes.negative_wraps != 0) {}

  // The data's offset for the index at `offset`, and its place among all indexed positions; false if out of range.
  bool resolve(int64_t offset, int64_t* data_offset, int64_t* place) {
    *data_offset = 0;
    *place = 0;
    for (int c = 0; c < problem_.components; ++c) {
      const int64_t given = read_(offset + c * problem_.component_stride);
      const int64_t length = problem_.lengths[c];
      const int64_t index = given < 0 && wraps_ ? given + length : given;
      if (index < 0 || index >= length) {
        if (!out_of_range_.exchange(true, std::memory_order_relaxed)) {
          bad_index_ = given;
          bad_length_ = length;
        }
        return false;
      }
      *data_offset += index * problem_.strides[c];
      *place = *place * length + index;
    }
    return true;
  }

  // After the loop: makes an index out of range an error of the stream.
  void report(const Launch& launch, const uhal_index_attributes& attributes) const;

 private:
  const IndexProblem& problem_;
  IndexReader read_;
  bool wraps_;
  std::atomic<bool> out_of_range_{false};
  int64_t bad_index_ = 0;
  int64_t bad_length_ = 0;
};

// Walks through a space from `begin` to `end` in pieces that share one index: body(cursor, count).
template <class Body>
void for_each_piece(const Space& space, int64_t begin, int64_t end, const Body& body) {
  const bool shared = space.strides[kIndices][space.rank - 1] == 0;
  Cursor cursor(space, begin);
  while (begin < end) {
    const int64_t count = shared ? std::min(end - begin, cursor.run()) : 1;
    body(static_cast<const Cursor&>(cursor), count);
    cursor.advance(count);
    begin += count;
  }
}

// What is added to an index below 0 before it is looked at.
inline int64_t added_below(const IndexProblem& problem, bool wraps) { return wraps ? problem.lengths[0] : 0; }

template <class Index>
UNIHAL_INLINE int64_t index_at(const Index* indices, int64_t i, int64_t below) {
  const int64_t index = indices[i];
  return index + (index < 0 ? below : 0);
}

// Indices that are looked at together, as vectors: mostly all are inside, and none counts from the end. What is left of
// a row is looked at by fewer.
inline constexpr int64_t kTogether = 32, kFewTogether = 8;

// A vector of indices, which lie anywhere.
template <class Index>
struct IndicesOf {
  typedef Index Vector __attribute__((vector_size(32), aligned(sizeof(Index)), may_alias));
  static constexpr int64_t kCount = 32 / sizeof(Index);
};

// Whether one of so many indices is not from `first` on one of `length`, which are from 0 on.
template <int64_t count, class Index>
UNIHAL_INLINE bool any_outside(const Index* indices, int64_t stride, int64_t first, int64_t length) {
  using Vector = typename IndicesOf<Index>::Vector;
  constexpr int64_t kCount = IndicesOf<Index>::kCount, kMost = std::numeric_limits<Index>::max();
  if (first > kMost) return true;
  const auto low = static_cast<Index>(first), high = static_cast<Index>(std::min(first + length - 1, kMost));
  Index signs = 0;
  if (stride == 1) {
    Vector found = {};
    for (int64_t i = 0; i < count; i += kCount) {
      const Vector some = *reinterpret_cast<const Vector*>(indices + i);
      found |= some | (some - low) | (high - some);
    }
    for (int64_t i = 0; i < kCount; ++i) signs |= found[i];
  } else {
    for (int64_t i = 0; i < count; ++i) {
      const Index index = indices[i * stride];
      signs |= index | (index - low) | (high - index);
    }
  }
  return signs < 0;
}

// Problems are checked.
void gather(const IndexProblem& problem, Resolver& resolver, bool wraps);
uhal_status scatter(const Launch& launch, const uhal_index_attributes& attributes);

// Why a scatter cannot combine so, or nullptr.
const char* refuse_scatter(const uhal_op& op);

}  // namespace unihal::stub
