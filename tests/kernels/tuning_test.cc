// Choices between kernels: their keys, the table, the file, and that an op runs as chosen where it can. On a queue that
// only writes down what it is given, so that no kernel is compiled.

#include "csrc/kernels/tuning.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "csrc/backends/common/disk_cache.h"
#include "csrc/kernels/device_properties.h"
#include "csrc/kernels/gemm_tile.h"
#include "csrc/kernels/ops.h"
#include "csrc/kernels/ops/convolution.h"
#include "tests/opencl/parts_host.h"

namespace unihal::kernels {
namespace {

// The process's cache is where the environment says at its first use, which comes after main has begun.
class CacheFolder {
 public:
  CacheFolder() {
    char name[] = "/tmp/unihal-tuning-test-XXXXXX";
    path_ = mkdtemp(name);
    setenv("UNIHAL_CACHE", "on", 1);
    setenv("UNIHAL_CACHE_DIR", path_.c_str(), 1);
    opencl::keep_reports();
  }
  ~CacheFolder() { std::filesystem::remove_all(path_); }
  CacheFolder(const CacheFolder&) = delete;
  CacheFolder& operator=(const CacheFolder&) = delete;

 private:
  std::string path_;
} cache_folder;

class RecordingQueue final : public Queue {
 public:
  explicit RecordingQueue(const DeviceTraits& traits) : Queue(traits) {}

  uhal_status run(const KernelSpec& spec, const Arguments&, const Grid&) override {
    kernels.push_back(spec.describe());
    return UHAL_OK;
  }
  uhal_status copy(void*, const void*, size_t) override { return UHAL_OK; }
  uhal_status fill(void*, const void*, size_t, size_t) override { return UHAL_OK; }
  uhal_status workspace(size_t, void** pointer) override {
    *pointer = reinterpret_cast<void*>(uintptr_t{1} << 40);
    return UHAL_OK;
  }
  uhal_status error_cell(const uhal_op&, void**, int64_t*) override { return UHAL_UNIMPLEMENTED; }

