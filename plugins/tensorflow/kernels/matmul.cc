// Matrix products and bias.
#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "plugins/tensorflow/registrar.h"
#include "plugins/tensorflow/shim_functions.h"

namespace unihal::tensorflow {
namespace {

// MatMul and BatchMatMul*: leading axes broadcast.
class MatMul : public Kernel {
 public:
  explicit MatMul(Construction& construction) : Kernel(construction) {
    const bool batched = construction.has("adj_x");
    transpose_a_ = construction.boolean(batched ? "adj_x" : "transpose_a");
    transpose_b_ = construction.boolean(batched ? "adj_y" : "transpose_b");
    batched_ = batched || (construction.has("batched") && construction.boolean("batched"));
    broadcasts_ = std::string(op()) != "BatchMatMul";
    output_dtype_ = construction.has("Tout") ? construction.dtype("Tout") : UHAL_DTYPE_INVALID;
  }

  void compute(Context& context) const override {
    View a, b;
    Shape shape;
    if (!read_operands(context, &a, &b, &shape)) return;
    const View d = context.output(0, output_dtype_ == UHAL_DTYPE_INVALID ? a.dtype : output_dtype_, shape);
    if (!context.ok() || d.elements() == 0) return;
    if (a.shape[a.rank - 1] == 0) {
      context.zero(d);
    } else {
      const auto attributes = matmul_attributes(math_mode());
      context.launch(UHAL_OP_MATMUL, {&a, &b}, {&d}, &attributes);
    }
  }

 protected:
  // The operands as they are multiplied, and the product's shape. False if there is none: the context has failed.
  bool read_operands(Context& context, View* operand_a, View* operand_b, Shape* product) const {
    View a = context.input(0);
    View b = context.input(1);
    if (!context.ok()) return false;
    if (a.rank < 2 || b.rank < 2 || (!batched_ && (a.rank > 2 || b.rank > 2))) {
      context.fail_invalid(std::string(op()) + ": operands must be matrices, got shapes " + to_text(a) + " and " +
                           to_text(b));
      return false;
    }
    if (!broadcasts_ && Shape(a.shape, a.shape + a.rank - 2) != Shape(b.shape, b.shape + b.rank - 2)) {
      context.fail_invalid(std::string(op()) + ": leading axes must be the same, got shapes " + to_text(a) + " and " +
                           to_text(b));
      return false;
    }
    if (transpose_a_) a = a.transposed();
    if (transpose_b_) b = b.transposed();
    // Of complex matrices the batched ops take the adjoint.
    if (batched_ && transpose_a_) a = conjugated(context, a);
    if (batched_ && transpose_b_) b = conjugated(context, b);
    if (!context.ok()) return false;
    View a_batch = a;
    View b_batch = b;
    a_batch.rank -= 2;
    b_batch.rank -= 2;
    Shape shape;
    const bool batches_match = broadcast_shape(a_batch, b_batch, &shape);
    if (!batches_match || a.shape[a.rank - 1] != b.shape[b.rank - 2]) {
      context.fail_invalid(std::string(op()) + ": Matrix size-incompatible: In[0]: " + to_text(context.input(0)) +
                           ", In[1]: " + to_text(context.input(1)));
      return false;
    }
    shape.push_back(a.shape[a.rank - 2]);
    shape.push_back(b.shape[b.rank - 1]);
    *operand_a = a;
    *operand_b = b;
    *product = std::move(shape);
    return true;
  }

 private:
  static View conjugated(Context& context, const View& matrices) {
    if (!contains(kComplex, matrices.dtype)) return matrices;
    const View result = context.temporary_like(matrices);
    if (context.ok()) context.map(uhal_map_conjugate, {&matrices}, {&result});
    return result;
  }

  bool transpose_a_;
  bool transpose_b_;
  bool batched_;
  bool broadcasts_;
  uhal_dtype output_dtype_;
};

// (a, b, bias, [shape]) -> activation(a @ b + bias), reshaped; the bias has a number for each column.
class FusedMatMul : public MatMul {
 public:
  explicit FusedMatMul(Construction& construction)
      : MatMul(construction), activation_(static_cast<uhal_activation>(construction.integer("activation"))) {}

  void compute(Context& context) const override {
    View a, b;
    Shape product;
    if (!read_operands(context, &a, &b, &product)) return;
    const int64_t columns = product.back();
    const View given = context.input(2);
    Shape shape = context.input_count() > 3 ? context.host_vector(3) : product;
    if (!context.ok()) return;
    if (given.elements() != columns) {
      return context.fail_invalid(std::string(op()) + ": the bias must have " + std::to_string(columns) +
                                  " elements, got " + to_text(given));
    }
    if (!complete(elements_of(product), &shape)) {
      return context.fail_invalid(std::string(op()) + ": the product of " + to_text(a) + " and " + to_text(b) +
                                  " does not fit in the shape " +
                                  to_text(shape.data(), static_cast<int>(shape.size())));
    }
    const View output = context.output(0, a.dtype, shape);
    if (!context.ok() || output.elements() == 0) return;
    const View d = output.reshaped(product);
    const View bias = given.reshaped({columns});
    if (a.shape[a.rank - 1] == 0) return write_activation(context, bias, d);
    uhal_matmul_attributes attributes = matmul_attributes(math_mode());
    attributes.activation = activation_;
    context.launch(UHAL_OP_MATMUL, {&a, &b, &bias}, {&d}, &attributes);
  }

 private:
  static int64_t elements_of(const Shape& shape) {
    return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  }

