// Rows and elements put where numbers say: what pooling took, repeated rows, shards, masks of lengths, triangles.
#include <algorithm>
#include <cstring>
#include <vector>

#include "plugins/paddle/kernels/common.h"

namespace unihal::paddle {
namespace {

void upload_integers(const Context& context, const std::vector<int64_t>& values, const View& y) {
  const auto* begin = reinterpret_cast<const char*>(values.data());
  const Scratch wide(context, UHAL_INT64, y);
  upload(context, std::vector<char>(begin, begin + values.size() * sizeof(int64_t)), wide);
  copy_or_cast(context, wide, y);
}

// -- what maximum pooling took, put back where it was

// Images as (images x channels, pixels).
View pixels(const View& x) {
  const int64_t planes = x.shape[0] * x.shape[1];
  return x.reshaped({planes, planes == 0 ? 0 : x.elements() / planes});
}

void put_back(const Context& context, Input x, Input indices, Text format, Output out) {
  if (std::strcmp(format.value, "NCHW") != 0 && std::strcmp(format.value, "NCDHW") != 0) {
    unsupported(context, std::string("the layout ") + format.value);
  }
  const View in = x.view(), places = indices.view();
  const View target = context.allocate(out, in.dtype);
  fill_zero(context, target);
  if (in.elements() == 0) return;
  const auto along = index_attributes(1);
  const View at = pixels(places), from = pixels(in), to = pixels(target);
  context.run(UHAL_OP_SCATTER_ELEMENTS, {&at, &from}, {&to}, &along);
}

void take_from(const Context& context, Input x, Input indices, Input dout, Output dx) {
  const View gradient = dout.view(), places = indices.view();
  const View target = context.allocate(dx, x.uhal());
  if (target.elements() == 0) return;
  const auto along = index_attributes(1);
  const View at = pixels(places), from = pixels(gradient), to = pixels(target);
  context.run(UHAL_OP_GATHER_ELEMENTS, {&from, &at}, {&to}, &along);
}

void unpool(Context context, Input x, Input indices, Span<int>, Span<int>, Span<int>, Integers, Text format,
            Output out) {
  put_back(context, x, indices, format, out);
}
void unpool_grad(Context context, Input x, Input indices, Input, Input dout, Span<int>, Span<int>, Span<int>, Integers,
                 Text, Output dx) {
  take_from(context, x, indices, dout, dx);
}
void unpool3d(Context context, Input x, Input indices, Span<int>, Span<int>, Span<int>, Span<int>, Text format,
              Output out) {
  put_back(context, x, indices, format, out);
}
void unpool3d_grad(Context context, Input x, Input indices, Input, Input dout, Span<int>, Span<int>, Span<int>,
                   Span<int>, Text, Output dx) {
  take_from(context, x, indices, dout, dx);
}

// -- rows repeated as often as a tensor says

std::vector<int64_t> places_repeated(const Context& context, const View& repeats, int64_t rows) {
  const std::vector<int64_t> counts = read_integers(context, repeats);
  std::vector<int64_t> places;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] < 0) invalid(context, "the repeats must not be negative");
    places.insert(places.end(), static_cast<size_t>(counts[i]), static_cast<int64_t>(i));
  }
  if (static_cast<int64_t>(counts.size()) != rows) {
    invalid(context, std::to_string(counts.size()) + " repeats were given for an axis of " + std::to_string(rows));
  }
  return places;
}

void repeat_interleave(Context context, Input x, Input repeats, int axis, int64_t, Output out) {
  const View in = x.view();
  const int along = from_front(axis, in.rank);
  const std::vector<int64_t> places = places_repeated(context, repeats.view(), in.shape[along]);
  int64_t dims[UHAL_MAX_RANK];
  std::copy_n(in.shape, in.rank, dims);
  dims[along] = static_cast<int64_t>(places.size());
  const View target = context.allocate(out, in.dtype, dims, in.rank);
  if (target.elements() == 0) return;
  const Scratch at(context, UHAL_INT64, &dims[along], 1);
  upload_integers(context, places, at);
  const auto attributes = index_attributes(along);
  context.run(UHAL_OP_GATHER, {&in, &at}, {&target}, &attributes);
}

void repeat_interleave_grad(Context context, Input x, Input repeats, Input dout, int axis, int64_t, Output dx) {
  const View gradient = dout.view();
  const View target = context.allocate(dx, x.uhal());
  const int along = from_front(axis, gradient.rank);
  if (gradient.elements() == 0) return fill_zero(context, target);
  const std::vector<int64_t> places = places_repeated(context, repeats.view(), target.shape[along]);
  const int64_t count[] = {static_cast<int64_t>(places.size())};
  const Scratch at(context, UHAL_INT64, count, 1);
  upload_integers(context, places, at);
  uhal_segment_attributes sum = {};
  sum.struct_size = sizeof sum;
  sum.reduction = UHAL_REDUCE_SUM;
  const View from = gradient.transposed(0, along), to = target.transposed(0, along);
  context.run(UHAL_OP_SEGMENT_REDUCE, {&from, &at}, {&to}, &sum);
}

// -- masks of lengths

void mask_lengths(const Context& context, const View& lengths, int64_t longest, Dtype dtype, Output out) {
  if (longest < 0) {
    const std::vector<int64_t> values = read_integers(context, lengths);
    longest = values.empty() ? 0 : *std::max_element(values.begin(), values.end());
  }
  int64_t dims[UHAL_MAX_RANK];
  std::copy_n(lengths.shape, lengths.rank, dims);
  dims[lengths.rank] = std::max<int64_t>(longest, 0);
  const View target = context.allocate(out, to_uhal(dtype), dims, lengths.rank + 1);
  if (target.elements() == 0) return;
  const Scratch places(context, UHAL_INT64, &dims[lengths.rank], 1), mask(context, UHAL_BOOL, target);
  count_up(context, places);
  const View ends = lengths.unsqueezed(lengths.rank);
  context.map(uhal_map_less, {&places, &ends}, {&mask});
  copy_or_cast(context, mask, target);
}

