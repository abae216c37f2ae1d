// Solutions and factorizations of matrices, by blocks of rows and columns: kernels of our own take what lies on
// the diagonal (linear_algebra.cl), products the rest. What is factorized is a copy without gaps in the workspace, so
// that a matrix in place, strides and batches cost the kernels nothing.
//
// Diagonal blocks are solved by substitution, not multiplied by an inverse: the error of each element then stays
// within that of the textbook's algorithms, which conformance holds against it.
//
// Iterations (eigenvalues, singular values) have no kernels: the host's run, counted.
#include <algorithm>
#include <cstdint>

#include "csrc/backends/common/attributes.h"
#include "csrc/backends/common/dtype.h"
#include "csrc/kernels/gemm.h"
#include "csrc/kernels/layout.h"
#include "csrc/kernels/operands.h"
#include "csrc/kernels/ops.h"
#include "csrc/kernels/reduction.h"
#include "csrc/kernels/teams.h"
#include "csrc/kernels/views.h"
#include "kernel_sources.h"

namespace unihal::kernels {
namespace {

// Of a block. Panels of LU and QR are one group's work, which grows with their columns; what triangles need is not, but
// for matrices of so few rows a larger block is idle work-items and local memory.
constexpr int64_t kMostRows = 32;
constexpr int64_t kMostRowsOfTriangles = 64;
constexpr int64_t kPanelBlocks = 8;
constexpr int64_t kHeads = 16;

// -- views of matrices: the last two axes

int64_t rows_of(const uhal_tensor& view) { return view.shape[view.rank - 2]; }
int64_t triangle_rows(const uhal_tensor& view) { return rows_of(view) > kMostRows ? kMostRowsOfTriangles : kMostRows; }
int64_t columns_of(const uhal_tensor& view) { return view.shape[view.rank - 1]; }
int64_t row_step(const uhal_tensor& view) { return view.strides[view.rank - 2]; }
int64_t column_step(const uhal_tensor& view) { return view.strides[view.rank - 1]; }
bool is_empty(const uhal_tensor& view) {
  return std::find(view.shape, view.shape + view.rank, 0) != view.shape + view.rank;
}

// The view moved by a number of elements.
uhal_tensor moved(const uhal_tensor& view, int64_t elements) {
  uhal_tensor result = view;
  result.data = reinterpret_cast<void*>(reinterpret_cast<intptr_t>(view.data) + elements * dtype_size(view.dtype));
  return result;
}

uhal_tensor block_of(const uhal_tensor& view, int64_t row, int64_t column, int64_t rows, int64_t columns) {
  uhal_tensor result = moved(view, row * row_step(view) + column * column_step(view));
  result.shape[view.rank - 2] = rows;
  result.shape[view.rank - 1] = columns;
  return result;
}

uhal_tensor transposed(const uhal_tensor& view) {
  uhal_tensor result = view;
  std::swap(result.shape[view.rank - 2], result.shape[view.rank - 1]);
  std::swap(result.strides[view.rank - 2], result.strides[view.rank - 1]);
  return result;
}

// The rows from the last to the first; with `both` the columns, too: an upper triangle becomes a lower one.
uhal_tensor reversed(const uhal_tensor& view, bool both) {
  uhal_tensor result =
      moved(view, (rows_of(view) - 1) * row_step(view) + (both ? (columns_of(view) - 1) * column_step(view) : 0));
  result.strides[view.rank - 2] = -row_step(view);
  if (both) result.strides[view.rank - 1] = -column_step(view);
  return result;
}

// The batch axes, at the first element of each matrix.
uhal_tensor batches_of(const uhal_tensor& view) {
  uhal_tensor result = view;
  result.rank -= 2;
  return result;
}

// A view without gaps of `axes` axes of a view, at `data`.
uhal_tensor packed(void* data, uhal_dtype dtype, const uhal_tensor& like, int axes) {
  uhal_tensor result = like;
  result.data = data;
  result.dtype = dtype;
  result.rank = axes;
  int64_t stride = 1;
  for (int i = axes - 1; i >= 0; --i) {
    result.strides[i] = stride;
    stride *= result.shape[i];
  }
  return result;
}

// The same, with other matrices in the last two axes; `by_columns`: it is the columns that lie one after the other.
uhal_tensor packed_matrices(void* data, const uhal_tensor& like, int64_t rows, int64_t columns, bool by_columns) {
  uhal_tensor shape = like;
  shape.shape[like.rank - 2] = by_columns ? columns : rows;
  shape.shape[like.rank - 1] = by_columns ? rows : columns;
  const uhal_tensor result = packed(data, like.dtype, shape, like.rank);
  return by_columns ? transposed(result) : result;
}

// -- steps

// What an op submits, gone through twice: first to learn what the products need of the workspace, then to run.
class Steps {
 public:
  Steps(Queue& queue, uhal_dtype dtype, int64_t most_rows)
      : queue_(queue), traits_(queue.traits()), dtype_(dtype), compute_(compute_of(dtype)) {
    lanes_ = team_group_size(traits_);
    block_ = std::min<int64_t>(most_rows, lanes_);
    while (element_bytes() * block_ * block_ * 2 > traits_.local_memory) block_ /= 2;
  }

