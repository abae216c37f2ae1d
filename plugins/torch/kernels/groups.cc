// Rows and elements that are combined by the group that an index, an offset or a mask puts them into.
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/index_reduce_meta.h>

#include <limits>

#include "plugins/torch/kernels/kernels.h"

namespace unihal::pytorch {
namespace {

// -- segments: consecutive rows -----------------------------------------------------------------------------------

struct Segments {
  at::Tensor rows;       // data as (all rows, ...)
  at::Tensor lengths;    // one each, int64
  at::Tensor offsets;    // where each begins, and the end
  c10::DimVector shape;  // of the result
};

// `lengths` or `offsets` (outer..., segments) along axis `axis` of data, which is the last one of theirs. Lengths are
// looked at where the caller `checks` them, and their signs where that waits for nothing.
Segments segments_of(const at::Tensor& data, const at::Tensor& lengths, const at::Tensor& offsets, int64_t axis,
                     bool checks, bool at_once) {
  const at::Tensor given = lengths.defined() ? lengths : offsets;
  TORCH_CHECK(given.defined(), "segment_reduce(): Either lengths or offsets must be provided.");
  axis = at::maybe_wrap_dim(axis, data.dim());
  TORCH_CHECK(axis == given.dim() - 1,
              "segment_reduce(): Expected axis to be the last dimension of lengths or offsets ", "but got ", axis, ".");
  Segments result;
  const at::Tensor counts = lengths.defined() ? lengths : offsets.diff();
  checks = checks && lengths.defined();
  if ((checks || at_once) && counts.numel() != 0) {
    TORCH_CHECK(counts.ge(0).all().item<bool>(), "lengths contains negative value!");
    TORCH_CHECK(!checks || counts.sum(-1).eq(data.size(axis)).all().item<bool>(),
                "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when "
                "!unsafe.");
  }
  result.lengths = counts.to(at::kLong).flatten();
  const at::Tensor ends = result.lengths.cumsum(0);
  result.offsets = at::cat({at::zeros({1}, ends.options()), ends});
  result.rows = data.flatten(0, axis);
  result.shape = c10::DimVector(data.sizes());
  result.shape[axis] = counts.size(-1);
  return result;
}

at::Tensor reduce_segments(Call& call, const Segments& segments, const at::Tensor& rows, uhal_reduction reduction,
                           double empty_value) {
  c10::DimVector sizes(rows.sizes());
  sizes[0] = segments.lengths.size(0);
  const at::Tensor result = empty(sizes, rows.scalar_type());
  if (result.numel() == 0) return result;
  uhal_segment_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.reduction = reduction;
  attributes.form = UHAL_SEGMENT_OFFSETS;
  attributes.empty = empty_value;
  const View x = view_of(call.keep(rows)), ids = view_of(call.keep(segments.offsets)), y = view_of(result);
  call.launch(UHAL_OP_SEGMENT_REDUCE, {&x, &ids}, {&y}, &attributes);
  return result;
}

// Numbers of segments, as a column beside rows.
at::Tensor beside(const at::Tensor& numbers, const at::Tensor& rows) {
  c10::DimVector sizes(static_cast<size_t>(rows.dim()), 1);
  sizes[0] = numbers.size(0);
  return numbers.view(sizes);
}

// (data, reduce, *, lengths, indices, offsets, axis, unsafe, initial)
void segment_reduce(Call& call) {
  const at::Tensor& data = call.tensor(0);
  const c10::string_view name = call.argument(1).toStringView();
  TORCH_CHECK(call.is_none(3), "segment_reduce(): indices based reduction is not supported yet.");
  const Segments segments = segments_of(data, call.optional_tensor(2), call.optional_tensor(4), call.integer(5),
                                        !call.boolean(6), call.computes_at_once());
  const bool has_initial = !call.is_none(7);
  const double initial = call.real_or(7, 0);
  at::Tensor result;
  if (name == "sum" || name == "mean") {
    result = reduce_segments(call, segments, segments.rows, UHAL_REDUCE_SUM, 0);
    if (has_initial) result = result + initial;
    if (name == "mean") {
      const at::Tensor counts = beside(segments.lengths, result);
      const at::Tensor mean = result / counts.clamp_min(1).to(result.scalar_type());
      result = has_initial ? mean : at::where(counts.eq(0), at::full({}, std::nan(""), mean.options()), mean);
    }
  } else if (name == "max") {
    result = reduce_segments(call, segments, segments.rows, UHAL_REDUCE_MAXIMUM, -kInfinity);
    if (has_initial) result = result.clamp_min(initial);
  } else if (name == "min") {
    result = reduce_segments(call, segments, segments.rows, UHAL_REDUCE_MINIMUM, kInfinity);
    if (has_initial) result = result.clamp_max(initial);
  } else {
    TORCH_CHECK(name == "prod", "unsupported reduction given! ", name);
    result = reduce_segments(call, segments, segments.rows, UHAL_REDUCE_PRODUCT, 1);
    if (has_initial) result = result * initial;
  }
  call.set_result(0, result.view(segments.shape));
}

// (grad, output, data, reduce, *, lengths, offsets, axis, initial)
void segment_reduce_backward(Call& call) {
  const at::Tensor& data = call.tensor(2);
  const c10::string_view name = call.argument(3).toStringView();
  const Segments segments =
      segments_of(data, call.optional_tensor(4), call.optional_tensor(5), call.integer(6), false, false);
  const at::Tensor& rows = segments.rows;
  c10::DimVector flat(rows.sizes());
  flat[0] = segments.lengths.size(0);
  const at::Tensor gradient = call.tensor(0).reshape(flat);
  const at::Tensor output = call.tensor(1).reshape(flat);
  const at::Tensor ids = at::searchsorted(segments.offsets.narrow(0, 1, segments.lengths.size(0)),
                                          at::arange(rows.size(0), segments.lengths.options()), false, /*right=*/true);
  const auto spread = [&ids](const at::Tensor& x) { return x.index_select(0, ids); };
  at::Tensor result;
  if (name == "sum") {
    result = spread(gradient);
  } else if (name == "mean") {
    result = spread(gradient / beside(segments.lengths, gradient).clamp_min(1).to(gradient.scalar_type()));
  } else if (name == "prod") {
    const at::Tensor is_zero = rows.eq(0);
    const at::Tensor zeros = reduce_segments(call, segments, is_zero.to(rows.scalar_type()), UHAL_REDUCE_SUM, 0);
    const at::Tensor others =
        reduce_segments(call, segments, rows.masked_fill(is_zero, 1), UHAL_REDUCE_PRODUCT, 1) * call.real_or(7, 1);
    const at::Tensor without = at::where(is_zero, spread(others), spread(others) / rows);
    const at::Tensor is_free = spread(zeros).eq(is_zero.to(rows.scalar_type()));
    result = at::where(is_free, spread(gradient) * without, at::zeros({}, rows.options()));
  } else {
    const at::Tensor is_extreme = rows.eq(spread(output)).logical_or(rows.isnan());
    const at::Tensor shares =
        reduce_segments(call, segments, is_extreme.to(rows.scalar_type()), UHAL_REDUCE_SUM, 0).clamp_min(1);
    result = at::where(is_extreme, spread(gradient / shares), at::zeros({}, rows.options()));
  }
  call.set_result(0, result.view(data.sizes()));
}

// -- bags of embeddings -------------------------------------------------------------------------------------------

enum BagMode { kSumOfBag, kMeanOfBag, kMaximumOfBag };

// Rows of x by `rows` with the weights, if there are any, combined in the bags that ids names, or that begin and end at
// the offsets `ids`. Negative ids are left out, or an error of the stream. How many each bag has is counted for means
// and maxima; nobody asks that of sums, whose counts are zeros (on the CPU they are left as they are).
std::pair<at::Tensor, at::Tensor> combine(Call& call, const at::Tensor& x, const at::Tensor& ids,
                                          uhal_segment_form form, const at::Tensor& rows, const at::Tensor& weights,
                                          int64_t count, uhal_reduction reduction, bool ignores_negative) {
  const at::Tensor result = empty({count, x.size(1)}, x.scalar_type());
  const at::Tensor counts = empty({count}, at::kLong);
  const bool is_empty = rows.numel() == 0 || result.numel() == 0, is_counted = reduction != UHAL_REDUCE_SUM;
  if (count != 0 && (is_empty || !is_counted)) call.fill(view_of(counts), 0);
  if (is_empty) {
    if (result.numel() != 0) call.fill(view_of(result), 0);
    return {result, counts};
  }
  uhal_segment_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.reduction = reduction;
  attributes.form = form;
  attributes.ignore_negative = ignores_negative ? 1 : 0;
  const View from = view_of(call.keep(x)), bags = view_of(call.keep(ids)), indices = view_of(call.keep(rows));
  View factors;
  if (weights.defined()) factors = view_of(call.keep(weights.to(x.scalar_type())));
  const View y = view_of(result), n = view_of(counts);
  call.launch(UHAL_OP_SEGMENT_REDUCE, {&from, &bags, &indices, weights.defined() ? &factors : nullptr},
              {&y, is_counted ? &n : nullptr}, &attributes);
  return {result, counts};
}

at::Tensor without_padding(const at::Tensor& ids, const at::Tensor& indices, int64_t padding) {
  return padding < 0 ? ids : ids.masked_fill(indices.eq(padding), -1);
}

// Where bags begin, by the first of the offsets, and where the last one ends. What bags of few rows take is mostly
// the way to a launch, so that these are made without the dispatcher.
at::Tensor limits_of(Call& call, const at::Tensor& offsets, int64_t bags, int64_t count) {
  const at::Tensor limits = call.scratch({bags + 1}, at::kLong);
  const View all = view_of(limits);
  if (bags != 0) {
    const View from = view_of(offsets).sliced(0, 0, bags), to = all.sliced(0, 0, bags);
    from.dtype == to.dtype ? call.copy(from, to) : call.cast(from, to);
  }
  call.fill(all.sliced(0, bags, 1), count);
  return limits;
}

// Bags begin at 0, and each where the one before ends; the last one begins among the indices, or behind them. What does
// not is an index that is out of range, which nobody waits for.
void check_limits(Call& call, const at::Tensor& limits, int64_t count) {
  const int64_t bags = limits.size(0) - 1;
  const View all = view_of(limits);
  const View before = all.sliced(0, 0, bags), after = all.sliced(0, 1, bags);
  const View lengths = view_of(call.scratch({bags}, at::kLong));
  call.map(uhal_map_subtract, {&after, &before}, {&lengths});
  call.check_numbers(all.sliced(0, 0, 1), 1);
  call.check_numbers(lengths, count + 1);
}

// The number of the bag that each of `count` indices is in: how many bags have begun behind the first, which begins at
// 0.
at::Tensor bags_of(const at::Tensor& starts, int64_t count) {
  const int64_t bags = starts.size(0);
  const at::TensorOptions longs = starts.options().dtype(at::kLong);
  if (bags == 0) return at::arange(count, longs);
  const at::Tensor begun = at::zeros({count + 1}, longs);
  if (bags > 1) begun.index_add_(0, starts.narrow(0, 1, bags - 1), at::ones({1}, longs).expand({bags - 1}));
  return begun.cumsum(0).narrow(0, 0, count);
}

// How many indices are in bags, where the last offset says it: the call waits for that.
int64_t end_of_bags(const at::Tensor& offsets, int64_t count) {
  TORCH_CHECK(offsets.size(0) >= 1, "include_last_offset: number of offset should be at least 1");
  const int64_t end = offsets.select(0, offsets.size(0) - 1).item<int64_t>();
  TORCH_CHECK(end >= 0 && end <= count, "offsets[-1] can not be greater than input's length ", count,
              " but got offsets[-1] of ", end);
  return end;
}

// The row of the table that each maximum of a bag is from, by the first index that has it; 0 where there is none. `ids`
// are the bags of all indices, of those that count none is negative in `kept`.
at::Tensor rows_of_maxima(Call& call, const at::Tensor& table, const at::Tensor& indices, const at::Tensor& ids,
                          const at::Tensor& kept, const at::Tensor& limits, const at::Tensor& maxima) {
  const int64_t count = indices.size(0), bags = maxima.size(0), columns = maxima.size(1);
  if (count == 0 || maxima.numel() == 0) return at::zeros(maxima.sizes(), maxima.options().dtype(at::kLong));
  at::Tensor numbers = at::arange(count, limits.options());
  if (!kept.is_same(ids)) numbers = numbers.masked_fill(kept.lt(0), count);
  const auto scratch = [&](int64_t rows, at::ScalarType dtype) {
    return view_of(call.scratch({rows, columns}, dtype));
  };
  const View rows = scratch(count, table.scalar_type()), best = scratch(count, table.scalar_type());
  const View from = view_of(table), at_rows = view_of(indices), found = view_of(maxima),
             at_bags = view_of(call.keep(ids));
  const uhal_index_attributes by_row = index_attributes(0);
  call.launch(UHAL_OP_GATHER, {&from, &at_rows}, {&rows}, &by_row);
  call.launch(UHAL_OP_GATHER, {&found, &at_bags}, {&best}, &by_row);
  const View is_it = scratch(count, at::kBool), place = scratch(count, at::kLong), first = scratch(bags, at::kLong);
  const View places = view_of(call.keep(numbers)).unsqueezed(1), none = call.constant(count, at::kLong);
  call.map(uhal_map_equal, {&rows, &best}, {&is_it});
  call.map(uhal_map_select, {&is_it, &places, &none}, {&place});
  uhal_segment_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.reduction = UHAL_REDUCE_MINIMUM;
  attributes.form = UHAL_SEGMENT_OFFSETS;
  attributes.integer_empty = count;
  const View ends = view_of(limits);
  call.launch(UHAL_OP_SEGMENT_REDUCE, {&place, &ends}, {&first}, &attributes);
  const View all = view_of(call.scratch({count + 1}, at::kLong)), named = all.sliced(0, 0, count);
  at_rows.dtype == named.dtype ? call.copy(at_rows, named) : call.cast(at_rows, named);
  call.fill(all.sliced(0, count, 1), 0);
  const at::Tensor chosen = empty(maxima.sizes(), at::kLong);
  const View result = view_of(chosen);
  call.launch(UHAL_OP_GATHER, {&all, &first}, {&result}, &by_row);
  return chosen;
}

// (weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset, padding_idx)
// -> output, offset2bag, bag_size, max_indices
void embedding_bag(Call& call) {
  const at::Tensor& weight = call.tensor(0);
  at::Tensor indices = call.tensor(1);
  const at::Tensor& offsets = call.tensor(2);
  const int64_t mode = call.integer(4);
  at::Tensor factors = call.optional_tensor(6);
  TORCH_CHECK(weight.dim() == 2, "weight has to be a 2D Tensor, but got Tensor of dimension ", weight.dim());
  TORCH_CHECK(indices.dim() == 1 && offsets.dim() == 1, "indices and offsets have to be 1D Tensors");
  TORCH_CHECK(mode >= kSumOfBag && mode <= kMaximumOfBag, "embedding_bag: mode is 0, 1 or 2, not ", mode);
  TORCH_CHECK(!factors.defined() || mode == kSumOfBag,
              "embedding_bag: per_sample_weights only supported with mode='sum'");
  TORCH_CHECK(!factors.defined() || factors.numel() == indices.numel(),
              "expected per_sample_weights to have the same number of elements as indices");
  int64_t bags = offsets.size(0), count = indices.size(0);
  if (call.boolean(7)) {
    count = end_of_bags(offsets, count);
    indices = indices.narrow(0, 0, count);
    if (factors.defined()) factors = factors.reshape({-1}).narrow(0, 0, count);
    --bags;
  }
  const int64_t padding = call.is_none(8) ? -1 : call.integer(8);
  const at::Tensor limits = limits_of(call, offsets, bags, count);
  if (bags != 0) check_limits(call, limits, count);
  // Of bags that leave out padding no negative index is seen.
  if (padding >= 0) call.check_numbers(view_of(indices), weight.size(0));
  // Sums need no numbers of bags: their gradient makes them, as on the CPU.
  const bool is_plain = padding < 0, needs_ids = mode != kSumOfBag || !is_plain || call.boolean(7);
  at::Tensor ids = empty({0}, at::kLong);
  if (needs_ids) ids = bags_of(limits.narrow(0, 0, bags), count);
  const at::Tensor kept = needs_ids ? without_padding(ids, indices, padding) : ids;
  constexpr uhal_reduction kReductions[] = {UHAL_REDUCE_SUM, UHAL_REDUCE_MEAN, UHAL_REDUCE_MAXIMUM};
  const auto [output, counts] =
      combine(call, weight, is_plain ? limits : kept, is_plain ? UHAL_SEGMENT_OFFSETS : UHAL_SEGMENT_UNSORTED, indices,
              factors, bags, kReductions[mode], padding >= 0);
  at::Tensor chosen = empty({0}, at::kLong);
  if (mode == kMaximumOfBag) {
    chosen = rows_of_maxima(call, weight, indices, ids, kept, limits, output);
  }
  call.set_result(0, output);
  call.set_result(1, ids);
  call.set_result(2, counts);
  call.set_result(3, chosen);
}

at::Tensor bag_gradient(Call& call, const at::Tensor& gradient, const at::Tensor& all_indices, const at::Tensor& ids,
                        const at::Tensor& sizes, const at::Tensor& chosen, int64_t count, bool by_frequency,
                        int64_t mode, const at::Tensor& factors, int64_t padding) {
  if (gradient.numel() == 0) return at::zeros({count, gradient.size(1)}, gradient.options());
  if (mode == kMaximumOfBag) {
    const at::Tensor result = at::zeros({count, gradient.size(1)}, gradient.options());
    return result.scatter_add(0, chosen, gradient.masked_fill(sizes.eq(0).unsqueeze(-1), 0));
  }
  const at::Tensor indices = all_indices.narrow(0, 0, ids.size(0));  // the others are in no bag
  at::Tensor weights = factors.defined() ? factors.reshape({-1}).narrow(0, 0, ids.size(0)) : factors;
  const auto scaled = [&weights](const at::Tensor& by) { weights = weights.defined() ? weights * by : by; };
  if (mode == kMeanOfBag && ids.numel() != 0) {
    scaled(sizes.clamp_min(1).to(gradient.scalar_type()).reciprocal().index_select(0, ids));
  }
  if (by_frequency && ids.numel() != 0) {
    const at::Tensor often = at::zeros({count}, gradient.options())
                                 .index_add(0, indices, at::ones({1}, gradient.options()).expand({indices.size(0)}));
    scaled(often.index_select(0, indices).reciprocal());
  }
  return combine(call, gradient, without_padding(indices, indices, padding), UHAL_SEGMENT_UNSORTED, ids, weights, count,
                 UHAL_REDUCE_SUM, true)
      .first;
}

// (grad, indices, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode, per_sample_weights,
// padding_idx)
void embedding_bag_dense_backward(Call& call) {
  call.set_result(
      0, bag_gradient(call, call.tensor(0), call.tensor(1), call.tensor(2), call.tensor(3), call.tensor(4),
                      call.integer(5), call.boolean(6), call.integer(7), call.optional_tensor(8), call.integer(9)));
}

// The numbers of bags that the forward pass gave, or left out: not where the last offset is the end of the bags.
at::Tensor made_bags(const at::Tensor& given, const at::Tensor& offsets, const at::Tensor& indices, int64_t bags) {
  const bool left_out = given.numel() == 0 && indices.numel() != 0 && offsets.size(0) == bags;
  return left_out ? bags_of(offsets.to(at::kLong), indices.size(0)) : given;
}

// (grad, indices, offsets, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode, sparse,
// per_sample_weights, padding_idx)
void embedding_bag_backward(Call& call) {
  call.require(!call.boolean(9), "a sparse gradient");
  const at::Tensor ids = made_bags(call.tensor(3), call.tensor(2), call.tensor(1), call.tensor(0).size(0));
  call.set_result(
      0, bag_gradient(call, call.tensor(0), call.tensor(1), ids, call.tensor(4), call.tensor(5), call.integer(6),
                      call.boolean(7), call.integer(8), call.optional_tensor(10), call.integer(11)));
}

// (grad, weight, indices, offsets, offset2bag, mode, padding_idx)
void embedding_bag_factors_backward(Call& call) {
  const at::Tensor& all_indices = call.tensor(2);
  const at::Tensor ids = made_bags(call.tensor(4), call.tensor(3), all_indices, call.tensor(0).size(0));
  const at::Tensor indices = all_indices.narrow(0, 0, ids.size(0));
  const at::Tensor products = call.tensor(0).index_select(0, ids) * call.tensor(1).index_select(0, indices);
  at::Tensor sums = products.sum(-1);
  if (call.integer(6) >= 0) sums = sums.masked_fill(indices.eq(call.integer(6)), 0);
  const int64_t others = all_indices.size(0) - ids.size(0);
  call.set_result(0, others == 0 ? sums : at::constant_pad_nd(sums, {0, others}));
}

// Rows longer than a norm are made that long: (self, indices, max_norm, norm_type), in place
void embedding_renorm(Call& call) {
  at::Tensor self = call.tensor(0);
  const at::Tensor indices = call.tensor(1).reshape({-1});
  if (indices.numel() == 0) return;
  const at::Tensor rows = self.index_select(0, indices);
  const at::Tensor norms = at::linalg_vector_norm(rows, call.real(3), {1}, /*keepdim=*/true);
  const double limit = call.real(2);
  const at::Tensor factors = at::where(norms.gt(limit), limit / (norms + 1e-7), at::ones({}, norms.options()));
  self.index_copy_(0, indices, rows * factors);  // a row that is named twice is written twice, with the same numbers
}

// -- by index -----------------------------------------------------------------------------------------------------

// (self, dim, index, source, reduce, *, include_self)
void index_reduce(Call& call) {
  Structured<at::meta::structured_index_reduce>(call).infer();
  at::Tensor result = call.result();
  if (!result.is_same(call.tensor(0))) result.copy_(call.tensor(0));
  const at::Tensor& source = call.tensor(3);
  if (source.numel() == 0) return;
  const int64_t dim = at::maybe_wrap_dim(call.integer(1), result.dim());
  c10::DimVector column(static_cast<size_t>(std::max<int64_t>(source.dim(), 1)), 1);
  if (source.dim() > 0) column[dim] = source.size(dim);
  if (call.computes_at_once()) call.check_numbers(view_of(call.tensor(2)), result.dim() == 0 ? 1 : result.size(dim));
  const at::Tensor index = call.tensor(2).to(at::kLong).view(column);
  const at::Tensor places = source.dim() == 0 ? index.squeeze(0) : index.expand(source.sizes());
  result.scatter_reduce_(dim, places, source, call.argument(4).toStringView(), call.boolean(5));
}

// (self, dim, index, value), in place
void index_fill_tensor(Call& call) {
  TORCH_CHECK(call.tensor(3).dim() == 0, "index_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
              call.tensor(3).dim(), " dimension(s).");
  at::Tensor self = call.tensor(0);
  self.index_fill_(call.integer(1), call.tensor(2), call.tensor(3).item());
}

// (self, mask, source), in place: elements under the mask become those of source, one after the other
void masked_scatter(Call& call) {
  at::Tensor self = call.tensor(0);
  const at::Tensor& source = call.tensor(2);
  TORCH_CHECK(self.scalar_type() == source.scalar_type(),
              "masked_scatter: expected self and source to have same dtypes ", "but got ", self.scalar_type(), " and ",
              source.scalar_type());
  TORCH_CHECK(call.tensor(1).scalar_type() == at::kBool, "masked_scatter_ only supports boolean masks, but got mask ",
              "with dtype ", call.tensor(1).scalar_type());
  const at::Tensor mask = call.tensor(1).expand(self.sizes());
  if (self.numel() == 0) return;
  const at::Tensor numbers = mask.reshape({-1}).cumsum(0);
  TORCH_CHECK(numbers.narrow(0, numbers.size(0) - 1, 1).item<int64_t>() <= source.numel(),
              "masked_scatter: expected source to have at least as many elements as there are ones in mask");
  if (source.numel() == 0) return;
  const at::Tensor values = source.reshape({-1}).index_select(0, numbers.sub(1).clamp_(0, source.numel() - 1));
  self.copy_(at::where(mask, values.view(self.sizes()), self));
}

// (grad_in, input_sizes, dim, size, step): windows are summed where they overlap
void unfold_backward(Call& call) {
  const at::Tensor& gradient = call.tensor(0);
  const c10::DimVector sizes = call.integers(1);
  const int64_t dim = at::maybe_wrap_dim(call.integer(2), static_cast<int64_t>(sizes.size()));
  const int64_t size = call.integer(3), step = call.integer(4);
  const at::Tensor result = at::zeros(sizes, gradient.options());
  if (sizes.empty()) return call.set_result(0, result + gradient.view({-1}).sum());
  if (gradient.numel() == 0) return call.set_result(0, result);
  const at::TensorOptions longs = gradient.options().dtype(at::kLong);
  const at::Tensor places = at::arange(gradient.size(dim), longs).mul_(step).unsqueeze(-1) + at::arange(size, longs);
  const at::Tensor rows = gradient.movedim(-1, dim + 1).flatten(dim, dim + 1);
  call.set_result(0, result.index_add(dim, places.flatten(), rows));
}

// (repeats, *, output_size): each number as often as it says
void repeat_interleave(Call& call) {
  const at::Tensor& repeats = call.tensor(0);
  TORCH_CHECK(repeats.dim() == 1, "repeat_interleave only accept 1D vector as repeat");
  TORCH_CHECK(repeats.scalar_type() == at::kLong || repeats.scalar_type() == at::kInt,
              "repeats has to be Long or Int tensor");
  if (repeats.numel() == 0) return call.set_result(0, empty({0}, repeats.scalar_type()));
  TORCH_CHECK(repeats.ge(0).all().item<bool>(), "repeats can not be negative");
  const at::Tensor ends = repeats.cumsum(0);
  const auto counted = [&ends] { return ends.narrow(0, ends.size(0) - 1, 1).item<int64_t>(); };
  const bool is_given = !call.is_none(1);
  const int64_t total = is_given ? call.integer(1) : counted();
  TORCH_CHECK(!is_given || !call.computes_at_once() || counted() == total,
              "allocated size does not match required size");
  const at::Tensor places = at::arange(total, repeats.options().dtype(at::kLong));
  call.set_result(0, at::searchsorted(ends, places, repeats.scalar_type() == at::kInt, /*right=*/true));
}

// (self, *, size, fill_value): the first `size` places
void nonzero_static(Call& call) {
  const at::Tensor self = call.tensor(0).is_complex() ? call.keep(call.tensor(0).ne(0)) : call.tensor(0);
  const int64_t size = call.integer(1);
  TORCH_CHECK(size >= 0, "nonzero_static: 'size' must be an non-negative integer");
  const at::Tensor result = at::full({size, self.dim()}, call.integer(2), self.options().dtype(at::kLong));
  call.set_result(0, result);
  if (self.numel() == 0 || result.numel() == 0) return;
  const View mask = view_of(self), count = view_of(call.scratch({1}, at::kLong)), places = view_of(result);
  call.launch(UHAL_OP_NONZERO, {&mask}, {&count, &places});
}

constexpr Kernel kGroupsKernels[] = {
    {"segment_reduce", kFloats, segment_reduce},
    {"_segment_reduce_backward", kFloats, segment_reduce_backward},
    {"_embedding_bag", kFloats, embedding_bag},
    {"_embedding_bag_forward_only", kFloats, embedding_bag},
    {"_embedding_bag_backward", kFloats, embedding_bag_backward},
    {"_embedding_bag_dense_backward", kFloats, embedding_bag_dense_backward},
    {"_embedding_bag_per_sample_weights_backward", kFloats, embedding_bag_factors_backward},
    {"embedding_renorm_", kFloats, embedding_renorm},
    {"index_reduce", kNumbers, index_reduce},
    {"index_fill_.int_Tensor", kAll, index_fill_tensor},
    {"masked_scatter_", kAll, masked_scatter},
    {"unfold_backward", kFloats | kComplex, unfold_backward},
    {"repeat_interleave.Tensor", kIntegers, repeat_interleave},
    {"nonzero_static", kAll, nonzero_static},
};

}  // namespace

void register_groups() { register_kernels(kGroupsKernels); }

}  // namespace unihal::pytorch
