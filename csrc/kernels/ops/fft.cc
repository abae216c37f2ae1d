// The discrete Fourier transform, one axis after the other. Lines that local memory holds are one kernel (fft.cl);
// longer ones are a matrix, whose columns and then rows are lines of two kernels; lengths with large prime factors are
// convolutions with a chirp (Bluestein) of a length without. Real signals of even length are half as many numbers.
#include <algorithm>

#include "csrc/backends/common/fft_problem.h"
#include "csrc/backends/common/rows.h"
#include "csrc/kernels/layout.h"
#include "csrc/kernels/operands.h"
#include "csrc/kernels/ops.h"
#include "csrc/kernels/ops/fft_library.h"
#include "csrc/kernels/views.h"

namespace unihal::kernels {

namespace sources {
extern const Source fft;
}

namespace {

// What a kernel reads and writes: macros of fft.cl.
enum Access {
  kComplex = 0,
  kReal = 1,
  kPairs = 2,
  kHalfEven = 3,
  kHalfOdd = 4,
  kFilter = 5,
  kProduct = 6,
  kTwiddled = 7,
};

// The numbers that local memory holds: those of lines of 512, 1024, 2048, ... with their gaps, and what 32 KiB hold.
constexpr int64_t kCapacities[] = {576, 1152, 2016, 2304, 4480, 8960};
constexpr int64_t kPlanes = 4;       // two buffers of two parts
constexpr int64_t kGroupLines = 32;  // at most; enough for neighbours in memory to be read together
constexpr int kLargestRadix = 13;

struct Limits {
  int64_t capacity;  // the largest that the device has
  int32_t group;
};

Limits limits_of(const DeviceTraits& traits, bool is_double) {
  const int64_t local = std::max(traits.local_memory, traits.launched_local_memory);
  Limits limits = {0, std::min(256, traits.max_group_size)};
  while ((limits.group & (limits.group - 1)) != 0) limits.group &= limits.group - 1;
  for (const int64_t capacity : kCapacities) {
    if (capacity * kPlanes * (is_double ? 8 : 4) <= local) limits.capacity = capacity;
  }
  return limits;
}

// A line in local memory, with a gap after every 32 numbers.
int64_t room_of(int64_t n) { return n + n / 32 + 1; }

// The radices of a length, the first in the lowest five bits; 0 for lengths that have none, or too many.
uint64_t radices_of(int64_t n) {
  uint64_t radices = 0;
  int shift = 0;
  const auto take = [&](int64_t radix) {
    radices |= static_cast<uint64_t>(radix) << shift;
    shift += 5;
    n /= radix;
  };
  while (n % 8 == 0 && n != 16 && shift < 60) take(8);
  for (const int64_t radix : {4, 2, 3, 5, 7, 11, 13}) {
    while (n % radix == 0 && shift < 60) take(radix);
  }
  return n == 1 ? radices : 0;
}

bool is_smooth(int64_t n) {
  for (int64_t prime = 2; prime <= kLargestRadix; ++prime) {
    while (n % prime == 0) n /= prime;
  }
  return n == 1;
}

// How numbers are transformed: `length` of them, of which `first` are columns; 0 columns: in one kernel.
struct Split {
  int64_t length;
  int64_t first;
};

bool fits(const Limits& limits, int64_t n) { return room_of(n) <= limits.capacity && (n == 1 || radices_of(n) != 0); }

// False if two kernels do not hold a line.
bool split(const Limits& limits, int64_t length, Split* result) {
  *result = {length, 0};
  if (fits(limits, length)) return true;
  int64_t best = 0;
  for (int64_t divisor = 2; divisor * divisor <= length; ++divisor) {
    if (length % divisor == 0 && fits(limits, divisor) && fits(limits, length / divisor)) best = divisor;
  }
  result->first = best;
  return best != 0;
}

// The transforms along one axis.
struct AxisTask {
  FftForm form;
  bool inverse;
  double scale;
  int axis;
  int64_t length;  // of the signals

