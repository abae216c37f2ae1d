// Data movement, casts and constants: each output element is one input element, or a given value.
#include <algorithm>
#include <cmath>
#include <utility>

#include "plugins/tensorflow/kernels/number.h"
#include "plugins/tensorflow/registrar.h"

namespace unihal::tensorflow {
namespace {

class Transpose : public MovementKernel {
 public:
  using MovementKernel::MovementKernel;
  void move(Context& context) const override {
    const View input = context.input(0);
    const Shape order = context.host_vector(1);
    if (!context.ok()) return;
    bool seen[UHAL_MAX_RANK] = {};
    int axes[UHAL_MAX_RANK] = {};
    bool is_permutation = static_cast<int>(order.size()) == input.rank;
    for (int i = 0; is_permutation && i < input.rank; ++i) {
      axes[i] = checked_axis(context, order[static_cast<size_t>(i)], input.rank);
      if (!context.ok()) return;
      is_permutation = !seen[axes[i]];
      seen[axes[i]] = true;
    }
    if (!is_permutation) {
      return context.fail_invalid("Transpose: perm " + to_text(order.data(), static_cast<int>(order.size())) +
                                  " is not a permutation of the axes of shape " + to_text(input));
    }
    const View permuted = input.permuted(axes, input.rank);
    write(context, permuted, context.output_like(0, permuted));
  }

 protected:
  virtual void write(Context& context, const View& permuted, const View& output) const {
    context.copy(permuted, output);
  }
};

class Cast : public Kernel {
 public:
  explicit Cast(Construction& construction) : Kernel(construction), dtype_(construction.dtype("DstT")) {}
  Merging merging() const override { return Merging::kSameShape; }
  void compute(Context& context) const override {
    const View input = context.input(0);
    if (!context.ok()) return;
    if (input.dtype == dtype_) return context.share(0, 0, input);
    context.cast(input, context.output(0, dtype_, input.shape, input.rank));
  }

 private:
  uhal_dtype dtype_;
};

// _EagerConst(input): what eager mode makes of a list or an array of the host, which lies in host memory here.
// TensorFlow's kernel has it brought to the device before: by a copy whose end a thread polls, ten times as long for a
// few numbers.
class EagerConstant : public Kernel {
 public:
  using Kernel::Kernel;
  void compute(Context& context) const override {
    const Shape shape = context.dims(0);
    const View input = context.flat_input(0);
    if (!context.ok()) return;
    const View output = context.flat_output(0, input.dtype, shape);
    const size_t bytes = static_cast<size_t>(input.elements()) * uhal_dtype_size(input.dtype);
    uhal_stream* stream = context.ok() && bytes > 0 ? context.stream() : nullptr;
    if (stream == nullptr) return;
    const auto* data = static_cast<const char*>(input.data);
    if (bytes <= kKept) {
      context.upload(std::vector<char>(data, data + bytes), output);
      return;
    }
    // The memory may be an array's that its owner writes to next.
    if (context.check(uhal_copy(stream, output.data, data, bytes, UHAL_COPY_HOST_TO_DEVICE))) {
      context.check(uhal_stream_synchronize(stream));
    }
  }