  // Gives a size of -1 what is left for it. False if there is no such shape of so many elements.
  static bool complete(int64_t elements, Shape* shape) {
    const auto open = std::find(shape->begin(), shape->end(), -1);
    if (open != shape->end()) {
      *open = 1;
      const int64_t others = elements_of(*shape);
      *open = others > 0 ? elements / others : 0;
    }
    return std::all_of(shape->begin(), shape->end(), [](int64_t size) { return size >= 0; }) &&
           elements_of(*shape) == elements;
  }

  // What is left where nothing is multiplied.
  void write_activation(Context& context, const View& bias, const View& d) const {
    context.zero(d);
    context.map(uhal_map_add, {&d, &bias}, {&d});
    if (activation_ == UHAL_ACTIVATION_RELU) context.map(uhal_map_relu, {&d}, {&d});
    if (activation_ == UHAL_ACTIVATION_RELU6) context.map(uhal_map_clip, {&d}, {&d}, {0, 6});
    if (activation_ == UHAL_ACTIVATION_SIGMOID) context.map(uhal_map_sigmoid, {&d}, {&d});
    if (activation_ == UHAL_ACTIVATION_TANH) context.map(uhal_map_tanh, {&d}, {&d});
  }

  uhal_activation activation_;
};

// (x (..., m, k), y (..., m, n)) -> the sum of x^T @ y over the batch, as one product over the rows of all matrices.
class MatMulSum : public Kernel {
 public:
  using Kernel::Kernel;
  void compute(Context& context) const override {
    const View x = context.input(0);
    const View y = context.input(1);
    if (!context.ok()) return;
    if (x.rank < 2 || x.rank != y.rank || !std::equal(x.shape, x.shape + x.rank - 1, y.shape)) {
      return context.fail_invalid(std::string(op()) + ": the operands must have the same rows, got " + to_text(x) +
                                  " and " + to_text(y));
    }
    int64_t rows = 1;
    for (int i = 0; i < x.rank - 1; ++i) rows *= x.shape[i];
    const int64_t k = x.shape[x.rank - 1], n = y.shape[y.rank - 1];
    const View sum = context.output(0, x.dtype, {k, n});
    if (!context.ok() || sum.elements() == 0) return;
    if (rows == 0) {
      context.zero(sum);
    } else {
      const View a = x.reshaped({rows, k}).transposed();
      const View b = y.reshaped({rows, n});
      const uhal_matmul_attributes attributes = matmul_attributes(math_mode());
      context.launch(UHAL_OP_MATMUL, {&a, &b}, {&sum}, &attributes);
    }
  }
};

bool is_channels_first(Construction& construction) {
  return construction.has("data_format") && construction.text("data_format").rfind("NC", 0) == 0;
}

class BiasAdd : public Kernel {
 public:
  explicit BiasAdd(Construction& construction)
      : Kernel(construction), channels_first_(is_channels_first(construction)) {}

  void compute(Context& context) const override {
    const View value = context.input(0);
    View bias = context.input(1);
    if (!context.ok()) return;
    const int axis = channels_first_ ? 1 : value.rank - 1;
    if (value.rank < 2 || bias.rank != 1 || bias.shape[0] != value.shape[axis]) {
      return context.fail_invalid(std::string(op()) + ": the bias must have the length of axis " +
                                  std::to_string(axis) + "; got value " + to_text(value) + " and bias " +
                                  to_text(bias));
    }
    while (bias.rank < value.rank - axis) bias = bias.unsqueezed(bias.rank);
    const int candidate = 0;
    const View output = context.forwarded_output(0, value.dtype, value.shape, value.rank, &candidate, 1);
    context.map(uhal_map_add, {&value, &bias}, {&output});
  }

 private:
  bool channels_first_;
};

class BiasAddGrad : public Kernel {
 public:
  explicit BiasAddGrad(Construction& construction)
      : Kernel(construction), channels_first_(is_channels_first(construction)) {}

  void compute(Context& context) const override {
    const View gradient = context.input(0);
    if (!context.ok()) return;
    if (gradient.rank < 2)
      return context.fail_invalid(std::string(op()) + ": expected rank 2 or more, got " + to_text(gradient));
    const int axis = channels_first_ ? 1 : gradient.rank - 1;
    const View output = context.output(0, gradient.dtype, {gradient.shape[axis]});
    int64_t kept[UHAL_MAX_RANK];
    for (int i = 0; i < gradient.rank; ++i) kept[i] = i == axis ? gradient.shape[i] : 1;
    const View sum = output.reshaped(kept, gradient.rank);
    const uhal_reduce_attributes attributes = reduce_attributes(UHAL_REDUCE_SUM);
    context.launch(UHAL_OP_REDUCE, {&gradient}, {&sum}, &attributes);
  }

 private:
  bool channels_first_;
};

}  // namespace

void register_matmul(Registrar& registrar) {
  registrar.add<MatMul>("MatMul", {{"T", kFloats | kComplex}});
  registrar.add<MatMul>("BatchMatMul", {{"T", kFloats | kComplex}});
  registrar.add<MatMul>("BatchMatMulV2", {{"T", kFloats | kComplex}});
  registrar.add<MatMul>("BatchMatMulV3", {{"Ta", kFloats}});
  registrar.add_own<FusedMatMul>("UnihalMatMul", {{"T", kFloats}}, {"shape"});
  registrar.add_own<MatMulSum>("UnihalMatMulSum", {{"T", kFloats}});
  registrar.add<BiasAdd>("BiasAdd", {{"T", kNumbers | kComplex}});
  registrar.add<BiasAdd>("BiasAddV1", {{"T", kNumbers | kComplex}});
  registrar.add<BiasAddGrad>("BiasAddGrad", {{"T", kNumbers | kComplex}});
}

}  // namespace unihal::tensorflow
