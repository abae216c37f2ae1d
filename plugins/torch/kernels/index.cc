// Indexing: rows, elements, masks, joining.
#include <ATen/ExpandUtils.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/cat_meta.h>
#include <ATen/ops/gather_meta.h>
#include <ATen/ops/index_add_meta.h>
#include <ATen/ops/index_copy_meta.h>
#include <ATen/ops/scatter_add_meta.h>
#include <ATen/ops/scatter_meta.h>
#include <ATen/ops/scatter_reduce_meta.h>

#include <limits>
#include <sstream>

#include "plugins/torch/kernels/kernels.h"

namespace unihal::pytorch {
namespace {

// PyTorch's indices of gather and scatter do not wrap; those of x[...] do.
uhal_index_attributes along(int64_t dim, int64_t rank, uhal_reduction reduction = UHAL_REDUCE_NONE) {
  uhal_index_attributes attributes = index_attributes(static_cast<int>(at::maybe_wrap_dim(dim, rank)));
  attributes.reduction = reduction;
  return attributes;
}

// What of `view` indices reach along the other axes than `axis`.
View cut(View view, const View& indices, int axis, bool axis_too = false) {
  for (int i = 0; i < view.rank; ++i) {
    if (i != axis || axis_too) view.shape[i] = std::min(view.shape[i], indices.shape[i]);
  }
  return view;
}

// -- elements -------------------------------------------------------------------------------------------------

void gather(Call& call) {
  Structured<at::meta::structured_gather>(call).infer();
  if (call.result().numel() == 0) return;
  const uhal_index_attributes attributes = along(call.integer(1), call.tensor(0).dim());
  const View indices = at_least_a_vector(call.tensor(2));
  const View x = cut(at_least_a_vector(call.tensor(0)), indices, attributes.axis);
  const View y = at_least_a_vector(call.result());
  call.launch(UHAL_OP_GATHER_ELEMENTS, {&x, &indices}, {&y}, &attributes);
}

uhal_reduction reduction_of(const Call& call, c10::string_view name) {
  if (name == "add" || name == "sum") return UHAL_REDUCE_SUM;
  if (name == "multiply" || name == "prod") return UHAL_REDUCE_PRODUCT;
  if (name == "amax") return UHAL_REDUCE_MAXIMUM;
  if (name == "amin") return UHAL_REDUCE_MINIMUM;
  call.refuse("this reduction");
}

// The result begins as a copy of self, where it is not self already.
void begin_as_self(Call& call) {
  if (!call.result().is_same(call.tensor(0))) {
    at::Tensor result = call.result();
    result.copy_(call.tensor(0));
  }
}

void scatter_to_result(Call& call, const View& updates, uhal_reduction reduction) {
  const uhal_index_attributes attributes = along(call.integer(1), call.tensor(0).dim(), reduction);
  const View indices = at_least_a_vector(call.tensor(2));
  if (indices.elements() == 0) return;
  const View y = cut(at_least_a_vector(call.result()), indices, attributes.axis);
  call.launch(UHAL_OP_SCATTER_ELEMENTS, {&indices, &updates}, {&y}, &attributes);
}

// (self, dim, index, src, *, reduce)
template <class Meta, bool kReduces, bool kAdds>
void scatter_source(Call& call) {
  const uhal_reduction reduction = kAdds      ? UHAL_REDUCE_SUM
                                   : kReduces ? reduction_of(call, call.argument(4).toStringView())
                                              : UHAL_REDUCE_NONE;
  Structured<Meta>(call).infer();
  begin_as_self(call);
  const View indices = at_least_a_vector(call.tensor(2));
  if (indices.elements() == 0) return;
  scatter_to_result(call, cut(at_least_a_vector(call.tensor(3)), indices, -1), reduction);
}

// (self, dim, index, value, *, reduce)
template <class Meta, bool kReduces>
void scatter_value(Call& call) {
  const uhal_reduction reduction = kReduces ? reduction_of(call, call.argument(4).toStringView()) : UHAL_REDUCE_NONE;
  Structured<Meta>(call).infer();
  begin_as_self(call);
  View updates = at_least_a_vector(call.tensor(2));
  const View value =
      call.constant(number_of(call.tensor(0).scalar_type(), call.scalar(3)), call.tensor(0).scalar_type());
  updates.data = value.data;
  updates.dtype = value.dtype;
  for (int i = 0; i < updates.rank; ++i) updates.strides[i] = 0;
  scatter_to_result(call, updates, reduction);
}

// What leaves every other number of a reduction as it is.
at::Scalar neutral_of(at::ScalarType dtype, uhal_reduction reduction) {
  if (reduction == UHAL_REDUCE_SUM) return 0;
  if (reduction == UHAL_REDUCE_PRODUCT) return 1;
  const bool largest = reduction == UHAL_REDUCE_MINIMUM;
  if (c10::isFloatingType(dtype)) {
    const double infinity = std::numeric_limits<double>::infinity();
    return largest ? infinity : -infinity;
  }
  if (dtype == at::kByte) return largest ? 255 : 0;
  const int bits = static_cast<int>(8 * c10::elementSize(dtype)) - 1;
  const int64_t limit = static_cast<int64_t>((uint64_t{1} << bits) - 1);
  return largest ? limit : -limit - 1;
}

// (self, dim, index, src, reduce, *, include_self)
void scatter_reduce(Call& call) {
  const c10::string_view name = call.argument(4).toStringView();
  const bool is_mean = name == "mean", includes = call.boolean(5);
  const uhal_reduction reduction = is_mean ? UHAL_REDUCE_SUM : reduction_of(call, name);
  Structured<at::meta::structured_scatter_reduce_two>(call).infer();
  begin_as_self(call);
  const View indices = at_least_a_vector(call.tensor(2));
  if (indices.elements() == 0) return;
  at::Tensor result = call.result();
  const int64_t dim = call.integer(1);
  if (!includes) result.scatter_(dim, call.tensor(2), neutral_of(result.scalar_type(), reduction));
  scatter_to_result(call, cut(at_least_a_vector(call.tensor(3)), indices, -1), reduction);
  if (!is_mean) return;
  at::Tensor counts = at::full(result.sizes(), includes ? 1 : 0, result.options());
  counts.scatter_add_(dim, call.tensor(2), at::ones({}, result.options()).expand(call.tensor(2).sizes()));
  counts.clamp_min_(1);
  if (result.is_floating_point()) {
    result.div_(counts);
  } else {
    result.div_(counts, "floor");
  }
}

// -- rows -----------------------------------------------------------------------------------------------------

void index_select(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const at::Tensor& index = call.tensor(2);
  const int64_t axis = at::maybe_wrap_dim(call.integer(1), self.dim());
  TORCH_CHECK_INDEX(index.dim() <= 1, "index_select(): Index is supposed to be a vector, but got dim: ", index.dim());
  TORCH_CHECK(index.scalar_type() == at::kLong || index.scalar_type() == at::kInt,
              "index_select(): Expected dtype int32 or int64 for index");
  TORCH_CHECK(self.dim() != 0 || index.numel() == 1, "index_select(): Index to scalar can have only 1 value");
  c10::DimVector sizes(self.sizes());
  if (self.dim() > 0) sizes[axis] = index.numel();
  const at::Tensor& result = call.make_result(0, sizes, self.scalar_type());
  if (result.numel() == 0) return;
  const View x = at_least_a_vector(self);
  const View indices = at_least_a_vector(index);
  const View y = at_least_a_vector(result);
  const uhal_index_attributes attributes = index_attributes(static_cast<int>(axis));
  call.launch(UHAL_OP_GATHER, {&x, &indices}, {&y}, &attributes);
}

// self with rows added: (self, dim, index, source, *, alpha)
void index_add(Call& call) {
  Structured<at::meta::structured_index_add>(call).infer();
  begin_as_self(call);
  const at::Scalar alpha = call.scalar(4);
  at::Tensor source = call.tensor(3);
  if (call.tensor(2).numel() == 0 || source.numel() == 0) return;
  if (alpha.isComplex() || alpha.toDouble() != 1) source = call.keep(at::mul(source, alpha));
  const View indices = at_least_a_vector(call.tensor(2));
  const View updates = at_least_a_vector(source);
  const View y = at_least_a_vector(call.result());
  const uhal_index_attributes attributes = along(call.integer(1), call.tensor(0).dim(), UHAL_REDUCE_SUM);
  call.launch(UHAL_OP_SCATTER, {&indices, &updates}, {&y}, &attributes);
}

void index_copy(Call& call) {
  Structured<at::meta::structured_index_copy>(call).infer();
  begin_as_self(call);
  if (call.tensor(2).numel() == 0 || call.tensor(3).numel() == 0) return;
  const View indices = at_least_a_vector(call.tensor(2));
  const View updates = at_least_a_vector(call.tensor(3));
  const View y = at_least_a_vector(call.result());
  const uhal_index_attributes attributes = along(call.integer(1), call.tensor(0).dim());
  call.launch(UHAL_OP_SCATTER, {&indices, &updates}, {&y}, &attributes);
}

void index_fill(Call& call) {
  at::Tensor self = call.tensor(0);
  const at::Tensor& index = call.tensor(2);
  const int64_t axis = at::maybe_wrap_dim(call.integer(1), self.dim());
  TORCH_CHECK_INDEX(index.scalar_type() == at::kLong, "index_fill_(): Expected dtype int64 for index.");
  TORCH_CHECK(index.dim() <= 1, "Index has to be a vector/scalar");
  if (index.numel() == 0 || self.numel() == 0) return;
  View updates = at_least_a_vector(self);
  updates.shape[axis] = index.numel();
  const View value = call.constant(number_of(self.scalar_type(), call.scalar(3)), self.scalar_type());
  updates.data = value.data;
  for (int i = 0; i < updates.rank; ++i) updates.strides[i] = 0;
  const View indices = at_least_a_vector(index);
  const View y = at_least_a_vector(self);
  uhal_index_attributes attributes = index_attributes(static_cast<int>(axis));
  attributes.negative_wraps = 1;
  call.launch(UHAL_OP_SCATTER, {&indices, &updates}, {&y}, &attributes);
}

// The gradient of an embedding: (grad_output, indices, num_weights, padding_idx, scale_grad_by_freq)
void embedding_backward(Call& call) {
  const at::Tensor& gradient = call.tensor(0);
  const int64_t width = gradient.size(-1);
  const int64_t padding = call.integer(3);
  const at::Tensor& result = call.make_result(0, {call.integer(2), width}, gradient.scalar_type());
  const View y = view_of(result);
  if (result.numel() == 0) return;
  call.fill(y, 0);
  if (gradient.numel() == 0) return;
  const at::Tensor numbers = call.keep(call.tensor(1).reshape({-1}));
  at::Tensor rows = call.keep(gradient.reshape({-1, width}));
  if (call.boolean(4)) {
    const at::Tensor one = at::ones({1}, gradient.options());
    const at::Tensor often =
        at::zeros({call.integer(2)}, gradient.options()).index_add(0, numbers, one.expand({numbers.size(0)}));
    rows = call.keep(rows / often.index_select(0, numbers).unsqueeze(-1));
  }
  const View indices = view_of(numbers);
  const View updates = view_of(rows);
  uhal_index_attributes attributes = index_attributes(0);
  attributes.reduction = UHAL_REDUCE_SUM;
  call.launch(UHAL_OP_SCATTER, {&indices, &updates}, {&y}, &attributes);
  if (padding >= 0) call.fill(y.sliced(0, padding, 1), 0);
}

// -- x[...] -----------------------------------------------------------------------------------------------------

// self seen with the indexed axes first, and the index of each of them.
struct Indexing {
  at::Tensor self;                  // permuted: indexed axes, then the others
  std::vector<at::Tensor> columns;  // int64, of one shape
  c10::DimVector index_shape;
  int64_t position = 0;  // of the index's axes among the result's
};

std::vector<at::Tensor> broadcast(const std::vector<at::Tensor>& indices) {
  try {
    return at::expand_outplace(indices);
  } catch (const c10::Error&) {
    std::ostringstream shapes;
    for (const at::Tensor& index : indices) shapes << (&index == indices.data() ? "" : ", ") << index.sizes();
    TORCH_CHECK_INDEX(false, "shape mismatch: indexing tensors could not be broadcast together with shapes ",
                      shapes.str());
  }
}

Indexing understand(Call& call, const at::Tensor& self, const std::vector<std::optional<at::Tensor>>& given) {
  TORCH_CHECK_INDEX(static_cast<int64_t>(given.size()) <= self.dim(), "too many indices for tensor of dimension ",
                    self.dim(), " (got ", given.size(), ")");
  std::vector<at::Tensor> indices;  // one an axis, undefined where all is taken
  for (const std::optional<at::Tensor>& one : given) {
    if (!one.has_value() || !one->defined()) {
      indices.emplace_back();
      continue;
    }
    at::Tensor index = *one;
    const at::ScalarType dtype = index.scalar_type();
    TORCH_CHECK_INDEX(dtype == at::kLong || dtype == at::kInt || dtype == at::kBool || dtype == at::kByte,
                      "tensors used as indices must be long, int, byte or bool tensors");
    if (dtype == at::kBool || dtype == at::kByte) {
      for (int64_t i = 0; i < index.dim(); ++i) {
        const int64_t axis = static_cast<int64_t>(indices.size()) + i;
        TORCH_CHECK_INDEX(axis < self.dim() && index.size(i) == self.size(axis), "The shape of the mask ",
                          index.sizes(), " at index ", i, " does not match the shape of the indexed tensor ",
                          self.sizes(), " at index ", axis);
      }
      const at::Tensor places = index.nonzero();
      for (int64_t i = 0; i < index.dim(); ++i) indices.push_back(places.select(1, i));
    } else {
      indices.push_back(dtype == at::kLong ? index : index.to(at::kLong));
    }
  }
  TORCH_CHECK_INDEX(static_cast<int64_t>(indices.size()) <= self.dim(), "too many indices for tensor of dimension ",
                    self.dim());
  indices.resize(static_cast<size_t>(self.dim()));
  Indexing result;
  c10::DimVector order, others;
  for (int64_t i = 0; i < self.dim(); ++i) {
    if (indices[i].defined()) {
      order.push_back(i);
      at::Tensor index = indices[i];
      if (index.device().is_cpu()) index = index.to(self.device());
      result.columns.push_back(index);
    } else {
      others.push_back(i);
    }
  }
  result.columns = broadcast(result.columns);
  result.index_shape = c10::DimVector(result.columns.empty() ? at::IntArrayRef() : result.columns[0].sizes());
  // Indices side by side leave their axes in place, others move them to the front.
  const bool adjacent = !order.empty() && order.back() - order.front() + 1 == static_cast<int64_t>(order.size());
  result.position = adjacent ? order.front() : 0;
  order.append(others.begin(), others.end());
  result.self = call.keep(self.permute(order));
  return result;
}

// All columns as the last axis of one tensor.
View stacked(Call& call, const Indexing& indexing) {
  if (indexing.columns.size() == 1) return view_of(call.keep(indexing.columns[0].unsqueeze(-1)));
  return view_of(call.keep(at::stack(indexing.columns, -1)));
}

bool is_mask_of(const at::Tensor& index, const at::Tensor& self) {
  return index.defined() && (index.scalar_type() == at::kBool || index.scalar_type() == at::kByte) &&
         index.device() == self.device() && index.dim() > 0 && index.sizes() == self.sizes();
}

void index(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const std::vector<std::optional<at::Tensor>> given = call.optional_tensors(1);
  if (given.size() == 1 && given[0].has_value() && is_mask_of(*given[0], self)) {
    return call.set_result(0, selected(call, self, call.keep(*given[0])));
  }
  const Indexing indexing = understand(call, self, given);
  const int64_t indexed = static_cast<int64_t>(indexing.columns.size());
  TORCH_CHECK_INDEX(indexed > 0, "at least one index must be provided");
  const int64_t index_rank = static_cast<int64_t>(indexing.index_shape.size());
  const at::IntArrayRef rest = indexing.self.sizes().slice(static_cast<size_t>(indexed));
  c10::DimVector sizes;
  sizes.append(rest.begin(), rest.begin() + indexing.position);
  sizes.append(indexing.index_shape.begin(), indexing.index_shape.end());
  sizes.append(rest.begin() + indexing.position, rest.end());
  const at::Tensor& result = call.make_result(0, sizes, self.scalar_type());
  if (result.numel() == 0) return;
  for (int64_t i = 0; i < indexed; ++i) {
    TORCH_CHECK_INDEX(indexing.self.size(i) != 0, "index is out of bounds for dimension with size 0");
  }
  // The result seen with the index's axes first.
  c10::DimVector order;
  for (int64_t i = 0; i < index_rank; ++i) order.push_back(indexing.position + i);
  for (int64_t i = 0; i < result.dim(); ++i) {
    if (i < indexing.position || i >= indexing.position + index_rank) order.push_back(i);
  }
  const View x = view_of(indexing.self);
  const View places = stacked(call, indexing);
  const View y = view_of(call.keep(result.permute(order)));
  uhal_index_attributes attributes = index_attributes(0);
  attributes.negative_wraps = 1;
  call.launch(UHAL_OP_GATHER_ND, {&x, &places}, {&y}, &attributes);
}

// (self, indices, values, accumulate, unsafe)
void index_put(Call& call) {
  const at::Tensor& self = call.tensor(0);
  at::Tensor values = call.tensor(2);
  TORCH_CHECK(self.scalar_type() == values.scalar_type(),
              "Index put requires the source and destination dtypes match, got ", self.scalar_type(),
              " for the destination and ", values.scalar_type(), " for the source.");
  if (values.device().is_cpu() && values.dim() == 0) values = values.to(self.device());
  const Indexing indexing = understand(call, self, call.optional_tensors(1));
  const int64_t indexed = static_cast<int64_t>(indexing.columns.size());
  if (indexed == 0) {
    at::Tensor target = self;
    if (call.boolean(3)) {
      target.add_(values);
    } else {
      target.copy_(values);
    }
    return;
  }
  const int64_t index_rank = static_cast<int64_t>(indexing.index_shape.size());
  const at::IntArrayRef rest = indexing.self.sizes().slice(static_cast<size_t>(indexed));
  c10::DimVector sizes;
  sizes.append(rest.begin(), rest.begin() + indexing.position);
  sizes.append(indexing.index_shape.begin(), indexing.index_shape.end());
  sizes.append(rest.begin() + indexing.position, rest.end());
  TORCH_CHECK(at::is_expandable_to(values.sizes(), sizes), "shape mismatch: value tensor of shape ", values.sizes(),
              " cannot be broadcast to indexing result of shape ", at::IntArrayRef(sizes));
  c10::DimVector order;
  for (int64_t i = 0; i < index_rank; ++i) order.push_back(indexing.position + i);
  for (int64_t i = 0; i < static_cast<int64_t>(sizes.size()); ++i) {
    if (i < indexing.position || i >= indexing.position + index_rank) order.push_back(i);
  }
  const at::Tensor spread = call.keep(values.expand(sizes).permute(order));
  if (spread.numel() == 0) return;
  const View places = stacked(call, indexing);
  const View updates = view_of(spread);
  const View y = view_of(indexing.self);
  uhal_index_attributes attributes = index_attributes(0);
  attributes.negative_wraps = 1;
  attributes.reduction = call.boolean(3) ? UHAL_REDUCE_SUM : UHAL_REDUCE_NONE;
  call.launch(UHAL_OP_SCATTER_ND, {&places, &updates}, {&y}, &attributes);
}

// -- results whose size depends on data -------------------------------------------------------------------------

void nonzero(Call& call) {
  const at::Tensor self = call.tensor(0).is_complex() ? call.keep(call.tensor(0).ne(0)) : call.tensor(0);
  const int64_t elements = self.numel();
  if (elements == 0) {
    call.make_result(0, {0, self.dim()}, at::kLong);
    return;
  }
  const View mask = view_of(self);
  const at::Tensor count = call.scratch({1}, at::kLong);
  const View total = view_of(count);
  call.launch(UHAL_OP_NONZERO, {&mask}, {&total});
  const int64_t found = count.item<int64_t>();
  const at::Tensor& result = call.make_result(0, {found, self.dim()}, at::kLong);
  if (result.numel() == 0) return;
  // The one coordinate of an element of a vector is its position.
  const View places = self.dim() == 1 ? view_of(result.view({found})) : view_of(result);
  call.launch(UHAL_OP_NONZERO, {&mask}, {&total, &places});
}

void masked_select(Call& call) {
  TORCH_CHECK(call.tensor(1).scalar_type() == at::kBool, "masked_select: expected BoolTensor for mask");
  const auto expanded = at::expand_outplace(call.tensor(1), call.tensor(0));
  call.set_result(0, selected(call, call.keep(*std::get<1>(expanded)), call.keep(*std::get<0>(expanded))));
}

// -- joining ----------------------------------------------------------------------------------------------------

void concatenate(Call& call) {
  std::vector<at::Tensor> tensors = call.tensors(0);
  Structured<at::meta::structured_cat> infer(call);
  const auto found = infer.meta(at::ITensorListRef(tensors), call.integer(1));
  const at::Tensor& result = call.result();
  if (result.numel() == 0) return;
  const View y = view_of(result);
  const int axis = static_cast<int>(found.dim);
  LaunchGroup group(call.stream());
  int64_t start = 0;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.numel() == 0 && tensor.dim() == 1 && result.dim() != 1) continue;  // PyTorch leaves these out
    const View x = view_of(tensor);
    const int64_t length = x.shape[axis];
    if (x.elements() != 0) {
      const View part = y.sliced(axis, start, length);
      call.launch(x.dtype == y.dtype ? UHAL_OP_COPY : UHAL_OP_CAST, {&x}, {&part});
    }
    start += length;
  }
  check(group.end());
}

