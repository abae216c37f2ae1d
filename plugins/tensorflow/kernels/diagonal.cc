// Matrices from diagonals and diagonals of matrices: strided copies, one diagonal at a time.
#include <algorithm>

#include "plugins/tensorflow/registrar.h"

namespace unihal::tensorflow {
namespace {

// Diagonal `k` of the matrices in `view`, as a view of one rank less: above the main one for k > 0.
View diagonal_of(const View& view, int64_t k) {
  const int row = view.rank - 2;
  const int64_t rows = view.shape[row];
  const int64_t columns = view.shape[row + 1];
  View diagonal = view.sliced(row, std::max<int64_t>(-k, 0), 1).sliced(row + 1, std::max<int64_t>(k, 0), 1);
  diagonal.rank = view.rank - 1;
  diagonal.shape[row] = std::min(rows - std::max<int64_t>(-k, 0), columns - std::max<int64_t>(k, 0));
  diagonal.strides[row] = view.strides[row] + view.strides[row + 1];
  return diagonal;
}

// The number of the one diagonal asked for by host input `index`.
int64_t single_diagonal(Context& context, int index, const char* op) {
  const Shape k = context.host_integers(index);
  if (context.ok() && (k.empty() || k.size() > 2 || k.front() != k.back())) {
    context.fail(TF_UNIMPLEMENTED, std::string(op) + ": only a single diagonal is supported, got k = " +
                                       to_text(k.data(), static_cast<int>(k.size())) + "; run this op on /CPU:0");
  }
  return context.ok() ? k.front() : 0;
}

// (diagonal, [k, rows, columns, padding value])
template <bool kGeneral>
class MatrixDiag : public Kernel {
 public:
  using Kernel::Kernel;
  void compute(Context& context) const override {
    const View diagonal = context.input(0);
    int64_t k = 0;
    int64_t rows = -1;
    int64_t columns = -1;
    if (kGeneral) {
      k = single_diagonal(context, 1, op());
      rows = context.host_integer(2);
      columns = context.host_integer(3);
    }
    if (!context.ok()) return;
    if (diagonal.rank < 1) return context.fail_invalid(std::string(op()) + ": the diagonal must have rank 1 or more");
    // Sizes that are not given are the smallest that hold the diagonal.
    const int64_t length = diagonal.shape[diagonal.rank - 1];
    const int64_t least_rows = length + std::max<int64_t>(-k, 0);
    const int64_t least_columns = length + std::max<int64_t>(k, 0);
    if (rows == -1 && columns == -1) {
      rows = columns = std::max(least_rows, least_columns);
    } else {
      rows = rows == -1 ? least_rows : rows;
      columns = columns == -1 ? least_columns : columns;
    }
    if (rows < least_rows || columns < least_columns || (rows > least_rows && columns > least_columns)) {
      return context.fail_invalid(std::string(op()) + ": " + std::to_string(rows) + " rows and " +
                                  std::to_string(columns) + " columns do not fit a diagonal of length " +
                                  std::to_string(length));
    }
    Shape shape(diagonal.shape, diagonal.shape + diagonal.rank - 1);
    shape.push_back(rows);
    shape.push_back(columns);
    const View output = context.output(0, diagonal.dtype, shape);
    if (!context.ok() || output.elements() == 0) return;
    if (kGeneral) {
      context.copy(context.input(4), output);
    } else {
      context.zero(output);
    }
    if (diagonal.elements() > 0) context.copy(diagonal, diagonal_of(output, k));
  }
};

// (input, [k, padding value])
template <bool kGeneral>
class MatrixDiagPart : public Kernel {
 public:
  using Kernel::Kernel;
  void compute(Context& context) const override {
    const View input = context.input(0);
    const int64_t k = kGeneral ? single_diagonal(context, 1, op()) : 0;
    if (!context.ok()) return;
    if (input.rank < 2 || k <= -input.shape[input.rank - 2] || k >= input.shape[input.rank - 1]) {
      return context.fail_invalid(std::string(op()) + ": diagonal " + std::to_string(k) +
                                  " lies outside matrices of shape " + to_text(input));
    }
    const View diagonal = diagonal_of(input, k);
    const View output = context.output_like(0, diagonal);
    if (context.ok() && output.elements() > 0) context.copy(diagonal, output);
  }
};

// (input, diagonal, [k]): the input with one diagonal replaced.
template <bool kGeneral>
class MatrixSetDiag : public Kernel {
 public:
  using Kernel::Kernel;
  void compute(Context& context) const override {
    const View input = context.input(0);
    const View diagonal = context.input(1);
    const int64_t k = kGeneral ? single_diagonal(context, 2, op()) : 0;
    if (!context.ok()) return;
    const bool inside = input.rank >= 2 && k > -input.shape[input.rank - 2] && k < input.shape[input.rank - 1];
    if (!inside || shape_of(diagonal_of(input, k)) != shape_of(diagonal)) {
      return context.fail_invalid(std::string(op()) + ": a diagonal of shape " + to_text(diagonal) +
                                  " does not fit diagonal " + std::to_string(k) + " of matrices of shape " +
                                  to_text(input));
    }
    const int candidate = 0;
    const View output = context.forwarded_output(0, input.dtype, input.shape, input.rank, &candidate, 1);
    if (!context.ok() || output.elements() == 0) return;
    if (output.data != input.data) context.copy(input, output);
    context.copy(diagonal, diagonal_of(output, k));
  }
};

}  // namespace

void register_diagonal(Registrar& registrar) {
  registrar.add<MatrixDiag<false>>("MatrixDiag", {{"T", kAll}});
  registrar.add<MatrixDiag<true>>("MatrixDiagV2", {{"T", kAll}}, {"k", "num_rows", "num_cols"});
  registrar.add<MatrixDiag<true>>("MatrixDiagV3", {{"T", kAll}}, {"k", "num_rows", "num_cols"});
  registrar.add<MatrixDiagPart<false>>("MatrixDiagPart", {{"T", kAll}});
  registrar.add<MatrixDiagPart<true>>("MatrixDiagPartV2", {{"T", kAll}}, {"k"});
  registrar.add<MatrixDiagPart<true>>("MatrixDiagPartV3", {{"T", kAll}}, {"k"});
  registrar.add<MatrixSetDiag<false>>("MatrixSetDiag", {{"T", kAll}});
  registrar.add<MatrixSetDiag<true>>("MatrixSetDiagV2", {{"T", kAll}}, {"k"});
  registrar.add<MatrixSetDiag<true>>("MatrixSetDiagV3", {{"T", kAll}}, {"k"});
}

}  // namespace unihal::tensorflow