  bool halved() const { return form != FftForm::kComplex && length % 2 == 0; }
  int64_t numbers() const { return halved() ? length / 2 : length; }  // that are transformed
};

struct AxisPlan {
  bool chirped;  // Bluestein: of numbers() as a convolution of split.length
  Split split;
};

bool plan_axis(const Limits& limits, const AxisTask& task, AxisPlan* plan) {
  plan->chirped = !is_smooth(task.numbers());
  return split(limits, plan->chirped ? smooth_length(2 * task.numbers() - 1) : task.numbers(), &plan->split);
}

int64_t lines_of(const uhal_tensor& view, int axis) {
  int64_t lines = 1;
  for (int i = 0; i < view.rank; ++i) lines *= i == axis ? 1 : view.shape[i];
  return lines;
}

// Buffers of all lines' numbers that an axis takes from the workspace, and of one line's, for the filter.
int buffers_of(const AxisTask& task, const AxisPlan& plan) {
  const bool is_long = plan.split.first != 0;
  if (plan.chirped) return is_long ? 2 : 1;
  return !is_long ? 0 : task.form == FftForm::kComplex ? 1 : 2;
}
int filters_of(const AxisPlan& plan) { return !plan.chirped ? 0 : plan.split.first != 0 ? 2 : 1; }

int64_t numbers_in_workspace(const AxisTask& task, const AxisPlan& plan, int64_t lines) {
  return (buffers_of(task, plan) * lines + filters_of(plan)) * plan.split.length;
}

// One side of a kernel: lines along an axis, which begin where the view's elements lie.
struct Side {
  uhal_tensor view;
  int64_t step;  // from an element of a line to the next
};

// What a kernel does, but for its operands.
struct FftStep {
  Access load = kComplex;
  Access store = kComplex;
  int64_t n = 0;      // numbers of a line
  int64_t count = 0;  // elements of a line that are written
  int64_t whole = 1;
  int64_t filter_step = 1;
  int64_t chirp = 1;
  bool chirp_in = false, chirp_out = false;
  bool load_exchanged = false, store_exchanged = false;
  double re_factor = 1, im_factor = 1, sign = 1;
};

class AxisTransform {
 public:
  AxisTransform(Queue& queue, bool is_double, const AxisTask& task, const AxisPlan& plan, char* workspace)
      : queue_(queue),
        limits_(limits_of(queue.traits(), is_double)),
        is_double_(is_double),
        task_(task),
        plan_(plan),
        workspace_(workspace) {}

  uhal_status run(const uhal_tensor& from, const uhal_tensor& to) {
    const bool is_long = plan_.split.first != 0;
    shape_ = from;
    const int64_t buffer_bytes = lines_of(from, task_.axis) * plan_.split.length * number_bytes();
    const int buffers = buffers_of(task_, plan_);
    filter_ = workspace_ + buffers * buffer_bytes;
    const Side first = packed(workspace_, plan_.split.length);
    const Side second = packed(workspace_ + buffer_bytes, plan_.split.length);
    if (plan_.chirped) {
      if (const uhal_status status = make_filter(); status != UHAL_OK) return status;
    }
    if (!is_long && !plan_.chirped) return run_lines(whole(from), whole(to), in_and_out());
    if (!is_long) {
      if (const uhal_status status = run_lines(whole(from), first, into_numbers()); status != UHAL_OK) return status;
      return run_lines(first, whole(to), out_of_product());
    }
    if (!plan_.chirped && task_.form == FftForm::kComplex) {
      const FftStep both = in_and_out();
      return run_matrix(whole(from), first, whole(to), kComplex, both.load_exchanged, both.store_exchanged,
                        both.re_factor);
    }
    if (const uhal_status status = move(whole(from), first, into_numbers()); status != UHAL_OK) return status;
    if (const uhal_status status = run_matrix(first, second, first, kComplex, false, false, 1); status != UHAL_OK) {
      return status;
    }
    if (plan_.chirped) {
      const uhal_status status = run_matrix(first, second, first, kProduct, true, false, 1);
      if (status != UHAL_OK) return status;
    }
    return move(first, whole(to), out_of_numbers());
  }

