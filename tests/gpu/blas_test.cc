// Matrix products by the vendors' libraries: what is told to them of a product, on doubles that compute on host memory
// what they are told, and that whatever they refuse is left to our own kernels.
#include "csrc/backends/gpu/blas.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>

#include "csrc/backends/common/dtype.h"
#include "csrc/kernels/gemm.h"
#include "csrc/kernels/ops.h"
#include "csrc/kernels/tuning.h"
#include "tests/doubles/libraries_on_host/element.h"
#include "tests/gpu/library_fixture.h"

namespace unihal::gpu {
namespace {

int type_of(uhal_dtype dtype) {
  switch (dtype) {
    case UHAL_FLOAT64:
      return on_host::kDouble;
    case UHAL_FLOAT16:
      return on_host::kHalf;
    case UHAL_BFLOAT16:
      return on_host::kBfloat16;
    case UHAL_INT8:
      return on_host::kInt8;
    case UHAL_INT32:
      return on_host::kInt32;
    default:
      return on_host::kFloat;
  }
}

// Memory of small whole numbers: sums of their products are exact in every dtype.
class Buffer {
 public:
  Buffer(uhal_dtype dtype, int64_t elements, std::mt19937& random)
      : bytes_(static_cast<size_t>(elements) * dtype_size(dtype) + kAlignment) {
    for (int64_t i = 0; i < elements; ++i) {
      on_host::write(base(), i, type_of(dtype), static_cast<int>(random() % 4) - 1);
    }
  }

  unsigned char* base() {
    const auto address = reinterpret_cast<uintptr_t>(bytes_.data());
    return bytes_.data() + ((address + kAlignment - 1) / kAlignment * kAlignment - address);
  }
  size_t size() const { return bytes_.size() - kAlignment; }

 private:
  static constexpr size_t kAlignment = 256;
  std::vector<unsigned char> bytes_;
};

struct Dtypes {
  uhal_dtype input, output;
};
constexpr Dtypes kDtypes[] = {{UHAL_FLOAT32, UHAL_FLOAT32},   {UHAL_FLOAT64, UHAL_FLOAT64},
                              {UHAL_FLOAT16, UHAL_FLOAT16},   {UHAL_FLOAT16, UHAL_FLOAT32},
                              {UHAL_BFLOAT16, UHAL_BFLOAT16}, {UHAL_BFLOAT16, UHAL_FLOAT32}};

// A product of random shape and layout, and the memory of its operands.
class RandomProduct {
 public:
  explicit RandomProduct(unsigned seed) : random_(seed) {
    const Dtypes dtypes = kDtypes[pick(std::size(kDtypes))];
    problem.m = 1 + pick(9);
    problem.n = 1 + pick(9);
    problem.k = 1 + pick(12);
    problem.batch_rank = pick(3) == 0 ? 1 : 0;
    problem.batch[0] = 2 + pick(3);
    problem.alpha = pick(2) == 0 ? 1 : 2;
    add(kMatmulA, dtypes.input, problem.m, problem.k, pick(2) == 0, pick(4) == 0);
    add(kMatmulB, dtypes.input, problem.k, problem.n, pick(2) == 0, pick(4) == 0);
    add(kMatmulD, dtypes.output, problem.m, problem.n, true, false);
    switch (pick(4)) {
      case 0:  // the result itself
        problem.operands[kMatmulC] = problem.operands[kMatmulD];
        problem.beta = .5;
        break;
      case 1:  // another matrix
        add(kMatmulC, dtypes.output, problem.m, problem.n, true, pick(2) == 0);
        problem.beta = 2;
        break;
      case 2: {  // a row
        add(kMatmulC, dtypes.output, 1, problem.n, true, true);
        problem.operands[kMatmulC].row_stride = 0;
        problem.beta = 1;
        break;
      }
      default:
        break;
    }
    const bool is_half = dtypes.output == UHAL_FLOAT16 || dtypes.output == UHAL_BFLOAT16;
    if (is_half && pick(3) == 0) problem.activation = UHAL_ACTIVATION_GELU_TANH;
  }

