// Convolutions by the vendors' libraries: what is told to them, on doubles that compute on host memory what they are
// told, and what is left to our own kernels.
#include "csrc/backends/gpu/dnn.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <random>

#include "csrc/backends/common/convolution_problem.h"
#include "csrc/backends/common/dtype.h"
#include "csrc/kernels/ops/convolution.h"
#include "csrc/kernels/tuning.h"
#include "tests/doubles/libraries_on_host/convolution.h"
#include "tests/gpu/library_fixture.h"

namespace unihal::gpu {
namespace {

using kernels::Pass;

constexpr uhal_op_kind kKinds[] = {UHAL_OP_CONVOLUTION, UHAL_OP_CONVOLUTION_BACKWARD_DATA,
                                   UHAL_OP_CONVOLUTION_BACKWARD_FILTER};

int type_of(uhal_dtype dtype) {
  return dtype == UHAL_FLOAT64    ? on_host::kDouble
         : dtype == UHAL_FLOAT16  ? on_host::kHalf
         : dtype == UHAL_BFLOAT16 ? on_host::kBfloat16
                                  : on_host::kFloat;
}

// The order of axes in memory, the slowest first.
enum class Order { kFirst, kLast, kOutputsLast };  // NCHW and OIHW; NHWC and OHWI; HWIO

// The op of a convolution or a gradient, with memory of small whole numbers.
class Example {
 public:
  struct Shape {
    int spatial = 2;
    int64_t images = 2, groups = 1, inputs = 3, outputs = 2;  // channels of a group
    int64_t length[3] = {5, 6, 4}, window[3] = {3, 2, 1}, stride[3] = {1, 1, 1}, padding[3] = {1, 0, 0},
            dilation[3] = {1, 1, 1};
    int64_t more_padding_behind = 0;
    uhal_dtype dtype = UHAL_FLOAT32;
    uhal_math_mode math_mode = UHAL_MATH_STRICT;
    Order images_order = Order::kFirst, filter_order = Order::kFirst;
  };

  Example(const Shape& shape, uhal_op_kind kind, unsigned seed) : random_(seed) {
    attributes_ = {};
    attributes_.struct_size = sizeof attributes_;
    attributes_.groups = shape.groups;
    attributes_.math_mode = shape.math_mode;
    x_ = {type_of(shape.dtype), 2 + shape.spatial, {}, {}};
    w_ = y_ = x_;
    const auto set = [](int& length, int64_t value) { length = static_cast<int>(value); };
    set(x_.lengths[0], shape.images);
    set(x_.lengths[1], shape.inputs * shape.groups);
    set(w_.lengths[0], shape.outputs * shape.groups);
    set(w_.lengths[1], shape.inputs);
    set(y_.lengths[0], shape.images);
    set(y_.lengths[1], shape.outputs * shape.groups);
    convolution_.spatial = shape.spatial;
    set(convolution_.groups, shape.groups);
    for (int i = 0; i < shape.spatial; ++i) {
      attributes_.stride[i] = shape.stride[i];
      attributes_.dilation[i] = shape.dilation[i];
      attributes_.pad_before[i] = shape.padding[i];
      attributes_.pad_after[i] = shape.padding[i] + shape.more_padding_behind;
      set(convolution_.stride[i], shape.stride[i]);
      set(convolution_.dilation[i], shape.dilation[i]);
      set(convolution_.padding[i], shape.padding[i]);
      set(x_.lengths[2 + i], shape.length[i]);
      set(w_.lengths[2 + i], shape.window[i]);
      const int64_t room = shape.length[i] + attributes_.pad_before[i] + attributes_.pad_after[i] -
                           ((shape.window[i] - 1) * shape.dilation[i] + 1);
      is_possible &= room >= 0;
      set(y_.lengths[2 + i], room / shape.stride[i] + 1);
    }
    if (!is_possible) return;
    make_view(&x_, shape.images_order, shape.dtype, kDnnX);
    make_view(&w_, shape.filter_order, shape.dtype, kDnnW);
    make_view(&y_, shape.images_order, shape.dtype, kDnnY);
    make_op(kind);
  }
  Example(const Example&) = delete;
  Example& operator=(const Example&) = delete;

  kernels::Convolution convolution() const {
    const Pass pass = kernels::pass_of(op);
    return kernels::convolution_of(convolution_operands(op), convolution_attributes(op), pass == Pass::kBackwardData);
  }

  // What the result's memory is to be.
  std::vector<unsigned char> expected() {
    const Pass pass = kernels::pass_of(op);
    std::vector<unsigned char> kept = memory_[result_of(pass)];
    const on_host::Pass same = pass == Pass::kForward        ? on_host::Pass::kForward
                               : pass == Pass::kBackwardData ? on_host::Pass::kData
                                                             : on_host::Pass::kFilter;
    on_host::convolve(same, convolution_, x_, memory_[kDnnX].data(), w_, memory_[kDnnW].data(), y_,
                      memory_[kDnnY].data());
    memory_[result_of(pass)].swap(kept);
    // The views' data stay where they were.
    std::vector<unsigned char> result = kept;
    std::fill(memory_[result_of(pass)].begin(), memory_[result_of(pass)].end(), 0x7b);
    views_[result_of(pass)].data = memory_[result_of(pass)].data();
    return result;
  }

  const std::vector<unsigned char>& actual() const { return memory_[result_of(kernels::pass_of(op))]; }

  bool is_possible = true;
  uhal_op op = {};

 private:
  static int result_of(Pass pass) {
    return pass == Pass::kForward ? kDnnY : pass == Pass::kBackwardData ? kDnnX : kDnnW;
  }