  int64_t block() const { return block_; }
  int32_t lanes() const { return lanes_; }
  Queue& queue() { return queue_; }
  bool measures() const { return measures_; }

  // Bytes of the workspace for a number of elements of these bytes, behind what was taken before.
  size_t take(int64_t count, int64_t bytes) {
    const size_t offset = own_bytes_;
    own_bytes_ += (static_cast<size_t>(count * bytes) + 255) / 256 * 256;
    return offset;
  }
  int64_t element_bytes() const { return dtype_size(dtype_); }
  void* at(size_t offset) const { return workspace_ + offset; }

  // Runs `submit`, which calls what follows.
  template <class Submit>
  uhal_status run(const Submit& submit) {
    measures_ = true;
    const uhal_status status = submit();
    if (status != UHAL_OK) return status;
    measures_ = false;
    if (own_bytes_ + product_bytes_ > 0) {
      void* block;
      const uhal_status given = queue_.workspace(own_bytes_ + product_bytes_, &block);
      if (given != UHAL_OK) return given;
      workspace_ = static_cast<char*>(block);
    }
    return submit();
  }

  uhal_status copy(const uhal_tensor& from, const uhal_tensor& to) {
    return measures_ || is_empty(to) ? UHAL_OK : copy_views(queue_, from, to);
  }

  // x = a^-1 x for the lower triangle of a, in which there are at most block() rows.
  uhal_status solve_block(const uhal_tensor& a, const uhal_tensor& x, bool unit, bool conjugate) {
    if (measures_) return UHAL_OK;
    const uhal_tensor x_batches = batches_of(x), a_batches = batches_of(a);
    const uhal_tensor* views[] = {&x_batches, &a_batches};
    const Space space = make_space(views, 2);
    // A triangle and a tile of it fit 32 KiB in any dtype.
    int32_t columns = std::min(lanes_, element_bytes() == 4 ? 64 : 32);
    while (element_bytes() * block_ * (block_ + columns) > traits_.local_memory) columns /= 2;
    const int64_t tiles = (columns_of(x) + columns - 1) / columns;
    LayoutKind kind = layout_kind(space);
    kind.wide |= !fits_32_bits(a) || !fits_32_bits(x) || !fits_32_bits(space.count * tiles);
    KernelSpec spec = this->spec("solve_block", "OF_SOLVE_BLOCK", columns);
    kind.define(spec);
    Arguments arguments;
    arguments.pointer(a.data).pointer(x.data);
    append_layout(arguments, space, kind);
    for (int64_t value : {columns_of(x), tiles, row_step(a), column_step(a), row_step(x), column_step(x)}) {
      append_index(arguments, value, kind.wide);
    }
    arguments.int32(static_cast<int32_t>(rows_of(x))).int32(unit).int32(conjugate);
    return queue_.run(spec, arguments, groups(space.count * tiles, columns));
  }

  // What becomes of c, and which factor is conjugated; real ones are as they are.
  enum Product { kStore, kSubtract };
  enum Conjugate { kNone, kA, kB };

  // c = a @ b, or c - a @ b.
  uhal_status multiply(const uhal_tensor& a, const uhal_tensor& b, const uhal_tensor& c, Product product,
                       Conjugate conjugate) {
    if (is_empty(c)) return UHAL_OK;
    if (computes_complex(compute_)) return measures_ ? UHAL_OK : multiply_complex(a, b, c, product, conjugate);
    const bool subtracts = product == kSubtract;
    const uhal_matmul_attributes attributes = {sizeof attributes, subtracts ? -1.0 : 1.0, subtracts ? 1.0 : 0.0,
                                               UHAL_ACTIVATION_NONE, UHAL_MATH_STRICT};
    const Gemm gemm(traits_, matmul_problem(attributes, a, b, subtracts ? &c : nullptr, c));
    if (measures_) {
      product_bytes_ = std::max(product_bytes_, gemm.workspace_bytes());
      return UHAL_OK;
    }
    return gemm.run(queue_, gemm.workspace_bytes() != 0 ? workspace_ + own_bytes_ : nullptr);
  }