  // What d's memory is to be afterwards.
  std::vector<unsigned char> expected() {
    Buffer& buffer = *buffers_[kMatmulD];
    std::vector<unsigned char> memory(buffer.base(), buffer.base() + buffer.size());
    const MatmulOperand& d = problem.operands[kMatmulD];
    const int64_t offset = static_cast<unsigned char*>(d.data) - buffer.base();
    std::vector<std::pair<int64_t, double>> results;
    for (int64_t batch = 0; batch < problem.batch_count(); ++batch) {
      for (int64_t row = 0; row < problem.m; ++row) {
        for (int64_t column = 0; column < problem.n; ++column) {
          double sum = 0;
          for (int64_t k = 0; k < problem.k; ++k) sum += at(kMatmulA, batch, row, k) * at(kMatmulB, batch, k, column);
          double value = problem.alpha * sum;
          if (problem.beta != 0) value += problem.beta * at(kMatmulC, batch, row, column);
          if (problem.activation == UHAL_ACTIVATION_GELU_TANH) {
            value = 0.5 * value * (1 + std::tanh(0.79788456080286535588 * (value + 0.044715 * value * value * value)));
          }
          results.emplace_back(place(d, batch, row, column), value);
        }
      }
    }
    for (const auto& [at, value] : results) on_host::write(memory.data() + offset, at, type_of(d.dtype), value);
    return memory;
  }

  std::vector<unsigned char> actual() {
    Buffer& buffer = *buffers_[kMatmulD];
    return {buffer.base(), buffer.base() + buffer.size()};
  }

  std::string text() const {
    std::string text = dtype_name(problem.operands[kMatmulA].dtype);
    for (const int64_t number : {problem.m, problem.n, problem.k, problem.batch_count()})
      text += " " + std::to_string(number);
    return text + " beta " + std::to_string(problem.beta) + " activation " + std::to_string(problem.activation);
  }

  MatmulProblem problem;

 private:
  int64_t pick(size_t count) { return static_cast<int64_t>(random_() % count); }

  static int64_t place(const MatmulOperand& operand, int64_t batch, int64_t row, int64_t column) {
    return batch * operand.batch_strides[0] + row * operand.row_stride + column * operand.column_stride;
  }

  double at(int operand, int64_t batch, int64_t row, int64_t column) const {
    const MatmulOperand& matrix = problem.operands[operand];
    return on_host::read(matrix.data, place(matrix, problem.batch_rank == 0 ? 0 : batch, row, column),
                         type_of(matrix.dtype));
  }

  void add(int number, uhal_dtype dtype, int64_t rows, int64_t columns, bool by_rows, bool same_for_batch) {
    const int64_t leading = (by_rows ? columns : rows) + pick(3);
    const int64_t elements = leading * (by_rows ? rows : columns);
    const int64_t batches = problem.batch_rank == 0 || same_for_batch ? 1 : problem.batch[0];
    const int64_t stride = batches == 1 ? 0 : elements + pick(5);
    const int64_t offset = pick(2) == 0 ? 0 : number == kMatmulC ? 16 : pick(7);
    buffers_[number] = std::make_unique<Buffer>(dtype, offset + elements + stride * batches + 3, random_);
    MatmulOperand& operand = problem.operands[number];
    operand.dtype = dtype;
    operand.data = buffers_[number]->base() + offset * static_cast<int64_t>(dtype_size(dtype));
    operand.row_stride = rows == 1 ? 0 : by_rows ? leading : 1;
    operand.column_stride = columns == 1 ? 0 : by_rows ? 1 : leading;
    operand.batch_strides[0] = stride;
  }

  std::mt19937 random_;
  std::unique_ptr<Buffer> buffers_[kMatmulOperands];
};

class Products : public LibraryTest {
 protected:
  void open() {
    notes_.clear();
    queue_.reset();
    libraries_ = std::make_unique<BlasLibraries>();
    libraries_->open(device(), &notes_);
    queue_ = libraries_->is_empty() ? nullptr : std::make_unique<BlasQueue>(*libraries_, nullptr);
  }