constexpr Kernel kIndexKernels[] = {
    {"gather", kStored, gather},
    {"scatter.src", kAll, scatter_source<at::meta::structured_scatter_src, false, false>},
    {"scatter.reduce", kNumbers, scatter_source<at::meta::structured_scatter_reduce, true, false>},
    {"scatter_add", kAll, scatter_source<at::meta::structured_scatter_add, false, true>},
    {"scatter.value", kAll, scatter_value<at::meta::structured_scatter_value, false>},
    {"scatter.value_reduce", kNumbers, scatter_value<at::meta::structured_scatter_value_reduce, true>},
    {"scatter_reduce.two", kNumbers, scatter_reduce},
    {"index_select", kStored, index_select},
    {"index_add", kAll, index_add},
    {"index_copy", kAll, index_copy},
    {"index_fill_.int_Scalar", kAll, index_fill},
    {"embedding_dense_backward", kFloats, embedding_backward},
    {"index.Tensor", kStored, index},
    {"_index_put_impl_", kAll, index_put},
    {"nonzero", kAll, nonzero},
    {"masked_select", kStored, masked_select},
    {"cat", kStored, concatenate},
};

}  // namespace

at::Tensor selected(Call& call, const at::Tensor& self, const at::Tensor& mask) {
  if (self.numel() == 0) return empty({0}, self.scalar_type());
  const at::Tensor count = call.scratch({1}, at::kLong);
  const View flags = view_of(mask), total = view_of(count);
  call.launch(UHAL_OP_NONZERO, {&flags}, {&total});
  const at::Tensor values = empty({count.item<int64_t>()}, self.scalar_type());
  if (values.numel() == 0) return values;
  const View x = view_of(self), y = view_of(values);
  call.launch(UHAL_OP_COMPACT, {&x, &flags}, {&y});
  return values;
}

void register_index() { register_kernels(kIndexKernels); }

}  // namespace unihal::pytorch
