// Data movement, casts and constants: each output element is one input element, or a given value.
#include <cmath>

#include "plugins/tensorflow/registrar.h"

namespace unihal::tensorflow {
namespace {

class Transpose : public MovementKernel {
 public:
  using MovementKernel::MovementKernel;
  void move(Context& context) const override {
    const View input = context.input(0);
    const Shape order = context.host_integers(1);
    if (!context.ok()) return;
    bool seen[UHAL_MAX_RANK] = {};
    int axes[UHAL_MAX_RANK] = {};
    bool is_permutation = static_cast<int>(order.size()) == input.rank;
    for (int i = 0; is_permutation && i < input.rank; ++i) {
      axes[i] = checked_axis(context, order[static_cast<size_t>(i)], input.rank);
      is_permutation = !seen[axes[i]];
      seen[axes[i]] = true;
    }
    if (!is_permutation) {
      return context.fail_invalid("Transpose: perm " + to_text(order.data(), static_cast<int>(order.size())) +
                                  " is not a permutation of the axes of shape " + to_text(input));
    }
    const View permuted = input.permuted(axes, input.rank);
    context.copy(permuted, context.output_like(0, permuted));
  }
};

class Cast : public Kernel {
 public:
  explicit Cast(Construction& construction) : Kernel(construction), dtype_(construction.dtype("DstT")) {}
  void compute(Context& context) const override {
    const View input = context.input(0);
    if (!context.ok()) return;
    if (input.dtype == dtype_) return context.share(0, 0, input);
    context.cast(input, context.output(0, dtype_, input.shape, input.rank));
  }

 private:
  uhal_dtype dtype_;
};

// Fill(dims, value): the value is in host memory, so it can be an attribute of the op.
class Fill : public Kernel {
 public:
  using Kernel::Kernel;
  void compute(Context& context) const override {
    const Shape dims = context.host_integers(0);
    const View value = context.input(1);
    if (!context.ok()) return;
    for (int64_t dim : dims) {
      if (dim < 0)
        return context.fail_invalid("Fill: dims " + to_text(dims.data(), static_cast<int>(dims.size())) +
                                    " has a negative entry");
    }
    const View output = context.output(0, value.dtype, dims);
    if (!context.ok() || output.elements() == 0) return;
    const int64_t bytes = output.elements() * static_cast<int64_t>(uhal_dtype_size(value.dtype));
    context.check(uhal_memory_fill(context.stream(), output.data, value.data, uhal_dtype_size(value.dtype),
                                   static_cast<size_t>(bytes)));
  }
};

// Range(start, limit, delta), all in host memory.
class Range : public Kernel {
 public:
  explicit Range(Construction& construction) : Kernel(construction), dtype_(construction.dtype("Tidx")) {}
  void compute(Context& context) const override {
    uhal_iota_attributes attributes = {};
    attributes.struct_size = sizeof attributes;
    double count = 0;
    if (dtype_ == UHAL_INT64) {
      const int64_t start = context.host_integer(0);
      const int64_t limit = context.host_integer(1);
      const int64_t step = context.host_integer(2);
      if (!check(context, start<limit, start> limit, static_cast<double>(step))) return;
      const int64_t span = step > 0 ? limit - start : start - limit;
      const int64_t magnitude = step > 0 ? step : -step;
      attributes.integer_start = start;
      attributes.integer_step = step;
      count = static_cast<double>((span + magnitude - 1) / magnitude);
    } else {
      const double start = context.host_real(0);
      const double limit = context.host_real(1);
      const double step = context.host_real(2);
      if (!check(context, start<limit, start> limit, step)) return;
      attributes.start = start;
      attributes.step = step;
      count = std::ceil(std::abs((limit - start) / step));
    }
    const View output = context.output(0, dtype_, {static_cast<int64_t>(count)});
    if (context.ok() && output.elements() > 0) context.launch(UHAL_OP_IOTA, {}, {&output}, &attributes);
  }

 private:
  static bool check(Context& context, bool rises, bool falls, double step) {
    if (context.ok() && (step == 0 || (rises && step < 0) || (falls && step > 0))) {
      context.fail_invalid("Range: delta must be non-zero and lead from start to limit, got " + std::to_string(step));
    }
    return context.ok();
  }

  uhal_dtype dtype_;
};

template <int kValue>
class FillLike : public Kernel {
 public:
  using Kernel::Kernel;
  void compute(Context& context) const override {
    context.fill(context.output_like(0, context.input(0)), kValue, kValue);
  }
};

// Snapshot, and others that give their input on.
class Share : public Kernel {
 public:
  using Kernel::Kernel;
  void compute(Context& context) const override { context.share(0, 0, context.input(0)); }
};

// Bitcast: between dtypes of different sizes the last axis comes or goes.
class Bitcast : public Kernel {
 public:
  explicit Bitcast(Construction& construction) : Kernel(construction), dtype_(construction.dtype("type")) {}
  void compute(Context& context) const override {
    const View input = context.input(0);
    if (!context.ok()) return;
    const auto from = static_cast<int64_t>(uhal_dtype_size(input.dtype));
    const auto to = static_cast<int64_t>(uhal_dtype_size(dtype_));
    Shape shape = shape_of(input);
    if (from > to) {
      shape.push_back(from / to);
    } else if (from < to) {
      if (shape.empty() || shape.back() != to / from) {
        return context.fail_invalid("Bitcast: the last axis of shape " + to_text(input) + " must have length " +
                                    std::to_string(to / from));
      }
      shape.pop_back();
    }
    context.share(0, 0, dtype_, shape.data(), static_cast<int>(shape.size()));
  }

