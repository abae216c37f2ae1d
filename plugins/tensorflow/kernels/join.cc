// Joining tensors into one and splitting one into several.
#include "plugins/tensorflow/registrar.h"

namespace unihal::tensorflow {
namespace {

// Stacks the inputs along a new axis.
class Pack : public MovementKernel {
 public:
  explicit Pack(Construction& construction) : MovementKernel(construction), axis_(construction.integer("axis")) {}

  void move(Context& context) const override {
    const View first = context.input(0);
    if (!context.ok()) return;
    const int axis = checked_axis(context, axis_, first.rank + 1);
    if (!context.ok()) return;
    Shape shape = shape_of(first);
    shape.insert(shape.begin() + axis, context.input_count());
    const View output = context.output(0, first.dtype, shape);
    context.in_launch_group([&] {
      for (int i = 0; context.ok() && i < context.input_count(); ++i) {
        const View part = context.input(i);
        if (!context.ok()) return;
        if (shape_of(part) != shape_of(first)) {
          return context.fail_invalid("Pack: shapes of all inputs must match: values[0].shape = " + to_text(first) +
                                      " != values[" + std::to_string(i) + "].shape = " + to_text(part));
        }
        if (part.elements() > 0) context.copy(part.unsqueezed(axis), output.sliced(axis, i, 1));
      }
    });
  }

 private:
  int64_t axis_;
};

// The inverse of Pack.
class Unpack : public MovementKernel {
 public:
  explicit Unpack(Construction& construction)
      : MovementKernel(construction), axis_(construction.integer("axis")), count_(construction.integer("num")) {}

  void move(Context& context) const override {
    const View input = context.input(0);
    if (!context.ok()) return;
    const int axis = checked_axis(context, axis_, input.rank);
    if (!context.ok()) return;
    if (input.shape[axis] != count_) {
      return context.fail_invalid("Unpack: axis " + std::to_string(axis) + " of shape " + to_text(input) +
                                  " must have length " + std::to_string(count_));
    }
    Shape shape = shape_of(input);
    shape.erase(shape.begin() + axis);
    context.in_launch_group([&] {
      for (int i = 0; context.ok() && i < count_; ++i) {
        const View output = context.output(i, input.dtype, shape);
        if (context.ok() && output.elements() > 0) context.copy(input.sliced(axis, i, 1), output.unsqueezed(axis));
      }
    });
  }

 private:
  int64_t axis_;
  int64_t count_;
};

// ConcatV2 takes the axis last, Concat first.
template <bool kAxisFirst>
class Concat : public MovementKernel {
 public:
  using MovementKernel::MovementKernel;

  void move(Context& context) const override {
    const int count = context.input_count() - 1;
    const int begin = kAxisFirst ? 1 : 0;
    const int64_t given = context.host_integer(kAxisFirst ? 0 : count, 1);
    const View first = context.input(begin);
    if (!context.ok()) return;
    const int axis = checked_axis(context, given, first.rank);
    if (!context.ok()) return;
    Shape shape = shape_of(first);
    shape[static_cast<size_t>(axis)] = 0;
    for (int i = begin; i < begin + count; ++i) {
      const View part = context.input(i);
      if (!context.ok()) return;
      bool fits = part.rank == first.rank;
      for (int d = 0; fits && d < part.rank; ++d) fits = d == axis || part.shape[d] == first.shape[d];
      if (!fits) {
        return context.fail_invalid(std::string(op()) +
                                    ": Dimensions of inputs should match: shape[0] = " + to_text(first) +
                                    " vs. shape[" + std::to_string(i - begin) + "] = " + to_text(part));
      }
      shape[static_cast<size_t>(axis)] += part.shape[axis];
    }
    const View output = context.output(0, first.dtype, shape);
    context.in_launch_group([&] {
      int64_t offset = 0;
      for (int i = begin; context.ok() && i < begin + count; ++i) {
        const View part = context.input(i);
        if (part.elements() > 0) context.copy(part, output.sliced(axis, offset, part.shape[axis]));
        offset += part.shape[axis];
      }
    });
  }
};

// Split(axis, value) into equal parts; SplitV(value, sizes, axis), where one size may be -1.
template <bool kEqual>
class Split : public MovementKernel {
 public:
  explicit Split(Construction& construction)
      : MovementKernel(construction), count_(construction.integer("num_split")) {}