 private:
  int64_t number_bytes() const { return is_double_ ? 16 : 8; }

  static Side whole_of(const uhal_tensor& view, int axis) { return {first_along(view, axis), view.strides[axis]}; }
  Side whole(const uhal_tensor& view) const { return whole_of(view, task_.axis); }

  // Lines of `length` numbers, one after the other, in the order of the other axes.
  Side packed(void* data, int64_t length) const {
    uhal_tensor view = shape_;
    view.data = data;
    view.dtype = is_double_ ? UHAL_COMPLEX128 : UHAL_COMPLEX64;
    int64_t stride = length;
    for (int i = view.rank - 1; i >= 0; --i) {
      if (i == task_.axis) continue;
      view.strides[i] = stride;
      stride *= std::max<int64_t>(1, view.shape[i]);
    }
    view.shape[task_.axis] = length;
    view.strides[task_.axis] = 1;
    return whole(view);
  }

  // One line of the workspace.
  Side line(char* data) const {
    uhal_tensor view = {};
    view.struct_size = sizeof view;
    view.data = data;
    view.dtype = is_double_ ? UHAL_COMPLEX128 : UHAL_COMPLEX64;
    view.rank = task_.axis + 1;
    for (int i = 0; i < view.rank; ++i) view.shape[i] = view.strides[i] = 1;
    return {view, 1};
  }

  int64_t elements_out() const { return task_.form == FftForm::kFromReal ? task_.length / 2 + 1 : task_.numbers(); }

  // A signal's elements become numbers, and the scaled result becomes its elements.
  FftStep in_and_out() const {
    FftStep step;
    step.n = task_.numbers();
    step.count = elements_out();
    step.re_factor = step.im_factor = task_.scale;
    switch (task_.form) {
      case FftForm::kComplex:
        step.load_exchanged = step.store_exchanged = task_.inverse;
        break;
      case FftForm::kFromReal:
        step.load = task_.halved() ? kPairs : kReal;
        step.store = task_.halved() ? kHalfEven : kComplex;
        if (task_.halved()) step.re_factor = step.im_factor = task_.scale / 2;
        if (task_.inverse) step.im_factor = -step.im_factor;
        break;
      case FftForm::kToReal:
        step.load = task_.halved() ? kHalfEven : kHalfOdd;
        step.store = task_.halved() ? kPairs : kReal;
        step.load_exchanged = true;
        step.sign = task_.inverse ? 1 : -1;
    }
    return step;
  }

  // The first half of it: into the workspace.
  FftStep into_numbers() const {
    FftStep step = in_and_out();
    step.store = kComplex;
    step.store_exchanged = false;
    step.re_factor = step.im_factor = 1;
    step.n = step.count = plan_.split.length;
    step.chirp_in = plan_.chirped;
    step.chirp = task_.numbers();
    return step;
  }

  FftStep out_of_numbers() const {
    FftStep step = in_and_out();
    step.load = kComplex;
    step.load_exchanged = false;
    step.chirp_out = plan_.chirped;
    step.chirp = task_.numbers();
    return step;
  }

  // The convolution's second transform, of a spectrum times the filter, for lines that are one kernel.
  FftStep out_of_product() const {
    FftStep step = out_of_numbers();
    step.load = kProduct;
    step.load_exchanged = true;
    step.n = step.whole = plan_.split.length;
    return step;
  }

  uhal_status make_filter() {
    const int64_t length = plan_.split.length;
    FftStep step;
    step.load = kFilter;
    step.n = step.count = step.whole = length;
    step.chirp = task_.numbers();
    if (plan_.split.first == 0) {
      step.re_factor = step.im_factor = 1.0 / static_cast<double>(length);
      return run_lines(line(filter_), line(filter_), step);
    }
    const Side first = line(filter_), second = line(filter_ + length * number_bytes());
    if (const uhal_status status = move(first, first, step); status != UHAL_OK) return status;
    return run_matrix(first, second, first, kComplex, false, false, 1.0 / static_cast<double>(length));
  }

