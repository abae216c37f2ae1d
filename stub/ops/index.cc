// UHAL_OP_GATHER, UHAL_OP_SCATTER and their nd and elements variants.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <limits>
#include <type_traits>

#include "csrc/backends/common/index_problem.h"
#include "csrc/backends/common/reduction.h"
#include "stub/common/blocks.h"
#include "stub/common/indices.h"
#include "stub/common/kernels.h"
#include "stub/common/parallel.h"
#include "stub/common/scratch.h"
#include "stub/ops/copy.h"
#include "stub/vector/vectorize.h"

namespace unihal::stub {
namespace {

constexpr int kRows = 0;
constexpr int kData = 1;
constexpr int kIndices = 2;
constexpr int kOrder = 3;

const char* op_name(const uhal_op& op) {
  switch (op.kind) {
    case UHAL_OP_GATHER:
      return "gather";
    case UHAL_OP_SCATTER:
      return "scatter";
    case UHAL_OP_GATHER_ND:
      return "gather_nd";
    case UHAL_OP_SCATTER_ND:
      return "scatter_nd";
    case UHAL_OP_GATHER_ELEMENTS:
      return "gather_elements";
    default:
      return "scatter_elements";
  }
}

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
  void report(const Launch& launch, const uhal_index_attributes& attributes) const {
    if (!out_of_range_.load(std::memory_order_relaxed) || attributes.ignore_out_of_range != 0) return;
    char text[256];
    std::snprintf(
        text, sizeof text,
        "%s: index %lld is out of range for an axis of length %lld; expected %lld to %lld. Elements read there "
        "are zero and updates are dropped.",
        op_name(launch.op), static_cast<long long>(bad_index_), static_cast<long long>(bad_length_),
        static_cast<long long>(wraps_ ? -bad_length_ : 0), static_cast<long long>(bad_length_ - 1));
    const char* label = launch.op.label != nullptr ? launch.op.label : op_name(launch.op);
    host().stream_error(launch.stream, UHAL_OUT_OF_RANGE, label, text);
  }

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
int64_t added_below(const IndexProblem& problem, bool wraps) { return wraps ? problem.lengths[0] : 0; }

template <class Index>
UNIHAL_INLINE int64_t index_at(const Index* indices, int64_t i, int64_t below) {
  const int64_t index = indices[i];
  return index + (index < 0 ? below : 0);
}

// Indices that are looked at together, as vectors: mostly all are inside, and none counts from the end. What is left of
// a row is looked at by fewer.
constexpr int64_t kTogether = 32, kFewTogether = 8;

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

// How an update and the element there are combined; nullptr for overwriting.
MapLoop combine_loop(uhal_reduction reduction, ComputeType type) {
  switch (reduction) {
    case UHAL_REDUCE_SUM:
      return vectors().map[uhal_map_add][type];
    case UHAL_REDUCE_PRODUCT:
      return vectors().map[uhal_map_multiply][type];
    case UHAL_REDUCE_MAXIMUM:
      return vectors().map[uhal_map_maximum][type];
    case UHAL_REDUCE_MINIMUM:
      return vectors().map[uhal_map_minimum][type];
    default:
      return nullptr;
  }
}

// Combines `count` updates into the data.
class Combiner {
 public:
  Combiner(const uhal_tensor& data, const uhal_tensor& updates, uhal_reduction reduction)
      : type_(compute_type_of(data.dtype)),
        size_(dtype_size(data.dtype)),
        loop_(combine_loop(reduction, type_)),
        copy_(copy_run_of(size_)),
        load_(vectors().load[updates.dtype][type_]),
        store_(vectors().store[type_][data.dtype]),
        in_place_(data.dtype == compute_dtype(type_)) {}

