// The discrete Fourier transform by the device's library: which of the op's views it can be told of, and what is left
// around it, for libraries neither scale nor leave alone what half a spectrum cannot have.
#include "csrc/kernels/ops/fft_library.h"
#include "csrc/backends/common/quotient.h"

#include <algorithm>
#include <cstdlib>

#include "csrc/backends/common/rows.h"
#include "csrc/backends/common/space.h"
#include "csrc/kernels/views.h"
#include "csrc/tables/elementwise.h"

namespace unihal::kernels {
namespace {

// The axes of a transform in a library's order, the last being the one of half a spectrum.
struct Axes {
  int count = 0;
  int axes[UHAL_FFT_MAX_AXES];
  int64_t lengths[UHAL_FFT_MAX_AXES];
};

// Where the view's elements lie in the words of a library; false if they lie otherwise.
bool make_layout(const uhal_tensor& view, const Axes& axes, FftTask::Layout* layout) {
  layout->stride = view.strides[axes.axes[axes.count - 1]];
  for (int i = 0; i < 3; ++i) layout->embedding[i] = 1;
  if (layout->stride <= 0) return false;
  layout->embedding[0] = view.shape[axes.axes[0]];
  for (int i = 1; i < axes.count; ++i) {
    const int64_t inner = view.strides[axes.axes[i]], outer = view.strides[axes.axes[i - 1]];
    if (outer % inner != 0 || outer / inner < view.shape[axes.axes[i]]) return false;
    layout->embedding[i] = outer / inner;
  }
  return true;
}

// The elements from a transform to the next, if there were one: libraries refuse a distance of 0 of a single one, too.
int64_t span_of(const FftTask::Layout& layout) {
  return layout.stride * layout.embedding[0] * layout.embedding[1] * layout.embedding[2];
}

// The task of transforms between two views, without regard to their data; false if a library cannot be told of it.
bool make_task(const FftProblem& problem, FftForm form, Axes axes, const uhal_tensor& from, const uhal_tensor& to,
               FftTask* task) {
  if (form == FftForm::kComplex) {  // any order of the axes will do
    std::sort(axes.axes, axes.axes + axes.count, [&](int a, int b) { return from.strides[a] > from.strides[b]; });
    for (int i = 0; i < axes.count; ++i) axes.lengths[i] = from.shape[axes.axes[i]];
  }
  *task = {};
  task->form = form == FftForm::kComplex    ? FftTask::kComplex
               : form == FftForm::kFromReal ? FftTask::kFromReal
                                            : FftTask::kToReal;
  task->is_double = problem.is_double;
  task->is_inverse = problem.inverse;
  task->rank = axes.count;
  std::copy_n(axes.lengths, axes.count, task->lengths);
  task->source = from.data;
  task->target = to.data;
  if (!make_layout(from, axes, &task->from) || !make_layout(to, axes, &task->to)) return false;
  uhal_tensor firsts[2] = {from, to};
  for (uhal_tensor& first : firsts) {
    for (int i = 0; i < axes.count; ++i) first = first_along(first, axes.axes[i]);
  }
  const uhal_tensor* views[] = {&firsts[0], &firsts[1]};
  const Space space = make_space(views, 2);
  task->batch = space.count;
  task->from.distance = space.count > 1 ? space.strides[0][0] : span_of(task->from);
  task->to.distance = space.count > 1 ? space.strides[1][0] : span_of(task->to);
  return space.rank <= 1;  // 0: a single transform
}

// Half a spectrum in the workspace, with the frequencies of a line side by side.
uhal_tensor packed_spectrum(const uhal_tensor& x, int axis, void* data) {
  uhal_tensor view = x;
  view.data = data;
  view.strides[axis] = 1;
  int64_t stride = x.shape[axis];
  for (int i = x.rank - 1; i >= 0; --i) {
    if (i == axis) continue;
    view.strides[i] = stride;
    stride *= x.shape[i];
  }
  return view;
}

// The real or imaginary parts of a complex view.
uhal_tensor parts_of(const uhal_tensor& view, int part) {
  uhal_tensor parts = view;
  parts.dtype = view.dtype == UHAL_COMPLEX128 ? UHAL_FLOAT64 : UHAL_FLOAT32;
  parts.data = static_cast<char*>(view.data) + part * (view.dtype == UHAL_COMPLEX128 ? 8 : 4);
  for (int i = 0; i < view.rank; ++i) parts.strides[i] *= 2;
  return parts;
}

// Without the imaginary parts of frequency 0 and, of an even length, of the last one.
uhal_status clear_imaginary_ends(Queue& queue, const uhal_tensor& spectrum, int axis, int64_t length) {
  const uhal_tensor imaginary = parts_of(spectrum, 1);
  uhal_status status = fill_view(queue, 0, 0, first_along(imaginary, axis));
  if (status == UHAL_OK && length % 2 == 0) {
    uhal_tensor last = first_along(imaginary, axis);
    const int64_t offset = (spectrum.shape[axis] - 1) * imaginary.strides[axis];
    last.data = static_cast<char*>(last.data) + offset * (spectrum.dtype == UHAL_COMPLEX128 ? 8 : 4);
    status = fill_view(queue, 0, 0, last);
  }
  return status;
}

uhal_status scale_reals(Queue& queue, double factor, const uhal_tensor& view) {
  uhal_map_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.function = uhal_map_scale;
  attributes.parameters[0] = factor;
  const uhal_tensor* operands[] = {&view};
  const uhal_op op = {sizeof op, UHAL_OP_MAP, 1, 1, 0, operands, operands, &attributes, nullptr};
  return run_map(queue, op);
}

uhal_status scale_view(Queue& queue, double factor, const uhal_tensor& view) {
  if (factor == 1) return UHAL_OK;
  if (!is_complex(view.dtype)) return scale_reals(queue, factor, view);
  const uhal_tensor* const views[] = {&view};
  const Space space = make_space(views, 1);
  if (space.dense(0)) {  // its parts lie one after the other
    uhal_tensor parts = parts_of(view, 0);
    parts.rank = 1;
    parts.shape[0] = 2 * space.count;
    parts.strides[0] = 1;
    return scale_reals(queue, factor, parts);
  }
  const uhal_status status = scale_reals(queue, factor, parts_of(view, 0));
  return status == UHAL_OK ? scale_reals(queue, factor, parts_of(view, 1)) : status;
}

// Device memory of several purposes is in units of these bytes.

}  // namespace

bool run_fft_by_library(Queue& queue, const uhal_op& op, const FftProblem& problem, uhal_status* status) {
  const FftLibrary* library = queue.traits().fft_library;
  const bool to_real = problem.form == FftForm::kToReal;
  // Real forms have the one direction that they are named after.
  if (library == nullptr || (problem.form != FftForm::kComplex && problem.inverse != to_real)) return false;
  const uhal_tensor& x = *op.inputs[0];
  const uhal_tensor& y = *op.outputs[0];
  Axes all;
  all.count = problem.axis_count;
  std::copy_n(problem.axes, all.count, all.axes);
  std::copy_n(problem.lengths, all.count, all.lengths);

  // Up to two tasks: to real numbers, the other axes first.
  FftTask tasks[2];
  int count = 0;
  uhal_tensor spectrum = packed_spectrum(x, problem.last_axis(), nullptr);
  if (!to_real) {
    if (!make_task(problem, problem.form, all, x, y, &tasks[count++])) return false;
  } else {
    Axes others = all, last;
    others.count = all.count - 1;
    last.count = 1;
    last.axes[0] = problem.last_axis();
    last.lengths[0] = problem.last_length();
    if (others.count > 0 && !make_task(problem, FftForm::kComplex, others, x, spectrum, &tasks[count++])) return false;
    if (!make_task(problem, FftForm::kToReal, last, spectrum, y, &tasks[count++])) return false;
  }
  size_t most = 0;
  for (int i = 0; i < count; ++i) {
    size_t bytes = 0;
    if (!library->takes(tasks[i]) || !queue.plan_library_fft(tasks[i], &bytes)) return false;
    most = std::max(most, bytes);
  }
  const uhal_tensor* const inputs[] = {&x};
  const size_t numbers = to_real ? static_cast<size_t>(make_space(inputs, 1).count) : 0;
  const size_t spectrum_bytes = aligned_bytes(numbers * static_cast<size_t>(dtype_size(x.dtype)));
  void* workspace = nullptr;
  if (spectrum_bytes + most > 0) {
    *status = queue.workspace(spectrum_bytes + most, &workspace);
    if (*status != UHAL_OK) return true;
  }
  void* const area = most > 0 ? static_cast<char*>(workspace) + spectrum_bytes : nullptr;
  spectrum.data = workspace;
  if (to_real) {
    tasks[count - 1].source = workspace;
    if (count > 1) tasks[0].target = workspace;
    *status = count > 1 ? queue.library_fft(tasks[0], area) : copy_views(queue, x, spectrum);
    if (*status == UHAL_UNIMPLEMENTED) return false;
    if (*status == UHAL_OK) *status = clear_imaginary_ends(queue, spectrum, problem.last_axis(), problem.last_length());
    if (*status != UHAL_OK) return true;
  }
  *status = queue.library_fft(tasks[count - 1], area);
  if (*status == UHAL_UNIMPLEMENTED) return false;
  if (*status == UHAL_OK) *status = scale_view(queue, problem.scale, y);
  return true;
}

}  // namespace unihal::kernels