void sequence_mask(Context context, Input x, OptionalInput longest, int maxlen, Dtype dtype, Output out) {
  const int64_t given = longest ? static_cast<int64_t>(read_number(context, longest)) : maxlen;
  mask_lengths(context, x.view(), given, dtype, out);
}
void sequence_mask_scalar(Context context, Input x, Scalar maxlen, Dtype dtype, Output out) {
  mask_lengths(context, x.view(), maxlen.integer(), dtype, out);
}

// -- shards, triangles, parts of rows

void shard_index(Context context, Input in, int count, int shards, int shard, int ignored, Output out) {
  const View x = in.view();
  const View target = context.allocate(out, x.dtype);
  if (shards <= 0 || shard < 0 || shard >= shards) invalid(context, "the shard must be one of the shards");
  const int64_t size = (int64_t{count} + shards - 1) / shards;
  const Scratch length(context, x.dtype, nullptr, 0), mine(context, x.dtype, nullptr, 0),
      other(context, x.dtype, nullptr, 0), number(context, x.dtype, x), rest(context, x.dtype, x);
  const Scratch chosen(context, UHAL_BOOL, x);
  fill(context, length, static_cast<double>(size), size);
  fill(context, mine, shard, shard);
  fill(context, other, ignored, ignored);
  context.map(uhal_map_truncate_divide, {&x, &length}, {&number});
  context.map(uhal_map_equal, {&number, &mine}, {&chosen});
  context.map(uhal_map_truncate_mod, {&x, &length}, {&rest});
  context.map(uhal_map_select, {&chosen, &rest, &other}, {&target});
}

template <bool upper>
void triangle_indices(Context context, int rows, int columns, int offset, Dtype dtype, Output out) {
  std::vector<int64_t> places[2];
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      if (upper ? j - i < offset : j - i > offset) continue;
      places[0].push_back(i);
      places[1].push_back(j);
    }
  }
  const int64_t dims[] = {2, static_cast<int64_t>(places[0].size())};
  const View target = context.allocate(out, to_uhal(dtype), dims, 2);
  if (dims[1] == 0) return;
  places[0].insert(places[0].end(), places[1].begin(), places[1].end());
  upload_integers(context, places[0], target);
}

// Columns start to start + length of each tensor, side by side; a length below 0 goes to the end.
void partial_concat(Context context, InputList parts, int start, int length, Output out) {
  const View first = parts[0].view();
  const int64_t begin = from_front(start, static_cast<int>(first.shape[1]));
  const int64_t width = length < 0 ? first.shape[1] - begin : length;
  const View target = context.allocate(out, first.dtype);
  for (size_t i = 0; i < parts.size(); ++i) {
    const View part = parts[i].view().sliced(1, begin, width);
    copy_or_cast(context, part, target.sliced(1, static_cast<int64_t>(i) * width, width));
  }
}

void partial_concat_grad(Context context, InputList parts, Input dout, int start, int length, OutputList dparts) {
  const View gradient = dout.view();
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!dparts[i]) continue;
    const View target = context.allocate(dparts[i], gradient.dtype);
    const int64_t begin = from_front(start, static_cast<int>(target.shape[1]));
    const int64_t width = length < 0 ? target.shape[1] - begin : length;
    fill_zero(context, target);
    const View part = gradient.sliced(1, static_cast<int64_t>(i) * width, width);
    copy_or_cast(context, part, target.sliced(1, begin, width));
  }
}

void reverse(Context context, Input x, Integers axes, Output out) {
  View in = x.view();
  const View target = context.allocate(out, in.dtype);
  if (target.elements() == 0) return;
  for (const int64_t axis : axes) {
    const int i = from_front(axis, in.rank);
    in = in.sliced(i, in.shape[i] - 1, in.shape[i], -1);
  }
  copy_or_cast(context, in, target);
}

}  // namespace

KernelTable place_kernels() {
  return {
      UNIHAL_KERNEL("partial_concat", kWideFloats | kInt32And64 | kComplex, partial_concat),
      UNIHAL_KERNEL("partial_concat_grad", kWideFloats | kInt32And64 | kComplex, partial_concat_grad),
      UNIHAL_KERNEL("repeat_interleave_with_tensor_index", kFloats | kInt32And64, repeat_interleave),
      UNIHAL_KERNEL("repeat_interleave_with_tensor_index_grad", kFloats | kInt32And64, repeat_interleave_grad),
      UNIHAL_KERNEL("reverse", kEvery, reverse),
      UNIHAL_KERNEL("sequence_mask", kWideFloats | kInt32And64, sequence_mask),
      UNIHAL_KERNEL("sequence_mask_scalar", kWideFloats | kInt32And64, sequence_mask_scalar),
      UNIHAL_KERNEL("shard_index", kInt32And64, shard_index),
      UNIHAL_KERNEL("tril_indices", kInt32And64, triangle_indices<false>),
      UNIHAL_KERNEL("triu_indices", kInt32And64, triangle_indices<true>),
      UNIHAL_KERNEL("unpool", kWideFloats | kInt32And64, unpool),
      UNIHAL_KERNEL("unpool_grad", kWideFloats | kInt32And64, unpool_grad),
      UNIHAL_KERNEL("unpool3d", kWideFloats | kInt32And64, unpool3d),
      UNIHAL_KERNEL("unpool3d_grad", kWideFloats | kInt32And64, unpool3d_grad),
  };
}

}  // namespace unihal::paddle
