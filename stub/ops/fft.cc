// The discrete Fourier transform: one axis after the other, the lines along an axis in blocks of lanes or, where they
// are long or few, or vectors are long and a line's numbers lie one after the other, one by one.
//
// Real signals of even length are transformed as half as many complex numbers; those of odd length as complex ones.
#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "csrc/backends/common/fft_problem.h"
#include "csrc/backends/common/rows.h"
#include "csrc/backends/common/space.h"
#include "stub/common/parallel.h"
#include "stub/common/staging.h"
#include "stub/ops/copy.h"
#include "stub/ops/fft_lines.h"
#include "stub/ops/fft_packed.h"
#include "stub/ops/fft_packed_real.h"
#include "stub/vector/vectorize.h"

namespace unihal::stub {
namespace {

// Blocks of lines of more rows than these, in two buffers of a line of the cache each, leave the second-level
// cache.
constexpr int64_t kLargestBlock = 4096;
// Longer packed lines are worth several threads each.
constexpr int64_t kLongestAlone = 16384;
// Shorter lines are not worth two steps each, however few they are.
constexpr int64_t kShortestLong = 64;
// Units of parallel_for for an element: a dozen passes over it, half as long in the first-level cache.
constexpr int64_t kWork = 16, kPackedWork = 8;
// Bytes of images that are transformed along all of their axes before the next ones are: half of a second-level cache
// of 512 KiB, beside which what is read passes by.
constexpr int64_t kGroupBytes = 256 * 1024;

// The transforms along one axis.
struct AxisTask {
  FftForm form;
  bool inverse;
  double scale;
  int axis;
  int64_t length;  // of the signals
  const uhal_tensor* from;
  const uhal_tensor* to;

