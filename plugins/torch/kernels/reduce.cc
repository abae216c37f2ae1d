// Reductions, scans, orders.
#include <ATen/WrapDimUtils.h>
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/ops/all_meta.h>
#include <ATen/ops/amax_meta.h>
#include <ATen/ops/amin_meta.h>
#include <ATen/ops/aminmax_meta.h>
#include <ATen/ops/any_meta.h>
#include <ATen/ops/argmax_meta.h>
#include <ATen/ops/argmin_meta.h>
#include <ATen/ops/cumprod_meta.h>
#include <ATen/ops/cumsum_meta.h>
#include <ATen/ops/linalg_vector_norm_meta.h>
#include <ATen/ops/max_meta.h>
#include <ATen/ops/mean_meta.h>
#include <ATen/ops/min_meta.h>
#include <ATen/ops/prod_meta.h>
#include <ATen/ops/sort_meta.h>
#include <ATen/ops/sum_meta.h>
#include <ATen/ops/topk_meta.h>

#include "plugins/torch/kernels/kernels.h"

namespace unihal::pytorch {
namespace {

using Axes = std::bitset<at::dim_bitset_size>;

// The axes that are reduced: those that are named, or all.
Axes axes_of(at::IntArrayRef dims, int64_t rank) {
  return dims.empty() ? Axes().set() : at::dim_list_to_bitset(dims, rank);
}

// What a reduction writes: the result with length 1 at each reduced axis, whether they were kept or not.
View with_ones(const View& result, const View& x, const Axes& axes) {
  View view = result;
  view.rank = x.rank;
  int next = 0;
  const bool is_kept = result.rank == x.rank;
  for (int i = 0; i < x.rank; ++i) {
    const bool reduced = axes[i];
    view.shape[i] = reduced ? 1 : x.shape[i];
    view.strides[i] = is_kept ? result.strides[i] : reduced ? 1 : result.strides[next++];
  }
  return view;
}

void reduce_to(Call& call, const at::Tensor& self, const at::Tensor& result, const Axes& axes,
               uhal_reduction reduction) {
  const View x = view_of(self);
  const View y = with_ones(view_of(result), x, axes);
  const uhal_reduce_attributes attributes = reduce_attributes(reduction);
  call.launch(UHAL_OP_REDUCE, {&x}, {&y}, &attributes);
}

// A dtype that was asked for is that of the elements before they are combined, where that matters.
at::Tensor converted(Call& call, const at::Tensor& self, at::ScalarType dtype) {
  const bool narrows = (c10::isFloatingType(self.scalar_type()) && c10::isIntegralType(dtype, true)) ||
                       (c10::isComplexType(self.scalar_type()) && !c10::isComplexType(dtype));
  return narrows ? call.keep(self.to(dtype)) : self;
}

// Of a complex number only whether it is 0 counts in a test.
template <uhal_reduction kReduction>
at::Tensor tested(Call& call, const at::Tensor& self) {
  constexpr bool kTests = kReduction == UHAL_REDUCE_ALL || kReduction == UHAL_REDUCE_ANY;
  return kTests && self.is_complex() ? call.keep(self.ne(0)) : self;
}

template <class Meta, uhal_reduction kReduction>
void reduce_axes(Call& call) {
  Structured<Meta>(call).infer();
  const at::Tensor& result = call.result();
  const at::Tensor self = converted(call, tested<kReduction>(call, call.tensor(0)), result.scalar_type());
  if (result.numel() == 0) return;
  reduce_to(call, self, result, axes_of(call.integers(1), self.dim()), kReduction);
}

template <class Meta, uhal_reduction kReduction>
void reduce_axis(Call& call) {
  Structured<Meta>(call).infer();
  const at::Tensor& result = call.result();
  const at::Tensor self = converted(call, tested<kReduction>(call, call.tensor(0)), result.scalar_type());
  if (result.numel() == 0) return;
  reduce_to(call, self, result, axes_of({call.integer(1)}, self.dim()), kReduction);
}

template <class Meta, uhal_reduction kReduction>
void reduce_all(Call& call) {
  Structured<Meta>(call).infer();
  reduce_to(call, tested<kReduction>(call, call.tensor(0)), call.result(), Axes().set(), kReduction);
}

void product_of_all(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const auto dtype =
      call.dtype(1).value_or(c10::isIntegralType(self.scalar_type(), true) ? at::kLong : self.scalar_type());
  const at::Tensor from = converted(call, self, dtype);
  reduce_to(call, from, call.make_result(0, {}, dtype), Axes().set(), UHAL_REDUCE_PRODUCT);
}

template <uhal_reduction kReduction>
void extreme_of_all(Call& call) {
  const at::Tensor& self = call.tensor(0);
  TORCH_CHECK(
      self.numel() > 0, kReduction == UHAL_REDUCE_MAXIMUM ? "max" : "min",
      "(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' "
      "argument.");
  reduce_to(call, self, call.make_result(0, {}, self.scalar_type()), Axes().set(), kReduction);
}

// Both extremes, of an axis or of all.
void both_extremes(Call& call) {
  Structured<at::meta::structured_aminmax>(call).infer();
  const at::Tensor& self = call.tensor(0);
  if (call.result(0).numel() == 0) return;
  const Axes axes = call.is_none(1) ? Axes().set() : axes_of({call.integer(1)}, self.dim());
  reduce_to(call, self, call.result(0), axes, UHAL_REDUCE_MINIMUM);
  reduce_to(call, self, call.result(1), axes, UHAL_REDUCE_MAXIMUM);
}

// -- places of extremes -------------------------------------------------------------------------------------

// A scalar counts as a vector of one.
void launch_arg_reduce(Call& call, const View& x, const View& indices, int axis, bool descending) {
  const uhal_axis_attributes attributes = axis_attributes(axis, descending);
  call.launch(UHAL_OP_ARG_REDUCE, {&x}, {&indices}, &attributes);
}

template <class Meta, bool kMaximum>
void arg_reduce(Call& call) {
  Structured<Meta>(call).infer();
  const at::Tensor& self = call.tensor(0);
  if (call.result().numel() == 0) return;
  if (call.is_none(1)) {
    const at::Tensor flat = call.keep(self.reshape({-1}));
    const View x = view_of(flat);
    View y = view_of(call.result());
    y.rank = 1;
    y.shape[0] = y.strides[0] = 1;
    return launch_arg_reduce(call, x, y, 0, kMaximum);
  }
  const View x = at_least_a_vector(self);
  const int axis = static_cast<int>(at::maybe_wrap_dim(call.integer(1), self.dim()));
  Axes axes;
  axes.set(static_cast<size_t>(axis));
  launch_arg_reduce(call, x, with_ones(view_of(call.result()), x, axes), axis, kMaximum);
}

template <class Meta, bool kMaximum>
void extreme_and_place(Call& call) {
  Structured<Meta>(call).infer();
  const at::Tensor& self = call.tensor(0);
  if (call.result(0).numel() == 0) return;
  const View x = at_least_a_vector(self);
  const int axis = static_cast<int>(at::maybe_wrap_dim(call.integer(1), self.dim()));
  Axes axes;
  axes.set(static_cast<size_t>(axis));
  const View indices = with_ones(view_of(call.result(1)), x, axes);
  const View values = with_ones(view_of(call.result(0)), x, axes);
  launch_arg_reduce(call, x, indices, axis, kMaximum);
  const uhal_index_attributes attributes = index_attributes(axis);
  call.launch(UHAL_OP_GATHER_ELEMENTS, {&x, &indices}, {&values}, &attributes);
}

// -- norms and moments --------------------------------------------------------------------------------------

void vector_norm(Call& call) {
  Structured<at::meta::structured_linalg_vector_norm>(call).infer();
  at::Tensor self = call.tensor(0);
  const at::Tensor& result = call.result();
  if (result.numel() == 0) return;
  if (self.is_complex()) self = call.keep(self.abs());
  const double order = call.real(1);
  const Axes axes = axes_of(call.integers(2), self.dim());
  if (order == 2) return reduce_to(call, self, result, axes, UHAL_REDUCE_L2_NORM);
  if (order == 1) return reduce_to(call, self, result, axes, UHAL_REDUCE_L1_NORM);
  const bool is_infinite = std::isinf(order);
  const at::ScalarType wide = self.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor sizes = call.scratch(self.sizes(), is_infinite ? self.scalar_type() : wide);
  const View x = view_of(self);
  const View y = view_of(sizes);
  if (order == 0) {
    const View zero = call.constant(0, self.scalar_type());
    call.map(uhal_map_not_equal, {&x, &zero}, {&y});
    return reduce_to(call, sizes, result, axes, UHAL_REDUCE_SUM);
  }
  call.map(uhal_map_absolute, {&x}, {&y});
  if (is_infinite) return reduce_to(call, sizes, result, axes, order > 0 ? UHAL_REDUCE_MAXIMUM : UHAL_REDUCE_MINIMUM);
  call.map(uhal_map_power_scalar, {&y}, {&y}, {order});
  const at::Tensor sum = call.scratch(result.sizes(), wide);
  reduce_to(call, sizes, sum, axes, UHAL_REDUCE_SUM);
  const View from = view_of(sum);
  const View to = view_of(result);
  call.map(uhal_map_power_scalar, {&from}, {&to}, {1 / order});
}

// The variance (or its root) and the mean along axes. (self, dim, correction, keepdim)
template <bool kRoot, bool kWithMean>
void variance(Call& call) {
  const at::Tensor& self = call.tensor(0);
  TORCH_CHECK(self.is_floating_point() || self.is_complex(),
              "std and var only support floating point and complex dtypes");
  if (self.is_complex()) {
    const std::optional<at::Scalar> correction = call.is_none(2) ? std::nullopt : std::optional(call.scalar(2));
    const c10::DimVector named = call.integers(1);
    const at::OptionalIntArrayRef along =
        call.is_none(1) ? at::OptionalIntArrayRef() : at::OptionalIntArrayRef(at::IntArrayRef(named));
    const at::Tensor both = at::var(at::real(self), along, correction, call.boolean(3)) +
                            at::var(at::imag(self), along, correction, call.boolean(3));
    call.set_result(0, kRoot ? both.sqrt() : both);
    if (kWithMean) call.set_result(1, at::mean(self, along, call.boolean(3)));
    return;
  }
  const c10::DimVector dims = call.integers(1);
  const Axes axes = axes_of(dims, self.dim());
  const bool keep = call.boolean(3);
  c10::DimVector kept, reduced;
  int64_t count = 1;
  for (int64_t i = 0; i < self.dim(); ++i) {
    kept.push_back(axes[i] ? 1 : self.size(i));
    if (axes[i]) count *= self.size(i);
    if (!axes[i] || keep) reduced.push_back(axes[i] ? 1 : self.size(i));
  }
  const at::Tensor& result = call.make_result(0, reduced, self.scalar_type());
  if (kWithMean) call.make_result(1, reduced, self.scalar_type());
  if (result.numel() == 0) return;
  const at::ScalarType wide = self.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor mean = call.scratch(kept, wide);
  reduce_to(call, self, mean, axes, UHAL_REDUCE_MEAN);
  if (kWithMean) {
    const View from = with_ones(view_of(mean), view_of(self), axes);
    const View to = with_ones(view_of(call.result(1)), view_of(self), axes);
    call.cast(from, to);
  }
  const at::Tensor squares = call.scratch(self.sizes(), wide);
  const View x = view_of(self);
  const View m = view_of(mean);
  const View s = view_of(squares);
  if (self.numel() != 0) call.map(uhal_map_squared_difference, {&x, &m}, {&s});
  const at::Tensor sum = call.scratch(kept, wide);
  reduce_to(call, squares, sum, axes, UHAL_REDUCE_SUM);
  const double divisor = std::max(0.0, static_cast<double>(count) - call.real_or(2, 1));
  const View from = view_of(sum);
  const View to = with_ones(view_of(result), x, axes);
  const View by = call.constant(divisor, wide);
  if (!kRoot) return call.map(uhal_map_divide, {&from, &by}, {&to});
  call.map(uhal_map_divide, {&from, &by}, {&from});
  call.map(uhal_map_sqrt, {&from}, {&to});
}

void count_nonzero(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const Axes axes = axes_of(call.integers(1), self.dim());
  c10::DimVector sizes;
  for (int64_t i = 0; i < self.dim(); ++i) {
    if (!axes[i]) sizes.push_back(self.size(i));
  }
  const at::Tensor& result = call.make_result(0, sizes, at::kLong);
  if (result.numel() == 0) return;
  const at::Tensor truths = call.scratch(self.sizes(), at::kBool);
  const View x = view_of(self);
  const View y = view_of(truths);
  const View zero = call.constant(0, self.scalar_type());
  if (self.numel() != 0) call.map(uhal_map_not_equal, {&x, &zero}, {&y});
  reduce_to(call, truths, result, axes, UHAL_REDUCE_SUM);
}

// -- scans ------------------------------------------------------------------------------------------------------

void launch_scan(Call& call, const at::Tensor& self, const at::Tensor& result, int64_t dim, uhal_reduction reduction) {
  if (result.numel() == 0) return;
  const at::Tensor from = self.is_same(result) ? call.keep(self.clone()) : self;
  const View x = at_least_a_vector(from);
  const View y = at_least_a_vector(result);
  uhal_scan_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.axis = static_cast<int32_t>(at::maybe_wrap_dim(dim, self.dim()));
  attributes.reduction = reduction;
  call.launch(UHAL_OP_SCAN, {&x}, {&y}, &attributes);
}

template <class Meta, uhal_reduction kReduction>
void scan(Call& call) {
  Structured<Meta>(call).infer();
  const at::Tensor& result = call.result();
  call.require(result.scalar_type() != at::kBool, "no kernel for this dtype");
  at::Tensor self = call.tensor(0);
  if (self.scalar_type() != result.scalar_type()) self = call.keep(self.to(result.scalar_type()));
  launch_scan(call, self, result, call.integer(1), kReduction);
}

void scan_log_sum_exp(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const at::Tensor& result = call.make_result(0, self.sizes(), self.scalar_type());
  launch_scan(call, self, result, call.integer(1), UHAL_REDUCE_LOG_SUM_EXP);
}

// -- orders ------------------------------------------------------------------------------------------------------

void sort(Call& call) {
  Structured<at::meta::structured_sort_stable>(call).infer();
  const at::Tensor& self = call.tensor(0);
  if (self.numel() == 0) return;
  const View x = at_least_a_vector(self);
  const View values = at_least_a_vector(call.result(0));
  const View indices = at_least_a_vector(call.result(1));
  const uhal_axis_attributes attributes =
      axis_attributes(static_cast<int>(at::maybe_wrap_dim(call.integer(2), self.dim())), call.boolean(3));
  call.launch(UHAL_OP_SORT, {&x}, {&values, &indices}, &attributes);
}

void top_k(Call& call) {
  Structured<at::meta::structured_topk>(call).infer();
  const at::Tensor& self = call.tensor(0);
  if (call.result(0).numel() == 0) return;
  const View x = at_least_a_vector(self);
  const View values = at_least_a_vector(call.result(0));
  const View indices = at_least_a_vector(call.result(1));
  const uhal_axis_attributes attributes =
      axis_attributes(static_cast<int>(at::maybe_wrap_dim(call.integer(2), self.dim())), call.boolean(3));
  call.launch(UHAL_OP_TOP_K, {&x}, {&values, &indices}, &attributes);
}

constexpr Kernel kReduceKernels[] = {
    {"sum.dim_IntList", kAll, reduce_axes<at::meta::structured_sum_dim_IntList, UHAL_REDUCE_SUM>},
    {"mean.dim", kAll, reduce_axes<at::meta::structured_mean_dim, UHAL_REDUCE_MEAN>},
    {"amax", kReal, reduce_axes<at::meta::structured_amax, UHAL_REDUCE_MAXIMUM>},
    {"amin", kReal, reduce_axes<at::meta::structured_amin, UHAL_REDUCE_MINIMUM>},
    {"prod.dim_int", kAll, reduce_axis<at::meta::structured_prod_dim_int, UHAL_REDUCE_PRODUCT>},
    {"prod", kAll, product_of_all},
    {"any", kAll, reduce_all<at::meta::structured_any, UHAL_REDUCE_ANY>},
    {"any.dim", kAll, reduce_axis<at::meta::structured_any_dim, UHAL_REDUCE_ANY>},
    {"any.dims", kAll, reduce_axes<at::meta::structured_any_dims, UHAL_REDUCE_ANY>},
    {"all", kAll, reduce_all<at::meta::structured_all, UHAL_REDUCE_ALL>},
    {"all.dim", kAll, reduce_axis<at::meta::structured_all_dim, UHAL_REDUCE_ALL>},
    {"all.dims", kAll, reduce_axes<at::meta::structured_all_dims, UHAL_REDUCE_ALL>},
    {"max", kReal, extreme_of_all<UHAL_REDUCE_MAXIMUM>},
    {"min", kReal, extreme_of_all<UHAL_REDUCE_MINIMUM>},
    {"max.dim", kReal, extreme_and_place<at::meta::structured_max_dim, true>},
    {"min.dim", kReal, extreme_and_place<at::meta::structured_min_dim, false>},
    {"aminmax", kReal, both_extremes},
    {"argmax", kNumbers, arg_reduce<at::meta::structured_argmax, true>},
    {"argmin", kNumbers, arg_reduce<at::meta::structured_argmin, false>},
    {"linalg_vector_norm", kFloats | kComplex, vector_norm},
    {"var.correction", kFloats | kComplex, variance<false, false>},
    {"std.correction", kFloats | kComplex, variance<true, false>},
    {"var_mean.correction", kFloats | kComplex, variance<false, true>},
    {"std_mean.correction", kFloats | kComplex, variance<true, true>},
    {"count_nonzero.dim_IntList", kAll, count_nonzero},
    {"cumsum", kAll, scan<at::meta::structured_cumsum, UHAL_REDUCE_SUM>},
    {"cumprod", kAll, scan<at::meta::structured_cumprod, UHAL_REDUCE_PRODUCT>},
    {"_logcumsumexp", kFloats, scan_log_sum_exp},
    {"sort.stable", kReal, sort},
    {"topk", kNumbers, top_k},
};

}  // namespace

void register_reduce() { register_kernels(kReduceKernels); }

}  // namespace unihal::pytorch