 private:
  uhal_dtype dtype_;
};

class BroadcastTo : public MovementKernel {
 public:
  using MovementKernel::MovementKernel;
  void move(Context& context) const override {
    const View input = context.input(0);
    const Shape shape = context.host_integers(1);
    if (!context.ok()) return;
    Shape joint;
    if (!broadcast_shape(input, View(nullptr, input.dtype, shape), &joint) || joint != shape) {
      return context.fail_invalid("BroadcastTo: Incompatible shapes: " + to_text(input) + " vs. " +
                                  to_text(shape.data(), static_cast<int>(shape.size())));
    }
    context.copy(input, context.output(0, input.dtype, shape));
  }
};

// Tile: an axis repeated m times is an axis of length m, along which the input broadcasts, before it.
class Tile : public MovementKernel {
 public:
  using MovementKernel::MovementKernel;
  void move(Context& context) const override {
    const View input = context.input(0);
    const Shape multiples = context.host_integers(1);
    if (!context.ok()) return;
    if (static_cast<int>(multiples.size()) != input.rank) {
      return context.fail_invalid("Tile: multiples must have one entry per axis of shape " + to_text(input));
    }
    View source = input;
    Shape shape;
    Shape split;
    for (int i = 0; i < input.rank; ++i) {
      const int64_t times = multiples[static_cast<size_t>(i)];
      if (times < 0) return context.fail_invalid("Tile: multiples must not be negative, got " + std::to_string(times));
      if (times != 1) {
        if (static_cast<int>(split.size()) + input.rank - i >= UHAL_MAX_RANK) {
          return context.fail(TF_UNIMPLEMENTED, "Tile: too many repeated axes in shape " + to_text(input));
        }
        source = source.unsqueezed(static_cast<int>(split.size()));
        split.push_back(times);
      }
      split.push_back(input.shape[i]);
      shape.push_back(times * input.shape[i]);
    }
    const View output = context.output(0, input.dtype, shape);
    if (context.ok() && output.elements() > 0) context.copy(source, output.reshaped(split));
  }
};

class Reverse : public MovementKernel {
 public:
  using MovementKernel::MovementKernel;
  void move(Context& context) const override {
    const View input = context.input(0);
    View reversed = input;
    for (int64_t given : context.host_integers(1)) {
      const int axis = checked_axis(context, given, input.rank);
      const int64_t length = input.shape[axis];
      if (length > 1) reversed = reversed.sliced(axis, length - 1, length, -1);
    }
    const View output = context.output_like(0, input);
    if (context.ok() && output.elements() > 0) context.copy(reversed, output);
  }
};

// MatrixBandPart(input, lower, upper): a negative count keeps the whole triangle.
class MatrixBandPart : public Kernel {
 public:
  using Kernel::Kernel;
  void compute(Context& context) const override {
    const View input = context.input(0);
    const int64_t lower = context.host_integer(1);
    const int64_t upper = context.host_integer(2);
    const View output = context.output_like(0, input);
    if (!context.ok()) return;
    const View* source = &input;
    if (upper >= 0) {
      const uhal_triangular_attributes attributes = {sizeof attributes, 0, 0, upper};
      context.launch(UHAL_OP_TRIANGULAR, {source}, {&output}, &attributes);
      source = &output;
    }
    if (lower >= 0) {
      const uhal_triangular_attributes attributes = {sizeof attributes, 1, 0, -lower};
      context.launch(UHAL_OP_TRIANGULAR, {source}, {&output}, &attributes);
      source = &output;
    }
    if (source == &input) context.copy(input, output);
  }
};

}  // namespace

void register_array(Registrar& registrar) {
  registrar.add_movement<Transpose>("Transpose", kAll, {"x", "y"}, {"perm"});
  registrar.add<Cast>("Cast", {{"SrcT", kAll}, {"DstT", kAll}});
  registrar.add<Fill>("Fill", {{"T", without_int32(kAll)}}, {"dims", "value"});
  registrar.add<Fill>("Fill", {{"T", kInt32}, {"index_type", only(UHAL_INT64)}}, {"dims", "value"});
  registrar.add<Range>("Range", {{"Tidx", only(UHAL_INT64) | only(UHAL_FLOAT32) | only(UHAL_FLOAT64)}},
                       {"start", "limit", "delta"});
  registrar.add<FillLike<0>>("ZerosLike", {{"T", without_int32(kAll)}});
  registrar.add<FillLike<1>>("OnesLike", {{"T", without_int32(kAll)}});
  registrar.add<Share>("Snapshot", {{"T", kAll}});
  registrar.add<Bitcast>("Bitcast", {{"T", kAll & ~kBool}});
  registrar.add_movement<BroadcastTo>("BroadcastTo", kAll, {"input", "output"}, {"shape"});
  registrar.add_movement<Tile>("Tile", kAll, {"input", "output"}, {"multiples"});
  registrar.add_movement<Reverse>("ReverseV2", kAll, {"tensor", "output"}, {"axis"});
  registrar.add<MatrixBandPart>("MatrixBandPart", {{"T", kReal}}, {"num_lower", "num_upper"});
}

}  // namespace unihal::tensorflow