  bool halved() const { return form != FftForm::kComplex && length % 2 == 0; }
  // The complex numbers that are transformed.
  int64_t complex_length() const { return halved() ? length / 2 : length; }
  int64_t frequencies() const { return length / 2 + 1; }
};

template <typename T>
FftSignal<T> signal_of(const uhal_tensor& view, int axis) {
  T* data = static_cast<T*>(view.data);
  if (is_complex(view.dtype)) return {data, data + 1, 2 * view.strides[axis]};
  return {data, nullptr, view.strides[axis]};
}

// Parts of a complex number are counted.
int64_t parts_of(const uhal_tensor& view) { return is_complex(view.dtype) ? 2 : 1; }

// Neighbouring elements of a real signal as real and imaginary parts.
template <typename T>
FftSignal<T> in_pairs(const FftSignal<T>& real) {
  return {real.re, real.re + real.stride, 2 * real.stride};
}

// -- between a signal's halves and its spectrum
// ---------------------------------------------------------------------------

// The spectrum X of a real signal of length 2m from the transform Z of its even elements plus i times its odd ones:
// twice X[k] = Z[k] + conj(Z[m - k]) - i w^k (Z[k] - conj(Z[m - k])), where w = exp(-pi i / m). Numbers k and m - k are
// in place; each may be a vector of several lines'.
template <typename T, typename V>
UNIHAL_INLINE void unpack_pair(T root_re, T root_im, V& re_low, V& im_low, V& re_high, V& im_high) {
  const V sum_re = re_low + re_high, sum_im = im_low - im_high;
  const V difference_re = re_low - re_high, difference_im = im_low + im_high;
  const V turned_re = difference_re * root_im + difference_im * root_re;
  const V turned_im = difference_im * root_im - difference_re * root_re;
  re_low = sum_re + turned_re;
  im_low = sum_im + turned_im;
  re_high = sum_re - turned_re;
  im_high = turned_im - sum_im;
}

// The other way: Z[k] = X[k] + conj(X[m - k]) + i conj(w^k) (X[k] - conj(X[m - k])).
template <typename T, typename V>
UNIHAL_INLINE void pack_pair(T root_re, T root_im, V& re_low, V& im_low, V& re_high, V& im_high) {
  const V sum_re = re_low + re_high, sum_im = im_low - im_high;
  const V difference_re = re_low - re_high, difference_im = im_low + im_high;
  const V turned_re = difference_re * root_im - difference_im * root_re;
  const V turned_im = difference_re * root_re + difference_im * root_im;
  re_low = sum_re + turned_re;
  im_low = sum_im + turned_im;
  re_high = sum_re - turned_re;
  im_high = turned_im - sum_im;
}

// Calls change(k, re_low, im_low, re_high, im_high) for the pairs k and m - k of each lane, which it reads and writes.
template <typename T, class Change>
UNIHAL_INLINE void change_pairs_of_rows(int64_t m, T* rows, const Change& change) {
  for (int64_t k = 0; 2 * k <= m; ++k) {
    auto* const low = reinterpret_cast<Vector<T>*>(rows + k * kFftRow<T>);
    auto* const high = reinterpret_cast<Vector<T>*>(rows + (m - k) * kFftRow<T>);
    Vector<T> numbers[4] = {low[0], low[1], high[0], high[1]};
    change(k, numbers[0], numbers[1], numbers[2], numbers[3]);
    low[0] = numbers[0];
    low[1] = numbers[1];
    high[0] = numbers[2];
    high[1] = numbers[3];
  }
}

template <typename T>
UNIHAL_VECTORIZED void unpack_rows(int64_t m, const T* roots, T* rows) {
  std::copy_n(rows, kFftRow<T>, rows + m * kFftRow<T>);
  change_pairs_of_rows(m, rows, [=](int64_t k, auto&... pair) UNIHAL_INLINE_LAMBDA {
    unpack_pair(roots[2 * k], roots[2 * k + 1], pair...);
  });
}

template <typename T>
UNIHAL_VECTORIZED void pack_rows(int64_t m, const T* roots, T* rows) {
  change_pairs_of_rows(m, rows,
                       [=](int64_t k, auto& im_low, auto& re_low, auto& im_high, auto& re_high) UNIHAL_INLINE_LAMBDA {
                         pack_pair(roots[2 * k], roots[2 * k + 1], re_low, im_low, re_high, im_high);
                       });
}

template <typename T>
UNIHAL_VECTORIZED void unpack_line(int64_t m, const T* roots, T* line) {
  line[2 * m] = line[0];
  line[2 * m + 1] = line[1];
  for (int64_t k = 0; 2 * k <= m; ++k) {
    T low[2] = {line[2 * k], line[2 * k + 1]}, high[2] = {line[2 * (m - k)], line[2 * (m - k) + 1]};
    unpack_pair(roots[2 * k], roots[2 * k + 1], low[0], low[1], high[0], high[1]);
    std::copy_n(low, 2, line + 2 * k);
    std::copy_n(high, 2, line + 2 * (m - k));
  }
}

template <typename T>
UNIHAL_VECTORIZED void pack_line(int64_t m, const T* roots, T* line) {
  for (int64_t k = 0; 2 * k <= m; ++k) {
    T low[2] = {line[2 * k], line[2 * k + 1]}, high[2] = {line[2 * (m - k)], line[2 * (m - k) + 1]};
    pack_pair(roots[2 * k], roots[2 * k + 1], low[0], low[1], high[0], high[1]);
    std::copy_n(low, 2, line + 2 * k);
    std::copy_n(high, 2, line + 2 * (m - k));
  }
}

// -- plans
// ------------------------------------------------------------------------------------------------------------------

// What the transforms of one length need, kept by the thread that launches them.
template <typename T>
struct Plan {
  int64_t length = 0;   // of the complex numbers; 0: unused
  bool halved = false;  // they are halves of real signals
  uint64_t last_use = 0;
  std::unique_ptr<FftLinePlan<T>> lines;      // for blocks
  std::unique_ptr<FftLongPlan<T>> long_line;  // for one at a time
  std::vector<T> roots;                       // between halves and spectrum
  std::unique_ptr<FftPackedPlan<T>> packed;   // for one at a time in long vectors
  std::unique_ptr<FftPackedRealPlan<T>> packed_real;
};

constexpr int kPlans = 16;

enum class Way { kBlocks, kAlone, kPacked };

template <typename T>
const Plan<T>& plan_of(int64_t length, bool halved, Way way) {
  thread_local Plan<T> plans[kPlans];
  thread_local uint64_t uses = 0;
  Plan<T>* plan = std::find_if(plans, plans + kPlans,
                               [&](const Plan<T>& each) { return each.length == length && each.halved == halved; });
  if (plan == plans + kPlans) {
    plan = std::min_element(plans, plans + kPlans,
                            [](const Plan<T>& a, const Plan<T>& b) { return a.last_use < b.last_use; });
    *plan = Plan<T>();
    plan->length = length;
    plan->halved = halved;
  }
  plan->last_use = ++uses;
  if (way == Way::kPacked) {
    if (halved && plan->packed_real == nullptr) plan->packed_real = std::make_unique<FftPackedRealPlan<T>>(2 * length);
    if (!halved && plan->packed == nullptr) plan->packed = std::make_unique<FftPackedPlan<T>>(length);
    return *plan;
  }
  if (halved && plan->roots.empty()) {
    const RootsOfUnity<T> roots(2 * length);
    plan->roots.resize(static_cast<size_t>(length + 2));
    for (int64_t k = 0; 2 * k <= length; ++k) roots.get(k, &plan->roots[2 * k], &plan->roots[2 * k + 1]);
  }
  if (way == Way::kBlocks && plan->lines == nullptr) plan->lines = std::make_unique<FftLinePlan<T>>(length);
  if (way == Way::kAlone && plan->long_line == nullptr) plan->long_line = std::make_unique<FftLongPlan<T>>(length);
  return *plan;
}

// -- blocks of lines
// ----------------------------------------------------------------------------------------------------------

// The lines of one block: their number, and where they begin.
struct Block {
  int64_t lanes;
  const int64_t* from;
  const int64_t* to;
};

template <typename T>
void complex_block(const AxisTask& task, const Plan<T>& plan, const Block& block, T* rows, T* other) {
  const FftSignal<T> source = signal_of<T>(*task.from, task.axis), target = signal_of<T>(*task.to, task.axis);
  const T scale = static_cast<T>(task.scale);
  const FftLines<T> from(task.inverse ? source.exchanged() : source, task.length, block.lanes, block.from);
  const FftLines<T> to(task.inverse ? target.exchanged() : target, task.length, block.lanes, block.to);
  plan.lines->run(from, to, scale, scale, rows, other);
}

template <typename T>
void block_from_real(const AxisTask& task, const Plan<T>& plan, const Block& block, T* rows, T* other) {
  const FftSignal<T> source = signal_of<T>(*task.from, task.axis), target = signal_of<T>(*task.to, task.axis);
  const int64_t n = task.complex_length();
  rows = plan.lines->load_and_run({task.halved() ? in_pairs(source) : source, n, block.lanes, block.from}, rows, other);
  if (task.halved()) unpack_rows(n, plan.roots.data(), rows);
  const T scale = static_cast<T>(task.halved() ? task.scale / 2 : task.scale);
  const FftLines<T> to(target, task.frequencies(), block.lanes, block.to);
  to.store(0, task.frequencies(), rows, scale, task.inverse ? -scale : scale);
}

// The forward transform of half a spectrum is the inverse one of its conjugate. Rows have their parts exchanged.
template <typename T>
void block_to_real(const AxisTask& task, const Plan<T>& plan, const Block& block, T* rows, T* other) {
  constexpr int64_t kLanes = kFftLanes<T>, kRow = kFftRow<T>;
  const FftSignal<T> source = signal_of<T>(*task.from, task.axis), target = signal_of<T>(*task.to, task.axis);
  const int64_t n = task.complex_length(), count = task.frequencies();
  FftLines<T>(source.exchanged(), count, block.lanes, block.from).load(0, count, rows);
  std::fill_n(rows, kLanes, T(0));
  if (!task.inverse) {
    for (int64_t k = 1; k < count; ++k) {
      std::transform(rows + k * kRow, rows + k * kRow + kLanes, rows + k * kRow, std::negate<T>());
    }
  }
  if (task.halved()) {
    std::fill_n(rows + n * kRow, kLanes, T(0));
    pack_rows(n, plan.roots.data(), rows);
  } else {
    for (int64_t k = 1; k < count; ++k) {
      const T* const low = rows + k * kRow;
      T* const high = rows + (n - k) * kRow;
      std::transform(low, low + kLanes, high, std::negate<T>());
      std::copy_n(low + kLanes, kLanes, high + kLanes);
    }
  }
  const FftSignal<T> results = task.halved() ? in_pairs(target) : target;
  const T scale = static_cast<T>(task.scale);
  plan.lines->run_and_store(rows, other, {results.exchanged(), n, block.lanes, block.to}, scale, scale);
}

// -- one line at a time
// -------------------------------------------------------------------------------------------------------

template <typename T>
bool line_from_real(const AxisTask& task, const Plan<T>& plan, const FftSignal<T>& source, const FftSignal<T>& target) {
  const int64_t n = task.complex_length();
  ScratchFrame frame;
  T* line = frame.take<T>(static_cast<size_t>(2 * (n + 1)));
  if (line == nullptr) return false;
  if (!plan.long_line->run(task.halved() ? in_pairs(source) : source, fft_packed(line), 1, 1)) return false;
  if (task.halved()) unpack_line(n, plan.roots.data(), line);
  const T scale = static_cast<T>(task.halved() ? task.scale / 2 : task.scale);
  const T im_scale = task.inverse ? -scale : scale;
  for (int64_t k = 0; k < task.frequencies(); ++k) {
    target.re[k * target.stride] = line[2 * k] * scale;
    target.im[k * target.stride] = line[2 * k + 1] * im_scale;
  }
  return true;
}

template <typename T>
bool line_to_real(const AxisTask& task, const Plan<T>& plan, const FftSignal<T>& source, const FftSignal<T>& target) {
  const int64_t n = task.complex_length(), count = task.frequencies();
  ScratchFrame frame;
  T* line = frame.take<T>(static_cast<size_t>(2 * (n + 1)));
  if (line == nullptr) return false;
  const T sign = task.inverse ? T(1) : T(-1);
  for (int64_t k = 0; k < count; ++k) {
    line[2 * k] = source.re[k * source.stride];
    line[2 * k + 1] = source.im[k * source.stride] * sign;
  }
  line[1] = 0;
  if (task.halved()) {
    line[2 * n + 1] = 0;
    pack_line(n, plan.roots.data(), line);
  } else {
    for (int64_t k = 1; k < count; ++k) {
      line[2 * (n - k)] = line[2 * k];
      line[2 * (n - k) + 1] = -line[2 * k + 1];
    }
  }
  const FftSignal<T> signal = task.halved() ? in_pairs(target) : target;
  const T scale = static_cast<T>(task.scale);
  return plan.long_line->run(fft_packed(line).exchanged(), signal.exchanged(), scale, scale);
}

template <typename T>
bool transform_line(const AxisTask& task, const Plan<T>& plan, int64_t from, int64_t to) {
  const FftSignal<T> source = signal_of<T>(*task.from, task.axis).moved(from);
  const FftSignal<T> target = signal_of<T>(*task.to, task.axis).moved(to);
  if (task.form == FftForm::kFromReal) return line_from_real(task, plan, source, target);
  if (task.form == FftForm::kToReal) return line_to_real(task, plan, source, target);
  const T scale = static_cast<T>(task.scale);
  return plan.long_line->run(task.inverse ? source.exchanged() : source, task.inverse ? target.exchanged() : target,
                             scale, scale);
}

// Whether so many lines along an axis are transformed so. Threads share long ones if there are too few for all.
template <typename T>
bool in_packed_lines(const AxisTask& task, int64_t lines) {
  if (task.from->strides[task.axis] != 1 || task.to->strides[task.axis] != 1) return false;
  if (task.complex_length() > kLongestAlone && lines < (kThreads ? omp_get_max_threads() : 1)) return false;
  return task.form == FftForm::kComplex ? FftPackedPlan<T>::takes(task.length)
                                        : FftPackedRealPlan<T>::takes(task.length);
}

// Groups of lines, which begin at elements of both signals.
template <typename T>
bool transform_packed_lines(const AxisTask& task, const Plan<T>& plan, const Space& space, int together, int64_t begin,
                            int64_t end) {
  ScratchFrame frame;
  const bool of_complex = task.form == FftForm::kComplex;
  const int64_t elements = of_complex ? plan.packed->buffer_elements() : plan.packed_real->buffer_elements();
  T* const buffer = frame.take<T>(static_cast<size_t>(elements));
  if (buffer == nullptr) return false;
  const T scale = static_cast<T>(task.scale);
  const int64_t from_parts = parts_of(*task.from), to_parts = parts_of(*task.to);
  const int64_t from_step = from_parts * space.strides[0][space.rank - 1];
  const int64_t to_step = to_parts * space.strides[1][space.rank - 1];
  Cursor cursor(space, begin * together);
  int64_t rest = space.count - begin * together;
  while (begin < end) {
    FftGroups<T> groups = {{}, {}, together * from_step, together * to_step, 1};
    const int64_t run = cursor.run();
    if (run >= together) groups.count = std::min(run / together, end - begin);
    const T* from = nullptr;
    T* to = nullptr;
    for (int i = 0; i < together; ++i) {
      if (i < rest) {  // else the last one again
        from = static_cast<const T*>(task.from->data) + from_parts * cursor.offset(0);
        to = static_cast<T*>(task.to->data) + to_parts * cursor.offset(1);
        cursor.advance(1);
      }
      groups.from[i] = from;
      groups.to[i] = to;
    }
    cursor.skip(together * (groups.count - 1));
    begin += groups.count;
    rest -= together * groups.count;
    if (of_complex) {
      plan.packed->run(groups, task.inverse, scale, buffer);
    } else if (task.form == FftForm::kFromReal) {
      plan.packed_real->run_from_real(groups, task.inverse, scale, buffer);
    } else {
      plan.packed_real->run_to_real(groups, task.inverse, scale, buffer);
    }
  }
  return true;
}

// -- all lines along an axis
// --------------------------------------------------------------------------------------------------

// False, as from all that follow, if the host has no memory left.
template <typename T>
bool transform_axis(const AxisTask& task) {
  constexpr int64_t kLanes = kFftLanes<T>;
  const uhal_tensor from = first_along(*task.from, task.axis), to = first_along(*task.to, task.axis);
  const uhal_tensor* views[] = {&from, &to};
  const Space space = make_space(views, 2);
  const int64_t n = task.complex_length();
  const int64_t rows = FftLinePlan<T>::is_smooth(n) ? n : smooth_length(2 * n - 1);
  const bool in_blocks = n < kShortestLong || (rows <= kLargestBlock && 2 * space.count >= kLanes);
  const Way way = in_packed_lines<T>(task, space.count) ? Way::kPacked : in_blocks ? Way::kBlocks : Way::kAlone;
  const Plan<T>& plan = plan_of<T>(n, task.halved(), way);
  const int64_t from_parts = parts_of(from), to_parts = parts_of(to);
  std::atomic<bool> complete{true};
  if (way == Way::kPacked) {
    const int together = task.form == FftForm::kComplex ? plan.packed->together() : plan.packed_real->together();
    parallel_for((space.count + together - 1) / together, kPackedWork * n * together, [&](int64_t begin, int64_t end) {
      if (!transform_packed_lines(task, plan, space, together, begin, end)) complete = false;
    });
  } else if (way == Way::kAlone) {
    parallel_for(space.count, kWork * n, [&](int64_t begin, int64_t end) {
      Cursor cursor(space, begin);
      for (; begin < end && complete; ++begin, cursor.advance(1)) {
        if (!transform_line(task, plan, from_parts * cursor.offset(0), to_parts * cursor.offset(1))) complete = false;
      }
    });
  } else {
    const int64_t from_step = from_parts * space.strides[0][space.rank - 1];
    const int64_t to_step = to_parts * space.strides[1][space.rank - 1];
    const int64_t size = fft_buffer<T>(std::max(rows, task.frequencies()) + 1);
    parallel_for((space.count + kLanes - 1) / kLanes, kWork * rows * kLanes, [&](int64_t begin, int64_t end) {
      ScratchFrame frame;
      T* buffer = frame.take<T>(static_cast<size_t>(2 * size));
      if (buffer == nullptr) {
        complete = false;
        return;
      }
      Cursor cursor(space, begin * kLanes);
      for (int64_t i = begin; i < end; ++i) {
        int64_t from_offsets[kLanes], to_offsets[kLanes];
        const Block block = {std::min(kLanes, space.count - i * kLanes), from_offsets, to_offsets};
        for (int64_t lane = 0; lane < block.lanes;) {
          const int64_t together = std::min(block.lanes - lane, cursor.run());
          int64_t from_offset = from_parts * cursor.offset(0), to_offset = to_parts * cursor.offset(1);
          for (const int64_t last = lane + together; lane < last; ++lane) {
            from_offsets[lane] = std::exchange(from_offset, from_offset + from_step);
            to_offsets[lane] = std::exchange(to_offset, to_offset + to_step);
          }
          cursor.advance(together);
        }
        if (task.form == FftForm::kComplex) complex_block(task, plan, block, buffer, buffer + size);
        if (task.form == FftForm::kFromReal) block_from_real(task, plan, block, buffer, buffer + size);
        if (task.form == FftForm::kToReal) block_to_real(task, plan, block, buffer, buffer + size);
      }
    });
  }
  return complete;
}

// -- all axes
// -------------------------------------------------------------------------------------------------------------------

// Complex transforms along the first `count` axes, from a view to another or in place.
template <typename T>
bool transform_complex_axes(const FftProblem& problem, int count, double scale, const uhal_tensor& from,
                            const uhal_tensor& to) {
  for (int i = 0; i < count; ++i) {
    const AxisTask task = {FftForm::kComplex,
                           problem.inverse,
                           i == 0 ? scale : 1,
                           problem.axes[i],
                           problem.lengths[i],
                           i == 0 ? &from : &to,
                           &to};
    if (!transform_axis<T>(task)) return false;
  }
  return true;
}

// Along all axes.
template <typename T>
bool transform_images(const FftProblem& problem, const uhal_tensor& x, const uhal_tensor& y) {
  const int others = problem.axis_count - 1;
  AxisTask last = {problem.form, problem.inverse, problem.scale, problem.last_axis(), problem.last_length(), &x, &y};
  if (problem.form == FftForm::kComplex) {
    return transform_complex_axes<T>(problem, problem.axis_count, problem.scale, x, y);
  }
  if (problem.form == FftForm::kFromReal) {
    return transform_axis<T>(last) && transform_complex_axes<T>(problem, others, 1, y, y);
  }
  if (others == 0) return transform_axis<T>(last);
  ScratchFrame frame;
  uhal_tensor spectrum = x;
  spectrum.data = frame.take<T>(static_cast<size_t>(2 * element_count(x)));
  if (spectrum.data == nullptr) return false;
  set_packed_strides(spectrum, row_major(x.rank));
  last.from = &spectrum;
  return transform_complex_axes<T>(problem, others, 1, x, spectrum) && transform_axis<T>(last);
}

// Images in groups that stay in a cache from the first axis to the last: ranges along one of the axes outside an image,
// for each place along those outside that one.
class ImageGroups {
 public:
  // All is one group where an image has but one axis, or alone is more than a cache has room for.
  ImageGroups(const FftProblem& problem, const uhal_tensor& x, const uhal_tensor& y) {
    if (problem.axis_count < 2) return;
    const uhal_tensor& spectrum = is_complex(y.dtype) ? y : x;
    int64_t longest_step = 0;
    for (int i = 0; i < problem.axis_count; ++i) {
      longest_step = std::max(longest_step, spectrum.strides[problem.axes[i]]);
    }
    const auto is_outside = [&](int axis) {
      const int* const end = problem.axes + problem.axis_count;
      return std::find(problem.axes, end, axis) == end && spectrum.strides[axis] > longest_step;
    };
    int64_t bytes = dtype_size(spectrum.dtype);
    for (int axis = 0; axis < spectrum.rank; ++axis) bytes *= is_outside(axis) ? 1 : spectrum.shape[axis];
    if (bytes > kGroupBytes) return;
    int64_t groups = 1;
    for (int axis = spectrum.rank - 1; axis >= 0; --axis) {
      if (!is_outside(axis)) continue;
      const int64_t length = spectrum.shape[axis], most = groups > 1 ? 1 : std::max<int64_t>(kGroupBytes / bytes, 1);
      lengths_[axis] = std::min(length, most);
      bytes *= lengths_[axis];
      groups *= (length + lengths_[axis] - 1) / lengths_[axis];
    }
    // Threads that would have to wait for those with a group more share each axis of all.
    const int64_t threads = kThreads ? omp_get_max_threads() : 1;
    if (threads == 1 || groups >= 4 * threads) count_ = groups;
  }

