// Weights that are declared to stay: the copies that oneDNN prefers are kept, and no result changes.
#include <cstdlib>
#include <cstring>

#include "tests/stub/nn_test.h"
#include "unihal/constants.h"

namespace nn_test {
namespace {

class Constants : public testing::Test {
 protected:
  void SetUp() override {
    const void* found = nullptr;
    uhal_device* device = nullptr;
    ASSERT_EQ(UHAL_OK, uhal_device_get("rdna", 0, &device));
    if (uhal_device_extension(device, UHAL_CONSTANTS_NAME, UHAL_CONSTANTS_VERSION, &found) != UHAL_OK) {
      GTEST_SKIP() << "no oneDNN in this build";
    }
    table_ = static_cast<const uhal_constants*>(found);
  }
  void declare(const Tensor& tensor) { ASSERT_EQ(UHAL_OK, table_->declare(tensor.view()->data, bytes(tensor))); }
  void withdraw(const Tensor& tensor) { ASSERT_EQ(UHAL_OK, table_->withdraw(tensor.view()->data)); }
  static size_t bytes(const Tensor& tensor) { return static_cast<size_t>(count(tensor.shape())) * sizeof(float); }
  static float* data(const Tensor& tensor) { return static_cast<float*>(tensor.view()->data); }
  static bool has_onednn() {
    return !is_set_to("UNIHAL_ONEDNN_LIBRARY", "none") && !is_set_to("UNIHAL_STUB", "strict");
  }
  static bool is_set_to(const char* name, const char* text) {
    const char* value = std::getenv(name);
    return value != nullptr && std::strcmp(value, text) == 0;
  }

  const uhal_constants* table_ = nullptr;
};

Values convolved(const Tensor& x, const Tensor& w, Layout layout) {
  auto attributes = make_attributes<uhal_convolution_attributes>();
  for (int i = 0; i < 2; ++i) {
    attributes.stride[i] = attributes.dilation[i] = 1;
    attributes.pad_before[i] = attributes.pad_after[i] = 1;
  }
  attributes.groups = 1;
  const Shape shape = {x.shape()[0], w.shape()[0], x.shape()[2], x.shape()[3]};
  Tensor y(shape, Values(static_cast<size_t>(count(shape))), UHAL_FLOAT32, layout);
  run(UHAL_OP_CONVOLUTION, {&x, &w, nullptr}, {&y}, &attributes);
  return y.values();
}

Values multiplied(const Tensor& a, const Tensor& b) {
  const Shape shape = {a.shape()[0], b.shape()[1]};
  Tensor y(shape, Values(static_cast<size_t>(count(shape))), UHAL_FLOAT32);
  auto attributes = make_attributes<uhal_matmul_attributes>();
  attributes.alpha = 1;
  run(UHAL_OP_MATMUL, {&a, &b, nullptr}, {&y}, &attributes);
  return y.values();
}

TEST_F(Constants, ConvolutionsGiveTheSameInEachLayoutAndBatch) {
  for (const Layout images : {Layout::kRowMajor, Layout::kChannelsLast}) {
    for (const Layout filters : {Layout::kRowMajor, Layout::kChannelsLast, Layout::kFilterLast}) {
      const Tensor one({1, 32, 14, 14}, UHAL_FLOAT32, images), two({2, 32, 14, 14}, UHAL_FLOAT32, images);
      const Tensor w({64, 32, 3, 3}, UHAL_FLOAT32, filters);
      const Values expected_one = convolved(one, w, images), expected_two = convolved(two, w, images);
      declare(w);
      for (int turn = 0; turn < 2; ++turn) {
        EXPECT_EQ(expected_one, convolved(one, w, images));
        EXPECT_EQ(expected_two, convolved(two, w, images));
      }
      withdraw(w);
      EXPECT_EQ(expected_one, convolved(one, w, images));
    }
  }
}

TEST_F(Constants, ProductsGiveTheSameAlsoOfAPart) {
  const Tensor a({64, 96}, UHAL_FLOAT32), b({96, 2560}, UHAL_FLOAT32);
  const Values expected = multiplied(a, b);
  declare(b);
  for (int turn = 0; turn < 2; ++turn) EXPECT_EQ(expected, multiplied(a, b));
  withdraw(b);
}

TEST_F(Constants, ACopyIsKeptUntilTheyAreWithdrawn) {
  if (!has_onednn()) GTEST_SKIP() << "the built-in kernels read weights as they are";
  constexpr Layout kImages = Layout::kChannelsLast;
  const Tensor x({1, 32, 14, 14}, UHAL_FLOAT32, kImages);
  const Tensor w({64, 32, 3, 3}, UHAL_FLOAT32), other({64, 32, 3, 3}, UHAL_FLOAT32);
  const Values before = convolved(x, w, kImages), after = convolved(x, other, kImages);
  ASSERT_NE(before, after);
  declare(w);
  EXPECT_EQ(before, convolved(x, w, kImages));
  run(UHAL_OP_COPY, {&other}, {&w});  // which the contract forbids
  EXPECT_EQ(before, convolved(x, w, kImages));
  withdraw(w);
  EXPECT_EQ(after, convolved(x, w, kImages));
  declare(w);
  EXPECT_EQ(after, convolved(x, w, kImages));
  withdraw(w);
}

TEST_F(Constants, WhatIsNoneIsRefused) {
  const Tensor w({4, 4}, UHAL_FLOAT32);
  EXPECT_EQ(UHAL_INVALID_ARGUMENT, table_->declare(nullptr, 4));
  EXPECT_EQ(UHAL_INVALID_ARGUMENT, table_->declare(data(w), 0));
  EXPECT_EQ(UHAL_INVALID_ARGUMENT, table_->withdraw(data(w)));
  declare(w);
  EXPECT_EQ(UHAL_INVALID_ARGUMENT, table_->declare(data(w), 4));
  EXPECT_EQ(UHAL_INVALID_ARGUMENT, table_->declare(data(w) + 15, 4));
  EXPECT_EQ(UHAL_INVALID_ARGUMENT, table_->withdraw(data(w) + 1));
  EXPECT_EQ(UHAL_OK, table_->declare(data(w) + 16, 4));  // behind it
  EXPECT_EQ(UHAL_OK, table_->withdraw(data(w) + 16));
  withdraw(w);
  EXPECT_EQ(UHAL_INVALID_ARGUMENT, table_->withdraw(data(w)));
}

}  // namespace
}  // namespace nn_test