  void operator()(int64_t count, char* to, int64_t to_stride, const char* from, int64_t from_stride) const {
    if (loop_ == nullptr) {
      copy_(count, to, to_stride, from, from_stride);
      return;
    }
    constexpr double kNoParameters[UHAL_MAP_MAX_PARAMETERS] = {};
    if (in_place_ && to_stride == 1 && from_stride == 1) {
      const void* inputs[] = {to, from};
      void* outputs[] = {to};
      loop_(count, inputs, outputs, kNoParameters);
      return;
    }
    BlockBuffer present;
    BlockBuffer update;
    for (int64_t i = 0; i < count; i += kBlock) {
      const int64_t length = std::min(kBlock, count - i);
      load_(length, to + i * to_stride * size_, to_stride, present.bytes);
      load_(length, from + i * from_stride * size_, from_stride, update.bytes);
      const void* inputs[] = {present.bytes, update.bytes};
      void* outputs[] = {present.bytes};
      loop_(length, inputs, outputs, kNoParameters);
      store_(length, present.bytes, to + i * to_stride * size_, to_stride);
    }
  }

 private:
  ComputeType type_;
  int64_t size_;
  MapLoop loop_;
  CopyRun copy_;
  LoadLoop load_;
  StoreLoop store_;
  bool in_place_;
};

// What the threads of a scatter share, and the indexed positions that are this one's.
struct ScatterPart {
  const IndexProblem& problem;
  Resolver& resolver;
  bool wraps;
  int64_t first_place;
  int64_t last_place;
};

// How an update is combined with the element that is there: as the map functions of the same names do. Whole numbers
// wrap, which of a narrow dtype is what of a wide one is cut.
struct Overwrite {
  template <class T>
  static T of(T, T update) {
    return update;
  }
};
struct Add {
  template <class T>
  static T of(T present, T update) {
    if constexpr (std::is_integral_v<T>) {
      using Bits = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<Bits>(present) + static_cast<Bits>(update));
    } else {
      return present + update;
    }
  }
};
struct Multiply {
  template <class T>
  static T of(T present, T update) {
    if constexpr (std::is_integral_v<T>) {
      using Bits = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<Bits>(present) * static_cast<Bits>(update));
    } else {
      return present * update;
    }
  }
};
struct Maximum {
  template <class T>
  static T of(T present, T update) {
    const T best = present > update ? present : update;  // the update where either is NaN: no branch
    return present != present ? present : best;
  }
};
struct Minimum {
  template <class T>
  static T of(T present, T update) {
    const T best = present < update ? present : update;
    return present != present ? present : best;
  }
};

// Asks for all lines of a row that many updates go to, in any order: stores wait for one line after the other.
template <class T>
UNIHAL_INLINE void ask_for_row(const T* row, int64_t length, int64_t step, int64_t updates) {
  constexpr int64_t kLine = 64, kMost = 32768;
  const int64_t bytes = length * step * int64_t{sizeof(T)};
  if (bytes <= 0 || bytes > kMost || updates < bytes / kLine) return;
  for (int64_t byte = 0; byte < bytes; byte += kLine) {
    __builtin_prefetch(reinterpret_cast<const char*>(row) + byte, 1);
  }
}

// As many pieces of `together` updates as there are from i on. other(i): for an update of which it is not known whether
// its place is one of `own` from `first` on.
template <class Combine, int64_t together, class Index, class T, class Other>
UNIHAL_INLINE int64_t scatter_pieces(int64_t i, int64_t count, const Index* indices, int64_t stride, int64_t first,
                                     uint64_t own, const T* from, int64_t from_stride, int64_t step, T* to,
                                     int64_t to_stride, const Other& other) {
  for (; i + together <= count; i += together) {
    if (any_outside<together>(indices + i * stride, stride, first, static_cast<int64_t>(own))) {
      for (int64_t k = 0; k < together; ++k) other(i + k);
      continue;
    }
    for (int64_t k = 0; k < together; ++k) {
      T& element = to[int64_t{indices[(i + k) * stride]} * step + (i + k) * to_stride];
      element = Combine::of(element, from[(i + k) * from_stride]);
    }
  }
  return i;
}

template <class Combine, class Index, class T, class Other>
UNIHAL_INLINE void scatter_many(int64_t count, const Index* indices, int64_t stride, int64_t first, uint64_t own,
                                const T* from, int64_t from_stride, int64_t step, T* to, int64_t to_stride,
                                const Other& other) {
  int64_t i = scatter_pieces<Combine, kTogether>(0, count, indices, stride, first, own, from, from_stride, step, to,
                                                 to_stride, other);
  i = scatter_pieces<Combine, kFewTogether>(i, count, indices, stride, first, own, from, from_stride, step, to,
                                            to_stride, other);
  for (; i < count; ++i) other(i);
}