  // A part of a side: `count` lines for each, `distance` apart, of elements `step` apart.
  Side lines_of_matrix(const Side& side, int64_t count, int64_t distance, int64_t step) const {
    Side result = side;
    result.view.shape[task_.axis] = count;
    result.view.strides[task_.axis] = distance * side.step;
    result.step = step * side.step;
    return result;
  }

  // Columns into `matrix`, rows of that out of it.
  uhal_status run_matrix(const Side& from, const Side& matrix, const Side& to, Access load, bool load_exchanged,
                         bool store_exchanged, double factor) {
    const int64_t n1 = plan_.split.first, n2 = plan_.split.length / n1;
    FftStep columns;
    columns.load = load;
    columns.store = kTwiddled;
    columns.n = columns.count = n1;
    columns.whole = plan_.split.length;
    columns.filter_step = n2;
    columns.load_exchanged = load_exchanged;
    const uhal_status status = run_lines(lines_of_matrix(from, n2, 1, n2), lines_of_matrix(matrix, n2, 1, n2), columns);
    if (status != UHAL_OK) return status;
    FftStep rows;
    rows.n = rows.count = n2;
    rows.re_factor = rows.im_factor = factor;
    rows.store_exchanged = store_exchanged;
    return run_lines(lines_of_matrix(matrix, n1, n2, 1), lines_of_matrix(to, n1, 1, n1), rows);
  }

  KernelSpec spec_of(const char* entry, const FftStep& step) const {
    KernelSpec spec(sources::fft, entry);
    spec.compute(is_double_ ? Compute::kDouble : Compute::kFloat);
    spec.define("LOAD", step.load).define("STORE", step.store);
    spec.define("CHIRP_IN", step.chirp_in).define("CHIRP_OUT", step.chirp_out);
    return spec;
  }

  struct Arrangement {
    int64_t lines = 0;
    int64_t group_lines = 1;
    bool from_along_lines = false, to_along_lines = false;
  };

  void append(Arguments& arguments, const Side& from, const Side& to, const FftStep& step, const Space& space,
              const LayoutKind& kind, const Arrangement& arrangement) const {
    const int64_t members[] = {arrangement.lines,
                               arrangement.group_lines,
                               step.n,
                               step.count,
                               from.step,
                               to.step,
                               arrangement.from_along_lines,
                               arrangement.to_along_lines,
                               step.whole,
                               step.filter_step,
                               step.chirp,
                               step.load_exchanged,
                               step.store_exchanged};
    arguments.pointer(from.view.data).pointer(to.view.data).pointer(filter_);
    append_layout(arguments, space, kind);
    append_indices(arguments, members, static_cast<int>(std::size(members)), kind.wide);
  }

  void append_factors(Arguments& arguments, const FftStep& step) const {
    const Compute compute = is_double_ ? Compute::kDouble : Compute::kFloat;
    arguments.real(step.re_factor, compute).real(step.im_factor, compute).real(step.sign, compute);
  }

  static LayoutKind kind_of(const Space& space, const Side& from, const Side& to, const FftStep& step) {
    LayoutKind kind = layout_kind(space);
    // Parts are counted, and angles in octants.
    const int64_t longest = std::max({step.n, step.count, step.whole, step.chirp, step.n * step.filter_step});
    kind.wide |= !fits_32_bits(16 * longest) || !fits_32_bits(space.count * longest);
    kind.wide |= !fits_32_bits(2 * longest * from.step) || !fits_32_bits(2 * longest * to.step);
    for (int k = 0; k < 2; ++k) {
      int64_t reach = 0;
      for (int i = 0; i < space.rank; ++i) reach += std::abs(space.strides[k][i]) * (space.shape[i] - 1);
      kind.wide |= !fits_32_bits(2 * reach);
    }
    return kind;
  }

