// Matrices from diagonals and diagonals of matrices: strided copies, one diagonal at a time.
//
// Several diagonals come as the rows of a matrix, the uppermost first, each as long as the longest. A shorter one lies
// at the row's left or right end, as attribute "align" says, and padding fills the rest.
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

// The diagonals lowest..highest of matrices.
struct Band {
  int64_t lowest = 0;
  int64_t highest = 0;

  int64_t count() const { return highest - lowest + 1; }
  // The length of the longest in matrices of this size.
  int64_t length(int64_t rows, int64_t columns) const {
    return std::min(rows + std::min<int64_t>(highest, 0), columns - std::max<int64_t>(lowest, 0));
  }
};

// The dtypes that TensorFlow allows in Diag.
constexpr DtypeSet kDiagonals = kFloats | kIndices | kComplex;

class Diagonals : public Kernel {
 public:
  explicit Diagonals(Construction& construction) : Kernel(construction) {
    // "LEFT_RIGHT": those above the main diagonal, and those below it. Version 2 has no choice.
    const std::string align = construction.has("align") ? construction.text("align") : "LEFT_LEFT";
    upper_left_ = align.rfind("LEFT_", 0) == 0;
    lower_left_ = align.find("_LEFT") != std::string::npos;
  }

 protected:
  // The band that host input `index` names: one diagonal, or the lowest and the highest.
  static Band band(Context& context, int index) {
    const Shape dims = context.dims(index);
    const Shape k = context.host_integers(index);
    if (!context.ok()) return {};
    if (dims.size() > 1 || k.empty() || k.size() > 2 || k.front() > k.back()) {
      context.fail_invalid("k must be one diagonal, or the lowest and the highest, got " + to_text(k));
      return {};
    }
    return {k.front(), k.back()};
  }

  // Whether matrices have these diagonals. The main one counts as theirs even where they are empty.
  static bool has(const View& matrices, const Band& band) {
    if (matrices.rank < 2) return false;
    const int64_t rows = matrices.shape[matrices.rank - 2];
    const int64_t columns = matrices.shape[matrices.rank - 1];
    const auto inside = [&](int64_t k) { return k == 0 || (k > -rows && k < columns); };
    return inside(band.lowest) && inside(band.highest);
  }

  // The shape of a band of matrices of shape (batch..., rows, columns).
  static Shape shape_of_band(const View& matrices, const Band& band) {
    Shape shape(matrices.shape, matrices.shape + matrices.rank - 2);
    if (band.count() > 1) shape.push_back(band.count());
    shape.push_back(band.length(matrices.shape[matrices.rank - 2], matrices.shape[matrices.rank - 1]));
    return shape;
  }

  // Copies each diagonal from the matrices to `rows` (of shape_of_band), or the other way.
  template <bool kToRows>
  void copy(Context& context, const View& matrices, const View& rows, const Band& band) const {
    const int64_t longest = rows.shape[rows.rank - 1];
    for (int64_t k = band.lowest; context.ok() && k <= band.highest; ++k) {
      const View diagonal = diagonal_of(matrices, k);
      const int64_t length = diagonal.shape[diagonal.rank - 1];
      if (length <= 0 || diagonal.elements() == 0) continue;
      View row = rows;
      if (band.count() > 1) {
        const int axis = rows.rank - 2;
        row = row.sliced(axis, band.highest - k, 1);
        row.rank -= 1;
        row.shape[axis] = longest;
        row.strides[axis] = rows.strides[axis + 1];
      }
      const bool left = (k >= 0 && upper_left_) || (k <= 0 && lower_left_);
      row = row.sliced(row.rank - 1, left ? 0 : longest - length, length);
      context.copy(kToRows ? diagonal : row, kToRows ? row : diagonal);
    }
  }

 private:
  bool upper_left_;
  bool lower_left_;
};

// (diagonal, [k, rows, columns, padding value])
template <bool kGeneral>
class MatrixDiag : public Diagonals {
 public:
  using Diagonals::Diagonals;
  void compute(Context& context) const override {
    const View given = context.input(0);
    Band band;
    int64_t rows = -1;
    int64_t columns = -1;
    if (kGeneral) {
      band = this->band(context, 1);
      rows = context.host_scalar(2);
      columns = context.host_scalar(3);
    }
    if (!context.ok()) return;
    const View padding = kGeneral ? context.input(4) : View();
    if (!context.ok()) return;
    if (padding.rank != 0) {
      return context.fail_invalid(std::string(op()) + ": padding_value must be a scalar, got " + to_text(padding));
    }
    const bool several = band.count() > 1;
    if (given.rank < (several ? 2 : 1) || (several && given.shape[given.rank - 2] != band.count())) {
      return context.fail_invalid(std::string(op()) + ": diagonals of shape " + to_text(given) + " are not " +
                                  std::to_string(band.count()));
    }
    // Sizes that are not given are the smallest that hold the diagonals.
    const int64_t length = given.shape[given.rank - 1];
    const int64_t least_rows = length - std::min<int64_t>(band.highest, 0);
    const int64_t least_columns = length + std::max<int64_t>(band.lowest, 0);
    if (rows == -1 && columns == -1) {
      rows = columns = std::max(least_rows, least_columns);
    } else {
      rows = rows == -1 ? least_rows : rows;
      columns = columns == -1 ? least_columns : columns;
    }
    if (rows < least_rows || columns < least_columns || (rows > least_rows && columns > least_columns)) {
      return context.fail_invalid(std::string(op()) + ": " + std::to_string(rows) + " rows and " +
                                  std::to_string(columns) + " columns do not fit diagonals of length " +
                                  std::to_string(length));
    }
    Shape shape(given.shape, given.shape + given.rank - (several ? 2 : 1));
    shape.push_back(rows);
    shape.push_back(columns);
    const View output = context.output(0, given.dtype, shape);
    if (!context.ok() || output.elements() == 0) return;
    if (kGeneral) {
      context.copy(padding, output);
    } else {
      context.zero(output);
    }
    copy<false>(context, output, given, band);
  }
};