// Neighbours with an index each along one axis of the data.
template <class Index, class T, class Combine>
UNIHAL_VECTORIZED void scatter_run(const ScatterPart& part, int64_t count, const int64_t* offsets,
                                   const int64_t* strides) {
  const IndexProblem& problem = part.problem;
  const T* const from = static_cast<const T*>(problem.rows.data) + offsets[kRows];
  T* const to = static_cast<T*>(problem.data.data) + offsets[kData];
  const Index* const indices = static_cast<const Index*>(problem.indices.data) + offsets[kIndices];
  const int64_t length = problem.lengths[0], step = problem.strides[0];
  const int64_t from_stride = strides[kRows], to_stride = strides[kData], stride = strides[kIndices];
  const int64_t first = part.first_place, below = added_below(problem, part.wraps);
  const auto own = static_cast<uint64_t>(part.last_place - first);
  const auto one = [&](int64_t i) {
    const int64_t at = index_at(indices, i * stride, below);
    if (static_cast<uint64_t>(at - first) < own) {
      T& element = to[at * step + i * to_stride];
      element = Combine::of(element, from[i * from_stride]);
    } else if (static_cast<uint64_t>(at) >= static_cast<uint64_t>(length)) {
      int64_t offset, place;
      part.resolver.resolve(offsets[kIndices] + i * stride, &offset, &place);  // to be reported
    }
  };
  if (to_stride == 0) ask_for_row(to, length, step, count);
  if (stride == 1 && from_stride == 1 && to_stride == 0) {  // by far the most
    scatter_many<Combine>(count, indices, 1, first, own, from, 1, step, to, 0, one);
  } else {
    scatter_many<Combine>(count, indices, stride, first, own, from, from_stride, step, to, to_stride, one);
  }
}

// Elements with an index each of several components, which are overwritten. `strides` are constants, as `components`
// is, where most are: then nothing but the element's place is computed, and all that it takes stays in registers.
struct RunStrides {
  int64_t from, to, index, component;
};

template <class Index, class T>
UNIHAL_INLINE void scatter_by_several(const ScatterPart& part, int components, bool wraps, int64_t count,
                                      const int64_t* offsets, const RunStrides& strides) {
  const IndexProblem& problem = part.problem;
  const T* const from = static_cast<const T*>(problem.rows.data) + offsets[kRows];
  T* const to = static_cast<T*>(problem.data.data) + offsets[kData];
  const Index* const indices = static_cast<const Index*>(problem.indices.data) + offsets[kIndices];
  const int64_t first = part.first_place;
  const auto own = static_cast<uint64_t>(part.last_place - first);
  int64_t lengths[UHAL_MAX_RANK], steps[UHAL_MAX_RANK];
  std::copy_n(problem.lengths, components, lengths);
  std::copy_n(problem.strides, components, steps);
  for (int64_t i = 0; i < count; ++i) {
    int64_t offset = i * strides.to, place = 0;
    bool inside = true;
    for (int c = 0; c < components; ++c) {
      int64_t index = indices[i * strides.index + c * strides.component];
      if (wraps && index < 0) index += lengths[c];
      inside &= static_cast<uint64_t>(index) < static_cast<uint64_t>(lengths[c]);
      offset += index * steps[c];
      place = place * lengths[c] + index;
    }
    if (inside) {
      if (static_cast<uint64_t>(place - first) < own) to[offset] = from[i * strides.from];
    } else {
      int64_t unused_offset, unused_place;
      part.resolver.resolve(offsets[kIndices] + i * strides.index, &unused_offset, &unused_place);  // to be reported
    }
  }
}

template <class Index, class T>
UNIHAL_VECTORIZED void scatter_run_of_many(const ScatterPart& part, int64_t count, const int64_t* offsets,
                                           const int64_t* strides) {
  const int components = part.problem.components;
  const RunStrides any = {strides[kRows], strides[kData], strides[kIndices], part.problem.component_stride};
  constexpr RunStrides kDense = {1, 0, 2, 1};  // places and values one after the other
  const bool dense =
      any.from == kDense.from && any.to == kDense.to && any.index == kDense.index && any.component == kDense.component;
  if (components == 2 && dense && !part.wraps) {
    scatter_by_several<Index, T>(part, 2, false, count, offsets, kDense);
  } else {
    scatter_by_several<Index, T>(part, components, part.wraps, count, offsets, any);
  }
}