  uhal_status run_lines(const Side& from, const Side& to, const FftStep& step) const {
    const uhal_tensor* views[] = {&from.view, &to.view};
    const Space space = make_space(views, 2);
    const LayoutKind kind = kind_of(space, from, to, step);
    Arrangement arrangement;
    arrangement.lines = space.count;
    arrangement.from_along_lines = std::abs(space.strides[0][space.rank - 1]) < std::abs(from.step);
    arrangement.to_along_lines = std::abs(space.strides[1][space.rank - 1]) < std::abs(to.step);
    const bool neighbours = arrangement.from_along_lines || arrangement.to_along_lines;
    // As many lines as keep a group busy; where lines are neighbours, enough to read whole pieces of memory.
    const int64_t wanted = std::max<int64_t>(neighbours ? 16 : 1, 1024 / step.n);
    int64_t& lines = arrangement.group_lines;
    while (2 * lines <= std::min<int64_t>(wanted, kGroupLines) && lines < space.count &&
           2 * lines * room_of(step.n) <= limits_.capacity && 2 * lines <= limits_.group) {
      lines *= 2;
    }
    const int64_t capacity = *std::find_if(std::begin(kCapacities), std::end(kCapacities),
                                           [&](int64_t each) { return each >= lines * room_of(step.n); });
    KernelSpec spec = spec_of("fft_lines", step);
    spec.define("CAPACITY", capacity).define("UHAL_GROUP", limits_.group);
    kind.define(spec);
    Arguments arguments;
    append(arguments, from, to, step, space, kind, arrangement);
    const uint64_t radices = radices_of(step.n);
    arguments.value_of(radices);
    append_factors(arguments, step);
    Grid grid;
    grid.groups[0] = (space.count + lines - 1) / lines;
    grid.group_size[0] = limits_.group;
    grid.local_bytes = static_cast<int32_t>(kPlanes * capacity * (is_double_ ? 8 : 4));
    return queue_.run(spec, arguments, grid);
  }

  uhal_status move(const Side& from, const Side& to, const FftStep& step) const {
    const uhal_tensor* views[] = {&from.view, &to.view};
    const Space space = make_space(views, 2);
    const LayoutKind kind = kind_of(space, from, to, step);
    Arrangement arrangement;
    arrangement.lines = space.count;
    arrangement.to_along_lines = std::abs(space.strides[1][space.rank - 1]) < std::abs(to.step);
    KernelSpec spec = spec_of("fft_move", step);
    spec.define("MOVE", 1);
    kind.define(spec);
    Arguments arguments;
    append(arguments, from, to, step, space, kind, arrangement);
    append_factors(arguments, step);
    return queue_.run(spec, arguments, linear_grid(space.count * step.count, limits_.group));
  }

