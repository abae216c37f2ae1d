#include "csrc/kernels/gemm.h"

#include <algorithm>
#include <cstdlib>

#include "csrc/backends/common/quotient.h"
#include "csrc/kernels/map_chain.h"
#include "csrc/kernels/map_function.h"
#include "csrc/kernels/operands.h"
#include "csrc/kernels/ops.h"
#include "csrc/kernels/tuning.h"
#include "csrc/kernels/views.h"
#include "kernel_sources.h"

namespace unihal::kernels {
namespace {

// How gemm_tile.cl reads an operand.
constexpr int32_t kAlongK = 1;
constexpr int32_t kWide = 2;

// Products with fewer multiplications, or sums shorter than this, are computed element by element.
constexpr int64_t kPlainWork = 8192;
constexpr int64_t kPlainLength = 8;
// As are those with so few elements, unless their sums are long.
constexpr int64_t kPlainElements = 64;
constexpr int64_t kPlainElementsLength = 256;

// Elements of k that a work-item of gemm_vector.cl should have to itself.
constexpr int64_t kVectorTerms = 16;
// Groups per unit of the device that keep its memory busy.
constexpr int64_t kVectorGroups = 4;
constexpr int32_t kVectorLanes = 4;

constexpr int32_t kGroupSize = 256;

// Numbers of candidates: tiles come between.
constexpr int32_t kLibraryWay = 0;
int32_t vector_way() { return 1 + kGemmTileCount; }

// BLOCK_N of gemm_block.cl.
constexpr int64_t kBlockColumns = 32;

Compute product_compute(const MatmulProblem& problem) {
  bool floating = false;
  for (const MatmulOperand& operand : problem.operands) {
    if (operand.dtype == UHAL_FLOAT64) return Compute::kDouble;
    floating |= is_floating(operand.dtype);
  }
  return floating ? Compute::kFloat : Compute::kInt64;
}

bool needs_wide_index(const MatmulProblem& problem) {
  const auto reaches = [&](int operand, int64_t rows, int64_t columns) {
    const MatmulOperand& matrix = problem.operands[operand];
    int64_t reach = std::abs(matrix.row_stride) * rows + std::abs(matrix.column_stride) * columns;
    for (int i = 0; i < problem.batch_rank; ++i) reach += std::abs(matrix.batch_strides[i]) * problem.batch[i];
    return !fits_32_bits(reach);
  };
  return !fits_32_bits(problem.m * problem.n * problem.batch_count()) || !fits_32_bits(problem.k) ||
         reaches(kMatmulA, problem.m, problem.k) || reaches(kMatmulB, problem.k, problem.n) ||
         reaches(kMatmulC, problem.m, problem.n) || reaches(kMatmulD, problem.m, problem.n);
}

// Whether an operand is walked along k, by its strides along its rows (m of a, n of b) and along k.
bool runs_along_k(int64_t row_stride, int64_t depth_stride) {
  return depth_stride == 1 || (row_stride != 1 && std::abs(depth_stride) < std::abs(row_stride));
}

int32_t mode_of(const MatmulProblem& problem, const MatmulOperand& operand, int64_t row_stride, int64_t depth_stride) {
  const bool along_k = runs_along_k(row_stride, depth_stride);
  const int64_t other = along_k ? row_stride : depth_stride;
  bool wide = (along_k ? depth_stride : row_stride) == 1 && other % 4 == 0;
  for (int i = 0; i < problem.batch_rank; ++i) wide &= operand.batch_strides[i] % 4 == 0;
  wide &= reinterpret_cast<uintptr_t>(operand.data) % static_cast<uintptr_t>(4 * dtype_size(operand.dtype)) == 0;
  return (along_k ? kAlongK : 0) | (wide ? kWide : 0);
}

// An operand of d's shape as a view.
uhal_tensor view_of(const MatmulProblem& problem, int number) {
  const MatmulOperand& operand = problem.operands[number];
  uhal_tensor view = {};
  view.struct_size = sizeof view;
  view.data = operand.data;
  view.dtype = operand.dtype;
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

}  // namespace

Gemm::Gemm(const DeviceTraits& traits, const MatmulProblem& problem, Padding padding) : problem_(problem) {
  MatmulOperand& c = problem_.operands[kMatmulC];
  if (problem_.beta == 0 || c.data == nullptr) {
    c = {};
    problem_.beta = 0;
  }
  if (!traits.has_tf32) problem_.math_mode = UHAL_MATH_STRICT;
  simplify(problem_);
  compute_ = product_compute(problem_);
  wide_ = needs_wide_index(problem_);
  group_size_ = std::min(kGroupSize, traits.max_group_size);
  const int64_t m = problem_.m;
  const int64_t n = problem_.n;
  const int64_t k = problem_.k;
  const int64_t batch = problem_.batch_count();
  if (m == 0 || n == 0 || batch == 0) {
    method_ = Method::kNothing;
  } else if (k < kPlainLength || m * n * k < kPlainWork || (m * n <= kPlainElements && k < kPlainElementsLength)) {
    method_ = Method::kPlain;
  } else {
    is_vector_ = (m == 1 || n == 1) && !traits.is_cpu && group_size_ >= kVectorLanes;
    if (is_vector_ ? n != 1 : n == 1) transpose(problem_);  // blocks are wider than high
    plan_large(traits, padding);
  }
}

void Gemm::plan_large(const DeviceTraits& traits, Padding padding) {
  const TuningChoice choice = chosen(traits);
  const GemmLibrary* library = traits.gemm_library;
  // A vector's product waits for memory, which no library has more of.
  const bool prefers_library = library != nullptr && library->is_preferred() && !is_vector_;
  const bool wants_library = choice.candidate < 0 ? prefers_library : choice.candidate == kLibraryWay;
  if (is_vector_) {
    plan_vector(traits);
  } else {
    plan_own(traits, choice.candidate - 1);
  }
  is_tunable_ = method_ != Method::kPlain && (!is_vector_ || library != nullptr);
  if (!wants_library || !find_library_share(traits, &share_)) return;
  own_method_ = method_;
  method_ = Method::kLibrary;
  algorithm_ = choice.algorithm;
  library_workspace_ = library->workspace_bytes();
  if (padding == Padding::kNever || !GemmPadding::is_large_enough(problem_)) return;
  const MatmulProblem given = library_problem(share_);
  const GemmPadding found(given, library->line_bytes(given));
  if (!found.is_needed()) return;
  padding_ = found;
  library_workspace_ += found.bytes();
}

void Gemm::plan_own(const DeviceTraits& traits, int32_t tile) {
  if (tile < 0 && traits.is_cpu) {
    method_ = Method::kBlock;
    return;
  }
  const GemmPlan plan = plan_gemm(traits, problem_, compute_bytes(compute_), tile);
  method_ = plan.tile < 0 ? Method::kPlain : Method::kTile;
  tile_ = plan.tile;
  splits_ = plan.splits;
}

TuningChoice Gemm::chosen(const DeviceTraits& traits) const {
  if (traits.tuning == nullptr || traits.tuning->is_empty()) return {};
  const TuningChoice choice = traits.tuning->find(tuning_key());
  return is_usable(traits, choice.candidate) ? choice : TuningChoice();
}

TuningKey Gemm::tuning_key() const {
  const MatmulOperand& a = problem_.operands[kMatmulA];
  const MatmulOperand& b = problem_.operands[kMatmulB];
  return TuningKey::gemm(problem_, runs_along_k(a.row_stride, a.column_stride),
                         runs_along_k(b.column_stride, b.row_stride));
}

std::string Gemm::candidate_name(const DeviceTraits& traits, int32_t number) {
  if (number > kLibraryWay && number < vector_way()) return kGemmTiles[number - 1].name();
  if (number == vector_way()) return "vector";
  const std::string library = traits.gemm_library != nullptr ? traits.gemm_library->name() : "vendor library";
  return number == kLibraryWay ? library : library + " #" + std::to_string(number - way_count() + 2);
}

bool Gemm::is_usable(const DeviceTraits& traits, int32_t way) const {
  if (way < 0 || way >= way_count()) return false;
  LibraryShare share;
  if (way == kLibraryWay) return traits.gemm_library != nullptr && find_library_share(traits, &share);
  if (is_vector_ || way == vector_way()) return is_vector_ && way == vector_way();
  return fits(kGemmTiles[way - 1], traits, compute_bytes(compute_));
}

bool Gemm::find_choice(const DeviceTraits& traits, int32_t number, TuningChoice* choice) const {
  const int32_t place = number - way_count() + 1;  // of the library's algorithms; the first is its way
  *choice = place > 0 ? kLibraryWay : number;
  if (!is_usable(traits, choice->candidate)) return false;
  if (place <= 0) return true;
  LibraryShare share;
  find_library_share(traits, &share);
  const MatmulProblem given = library_problem(share);
  const GemmPadding padding(given, traits.gemm_library->line_bytes(given));
  const MatmulProblem asked = padding.is_needed() ? padding.product(kSomewhere) : given;
  LibraryAlgorithm algorithms[kMostGemmAlgorithms];
  if (place >= traits.gemm_library->algorithms(asked, algorithms)) return false;
  choice->algorithm = algorithms[place];
  return true;
}

MatmulProblem Gemm::library_problem(const LibraryShare& share) const {
  MatmulProblem problem = problem_;
  if (share.copies_c) problem.operands[kMatmulC] = problem.operands[kMatmulD];
  if (share.adds_c) {
    problem.operands[kMatmulC] = {};
    problem.beta = 0;
  }
  if (share.activates) problem.activation = UHAL_ACTIVATION_NONE;
  return problem;
}

// The most that the library takes by itself, then what costs least beside it. Integers of ours wrap as 64 bits do, so
// nothing is done to them in between. What is narrower than the sum is rounded in between: in 16 bits op.h allows that
// before the activation.
bool Gemm::find_library_share(const DeviceTraits& traits, LibraryShare* share) const {
  const MatmulOperand& c = problem_.operands[kMatmulC];
  const MatmulOperand& d = problem_.operands[kMatmulD];
  const bool has_activation = problem_.activation != UHAL_ACTIVATION_NONE;
  const bool is_wide = d.dtype == (compute_ == Compute::kDouble ? UHAL_FLOAT64 : UHAL_FLOAT32);
  const bool may_round = is_wide || d.dtype == UHAL_FLOAT16 || d.dtype == UHAL_BFLOAT16;
  const bool can_activate =
      has_activation && compute_ != Compute::kInt64 && (may_round || commutes_with_rounding(problem_.activation));
  const bool has_other_c = problem_.beta != 0 && c.data != d.data;
  const bool can_add_c = has_other_c && problem_.beta == 1 && is_wide;
  const bool can_copy_c = has_other_c && c.dtype == d.dtype;
  const struct {
    bool is_possible;
    LibraryShare share;
  } rows[] = {
      {true, {}},
      {can_activate, {false, false, true}},
      {can_add_c, {false, true, has_activation}},
      {can_copy_c, {true, false, false}},
      {can_copy_c && can_activate, {true, false, true}},
  };
  for (const auto& row : rows) {
    if (!row.is_possible || !traits.gemm_library->takes(library_problem(row.share))) continue;
    *share = row.share;
    return true;
  }
  return false;
}

void Gemm::plan_vector(const DeviceTraits& traits) {
  method_ = Method::kVector;
  const MatmulOperand& a = problem_.operands[kMatmulA];
  along_k_ = runs_along_k(a.row_stride, a.column_stride);
  const int32_t long_lanes = std::max(1, group_size_ / kVectorLanes);
  lanes_k_ = along_k_ ? long_lanes : kVectorLanes;
  lanes_m_ = along_k_ ? kVectorLanes : long_lanes;
  const int64_t groups = quotient_up(problem_.m, lanes_m_) * problem_.batch_count();
  const int64_t wanted = quotient_up(kVectorGroups * traits.compute_units, groups);
  splits_ = static_cast<int32_t>(std::clamp<int64_t>(problem_.k / (lanes_k_ * kVectorTerms), 1, wanted));
}

size_t Gemm::workspace_bytes() const { return std::max(own_workspace_bytes(), library_workspace_); }

size_t Gemm::own_workspace_bytes() const {
  if (splits_ == 1) return 0;
  const int64_t elements = problem_.m * problem_.n * problem_.batch_count() * splits_;
  return static_cast<size_t>((elements * compute_bytes(compute_) + 255) / 256 * 256);
}

KernelSpec Gemm::spec(const Source& source) const {
  KernelSpec spec(source, source.name);  // entries have the names of their files
  spec.compute(compute_).define("UHAL_WIDE_INDEX", wide_);
  spec.define("UHAL_RANK", problem_.batch_rank <= 4 ? 4 : UHAL_MAX_RANK);
  const MatmulOperand* operands = problem_.operands;
  spec.dtype("A", operands[kMatmulA].dtype).dtype("B", operands[kMatmulB].dtype);
  spec.dtype("C", operands[operands[kMatmulC].data != nullptr ? kMatmulC : kMatmulD].dtype);
  spec.dtype("D", operands[kMatmulD].dtype);
  define_activation(spec, problem_.activation);
  return spec;
}

void Gemm::append_operands(Arguments& arguments) const {
  int64_t shape[3 + 2 * kMatmulOperands] = {problem_.m, problem_.n, problem_.k};
  Space batch;
  batch.operands = kMatmulOperands;
  batch.rank = problem_.batch_rank;
  for (int i = 0; i < problem_.batch_rank; ++i) batch.shape[i] = problem_.batch[i];
  for (int k = 0; k < kMatmulOperands; ++k) {
    const MatmulOperand& operand = problem_.operands[k];
    arguments.pointer(operand.data);
    shape[3 + 2 * k] = operand.row_stride;
    shape[4 + 2 * k] = operand.column_stride;
    for (int i = 0; i < problem_.batch_rank; ++i) batch.strides[k][i] = operand.batch_strides[i];
  }
  append_indices(arguments, shape, 3 + 2 * kMatmulOperands, wide_);
  append_layout(arguments, batch, {wide_, problem_.batch_rank <= 4 ? 4 : UHAL_MAX_RANK});
  arguments.real(problem_.alpha, compute_).real(problem_.beta, compute_);
}

uhal_status Gemm::run(Queue& queue, void* workspace) const {
  if (method_ != Method::kLibrary) return run_own(queue, method_, workspace);
  const uhal_status status = run_library(queue, workspace);
  return status == UHAL_UNIMPLEMENTED ? run_own(queue, own_method_, workspace) : status;
}

uhal_status Gemm::run_own(Queue& queue, Method method, void* workspace) const {
  switch (method) {
    case Method::kPlain:
      return run_plain(queue);
    case Method::kVector:
      return run_vector(queue, workspace);
    case Method::kBlock:
      return run_block(queue);
    case Method::kTile:
      return run_tile(queue, workspace);
    default:
      return UHAL_OK;
  }
}

uhal_status Gemm::run_library(Queue& queue, void* workspace) const {
  if (share_.copies_c) {
    const uhal_tensor d = view_of(problem_, kMatmulD);
    const uhal_tensor c = view_of(problem_, kMatmulC);
    const uhal_tensor* const input = &c;
    const uhal_tensor* const output = &d;
    uhal_op copy = {};
    copy.struct_size = sizeof copy;
    copy.kind = UHAL_OP_COPY;
    copy.input_count = copy.output_count = 1;
    copy.inputs = &input;
    copy.outputs = &output;
    if (const uhal_status status = run_copy(queue, copy); status != UHAL_OK) return status;
  }
  const uhal_status status =
      is_padded() ? run_padded(queue, workspace) : queue.library_gemm(library_problem(share_), algorithm_, workspace);
  return status == UHAL_OK ? finish_library(queue) : status;
}

uhal_status Gemm::run_padded(Queue& queue, void* workspace) const {
  const auto copy = [&](const uhal_tensor& from, const uhal_tensor& to) { return copy_views(queue, from, to); };
  const auto zero = [&](const uhal_tensor& view) { return fill_view(queue, 0, 0, view); };
  uhal_status status = padding_->prepare(workspace, copy, zero);
  if (status != UHAL_OK) return status;
  void* const rest = static_cast<char*>(workspace) + padding_->bytes();
  status = queue.library_gemm(padding_->product(workspace), algorithm_, rest);
  return status == UHAL_OK ? padding_->finish(workspace, copy) : status;
}

// d = activation(d + c), as far as that is ours.
uhal_status Gemm::finish_library(Queue& queue) const {
  if (!share_.adds_c && !share_.activates) return UHAL_OK;
  const uhal_tensor d = view_of(problem_, kMatmulD);
  const uhal_tensor c = view_of(problem_, kMatmulC);
  MapChain chain;
  int value = chain.input(d);
  if (share_.adds_c) {
    const int addend = chain.input(c);
    value = chain.step(uhal_map_add, {value, addend});
  }
  if (share_.activates) value = chain.step(activation_function(problem_.activation), {value});
  chain.output(value, d);
  return run_map_chain(queue, chain);
}

uhal_status Gemm::run_plain(Queue& queue) const {
  const int64_t count = problem_.m * problem_.n * problem_.batch_count();
  Arguments arguments;
  append_operands(arguments);
  append_index(arguments, count, wide_);
  note_implementation("gemm_plain");
  return queue.run(spec(sources::gemm_plain), arguments, linear_grid(count, group_size_));
}

uhal_status Gemm::run_vector(Queue& queue, void* workspace) const {
  KernelSpec vector = spec(sources::gemm_vector);
  vector.define("LANES_M", lanes_m_).define("LANES_K", lanes_k_).define("ALONG_K", along_k_);
  const int64_t groups_m = quotient_up(problem_.m, lanes_m_);
  const int64_t batch = problem_.batch_count();
  Arguments arguments;
  append_operands(arguments);
  arguments.pointer(workspace);
  append_index(arguments, groups_m, wide_);
  append_index(arguments, batch, wide_);
  append_index(arguments, splits_, wide_);
  append_index(arguments, quotient_up(problem_.k, splits_), wide_);
  Grid grid;
  grid.groups[0] = groups_m * batch * splits_;
  grid.group_size[0] = lanes_m_ * lanes_k_;
  note_implementation("gemm_vector");
  const uhal_status status = queue.run(vector, arguments, grid);
  return status == UHAL_OK ? join_splits(queue, workspace) : status;
}

uhal_status Gemm::run_block(Queue& queue) const {
  // A panel of b and a block of sums together are as large as the local memory that every device has.
  const int64_t rows = compute_bytes(compute_) == 4 ? 128 : 64;
  KernelSpec block = spec(sources::gemm_block);
  block.define("BLOCK_M", rows).define("BLOCK_K", rows);
  const int64_t blocks_m = quotient_up(problem_.m, rows);
  const int64_t blocks_n = quotient_up(problem_.n, kBlockColumns);
  Arguments arguments;
  append_operands(arguments);
  append_index(arguments, blocks_m, wide_);
  append_index(arguments, blocks_n, wide_);
  Grid grid;
  grid.groups[0] = blocks_m * blocks_n * problem_.batch_count();
  note_implementation("gemm_block");
  return queue.run(block, arguments, grid);
}

uhal_status Gemm::run_tile(Queue& queue, void* workspace) const {
  const GemmTile& tile = kGemmTiles[tile_];
  KernelSpec tiled = spec(sources::gemm_tile);
  tiled.define("TILE_M", tile.m).define("TILE_N", tile.n).define("TILE_K", tile.k);
  tiled.define("MICRO_M", tile.micro_m).define("MICRO_N", tile.micro_n);
  tiled.define("LANES_N", tile.lanes_n).define("BUFFERS", tile.buffers);
  tiled.define("COMPACT", !wide_ && keeps_to(tile, queue.traits().item_share, compute_bytes(compute_)));
  const MatmulOperand& a = problem_.operands[kMatmulA];
  const MatmulOperand& b = problem_.operands[kMatmulB];
  const int64_t tiles_m = quotient_up(problem_.m, tile.m);
  const int64_t tiles_n = quotient_up(problem_.n, tile.n);
  const int64_t batch = problem_.batch_count();
  const int64_t steps = quotient_up(quotient_up(problem_.k, tile.k), splits_);
  Arguments arguments;
  append_operands(arguments);
  arguments.pointer(workspace);
  append_index(arguments, tiles_m, wide_);
  append_index(arguments, tiles_n, wide_);
  append_index(arguments, batch, wide_);
  append_index(arguments, splits_, wide_);
  append_index(arguments, steps * tile.k, wide_);
  arguments.int32(mode_of(problem_, a, a.row_stride, a.column_stride));
  arguments.int32(mode_of(problem_, b, b.column_stride, b.row_stride));
  Grid grid;
  grid.groups[0] = tiles_m * tiles_n * batch * splits_;
  grid.group_size[0] = tile.threads();
  note_implementation("gemm_tile %dx%dx%d/%dx%d", tile.m, tile.n, tile.k, tile.micro_m, tile.micro_n);
  const uhal_status status = queue.run(tiled, arguments, grid);
  return status == UHAL_OK ? join_splits(queue, workspace) : status;
}

uhal_status Gemm::join_splits(Queue& queue, const void* workspace) const {
  if (splits_ == 1) return UHAL_OK;
  const int64_t count = problem_.m * problem_.n * problem_.batch_count();
  Arguments arguments;
  append_operands(arguments);
  arguments.pointer(workspace);
  append_index(arguments, count, wide_);
  append_index(arguments, splits_, wide_);
  return queue.run(spec(sources::gemm_join), arguments, linear_grid(count, group_size_));
}

}  // namespace unihal::kernels