  void make_view(on_host::Tensor* tensor, Order order, uhal_dtype dtype, int number) {
    int axes[on_host::kMostAxes];
    int count = 0;
    const int spatial = tensor->axes - 2;
    if (order != Order::kOutputsLast) axes[count++] = 0;
    if (order == Order::kFirst) axes[count++] = 1;
    for (int i = 0; i < spatial; ++i) axes[count++] = 2 + i;
    if (order != Order::kFirst) axes[count++] = 1;
    if (order == Order::kOutputsLast) axes[count++] = 0;
    int64_t elements = 1;
    for (int i = count - 1; i >= 0; --i) {
      tensor->strides[axes[i]] = static_cast<int>(elements);
      elements *= tensor->lengths[axes[i]];
    }
    memory_[number].resize(static_cast<size_t>(elements) * dtype_size(dtype));
    for (int64_t i = 0; i < elements; ++i) {
      on_host::write(memory_[number].data(), i, tensor->type, static_cast<int>(random_() % 4) - 1);
    }
    uhal_tensor& view = views_[number];
    view = {};
    view.struct_size = sizeof view;
    view.data = memory_[number].data();
    view.dtype = dtype;
    view.rank = tensor->axes;
    for (int i = 0; i < tensor->axes; ++i) {
      view.shape[i] = tensor->lengths[i];
      view.strides[i] = tensor->strides[i];
    }
  }

  void make_op(uhal_op_kind kind) {
    op.struct_size = sizeof op;
    op.kind = kind;
    op.attributes = &attributes_;
    op.input_count = 2;
    op.output_count = 1;
    op.inputs = inputs_;
    op.outputs = &output_;
    const bool is_forward = kind == UHAL_OP_CONVOLUTION;
    const bool is_data = kind == UHAL_OP_CONVOLUTION_BACKWARD_DATA;
    inputs_[0] = &views_[is_data ? kDnnY : kDnnX];
    inputs_[1] = &views_[is_forward || is_data ? kDnnW : kDnnY];
    output_ = &views_[is_forward ? kDnnY : is_data ? kDnnX : kDnnW];
  }

  std::mt19937 random_;
  uhal_convolution_attributes attributes_;
  on_host::Convolution convolution_;
  on_host::Tensor x_, w_, y_;
  std::vector<unsigned char> memory_[kDnnOperands];
  uhal_tensor views_[kDnnOperands];
  const uhal_tensor* inputs_[2];
  const uhal_tensor* output_ = nullptr;
};

class Convolutions : public LibraryTest {
 protected:
  void open() {
    notes_.clear();
    stream_.reset();
    library_ = open_dnn(device(), &notes_);
    stream_ = library_ != nullptr ? library_->open_stream(nullptr) : nullptr;
  }