  std::unique_ptr<BlasLibraries> libraries_;
  std::unique_ptr<BlasQueue> queue_;
  Memory workspace_{kBlasWorkspace};
};

TEST_P(Products, AreWhatTheProblemSays) {
  open();
  ASSERT_NE(queue_, nullptr) << notes_.back();
  int taken = 0;
  for (unsigned seed = 0; seed < 600; ++seed) {
    RandomProduct product(seed);
    if (!libraries_->takes(product.problem)) continue;
    ++taken;
    const std::vector<unsigned char> expected = product.expected();
    ASSERT_EQ(queue_->run(product.problem, kernels::kBestAlgorithm, workspace_.data()), UHAL_OK)
        << product.text() << " of seed " << seed;
    ASSERT_EQ(product.actual(), expected) << product.text() << " of seed " << seed;
  }
  EXPECT_GT(taken, 200);
  EXPECT_EQ(control().works, taken);
}

// A matrix that a test lays out itself.
MatmulProblem large_product() {
  MatmulProblem problem;
  problem.m = problem.n = problem.k = 64;
  for (int i : {kMatmulA, kMatmulB, kMatmulD}) {
    problem.operands[i].dtype = UHAL_FLOAT32;
    problem.operands[i].row_stride = 64;
    problem.operands[i].column_stride = 1;
  }
  return problem;
}

TEST_P(Products, OfOtherKindsAreRefused) {
  open();
  ASSERT_NE(queue_, nullptr);
  MatmulProblem problem = large_product();
  EXPECT_TRUE(libraries_->takes(problem));
  problem.operands[kMatmulA].column_stride = -1;
  EXPECT_FALSE(libraries_->takes(problem)) << "reversed";
  problem = large_product();
  problem.operands[kMatmulB].column_stride = 2;
  EXPECT_FALSE(libraries_->takes(problem)) << "every second column";
  problem = large_product();
  problem.operands[kMatmulA].row_stride = 0;
  EXPECT_FALSE(libraries_->takes(problem)) << "the same row again and again";
  problem = large_product();
  problem.operands[kMatmulB].dtype = UHAL_FLOAT16;
  EXPECT_FALSE(libraries_->takes(problem)) << "mixed dtypes";
  problem = large_product();
  problem.activation = UHAL_ACTIVATION_RELU;
  EXPECT_FALSE(libraries_->takes(problem)) << "relu, which would lose NaN";
  problem = large_product();
  problem.batch_rank = 2;
  problem.batch[0] = problem.batch[1] = 2;
  EXPECT_FALSE(libraries_->takes(problem)) << "two axes of batches";
}

TEST_P(Products, FreeWhatTheyMade) {
  open();
  ASSERT_NE(queue_, nullptr);
  for (unsigned seed = 0; seed < 40; ++seed) {
    RandomProduct product(seed);
    if (libraries_->takes(product.problem)) queue_->run(product.problem, kernels::kBestAlgorithm, workspace_.data());
  }
  queue_.reset();
  libraries_.reset();
  EXPECT_EQ(control().handles, 0);
  EXPECT_EQ(control().descriptors, 0);
}

TEST_P(Products, AskForAnAlgorithmOnce) {
  open();
  ASSERT_NE(queue_, nullptr);
  auto product = std::make_unique<RandomProduct>(1);
  for (unsigned seed = 2; !libraries_->takes(product->problem); ++seed) {
    product = std::make_unique<RandomProduct>(seed);
  }
  for (int i = 0; i < 5; ++i)
    ASSERT_EQ(queue_->run(product->problem, kernels::kBestAlgorithm, workspace_.data()), UHAL_OK);
  EXPECT_EQ(control().works, 5);
  EXPECT_LE(control().questions, 1);
}

TEST_P(Products, ThatFailAreRefusedAndNotReported) {
  open();
  ASSERT_NE(queue_, nullptr);
  constexpr int kSomeStatus = 13;
  control().work_status = kSomeStatus;
  std::vector<float> memory(3 * 64 * 64);
  MatmulProblem problem = large_product();
  for (int i : {kMatmulA, kMatmulB, kMatmulD}) problem.operands[i].data = memory.data();
  EXPECT_EQ(queue_->run(problem, kernels::kBestAlgorithm, workspace_.data()), UHAL_UNIMPLEMENTED);
  EXPECT_EQ(opencl::last_report.status, UHAL_OK);
}

TEST_P(Products, WithoutHandlesAreRefused) {
  control().create_status = 1;
  open();
  if (queue_ == nullptr) {
    const auto says_so = [](const std::string& note) { return note.find("does not start") != std::string::npos; };
    EXPECT_TRUE(std::any_of(notes_.begin(), notes_.end(), says_so)) << notes_[0];
    return;
  }
  std::vector<float> memory(3 * 64 * 64);
  MatmulProblem problem = large_product();
  for (int i : {kMatmulA, kMatmulB, kMatmulD}) problem.operands[i].data = memory.data();
  EXPECT_EQ(queue_->run(problem, kernels::kBestAlgorithm, workspace_.data()), UHAL_UNIMPLEMENTED);
}

TEST_P(Products, RunOnOurKernelsWhereTheLibraryRefuses) {
  open();
  ASSERT_NE(queue_, nullptr);
  kernels::DeviceTraits traits = gpu_traits();
  traits.gemm_library = libraries_.get();
  LibraryQueue queue(traits, queue_.get(), nullptr);
  std::vector<float> memory(4 * 64 * 64);
  MatmulProblem problem = large_product();
  for (int i : {kMatmulA, kMatmulB, kMatmulD}) problem.operands[i].data = memory.data();
  const kernels::Gemm gemm(traits, problem);
  EXPECT_GE(gemm.workspace_bytes(), kBlasWorkspace);
  ASSERT_EQ(gemm.run(queue, workspace_.data()), UHAL_OK);
  EXPECT_EQ(queue.submitted, std::vector<std::string>{"library"});
  queue.submitted.clear();
  control().work_status = 1;
  ASSERT_EQ(gemm.run(queue, workspace_.data()), UHAL_OK);
  ASSERT_FALSE(queue.submitted.empty());
  EXPECT_NE(queue.submitted[0].find("gemm_tile"), std::string::npos) << queue.submitted[0];
}

TEST_P(Products, LeaveToUsWhatTheLibraryDoesNotFuse) {
  open();
  ASSERT_NE(queue_, nullptr);
  kernels::DeviceTraits traits = gpu_traits();
  traits.gemm_library = libraries_.get();
  LibraryQueue queue(traits, queue_.get(), nullptr);
  std::vector<float> memory(4 * 64 * 64 + 64);
  auto* aligned = reinterpret_cast<float*>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
  MatmulProblem problem = large_product();
  for (int i : {kMatmulA, kMatmulB, kMatmulD}) problem.operands[i].data = aligned + i * 64 * 64;
  problem.operands[kMatmulC] = {aligned + 2 * 64 * 64, UHAL_FLOAT32, 0, 1};
  problem.beta = 1;
  problem.activation = UHAL_ACTIVATION_RELU;
  ASSERT_EQ(kernels::Gemm(traits, problem).run(queue, workspace_.data()), UHAL_OK);
  const bool is_lt = std::string(row().name).find("lt") != std::string::npos;
  ASSERT_EQ(queue.submitted.size(), 2U) << queue.submitted[0];
  EXPECT_EQ(queue.submitted[0], "library");
  const std::string& behind = queue.submitted[1];
  EXPECT_NE(behind.find("x < 0 ?"), std::string::npos) << behind;
  EXPECT_EQ(behind.find("x + y") != std::string::npos, !is_lt) << "one pass for what the library leaves: " << behind;
}

// The activation's pass reads what was rounded to 16 bits, as op.h lets it.
TEST_P(Products, In16BitsLeaveTheActivationToUs) {
  open();
  ASSERT_NE(queue_, nullptr);
  kernels::DeviceTraits traits = gpu_traits();
  traits.gemm_library = libraries_.get();
  for (const uhal_dtype dtype : {UHAL_FLOAT16, UHAL_BFLOAT16}) {
    LibraryQueue queue(traits, queue_.get(), nullptr);
    std::vector<float> memory(4 * 64 * 64);
    MatmulProblem problem = large_product();
    for (int i : {kMatmulA, kMatmulB, kMatmulD}) {
      problem.operands[i].data = memory.data() + i * 64 * 64;
      problem.operands[i].dtype = dtype;
    }
    problem.activation = UHAL_ACTIVATION_GELU_ERF;
    ASSERT_EQ(kernels::Gemm(traits, problem).run(queue, workspace_.data()), UHAL_OK);
    ASSERT_EQ(queue.submitted.size(), 2U) << queue.submitted[0];
    EXPECT_EQ(queue.submitted[0], "library");
    EXPECT_NE(queue.submitted[1].find("erf("), std::string::npos) << queue.submitted[1];
  }
}

// -- algorithms

// The op of a product of float32.
class ProductOp {
 public:
  ProductOp(int64_t m, int64_t n, int64_t k) : memory_(static_cast<size_t>(m * k + k * n + m * n)) {
    make(&a_, memory_.data(), m, k);
    make(&b_, memory_.data() + m * k, k, n);
    make(&d_, memory_.data() + m * k + k * n, m, n);
    op.struct_size = sizeof op;
    op.kind = UHAL_OP_MATMUL;
    op.input_count = 2;
    op.output_count = 1;
    op.inputs = inputs_;
    op.outputs = outputs_;
  }
  ProductOp(const ProductOp&) = delete;
  ProductOp& operator=(const ProductOp&) = delete;