using ScatterRun = void (*)(const ScatterPart&, int64_t, const int64_t*, const int64_t*);

template <class Index, class T>
ScatterRun scatter_run_as(uhal_reduction reduction) {
  switch (reduction) {
    case UHAL_REDUCE_SUM:
      return scatter_run<Index, T, Add>;
    case UHAL_REDUCE_PRODUCT:
      return scatter_run<Index, T, Multiply>;
    case UHAL_REDUCE_MAXIMUM:
      return scatter_run<Index, T, Maximum>;
    case UHAL_REDUCE_MINIMUM:
      return scatter_run<Index, T, Minimum>;
    default:
      return nullptr;
  }
}

// nullptr where it takes the general way. `one`: of one component.
template <class Index>
ScatterRun scatter_run_of(uhal_reduction reduction, uhal_dtype dtype, bool one) {
  if (reduction != UHAL_REDUCE_NONE) {
    if (!one) return nullptr;
    switch (dtype) {
      case UHAL_FLOAT32:
        return scatter_run_as<Index, float>(reduction);
      case UHAL_FLOAT64:
        return scatter_run_as<Index, double>(reduction);
      case UHAL_INT64:
        return scatter_run_as<Index, int64_t>(reduction);
      case UHAL_INT32:
        return scatter_run_as<Index, int32_t>(reduction);
      default:
        return nullptr;
    }
  }
  switch (dtype_size(dtype)) {
    case 1:
      return one ? scatter_run<Index, uint8_t, Overwrite> : scatter_run_of_many<Index, uint8_t>;
    case 2:
      return one ? scatter_run<Index, uint16_t, Overwrite> : scatter_run_of_many<Index, uint16_t>;
    case 4:
      return one ? scatter_run<Index, uint32_t, Overwrite> : scatter_run_of_many<Index, uint32_t>;
    case 8:
      return one ? scatter_run<Index, uint64_t, Overwrite> : scatter_run_of_many<Index, uint64_t>;
    default:
      return nullptr;
  }
}

// Every thread walks through all updates in row-major order and applies those to its own range of indexed
// positions: no two threads write one element, and the order of updates to it is kept.
void scatter(const IndexProblem& problem, uhal_reduction reduction, Resolver& resolver, bool wraps) {
  const uhal_tensor order = row_major_view(problem.rows);
  int64_t places = 1;
  for (int c = 0; c < problem.components; ++c) places *= problem.lengths[c];
  const uhal_tensor* ordered[] = {&order, &problem.data, &problem.indices, &problem.rows};
  Space space = make_space(ordered, 4);
  std::swap(space.strides[kRows], space.strides[kOrder]);
  if (space.count == 0) return;
  const Combiner combine(problem.data, problem.rows, reduction);
  const int64_t size = dtype_size(problem.data.dtype);
  const int last = space.rank - 1;
  const int64_t threads = space.count < kSerialWork ? 1 : std::min<int64_t>(omp_get_max_threads(), places);
  const int64_t strides[] = {space.strides[kRows][last], space.strides[kData][last], space.strides[kIndices][last]};
  const bool one_by_one = problem.components > 0 && strides[kIndices] != 0 && problem.rows.dtype == problem.data.dtype;
  const bool one = problem.components == 1;
  const bool wide = problem.indices.dtype == UHAL_INT64;
  const ScatterRun run = !one_by_one ? nullptr
                         : wide      ? scatter_run_of<int64_t>(reduction, problem.data.dtype, one)
                                     : scatter_run_of<int32_t>(reduction, problem.data.dtype, one);
  parallel_for(threads, kSerialWork, [&](int64_t begin, int64_t end) {
    const int64_t first_place = places * begin / threads;
    const int64_t last_place = places * end / threads;
    if (run != nullptr) {
      const ScatterPart part = {problem, resolver, wraps, first_place, last_place};
      Cursor cursor(space, 0);
      for (int64_t at = 0; at < space.count;) {
        const int64_t count = std::min(space.count - at, cursor.run());
        const int64_t offsets[] = {cursor.offset(kRows), cursor.offset(kData), cursor.offset(kIndices)};
        run(part, count, offsets, strides);
        cursor.skip(count);
        at += count;
      }
      return;
    }
    for_each_piece(space, 0, space.count, [&](const Cursor& cursor, int64_t count) {
      int64_t offset;
      int64_t place;
      if (!resolver.resolve(cursor.offset(kIndices), &offset, &place)) return;
      if (place < first_place || place >= last_place) return;
      combine(count, static_cast<char*>(problem.data.data) + (cursor.offset(kData) + offset) * size,
              space.strides[kData][last], static_cast<const char*>(problem.rows.data) + cursor.offset(kRows) * size,
              space.strides[kRows][last]);
    });
  });
}