  std::unique_ptr<Dnn> library_;
  std::unique_ptr<DnnStream> stream_;
  Memory workspace_{1 << 20};
};

// Any shape.
Example::Shape random_shape(std::mt19937& random) {
  constexpr uhal_dtype kDtypes[] = {UHAL_FLOAT32, UHAL_FLOAT64, UHAL_FLOAT16, UHAL_BFLOAT16};
  const auto pick = [&](int64_t count) { return static_cast<int64_t>(random() % static_cast<unsigned>(count)); };
  Example::Shape shape;
  shape.spatial = 1 + static_cast<int>(pick(3));
  shape.images = 1 + pick(2);
  shape.groups = 1 + pick(3);
  shape.inputs = 1 + pick(3);
  shape.outputs = 1 + pick(3);
  for (int i = 0; i < shape.spatial; ++i) {
    shape.length[i] = 1 + pick(6);
    shape.window[i] = 1 + pick(3);
    shape.stride[i] = 1 + pick(2);
    shape.padding[i] = pick(3);
    shape.dilation[i] = 1 + pick(2);
  }
  shape.dtype = kDtypes[pick(4)];
  shape.images_order = shape.filter_order = pick(2) == 0 ? Order::kFirst : Order::kLast;
  return shape;
}

TEST_P(Convolutions, AreWhatTheOpSays) {
  open();
  ASSERT_NE(stream_, nullptr) << notes_.back();
  std::mt19937 random(7);
  const auto pick = [&](int64_t count) { return static_cast<int64_t>(random() % static_cast<unsigned>(count)); };
  int taken[3] = {};
  for (unsigned seed = 0; seed < 400; ++seed) {
    const Example::Shape shape = random_shape(random);
    const auto kind = static_cast<size_t>(pick(3));
    Example example(shape, kKinds[kind], seed);
    if (!example.is_possible) continue;
    kernels::Convolution convolution = example.convolution();
    if (!library_->takes({convolution, kernels::pass_of(example.op)})) continue;
    ++taken[kind];
    const std::vector<unsigned char> expected = example.expected();
    convolution = example.convolution();
    const kernels::ConvolutionTask task = {convolution, kernels::pass_of(example.op)};
    size_t bytes = 0;
    ASSERT_TRUE(stream_->plan(task, &bytes)) << "seed " << seed;
    EXPECT_EQ(bytes, control().workspace);
    ASSERT_EQ(stream_->run(task, workspace_.data()), UHAL_OK) << "seed " << seed;
    ASSERT_EQ(example.actual(), expected) << "seed " << seed;
  }
  for (const int count : taken) EXPECT_GT(count, 40);
  EXPECT_EQ(control().works, taken[0] + taken[1] + taken[2]);
}

TEST_P(Convolutions, OfOtherKindsAreRefused) {
  open();
  ASSERT_NE(stream_, nullptr);
  const auto takes = [&](const Example::Shape& shape, uhal_op_kind kind = UHAL_OP_CONVOLUTION) {
    const Example example(shape, kind, 1);
    return library_->takes({example.convolution(), kernels::pass_of(example.op)});
  };
  Example::Shape shape;
  EXPECT_TRUE(takes(shape));
  shape.filter_order = Order::kLast;
  EXPECT_FALSE(takes(shape)) << "images and filters in different orders";
  shape.filter_order = Order::kOutputsLast;
  EXPECT_FALSE(takes(shape)) << "HWIO";
  shape = {};
  shape.more_padding_behind = 1;
  for (const uhal_op_kind kind : kKinds) EXPECT_FALSE(takes(shape, kind)) << "padding that differs at the ends";
  shape.stride[0] = shape.stride[1] = 2;
  shape.length[0] = 4;  // the last row of padding is not reached
  shape.length[1] = 6;
  shape.window[0] = shape.window[1] = 2;
  shape.padding[0] = shape.padding[1] = 0;
  EXPECT_TRUE(takes(shape)) << "padding that no window meets";
}

TEST_P(Convolutions, FreeWhatTheyMade) {
  open();
  ASSERT_NE(stream_, nullptr);
  for (const uhal_op_kind kind : kKinds) {
    const Example example(Example::Shape(), kind, 1);
    const kernels::Convolution convolution = example.convolution();
    const kernels::ConvolutionTask task = {convolution, kernels::pass_of(example.op)};
    size_t bytes = 0;
    ASSERT_TRUE(stream_->plan(task, &bytes));
    ASSERT_TRUE(stream_->plan(task, &bytes));
    ASSERT_EQ(stream_->run(task, workspace_.data()), UHAL_OK);
  }
  EXPECT_EQ(control().questions, 3) << "of each convolution once";
  stream_.reset();
  library_.reset();
  EXPECT_EQ(control().handles, 0);
  EXPECT_EQ(control().descriptors, 0);
}

TEST_P(Convolutions, WithinTheLimitOnWorkspaces) {
  set("UNIHAL_GPU_WORKSPACE_LIMIT", "4K");
  open();
  ASSERT_NE(stream_, nullptr);
  const Example example(Example::Shape(), UHAL_OP_CONVOLUTION, 1);
  const kernels::Convolution convolution = example.convolution();
  size_t bytes = 0;
  control().workspace = 4097;
  EXPECT_FALSE(stream_->plan({convolution, Pass::kForward}, &bytes));
  stream_ = library_->open_stream(nullptr);
  control().workspace = 4096;
  EXPECT_TRUE(stream_->plan({convolution, Pass::kForward}, &bytes));
}

TEST_P(Convolutions, RunOnOurKernelsWhereTheLibraryRefuses) {
  open();
  ASSERT_NE(stream_, nullptr);
  kernels::DeviceTraits traits = gpu_traits();
  traits.convolution_library = library_.get();
  LibraryQueue queue(traits, nullptr, stream_.get());
  const Example example(Example::Shape(), UHAL_OP_CONVOLUTION, 1);
  ASSERT_EQ(kernels::run_convolution(queue, example.op), UHAL_OK);
  EXPECT_EQ(queue.submitted, std::vector<std::string>{"library"});
  for (int LibraryControl::* status :
       {&LibraryControl::advice_status, &LibraryControl::work_status, &LibraryControl::create_status}) {
    control() = {};
    cache_folder.clear();
    control().*status = 8;
    stream_ = library_->open_stream(nullptr);
    LibraryQueue refused(traits, nullptr, stream_.get());
    ASSERT_EQ(kernels::run_convolution(refused, example.op), UHAL_OK);
    ASSERT_FALSE(refused.submitted.empty());
    EXPECT_EQ(std::count(refused.submitted.begin(), refused.submitted.end(), "library"), 0);
    EXPECT_EQ(opencl::last_report.status, UHAL_OK);
  }
}

TEST_P(Convolutions, RunOnOurKernelsWhereTheWorkspaceDoesNotFit) {
  open();
  ASSERT_NE(stream_, nullptr);
  kernels::DeviceTraits traits = gpu_traits();
  traits.convolution_library = library_.get();
  LibraryQueue queue(traits, nullptr, stream_.get());
  control().workspace = size_t{65} << 20;  // a MiB more than the queue has
  const Example example(Example::Shape(), UHAL_OP_CONVOLUTION, 1);
  ASSERT_EQ(kernels::run_convolution(queue, example.op), UHAL_OK);
  ASSERT_FALSE(queue.submitted.empty());
  EXPECT_EQ(std::count(queue.submitted.begin(), queue.submitted.end(), "library"), 0);
}

// UNIHAL_GPU_MEASURE: the first convolution of a key runs each algorithm, and later ones, also of other processes, run
// the fastest.
TEST_P(Convolutions, RunByTheFastestAlgorithmWhereThatIsAskedFor) {
  open();
  ASSERT_NE(stream_, nullptr);
  int measured = 0;
  const auto measure = [&](const std::function<bool()>& submit) {
    ++measured;
    if (!submit()) return std::numeric_limits<double>::infinity();
    return control().last_algorithm == 1 ? 1.0 : 2.0;
  };
  const Example example(Example::Shape(), UHAL_OP_CONVOLUTION, 1);
  const kernels::Convolution convolution = example.convolution();
  const kernels::ConvolutionTask task = {convolution, Pass::kForward};
  size_t bytes = 0;
  const auto run = [&] {
    measured = 0;
    EXPECT_TRUE(stream_->plan(task, &bytes));
    EXPECT_EQ(stream_->run(task, workspace_.data()), UHAL_OK);
    return control().last_algorithm;
  };
  stream_->measure_with(measure, "device");
  EXPECT_EQ(run(), 1);
  EXPECT_EQ(measured, 2 * control().algorithms + 5) << "each twice, the fastest in five rounds more";
  EXPECT_EQ(run(), 1);
  EXPECT_EQ(measured, 0) << "once for a key";
  stream_ = library_->open_stream(nullptr);
  stream_->measure_with(measure, "device");
  EXPECT_EQ(run(), 1);
  EXPECT_EQ(measured, 0) << "the choice is kept";
  stream_ = library_->open_stream(nullptr);
  control().refused_algorithm = 1;
  stream_->measure_with(measure, "another device");
  EXPECT_NE(run(), 1);
  EXPECT_EQ(measured, 7 * (control().algorithms - 1) + 1) << "what does not run is out at once";
}

TEST_P(Convolutions, DepthwiseOnesAreOurs) {
  open();
  ASSERT_NE(stream_, nullptr);
  kernels::DeviceTraits traits = gpu_traits();
  traits.convolution_library = library_.get();
  LibraryQueue queue(traits, nullptr, stream_.get());
  Example::Shape shape;
  shape.groups = 8;
  shape.inputs = shape.outputs = 1;
  const Example example(shape, UHAL_OP_CONVOLUTION, 1);
  ASSERT_EQ(kernels::run_convolution(queue, example.op), UHAL_OK);
  EXPECT_EQ(std::count(queue.submitted.begin(), queue.submitted.end(), "library"), 0);
}

// Their sums may be rounded before the bias and the activation (op.h).
TEST_P(Convolutions, OfNarrowResultsAreFinishedBehind) {
  open();
  ASSERT_NE(stream_, nullptr);
  kernels::DeviceTraits traits = gpu_traits();
  traits.convolution_library = library_.get();
  const auto takes = [&](uhal_dtype dtype, uhal_activation activation) {
    Example::Shape shape;
    shape.dtype = dtype;
    const Example example(shape, UHAL_OP_CONVOLUTION, 1);
    kernels::Convolution convolution = example.convolution();
    convolution.activation = activation;
    return kernels::takes_library(traits, convolution, Pass::kForward);
  };
  for (const uhal_dtype dtype : {UHAL_FLOAT32, UHAL_FLOAT16, UHAL_BFLOAT16}) {
    for (const uhal_activation activation : {UHAL_ACTIVATION_NONE, UHAL_ACTIVATION_RELU6, UHAL_ACTIVATION_SILU}) {
      EXPECT_TRUE(takes(dtype, activation)) << dtype << " " << activation;
    }
  }
}

TEST_P(Convolutions, AreFinishedInOnePass) {
  open();
  ASSERT_NE(stream_, nullptr);
  kernels::DeviceTraits traits = gpu_traits();
  traits.convolution_library = library_.get();
  LibraryQueue queue(traits, nullptr, stream_.get());
  const Example example(Example::Shape(), UHAL_OP_CONVOLUTION, 1);
  kernels::Convolution convolution = example.convolution();
  float bias[2] = {};
  convolution.bias.data = bias;
  convolution.bias.strides[0] = 1;
  convolution.activation = UHAL_ACTIVATION_RELU;
  ASSERT_EQ(kernels::convolve(queue, convolution, Pass::kForward, {}), UHAL_OK);
  ASSERT_EQ(queue.submitted.size(), 2U);
  EXPECT_EQ(queue.submitted[0], "library");
  for (const char* step : {"x + y", "x < 0 ?"}) {
    EXPECT_NE(queue.submitted[1].find(step), std::string::npos) << queue.submitted[1];
  }
}

TEST_P(Convolutions, FiltersInOtherOrdersAreCopied) {
  open();
  ASSERT_NE(stream_, nullptr);
  kernels::DeviceTraits traits = gpu_traits();
  traits.convolution_library = library_.get();
  for (const uhal_op_kind kind : kKinds) {
    LibraryQueue queue(traits, nullptr, stream_.get());
    Example::Shape shape;
    shape.images_order = Order::kLast;
    shape.filter_order = Order::kOutputsLast;  // TensorFlow's HWIO
    const Example example(shape, kind, 1);
    ASSERT_EQ(kernels::run_convolution(queue, example.op), UHAL_OK);
    ASSERT_EQ(queue.submitted.size(), 2U);
    EXPECT_EQ(queue.submitted[kind == UHAL_OP_CONVOLUTION_BACKWARD_FILTER ? 0 : 1], "library");
    EXPECT_EQ(queue.asked_bytes, 256 + control().workspace) << "room for the copy before the library's own";
  }
}

// -- cuDNN's graphs

class Graphs : public Convolutions {
 protected:
  void SetUp() override {
    Convolutions::SetUp();
    control().engines = 3;
    open();
    ASSERT_NE(stream_, nullptr);
  }