  uhal_op op = {};

 private:
  static void make(uhal_tensor* view, float* data, int64_t rows, int64_t columns) {
    *view = {sizeof *view, data, UHAL_FLOAT32, 2, {rows, columns}, {columns, 1}};
  }

  std::vector<float> memory_;
  uhal_tensor a_, b_, d_;
  const uhal_tensor* inputs_[2] = {&a_, &b_};
  const uhal_tensor* outputs_[1] = {&d_};
};

// A device that is tuned, on a library.
class TunedProducts : public Products {
 protected:
  void SetUp() override {
    Products::SetUp();
    open();
    ASSERT_NE(queue_, nullptr);
    traits_.gemm_library = libraries_.get();
    open_device();
  }

  // As a process that begins.
  void open_device() { kernels::open_tuning(ordinal_ = ++last_ordinal, std::string("tuned ") + row().name, traits_); }

  bool is_lt() const { return std::string(row().name).find("lt") != std::string::npos; }

  // The usable candidates by name.
  std::vector<std::pair<std::string, int32_t>> candidates(const uhal_op& op) {
    char key[256];
    int32_t count = 0;
    EXPECT_EQ(tuning_->describe(ordinal_, &op, key, sizeof key, &count), UHAL_OK);
    std::vector<std::pair<std::string, int32_t>> result;
    for (int32_t i = 0; i < count; ++i) {
      char name[256];
      int32_t usable = 0;
      EXPECT_EQ(tuning_->candidate(ordinal_, &op, i, name, sizeof name, &usable), UHAL_OK);
      if (usable != 0) result.emplace_back(name, i);
    }
    return result;
  }