  KernelSpec spec(const char* entry, const char* part, int32_t lanes) const {
    KernelSpec spec(sources::linear_algebra, entry);
    spec.define(part, 1).define("BLOCK", block_).define("LANES", lanes);
    spec.define("HEADS", std::min<int64_t>(kHeads, lanes));
    return spec.compute(compute_).dtype("X", dtype_);
  }

  static Grid groups(int64_t count, int32_t size) {
    Grid grid;
    grid.groups[0] = count;
    grid.group_size[0] = size;
    return grid;
  }

 private:
  uhal_status multiply_complex(const uhal_tensor& a, const uhal_tensor& b, const uhal_tensor& c, Product product,
                               Conjugate conjugate) {
    const uhal_tensor batches[] = {batches_of(c), batches_of(a), batches_of(b)};
    const uhal_tensor* views[] = {&batches[0], &batches[1], &batches[2]};
    const Space space = make_space(views, 3);
    const int64_t tile = lanes_ >= 256 ? 16 : lanes_ >= 64 ? 8 : 1;
    const int64_t tiles_m = (rows_of(c) + tile - 1) / tile, tiles_n = (columns_of(c) + tile - 1) / tile;
    LayoutKind kind = layout_kind(space);
    kind.wide |= !fits_32_bits(space.count * tiles_m * tiles_n);
    for (const uhal_tensor* view : {&a, &b, &c}) kind.wide |= !fits_32_bits(*view);
    KernelSpec spec = this->spec("product_blocks", "OF_PRODUCT_BLOCKS", lanes_);
    spec.define("TILE", tile);
    kind.define(spec);
    const int64_t shape[] = {rows_of(c),     columns_of(c), columns_of(a),  tiles_m,     tiles_n,       row_step(a),
                             column_step(a), row_step(b),   column_step(b), row_step(c), column_step(c)};
    Arguments arguments;
    arguments.pointer(a.data).pointer(b.data).pointer(c.data);
    append_layout(arguments, space, kind);
    append_indices(arguments, shape, 11, kind.wide);
    arguments.int32(conjugate == kA).int32(conjugate == kB).int32(product == kSubtract);
    return queue_.run(spec, arguments, groups(space.count * tiles_m * tiles_n, static_cast<int32_t>(tile * tile)));
  }