  // Runs an example; the engine that it ran on, or -1 - the algorithm that it ran by without a graph.
  int engine_of(const Example& example, LibraryAlgorithm algorithm = kBestAlgorithm) {
    const kernels::Convolution convolution = example.convolution();
    const kernels::ConvolutionTask task = {convolution, kernels::pass_of(example.op), algorithm};
    const int before = control().graphs;
    size_t bytes = 0;
    EXPECT_TRUE(stream_->plan(task, &bytes));
    EXPECT_EQ(bytes, control().workspace);
    EXPECT_EQ(stream_->run(task, workspace_.data()), UHAL_OK);
    return control().graphs > before ? control().last_algorithm : -1 - control().last_algorithm;
  }

  static Example::Shape shape_of(uhal_dtype dtype) {
    Example::Shape shape;
    shape.dtype = dtype;
    return shape;
  }

  int engine() { return engine_of(Example(shape_of(UHAL_BFLOAT16), UHAL_OP_CONVOLUTION, 1)); }

  static constexpr LibraryAlgorithm kFirstEngine = 0x10000;
};

TEST_P(Graphs, AreWhatTheOpSays) {
  std::mt19937 random(11);
  int taken = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    const Example::Shape shape = random_shape(random);
    Example example(shape, kKinds[random() % 3], seed);
    if (!example.is_possible) continue;
    kernels::Convolution convolution = example.convolution();
    if (!library_->takes({convolution, kernels::pass_of(example.op)})) continue;
    const std::vector<unsigned char> expected = example.expected();
    ASSERT_EQ(engine_of(example, kFirstEngine), 0) << "seed " << seed;
    ASSERT_EQ(example.actual(), expected) << "seed " << seed;
    ++taken;
  }
  EXPECT_GT(taken, 150);
}

TEST_P(Graphs, FreeWhatTheyMade) {
  for (const uhal_op_kind kind : kKinds) {
    const Example example(shape_of(UHAL_FLOAT16), kind, 1);
    engine_of(example);
    engine_of(example);
  }
  EXPECT_EQ(control().questions, 3) << "of each convolution once";
  stream_.reset();
  library_.reset();
  EXPECT_EQ(control().handles, 0);
  EXPECT_EQ(control().descriptors, 0);
}

// What would give other bits each time, or round float32 or sums of 16 bits, is passed over.
TEST_P(Graphs, EnginesThatAreNotExactAreNotTaken) {
  for (const int note : {1, 2, 4}) {
    control().engine_note = note;
    open();
    EXPECT_EQ(engine(), 1) << note;
  }
  control().engine_note = 0;  // matrix units
  open();
  EXPECT_EQ(engine(), 0);
  Example::Shape shape;
  EXPECT_EQ(engine_of(Example(shape, UHAL_OP_CONVOLUTION, 1), kFirstEngine), -1);
  shape.math_mode = UHAL_MATH_ALLOW_TF32;
  EXPECT_EQ(engine_of(Example(shape, UHAL_OP_CONVOLUTION, 1)), 0);
}

TEST_P(Graphs, AreNotTheDefaultWhereMatrixUnitsMustNotBeUsed) {
  EXPECT_EQ(engine_of(Example(shape_of(UHAL_FLOAT16), UHAL_OP_CONVOLUTION, 1)), 0);
  EXPECT_EQ(engine_of(Example(shape_of(UHAL_FLOAT32), UHAL_OP_CONVOLUTION, 1)), -1);
  EXPECT_EQ(engine_of(Example(shape_of(UHAL_FLOAT64), UHAL_OP_CONVOLUTION, 1)), -1);
}

TEST_P(Graphs, AreLeftForFunctionsWhereCudnnMakesNone) {
  control().refused_engine = 0;
  EXPECT_EQ(engine(), 1);
  control().engines = 1;
  open();
  EXPECT_EQ(engine(), -1) << "its first algorithm without a graph";
  control().refused_engine = -1;
  control().version = 8907;
  open();
  EXPECT_EQ(engine(), -1) << "graphs of cuDNN 8 are not used";
}

TEST_P(Graphs, AreNotForDataOfOddAlignment) {
  const Example example(shape_of(UHAL_BFLOAT16), UHAL_OP_CONVOLUTION, 1);
  const uhal_tensor x = *example.op.inputs[0];
  std::vector<float> memory(1024);
  uhal_tensor moved = x;
  moved.data = reinterpret_cast<char*>(memory.data()) + 2;
  const uhal_tensor* const inputs[] = {&moved, example.op.inputs[1], nullptr};
  uhal_op op = example.op;
  op.inputs = inputs;
  const kernels::Convolution convolution =
      kernels::convolution_of(convolution_operands(op), convolution_attributes(op), false);
  const kernels::ConvolutionTask task = {convolution, Pass::kForward};
  size_t bytes = 0;
  ASSERT_TRUE(stream_->plan(task, &bytes));
  ASSERT_EQ(stream_->run(task, workspace_.data()), UHAL_OK);
  EXPECT_EQ(control().graphs, 0);
}

TEST_P(Graphs, AreAmongTheAlgorithms) {
  control().refused_engine = 1;
  for (const uhal_dtype dtype : {UHAL_FLOAT16, UHAL_FLOAT32}) {
    const Example example(shape_of(dtype), UHAL_OP_CONVOLUTION, 1);
    const kernels::Convolution convolution = example.convolution();
    LibraryAlgorithm numbers[kernels::kMostConvolutionAlgorithms];
    const int count = library_->algorithms({convolution, Pass::kForward}, numbers);
    ASSERT_EQ(count, 2 + control().algorithms);
    // The first is what runs by default.
    const std::vector<int> expected =
        dtype == UHAL_FLOAT16 ? std::vector<int>{0, 2, -1, -2, -3} : std::vector<int>{-1, -2, -3, 0, 2};
    for (int i = 0; i < count; ++i) EXPECT_EQ(engine_of(example, numbers[i]), expected[static_cast<size_t>(i)]) << i;
    EXPECT_EQ(engine_of(example), expected[0]);
  }
}

// -- windows of one pixel

// Both libraries of CoreX.
constexpr LibraryRow kProductsOfCorex = {"cublaslt", Vendor::kCorex, "sm_90", "corex/lib64/libcublasLt.so.12"};

class PointwiseConvolutions : public Convolutions {
 protected:
  void SetUp() override {
    Convolutions::SetUp();
    set("UNIHAL_GPU_LIBRARIES", std::string(row().name) + "," + kProductsOfCorex.name);
    control_of(kProductsOfCorex) = {};
    open();
    ASSERT_NE(stream_, nullptr);
    products_.open(device(), &notes_);
    ASSERT_FALSE(products_.is_empty());
    blas_ = std::make_unique<BlasQueue>(products_, nullptr);
    traits_.gemm_library = &products_;
    traits_.convolution_library = library_.get();
  }