  int32_t number_of(const uhal_op& op, const std::string& name) {
    for (const auto& [each, number] : candidates(op)) {
      if (each == name) return number;
    }
    return -1;
  }

  int32_t chosen(const uhal_op& op) {
    int32_t number = 0;
    EXPECT_EQ(tuning_->chosen(ordinal_, &op, &number), UHAL_OK);
    return number;
  }

  // What is submitted for an op.
  std::vector<std::string> submitted(const uhal_op& op) {
    LibraryQueue queue(traits_, queue_.get(), nullptr);
    opencl::implementations.clear();
    EXPECT_EQ(kernels::launch(queue, op), UHAL_OK);
    return queue.submitted;
  }

  static inline int32_t last_ordinal = 0;  // each is opened once

  kernels::DeviceTraits traits_ = gpu_traits();
  int32_t ordinal_ = 0;
  const uhal_tuning* const tuning_ = kernels::tuning_extension();
};

using Strings = std::vector<std::string>;

TEST_P(TunedProducts, RunByTheAlgorithmThatWasChosen) {
  const ProductOp product(64, 64, 64);
  const std::string library = libraries_->name();
  EXPECT_EQ(number_of(product.op, library), 0);
  EXPECT_EQ(number_of(product.op, library + " #4"), -1) << "there are three";
  const int32_t third = number_of(product.op, library + " #3");
  ASSERT_EQ(third >= 0, is_lt()) << "others do not tell of their algorithms";
  if (!is_lt()) return;
  EXPECT_EQ(submitted(product.op), Strings{"library"});
  EXPECT_EQ(control().last_algorithm, 0);
  ASSERT_EQ(tuning_->choose(ordinal_, &product.op, third), UHAL_OK);
  EXPECT_EQ(chosen(product.op), third);
  EXPECT_EQ(submitted(product.op), Strings{"library"});
  EXPECT_EQ(opencl::implementations, Strings{library});
  EXPECT_EQ(control().last_algorithm, 2);

  ASSERT_EQ(tuning_->keep(ordinal_), UHAL_OK);
  open();
  traits_.gemm_library = libraries_.get();
  open_device();
  EXPECT_EQ(chosen(product.op), third);
  EXPECT_EQ(submitted(product.op), Strings{"library"});
  EXPECT_EQ(control().last_algorithm, 2) << "as it was kept";

  control().refused_algorithm = 2;
  EXPECT_EQ(submitted(product.op), Strings{"library"});
  EXPECT_EQ(control().last_algorithm, 0) << "what the library holds best stands in";
  control().refused_algorithm = -1;
  open();
  traits_.gemm_library = libraries_.get();
  control().algorithms = 1;  // as of another version
  control().last_algorithm = -1;
  EXPECT_EQ(submitted(product.op), Strings{"library"});
  EXPECT_EQ(control().last_algorithm, 0);
}

TEST_P(TunedProducts, AskNothingMoreOnceTheyRan) {
  const ProductOp product(64, 64, 64);
  for (const std::string& name : {libraries_->name() + std::string(), libraries_->name() + std::string(" #2")}) {
    const int32_t number = number_of(product.op, name);
    if (number < 0) continue;
    ASSERT_EQ(tuning_->choose(ordinal_, &product.op, number), UHAL_OK);
    submitted(product.op);
    const int questions = control().questions;
    for (int i = 0; i < 3; ++i) submitted(product.op);
    EXPECT_EQ(control().questions, questions);
  }
}

// A product with a vector waits for memory: it is ours unless the library was measured faster.
TEST_P(TunedProducts, OfVectorsAreTheLibrarysWhereThatWasChosen) {
  for (const bool is_row : {false, true}) {
    const ProductOp product(is_row ? 1 : 96, is_row ? 96 : 1, 512);
    Strings kernels = submitted(product.op);
    ASSERT_FALSE(kernels.empty());
    EXPECT_EQ(kernels[0].find("gemm_vector"), 0U) << kernels[0];
    EXPECT_EQ(opencl::implementations, Strings{"gemm_vector"});
    Strings names;
    for (const auto& [name, number] : candidates(product.op)) names.push_back(name);
    const std::string library = libraries_->name();
    EXPECT_EQ(names,
              is_lt() ? (Strings{library, "vector", library + " #2", library + " #3"}) : (Strings{library, "vector"}));
    ASSERT_EQ(tuning_->choose(ordinal_, &product.op, 0), UHAL_OK);
    EXPECT_EQ(submitted(product.op), Strings{"library"});
    ASSERT_EQ(tuning_->choose(ordinal_, &product.op, number_of(product.op, "vector")), UHAL_OK);
    EXPECT_EQ(submitted(product.op), kernels);
  }
}

// What the libraries call the types of computation of float32.
struct ComputeTypes {
  int strict, tf32;
};

ComputeTypes compute_types(const std::string& library) {
  if (library == "hipblaslt") return {2, 6};
  if (library == "rocblas") return {151, 151};  // it is always strict
  return {68, 77};
}

class MathModes : public Products {
 protected:
  void SetUp() override {
    Products::SetUp();
    open();
    ASSERT_NE(queue_, nullptr);
    for (int i : {kMatmulA, kMatmulB, kMatmulD}) problem_.operands[i].data = memory_.data();
  }