  Queue& queue_;
  const DeviceTraits& traits_;
  const uhal_dtype dtype_;
  const Compute compute_;
  int32_t lanes_;  // work-items of the groups that take a matrix each
  int64_t block_;
  bool measures_ = true;
  size_t own_bytes_ = 0;
  size_t product_bytes_ = 0;
  // Before there is one products are measured with addresses aligned as a workspace's are.
  char* workspace_ = reinterpret_cast<char*>(size_t{1} << 20);
};

#define UNIHAL_RETURN_UNLESS_OK(expression)                           \
  do {                                                                \
    if (const uhal_status status = (expression); status != UHAL_OK) { \
      return status;                                                  \
    }                                                                 \
  } while (0)

// Zeros for matrices that have nothing to be wrong.
uhal_status fill_numbers(Steps& steps, const uhal_tensor* info) {
  if (info == nullptr || steps.measures() || is_empty(*info)) return UHAL_OK;
  return fill_view(steps.queue(), 0, 0, *info);
}

// -- triangular systems

uhal_status find_zeros(Steps& steps, const uhal_tensor& a, const uhal_tensor& info) {
  if (steps.measures() || is_empty(info)) return UHAL_OK;
  const uhal_tensor batches = batches_of(a);
  const uhal_tensor* views[] = {&info, &batches};
  const Space space = make_space(views, 2);
  LayoutKind kind = layout_kind(space);
  kind.wide |= !fits_32_bits(a);
  KernelSpec spec = steps.spec("first_zero", "OF_FIRST_ZERO", steps.lanes());
  kind.define(spec);
  Arguments arguments;
  arguments.pointer(a.data).pointer(info.data);
  append_layout(arguments, space, kind);
  append_index(arguments, rows_of(a), kind.wide);
  append_index(arguments, row_step(a) + column_step(a), kind.wide);
  return steps.queue().run(spec, arguments, Steps::groups(space.count, steps.lanes()));
}

// x = a^-1 x, block by block of a's rows from the top.
uhal_status solve_lower(Steps& steps, const uhal_tensor& a, const uhal_tensor& x, bool unit, bool conjugate) {
  const int64_t n = rows_of(x), columns = columns_of(x);
  for (int64_t first = 0; first < n; first += steps.block()) {
    const int64_t size = std::min(steps.block(), n - first), rest = n - first - size;
    const uhal_tensor solved = block_of(x, first, 0, size, columns);
    UNIHAL_RETURN_UNLESS_OK(steps.solve_block(block_of(a, first, first, size, size), solved, unit, conjugate));
    UNIHAL_RETURN_UNLESS_OK(steps.multiply(block_of(a, first + size, first, rest, size), solved,
                                           block_of(x, first + size, 0, rest, columns), Steps::kSubtract,
                                           conjugate ? Steps::kA : Steps::kNone));
  }
  return UHAL_OK;
}

// -- Cholesky

// The columns [from, to) of l, down from their diagonals and a little above, less what the columns [first, from) make
// of them: rows times rows.
uhal_status subtract_square(Steps& steps, const uhal_tensor& l, int64_t first, int64_t from, int64_t to) {
  const int64_t n = rows_of(l);
  for (int64_t column = from; column < to;) {
    const int64_t width = std::min(std::max<int64_t>(kPanelBlocks * steps.block(), (n - column) / 8), to - column);
    UNIHAL_RETURN_UNLESS_OK(steps.multiply(block_of(l, column, first, n - column, from - first),
                                           transposed(block_of(l, column, first, width, from - first)),
                                           block_of(l, column, column, n - column, width), Steps::kSubtract,
                                           Steps::kB));
    column += width;
  }
  return UHAL_OK;
}

// In the lower triangles of packed matrices. Blocks are joined to panels, so that most of the work is products of
// kPanelBlocks blocks' depth.
uhal_status factorize_cholesky(Steps& steps, const uhal_tensor& l, void* info) {
  const int64_t n = rows_of(l), matrices = element_count(batches_of(l)), panel_columns = kPanelBlocks * steps.block();
  const bool wide = !fits_32_bits(matrices * n * n + 256);
  for (int64_t first = 0; first < n; first += steps.block()) {
    const int64_t size = std::min(steps.block(), n - first), rest = n - first - size;
    if (!steps.measures()) {
      KernelSpec spec = steps.spec("cholesky_block", "OF_CHOLESKY_BLOCK", steps.lanes());
      spec.define("UHAL_WIDE_INDEX", wide).define("UHAL_RANK", 4);
      Arguments arguments;
      arguments.pointer(l.data).pointer(info);
      append_index(arguments, n, wide);
      append_index(arguments, first, wide);
      arguments.int32(static_cast<int32_t>(size));
      UNIHAL_RETURN_UNLESS_OK(
          steps.queue().run(spec, arguments, Steps::groups(matrices, static_cast<int32_t>(steps.block()))));
    }
    if (rest == 0) break;
    // What is below the block, b: x with x l^H = b, so conj(l) x^T = b^T.
    const uhal_tensor below = block_of(l, first + size, first, rest, size);
    UNIHAL_RETURN_UNLESS_OK(steps.solve_block(block_of(l, first, first, size, size), transposed(below), false, true));
    // Of what is right of it: the panel's own columns at once, all others when the panel is complete.
    const int64_t next = first + size, panel = first / panel_columns * panel_columns;
    const int64_t panel_end = std::min(panel + panel_columns, n);
    const bool complete = next == panel_end;
    UNIHAL_RETURN_UNLESS_OK(subtract_square(steps, l, complete ? panel : first, next, complete ? n : panel_end));
  }
  if (steps.measures()) return UHAL_OK;
  KernelSpec spec = steps.spec("finish_cholesky", "OF_CHOLESKY_BLOCK", steps.lanes());
  spec.define("UHAL_WIDE_INDEX", wide).define("UHAL_RANK", 4);
  Arguments arguments;
  arguments.pointer(l.data).pointer(info);
  append_index(arguments, n, wide);
  append_index(arguments, matrices * n * n, wide);
  return steps.queue().run(spec, arguments, linear_grid(matrices * n * n, steps.lanes()));
}

// -- LU

// What an LU factorization works on: packed matrices in columns, and behind each other their numbers.
struct LuPlace {
  uhal_tensor lu;  // (batches..., m, n), of which columns are without gaps
  uhal_tensor pivots;
  uhal_tensor order;
  uhal_tensor info;
};

uhal_status factorize_lu(Steps& steps, const LuPlace& place, bool with_order) {
  const uhal_tensor& lu = place.lu;
  const int64_t m = rows_of(lu), n = columns_of(lu), most = std::min(m, n), matrices = element_count(batches_of(lu));
  const bool wide = !fits_32_bits(matrices * std::max(m, n) * (n + 1) + 256);
  const auto spec = [&](const char* entry) {
    KernelSpec spec = steps.spec(entry, "OF_LU_PANEL", steps.lanes());
    return spec.define("UHAL_WIDE_INDEX", wide).define("UHAL_RANK", 4);
  };
  if (with_order && !steps.measures()) {
    Arguments arguments;
    arguments.pointer(place.order.data);
    append_index(arguments, m, wide);
    append_index(arguments, matrices * m, wide);
    UNIHAL_RETURN_UNLESS_OK(
        steps.queue().run(spec("number_rows"), arguments, linear_grid(matrices * m, steps.lanes())));
  }
  for (int64_t first = 0; first < most; first += steps.block()) {
    const int64_t size = std::min(steps.block(), most - first);
    const int64_t below = m - first - size, right = n - first - size;
    if (!steps.measures()) {
      Arguments panel;
      panel.pointer(lu.data).pointer(place.pivots.data).pointer(place.info.data);
      for (int64_t value : {m, n, most, first}) append_index(panel, value, wide);
      panel.int32(static_cast<int32_t>(size));
      UNIHAL_RETURN_UNLESS_OK(steps.queue().run(spec("lu_panel"), panel, Steps::groups(matrices, steps.lanes())));
      const int64_t count = matrices * (n - size + (with_order ? 1 : 0));
      if (count > 0) {
        Arguments others;
        others.pointer(lu.data).pointer(place.pivots.data).pointer(place.order.data);
        for (int64_t value : {m, n, most, first, count}) append_index(others, value, wide);
        others.int32(static_cast<int32_t>(size)).int32(with_order);
        UNIHAL_RETURN_UNLESS_OK(steps.queue().run(spec("exchange_rows"), others, linear_grid(count, steps.lanes())));
      }
    }
    if (right == 0) continue;
    const uhal_tensor upper = block_of(lu, first, first + size, size, right);
    UNIHAL_RETURN_UNLESS_OK(steps.solve_block(block_of(lu, first, first, size, size), upper, true, false));
    UNIHAL_RETURN_UNLESS_OK(steps.multiply(block_of(lu, first + size, first, below, size), upper,
                                           block_of(lu, first + size, first + size, below, right), Steps::kSubtract,
                                           Steps::kNone));
  }
  return UHAL_OK;
}

// -- QR

// On matrices that lie in columns.
class QrFactorization {
 public:
  QrFactorization(Steps& steps, const uhal_tensor& a, int64_t q_columns)
      : steps_(steps),
        like_(a),
        m_(rows_of(a)),
        n_(columns_of(a)),
        most_(std::min(m_, n_)),
        q_columns_(q_columns),
        matrices_(element_count(batches_of(a))),
        wide_(!fits_32_bits(matrices_ * (m_ + steps.block()) * (std::max(m_, n_) + steps.block()) + 256)) {
    const int64_t block = steps.block(), panels = (most_ + block - 1) / block, bytes = steps.element_bytes();
    a_ = steps.take(matrices_ * m_ * n_, bytes);
    q_ = steps.take(matrices_ * m_ * q_columns, bytes);
    taus_ = steps.take(matrices_ * most_, bytes);
    v_ = steps.take(matrices_ * m_ * block, bytes);
    gram_ = steps.take(matrices_ * block * block, bytes);
    factors_ = steps.take(panels * matrices_ * block * block, bytes);
    for (size_t& product : products_) product = steps.take(matrices_ * block * std::max(n_, q_columns), bytes);
  }