  std::vector<std::string> kernels;
};

DeviceTraits gpu() {
  DeviceTraits traits;
  traits.has_float64 = true;
  traits.compute_units = 36;
  traits.dtypes = ~uint64_t{0};
  return traits;
}

DeviceTraits cpu() {
  DeviceTraits traits = gpu();
  traits.is_cpu = true;
  traits.compute_units = 2;
  return traits;
}

// A view at an address that nothing reads. `order`: its axes from the slowest to the fastest; row-major if empty.
uhal_tensor view_of(const std::vector<int64_t>& shape, uhal_dtype dtype, std::vector<int> order = {}) {
  uhal_tensor view = {};
  view.data = reinterpret_cast<void*>(uintptr_t{1} << 30);
  view.dtype = dtype;
  view.rank = static_cast<int32_t>(shape.size());
  for (int i = 0; order.size() < shape.size(); ++i) order.push_back(i);
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    const auto axis = static_cast<size_t>(order[i]);
    view.shape[axis] = shape[axis];
    view.strides[axis] = stride;
    stride *= shape[axis];
  }
  return view;
}

struct Layer {
  int64_t images = 4, channels = 32, filters = 32, window = 3, stride = 1, padding = 1, dilation = 1, groups = 1;
  std::vector<int64_t> image = {14, 14};
  bool channels_last = false;
  uhal_dtype dtype = UHAL_FLOAT32;
};

// One of the three ops on a layer.
class ConvolutionOp {
 public:
  ConvolutionOp(Pass pass, const Layer& layer) {
    const auto axes = static_cast<int>(layer.image.size());
    std::vector<int64_t> x = {layer.images, layer.channels};
    std::vector<int64_t> w = {layer.filters, layer.channels / layer.groups};
    std::vector<int64_t> y = {layer.images, layer.filters};
    std::vector<int> images_order, filter_order;
    attributes_.struct_size = sizeof attributes_;
    for (int i = 0; i < axes; ++i) {
      const int64_t length = layer.image[static_cast<size_t>(i)];
      x.push_back(length);
      w.push_back(layer.window);
      y.push_back((length + 2 * layer.padding - layer.dilation * (layer.window - 1) - 1) / layer.stride + 1);
      attributes_.stride[i] = layer.stride;
      attributes_.dilation[i] = layer.dilation;
      attributes_.pad_before[i] = attributes_.pad_after[i] = layer.padding;
    }
    attributes_.groups = layer.groups;
    if (layer.channels_last) {
      images_order = {0};
      for (int i = 0; i < axes; ++i) images_order.push_back(2 + i), filter_order.push_back(2 + i);
      images_order.push_back(1);
      filter_order.insert(filter_order.end(), {1, 0});
    }
    x_ = view_of(x, layer.dtype, images_order);
    w_ = view_of(w, layer.dtype, filter_order);
    y_ = view_of(y, layer.dtype, images_order);
    op_.struct_size = sizeof op_;
    op_.kind = pass == Pass::kForward        ? UHAL_OP_CONVOLUTION
               : pass == Pass::kBackwardData ? UHAL_OP_CONVOLUTION_BACKWARD_DATA
                                             : UHAL_OP_CONVOLUTION_BACKWARD_FILTER;
    inputs_[0] = pass == Pass::kBackwardData ? &y_ : &x_;
    inputs_[1] = pass == Pass::kBackwardFilter ? &y_ : &w_;
    outputs_[0] = pass == Pass::kForward ? &y_ : pass == Pass::kBackwardData ? &x_ : &w_;
    op_.input_count = 2;
    op_.output_count = 1;
    op_.inputs = inputs_;
    op_.outputs = outputs_;
    op_.attributes = &attributes_;
  }
  ConvolutionOp(const ConvolutionOp&) = delete;
  ConvolutionOp& operator=(const ConvolutionOp&) = delete;

  const uhal_op& op() const { return op_; }
  uhal_tensor& x() { return x_; }
  uhal_tensor& y() { return y_; }
  uhal_convolution_attributes& attributes() { return attributes_; }

  TuningKey key() const {
    return TuningKey::convolution(pass_of(op_),
                                  convolution_of(convolution_operands(op_), convolution_attributes(op_), false));
  }