  // How many launches of products and of convolutions an op is.
  std::pair<int, int> works(const uhal_op& op) {
    const std::pair<int, int> before(control_of(kProductsOfCorex).works, control().works);
    LibraryQueue queue(traits_, blas_.get(), stream_.get());
    EXPECT_EQ(kernels::launch(queue, op), UHAL_OK);
    submitted_ = queue.submitted;
    return {control_of(kProductsOfCorex).works - before.first, control().works - before.second};
  }

  static Example::Shape shape_of(uhal_dtype dtype, Order images, Order filters) {
    Example::Shape shape;
    shape.inputs = 48;
    shape.outputs = 32;
    shape.length[0] = shape.length[1] = 24;
    shape.window[0] = shape.window[1] = 1;
    shape.padding[0] = 0;
    shape.dtype = dtype;
    shape.images_order = images;
    shape.filter_order = filters;
    return shape;
  }

  BlasLibraries products_;
  std::unique_ptr<BlasQueue> blas_;
  kernels::DeviceTraits traits_ = gpu_traits();
  std::vector<std::string> submitted_;
};

TEST_P(PointwiseConvolutions, AreProductsOfTheOtherLibrary) {
  for (const uhal_dtype dtype : {UHAL_FLOAT32, UHAL_FLOAT16, UHAL_BFLOAT16}) {
    for (const uhal_op_kind kind : kKinds) {
      for (const Order images : {Order::kFirst, Order::kLast}) {
        // The images of NCHW are no one matrix, and the gradient of the filter no one product of them.
        const bool is_one_product = images == Order::kLast || kind != UHAL_OP_CONVOLUTION_BACKWARD_FILTER;
        Example example(shape_of(dtype, images, images), kind, 1);
        const std::vector<unsigned char> expected = example.expected();
        EXPECT_EQ(works(example.op), std::make_pair(is_one_product ? 1 : 0, is_one_product ? 0 : 1));
        EXPECT_EQ(submitted_.size(), 1U);
        EXPECT_EQ(example.actual(), expected) << kind << " of dtype " << dtype;
      }
    }
  }
}

TEST_P(PointwiseConvolutions, TakeFiltersInAnyOrder) {
  for (const uhal_op_kind kind : kKinds) {
    Example example(shape_of(UHAL_FLOAT32, Order::kLast, Order::kOutputsLast), kind, 1);  // TensorFlow's HWIO
    const std::vector<unsigned char> expected = example.expected();
    EXPECT_EQ(works(example.op), std::make_pair(1, 0));
    EXPECT_EQ(submitted_.size(), 1U);
    EXPECT_EQ(example.actual(), expected) << kind;
  }
}

TEST_P(PointwiseConvolutions, OfOtherKindsAreTheLibrarysOfConvolutions) {
  const Example::Shape pointwise = shape_of(UHAL_FLOAT32, Order::kLast, Order::kLast);
  Example::Shape shape = pointwise;
  shape.stride[0] = shape.stride[1] = 2;
  EXPECT_EQ(works(Example(shape, UHAL_OP_CONVOLUTION, 1).op), std::make_pair(0, 1)) << "with a stride";
  shape = pointwise;
  shape.window[0] = 3;
  EXPECT_EQ(works(Example(shape, UHAL_OP_CONVOLUTION, 1).op), std::make_pair(0, 1)) << "with a larger window";
  shape = pointwise;
  shape.groups = 2;
  EXPECT_EQ(works(Example(shape, UHAL_OP_CONVOLUTION, 1).op), std::make_pair(0, 1)) << "in groups";
  shape = pointwise;
  shape.images_order = shape.filter_order = Order::kFirst;
  shape.length[0] = shape.length[1] = 7;
  EXPECT_EQ(works(Example(shape, UHAL_OP_CONVOLUTION, 1).op), std::make_pair(0, 1)) << "small images of NCHW";
}

// -- algorithms

class TunedConvolutions : public Convolutions {
 protected:
  void SetUp() override {
    Convolutions::SetUp();
    open_process();
  }