  void move(Context& context) const override {
    const View input = context.input(kEqual ? 1 : 0);
    const int64_t given = context.host_integer(kEqual ? 0 : 2, kEqual ? 0 : kAnyRank);
    Shape sizes;
    if (!kEqual) sizes = context.host_vector(1);
    if (!context.ok()) return;
    const int axis = checked_axis(context, given, input.rank);
    if (!context.ok() || !complete(context, input.shape[axis], &sizes)) return;
    context.in_launch_group([&] {
      int64_t offset = 0;
      Shape shape = shape_of(input);
      for (int i = 0; context.ok() && i < count_; ++i) {
        const int64_t length = sizes[static_cast<size_t>(i)];
        shape[static_cast<size_t>(axis)] = length;
        const View output = context.output(i, input.dtype, shape);
        if (context.ok() && output.elements() > 0) context.copy(input.sliced(axis, offset, length), output);
        offset += length;
      }
    });
  }

 private:
  static constexpr int kAnyRank = 254;  // SplitV takes an axis of any shape that has one element

  // Makes `sizes` the lengths of the parts of an axis.
  bool complete(Context& context, int64_t length, Shape* sizes) const {
    if (kEqual) {
      if (count_ > 0 && length % count_ == 0) {
        sizes->assign(static_cast<size_t>(count_), length / count_);
        return true;
      }
      context.fail_invalid("Split: Number of ways to split should evenly divide the split dimension, but got " +
                           std::to_string(count_) + " ways and length " + std::to_string(length));
      return false;
    }
    int64_t known = 0;
    int64_t* open = nullptr;
    for (int64_t& size : *sizes) {
      if (size == -1 && open == nullptr) {
        open = &size;
      } else {
        known = size < 0 ? length + 1 : known + size;  // a second open or a negative size fits nowhere
      }
    }
    if (open != nullptr && known <= length) *open = length - known;
    if (static_cast<int64_t>(sizes->size()) == count_ && (open != nullptr ? known <= length : known == length))
      return true;
    context.fail_invalid("SplitV: sizes " + to_text(sizes->data(), static_cast<int>(sizes->size())) +
                         " do not add up to the axis' length " + std::to_string(length));
    return false;
  }

  int64_t count_;
};

// _ParallelConcatStart(): memory for what _ParallelConcatUpdate(value, update) writes one row each of. The pair is what
// TensorFlow makes of tf.parallel_stack.
class ParallelConcatStart : public Kernel {
 public:
  explicit ParallelConcatStart(Construction& construction)
      : Kernel(construction), dtype_(construction.dtype("dtype")), shape_(construction.shape("shape")) {}
  void compute(Context& context) const override { context.output(0, dtype_, shape_); }

 private:
  uhal_dtype dtype_;
  Shape shape_;
};

class ParallelConcatUpdate : public Kernel {
 public:
  explicit ParallelConcatUpdate(Construction& construction) : Kernel(construction), row_(construction.integer("loc")) {}
  void compute(Context& context) const override {
    const View value = context.input(0);
    const View update = context.input(1);
    if (!context.ok()) return;
    Shape row = shape_of(value);
    if (!row.empty()) row[0] = 1;
    if (value.rank == 0 || row_ < 0 || row_ >= value.shape[0] || shape_of(update) != row) {
      return context.fail_invalid("_ParallelConcatUpdate: the update has shape " + to_text(update) + " for row " +
                                  std::to_string(row_) + " of " + to_text(value));
    }
    // All updates are given the same memory, and give it on.
    if (update.elements() > 0) context.copy(update, value.sliced(0, row_, 1));
    context.share(0, 0, value);
  }

 private:
  int64_t row_;
};

}  // namespace

void register_join(Registrar& registrar) {
  registrar.add_movement<Pack>("Pack", kAll, {"values", "output"});
  registrar.add_movement<Unpack>("Unpack", without_int32(kAll), {"value", "output"});
  registrar.add_movement<Concat<true>>("Concat", without_int32(kAll), {"values", "output"}, {"concat_dim"});
  registrar.add_movement<Concat<false>>("ConcatV2", without_int32(kAll), {"values", "output"}, {"axis"});
  registrar.add_movement<Split<true>>("Split", kAll, {"value", "output"}, {"split_dim"});
  registrar.add_movement<Split<false>>("SplitV", kAll, {"value", "output"}, {"size_splits", "split_dim"});
  registrar.add<ParallelConcatStart>("_ParallelConcatStart", {{"dtype", kAll}});
  registrar.add<ParallelConcatUpdate>("_ParallelConcatUpdate", {{"T", kAll}});
}

}  // namespace unihal::tensorflow