 private:
  uhal_tensor x_, w_, y_;
  const uhal_tensor* inputs_[2];
  const uhal_tensor* outputs_[1];
  uhal_convolution_attributes attributes_ = {};
  uhal_op op_ = {};
};

std::vector<std::string> kernels_of(const DeviceTraits& traits, const uhal_op& op) {
  RecordingQueue queue(traits);
  EXPECT_EQ(UHAL_OK, launch(queue, op));
  EXPECT_FALSE(queue.kernels.empty());
  return queue.kernels;
}

std::string key_of(const Layer& layer, Pass pass = Pass::kForward) { return ConvolutionOp(pass, layer).key().text(); }

constexpr Pass kPasses[] = {Pass::kForward, Pass::kBackwardData, Pass::kBackwardFilter};

// -- keys

TEST(TuningKey, SaysAllThatAChoiceDependsOn) {
  Layer layer;
  layer.images = 37;
  EXPECT_EQ("convolution_forward float32 nchw oihw 3x3 s1 p1 d1 g1 n32 c32 k32 h14 w14", key_of(layer));
  EXPECT_EQ("convolution_backward_data float32 nchw oihw 3x3 s1 p1 d1 g1 n32 c32 k32 h14 w14",
            key_of(layer, Pass::kBackwardData));
  layer.channels_last = true;
  layer.groups = 4;
  layer.dtype = UHAL_FLOAT16;
  layer.image = {64, 200};
  layer.stride = 2;
  EXPECT_EQ("convolution_backward_filter float16 nhwc hwio 3x3 s2 p1 d1 g4 n32 c32 k32 h64 w128",
            key_of(layer, Pass::kBackwardFilter));
  layer.image = {8, 20, 20};
  layer.dilation = 3;
  layer.padding = 5;
  EXPECT_EQ("convolution_forward float16 ndhwc dhwio 3x3x3 s2 p5 d3 g4 n32 c32 k32 z8 h20 w20", key_of(layer));
}

TEST(TuningKey, NamesWhatDiffersByAxisOrOperand) {
  ConvolutionOp given(Pass::kForward, Layer());
  given.attributes().pad_before[1] = 0;
  given.y() = view_of({4, 32, 14, 12}, UHAL_FLOAT64, {0, 2, 3, 1});
  EXPECT_EQ("convolution_forward float32-float32-float64 nchw-nhwc oihw 3x3 s1 p1x0 d1 g1 n4 c32 k32 h14 w14",
            given.key().text());
}

TEST(TuningKey, AMathModeHasKeysOfItsOwn) {
  ConvolutionOp given(Pass::kForward, Layer());
  const TuningKey strict = given.key();
  given.attributes().math_mode = UHAL_MATH_ALLOW_TF32;
  EXPECT_FALSE(given.key() == strict);
  EXPECT_EQ(strict.text() + " tf32", given.key().text());
  MatmulProblem product;
  product.m = product.n = product.k = 64;
  product.operands[kMatmulA].dtype = product.operands[kMatmulB].dtype = UHAL_FLOAT32;
  EXPECT_EQ("gemm float32 nn 64 64 64 1", TuningKey::gemm(product, true, false).text());
  product.math_mode = UHAL_MATH_ALLOW_TF32;
  EXPECT_EQ("gemm float32 nn 64 64 64 1 tf32", TuningKey::gemm(product, true, false).text());
}

TEST(TuningKey, OneImageAxisIsTwo) {
  Layer layer;
  layer.image = {100};
  layer.padding = 0;
  EXPECT_EQ("convolution_forward float32 nchw oihw 1x3 s1 p0 d1 g1 n4 c32 k32 h1 w64", key_of(layer));
}

TEST(TuningKey, WhatIsTooLargeHasNone) {
  Layer layer;
  layer.channels = int64_t{1} << 21;
  EXPECT_TRUE(ConvolutionOp(Pass::kForward, layer).key().is_none());
  layer = {};
  layer.padding = 100;
  EXPECT_EQ("", key_of(layer));
  ConvolutionOp cropped(Pass::kForward, Layer());
  cropped.attributes().pad_before[0] = -1;
  EXPECT_TRUE(cropped.key().is_none());
}

TEST(TuningKey, ALineIsReadBack) {
  const TuningKey key = ConvolutionOp(Pass::kBackwardFilter, Layer()).key();
  const std::string line = key.line();
  const char* at = line.c_str();
  TuningKey read;
  ASSERT_TRUE(TuningKey::parse(&at, &read));
  EXPECT_EQ('\0', *at);
  EXPECT_TRUE(read == key);
  EXPECT_EQ(key.text(), read.text());
}

// -- the table and its file

TuningKey numbered(int64_t number) {
  Layer layer;
  layer.channels = number + 1;
  return ConvolutionOp(Pass::kForward, layer).key();
}

TEST(TuningTable, FindsWhatWasChosen) {
  TuningTable table("a device");
  EXPECT_TRUE(table.is_empty());
  EXPECT_EQ(-1, table.find(numbered(1)).candidate);
  EXPECT_TRUE(table.choose(numbered(1), -1));
  EXPECT_TRUE(table.is_empty());
  EXPECT_TRUE(table.choose(numbered(1), 0));
  EXPECT_TRUE(table.choose(numbered(2), 300));
  EXPECT_FALSE(table.is_empty());
  EXPECT_EQ(0, table.find(numbered(1)).candidate);
  EXPECT_EQ(300, table.find(numbered(2)).candidate);
  EXPECT_EQ(-1, table.find(numbered(3)).candidate);
  EXPECT_EQ(-1, table.find(TuningKey()).candidate);
  EXPECT_TRUE(table.choose(numbered(1), -1));
  EXPECT_EQ(-1, table.find(numbered(1)).candidate);
  EXPECT_FALSE(table.is_empty());
  table.forget();
  EXPECT_EQ(-1, table.find(numbered(2)).candidate);
  EXPECT_TRUE(table.is_empty());
}

TEST(TuningTable, SaysWhenItIsFull) {
  TuningTable table("a device");
  int taken = 0;
  while (table.choose(numbered(taken), taken % 100)) ++taken;
  EXPECT_EQ(768, taken);
  for (int i = 0; i < taken; ++i) EXPECT_EQ(i % 100, table.find(numbered(i)).candidate);
  EXPECT_EQ(-1, table.find(numbered(taken)).candidate);
  EXPECT_TRUE(table.choose(numbered(0), 5));
}

TEST(TuningTable, IsReadWhileSomebodyChooses) {
  TuningTable table("a device");
  std::atomic<bool> done{false};
  std::thread reader([&] {
    while (!done) {
      for (int i = 0; i < 100; ++i) {
        const int32_t found = table.find(numbered(i)).candidate;
        EXPECT_TRUE(found == -1 || found == i) << found;
      }
    }
  });
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(table.choose(numbered(i), i));
  table.forget();
  done = true;
  reader.join();
}

TEST(TuningTable, KeepsChoicesOfItsDevice) {
  TuningTable table("kept");
  table.choose(numbered(1), {3, 4000000000});
  table.choose(numbered(2), 4);
  table.choose(numbered(2), -1);
  ASSERT_TRUE(table.keep());
  TuningTable later("kept");
  later.load();
  EXPECT_EQ(TuningChoice(3, 4000000000), later.find(numbered(1)));
  EXPECT_EQ(-1, later.find(numbered(2)).candidate);
  TuningTable other("another device");
  other.load();
  EXPECT_TRUE(other.is_empty());
}

// A file of the same name whose lines are none, from the second one on.
TEST(TuningTable, IgnoresWhatIsNoChoice) {
  for (const std::string& bad :
       {std::string("no line\n"), numbered(2).line() + "\n", numbered(2).line() + " -5 0\n",
        numbered(2).line() + " 99999999999 0\n", numbered(2).line() + " 3\n", numbered(2).line() + " 3 -1\n",
        numbered(2).line() + " 3 4294967296\n", numbered(2).line() + " 3 0", std::string("0 0 0 1 0\n")}) {
    DiskCache::shared().store("tuning 3\ndamaged", "tuning choices", numbered(1).line() + " 3 0\n" + bad);
    TuningTable table("damaged");
    table.load();
    EXPECT_EQ(3, table.find(numbered(1)).candidate) << bad;
    EXPECT_EQ(-1, table.find(numbered(2)).candidate) << bad;
  }
}

// -- ops

// What each candidate of a layer's ops runs. Found by the extension, as `unihal tune` does.
class Choices : public testing::TestWithParam<bool> {
 protected:
  Choices() : traits(GetParam() ? cpu() : gpu()), number(++devices) { open_tuning(number, "choices", traits); }