  // As a process that begins.
  void open_process() {
    open();
    ASSERT_NE(stream_, nullptr);
    traits_.convolution_library = library_.get();
    kernels::open_tuning(ordinal_ = ++last_ordinal, std::string("tuned ") + row().name, traits_);
  }

  int32_t number_of(const uhal_op& op, const std::string& wanted) {
    char key[256];
    int32_t count = 0;
    EXPECT_EQ(tuning_->describe(ordinal_, &op, key, sizeof key, &count), UHAL_OK);
    for (int32_t i = 0; i < count; ++i) {
      char name[256];
      int32_t usable = 0;
      EXPECT_EQ(tuning_->candidate(ordinal_, &op, i, name, sizeof name, &usable), UHAL_OK);
      if (name == wanted) return usable != 0 ? i : -1;
    }
    return -1;
  }

  // The algorithm of the library that an op runs by; -1: it does not run on the library.
  int algorithm_of(const uhal_op& op) {
    control().last_algorithm = -1;
    LibraryQueue queue(traits_, nullptr, stream_.get());
    EXPECT_EQ(kernels::launch(queue, op), UHAL_OK);
    return control().last_algorithm;
  }

  static inline int32_t last_ordinal = 1000;  // each is opened once

  kernels::DeviceTraits traits_ = gpu_traits();
  int32_t ordinal_ = 0;
  const uhal_tuning* const tuning_ = kernels::tuning_extension();
};

TEST_P(TunedConvolutions, RunByTheAlgorithmThatWasChosen) {
  for (const uhal_op_kind kind : kKinds) {
    control() = {};
    const Example example(Example::Shape(), kind, 1);
    EXPECT_EQ(algorithm_of(example.op), 0);
    const std::string name = library_->name();
    EXPECT_EQ(number_of(example.op, name + " #4"), -1) << "there are three";
    const int32_t third = number_of(example.op, name + " #3");
    ASSERT_GE(third, 0);
    ASSERT_EQ(tuning_->choose(ordinal_, &example.op, third), UHAL_OK);
    EXPECT_EQ(algorithm_of(example.op), 2);
    ASSERT_EQ(tuning_->keep(ordinal_), UHAL_OK);
    open_process();
    int32_t chosen = -1;
    EXPECT_EQ(tuning_->chosen(ordinal_, &example.op, &chosen), UHAL_OK);
    EXPECT_EQ(chosen, third);
    control().questions = 0;
    EXPECT_EQ(algorithm_of(example.op), 2) << "as it was kept";
    EXPECT_EQ(control().questions, 0) << "a choice needs no advice";
    control().refused_algorithm = 2;
    EXPECT_EQ(algorithm_of(example.op), -1) << "ours stand in for what fails";
    EXPECT_EQ(algorithm_of(example.op), 0) << "and from then on what the library holds best";
    EXPECT_EQ(opencl::last_report.status, UHAL_OK);
  }
}

TEST_P(TunedConvolutions, OfAnAlgorithmThatIsNoMoreRunByTheBest) {
  const Example example(Example::Shape(), UHAL_OP_CONVOLUTION, 1);
  const int32_t third = number_of(example.op, std::string(library_->name()) + " #3");
  ASSERT_EQ(tuning_->choose(ordinal_, &example.op, third), UHAL_OK);
  control().algorithms = 1;
  const bool asks_for_workspaces = std::string(row().name) == "miopen";
  EXPECT_EQ(algorithm_of(example.op), asks_for_workspaces ? 0 : -1)
      << "the first says so before, the other when it runs";
  EXPECT_EQ(algorithm_of(example.op), 0);
  EXPECT_EQ(opencl::last_report.status, UHAL_OK);
}

// MIOpen reads databases to answer; cuDNN answers by a table.
TEST_P(TunedConvolutions, AreAskedForOnceWhereThatIsCostly) {
  const bool keeps = std::string(row().name) == "miopen";
  const Example example(Example::Shape(), UHAL_OP_CONVOLUTION, 1);
  EXPECT_EQ(algorithm_of(example.op), 0);
  EXPECT_EQ(control().questions, 1);
  open_process();
  EXPECT_EQ(algorithm_of(example.op), 0);
  EXPECT_EQ(control().questions, keeps ? 1 : 2);
  if (!keeps) return;
  control().workspace = size_t{1} << 40;  // beyond the limit: what was kept is no more
  open_process();
  EXPECT_EQ(algorithm_of(example.op), -1);
  EXPECT_EQ(control().questions, 2);
}

constexpr LibraryRow kLibraries[] = {
    {"cudnn", Vendor::kCorex, "sm_90", "corex/lib64/libcudnn.so.9"},
    {"miopen", Vendor::kHip, "gfx1030", "rocm/lib/libMIOpen.so.1"},
};
INSTANTIATE_TEST_SUITE_P(Libraries, Convolutions, testing::ValuesIn(kLibraries),
                         [](const auto& info) { return std::string(info.param.name); });
INSTANTIATE_TEST_SUITE_P(Libraries, Graphs, testing::Values(kLibraries[0]));
INSTANTIATE_TEST_SUITE_P(Libraries, PointwiseConvolutions, testing::Values(kLibraries[0]));
INSTANTIATE_TEST_SUITE_P(Libraries, TunedConvolutions, testing::ValuesIn(kLibraries),
                         [](const auto& info) { return std::string(info.param.name); });

// -- which libraries are used ----------------------------------------------------------------------------------

class FindingConvolutions : public LibraryTest {
 protected:
  const LibraryRow& row() const override { return row_; }
  std::string note() {
    notes_.clear();
    open_dnn(device(), &notes_);
    return notes_.at(0);
  }