  int64_t count() const { return count_; }

  // A group's part of a view.
  uhal_tensor view(int64_t group, uhal_tensor view) const {
    for (int axis = view.rank - 1; axis >= 0; --axis) {
      if (lengths_[axis] == 0) continue;
      const int64_t ranges = (view.shape[axis] + lengths_[axis] - 1) / lengths_[axis];
      const int64_t begin = group % ranges * lengths_[axis];
      view.data = static_cast<char*>(view.data) + begin * view.strides[axis] * dtype_size(view.dtype);
      view.shape[axis] = std::min(lengths_[axis], view.shape[axis] - begin);
      group /= ranges;
    }
    return view;
  }

 private:
  int64_t count_ = 1;
  int64_t lengths_[UHAL_MAX_RANK] = {};  // of ranges along axes outside an image; 0: it is inside
};

template <typename T>
uhal_status transform(const FftProblem& problem, const uhal_tensor& x, const uhal_tensor& y) {
  const ImageGroups groups(problem, x, y);
  bool complete = true;
  if (groups.count() == 1) {
    complete = transform_images<T>(problem, x, y);
  } else {
    const int64_t elements = std::max(element_count(x), element_count(y)) / groups.count();
    std::atomic<bool> all_complete{true};
    parallel_for(groups.count(), kWork * problem.axis_count * elements, [&](int64_t begin, int64_t end) {
      for (; begin < end && all_complete; ++begin) {
        if (!transform_images<T>(problem, groups.view(begin, x), groups.view(begin, y))) all_complete = false;
      }
    });
    complete = all_complete;
  }
  return complete ? UHAL_OK : fail(UHAL_RESOURCE_EXHAUSTED, "the host has no memory left for a transform");
}

}  // namespace

const char* refuse_fft(const uhal_op&) { return nullptr; }

uhal_status run_fft(const Launch& launch) {
  const uhal_op& op = launch.op;
  const uhal_tensor& x = *op.inputs[0];
  const uhal_tensor& y = *op.outputs[0];
  if (element_count(y) == 0) return UHAL_OK;
  if (element_count(x) == 0) {
    fill_view(0, 0, y);
    return UHAL_OK;
  }
  const FftProblem problem = fft_problem(op);
  return problem.is_double ? transform<double>(problem, x, y) : transform<float>(problem, x, y);
}

}  // namespace unihal::stub