  uhal_tensor a() const { return packed_matrices(steps_.at(a_), like_, m_, n_, true); }
  uhal_tensor q() const { return packed_matrices(steps_.at(q_), like_, m_, q_columns_, true); }

  // a becomes r and, below its diagonal, the reflections.
  uhal_status factorize() {
    for (int64_t first = 0; first < most_; first += steps_.block()) {
      const int64_t size = std::min(steps_.block(), most_ - first), right = n_ - first - size;
      UNIHAL_RETURN_UNLESS_OK(reflect(first, size));
      if (right == 0 && q_columns_ == 0) continue;
      UNIHAL_RETURN_UNLESS_OK(spread(first, size));
      UNIHAL_RETURN_UNLESS_OK(join(first, size));
      UNIHAL_RETURN_UNLESS_OK(apply(first, size, block_of(a(), first, first + size, m_ - first, right), true));
    }
    return UHAL_OK;
  }

  // q = the product of the reflections, from the last panel to the first.
  uhal_status form_q() {
    UNIHAL_RETURN_UNLESS_OK(fill_identity(steps_, q()));
    const int64_t block = steps_.block();
    for (int64_t first = (most_ - 1) / block * block; first >= 0; first -= block) {
      const int64_t size = std::min(block, most_ - first);
      UNIHAL_RETURN_UNLESS_OK(spread(first, size));
      UNIHAL_RETURN_UNLESS_OK(apply(first, size, block_of(q(), first, first, m_ - first, q_columns_ - first), false));
    }
    return UHAL_OK;
  }