 private:
  // Bytes of which a copy is kept rather than waited for.
  static constexpr size_t kKept = size_t{1} << 16;
};

// Fill(dims, value): a value of int32 is in host memory; others are read where they are, without a wait.
class Fill : public Kernel {
 public:
  using Kernel::Kernel;
  void compute(Context& context) const override {
    const Shape axes = context.dims(0);
    const Shape dims = context.host_integers(0);
    const View value = context.input(1);
    if (!context.ok()) return;
    if (axes.size() > 1) return context.fail_invalid("Fill: dims must be a vector, got shape " + to_text(axes));
    if (value.elements() != 1 || value.rank > 1) {
      return context.fail_invalid("Fill: value must be a scalar, got shape " + to_text(value));
    }
    const View output = context.flat_output(0, value.dtype, dims);
    if (!context.ok() || output.elements() == 0) return;
    if (value.dtype != UHAL_INT32) {
      context.copy(value.reshaped({1}), output);
      return;
    }
    const int64_t bytes = output.elements() * static_cast<int64_t>(uhal_dtype_size(value.dtype));
    context.check(uhal_memory_fill(context.stream(), output.data, value.data, uhal_dtype_size(value.dtype),
                                   static_cast<size_t>(bytes)));
  }
};

// Range(start, limit, delta): what they are is read from the device.
class Range : public Kernel {
 public:
  explicit Range(Construction& construction) : Kernel(construction), dtype_(construction.dtype("Tidx")) {}
  void compute(Context& context) const override {
    uhal_iota_attributes attributes = {};
    attributes.struct_size = sizeof attributes;
    double count = 0;
    std::vector<View> numbers;
    for (int i = 0; i < 3; ++i) {
      numbers.push_back(context.input(i));
      if (!context.ok()) return;
      if (numbers.back().rank > 1 || numbers.back().elements() != 1) {
        return context.fail_invalid("Range: start, limit and delta must be scalars, got shape " +
                                    to_text(numbers.back()));
      }
    }
    if (dtype_ == UHAL_INT64) {
      const Shape given = read_integers(context, numbers);
      if (!context.ok()) return;
      const int64_t start = given[0], limit = given[1], step = given[2];
      if (!check(context, start<limit, start> limit, static_cast<double>(step))) return;
      // Differences of int64 need 64 bits without a sign.
      const auto first = static_cast<uint64_t>(start);
      const auto last = static_cast<uint64_t>(limit);
      const auto stride = static_cast<uint64_t>(step);
      const uint64_t span = step > 0 ? last - first : first - last;
      const uint64_t magnitude = step > 0 ? stride : 0 - stride;
      attributes.integer_start = start;
      attributes.integer_step = step;
      count = static_cast<double>(span / magnitude + (span % magnitude != 0));
    } else {
      const std::vector<double> given = read_reals(context, numbers);
      if (!context.ok()) return;
      const double start = given[0], limit = given[1], step = given[2];
      if (!check(context, start<limit, start> limit, step)) return;
      attributes.start = start;
      attributes.step = step;
      // In the type, as the CPU: 1 / 0.0001f is 10000.0003, which float32 has not.
      count = std::ceil(std::abs(rounded(rounded(limit - start) / step)));
    }
    if (!context.ok()) return;
    if (!(count < 0x1p63)) {  // NaN too
      return context.fail_invalid("Range: " + std::to_string(count) + " values are more than a tensor can have");
    }
    const View output = context.output(0, dtype_, {static_cast<int64_t>(count)});
    if (context.ok() && output.elements() > 0) context.launch(UHAL_OP_IOTA, {}, {&output}, &attributes);
  }

 private:
  // To the digits of the type.
  double rounded(double value) const {
    const int digits = dtype_ == UHAL_FLOAT64 ? 53 : dtype_ == UHAL_FLOAT32 ? 24 : dtype_ == UHAL_FLOAT16 ? 11 : 8;
    int exponent = 0;
    const double fraction = std::frexp(value, &exponent);
    return std::ldexp(std::nearbyint(std::ldexp(fraction, digits)), exponent - digits);
  }
  static bool check(Context& context, bool rises, bool falls, double step) {
    if (context.ok() && (step == 0 || (rises && step < 0) || (falls && step > 0))) {
      context.fail_invalid("Range: delta must be non-zero and lead from start to limit, got " + std::to_string(step));
    }
    return context.ok();
  }

  uhal_dtype dtype_;
};

template <int kValue>
class FillLike : public MovementKernel {
 public:
  using MovementKernel::MovementKernel;
  Merging merging() const override { return Merging::kSameShape; }
  void move(Context& context) const override { context.fill(context.output_like(0, context.input(0)), kValue, kValue); }
};

// Snapshot, and others that give their input on.
class Share : public Kernel {
 public:
  using Kernel::Kernel;
  Merging merging() const override { return Merging::kSameShape; }
  void compute(Context& context) const override { context.share(0, 0, context.input(0)); }
};

// Bitcast: between dtypes of different sizes the last axis comes or goes.
class Bitcast : public Kernel {
 public:
  explicit Bitcast(Construction& construction) : Kernel(construction), type_(construction.type("type")) {}
  void compute(Context& context) const override {
    const View input = context.flat_input(0);
    Shape shape = context.dims(0);
    if (!context.ok()) return;
    const auto from = static_cast<int64_t>(uhal_dtype_size(input.dtype));
    const auto to = static_cast<int64_t>(TF_DataTypeSize(type_));  // may be a quantized type, which unihal has not
    if (from > to) {
      shape.push_back(from / to);
    } else if (from < to) {
      if (shape.empty() || shape.back() != to / from) {
        return context.fail_invalid("Bitcast: the last axis of shape " + to_text(shape) + " must have length " +
                                    std::to_string(to / from));
      }
      shape.pop_back();
    }
    context.share(0, 0, type_, shape);
  }

