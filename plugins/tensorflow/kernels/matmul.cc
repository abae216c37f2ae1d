// Matrix products and bias.
#include "plugins/tensorflow/registrar.h"
#include "plugins/tensorflow/variable_shim.h"

namespace unihal::tensorflow {
namespace {

// MatMul and BatchMatMul*: leading axes broadcast.
class MatMul : public Kernel {
 public:
  explicit MatMul(Construction& construction) : Kernel(construction) {
    const bool batched = construction.has("adj_x");
    transpose_a_ = construction.boolean(batched ? "adj_x" : "transpose_a");
    transpose_b_ = construction.boolean(batched ? "adj_y" : "transpose_b");
    batched_ = batched;
    broadcasts_ = std::string(op()) != "BatchMatMul";
    output_dtype_ = construction.has("Tout") ? construction.dtype("Tout") : UHAL_DTYPE_INVALID;
  }

  void compute(Context& context) const override {
    View a = context.input(0);
    View b = context.input(1);
    if (!context.ok()) return;
    if (a.rank < 2 || b.rank < 2 || (!batched_ && (a.rank > 2 || b.rank > 2))) {
      return context.fail_invalid(std::string(op()) + ": operands must be matrices, got shapes " + to_text(a) +
                                  " and " + to_text(b));
    }
    if (!broadcasts_ && Shape(a.shape, a.shape + a.rank - 2) != Shape(b.shape, b.shape + b.rank - 2)) {
      return context.fail_invalid(std::string(op()) + ": leading axes must be the same, got shapes " + to_text(a) +
                                  " and " + to_text(b));
    }
    if (transpose_a_) a = a.transposed();
    if (transpose_b_) b = b.transposed();
    // Of complex matrices the batched ops take the adjoint.
    if (batched_ && transpose_a_) a = conjugated(context, a);
    if (batched_ && transpose_b_) b = conjugated(context, b);
    if (!context.ok()) return;
    View a_batch = a;
    View b_batch = b;
    a_batch.rank -= 2;
    b_batch.rank -= 2;
    Shape shape;
    const bool batches_match = broadcast_shape(a_batch, b_batch, &shape);
    if (!batches_match || a.shape[a.rank - 1] != b.shape[b.rank - 2]) {
      return context.fail_invalid(std::string(op()) + ": Matrix size-incompatible: In[0]: " +
                                  to_text(context.input(0)) + ", In[1]: " + to_text(context.input(1)));
    }
    shape.push_back(a.shape[a.rank - 2]);
    shape.push_back(b.shape[b.rank - 1]);
    const View d = context.output(0, output_dtype_ == UHAL_DTYPE_INVALID ? a.dtype : output_dtype_, shape);
    if (!context.ok() || d.elements() == 0) return;
    if (a.shape[a.rank - 1] == 0) {
      context.zero(d);
    } else {
      const auto attributes = matmul_attributes(math_mode());
      context.launch(UHAL_OP_MATMUL, {&a, &b}, {&d}, &attributes);
    }
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
  registrar.add<BiasAdd>("BiasAdd", {{"T", kNumbers | kComplex}});
  registrar.add<BiasAdd>("BiasAddV1", {{"T", kNumbers | kComplex}});
  registrar.add<BiasAddGrad>("BiasAddGrad", {{"T", kNumbers | kComplex}});
}

}  // namespace unihal::tensorflow
