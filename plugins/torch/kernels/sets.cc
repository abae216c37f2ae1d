// Tensors as sets: different elements, membership, how often each is there.
#include <ATen/WrapDimUtils.h>

#include <limits>

#include "plugins/torch/kernels/kernels.h"

namespace unihal::pytorch {
namespace {

at::Tensor nothing() { return empty({0}, at::kLong); }

// -- different elements -------------------------------------------------------------------------------------------

at::Tensor counts_of(const at::Tensor& starts, int64_t elements) {
  const at::Tensor limits = at::empty({starts.size(0) + 1}, starts.options().dtype(at::kLong));
  limits.narrow(0, 0, starts.size(0)).copy_(starts);
  limits.narrow(0, starts.size(0), 1).fill_(elements);
  return limits.diff();
}

// Where a vector of flags is set. There is room for all of them, of 32 bits as long as these do: one launch finds and
// counts them, and what is looked up by them is read faster.
at::Tensor places_of(Call& call, const at::Tensor& flags) {
  const bool narrow = flags.size(0) <= std::numeric_limits<int32_t>::max();
  const at::Tensor places = call.scratch({flags.size(0)}, narrow ? at::kInt : at::kLong);
  const at::Tensor count = call.scratch({1}, at::kLong);
  const View mask = view_of(flags), total = view_of(count), found = view_of(places);
  call.launch(UHAL_OP_NONZERO, {&mask}, {&total, &found});
  return places.narrow(0, 0, count.item<int64_t>());
}

// Which rows of (n, ...) are not what the row before them is. Of vectors without the dispatcher, on the way through
// which short ones would spend most of their time.
at::Tensor is_new_row(Call& call, const at::Tensor& rows) {
  const int64_t count = rows.size(0);
  const at::Tensor is_new = call.scratch({count}, at::kBool);
  const View flags = view_of(is_new), others = flags.sliced(0, 1, count - 1);
  call.fill(flags.sliced(0, 0, 1), true);
  if (count == 1) return is_new;
  if (rows.dim() == 1) {
    const View all = view_of(rows), here = all.sliced(0, 1, count - 1), before = all.sliced(0, 0, count - 1);
    call.map(uhal_map_not_equal, {&here, &before}, {&others});
  } else {
    const at::Tensor differs = rows.narrow(0, 1, count - 1).ne(rows.narrow(0, 0, count - 1));
    is_new.narrow(0, 1, count - 1).copy_(differs.flatten(1).any(1));
  }
  return is_new;
}

// The rows of these numbers.
at::Tensor rows_at(Call& call, const at::Tensor& rows, const at::Tensor& places) {
  c10::DimVector sizes(rows.sizes());
  sizes[0] = places.size(0);
  const at::Tensor result = empty(sizes, rows.scalar_type());
  if (result.numel() == 0) return result;
  const View x = view_of(rows), indices = view_of(places), y = view_of(result);
  const uhal_index_attributes attributes = index_attributes(0);
  call.launch(UHAL_OP_GATHER, {&x, &indices}, {&y}, &attributes);
  return result;
}

// Results of an op of this family: the different rows, and on demand the inverse and the counts. `order`, if there is
// one, is that in which rows were put.
void give_unique(Call& call, const at::Tensor& rows, const at::Tensor& order, bool with_inverse, bool with_counts,
                 at::IntArrayRef inverse_shape, int64_t dim = 0) {
  const at::Tensor is_new = is_new_row(call, rows);
  // Of the runs of equal rows; elements are found without, where nobody counts them.
  const at::Tensor starts = with_counts || rows.dim() > 1 ? places_of(call, is_new) : at::Tensor();
  const at::Tensor& kept = call.keep(rows);
  const at::Tensor values = starts.defined() ? rows_at(call, kept, starts) : selected(call, kept, is_new);
  call.set_result(0, dim == 0 ? values : values.movedim(0, dim).contiguous());
  at::Tensor inverse = nothing();
  if (with_inverse) {
    call.fill(view_of(is_new).sliced(0, 0, 1), false);
    const at::Tensor numbers = is_new.cumsum(0);  // of the run that each row is in, from 0
    inverse = order.defined() ? at::empty_like(numbers).scatter_(0, order, numbers) : numbers;
    inverse = inverse.view(inverse_shape);
  }
  call.set_result(1, inverse);
  call.set_result(2, with_counts ? counts_of(starts, rows.size(0)) : nothing());
}

void give_none(Call& call, const at::Tensor& self, bool with_inverse, at::IntArrayRef inverse_shape) {
  call.set_result(0, at::empty({0}, self.options()));
  call.set_result(1, with_inverse ? at::empty(inverse_shape, self.options().dtype(at::kLong)) : nothing());
  call.set_result(2, nothing());
}

void unique_of_all(Call& call, bool with_inverse, bool with_counts) {
  const at::Tensor& self = call.tensor(0);
  if (self.numel() == 0) return give_none(call, self, with_inverse, self.sizes());
  const auto [values, order] = self.reshape({-1}).sort();
  give_unique(call, values, order, with_inverse, with_counts, self.sizes());
}

// (self, sorted, return_inverse) -> values, inverse
void unique(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const auto [values, inverse, counts] = at::_unique2(self, true, call.boolean(2), false);
  call.set_result(0, values);
  call.set_result(1, inverse);
}

// (self, sorted, return_inverse, return_counts)
void unique_with_counts(Call& call) { unique_of_all(call, call.boolean(2), call.boolean(3)); }

// The axis first, the others as one.
at::Tensor rows_along(const at::Tensor& self, int64_t dim) {
  for (int64_t i = 0; i < self.dim(); ++i) {
    TORCH_CHECK(self.size(i) != 0 || i == dim,
                "There are 0 sized dimensions, and they aren't selected, so unique cannot ", "be applied");
  }
  TORCH_CHECK(self.size(dim) != 0 || self.numel() == 0, "unique of no rows");
  return self.movedim(dim, 0).contiguous();
}

void unique_along(Call& call, int64_t dim, bool sorts, bool with_inverse, bool with_counts) {
  const at::Tensor& self = call.tensor(0);
  dim = at::maybe_wrap_dim(dim, self.dim());
  at::Tensor rows = rows_along(self, dim);
  if (self.numel() == 0) {
    give_none(call, self, with_inverse, {self.size(dim)});
    call.set_result(0, self.clone());
    return;
  }
  at::Tensor order;
  if (sorts) {
    // By all columns, the last one first; each sort keeps what those before it did.
    const at::Tensor columns = rows.dim() == 1 ? rows : rows.flatten(1);
    order = at::arange(rows.size(0), self.options().dtype(at::kLong));
    for (int64_t i = columns.dim() == 1 ? 0 : columns.size(1) - 1; i >= 0; --i) {
      const at::Tensor column = columns.dim() == 1 ? columns : columns.select(1, i);
      const at::Tensor next = std::get<1>(column.index_select(0, order).sort(std::optional<bool>(true), 0, false));
      order = order.index_select(0, next);
    }
    rows = rows.index_select(0, order);
  }
  give_unique(call, rows, order, with_inverse, with_counts, {rows.size(0)}, dim);
}

// (self, dim, sorted, return_inverse, return_counts)
void unique_of_axis(Call& call) { unique_along(call, call.integer(1), true, call.boolean(3), call.boolean(4)); }

// (self, return_inverse, return_counts, dim)
void unique_consecutive(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const bool with_inverse = call.boolean(1), with_counts = call.boolean(2);
  if (!call.is_none(3)) return unique_along(call, call.integer(3), false, with_inverse, with_counts);
  if (self.numel() == 0) return give_none(call, self, with_inverse, self.sizes());
  give_unique(call, self.reshape({-1}), {}, with_inverse, with_counts, self.sizes());
}

// (self, dim, return_inverse, return_counts)
void unique_consecutive_of_axis(Call& call) {
  unique_along(call, call.integer(1), false, call.boolean(2), call.boolean(3));
}

// -- membership ---------------------------------------------------------------------------------------------------

// Few elements are compared one by one, with no sorting.
constexpr int64_t kFewElements = 16;

at::Tensor is_in(const at::Tensor& elements, const at::Tensor& tests, bool invert) {
  const at::ScalarType common = at::result_type(elements, tests);
  TORCH_CHECK(elements.scalar_type() != at::kBool && tests.scalar_type() != at::kBool,
              "Unsupported input type encountered for isin(): Bool");
  const at::Tensor wanted = elements.to(common), set = tests.to(common).reshape({-1});
  at::Tensor found;
  if (set.numel() == 0 || wanted.numel() == 0) {
    found = at::zeros(wanted.sizes(), wanted.options().dtype(at::kBool));
  } else if (set.numel() <= kFewElements) {
    found = wanted.unsqueeze(-1).eq(set).any(-1);
  } else {
    const at::Tensor sorted = std::get<0>(set.sort());
    const at::Tensor places = at::searchsorted(sorted, wanted.contiguous()).clamp_max_(set.numel() - 1);
    found = sorted.index_select(0, places.flatten()).view(wanted.sizes()).eq(wanted);
  }
  return invert ? found.logical_not() : found;
}

// (elements, test_elements, *, assume_unique, invert), either of them a number
void is_in_set(Call& call) {
  const auto operand = [&call](int index, const at::Tensor& other) {
    if (call.argument(index).isTensor()) return call.tensor(index);
    return at::scalar_tensor(call.scalar(index), other.options().dtype(call.scalar(index).type()));
  };
  const bool has_elements = call.argument(0).isTensor();
  const at::Tensor tests = operand(1, has_elements ? call.tensor(0) : at::Tensor(call.tensor(1)));
  call.set_result(0, is_in(operand(0, tests), tests, call.boolean(3)));
}

// -- how often ----------------------------------------------------------------------------------------------------

// The most frequent element along an axis, of several the least: (self, dim, keepdim)
void mode(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const int64_t dim = at::maybe_wrap_dim(call.integer(1), self.dim());
  const bool keep = call.boolean(2);
  if (self.dim() == 0) {
    call.set_result(0, self.clone());
    call.set_result(1, at::zeros({}, self.options().dtype(at::kLong)));
    return;
  }
  const int64_t length = self.size(dim);
  TORCH_CHECK_INDEX(length != 0, "mode(): Expected reduction dim ", dim, " to have non-zero size.");
  if (self.numel() == 0) {
    c10::DimVector sizes(self.sizes());
    sizes[dim] = 1;
    const at::Tensor none = at::empty(sizes, self.options());
    const at::Tensor places = at::empty(sizes, self.options().dtype(at::kLong));
    call.set_result(0, keep ? none : none.squeeze(dim));
    call.set_result(1, keep ? places : places.squeeze(dim));
    return;
  }
  const auto [sorted, order] = self.sort(/*stable=*/std::optional<bool>(true), dim, false);
  c10::DimVector line(static_cast<size_t>(self.dim()), 1);
  line[dim] = length;
  const at::Tensor numbers = at::arange(length, self.options().dtype(at::kLong)).view(line).expand(self.sizes());
  // How long the run is in which an element is, up to it.
  const at::Tensor changes = sorted.narrow(dim, 1, length - 1).ne(sorted.narrow(dim, 0, length - 1));
  const at::Tensor begins = at::where(changes, numbers.narrow(dim, 1, length - 1), 0);
  const at::Tensor starts = std::get<0>(at::cat({at::zeros_like(numbers.narrow(dim, 0, 1)), begins}, dim).cummax(dim));
  const at::Tensor best = (numbers - starts).argmax(dim, /*keepdim=*/true);
  const at::Tensor value = sorted.gather(dim, best), place = order.gather(dim, best);
  call.set_result(0, keep ? value : value.squeeze(dim));
  call.set_result(1, keep ? place : place.squeeze(dim));
}

// How many of the numbers, which are from 0 to bins - 1, are each of these.
at::Tensor count_in_bins(Call& call, const at::Tensor& numbers, int64_t bins) {
  const at::Tensor result = empty({bins}, at::kLong);
  const bool is_index = numbers.scalar_type() == at::kInt || numbers.scalar_type() == at::kLong;
  const at::Tensor ones = at::ones({1}, numbers.options().dtype(at::kLong)).expand({numbers.size(0)});
  const View ids = view_of(call.keep(is_index ? numbers : numbers.to(at::kLong)));
  const View each = view_of(call.keep(ones)), counts = view_of(result);
  uhal_segment_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.reduction = UHAL_REDUCE_SUM;
  call.launch(UHAL_OP_SEGMENT_REDUCE, {&each, &ids}, {&counts}, &attributes);
  return result;
}

uhal_dtype without_sign(uhal_dtype dtype) {
  switch (dtype) {
    case UHAL_INT8:
      return UHAL_UINT8;
    case UHAL_INT16:
      return UHAL_UINT16;
    case UHAL_INT32:
      return UHAL_UINT32;
    case UHAL_INT64:
      return UHAL_UINT64;
    default:
      return dtype;
  }
}

// The largest of whole numbers, or one that is less than 0 if there is any: read without signs these are beyond all
// others. The call waits for it.
int64_t largest_or_negative(Call& call, const at::Tensor& numbers) {
  const at::Tensor result = call.scratch({1}, numbers.scalar_type());
  View x = view_of(numbers), y = view_of(result);
  x.dtype = y.dtype = without_sign(x.dtype);
  const uhal_reduce_attributes attributes = reduce_attributes(UHAL_REDUCE_MAXIMUM);
  call.launch(UHAL_OP_REDUCE, {&x}, {&y}, &attributes);
  return result.item<int64_t>();
}

// (self, weights, minlength)
void bincount(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const at::Tensor weights = call.optional_tensor(1);
  const int64_t least = call.integer(2);
  TORCH_CHECK(least >= 0, "minlength should be >= 0");
  TORCH_CHECK(self.dim() == 1, "bincount only supports 1-d non-negative integral inputs.");
  TORCH_CHECK(!weights.defined() || (weights.dim() == 1 && weights.size(0) == self.size(0)),
              "weights should be 1-d and have the same length as input");
  const at::ScalarType dtype = !weights.defined()                    ? at::kLong
                               : weights.scalar_type() == at::kFloat ? at::kFloat
                                                                     : at::kDouble;
  const at::TensorOptions options = self.options().dtype(dtype);
  if (self.numel() == 0) return call.set_result(0, at::zeros({least}, self.options().dtype(at::kLong)));
  const int64_t high = largest_or_negative(call, self);
  TORCH_CHECK(high >= 0, "bincount only supports 1-d non-negative integral inputs.");
  const int64_t bins = std::max(least, high + 1);
  if (!weights.defined()) return call.set_result(0, count_in_bins(call, self, bins));
  call.set_result(0, at::zeros({bins}, options).index_add_(0, self.to(at::kLong), weights.to(dtype)));
}

// The amounts that fall into bins whose numbers are `places`; those outside [0, bins) into none.
at::Tensor fill_bins(const at::Tensor& places, const at::Tensor& is_inside, const at::Tensor& amounts, int64_t bins) {
  const at::Tensor counted = at::where(is_inside, amounts, at::zeros({}, amounts.options()));
  return at::zeros({bins}, amounts.options()).index_add(0, places.clamp(0, bins - 1), counted);
}

// (self, bins, min, max)
void histogram_of_range(Call& call) {
  const at::Tensor self = call.tensor(0).reshape({-1});
  const int64_t bins = call.integer(1);
  TORCH_CHECK(bins > 0, "torch.histogram(): bins must be > 0, but got ", bins);
  double low = call.real(2), high = call.real(3);
  if (low == high && self.numel() > 0) {
    const auto [least, largest] = self.aminmax();
    low = least.item<double>();
    high = largest.item<double>();
  }
  if (low == high) {
    low -= 1;
    high += 1;
  }
  TORCH_CHECK(std::isfinite(low) && std::isfinite(high), "range of [", low, ", ", high, "] is not finite");
  TORCH_CHECK(low < high, "max must be larger than min");
  if (self.numel() == 0) return call.set_result(0, at::zeros({bins}, self.options()));
  const at::Tensor is_inside = self.ge(low).logical_and(self.le(high));
  const at::Tensor safe = at::where(is_inside, self, at::full({}, low, self.options()));
  const at::Tensor places = ((safe - low) * static_cast<double>(bins) / (high - low)).to(at::kLong);
  call.set_result(0, fill_bins(places, is_inside, at::ones_like(self), bins));
}

void give_histogram(Call& call, const at::Tensor& edges, const at::Tensor& weights, bool density) {
  const at::Tensor self = call.tensor(0).reshape({-1});
  const int64_t bins = edges.numel() - 1;
  TORCH_CHECK(bins > 0, "torch.histogram(): bins tensor should have at least 2 elements");
  at::Tensor result = at::zeros({bins}, self.options());
  if (self.numel() != 0) {
    const at::Tensor amounts = weights.defined() ? weights.reshape({-1}) : at::ones_like(self);
    const at::Tensor last = edges.narrow(0, bins, 1);
    const at::Tensor is_inside = self.ge(edges.narrow(0, 0, 1)).logical_and(self.le(last));
    const at::Tensor places = at::searchsorted(edges.contiguous(), self, false, /*right=*/true).sub(1);
    result = fill_bins(places, is_inside, amounts, bins);
  }
  if (density) result = result / (result.sum() * edges.diff());
  call.set_result(0, result);
  call.set_result(1, edges);
}

void check_weights(const at::Tensor& self, const at::Tensor& weights) {
  if (!weights.defined()) return;
  TORCH_CHECK(weights.scalar_type() == self.scalar_type(), "torch.histogram(): if weight tensor is provided, input ",
              "tensor and weight tensor should have the same dtype");
  TORCH_CHECK(weights.sizes() == self.sizes(), "torch.histogram(): if weight tensor is provided it should have the ",
              "same shape as the input tensor");
}

// (self, bins, *, weight, density) -> hist, bin_edges
void histogram_by_edges(Call& call) {
  const at::Tensor& edges = call.tensor(1);
  check_weights(call.tensor(0), call.optional_tensor(2));
  TORCH_CHECK(edges.dim() == 1 && edges.scalar_type() == call.tensor(0).scalar_type(),
              "torch.histogram(): bins tensor should have one dimension and the input's dtype");
  give_histogram(call, edges.clone(), call.optional_tensor(2), call.boolean(3));
}

// (self, bins, *, range, weight, density) -> hist, bin_edges
void histogram_by_count(Call& call) {
  const at::Tensor& self = call.tensor(0);
  check_weights(self, call.optional_tensor(3));
  const int64_t bins = call.integer(1);
  TORCH_CHECK(bins > 0, "torch.histogram(): bins must be > 0, but got ", bins);
  double low = 0, high = 1;
  if (!call.is_none(2)) {
    const std::vector<double> range = call.argument(2).toDoubleVector();
    TORCH_CHECK(range.size() == 2, "torch.histogram(): range should have 2 elements, but got ", range.size());
    low = range[0];
    high = range[1];
  } else if (self.numel() > 0) {
    const auto [least, largest] = self.aminmax();
    low = least.item<double>();
    high = largest.item<double>();
  }
  TORCH_CHECK(std::isfinite(low) && std::isfinite(high), "torch.histogram(): range [", low, ", ", high,
              "] is not finite");
  TORCH_CHECK(low <= high, "torch.histogram(): min should not exceed max, but got min ", low, " max ", high);
  if (low == high) {
    low -= 0.5;
    high += 0.5;
  }
  give_histogram(call, at::linspace(low, high, bins + 1, self.options()), call.optional_tensor(3), call.boolean(4));
}

constexpr Kernel kSetsKernels[] = {
    {"_unique", kReal, unique},
    {"_unique2", kReal, unique_with_counts},
    {"unique_dim", kReal, unique_of_axis},
    {"unique_consecutive", kReal, unique_consecutive},
    {"unique_dim_consecutive", kReal, unique_consecutive_of_axis},
    {"isin.Tensor_Tensor", kReal, is_in_set},
    {"isin.Tensor_Scalar", kReal, is_in_set},
    {"isin.Scalar_Tensor", kReal, is_in_set},
    {"mode", kReal, mode},
    {"bincount", kIntegers, bincount},
    {"histc", kFloats, histogram_of_range},
    {"histogram.bins_tensor", kWideFloats, histogram_by_edges},
    {"histogram.bin_ct", kWideFloats, histogram_by_count},
};

}  // namespace

void register_sets() { register_kernels(kSetsKernels); }

}  // namespace unihal::pytorch