  uhal_status clear_reflections() {
    if (steps_.measures()) return UHAL_OK;
    Arguments arguments;
    arguments.pointer(steps_.at(a_));
    for (int64_t value : {m_, n_, matrices_ * m_ * n_}) append_index(arguments, value, wide_);
    return steps_.queue().run(spec("clear_below"), arguments, linear_grid(matrices_ * m_ * n_, steps_.lanes()));
  }

  // Ones on the diagonal of a view of matrices, zeros elsewhere.
  static uhal_status fill_identity(Steps& steps, const uhal_tensor& view) {
    if (steps.measures() || is_empty(view)) return UHAL_OK;
    UNIHAL_RETURN_UNLESS_OK(fill_view(steps.queue(), 0, 0, view));
    uhal_tensor diagonal = view;
    --diagonal.rank;
    diagonal.shape[view.rank - 2] = std::min(rows_of(view), columns_of(view));
    diagonal.strides[view.rank - 2] = row_step(view) + column_step(view);
    return fill_view(steps.queue(), 1, 1, diagonal);
  }

 private:
  KernelSpec spec(const char* entry) const {
    KernelSpec spec = steps_.spec(entry, "OF_QR_PANEL", steps_.lanes());
    return spec.define("UHAL_WIDE_INDEX", wide_).define("UHAL_RANK", 4);
  }

  uhal_tensor v(int64_t first, int64_t size) const {
    return packed_matrices(steps_.at(v_), like_, m_ - first, size, true);
  }

  // Matrices in a block each, of which `size` rows and columns are in use.
  uhal_tensor blocks(size_t offset, int64_t size) const {
    return block_of(packed_matrices(steps_.at(offset), like_, steps_.block(), steps_.block(), false), 0, 0, size, size);
  }

  size_t factor_at(int64_t first) const {
    return factors_ + static_cast<size_t>(first / steps_.block() * matrices_ * steps_.block() * steps_.block() *
                                          steps_.element_bytes());
  }

  uhal_status reflect(int64_t first, int64_t size) {
    if (steps_.measures()) return UHAL_OK;
    Arguments arguments;
    arguments.pointer(steps_.at(a_)).pointer(steps_.at(taus_));
    for (int64_t value : {m_, n_, most_, first}) append_index(arguments, value, wide_);
    arguments.int32(static_cast<int32_t>(size));
    return steps_.queue().run(spec("qr_panel"), arguments, Steps::groups(matrices_, steps_.lanes()));
  }

  uhal_status spread(int64_t first, int64_t size) {
    if (steps_.measures()) return UHAL_OK;
    const int64_t count = matrices_ * size * (m_ - first);
    Arguments arguments;
    arguments.pointer(steps_.at(a_)).pointer(steps_.at(v_));
    for (int64_t value : {m_, n_, first, count}) append_index(arguments, value, wide_);
    arguments.int32(static_cast<int32_t>(size));
    return steps_.queue().run(spec("spread_reflections"), arguments, linear_grid(count, steps_.lanes()));
  }

