#include <algorithm>

#include "csrc/backends/common/implementation_note.h"
#include "stub/onednn/primitive.h"
#include "stub/ops/copy.h"
#include "stub/ops/matmul.h"
#include "stub/vector/vectorize.h"

namespace unihal::stub {

#if !defined(UNIHAL_STUB_ONEDNN)

bool matmul_with_onednn(const MatmulProblem&, uhal_status*) { return false; }

#else

namespace {

// Multiplications below which oneDNN's fixed cost of about a microsecond is felt.
constexpr int64_t kWorthIt = 1 << 18;

struct Shape {
  int rank;
  int64_t lengths[UHAL_MAX_RANK];
  int64_t strides[UHAL_MAX_RANK];
};

Shape shape_of(const MatmulProblem& problem, const MatmulOperand& operand, int64_t rows, int64_t columns) {
  Shape shape;
  shape.rank = problem.batch_rank + 2;
  for (int i = 0; i < problem.batch_rank; ++i) {
    shape.lengths[i] = operand.batch_strides[i] == 0 ? 1 : problem.batch[i];
    shape.strides[i] = operand.batch_strides[i];
  }
  shape.lengths[shape.rank - 2] = rows;
  shape.strides[shape.rank - 2] = operand.row_stride;
  shape.lengths[shape.rank - 1] = columns;
  shape.strides[shape.rank - 1] = operand.column_stride;
  // An axis of length 1 may have any stride here, but oneDNN wants one that would not overlap the other axes.
  int64_t extent = 1;
  for (int i = 0; i < shape.rank; ++i) {
    if (shape.lengths[i] > 1) extent = std::max(extent, shape.lengths[i] * shape.strides[i]);
  }
  for (int i = 0; i < shape.rank; ++i) {
    if (shape.lengths[i] == 1) shape.strides[i] = extent;
  }
  return shape;
}

// Whether oneDNN's fast kernels read a matrix: one axis is contiguous, and nothing overlaps or runs backwards.
bool is_plain(const MatmulOperand& operand, int batch_rank, int64_t rows, int64_t columns) {
  for (int i = 0; i < batch_rank; ++i) {
    if (operand.batch_strides[i] < 0) return false;
  }
  const bool by_rows = (columns == 1 || operand.column_stride == 1) && (rows == 1 || operand.row_stride >= columns);
  const bool by_columns = (rows == 1 || operand.row_stride == 1) && (columns == 1 || operand.column_stride >= rows);
  return by_rows || by_columns;
}

bool is_bias_row(const MatmulProblem& problem) {
  const MatmulOperand& c = problem.operands[kMatmulC];
  if (c.data == nullptr || problem.alpha != 1 || problem.beta != 1) return false;
  for (int i = 0; i < problem.batch_rank; ++i) {
    if (c.batch_strides[i] != 0) return false;
  }
  return (problem.m == 1 || c.row_stride == 0) && (problem.n == 1 || c.column_stride == 1);
}

// A problem with its shapes as oneDNN wants them.
struct Described {
  const MatmulProblem& problem;
  bool bias;
  Shape a, b, d;
};

Shape bias_shape(const Described& described) {
  Shape shape;
  shape.rank = described.d.rank;
  for (int i = 0; i < shape.rank; ++i) {
    shape.lengths[i] = i == shape.rank - 1 ? described.problem.n : 1;
    shape.strides[i] = i == shape.rank - 1 ? 1 : described.problem.n;
  }
  return shape;
}

OneDnnLayout layout_of(const Shape& shape) { return onednn_layout(shape.rank, shape.lengths, shape.strides); }

constexpr int64_t kAliased = 512;  // elements: 2 KiB apart, what is read shares few sets of a cache

// Whether oneDNN's product of AVX-512, which wants matrices without gaps, copies b as it needs it: where rows have a
// power of two of elements (measured with 64 to 512 rows of a, beside a copy as below: 0.7 to 0.95 of its time with
// rows of 512 to 8192; with rows of 2560, 3072, 5120 and 6144 it takes 1.1 to 1.8).
bool copies_by_itself(const Described& described) {
  const MatmulProblem& problem = described.problem;
  const MatmulOperand &a = problem.operands[kMatmulA], &b = problem.operands[kMatmulB], &d = problem.operands[kMatmulD];
  const auto has_no_gaps = [](const MatmulOperand& operand, int64_t columns) {
    return operand.column_stride == 1 && operand.row_stride == columns;
  };
  return has_wide_vectors() && problem.batch_rank == 0 && (problem.n & (problem.n - 1)) == 0 &&
         has_no_gaps(a, problem.k) && has_no_gaps(b, problem.n) && has_no_gaps(d, problem.n);
}

// Whether b's rows lie so far apart that oneDNN walks it slowly, and a are enough rows to pay for a copy of b in the
// blocked layout that oneDNN likes best (measured: twice as fast at 512 x 3072 x 768).
bool has_far_rows(const Described& described) {
  constexpr int64_t kFar = 2048;
  constexpr int64_t kEnoughRows = 64;
  const MatmulOperand& b = described.problem.operands[kMatmulB];
  return b.column_stride == 1 && b.row_stride >= kFar && described.problem.m >= kEnoughRows &&
         !copies_by_itself(described);
}

// Whether b's rows share few sets of a cache, and are worth a copy with rows a little longer (measured with 1024 rows
// of b: 1.4 times as fast at 512 x 1024 x 512, 1.6 times at 64 x 1024 x 1024, nothing at 512 x 1024 x 1024).
bool has_aliased_rows(const Described& described) {
  constexpr int64_t kEnoughRows = 64;
  constexpr int64_t kFewRows = 256;
  const MatmulProblem& problem = described.problem;
  const MatmulOperand& b = problem.operands[kMatmulB];
  return b.column_stride == 1 && b.row_stride >= kAliased && b.row_stride % kAliased == 0 && problem.m >= kEnoughRows &&
         (problem.n <= kAliased || problem.m <= kFewRows) && !copies_by_itself(described);
}

// Whether a's columns lie a multiple of 2 KiB apart, so that what oneDNN reads of them shares few sets of a cache, and
// b's are too few for that to be read more than once: a copy with a's rows in order pays (measured with 256 rows of
// b: 2.4 times as fast at 1024 x 256 x 196, nothing at 1000 x 256 x 196 and at 1024 x 256 x 1568).
bool has_aliased_columns(const Described& described) {
  constexpr int64_t kFewColumns = 256;
  constexpr int64_t kEnoughColumns = 32;
  const MatmulProblem& problem = described.problem;
  const MatmulOperand& a = problem.operands[kMatmulA];
  const int64_t times = a.batch_strides[0] == 0 || problem.batch_rank == 0 ? problem.batch_count() : 1;
  return a.row_stride == 1 && a.column_stride >= kAliased && a.column_stride % kAliased == 0 &&
         problem.n <= kFewColumns && problem.n * times >= kEnoughColumns;
}

// A layout in row-major order, with rows that are longer by `padding`.
OneDnnLayout row_major_layout(const Shape& shape, int64_t padding) {
  int64_t strides[UHAL_MAX_RANK];
  int64_t stride = 1;
  for (int i = shape.rank - 1; i >= 0; --i) {
    strides[i] = stride;
    stride *= shape.lengths[i];
    if (i == shape.rank - 1) stride += padding;
  }
  return onednn_layout(shape.rank, shape.lengths, strides);
}

std::unique_ptr<OneDnnPrimitive> build(const void* context) {
  const Described& described = *static_cast<const Described*>(context);
  const MatmulProblem& problem = described.problem;
  const OneDnnAttributes attributes = onednn_attributes(problem.alpha, described.bias ? 0 : problem.beta);
  std::vector<OneDnnArgument> arguments;
  arguments.push_back({DNNL_ARG_SRC, layout_of(described.a), false});
  arguments.push_back({DNNL_ARG_WEIGHTS, layout_of(described.b), false});
  arguments.push_back({DNNL_ARG_DST, layout_of(described.d), true});
  if (described.bias) arguments.push_back({DNNL_ARG_BIAS, layout_of(bias_shape(described)), false});
  OneDnnLayout reordered_a, reordered_b;
  if (has_aliased_columns(described)) reordered_a = row_major_layout(described.a, 0);
  if (has_far_rows(described)) {
    reordered_b = onednn_any_layout(described.b.rank, described.b.lengths);
  } else if (has_aliased_rows(described)) {
    constexpr int64_t kLine = 16;  // elements of a cache's line
    reordered_b = row_major_layout(described.b, kLine);
  }
  dnnl_primitive_desc_t descriptor = nullptr;
  onednn()->dnnl_matmul_primitive_desc_create(
      &descriptor, onednn()->engine, (reordered_a != nullptr ? reordered_a : arguments[0].layout).get(),
      (reordered_b != nullptr ? reordered_b : arguments[1].layout).get(),
      described.bias ? arguments[3].layout.get() : nullptr, arguments[2].layout.get(), attributes.get());
  return OneDnnPrimitive::create(OneDnnDescriptor(descriptor), std::move(arguments));
}

void add(OneDnnSignature& signature, const Shape& shape) {
  signature.add(shape.rank);
  signature.add(shape.lengths, shape.rank);
  signature.add(shape.strides, shape.rank);
}

OneDnnSignature signature_of(const Described& described) {
  OneDnnSignature signature(UHAL_OP_MATMUL);
  add(signature, described.a);
  add(signature, described.b);
  add(signature, described.d);
  signature.add(described.bias);
  signature.add_bits(described.problem.alpha);
  signature.add_bits(described.bias ? 0 : described.problem.beta);
  return signature;
}

// c or d, with d's shape.
uhal_tensor view_of(const MatmulProblem& problem, const MatmulOperand& operand) {
  uhal_tensor view = {};
  view.struct_size = sizeof view;
  view.data = operand.data;
  view.dtype = UHAL_FLOAT32;
  view.rank = problem.batch_rank + 2;
  for (int i = 0; i < problem.batch_rank; ++i) {
    view.shape[i] = problem.batch[i];
    view.strides[i] = operand.batch_strides[i];
  }
  view.shape[view.rank - 2] = problem.m;
  view.strides[view.rank - 2] = operand.row_stride;
  view.shape[view.rank - 1] = problem.n;
  view.strides[view.rank - 1] = operand.column_stride;
  return view;
}

// Puts c into d, from where oneDNN adds it.
void place_c(const MatmulProblem& problem) {
  const uhal_tensor from = view_of(problem, problem.operands[kMatmulC]);
  const uhal_tensor to = view_of(problem, problem.operands[kMatmulD]);
  if (from.data != to.data) copy_views(from, to);
}

}  // namespace

bool matmul_with_onednn(const MatmulProblem& problem, uhal_status* status) {
  if (onednn() == nullptr) return false;
  if (problem.k == 0 || problem.batch_count() * problem.m * problem.n * problem.k < kWorthIt) return false;
  const auto& operands = problem.operands;
  if (!is_plain(operands[kMatmulA], problem.batch_rank, problem.m, problem.k) ||
      !is_plain(operands[kMatmulB], problem.batch_rank, problem.k, problem.n) ||
      !is_plain(operands[kMatmulD], problem.batch_rank, problem.m, problem.n)) {
    return false;
  }
  const Described described = {problem, is_bias_row(problem),
                               shape_of(problem, operands[kMatmulA], problem.m, problem.k),
                               shape_of(problem, operands[kMatmulB], problem.k, problem.n),
                               shape_of(problem, operands[kMatmulD], problem.m, problem.n)};
  const OneDnnPrimitive* primitive = onednn_primitive(signature_of(described), build, &described);
  if (primitive == nullptr) return false;
  if (problem.beta != 0 && !described.bias) place_c(problem);
  void* const data[] = {operands[kMatmulA].data, operands[kMatmulB].data, operands[kMatmulD].data,
                        operands[kMatmulC].data};
  note_implementation(host(), "%s", onednn_description());
  *status = primitive->execute(data);
  if (*status == UHAL_OK) *status = activate_in_place(problem.activation, view_of(problem, operands[kMatmulD]));
  return true;
}

#endif  // UNIHAL_STUB_ONEDNN

}  // namespace unihal::stub
