// Products of matrices.
#include "plugins/onnxruntime/kernels/kernels.h"
#include "plugins/onnxruntime/provider.h"

namespace unihal::onnxruntime {
namespace {

// Leading axes broadcast; a vector is a row on the left, a column on the right, and its axis is not in the result.
Shape product_shape(const Call& call, const View& a, const View& b) {
  Shape left = shape_of(a), right = shape_of(b);
  call.require(!left.empty() && !right.empty(), "an operand is a scalar");
  const bool row = left.size() == 1, column = right.size() == 1;
  if (row) left.insert(left.begin(), 1);
  if (column) right.push_back(1);
  if (left.back() != right[right.size() - 2]) {
    call.fail("a has " + std::to_string(left.back()) + " columns and b " + std::to_string(right[right.size() - 2]) +
              " rows");
  }
  Shape shape = broadcast(call, Shape(left.begin(), left.end() - 2), Shape(right.begin(), right.end() - 2));
  if (!row) shape.push_back(left[left.size() - 2]);
  if (!column) shape.push_back(right.back());
  return shape;
}

// With an axis of length 1 for each vector.
View as_matrix(View view, bool is_left) {
  if (view.rank > 1) return view;
  return view.unsqueezed(is_left ? 0 : 1);
}

// y = alpha * a @ b, with the last two axes of either exchanged where asked for.
void multiply(Call& call, const View& a, const View& b, const View& y, double alpha, const View* bias = nullptr,
              uhal_activation activation = UHAL_ACTIVATION_NONE) {
  if (y.elements() == 0) return;
  uhal_matmul_attributes attributes = matmul_attributes(call.math_mode());
  attributes.alpha = alpha;
  attributes.activation = activation;
  call.launch(UHAL_OP_MATMUL, {&a, &b, bias}, {&y}, &attributes);
}

class MatMul final : public Kernel {
 public:
  explicit MatMul(const Description&) {}

  // oneDNN, which multiplies on the host, walks rows that lie far apart at half its speed (AVX2, 128 x 768 x 3072: 87
  // GFLOP/s, and 163 with the columns in memory), or arranges them anew in each run.
  bool pack(const Provider& provider, int index, const View& constant) override {
    constexpr int64_t kFar = 2048;
    if (index != 1 || !provider.is_on_host() || constant.rank != 2 || constant.dtype != UHAL_FLOAT32) return false;
    const int64_t rows = constant.shape[0], columns = constant.shape[1];
    if (columns < kFar || rows >= columns || rows == 0) return false;
    by_columns_ = packed_.allocate(provider, {columns, rows}, constant.dtype).transposed();
    check(launch(provider.stream(), UHAL_OP_COPY, {&constant}, {&by_columns_}));
    return true;
  }

  void run(Call& call) const override {
    const View a = call.input(0);
    const View b = packed_.is_there() ? by_columns_ : call.input(1);
    const Shape shape = product_shape(call, a, b);
    View y = call.output(0, shape);
    if (a.rank == 1) y = y.unsqueezed(b.rank == 1 ? y.rank : y.rank - 1);
    if (b.rank == 1) y = y.unsqueezed(y.rank);
    multiply(call, as_matrix(a, true), as_matrix(b, false), y, 1);
  }

 private:
  Packed packed_;
  View by_columns_;
};

// com.microsoft: alpha * op(a) @ op(b).
class FusedMatMul final : public Kernel {
 public:
  explicit FusedMatMul(const Description& node)
      : alpha_(node.real("alpha", 1)),
        transpose_a_(node.integer("transA", 0) != 0),
        transpose_b_(node.integer("transB", 0) != 0) {
    node.require(node.integer("transBatchA", 0) == 0 && node.integer("transBatchB", 0) == 0, "transposed batches");
  }
  void run(Call& call) const override {
    View a = call.input(0);
    View b = call.input(1);
    call.require(a.rank > 1 && b.rank > 1, "an operand is a vector");
    if (transpose_a_) a = a.transposed();
    if (transpose_b_) b = b.transposed();
    multiply(call, a, b, call.output(0, product_shape(call, a, b)), alpha_);
  }

 private:
  const double alpha_;
  const bool transpose_a_, transpose_b_;
};

// alpha * op(a) @ op(b) + beta * c, and com.microsoft's FusedGemm with an activation of it.
class Gemm final : public Kernel {
 public:
  explicit Gemm(const Description& node)
      : alpha_(node.real("alpha", 1)),
        beta_(node.real("beta", 1)),
        transpose_a_(node.integer("transA", 0) != 0),
        transpose_b_(node.integer("transB", 0) != 0),
        activation_(activation_of(node)) {
    node.require(node.version() >= 7 || node.integer("broadcast", 0) == 0, "broadcasting of opset 6");
  }
  void run(Call& call) const override {
    View a = call.input(0);
    View b = call.input(1);
    call.require(a.rank == 2 && b.rank == 2, "an operand is no matrix");
    if (transpose_a_) a = a.transposed();
    if (transpose_b_) b = b.transposed();
    const View y = call.output(0, product_shape(call, a, b));
    if (y.elements() == 0) return;
    uhal_matmul_attributes attributes = matmul_attributes(call.math_mode());
    attributes.alpha = alpha_;
    attributes.beta = beta_;
    attributes.activation = activation_;
    if (!call.has(2) || beta_ == 0) return call.launch(UHAL_OP_MATMUL, {&a, &b}, {&y}, &attributes);
    const View c = call.input(2);
    call.launch(UHAL_OP_MATMUL, {&a, &b, &c}, {&y}, &attributes);
  }

 private:
  const double alpha_, beta_;
  const bool transpose_a_, transpose_b_;
  const uhal_activation activation_;
};

constexpr DtypeSet kProducts = kFloats | only(UHAL_INT32) | only(UHAL_INT64) | only(UHAL_UINT32) | only(UHAL_UINT64);

const Op kMatmulOps[] = {
    {.name = "MatMul", .first = 1, .last = kNewestOpset, .dtypes = kProducts, .make = make<MatMul>},
    {.name = "Gemm", .first = 6, .last = kNewestOpset, .dtypes = kProducts, .make = make<Gemm>},
    {.name = "FusedMatMul", .first = 1, .last = 1, .dtypes = kFloats, .make = make<FusedMatMul>, .domain = kMicrosoft},
    {.name = "TransposeMatMul",
     .first = 1,
     .last = 1,
     .dtypes = kFloats,
     .make = make<FusedMatMul>,
     .domain = kMicrosoft},
    {.name = "FusedGemm", .first = 1, .last = 1, .dtypes = kFloats, .make = make<Gemm>, .domain = kMicrosoft},
};

}  // namespace

Table matmul_ops() { return table(kMatmulOps); }

}  // namespace unihal::onnxruntime