  // The names of those that are usable; each was chosen, launched, and taken back.
  std::vector<std::string> check_candidates(Pass pass, const Layer& layer) {
    const ConvolutionOp given(pass, layer);
    char key[256];
    int32_t count = 0;
    EXPECT_EQ(UHAL_OK, extension->describe(number, &given.op(), key, sizeof key, &count));
    EXPECT_EQ(given.key().text(), key);
    const std::vector<std::string> by_default = kernels_of(traits, given.op());
    std::vector<std::string> names;
    for (int32_t i = 0; i < count; ++i) {
      char name[256];
      int32_t usable = 0;
      EXPECT_EQ(UHAL_OK, extension->candidate(number, &given.op(), i, name, sizeof name, &usable));
      if (usable == 0) {
        EXPECT_EQ(UHAL_UNIMPLEMENTED, extension->choose(number, &given.op(), i)) << name;
        continue;
      }
      EXPECT_EQ(UHAL_OK, extension->choose(number, &given.op(), i));
      opencl::implementations.clear();
      expect_kernel(name, kernels_of(traits, given.op()));
      expect_noted(name);
      names.push_back(name);
    }
    EXPECT_EQ(UHAL_OK, extension->choose(number, &given.op(), -1));
    EXPECT_EQ(by_default, kernels_of(traits, given.op()));
    return names;
  }