 private:
  TF_DataType type_;
};

class BroadcastTo : public MovementKernel {
 public:
  using MovementKernel::MovementKernel;
  void move(Context& context) const override {
    const View input = context.input(0);
    const Shape shape = context.host_vector(1);
    if (!context.ok()) return;
    Shape joint;
    if (!broadcast_shape(shape_of(input), shape, &joint) || joint != shape) {
      return context.fail_invalid("BroadcastTo: Incompatible shapes: " + to_text(input) + " vs. " +
                                  to_text(shape.data(), static_cast<int>(shape.size())));
    }
    context.copy(input, context.output(0, input.dtype, shape));
  }
};

// Tile: an axis repeated m times is an axis of length m, along which the input broadcasts, before it. What is not
// repeated joins the axis before it; and where that still leaves too many axes, the rightmost are repeated first.
class Tile : public MovementKernel {
 public:
  using MovementKernel::MovementKernel;
  void move(Context& context) const override {
    const Shape input = context.dims(0);
    const Shape multiples = context.host_vector(1);
    View source = context.flat_input(0);
    if (!context.ok()) return;
    if (multiples.size() != input.size()) {
      return context.fail_invalid("Tile: multiples must have one entry per axis of shape " + to_text(input));
    }
    std::vector<Repeated> axes = {{1, 1}};
    Shape shape;
    for (size_t i = 0; i < input.size(); ++i) {
      if (multiples[i] < 0)
        return context.fail_invalid("Tile: multiples must not be negative, got " + std::to_string(multiples[i]));
      if (multiples[i] == 1) {
        axes.back().length *= input[i];
      } else {
        axes.push_back({multiples[i], input[i]});
      }
      int64_t length = 0;
      if (__builtin_mul_overflow(multiples[i], input[i], &length)) length = -1;
      shape.push_back(length);
    }
    const View output = context.flat_output(0, source.dtype, shape);
    if (!context.ok() || output.elements() == 0) return;
    int64_t tail = 1;  // elements of what has been repeated, to the right
    while (axes.size() > kAxesAtOnce) {
      const std::vector<Repeated> last(axes.end() - kAxesAtOnce, axes.end());
      axes.resize(axes.size() - kAxesAtOnce);
      int64_t elements = tail;
      for (const Repeated& axis : last) elements *= axis.times * axis.length;
      const int64_t lead = source.elements() / (tail * lengths(last));
      const int64_t size[2] = {lead, elements};
      const View part = context.temporary(source.dtype, size, 2);
      if (!repeat(context, source, lead, last, tail, part)) return;
      source = part;
      tail = elements;
    }
    repeat(context, source, 1, axes, tail, output);
  }

 private:
  struct Repeated {
    int64_t times, length;
  };
  // Each takes two axes of a view, and one is left for what lies before and one for what lies after.
  static constexpr size_t kAxesAtOnce = (UHAL_MAX_RANK - 2) / 2;

  static int64_t lengths(const std::vector<Repeated>& axes) {
    int64_t elements = 1;
    for (const Repeated& axis : axes) elements *= axis.length;
    return elements;
  }