  LibraryRow row_ = kLibraries[0];
};

TEST_F(FindingConvolutions, NamesAndVersions) {
  EXPECT_EQ(note(), "cuDNN 9.14");
  control().version = 8907;
  EXPECT_EQ(note(), "cuDNN 8.9");
  control().version = 6021;
  EXPECT_EQ(note(), "no cuDNN (version 6.0 is older than 7)");
  set("UNIHAL_GPU_LIBRARIES", "none");
  EXPECT_EQ(note(), "no cuDNN (UNIHAL_GPU_LIBRARIES leaves it out)");
  set("UNIHAL_GPU_LIBRARIES", "all");
  row_ = kLibraries[1];
  EXPECT_EQ(note(), "MIOpen 3.2");
}

TEST_F(FindingConvolutions, MissingFunctionsAreNamed) {
  set("COREX_ROOT", std::string(LIBRARIES_ON_HOST) + "/incomplete");
  EXPECT_NE(note().find("has no function cudnnCreate"), std::string::npos) << notes_[0];
}

TEST_F(FindingConvolutions, MiopenNeedsRocblasKernels) {
  row_ = kLibraries[1];
  row_.architecture = "gfx803";
  set("UNIHAL_GPU_LIBRARIES", "all");
  EXPECT_NE(note().find("no kernels for gfx803"), std::string::npos) << notes_[0];
}

// What would give other bits each time, or round float32 to TF32, is not taken.
TEST_F(FindingConvolutions, AdviceThatIsNotExactIsNotTaken) {
  set("UNIHAL_GPU_LIBRARIES", "all");
  const std::unique_ptr<Dnn> library = open_dnn(device(), &notes_);
  ASSERT_NE(library, nullptr);
  const Example example(Example::Shape(), UHAL_OP_CONVOLUTION, 1);
  const kernels::Convolution convolution = example.convolution();
  const auto plans = [&] {
    size_t bytes = 0;
    return library->open_stream(nullptr)->plan({convolution, Pass::kForward}, &bytes);
  };
  EXPECT_TRUE(plans());
  control().is_random = 1;
  EXPECT_FALSE(plans());
  control() = {};
  for (const int math : {1, 2}) {
    control().advice_math = math;
    EXPECT_FALSE(plans()) << math;
  }
}

// cudnnMathType_t: 1 uses matrix units, 2 converts to half precision, 3 neither.
class ConvolutionMathModes : public FindingConvolutions {
 protected:
  static Example::Shape shape_of(uhal_math_mode math_mode, uhal_dtype dtype = UHAL_FLOAT32) {
    Example::Shape shape;
    shape.math_mode = math_mode;
    shape.dtype = dtype;
    return shape;
  }