  // The type of computation that the library was asked for.
  int run(uhal_math_mode math_mode) {
    problem_.math_mode = math_mode;
    control().compute = 0;
    EXPECT_EQ(queue_->run(problem_, kernels::kBestAlgorithm, workspace_.data()), UHAL_OK);
    return control().compute;
  }

  const ComputeTypes types_ = compute_types(row().name);
  MatmulProblem problem_ = large_product();
  std::vector<float> memory_ = std::vector<float>(3 * 64 * 64);
};

TEST_P(MathModes, AreToldToTheLibrary) {
  for (int i = 0; i < 2; ++i) {  // the second time from what was kept
    EXPECT_EQ(run(UHAL_MATH_STRICT), types_.strict);
    EXPECT_EQ(run(UHAL_MATH_ALLOW_TF32), types_.tf32);
  }
}

TEST_P(MathModes, AreStrictWhereTheLibraryLacksTf32) {
  if (types_.tf32 == types_.strict) GTEST_SKIP() << "it has no other mode";
  control().refused_compute = types_.tf32;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(run(UHAL_MATH_ALLOW_TF32), types_.strict);
  EXPECT_LE(control().questions, 2) << "it is asked once for each";
}

TEST_P(MathModes, AreStrictWhereTheDeviceLacksTf32) {
  kernels::DeviceTraits traits = gpu_traits();
  traits.gemm_library = libraries_.get();
  problem_.math_mode = UHAL_MATH_ALLOW_TF32;
  for (const bool has_tf32 : {false, true}) {
    traits.has_tf32 = has_tf32;
    LibraryQueue queue(traits, queue_.get(), nullptr);
    ASSERT_EQ(kernels::Gemm(traits, problem_).run(queue, workspace_.data()), UHAL_OK);
    EXPECT_EQ(control().compute, has_tf32 ? types_.tf32 : types_.strict);
  }
}

TEST_P(MathModes, AreOfFloat32) {
  const auto mode_of = [](uhal_dtype a_dtype, uhal_dtype b_dtype) {
    uhal_tensor a = {sizeof a, nullptr, a_dtype, 2, {64, 64}, {64, 1}};
    uhal_tensor b = a;
    b.dtype = b_dtype;
    const uhal_matmul_attributes attributes = {sizeof attributes, 1, 1, UHAL_ACTIVATION_NONE, UHAL_MATH_ALLOW_TF32};
    return matmul_problem(attributes, a, b, nullptr, a).math_mode;
  };
  EXPECT_EQ(mode_of(UHAL_FLOAT32, UHAL_FLOAT32), UHAL_MATH_ALLOW_TF32);
  EXPECT_EQ(mode_of(UHAL_FLOAT32, UHAL_FLOAT16), UHAL_MATH_STRICT);
  EXPECT_EQ(mode_of(UHAL_BFLOAT16, UHAL_BFLOAT16), UHAL_MATH_STRICT);
  EXPECT_EQ(mode_of(UHAL_FLOAT64, UHAL_FLOAT64), UHAL_MATH_STRICT);
}

TEST(DevicesWithTf32, AreKnownByTheirArchitecture) {
  for (const char* name : {"sm_80", "sm_90", "sm_120", "ivcore11"})
    EXPECT_TRUE(has_tf32({Vendor::kCorex, name})) << name;
  for (const char* name : {"sm_75", "sm_61"}) EXPECT_FALSE(has_tf32({Vendor::kCorex, name})) << name;
  EXPECT_TRUE(has_tf32({Vendor::kHip, "gfx942:sramecc+:xnack-"}));
  for (const char* name : {"gfx803", "gfx1030", "gfx1100", "gfx90a"})
    EXPECT_FALSE(has_tf32({Vendor::kHip, name})) << name;
}

constexpr LibraryRow kLibraries[] = {
    {"cublaslt", Vendor::kCorex, "sm_90", "corex/lib64/libcublasLt.so.12"},
    {"cublas", Vendor::kCorex, "sm_90", "corex/lib64/libcublas.so.12"},
    {"hipblaslt", Vendor::kHip, "gfx1030", "rocm/lib/libhipblaslt.so.0"},
    {"rocblas", Vendor::kHip, "gfx1030:xnack-", "rocm/lib/librocblas.so.4"},
};
INSTANTIATE_TEST_SUITE_P(Libraries, Products, testing::ValuesIn(kLibraries),
                         [](const auto& info) { return std::string(info.param.name); });
INSTANTIATE_TEST_SUITE_P(Libraries, TunedProducts, testing::ValuesIn(kLibraries),
                         [](const auto& info) { return std::string(info.param.name); });
INSTANTIATE_TEST_SUITE_P(Libraries, MathModes, testing::ValuesIn(kLibraries),
                         [](const auto& info) { return std::string(info.param.name); });

// -- which libraries are used ----------------------------------------------------------------------------------

class FindingProducts : public LibraryTest {
 protected:
  const LibraryRow& row() const override { return row_; }
  std::string note(size_t number = 0) {
    notes_.clear();
    BlasLibraries libraries;
    libraries.open(device(), &notes_);
    return number < notes_.size() ? notes_[number] : "";
  }