  Queue& queue_;
  Limits limits_;
  bool is_double_;
  AxisTask task_;
  AxisPlan plan_;
  char* workspace_;
  char* filter_ = nullptr;
  uhal_tensor shape_ = {};
};

// A transform of no elements, or into none, has no lines to plan for.
bool is_empty(const uhal_op& op) { return make_space(op.inputs, 1).count == 0 || make_space(op.outputs, 1).count == 0; }

// The transforms along each axis, in the order in which they run: those of real signals first or last.
struct FftPlan {
  FftProblem problem;
  int count = 0;
  AxisTask tasks[UHAL_FFT_MAX_AXES];
  AxisPlan plans[UHAL_FFT_MAX_AXES];
};

bool make_plan(const Limits& limits, const uhal_op& op, FftPlan* plan) {
  plan->problem = fft_problem(op);
  const FftProblem& problem = plan->problem;
  const bool real_first = problem.form == FftForm::kFromReal;
  plan->count = problem.axis_count;
  for (int i = 0; i < plan->count; ++i) {
    const int which = real_first ? plan->count - 1 - i : i;
    const bool is_last = which == plan->count - 1;
    plan->tasks[i] = {is_last ? problem.form : FftForm::kComplex, problem.inverse, i == 0 ? problem.scale : 1,
                      problem.axes[which], problem.lengths[which]};
    if (!plan_axis(limits, plan->tasks[i], &plan->plans[i])) return false;
  }
  return true;
}

}  // namespace

const char* refuse_fft(const DeviceTraits& traits, const uhal_op& op) {
  const bool is_double = op.inputs[0]->dtype == UHAL_FLOAT64 || op.inputs[0]->dtype == UHAL_COMPLEX128;
  if (is_double && !traits.has_float64)
    return "fft: the device has no arithmetic in float64; cast to float32 or complex64";
  const Limits limits = limits_of(traits, is_double);
  if (limits.capacity == 0) {
    return refusal("fft: the device has %lld bytes of local memory, too few for a line",
                   static_cast<long long>(traits.local_memory));
  }
  FftPlan plan;
  if (is_empty(op) || make_plan(limits, op, &plan)) return nullptr;
  return refusal("fft: a line is longer than local memory of %lld bytes holds in two steps",
                 static_cast<long long>(std::max(traits.local_memory, traits.launched_local_memory)));
}

uhal_status run_fft(Queue& queue, const uhal_op& op) {
  const uhal_tensor& x = *op.inputs[0];
  const uhal_tensor& y = *op.outputs[0];
  const FftProblem problem = fft_problem(op);
  if (make_space(op.outputs, 1).count == 0) return UHAL_OK;
  if (make_space(op.inputs, 1).count == 0) return fill_view(queue, 0, 0, y);
  uhal_status by_library = UHAL_OK;
  if (run_fft_by_library(queue, op, problem, &by_library)) return by_library;
  FftPlan plan;
  if (!make_plan(limits_of(queue.traits(), problem.is_double), op, &plan)) {
    return fail(UHAL_UNIMPLEMENTED, "%s", refuse_fft(queue.traits(), op));
  }
  // A spectrum between axes lies in the workspace where the result is real, else in the result.
  const int64_t number_bytes = problem.is_double ? 16 : 8;
  const bool has_spectrum = problem.form == FftForm::kToReal && plan.count > 1;
  const int64_t spectrum_bytes = has_spectrum ? (make_space(op.inputs, 1).count * number_bytes + 255) / 256 * 256 : 0;
  int64_t numbers = 0;
  for (int i = 0; i < plan.count; ++i) {
    const int64_t lines = lines_of(plan.tasks[i].form == FftForm::kToReal ? x : y, plan.tasks[i].axis);
    numbers = std::max(numbers, numbers_in_workspace(plan.tasks[i], plan.plans[i], lines));
  }
  void* workspace = nullptr;
  if (spectrum_bytes + numbers > 0) {
    const auto bytes = static_cast<size_t>(spectrum_bytes + numbers * number_bytes);
    if (const uhal_status status = queue.workspace(bytes, &workspace); status != UHAL_OK) return status;
  }
  uhal_tensor spectrum = has_spectrum ? x : y;
  if (has_spectrum) {
    spectrum.data = workspace;
    int64_t stride = 1;
    for (int i = spectrum.rank - 1; i >= 0; --i) {
      spectrum.strides[i] = stride;
      stride *= spectrum.shape[i];
    }
  }
  char* const rest = static_cast<char*>(workspace) + spectrum_bytes;
  for (int i = 0; i < plan.count; ++i) {
    const uhal_tensor& from = i == 0 ? x : spectrum;
    const uhal_tensor& to = i + 1 == plan.count ? y : spectrum;
    note_implementation("%s", plan.plans[i].chirped ? "fft_lines (Bluestein)" : "fft_lines");
    AxisTransform transform(queue, problem.is_double, plan.tasks[i], plan.plans[i], rest);
    if (const uhal_status status = transform.run(from, to); status != UHAL_OK) return status;
  }
  return UHAL_OK;
}

}  // namespace unihal::kernels
