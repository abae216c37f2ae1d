// Gathers of UHAL_OP_GATHER, UHAL_OP_GATHER_ND and UHAL_OP_GATHER_ELEMENTS.

#include <algorithm>
#include <array>
#include <cstring>

#include "stub/common/parallel.h"
#include "stub/ops/copy.h"
#include "stub/ops/index.h"

namespace unihal::stub {
namespace {

// As many pieces of `together` elements as there are from i on. other(i): for an element whose index is not known to be
// inside.
template <int64_t together, class Index, class Blob, class Other>
UNIHAL_INLINE int64_t gather_pieces(int64_t i, int64_t count, const Index* indices, int64_t stride, int64_t length,
                                    const Blob* from, int64_t from_stride, int64_t step, Blob* to, int64_t to_stride,
                                    const Other& other) {
  constexpr int64_t kLoads = 8;  // that are made before what they read is written: as many are then under way
  for (; i + together <= count; i += together) {
    if (any_outside<together>(indices + i * stride, stride, 0, length)) {
      for (int64_t k = 0; k < together; ++k) other(i + k);
      continue;
    }
    for (int64_t begin = i; begin < i + together; begin += kLoads) {
      Blob found[kLoads];
      for (int64_t k = 0; k < kLoads; ++k) {
        found[k] = from[int64_t{indices[(begin + k) * stride]} * step + (begin + k) * from_stride];
      }
      for (int64_t k = 0; k < kLoads; ++k) to[(begin + k) * to_stride] = found[k];
    }
  }
  return i;
}

template <class Index, class Blob, class Other>
UNIHAL_INLINE void gather_many(int64_t count, const Index* indices, int64_t stride, int64_t length, const Blob* from,
                               int64_t from_stride, int64_t step, Blob* to, int64_t to_stride, const Other& other) {
  int64_t i =
      gather_pieces<kTogether>(0, count, indices, stride, length, from, from_stride, step, to, to_stride, other);
  i = gather_pieces<kFewTogether>(i, count, indices, stride, length, from, from_stride, step, to, to_stride, other);
  for (; i < count; ++i) other(i);
}

// Of one element that stands for all of an axis, as where indices are only checked: no index is needed to find it.
template <class Index, class Blob, class Other>
UNIHAL_INLINE void gather_repeated(int64_t count, const Index* indices, int64_t length, const Blob* from, Blob* to,
                                   const Other& other) {
  int64_t i = 0;
  for (; i + kTogether <= count; i += kTogether) {
    if (any_outside<kTogether>(indices + i, 1, 0, length)) {
      for (int64_t k = 0; k < kTogether; ++k) other(i + k);
    } else {
      std::fill_n(to + i, kTogether, *from);
    }
  }
  for (; i < count; ++i) other(i);
}

// Of an axis of up to so many elements all are read, and the wanted one is taken: rows are then read as vectors.
constexpr int64_t kFewAlong = 6;

// Elements with an index each among few, whose rows are `step` apart.
template <class Index, class Blob, class Other>
UNIHAL_INLINE void gather_of_few(int64_t count, const Index* indices, int64_t length, const Blob* from, int64_t step,
                                 Blob* to, const Other& other) {
  using Vector = typename IndicesOf<Index>::Vector;  // indices and elements alike
  constexpr int64_t kCount = IndicesOf<Index>::kCount;
  int64_t i = 0;
  for (; i + kTogether <= count; i += kTogether) {
    if (any_outside<kTogether>(indices + i, 1, 0, length)) {
      for (int64_t k = 0; k < kTogether; ++k) other(i + k);
      continue;
    }
    for (int64_t k = i; k < i + kTogether; k += kCount) {
      const Vector wanted = *reinterpret_cast<const Vector*>(indices + k);
      Vector found = *reinterpret_cast<const Vector*>(from + k);
      for (int64_t at = 1; at < length; ++at) {
        const Vector next = *reinterpret_cast<const Vector*>(from + k + at * step);
        found = wanted == static_cast<Index>(at) ? next : found;
      }
      *reinterpret_cast<Vector*>(to + k) = found;
    }
  }
  for (; i < count; ++i) other(i);
}

// Rows of elements with an index each, and how far each operand's row is from the one before.
struct ElementRows {
  int64_t rows, count;
  const int64_t* offsets;
  const int64_t* row_strides;
  const int64_t* strides;
};

// Elements with an index each, of one component.
template <class Index, class Blob>
UNIHAL_VECTORIZED void gather_run(const IndexProblem& problem, Resolver& resolver, bool wraps, const ElementRows& all) {
  const int64_t below = added_below(problem, wraps), length = problem.lengths[0], step = problem.strides[0];
  const int64_t to_stride = all.strides[kRows], from_stride = all.strides[kData], stride = all.strides[kIndices];
  const int64_t count = all.count;
  const bool is_dense = to_stride == 1 && stride == 1;
  const bool is_plain = is_dense && from_stride == 0;  // by far the most
  for (int64_t row = 0; row < all.rows; ++row) {
    const auto place_of = [&](int operand) { return all.offsets[operand] + row * all.row_strides[operand]; };
    Blob* const to = static_cast<Blob*>(problem.rows.data) + place_of(kRows);
    const Blob* const from = static_cast<const Blob*>(problem.data.data) + place_of(kData);
    const Index* const indices = static_cast<const Index*>(problem.indices.data) + place_of(kIndices);
    const auto one = [&](int64_t i) {
      const int64_t at = index_at(indices, i * stride, below);
      if (static_cast<uint64_t>(at) < static_cast<uint64_t>(length)) {
        to[i * to_stride] = from[at * step + i * from_stride];
      } else {
        int64_t offset, place;
        resolver.resolve(place_of(kIndices) + i * stride, &offset, &place);  // to be reported
        to[i * to_stride] = Blob();
      }
    };
    if (is_plain && step == 1) {
      gather_many(count, indices, 1, length, from, 0, 1, to, 1, one);
    } else if (is_plain && step == 0) {
      gather_repeated(count, indices, length, from, to, one);
    } else if (is_plain) {
      gather_many(count, indices, 1, length, from, 0, step, to, 1, one);
    } else if (is_dense && from_stride == 1) {  // along another axis than the last one
      if constexpr (sizeof(Index) == sizeof(Blob)) {
        if (length <= kFewAlong) {
          gather_of_few(count, indices, length, from, step, to, one);
          continue;
        }
      }
      gather_many(count, indices, 1, length, from, 1, step, to, 1, one);
    } else {
      gather_many(count, indices, stride, length, from, from_stride, step, to, to_stride, one);
    }
  }
}

// Elements with an index each, of several components.
template <class Index, class Blob>
void gather_run_of_many(const IndexProblem& problem, Resolver& resolver, bool wraps, const ElementRows& all) {
  const int64_t* const strides = all.strides;
  for (int64_t row = 0; row < all.rows; ++row) {
    const auto place_of = [&](int operand) { return all.offsets[operand] + row * all.row_strides[operand]; };
    Blob* const to = static_cast<Blob*>(problem.rows.data) + place_of(kRows);
    const Blob* const from = static_cast<const Blob*>(problem.data.data) + place_of(kData);
    const Index* const indices = static_cast<const Index*>(problem.indices.data) + place_of(kIndices);
    for (int64_t i = 0; i < all.count; ++i) {
      int64_t at = i * strides[kData];
      bool inside = true;
      for (int c = 0; c < problem.components; ++c) {
        int64_t index = indices[i * strides[kIndices] + c * problem.component_stride];
        if (wraps && index < 0) index += problem.lengths[c];
        inside &= index >= 0 && index < problem.lengths[c];
        at += index * problem.strides[c];
      }
      if (inside) {
        to[i * strides[kRows]] = from[at];
      } else {
        int64_t offset, place;
        resolver.resolve(place_of(kIndices) + i * strides[kIndices], &offset, &place);  // to be reported
        to[i * strides[kRows]] = Blob();
      }
    }
  }
}

using GatherRun = void (*)(const IndexProblem&, Resolver&, bool, const ElementRows&);

template <class Index>
GatherRun gather_run_of(int64_t size, bool one) {
  switch (size) {
    case 1:
      return one ? gather_run<Index, uint8_t> : gather_run_of_many<Index, uint8_t>;
    case 2:
      return one ? gather_run<Index, uint16_t> : gather_run_of_many<Index, uint16_t>;
    case 4:
      return one ? gather_run<Index, uint32_t> : gather_run_of_many<Index, uint32_t>;
    case 8:
      return one ? gather_run<Index, uint64_t> : gather_run_of_many<Index, uint64_t>;
    default:
      return one ? gather_run<Index, std::array<uint64_t, 2>> : gather_run_of_many<Index, std::array<uint64_t, 2>>;
  }
}

// Of rows of up to so many elements as many are gone through at once as the axis around them has.
constexpr int64_t kLongRow = 1024;

// The axes around the innermost one.
Space around_rows(const Space& space) {
  Space around = space;
  --around.rank;
  around.count /= space.inner();
  return around;
}

// Where neighbours have an index each.
void gather_elements(const IndexProblem& problem, Resolver& resolver, bool wraps, const Space& space) {
  const int64_t size = dtype_size(problem.rows.dtype);
  const bool wide = problem.indices.dtype == UHAL_INT64, one = problem.components == 1;
  const GatherRun run = wide ? gather_run_of<int64_t>(size, one) : gather_run_of<int32_t>(size, one);
  const auto strides_along = [&](int axis, int64_t* strides) {
    for (const int operand : {kRows, kData, kIndices}) strides[operand] = space.strides[operand][axis];
  };
  const auto offsets_at = [](const Cursor& cursor, int64_t* offsets) {
    for (const int operand : {kRows, kData, kIndices}) offsets[operand] = cursor.offset(operand);
  };
  const int last = space.rank - 1;
  int64_t strides[3], row_strides[3] = {};
  strides_along(last, strides);
  const bool in_rows = last > 0 && space.inner() <= kLongRow;
  if (in_rows) strides_along(last - 1, row_strides);
  const Space around = in_rows ? around_rows(space) : space;
  parallel_for(around.count, in_rows ? 2 * space.inner() : 2, [&](int64_t begin, int64_t end) {
    Cursor cursor(around, begin);
    int64_t offsets[3];
    while (begin < end) {
      const int64_t count = std::min(end - begin, cursor.run());
      offsets_at(cursor, offsets);
      run(problem, resolver, wraps,
          {in_rows ? count : 1, in_rows ? space.inner() : count, offsets, row_strides, strides});
      cursor.advance(count);
      begin += count;
    }
  });
}

// Short rows of `bytes` that lie side by side in memory, with an index each. `known` is how many bytes these are, for
// moves without a loop, or 0.
template <int64_t known, class Index>
void gather_whole_rows(const IndexProblem& problem, Resolver& resolver, int64_t below, int64_t bytes,
                       const Space& around) {
  const int64_t size = dtype_size(problem.rows.dtype), length = problem.lengths[0];
  const int64_t row_step = problem.strides[0] * size;
  const int last = around.rank - 1;
  const int64_t to_step = around.strides[kRows][last] * size, from_step = around.strides[kData][last] * size;
  const int64_t index_step = around.strides[kIndices][last];
  const auto* const first = static_cast<const Index*>(problem.indices.data);
  parallel_for(around.count, 2 * bytes / size, [&](int64_t begin, int64_t end) {
    Cursor cursor(around, begin);
    while (begin < end) {
      const int64_t count = std::min(end - begin, cursor.run());
      char* to = static_cast<char*>(problem.rows.data) + cursor.offset(kRows) * size;
      const char* from = static_cast<const char*>(problem.data.data) + cursor.offset(kData) * size;
      const Index* indices = first + cursor.offset(kIndices);
      for (int64_t row = 0; row < count; ++row) {
        const int64_t index = index_at(indices, 0, below);
        if (index >= 0 && index < length) {
          std::memcpy(to, from + index * row_step, static_cast<size_t>(known != 0 ? known : bytes));
        } else {
          int64_t offset, place;
          static_cast<void>(resolver.resolve(indices - first, &offset, &place));  // keeps which index it was
          std::memset(to, 0, static_cast<size_t>(bytes));
        }
        to += to_step;
        from += from_step;
        indices += index_step;
      }
      cursor.advance(count);
      begin += count;
    }
  });
}

template <class Index>
void gather_whole_rows_by(const IndexProblem& problem, Resolver& resolver, int64_t below, int64_t bytes,
                          const Space& around) {
  switch (bytes) {
    case 16:
      return gather_whole_rows<16, Index>(problem, resolver, below, bytes, around);
    case 32:
      return gather_whole_rows<32, Index>(problem, resolver, below, bytes, around);
    case 64:
      return gather_whole_rows<64, Index>(problem, resolver, below, bytes, around);
    default:
      return gather_whole_rows<0, Index>(problem, resolver, below, bytes, around);
  }
}

// Short rows with an index each.
void gather_rows(const IndexProblem& problem, Resolver& resolver, bool wraps, const Space& space) {
  const int64_t size = dtype_size(problem.rows.dtype), inner = space.inner();
  const CopyRun copy = copy_run_of(size);
  const Space around = around_rows(space);
  const int last = space.rank - 1;
  if (problem.components == 1 && space.strides[kRows][last] == 1 && space.strides[kData][last] == 1) {
    const bool wide = problem.indices.dtype == UHAL_INT64;
    const auto run = wide ? gather_whole_rows_by<int64_t> : gather_whole_rows_by<int32_t>;
    return run(problem, resolver, added_below(problem, wraps), inner * size, around);
  }
  const int64_t to_stride = space.strides[kRows][last], from_stride = space.strides[kData][last];
  const auto step_of = [&](int operand) { return space.strides[operand][last - 1]; };
  parallel_for(around.count, 2 * inner, [&](int64_t begin, int64_t end) {
    static constexpr char kZero[16] = {};
    Cursor cursor(around, begin);
    while (begin < end) {
      const int64_t count = std::min(end - begin, cursor.run());
      char* to = static_cast<char*>(problem.rows.data) + cursor.offset(kRows) * size;
      int64_t from = cursor.offset(kData), indices = cursor.offset(kIndices);
      for (int64_t row = 0; row < count; ++row) {
        int64_t offset, place;
        if (resolver.resolve(indices, &offset, &place)) {
          copy(inner, to, to_stride, static_cast<const char*>(problem.data.data) + (from + offset) * size, from_stride);
        } else {
          copy(inner, to, to_stride, kZero, 0);
        }
        to += step_of(kRows) * size;
        from += step_of(kData);
        indices += step_of(kIndices);
      }
      cursor.advance(count);
      begin += count;
    }
  });
}

}  // namespace

void gather(const IndexProblem& problem, Resolver& resolver, bool wraps) {
  const uhal_tensor* views[] = {&problem.rows, &problem.data, &problem.indices};
  const Space space = make_space(views, 3);
  if (space.count == 0) return;
  if (problem.components > 0 && space.strides[kIndices][space.rank - 1] != 0) {
    return gather_elements(problem, resolver, wraps, space);
  }
  if (space.rank > 1 && space.inner() <= kLongRow) return gather_rows(problem, resolver, wraps, space);
  const int64_t size = dtype_size(problem.rows.dtype);
  const CopyRun copy = copy_run_of(size);
  const int last = space.rank - 1;
  parallel_for(space.count, 2, [&](int64_t begin, int64_t end) {
    for_each_piece(space, begin, end, [&](const Cursor& cursor, int64_t count) {
      static constexpr char kZero[16] = {};
      char* to = static_cast<char*>(problem.rows.data) + cursor.offset(kRows) * size;
      int64_t offset;
      int64_t place;
      if (resolver.resolve(cursor.offset(kIndices), &offset, &place)) {
        const char* from = static_cast<const char*>(problem.data.data) + (cursor.offset(kData) + offset) * size;
        copy(count, to, space.strides[kRows][last], from, space.strides[kData][last]);
      } else {
        copy(count, to, space.strides[kRows][last], kZero, 0);
      }
    });
  });
}

}  // namespace unihal::stub