  uhal_status join(int64_t first, int64_t size) {
    const uhal_tensor reflections = v(first, size);
    UNIHAL_RETURN_UNLESS_OK(
        steps_.multiply(transposed(reflections), reflections, blocks(gram_, size), Steps::kStore, Steps::kA));
    if (steps_.measures()) return UHAL_OK;
    Arguments arguments;
    arguments.pointer(steps_.at(gram_)).pointer(steps_.at(taus_)).pointer(steps_.at(factor_at(first)));
    for (int64_t value : {most_, first}) append_index(arguments, value, wide_);
    arguments.int32(static_cast<int32_t>(size));
    return steps_.queue().run(spec("join_reflections"), arguments,
                              Steps::groups(matrices_, static_cast<int32_t>(steps_.block())));
  }

  // x = x - v t v^H x, or with t^H.
  uhal_status apply(int64_t first, int64_t size, const uhal_tensor& x, bool adjoint) {
    const uhal_tensor reflections = v(first, size), t = blocks(factor_at(first), size);
    const uhal_tensor heads = packed_matrices(steps_.at(products_[0]), like_, size, columns_of(x), true);
    const uhal_tensor turned = packed_matrices(steps_.at(products_[1]), like_, size, columns_of(x), true);
    UNIHAL_RETURN_UNLESS_OK(steps_.multiply(transposed(reflections), x, heads, Steps::kStore, Steps::kA));
    UNIHAL_RETURN_UNLESS_OK(
        steps_.multiply(adjoint ? transposed(t) : t, heads, turned, Steps::kStore, adjoint ? Steps::kA : Steps::kNone));
    return steps_.multiply(reflections, turned, x, Steps::kSubtract, Steps::kNone);
  }

