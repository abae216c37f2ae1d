// Places in sorted rows, ranks, medians, running extremes.
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/where.h>

#include "plugins/torch/kernels/kernels.h"

namespace unihal::pytorch {
namespace {

// -- sorted rows ----------------------------------------------------------------------------------------------

void search(Call& call, const at::Tensor& sorted, const at::Tensor& values, bool is_int32, bool right) {
  const at::Tensor& result = call.make_result(0, values.sizes(), is_int32 ? at::kInt : at::kLong);
  if (result.numel() == 0) return;
  if (sorted.numel() == 0) return call.fill(view_of(result), 0);
  View rows = view_of(sorted);
  View wanted = view_of(values);
  View y = view_of(result);
  if (wanted.rank == 0) {
    wanted = wanted.unsqueezed(0);
    y = y.unsqueezed(0);
  }
  uhal_search_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.right = right;
  call.launch(UHAL_OP_SEARCH_SORTED, {&rows, &wanted}, {&y}, &attributes);
}

// Both in the dtype that holds the values of both.
void search_promoted(Call& call, at::Tensor sorted, at::Tensor values, bool is_int32, bool right) {
  if (sorted.scalar_type() != values.scalar_type()) {
    const at::ScalarType common = at::result_type(sorted, values);
    sorted = call.keep(sorted.to(common));
    values = call.keep(values.to(common));
  }
  search(call, sorted, values, is_int32, right);
}

// A number in the dtype in which it is compared with these.
at::Tensor number_beside(Call& call, const at::Tensor& sorted, const at::Scalar& number) {
  const at::Tensor value = call.scratch({}, at::result_type(sorted, number));
  call.fill(view_of(value), number);
  return value;
}

// (sorted_sequence, self, *, out_int32, right, side, sorter)
void search_sorted(Call& call) {
  at::Tensor sorted = call.tensor(0);
  const bool is_scalar = !call.argument(1).isTensor();
  const at::Tensor values = is_scalar ? number_beside(call, sorted, call.scalar(1)) : call.tensor(1);
  bool right = call.boolean(3);
  if (!call.is_none(4)) {
    const c10::string_view side = call.argument(4).toStringView();
    TORCH_CHECK(side == "left" || side == "right", "torch.searchsorted(): side can only be 'left' or 'right' but got ",
                side);
    TORCH_CHECK(!right || side == "right",
                "torch.searchsorted(): side and right can't be set to opposites, got side "
                "of ",
                side, " while right was True");
    right = side == "right";
  }
  TORCH_CHECK(sorted.dim() != 0,
              "torch.searchsorted(): input value can be a scalar only when boundaries tensor "
              "dimension is 1, but we got a boundaries tensor without dimensions");
  bool fits = sorted.dim() == 1 || sorted.dim() == values.dim();
  for (int64_t i = 0; fits && sorted.dim() > 1 && i + 1 < sorted.dim(); ++i) fits = sorted.size(i) == values.size(i);
  TORCH_CHECK(fits,
              "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of "
              "boundaries tensor and input value tensor must match, but we got boundaries tensor ",
              sorted.sizes(), " and input value tensor ", values.sizes());
  if (!call.is_none(5)) {
    const at::Tensor& order = call.tensor(5);
    TORCH_CHECK(order.sizes() == sorted.sizes() && order.scalar_type() == at::kLong,
                "torch.searchsorted(): boundary and sorter must have the same size and sorter must be a tensor of "
                "long dtype, but got boundary tensor ",
                sorted.sizes(), " and sorter ", order.sizes(), " of ", order.scalar_type());
    sorted = call.keep(sorted.gather(-1, order));
  }
  search_promoted(call, sorted, values, call.boolean(2), right);
}

// (self, boundaries, *, out_int32, right)
void bucketize(Call& call) {
  const at::Tensor& boundaries = call.tensor(1);
  const at::Tensor values =
      call.argument(0).isTensor() ? call.tensor(0) : number_beside(call, boundaries, call.scalar(0));
  TORCH_CHECK(boundaries.dim() == 1, "boundaries tensor must be 1 dimension, but got dim(", boundaries.dim(), ")");
  search_promoted(call, boundaries, values, call.boolean(2), call.boolean(3));
}

// -- ranks ----------------------------------------------------------------------------------------------------

// The element of rank k (from 1) along an axis, and its place.
void select_rank(Call& call, const at::Tensor& self, int64_t k, int64_t dim, bool keep) {
  if (self.dim() == 0) {
    call.set_result(0, self.clone());
    call.set_result(1, at::zeros({}, self.options().dtype(at::kLong)));
    return;
  }
  // Those behind it need no order.
  const auto [values, indices] = self.topk(k, dim, /*largest=*/false, /*sorted=*/true);
  const at::Tensor value = values.select(dim, k - 1);
  const at::Tensor place = indices.select(dim, k - 1);
  call.set_result(0, keep ? value.unsqueeze(dim).contiguous() : value.contiguous());
  call.set_result(1, keep ? place.unsqueeze(dim).contiguous() : place.contiguous());
}

// (self, k, dim, keepdim)
void kth_value(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const int64_t dim = at::maybe_wrap_dim(call.integer(2), self.dim());
  const int64_t length = self.dim() == 0 ? 1 : self.size(dim);
  const int64_t k = call.integer(1);
  TORCH_CHECK_INDEX(self.numel() != 0 || length != 0, "kthvalue(): Expected reduction dim ", dim,
                    " to have non-zero size.");
  TORCH_CHECK(k >= 1 && k <= length, "kthvalue(): selected number k out of range for dimension ", dim);
  select_rank(call, self, k, dim, call.boolean(3));
}

// Along an axis the lower of the two in the middle; NaN if there is one, or, `kIgnoresNan`, of the others.
template <bool kIgnoresNan>
void median_of_axis(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const int64_t dim = at::maybe_wrap_dim(call.integer(1), self.dim());
  const bool keep = call.boolean(2);
  const int64_t length = self.dim() == 0 ? 1 : self.size(dim);
  TORCH_CHECK_INDEX(length != 0, kIgnoresNan ? "nanmedian" : "median", "(): Expected reduction dim ", dim,
                    " to have non-zero size.");
  if (self.dim() == 0 || !self.is_floating_point()) return select_rank(call, self, (length + 1) / 2, dim, keep);
  at::Tensor value, place;
  if (kIgnoresNan) {
    // NaN come last, behind all that is up to infinity.
    const auto [values, indices] = self.sort(/*stable=*/std::optional<bool>(true), dim, false);
    const at::Tensor rows = values.movedim(dim, -1);
    const at::Tensor infinity = number_like(values, kInfinity).expand_as(rows.narrow(-1, 0, 1));
    const at::Tensor known = at::searchsorted(rows, infinity, false, /*right=*/true).movedim(-1, dim);
    const at::Tensor middle = (known - 1).clamp_min(0).bitwise_right_shift(1);
    value = values.gather(dim, middle);
    place = indices.gather(dim, middle);
  } else {
    const int64_t count = (length + 1) / 2;
    const auto [values, indices] = self.topk(count, dim, /*largest=*/false, /*sorted=*/true);
    const at::Tensor first = self.argmax(dim, /*keepdim=*/true);  // of NaN, if there is one
    const at::Tensor largest = self.gather(dim, first), is_nan = largest.isnan();
    value = at::where(is_nan, largest, values.narrow(dim, count - 1, 1));
    place = at::where(is_nan, first, indices.narrow(dim, count - 1, 1));
  }
  call.set_result(0, keep ? value : value.squeeze(dim));
  call.set_result(1, keep ? place : place.squeeze(dim));
}

template <bool kIgnoresNan>
void median_of_all(Call& call) {
  const at::Tensor& self = call.tensor(0);
  TORCH_CHECK(self.numel() != 0 || self.is_floating_point(), "median of no integers");
  if (self.numel() == 0) {
    return call.set_result(0, at::full({}, std::numeric_limits<double>::quiet_NaN(), self.options()));
  }
  const at::Tensor flat = self.reshape({-1});
  call.set_result(0, std::get<0>(kIgnoresNan ? flat.nanmedian(0, false) : flat.median(0, false)));
}

// -- running extremes ------------------------------------------------------------------------------------------

// (self, values, indices, dim): writes the running extreme and the last place where it was reached.
template <uhal_reduction kReduction>
void running_extreme(Call& call) {
  const at::Tensor& self = call.tensor(0);
  at::Tensor values = call.tensor(1);
  at::Tensor indices = call.tensor(2);
  if (self.numel() == 0) return call.set_values({});
  const int64_t dim = at::maybe_wrap_dim(call.integer(3), self.dim());
  if (self.dim() == 0) {
    values.copy_(self);
    indices.zero_();
    return;
  }
  uhal_scan_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.axis = static_cast<int32_t>(dim);
  attributes.reduction = kReduction;
  const View x = view_of(self);
  const View y = view_of(values);
  const View where = view_of(indices);
  call.launch(UHAL_OP_SCAN, {&x}, {&y, &where}, &attributes);
}

// (self, dim, keepdim, *, dtype)
void sum_without_nan(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const at::Tensor known =
      self.is_floating_point() ? at::where(self.isnan(), at::scalar_tensor(0, self.options()), self) : self;
  const at::OptionalIntArrayRef none;
  const c10::DimVector dims = call.integers(1);
  call.set_result(0, known.sum(dims.empty() ? none : at::OptionalIntArrayRef(dims), call.boolean(2), call.dtype(3)));
}

constexpr Kernel kSearchKernels[] = {
    {"searchsorted.Tensor", kNumbers, search_sorted},
    {"searchsorted.Scalar", kNumbers, search_sorted},
    {"bucketize.Tensor", kNumbers, bucketize},
    {"bucketize.Scalar", kNumbers, bucketize},
    {"kthvalue", kNumbers, kth_value},
    {"median", kNumbers, median_of_all<false>},
    {"median.dim", kNumbers, median_of_axis<false>},
    {"nanmedian", kNumbers, median_of_all<true>},
    {"nanmedian.dim", kNumbers, median_of_axis<true>},
    {"_cummax_helper", kReal, running_extreme<UHAL_REDUCE_MAXIMUM>},
    {"_cummin_helper", kReal, running_extreme<UHAL_REDUCE_MINIMUM>},
    {"nansum", kReal, sum_without_nan},
};

}  // namespace

void register_search() { register_kernels(kSearchKernels); }

}  // namespace unihal::pytorch
