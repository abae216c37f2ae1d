// Scatters of UHAL_OP_SCATTER, UHAL_OP_SCATTER_ND and UHAL_OP_SCATTER_ELEMENTS.

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "csrc/backends/common/op_names.h"
#include "csrc/backends/common/reduction.h"
#include "stub/common/blocks.h"
#include "stub/common/parallel.h"
#include "stub/common/scratch.h"
#include "stub/ops/copy.h"
#include "stub/ops/index.h"

namespace unihal::stub {
namespace {

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
    if (to_stride == 0 && count > 1) {  // all into one element
      for (int64_t i = 0; i < count; ++i) (*this)(1, to, 0, from + i * from_stride * size_, 0);
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
void scatter_all(const IndexProblem& problem, uhal_reduction reduction, Resolver& resolver, bool wraps) {
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
  // Neighbours that share an index may share an element, too.
  const bool one_by_one = problem.components > 0 && (strides[kIndices] != 0 || strides[kData] == 0) &&
                          problem.rows.dtype == problem.data.dtype;
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

void scatter_op(const Launch& launch, const uhal_op& op, const uhal_index_attributes& attributes) {
  const IndexProblem problem = make_index_problem(op);
  Resolver resolver(problem, attributes);
  scatter_all(problem, attributes.reduction, resolver, attributes.negative_wraps != 0);
  resolver.report(launch, attributes);
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
                  op_kind_name(launch.op.kind));
    }
  }
  cast_views(y, wide[0]);
  cast_views(updates, wide[1]);
  const uhal_tensor* inputs[] = {launch.op.inputs[0], &wide[1]};
  const uhal_tensor* outputs[] = {&wide[0]};
  uhal_op op = launch.op;
  op.inputs = inputs;
  op.outputs = outputs;
  scatter_op(launch, op, attributes);
  cast_views(wide[0], y);
  return UHAL_OK;
}

}  // namespace

const char* refuse_scatter(const uhal_op& op) {
  const uhal_reduction reduction = index_attributes(op).reduction;
  if (reduction == UHAL_REDUCE_NONE) return nullptr;
  if (combine_loop(reduction, kFloat) == nullptr) {
    return refusal("%s: reduction %d is not supported; expected none, sum, product, maximum or minimum",
                   op_kind_name(op.kind), reduction);
  }
  if (is_complex(op.outputs[0]->dtype) && !reduces_complex(reduction)) {
    return refusal("%s: %s is not defined on complex numbers, got %s; expected none, sum or product",
                   op_kind_name(op.kind), reduction_name(reduction), dtype_name(op.outputs[0]->dtype));
  }
  return nullptr;
}

uhal_status scatter(const Launch& launch, const uhal_index_attributes& attributes) {
  const uhal_dtype dtype = launch.op.outputs[0]->dtype;
  const bool accumulates = attributes.reduction == UHAL_REDUCE_SUM || attributes.reduction == UHAL_REDUCE_PRODUCT;
  if (accumulates && (dtype == UHAL_FLOAT16 || dtype == UHAL_BFLOAT16)) return scatter_wide(launch, attributes);
  scatter_op(launch, launch.op, attributes);
  return UHAL_OK;
}

}  // namespace unihal::stub