  LibraryRow row_ = kLibraries[0];
};

TEST_F(FindingProducts, NamesAndVersions) {
  set("UNIHAL_GPU_LIBRARIES", "all");
  EXPECT_EQ(note(), "cuBLASLt 12.4");
  EXPECT_EQ(notes_.size(), 1U) << "cuBLAS is for where cuBLASLt is missing";
  row_ = kLibraries[2];
  EXPECT_EQ(note(0), "hipBLASLt 0.10");
  EXPECT_EQ(note(1), "rocBLAS 4.2");
}

TEST_F(FindingProducts, OldVersionsAreRefused) {
  control().version = 10202;
  EXPECT_EQ(note(), "no cuBLASLt (version 10.2 is older than 11)");
  set("UNIHAL_GPU_LIBRARIES", "all");
  EXPECT_EQ(note(1), "cuBLAS 12.4");
  row_ = kLibraries[2];
  control().version = 300;
  EXPECT_NE(note().find("version 0.3 is older than 0.6"), std::string::npos) << notes_[0];
}

TEST_F(FindingProducts, OldCublasIsToldOldNumbers) {
  row_ = kLibraries[1];
  set("UNIHAL_GPU_LIBRARIES", "cublas");
  control() = {};
  control().version = 10202;
  BlasLibraries libraries;
  libraries.open(device(), &notes_);
  EXPECT_EQ(notes_.back(), "cuBLAS 10.2");
  BlasQueue queue(libraries, nullptr);
  Memory workspace(kBlasWorkspace);
  int taken = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    RandomProduct product(seed);
    if (!libraries.takes(product.problem)) continue;
    ++taken;
    EXPECT_NE(product.problem.operands[kMatmulA].dtype, UHAL_BFLOAT16);
    const std::vector<unsigned char> expected = product.expected();
    ASSERT_EQ(queue.run(product.problem, kernels::kBestAlgorithm, workspace.data()), UHAL_OK);
    ASSERT_EQ(product.actual(), expected) << product.text();
  }
  EXPECT_GT(taken, 20);
}

TEST_F(FindingProducts, MissingFunctionsAreNamed) {
  set("COREX_ROOT", std::string(LIBRARIES_ON_HOST) + "/incomplete");
  const std::string said = note();
  EXPECT_NE(said.find("incomplete"), std::string::npos) << said;
  EXPECT_NE(said.find("has no function cublasLtCreate"), std::string::npos) << said;
}

TEST_F(FindingProducts, ACardWithoutKernelsIsRefused) {
  for (const LibraryRow& row : {kLibraries[2], kLibraries[3]}) {
    row_ = row;
    set("UNIHAL_GPU_LIBRARIES", row.name);
    row_.architecture = "gfx803";
    EXPECT_NE(note(row.vendor == Vendor::kHip && row.name[0] == 'r' ? 1 : 0).find("no kernels for gfx803"),
              std::string::npos)
        << notes_[0];
    row_.architecture = "gfx103";  // the beginning of another's name
    EXPECT_NE(note(row.name[0] == 'r' ? 1 : 0).find("no kernels for gfx103:"), std::string::npos) << notes_[0];
  }
  EXPECT_EQ(control_of(kLibraries[3]).handles, 0);
}

TEST_F(FindingProducts, NoneIfNoneIsWanted) {
  set("UNIHAL_GPU_LIBRARIES", "none");
  BlasLibraries libraries;
  libraries.open(device(), &notes_);
  EXPECT_TRUE(libraries.is_empty());
  EXPECT_NE(notes_[0].find("UNIHAL_GPU_LIBRARIES leaves it out"), std::string::npos) << notes_[0];
}

TEST_F(FindingProducts, SettingsThatMeanNothingAreErrors) {
  set("UNIHAL_GPU_LIBRARIES", "cublast");
  EXPECT_EQ(check_library_settings(), UHAL_INVALID_ARGUMENT);
  EXPECT_NE(opencl::last_report.message.find("'cublast'; expected all, none"), std::string::npos);
  set("UNIHAL_GPU_LIBRARIES", "cublaslt,cudnn");
  EXPECT_EQ(check_library_settings(), UHAL_OK);
  set("UNIHAL_GPU_MEASURE", "yes");
  EXPECT_EQ(check_library_settings(), UHAL_INVALID_ARGUMENT);
  set("UNIHAL_GPU_MEASURE", "1");
  EXPECT_EQ(check_library_settings(), UHAL_OK);
  EXPECT_TRUE(measures_convolutions());
  set("UNIHAL_GPU_WORKSPACE_LIMIT", "a lot");
  EXPECT_EQ(check_library_settings(), UHAL_INVALID_ARGUMENT);
  set("UNIHAL_GPU_WORKSPACE_LIMIT", "1G");
  EXPECT_EQ(check_library_settings(), UHAL_OK);
  EXPECT_EQ(convolution_workspace_limit(0), int64_t{1} << 30);
  EXPECT_EQ(convolution_workspace_limit(int64_t{1} << 40), int64_t{1} << 30);
  set("UNIHAL_GPU_WORKSPACE_LIMIT", "");
  EXPECT_EQ(convolution_workspace_limit(1000), int64_t{256} << 20);
  EXPECT_EQ(convolution_workspace_limit(int64_t{400} << 20), int64_t{500} << 20);
}

}  // namespace
}  // namespace unihal::gpu