  // The math type that a convolution ran with; -1: the library was not asked, or refused.
  int run(DnnStream* stream, const Example::Shape& shape) {
    const Example example(shape, UHAL_OP_CONVOLUTION, 1);
    const kernels::Convolution convolution = example.convolution();
    const kernels::ConvolutionTask task = {convolution, Pass::kForward};
    size_t bytes = 0;
    control().compute = -1;
    if (!stream->plan(task, &bytes)) return -1;
    EXPECT_EQ(stream->run(task, workspace_.data()), UHAL_OK);
    return control().compute;
  }

  std::unique_ptr<Dnn> library_;
  Memory workspace_{1 << 20};
};

TEST_F(ConvolutionMathModes, AreToldToTheLibrary) {
  library_ = open_dnn(device(), &notes_);
  ASSERT_NE(library_, nullptr);
  const auto stream = library_->open_stream(nullptr);
  control().allows_tf32 = 1;
  for (int i = 0; i < 2; ++i) {  // the second time from what was kept
    EXPECT_EQ(run(stream.get(), shape_of(UHAL_MATH_STRICT)), 3);
    EXPECT_EQ(run(stream.get(), shape_of(UHAL_MATH_ALLOW_TF32)), 1);
    EXPECT_EQ(run(stream.get(), shape_of(UHAL_MATH_ALLOW_TF32, UHAL_FLOAT64)), 3);
  }
}

TEST_F(ConvolutionMathModes, NeverConvertToHalfPrecision) {
  library_ = open_dnn(device(), &notes_);
  ASSERT_NE(library_, nullptr);
  control().allows_tf32 = 1;
  control().advice_math = 2;
  EXPECT_EQ(run(library_->open_stream(nullptr).get(), shape_of(UHAL_MATH_ALLOW_TF32)), -1);
  control().advice_math = 0;  // the default, which may be TF32
  EXPECT_EQ(run(library_->open_stream(nullptr).get(), shape_of(UHAL_MATH_ALLOW_TF32)), 0);
}

TEST_F(ConvolutionMathModes, AreStrictBeforeCudnn8) {
  control().version = 7605;
  library_ = open_dnn(device(), &notes_);
  ASSERT_NE(library_, nullptr);
  control().allows_tf32 = 1;  // of what this version calls its default it knows nothing
  EXPECT_EQ(run(library_->open_stream(nullptr).get(), shape_of(UHAL_MATH_ALLOW_TF32)), 0);
  control().advice_math = 1;
  EXPECT_EQ(run(library_->open_stream(nullptr).get(), shape_of(UHAL_MATH_ALLOW_TF32)), -1);
}

TEST_F(ConvolutionMathModes, AreThoseOfTheProductWhereAConvolutionIsOne) {
  set("UNIHAL_GPU_LIBRARIES", "cublaslt");
  BlasLibraries libraries;
  libraries.open(device(), &notes_);
  ASSERT_FALSE(libraries.is_empty());
  BlasQueue products(libraries, nullptr);
  LibraryControl& blas = control_of({"cublaslt", Vendor::kCorex, "sm_90", "corex/lib64/libcublasLt.so.12"});
  kernels::DeviceTraits traits = gpu_traits();
  traits.gemm_library = &libraries;
  traits.has_tf32 = true;
  for (const auto& [math_mode, compute] : {std::pair<uhal_math_mode, int>{UHAL_MATH_STRICT, 68},
                                           std::pair<uhal_math_mode, int>{UHAL_MATH_ALLOW_TF32, 77}}) {
    Example::Shape shape = shape_of(math_mode);
    shape.inputs = shape.outputs = 64;
    shape.length[0] = shape.length[1] = 32;
    shape.window[0] = shape.window[1] = 1;
    shape.padding[0] = 0;
    for (const uhal_op_kind kind : kKinds) {
      LibraryQueue queue(traits, &products, nullptr);
      const Example example(shape, kind, 1);
      blas = {};
      ASSERT_EQ(kernels::run_convolution(queue, example.op), UHAL_OK);
      if (kind == UHAL_OP_CONVOLUTION_BACKWARD_FILTER && blas.works == 0) continue;  // images that are no one matrix
      EXPECT_EQ(blas.compute, compute) << uhal_op_kind{kind};
    }
  }
}

}  // namespace
}  // namespace unihal::gpu