// Sums and products of half-width floats are accumulated in float32: scatters into a float32 copy of y.
uhal_status scatter_wide(const Launch& launch, const uhal_index_attributes& attributes) {
  const uhal_tensor& y = *launch.op.outputs[0];
  const uhal_tensor& updates = *launch.op.inputs[1];
  uhal_tensor wide[] = {y, updates};
  ScratchFrame frame;
  for (uhal_tensor& view : wide) {
    int64_t count = 1;
    for (int i = view.rank - 1; i >= 0; count *= view.shape[i--]) view.strides[i] = count;
    view.dtype = UHAL_FLOAT32;
    view.data = frame.take<float>(static_cast<size_t>(count));
    if (view.data == nullptr) {
      return fail(UHAL_RESOURCE_EXHAUSTED, "%s: the host has no memory left for a float32 copy of y",
                  op_name(launch.op));
    }
  }
  cast_views(y, wide[0]);
  cast_views(updates, wide[1]);
  const uhal_tensor* inputs[] = {launch.op.inputs[0], &wide[1]};
  const uhal_tensor* outputs[] = {&wide[0]};
  uhal_op op = launch.op;
  op.inputs = inputs;
  op.outputs = outputs;
  const IndexProblem problem = make_index_problem(op);
  Resolver resolver(problem, attributes);
  scatter(problem, attributes.reduction, resolver, attributes.negative_wraps != 0);
  resolver.report(launch, attributes);
  cast_views(wide[0], y);
  return UHAL_OK;
}

}  // namespace

const char* refuse_index(const uhal_op& op) {
  if (is_gather(op)) return nullptr;
  const uhal_reduction reduction = index_attributes(op).reduction;
  if (reduction == UHAL_REDUCE_NONE) return nullptr;
  if (combine_loop(reduction, kFloat) == nullptr) {
    return refusal("%s: reduction %d is not supported; expected none, sum, product, maximum or minimum", op_name(op),
                   reduction);
  }
  if (is_complex(op.outputs[0]->dtype) && !reduces_complex(reduction)) {
    return refusal("%s: %s is not defined on complex numbers, got %s; expected none, sum or product", op_name(op),
                   reduction_name(reduction), dtype_name(op.outputs[0]->dtype));
  }
  return nullptr;
}

uhal_status run_index(const Launch& launch) {
  const uhal_op& op = launch.op;
  const uhal_index_attributes attributes = index_attributes(op);
  const uhal_dtype dtype = op.outputs[0]->dtype;
  const bool accumulates = attributes.reduction == UHAL_REDUCE_SUM || attributes.reduction == UHAL_REDUCE_PRODUCT;
  if (!is_gather(op) && accumulates && (dtype == UHAL_FLOAT16 || dtype == UHAL_BFLOAT16)) {
    return scatter_wide(launch, attributes);
  }
  const IndexProblem problem = make_index_problem(op);
  Resolver resolver(problem, attributes);
  if (is_gather(op)) {
    gather(problem, resolver, attributes.negative_wraps != 0);
  } else {
    scatter(problem, attributes.reduction, resolver, attributes.negative_wraps != 0);
  }
  resolver.report(launch, attributes);
  return UHAL_OK;
}

}  // namespace unihal::stub