  Steps& steps_;
  const uhal_tensor like_;
  const int64_t m_, n_, most_, q_columns_, matrices_;
  const bool wide_;
  size_t a_, q_, taus_, v_, gram_, factors_, products_[2];  // in the workspace
};

const char* refuse_without_kernel(const char* what) { return refusal("there is no kernel for %s yet", what); }

}  // namespace

const char* refuse_triangular_solve(const DeviceTraits&, const uhal_op&) { return nullptr; }

uhal_status run_triangular_solve(Queue& queue, const uhal_op& op) {
  const uhal_tensor& b = *op.inputs[1];
  const auto attributes =
      attributes_or(op, uhal_triangular_solve_attributes{sizeof(uhal_triangular_solve_attributes), 0, 0, 0, 0});
  const bool unit = attributes.unit_diagonal != 0;
  const bool conjugate = attributes.conjugate != 0 && is_complex(b.dtype);
  const uhal_tensor* info = output_of(op, 1);
  Steps steps(queue, b.dtype, triangle_rows(b));
  return steps.run([&]() -> uhal_status {
    if (info != nullptr) {
      UNIHAL_RETURN_UNLESS_OK(unit ? fill_numbers(steps, info) : find_zeros(steps, *op.inputs[0], *info));
    }
    uhal_tensor a = *op.inputs[0], x = *op.outputs[0];
    if (is_empty(x)) return UHAL_OK;
    if (x.data != b.data) UNIHAL_RETURN_UNLESS_OK(steps.copy(b, x));
    if (attributes.upper != 0) {
      a = reversed(a, true);
      x = reversed(x, false);
    }
    return solve_lower(steps, a, x, unit, conjugate);
  });
}

const char* refuse_cholesky(const DeviceTraits&, const uhal_op&) { return nullptr; }

uhal_status run_cholesky(Queue& queue, const uhal_op& op) {
  const bool upper = attributes_or(op, uhal_triangle_attributes{sizeof(uhal_triangle_attributes), 0, 0}).upper != 0;
  // An upper triangle, transposed, is the lower one of conj(a), whose factor, transposed, is the upper one of a.
  const uhal_tensor a = upper ? transposed(*op.inputs[0]) : *op.inputs[0];
  const uhal_tensor l = upper ? transposed(*op.outputs[0]) : *op.outputs[0];
  const uhal_tensor* info = output_of(op, 1);
  Steps steps(queue, a.dtype, triangle_rows(a));
  const int axes = a.rank - 2;
  const size_t matrices = steps.take(element_count(a), steps.element_bytes());
  const size_t numbers = steps.take(element_count(batches_of(a)), 4);
  return steps.run([&]() -> uhal_status {
    if (is_empty(l)) return fill_numbers(steps, info);
    const uhal_tensor work = packed(steps.at(matrices), a.dtype, a, a.rank);
    UNIHAL_RETURN_UNLESS_OK(steps.copy(a, work));
    UNIHAL_RETURN_UNLESS_OK(factorize_cholesky(steps, work, steps.at(numbers)));
    UNIHAL_RETURN_UNLESS_OK(steps.copy(work, l));
    return info == nullptr ? UHAL_OK : steps.copy(packed(steps.at(numbers), UHAL_INT32, a, axes), *info);
  });
}

const char* refuse_lu(const DeviceTraits&, const uhal_op&) { return nullptr; }

uhal_status run_lu(Queue& queue, const uhal_op& op) {
  const uhal_tensor& a = *op.inputs[0];
  const uhal_tensor& lu = *op.outputs[0];
  const uhal_tensor& pivots = *op.outputs[1];
  const uhal_tensor* permutation = output_of(op, 2);
  const uhal_tensor* info = output_of(op, 3);
  Steps steps(queue, a.dtype, kMostRows);
  const int axes = a.rank - 2;
  const int64_t matrices = element_count(batches_of(a));
  const size_t columns = steps.take(element_count(a), steps.element_bytes());
  const size_t places[] = {steps.take(element_count(pivots), 4), steps.take(matrices * rows_of(a), 4),
                           steps.take(matrices, 4)};
  return steps.run([&]() -> uhal_status {
    uhal_tensor order = a;  // its first axes are the permutation's
    order.rank = axes + 1;
    const LuPlace place = {packed_matrices(steps.at(columns), a, rows_of(a), columns_of(a), true),
                           packed(steps.at(places[0]), UHAL_INT32, pivots, pivots.rank),
                           packed(steps.at(places[1]), UHAL_INT32, order, order.rank),
                           packed(steps.at(places[2]), UHAL_INT32, a, axes)};
    if (is_empty(a)) {
      UNIHAL_RETURN_UNLESS_OK(fill_numbers(steps, info));
      if (permutation == nullptr || is_empty(*permutation) || steps.measures()) return UHAL_OK;
    }
    UNIHAL_RETURN_UNLESS_OK(steps.copy(a, place.lu));
    UNIHAL_RETURN_UNLESS_OK(factorize_lu(steps, place, permutation != nullptr));
    UNIHAL_RETURN_UNLESS_OK(steps.copy(place.lu, lu));
    UNIHAL_RETURN_UNLESS_OK(steps.copy(place.pivots, pivots));
    if (permutation != nullptr) UNIHAL_RETURN_UNLESS_OK(steps.copy(place.order, *permutation));
    return info == nullptr || is_empty(a) ? UHAL_OK : steps.copy(place.info, *info);
  });
}

const char* refuse_qr(const DeviceTraits&, const uhal_op&) { return nullptr; }

uhal_status run_qr(Queue& queue, const uhal_op& op) {
  const uhal_tensor& a = *op.inputs[0];
  const uhal_tensor& r = *op.outputs[0];
  const uhal_tensor* q = output_of(op, 1);
  Steps steps(queue, a.dtype, kMostRows);
  QrFactorization factorization(steps, a, q != nullptr ? columns_of(*q) : 0);
  return steps.run([&]() -> uhal_status {
    if (is_empty(a)) return q == nullptr ? UHAL_OK : QrFactorization::fill_identity(steps, *q);
    UNIHAL_RETURN_UNLESS_OK(steps.copy(a, factorization.a()));
    UNIHAL_RETURN_UNLESS_OK(factorization.factorize());
    if (q != nullptr) {
      UNIHAL_RETURN_UNLESS_OK(factorization.form_q());
      UNIHAL_RETURN_UNLESS_OK(steps.copy(factorization.q(), *q));
    }
    UNIHAL_RETURN_UNLESS_OK(factorization.clear_reflections());
    return steps.copy(block_of(factorization.a(), 0, 0, rows_of(r), columns_of(r)), r);
  });
}

#define UNIHAL_NO_KERNEL(family, what)                                                                     \
  const char* refuse_##family(const DeviceTraits&, const uhal_op&) { return refuse_without_kernel(what); } \
  uhal_status run_##family(Queue&, const uhal_op&) { return fail(UHAL_INTERNAL, what " has no kernel"); }

UNIHAL_NO_KERNEL(eigen_symmetric, "eigen_symmetric")
UNIHAL_NO_KERNEL(svd, "svd")
UNIHAL_NO_KERNEL(eigen, "eigen")

#undef UNIHAL_NO_KERNEL
#undef UNIHAL_RETURN_UNLESS_OK

}  // namespace unihal::kernels