  // What the profiler is told begins with the algorithm.
  static void expect_noted(const std::string& name) {
    ASSERT_FALSE(opencl::implementations.empty()) << name;
    const std::string& noted = opencl::implementations.front();
    const bool is_tile = name.find("gemm ") == 0;
    const std::string start = is_tile
                                  ? std::string(GetParam() ? "convolution_block" : "convolution_gemm") + name.substr(4)
                              : name == "direct" ? "convolution_direct"
                                                 : name;
    EXPECT_EQ(start, noted);
  }

  static void expect_kernel(const std::string& name, const std::vector<std::string>& kernels) {
    std::string all;
    for (const std::string& kernel : kernels) all += kernel + "\n";
    const size_t space = name.find(' ');
    if (name == "subsampled") {
      EXPECT_NE(std::string::npos, all.find("gemm_")) << name << " runs " << all;
      return;
    }
    if (space == std::string::npos) {
      const std::string start = name == "direct" ? "convolution_direct" : name == "pointwise" ? "gemm_" : name;
      EXPECT_EQ(0u, all.find(start)) << name << " runs " << all;
      return;
    }
    int rows = 0, columns = 0, depth = 0;
    ASSERT_EQ(3, std::sscanf(name.c_str(), "gemm %dx%dx%d", &rows, &columns, &depth)) << name;
    const std::string tile = "ROWS=" + std::to_string(rows) + ", COLUMNS=" + std::to_string(columns) +
                             ", DEPTH=" + std::to_string(depth) + ",";
    EXPECT_NE(std::string::npos, all.find(tile)) << name << " runs " << all;
  }

  static inline int32_t devices = 0;  // each is opened once