// (input, [k, padding value])
template <bool kGeneral>
class MatrixDiagPart : public Diagonals {
 public:
  using Diagonals::Diagonals;
  void compute(Context& context) const override {
    const View input = context.input(0);
    const Band band = kGeneral ? this->band(context, 1) : Band();
    if (!context.ok()) return;
    if (!has(input, band)) {
      return context.fail_invalid(std::string(op()) + ": diagonals " + std::to_string(band.lowest) + " to " +
                                  std::to_string(band.highest) + " lie outside matrices of shape " + to_text(input));
    }
    const View padding = kGeneral ? context.flat_input(2) : View();
    if (!context.ok()) return;
    if (band.count() > 1 && padding.elements() != 1) {
      return context.fail_invalid(std::string(op()) + ": padding_value must be a scalar");
    }
    const View output = context.output(0, input.dtype, shape_of_band(input, band));
    if (!context.ok() || output.elements() == 0) return;
    if (band.count() > 1) context.copy(padding.reshaped(nullptr, 0), output);
    copy<true>(context, input, output, band);
  }
};

// (input, diagonal, [k]): the input with some diagonals replaced.
template <bool kGeneral>
class MatrixSetDiag : public Diagonals {
 public:
  using Diagonals::Diagonals;
  void compute(Context& context) const override {
    const View input = context.input(0);
    const View given = context.input(1);
    const Band band = kGeneral ? this->band(context, 2) : Band();
    if (!context.ok()) return;
    if (!has(input, band) || shape_of_band(input, band) != shape_of(given)) {
      return context.fail_invalid(std::string(op()) + ": diagonals of shape " + to_text(given) +
                                  " do not fit diagonals " + std::to_string(band.lowest) + " to " +
                                  std::to_string(band.highest) + " of matrices of shape " + to_text(input));
    }
    const int candidate = 0;
    const View output = context.forwarded_output(0, input.dtype, input.shape, input.rank, &candidate, 1);
    if (!context.ok() || output.elements() == 0) return;
    if (output.data != input.data) context.copy(input, output);
    copy<false>(context, output, given, band);
  }
};

// The elements of a square view (n, n) of dense memory that lie on its diagonal.
View diagonal_of_square(const View& square, int64_t n) {
  View result = square.reshaped({n});
  result.strides[0] = n + 1;
  return result;
}

// Diag(diagonal of any shape): a tensor of twice its axes.
class Diag : public Kernel {
 public:
  using Kernel::Kernel;
  void compute(Context& context) const override {
    const Shape dims = context.dims(0);
    const View diagonal = context.flat_input(0);
    if (!context.ok()) return;
    if (dims.empty()) return context.fail_invalid("Input must be at least rank 1, got 0");
    Shape shape = dims;
    shape.insert(shape.end(), dims.begin(), dims.end());
    const View output = context.flat_output(0, diagonal.dtype, shape);
    if (!context.ok() || output.elements() == 0) return;
    context.zero(output);
    context.copy(diagonal, diagonal_of_square(output, diagonal.elements()));
  }
};

// DiagPart(tensor of shape D + D): what lies on its diagonal, of shape D.
class DiagPart : public Kernel {
 public:
  using Kernel::Kernel;
  void compute(Context& context) const override {
    const Shape dims = context.dims(0);
    const View input = context.flat_input(0);
    if (!context.ok()) return;
    const size_t half = dims.size() / 2;
    if (dims.size() % 2 != 0 || !std::equal(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(half),
                                            dims.begin() + static_cast<std::ptrdiff_t>(half))) {
      return context.fail_invalid("The rank of the tensor should be even, and both halves of its shape the same, got " +
                                  to_text(dims));
    }
    const View output =
        context.flat_output(0, input.dtype, Shape(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(half)));
    if (context.ok() && output.elements() > 0) context.copy(diagonal_of_square(input, output.elements()), output);
  }
};

}  // namespace

void register_diagonal(Registrar& registrar) {
  registrar.add<Diag>("Diag", {{"T", kDiagonals}});
  registrar.add<DiagPart>("DiagPart", {{"T", kDiagonals}});
  registrar.add<MatrixDiag<false>>("BatchMatrixDiag", {{"T", kAll}});
  registrar.add<MatrixDiagPart<false>>("BatchMatrixDiagPart", {{"T", kAll}});
  registrar.add<MatrixSetDiag<false>>("BatchMatrixSetDiag", {{"T", kAll}});
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