  // Dense `from` (lead, lengths..., tail) to dense `to` (lead, times * lengths..., tail).
  static bool repeat(Context& context, const View& from, int64_t lead, const std::vector<Repeated>& axes, int64_t tail,
                     const View& to) {
    if (!context.ok()) return false;
    Shape given = {lead};
    Shape wanted = {lead};
    for (const Repeated& axis : axes) {
      given.insert(given.end(), {1, axis.length});
      wanted.insert(wanted.end(), {axis.times, axis.length});
    }
    given.push_back(tail);
    wanted.push_back(tail);
    return context.copy(from.reshaped(given), to.reshaped(wanted));
  }
};

class Reverse : public MovementKernel {
 public:
  using MovementKernel::MovementKernel;
  void move(Context& context) const override {
    const View input = context.input(0);
    View reversed = input;
    const Shape axes = context.host_vector(1);
    if (!context.ok()) return;
    bool seen[UHAL_MAX_RANK] = {};
    // A scalar has nothing to reverse, whatever the axes.
    for (int64_t given : input.rank > 0 ? axes : Shape()) {
      const int axis = checked_axis(context, given, input.rank);
      if (!context.ok()) return;
      if (std::exchange(seen[axis], true)) {
        return context.fail_invalid("ReverseV2: axis " + std::to_string(axis) + " is given more than once");
      }
      const int64_t length = input.shape[axis];
      if (length > 1) reversed = reversed.sliced(axis, length - 1, length, -1);
    }
    const View output = context.output_like(0, input);
    if (context.ok() && output.elements() > 0) context.copy(reversed, output);
  }
};

// Roll(input, shift, axis): along each axis the last elements come first, as two copies; axes given twice add up.
class Roll : public MovementKernel {
 public:
  using MovementKernel::MovementKernel;
  void move(Context& context) const override {
    const View input = context.input(0);
    const Shape shifts = context.host_integers(1), axes = context.host_integers(2);
    const size_t ranks[] = {context.dims(1).size(), context.dims(2).size()};
    if (!context.ok()) return;
    if (input.rank < 1) return context.fail_invalid("Roll: input must be 1-D or higher");
    if (ranks[0] > 1 || ranks[1] > 1 || ranks[0] != ranks[1] || shifts.size() != axes.size()) {
      return context.fail_invalid("Roll: shift and axis must be scalars, or vectors of one length");
    }
    int64_t places[UHAL_MAX_RANK] = {};
    for (size_t i = 0; i < axes.size(); ++i) {
      const int axis = checked_axis(context, axes[i], input.rank);
      if (!context.ok()) return;
      const int64_t length = std::max<int64_t>(1, input.shape[axis]);
      places[axis] = (places[axis] + shifts[i] % length + length) % length;
    }
    const View output = context.output_like(0, input);
    if (context.ok() && output.elements() > 0) roll(context, input, output, places, 0);
  }