  DeviceTraits traits;
  const int32_t number;  // its ordinal
  const uhal_tuning* const extension = tuning_extension();
};

INSTANTIATE_TEST_SUITE_P(Devices, Choices, testing::Bool(),
                         [](const auto& info) { return info.param ? "Cpu" : "Gpu"; });

using Names = std::vector<std::string>;

TEST_P(Choices, AreRunAsChosen) {
  const Names tiles =
      GetParam() ? Names{"gemm 128x32x64"} : Names{"gemm 128x128x8", "gemm 64x128x8", "gemm 128x64x8", "gemm 64x64x16"};
  const auto expected = [&](Names names) {
    names.insert(names.end(), tiles.begin(), tiles.end());
    return names;
  };
  for (const bool channels_last : {false, true}) {
    for (const Pass pass : {Pass::kForward, Pass::kBackwardData}) {
      Layer layer;
      layer.channels_last = channels_last;
      EXPECT_EQ(expected({"direct", "winograd"}), check_candidates(pass, layer));
      layer.stride = 2;
      EXPECT_EQ(expected({"direct"}), check_candidates(pass, layer));
      layer.stride = 1;
      layer.groups = 2;
      EXPECT_EQ(expected({"direct"}), check_candidates(pass, layer));
    }
    Layer many;
    many.channels_last = channels_last;
    many.images = 64;
    EXPECT_EQ(expected({"direct", "winograd"}), check_candidates(Pass::kBackwardFilter, many));
    for (const Pass pass : kPasses) {
      Layer layer;
      layer.channels_last = channels_last;
      layer.window = 1;
      layer.padding = 0;
      // Images whose channels are outermost are no one matrix, whose sum the gradient of the filter would be.
      const bool is_product = pass != Pass::kBackwardFilter || channels_last;
      EXPECT_EQ(expected(is_product ? Names{"direct", "pointwise"} : Names{"direct"}), check_candidates(pass, layer));
      layer.stride = 2;
      Names names = expected({"direct"});
      if (is_product) names.push_back("subsampled");
      EXPECT_EQ(names, check_candidates(pass, layer));
    }
    for (const Pass pass : kPasses) {
      Layer layer;
      layer.channels_last = channels_last;
      layer.groups = layer.channels;
      Names names = expected({"direct"});
      names.push_back("depthwise");
      EXPECT_EQ(names, check_candidates(pass, layer));
    }
  }
}

TEST_P(Choices, OfDoubleHaveTilesOfTheirOwn) {
  Layer layer;
  layer.dtype = UHAL_FLOAT64;
  for (const Pass pass : kPasses) {
    EXPECT_EQ((Names{"direct", GetParam() ? "gemm 64x32x32" : "gemm 64x64x8"}), check_candidates(pass, layer));
  }
}

TEST_P(Choices, OfADeviceWithSmallGroups) {
  traits.max_group_size = 128;
  EXPECT_EQ(Names{"direct"}, check_candidates(Pass::kForward, Layer()));
}

TEST_P(Choices, ThatCannotRunAnOpAreIgnored) {
  TuningTable table("stale");
  const DeviceTraits plain = traits;
  traits.tuning = &table;
  Layer strided;
  strided.stride = 2;
  for (const Pass pass : kPasses) {
    const ConvolutionOp given(pass, strided);
    for (const int32_t stale : {1, 2, 7 /* a tile of double */, kConvolutionAlgorithmCount, 1000000, INT32_MAX}) {
      ASSERT_TRUE(table.choose(given.key(), stale));
      EXPECT_EQ(kernels_of(plain, given.op()), kernels_of(traits, given.op())) << stale;
    }
  }
}

// The same key, but images that do not lie side by side.
TEST_P(Choices, AreLeftToOpsThatTheyCanRun) {
  Layer layer;
  layer.window = 1;
  layer.padding = 0;
  const ConvolutionOp dense(Pass::kForward, layer);
  ConvolutionOp cut(Pass::kForward, layer);
  cut.x().strides[2] += 2;
  ASSERT_EQ(dense.key().text(), cut.key().text());
  const std::vector<std::string> by_default = kernels_of(traits, cut.op());
  ASSERT_EQ(UHAL_OK, extension->choose(number, &dense.op(), 1));
  EXPECT_EQ(0u, kernels_of(traits, dense.op())[0].find("gemm_"));
  EXPECT_EQ(by_default, kernels_of(traits, cut.op()));
  EXPECT_EQ(UHAL_UNIMPLEMENTED, extension->choose(number, &cut.op(), 1));
  EXPECT_NE(std::string::npos, opencl::last_report.message.find("candidate 1 (pointwise) cannot run this op"))
      << opencl::last_report.message;
}

TEST_P(Choices, OfMatrixProductsThatCannotBeRunAreIgnored) {
  TuningTable table("stale");
  const uhal_tensor a = view_of({64, 64}, UHAL_FLOAT64);
  const uhal_tensor* const inputs[] = {&a, &a};
  const uhal_tensor* const outputs[] = {&a};
  uhal_op product = {};
  product.struct_size = sizeof product;
  product.kind = UHAL_OP_MATMUL;
  product.input_count = 2;
  product.output_count = 1;
  product.inputs = inputs;
  product.outputs = outputs;
  const std::vector<std::string> by_default = kernels_of(traits, product);
  const Tunable tunable = tunable_matmul(traits, product);
  ASSERT_FALSE(tunable.key.is_none());
  traits.tuning = &table;
  // The library, which is not there; a tile with more sums than registers; none.
  for (const int32_t stale : {0, 1, tunable.candidates, INT32_MAX}) {
    ASSERT_TRUE(table.choose(tunable.key, stale));
    EXPECT_EQ(by_default, kernels_of(traits, product)) << stale;
  }
}

TEST_P(Choices, NeedSomethingToChooseAbout) {
  Layer layer;
  layer.images = 0;
  const ConvolutionOp empty(Pass::kBackwardFilter, layer);
  char key[256] = "untouched";
  int32_t count = -1;
  EXPECT_EQ(UHAL_OK, extension->describe(number, &empty.op(), key, sizeof key, &count));
  EXPECT_STREQ("", key);
  EXPECT_EQ(0, count);
  EXPECT_EQ(UHAL_INVALID_ARGUMENT, extension->choose(number, &empty.op(), 0));
  const ConvolutionOp given(Pass::kForward, Layer());
  EXPECT_EQ(UHAL_OK, extension->describe(number, &given.op(), key, sizeof key, &count));
  EXPECT_EQ(UHAL_OUT_OF_RANGE, extension->choose(number, &given.op(), count));
  EXPECT_EQ(UHAL_NOT_FOUND, extension->choose(number + 1, &given.op(), 0));
}

// A device whose wavefronts have 64 work-items, of which each has its share of the unit.
DeviceTraits with_shares() {
  DeviceTraits traits = gpu();
  traits.item_share = item_share(64);
  return traits;
}

TEST(ItemShares, AreThoseOfWavefrontsOf64) {
  EXPECT_EQ(64, with_shares().item_share.registers);
  EXPECT_EQ(64, with_shares().item_share.local_memory);
  for (const int32_t wavefront : {1, 8, 16, 32}) EXPECT_EQ(0, item_share(wavefront).registers) << wavefront;
}

TEST(ItemShares, DecideWhichTilesOfProductsAreDefaults) {
  MatmulProblem product;
  for (product.m = 1; product.m <= 4096; product.m *= 4) {
    for (product.n = 16; product.n <= 4096; product.n *= 2) {
      for (product.k = 32; product.k <= 4096; product.k *= 8) {
        const GemmTile& usual = kGemmTiles[plan_gemm(gpu(), product, 4).tile];
        EXPECT_FALSE(usual.is_spare) << usual.name();
        const GemmTile& spare = kGemmTiles[plan_gemm(with_shares(), product, 4).tile];
        EXPECT_TRUE(keeps_to(spare, item_share(64), 4)) << spare.name();
        // Of float64 no tile does.
        EXPECT_EQ(plan_gemm(gpu(), product, 8).tile, plan_gemm(with_shares(), product, 8).tile);
      }
    }
  }
  // Any tile that fits can be chosen.
  EXPECT_EQ(0, plan_gemm(with_shares(), product, 4, 0).tile);
  EXPECT_EQ(kGemmTileCount - 1, plan_gemm(gpu(), product, 4, kGemmTileCount - 1).tile);
}

TEST(ItemShares, DecideWhichTilesOfConvolutionsAreDefaults) {
  for (const int64_t filters : {8, 64, 512}) {
    Layer layer;
    layer.filters = filters;
    layer.window = 5;
    layer.padding = 2;
    for (const Pass pass : {Pass::kForward, Pass::kBackwardData, Pass::kBackwardFilter}) {
      const ConvolutionOp given(pass, layer);
      for (const auto& [traits, compact] : {std::pair(gpu(), "COMPACT=0"), std::pair(with_shares(), "COMPACT=1")}) {
        const std::string first = kernels_of(traits, given.op())[0];
        EXPECT_EQ(0u, first.find("convolution_gemm")) << first;
        EXPECT_NE(std::string::npos, first.find(compact)) << first;
      }
    }
  }
}

}  // namespace
}  // namespace unihal::kernels
