// Slices, their gradients, and padding.
#include <algorithm>

#include "plugins/tensorflow/kernels/strided_slice.h"
#include "plugins/tensorflow/registrar.h"

namespace unihal::tensorflow {
namespace {

// Whether a part of a view is all of it, as it lies: that needs no copy.
bool is_whole(const View& part, const View& whole) {
  return part.data == whole.data && shape_of(part) == shape_of(whole) &&
         std::equal(part.strides, part.strides + part.rank, whole.strides);
}

// Slice(input, begin, size), where a size of -1 means the rest.
class Slice : public MovementKernel {
 public:
  using MovementKernel::MovementKernel;
  void move(Context& context) const override {
    const View input = context.input(0);
    const Shape begin = context.host_vector(1);
    Shape size = context.host_vector(2);
    if (!context.ok()) return;
    bool fits = static_cast<int>(begin.size()) == input.rank && static_cast<int>(size.size()) == input.rank;
    View part = input;
    for (int i = 0; fits && i < input.rank; ++i) {
      const int64_t start = begin[static_cast<size_t>(i)];
      int64_t& length = size[static_cast<size_t>(i)];
      if (length == -1) length = input.shape[i] - start;
      fits = start >= 0 && length >= 0 && start <= input.shape[i] && length <= input.shape[i] - start;
      if (fits) part = part.sliced(i, start, length);
    }
    if (!fits) {
      return context.fail_invalid("Slice: begin " + to_text(begin.data(), static_cast<int>(begin.size())) +
                                  " and size " + to_text(size.data(), static_cast<int>(size.size())) +
                                  " reach outside shape " + to_text(input));
    }
    if (is_whole(part, input)) return context.share(0, 0, input);
    const View output = context.output(0, input.dtype, size);
    if (context.ok() && output.elements() > 0) context.copy(part, output);
  }
};

class StridedSliceKernel : public MovementKernel {
 public:
  explicit StridedSliceKernel(Construction& construction) : MovementKernel(construction), slice_(construction) {}
  void move(Context& context) const override {
    const View input = context.input(0);
    View part;
    Shape shape;
    if (!context.ok() || !slice_.select(context, 1, input, &part, &shape)) return;
    if (is_whole(part, input)) return context.share(0, 0, to_tensorflow(input.dtype), shape);
    const View output = context.output(0, input.dtype, shape);
    if (context.ok() && output.elements() > 0) context.copy(part, output.reshaped(part.shape, part.rank));
  }

 private:
  StridedSlice slice_;
};

// (shape, begin, end, strides, gradient): the gradient in its place, zeros elsewhere.
class StridedSliceGrad : public MovementKernel {
 public:
  explicit StridedSliceGrad(Construction& construction) : MovementKernel(construction), slice_(construction) {}
  void move(Context& context) const override {
    const Shape whole = context.host_vector(0);
    const View gradient = context.input(4);
    const View output = context.output(0, gradient.dtype, whole);
    View part;
    Shape shape;
    if (!context.ok() || !slice_.select(context, 1, output, &part, &shape)) return;
    if (shape != shape_of(gradient)) {
      return context.fail_invalid("StridedSliceGrad: the gradient has shape " + to_text(gradient) + ", the slice " +
                                  to_text(shape.data(), static_cast<int>(shape.size())));
    }
    if (output.elements() == 0) return;
    context.zero(output);
    if (gradient.elements() > 0) context.copy(gradient.reshaped(part.shape, part.rank), part);
  }

 private:
  StridedSlice slice_;
};

// Pad(input, paddings), PadV2(input, paddings, value).
template <bool kHasValue>
class Pad : public MovementKernel {
 public:
  using MovementKernel::MovementKernel;
  void move(Context& context) const override {
    const View input = context.input(0);
    const View given = context.input(1);
    const Shape paddings = context.host_integers(1);
    if (!context.ok()) return;
    if (given.rank != 2 || given.shape[0] != input.rank || given.shape[1] != 2) {
      return context.fail_invalid(std::string(op()) + ": paddings must have shape [" + std::to_string(input.rank) +
                                  ",2], got " + to_text(given));
    }
    Shape shape;
    for (int i = 0; i < input.rank; ++i) {
      const int64_t before = paddings[static_cast<size_t>(2 * i)];
      const int64_t after = paddings[static_cast<size_t>(2 * i + 1)];
      if (before < 0 || after < 0) return context.fail_invalid(std::string(op()) + ": Paddings must be non-negative");
      int64_t length = 0;
      if (__builtin_add_overflow(before, input.shape[i], &length) || __builtin_add_overflow(length, after, &length)) {
        length = -1;
      }
      shape.push_back(length);
    }
    const View value = kHasValue ? context.input(2) : View();
    if (value.rank != 0) context.fail_invalid("PadV2: constant_values must be a scalar, got shape " + to_text(value));
    const View output = context.output(0, input.dtype, shape);
    if (!context.ok() || output.elements() == 0) return;
    if (kHasValue) {
      context.copy(value, output);
    } else {
      context.zero(output);
    }
    View middle = output;
    for (int i = 0; i < input.rank; ++i)
      middle = middle.sliced(i, paddings[static_cast<size_t>(2 * i)], input.shape[i]);
    if (input.elements() > 0) context.copy(input, middle);
  }
};

// XlaDynamicUpdateSlice(input, update, indices): the input with the update at a place, which is moved inside where it
// reaches beyond the input. It needs no XLA: keras.ops.slice_update is made of it.
class DynamicUpdateSlice : public Kernel {
 public:
  using Kernel::Kernel;
  void compute(Context& context) const override {
    const View input = context.input(0);
    const View update = context.input(1);
    const Shape start = context.host_vector(2);
    if (!context.ok()) return;
    bool fits = update.rank == input.rank && static_cast<int>(start.size()) == input.rank;
    for (int i = 0; fits && i < input.rank; ++i) fits = update.shape[i] <= input.shape[i];
    if (!fits) {
      return context.fail_invalid(std::string(op()) + ": an update of shape " + to_text(update) + " at " +
                                  to_text(start) + " does not fit an input of shape " + to_text(input));
    }
    const int candidate = 0;
    const View output = context.forwarded_output(0, input.dtype, input.shape, input.rank, &candidate, 1);
    if (!context.ok() || output.elements() == 0) return;
    if (output.data != input.data) context.copy(input, output);
    View part = output;
    for (int i = 0; i < input.rank; ++i) {
      const int64_t last = input.shape[i] - update.shape[i];
      part = part.sliced(i, std::clamp<int64_t>(start[static_cast<size_t>(i)], 0, last), update.shape[i]);
    }
    if (update.elements() > 0) context.copy(update, part);
  }
};

}  // namespace

void register_slice(Registrar& registrar) {
  registrar.add_movement<Slice>("Slice", without_int32(kAll), {"input", "output"}, {"begin", "size"});
  registrar.add_movement<StridedSliceKernel>("StridedSlice", kAll, {"input", "output"}, {"begin", "end", "strides"});
  registrar.add_movement<StridedSliceGrad>("StridedSliceGrad", kAll, {"dy", "output"},
                                           {"shape", "begin", "end", "strides"});
  registrar.add_movement<Pad<false>>("Pad", kAll, {"input", "output"}, {"paddings"});
  registrar.add_movement<Pad<true>>("PadV2", kAll, {"input", "constant_values", "output"}, {"paddings"});
  registrar.add<DynamicUpdateSlice>("XlaDynamicUpdateSlice", {{"T", kAll}, {"Tindices", kIndices}}, {"indices"});
}

}  // namespace unihal::tensorflow