 private:
  static void roll(Context& context, const View& from, const View& to, const int64_t* places, int axis) {
    while (axis < from.rank && places[axis] == 0) ++axis;
    if (axis == from.rank) {
      context.copy(from, to);
      return;
    }
    const int64_t shift = places[axis], rest = from.shape[axis] - shift;
    roll(context, from.sliced(axis, 0, rest), to.sliced(axis, shift, rest), places, axis + 1);
    roll(context, from.sliced(axis, rest, shift), to.sliced(axis, 0, shift), places, axis + 1);
  }
};

// MatrixBandPart(input, lower, upper): a negative count keeps the whole triangle.
class MatrixBandPart : public Kernel {
 public:
  using Kernel::Kernel;
  void compute(Context& context) const override {
    const View input = context.input(0);
    const int64_t lower = context.host_scalar(1);
    const int64_t upper = context.host_scalar(2);
    if (!context.ok()) return;
    if (input.rank < 2 || lower > input.shape[input.rank - 2] || upper > input.shape[input.rank - 1]) {
      return context.fail_invalid("MatrixBandPart: matrices of shape " + to_text(input) + " have not " +
                                  std::to_string(lower) + " diagonals below the main one, or not " +
                                  std::to_string(upper) + " above it");
    }
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

// ConjugateTranspose(x, perm)
class ConjugateTranspose : public Transpose {
 public:
  using Transpose::Transpose;

 protected:
  void write(Context& context, const View& permuted, const View& output) const override {
    context.map(uhal_map_conjugate, {&permuted}, {&output});
  }
};

// Reverse(tensor, dims): an axis is reversed where dims, in host memory, is true.
class ReverseByFlags : public MovementKernel {
 public:
  using MovementKernel::MovementKernel;
  void move(Context& context) const override {
    const View input = context.input(0);
    const View flags = context.flat_input(1);
    const Shape dims = context.dims(1);
    if (!context.ok()) return;
    if (dims != Shape{input.rank}) {
      return context.fail_invalid("'dims' must be a vector with an entry for each axis of shape " + to_text(input) +
                                  ", got " + to_text(dims));
    }
    View reversed = input;
    for (int axis = 0; axis < input.rank; ++axis) {
      const int64_t length = input.shape[axis];
      if (static_cast<const bool*>(flags.data)[axis] && length > 1) {
        reversed = reversed.sliced(axis, length - 1, length, -1);
      }
    }
    const View output = context.output_like(0, input);
    if (context.ok() && output.elements() > 0) context.copy(reversed, output);
  }
};

// Empty(shape): zeros where that is asked for, else what memory held.
class Empty : public Kernel {
 public:
  explicit Empty(Construction& construction)
      : Kernel(construction), dtype_(construction.dtype("dtype")), zeros_(construction.boolean("init")) {}
  void compute(Context& context) const override {
    const Shape shape = context.host_vector(0);
    if (!context.ok()) return;
    const View output = context.flat_output(0, dtype_, shape);
    if (context.ok() && zeros_ && output.elements() > 0) context.zero(output);
  }

 private:
  uhal_dtype dtype_;
  bool zeros_;
};

class DeepCopy : public Kernel {
 public:
  using Kernel::Kernel;
  Merging merging() const override { return Merging::kSameShape; }
  void compute(Context& context) const override {
    const View input = context.input(0);
    const View output = context.output_like(0, input);
    if (context.ok() && output.elements() > 0) context.copy(input, output);
  }
};

// InplaceUpdate, InplaceAdd, InplaceSub(x, i, v): rows i of x become v, or v more or less. The memory of x, if nobody
// else has it.
template <uhal_reduction kReduction, bool kNegate>
class Inplace : public Kernel {
 public:
  using Kernel::Kernel;
  void compute(Context& context) const override {
    const View x = context.input(0);
    const View rows = context.input(1);
    View values = context.input(2);
    if (!context.ok()) return;
    Shape expected = shape_of(rows);
    if (x.rank > 0) expected.insert(expected.end(), x.shape + 1, x.shape + x.rank);
    if (x.rank == 0 || rows.rank > 1 || shape_of(values) != expected) {
      return context.fail_invalid("i must be a scalar or a vector and v as many rows of x, got x " + to_text(x) +
                                  ", i " + to_text(rows) + " and v " + to_text(values));
    }
    const int candidate = 0;
    const View output = context.forwarded_output(0, x.dtype, x.shape, x.rank, &candidate, 1);
    if (!context.ok() || output.elements() == 0) return;
    if (output.data != x.data) context.copy(x, output);
    if (values.elements() == 0) return;
    if (kNegate) {
      const View negative = context.temporary_like(values);
      if (!context.ok() || !context.map(uhal_map_negative, {&values}, {&negative})) return;
      values = negative;
    }
    // Numbers of rows wrap around.
    const View wrapped = context.temporary(UHAL_INT32, rows.shape, rows.rank);
    const View length = context.temporary(UHAL_INT32, nullptr, 0);
    if (!context.ok() || !context.fill(length, 0, x.shape[0])) return;
    context.map(uhal_map_floor_mod, {&rows, &length}, {&wrapped});
    uhal_index_attributes attributes = index_attributes(0);
    attributes.reduction = kReduction;
    context.launch(UHAL_OP_SCATTER, {&wrapped, &values}, {&output}, &attributes);
  }
};

// TileGrad(input, multiples): the sum of the repetitions.
class TileGrad : public Kernel {
 public:
  using Kernel::Kernel;
  void compute(Context& context) const override {
    const Shape dims = context.dims(0);
    const View input = context.flat_input(0);
    const Shape multiples = context.host_vector(1);
    if (!context.ok()) return;
    if (multiples.size() != dims.size()) {
      return context.fail_invalid("Expected multiples argument to be a vector of length " +
                                  std::to_string(dims.size()) + " but got length " + std::to_string(multiples.size()));
    }
    Shape shape, from, to;
    for (size_t i = 0; i < dims.size(); ++i) {
      if (multiples[i] < 1 || dims[i] % multiples[i] != 0) {
        return context.fail_invalid("Expected input_dim to be divisible by multiples, but " + std::to_string(dims[i]) +
                                    " is not by " + std::to_string(multiples[i]));
      }
      shape.push_back(dims[i] / multiples[i]);
      from.insert(from.end(), {multiples[i], shape.back()});
      to.insert(to.end(), {1, shape.back()});
    }
    if (from.size() > UHAL_MAX_RANK) return context.refuse("more than 5 axes");
    const View output = context.output(0, input.dtype, shape);
    if (!context.ok() || output.elements() == 0) return;
    const View repeated = input.reshaped(from), sum = output.reshaped(to);
    const uhal_reduce_attributes attributes = reduce_attributes(UHAL_REDUCE_SUM);
    context.launch(UHAL_OP_REDUCE, {&repeated}, {&sum}, &attributes);
  }
};

}  // namespace

void register_array(Registrar& registrar) {
  registrar.add_movement<Transpose>("Transpose", kAll, {"x", "y"}, {"perm"});
  registrar.add_movement<Transpose>("ConjugateTranspose", kReal, {"x", "y"}, {"perm"});
  registrar.add<ConjugateTranspose>("ConjugateTranspose", {{"T", kComplex}}, {"perm"});
  registrar.add<Cast>("Cast", {{"SrcT", without_int32(kAll)}, {"DstT", kAll}});
  registrar.add<Cast>("Cast", {{"SrcT", kInt32}, {"DstT", without_int32(kAll)}});
  // Nothing is computed, so that int32 stays where it is: tf.repeat casts the number that its shapes are made of.
  registrar.add<Cast>("Cast", {{"SrcT", kInt32}, {"DstT", kInt32}}, {"x", "y"});
  registrar.add_own<EagerConstant>("_EagerConst", {{"T", without_int32(kAll)}}, {"input"});
  registrar.add<Fill>("Fill", {{"T", without_int32(kAll)}}, {"dims"});
  registrar.add<Fill>("Fill", {{"T", kInt32}, {"index_type", only(UHAL_INT64)}}, {"dims", "value"});
  registrar.add<Range>("Range", {{"Tidx", only(UHAL_INT64) | kFloats}});
  registrar.add_movement<FillLike<0>>("ZerosLike", kAll, {"x", "y"});
  registrar.add_movement<FillLike<1>>("OnesLike", kAll, {"x", "y"});
  registrar.add<Share>("Snapshot", {{"T", kAll}});
  registrar.add<Bitcast>("Bitcast", {{"T", kAll & ~kBool}});
  registrar.add_movement<BroadcastTo>("BroadcastTo", kAll, {"input", "output"}, {"shape"});
  registrar.add_movement<Tile>("Tile", kAll, {"input", "output"}, {"multiples"});
  registrar.add_movement<Reverse>("ReverseV2", kAll, {"tensor", "output"}, {"axis"});
  registrar.add_movement<ReverseByFlags>("Reverse", kAll, {"tensor", "output"}, {"dims"});
  registrar.add<Empty>("Empty", {{"dtype", kAll}}, {"shape"});
  registrar.add<DeepCopy>("DeepCopy", {{"T", without_int32(kAll)}});
  const DtypeSet rows = without_int32(kNumbers | kComplex);
  registrar.add<Inplace<UHAL_REDUCE_NONE, false>>("InplaceUpdate", {{"T", without_int32(kAll)}});
  registrar.add<Inplace<UHAL_REDUCE_SUM, false>>("InplaceAdd", {{"T", rows}});
  registrar.add<Inplace<UHAL_REDUCE_SUM, true>>("InplaceSub", {{"T", rows}});
  registrar.add<TileGrad>("TileGrad", {{"T", kNumbers | kComplex}}, {"multiples"});
  registrar.add<MatrixBandPart>("BatchMatrixBandPart", {{"T", kAll}}, {"num_lower", "num_upper"});
  registrar.add<MatrixBandPart>("MatrixBandPart", {{"T", kAll}}, {"num_lower", "num_upper"});
  registrar.add_movement<Roll>("Roll", kAll, {"input", "output"}, {"shift", "axis"});
}

}  // namespace unihal::tensorflow
