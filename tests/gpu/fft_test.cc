// Fourier transforms by the vendors' libraries: what is told to them of views, on doubles that compute on host memory
// what they are told, and that whatever they cannot be told of, or refuse, is left to our own kernels.
#include "csrc/backends/gpu/fft.h"

#include <complex>
#include <cstdint>
#include <numeric>
#include <random>

#include "csrc/kernels/ops.h"
#include "tests/gpu/library_fixture.h"

namespace unihal::gpu {
namespace {

using Number = std::complex<float>;

constexpr LibraryRow kCufft = {"cufft", Vendor::kCorex, "sm_90", "corex/lib64/libcufft.so.11"};
constexpr LibraryRow kHipfft = {"hipfft", Vendor::kHip, "gfx1030", "rocm/lib/libhipfft.so.0"};

uhal_tensor view_of(void* data, uhal_dtype dtype, std::vector<int64_t> shape, std::vector<int64_t> strides = {}) {
  uhal_tensor view = {sizeof view, data, dtype, static_cast<int32_t>(shape.size()), {}, {}};
  int64_t stride = 1;
  for (int i = view.rank - 1; i >= 0; --i) {
    view.shape[i] = shape[static_cast<size_t>(i)];
    view.strides[i] = strides.empty() ? stride : strides[static_cast<size_t>(i)];
    stride *= view.shape[i];
  }
  return view;
}

class FftLibraryTest : public LibraryTest {
 protected:
  void SetUp() override {
    LibraryTest::SetUp();
    library_ = open_fft(device(), &notes_);
    ASSERT_NE(library_, nullptr) << notes_.at(0);
    stream_ = std::make_unique<FftStream>(*library_, nullptr);
    traits_ = gpu_traits();
    traits_.fft_library = library_.get();
    std::mt19937 random(7);
    for (Number& number : x_) number = {uniform(random), uniform(random)};
  }

  static float uniform(std::mt19937& random) { return std::uniform_real_distribution<float>(-1, 1)(random); }

  // Runs a transform on a queue that has the library only; what else was submitted is in `submitted_`.
  void run(const uhal_tensor& x, const uhal_tensor& y, std::vector<int32_t> axes,
           uhal_fft_direction direction = UHAL_FFT_FORWARD, uhal_fft_normalization scale = UHAL_FFT_UNSCALED) {
    uhal_fft_attributes attributes = {sizeof attributes, direction, scale, static_cast<int32_t>(axes.size()), {}};
    std::copy(axes.begin(), axes.end(), attributes.axes);
    const uhal_tensor* inputs[] = {&x};
    const uhal_tensor* outputs[] = {&y};
    const uhal_op op = {sizeof op, UHAL_OP_FFT, 1, 1, 0, inputs, outputs, &attributes, nullptr};
    LibraryQueue queue(traits_, nullptr, nullptr, stream_.get());
    EXPECT_EQ(UHAL_OK, kernels::launch(queue, op)) << opencl::last_report.message;
    submitted_ = queue.submitted;
  }

  std::unique_ptr<Fft> library_;
  std::unique_ptr<FftStream> stream_;
  kernels::DeviceTraits traits_;
  std::vector<std::string> submitted_;
  std::vector<Number> x_ = std::vector<Number>(4096), y_ = std::vector<Number>(4096);
  const std::vector<std::string> only_library_ = {"library"};
};

// y[k] of a line of n elements, by the definition.
Number transformed(const Number* x, int64_t n, int64_t step, int64_t k, double sign = -1) {
  std::complex<double> sum = 0;
  for (int64_t j = 0; j < n; ++j) {
    const double turns = static_cast<double>(j * k % n) / static_cast<double>(n);
    sum += std::complex<double>(x[j * step]) * std::polar(1.0, sign * 2 * M_PI * turns);
  }
  return Number(sum);
}

TEST_P(FftLibraryTest, RowsAndColumns) {
  run(view_of(x_.data(), UHAL_COMPLEX64, {5, 12}), view_of(y_.data(), UHAL_COMPLEX64, {5, 12}), {1});
  EXPECT_EQ(only_library_, submitted_);
  for (int64_t k = 0; k < 12; ++k) EXPECT_LT(std::abs(y_[2 * 12 + k] - transformed(&x_[24], 12, 1, k)), 1e-5);
  run(view_of(x_.data(), UHAL_COMPLEX64, {12, 5}), view_of(y_.data(), UHAL_COMPLEX64, {12, 5}), {0}, UHAL_FFT_INVERSE);
  EXPECT_EQ(only_library_, submitted_);
  for (int64_t k = 0; k < 12; ++k) EXPECT_LT(std::abs(y_[k * 5 + 3] - transformed(&x_[3], 12, 5, k, 1)), 1e-5);
}

TEST_P(FftLibraryTest, SeveralAxesInAnyOrderAndWithGaps) {
  // (4, 6) of rows of 8, transformed along both axes, into a transposed view.
  run(view_of(x_.data(), UHAL_COMPLEX64, {2, 4, 6}, {64, 8, 1}),
      view_of(y_.data(), UHAL_COMPLEX64, {2, 4, 6}, {24, 6, 1}), {2, 1});
  EXPECT_EQ(only_library_, submitted_);
  std::complex<double> sum = 0;
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t j = 0; j < 6; ++j) {
      const double turns = i * 3 / 4.0 + j * 2 / 6.0;
      sum += std::complex<double>(x_[64 + i * 8 + j]) * std::polar(1.0, -2 * M_PI * turns);
    }
  }
  EXPECT_LT(std::abs(y_[24 + 3 * 6 + 2] - Number(sum)), 1e-5);
}

TEST_P(FftLibraryTest, SingleTransforms) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{60}, {1, 60}, {60, 1}}) {
    run(view_of(x_.data(), UHAL_COMPLEX64, shape), view_of(y_.data(), UHAL_COMPLEX64, shape), {shape[0] == 1 ? 1 : 0});
    EXPECT_EQ(only_library_, submitted_);
    for (int64_t k = 0; k < 60; ++k) EXPECT_LT(std::abs(y_[k] - transformed(x_.data(), 60, 1, k)), 1e-4);
  }
  run(view_of(x_.data(), UHAL_COMPLEX64, {3, 4, 5}), view_of(y_.data(), UHAL_COMPLEX64, {3, 4, 5}), {0, 1, 2});
  EXPECT_EQ(only_library_, submitted_);
  EXPECT_LT(std::abs(y_[0] - std::accumulate(x_.begin(), x_.begin() + 60, Number())), 1e-4);
}

TEST_P(FftLibraryTest, RealSignals) {
  for (const int64_t n : {8, 9}) {
    std::vector<float> signal(static_cast<size_t>(3 * n));
    for (size_t i = 0; i < signal.size(); ++i) signal[i] = x_[i].real();
    const std::vector<Number> numbers(signal.begin(), signal.end());
    run(view_of(signal.data(), UHAL_FLOAT32, {3, n}), view_of(y_.data(), UHAL_COMPLEX64, {3, n / 2 + 1}), {1});
    EXPECT_EQ(only_library_, submitted_);
    for (int64_t k = 0; k <= n / 2; ++k) {
      EXPECT_LT(std::abs(y_[n / 2 + 1 + k] - transformed(&numbers[n], n, 1, k)), 1e-5);
    }
  }
}

// What a real signal cannot have is left out of a copy first, since libraries leave open what they make of it.
TEST_P(FftLibraryTest, HalfSpectraAreCopiedFirst) {
  run(view_of(x_.data(), UHAL_COMPLEX64, {3, 5}), view_of(y_.data(), UHAL_FLOAT32, {3, 8}), {1}, UHAL_FFT_INVERSE,
      UHAL_FFT_BY_LENGTH);
  ASSERT_GE(submitted_.size(), 4u);
  EXPECT_EQ("copy", submitted_[0]);
  EXPECT_NE(std::find(submitted_.begin(), submitted_.end(), "library"), submitted_.end());
  EXPECT_EQ(0u, submitted_.back().find("map"));
}

TEST_P(FftLibraryTest, ScalesAreAPassBehind) {
  run(view_of(x_.data(), UHAL_COMPLEX64, {5, 12}), view_of(y_.data(), UHAL_COMPLEX64, {5, 12}), {1}, UHAL_FFT_INVERSE,
      UHAL_FFT_ORTHONORMAL);
  ASSERT_EQ(2u, submitted_.size());
  EXPECT_EQ("library", submitted_[0]);
  EXPECT_EQ(0u, submitted_[1].find("map"));
}

TEST_P(FftLibraryTest, WhatItCannotBeToldOfIsOurs) {
  const auto is_ours = [&] { return submitted_.size() == 1 && submitted_[0].find("fft_lines") != std::string::npos; };
  // Two axes around one that is transformed.
  run(view_of(x_.data(), UHAL_COMPLEX64, {3, 4, 5}), view_of(y_.data(), UHAL_COMPLEX64, {3, 4, 5}), {1});
  EXPECT_TRUE(is_ours());
  // Backwards.
  run(view_of(&x_[59], UHAL_COMPLEX64, {5, 12}, {-12, -1}), view_of(y_.data(), UHAL_COMPLEX64, {5, 12}), {1});
  EXPECT_TRUE(is_ours());
  // Complex numbers between their places.
  run(view_of(reinterpret_cast<float*>(x_.data()) + 1, UHAL_COMPLEX64, {5, 12}),
      view_of(y_.data(), UHAL_COMPLEX64, {5, 12}), {1});
  EXPECT_TRUE(is_ours());
  // The inverse of a real signal.
  run(view_of(x_.data(), UHAL_FLOAT32, {5, 12}), view_of(y_.data(), UHAL_COMPLEX64, {5, 7}), {1}, UHAL_FFT_INVERSE);
  EXPECT_TRUE(is_ours());
  // What it refuses.
  control().advice_status = 5;
  run(view_of(x_.data(), UHAL_COMPLEX64, {7, 12}), view_of(y_.data(), UHAL_COMPLEX64, {7, 12}), {1});
  EXPECT_TRUE(is_ours());
}

TEST_P(FftLibraryTest, PlansAreMadeOnceAndGivenBack) {
  for (int i = 0; i < 3; ++i) {
    run(view_of(x_.data(), UHAL_COMPLEX64, {5, 12}), view_of(y_.data(), UHAL_COMPLEX64, {5, 12}), {1});
  }
  EXPECT_EQ(1, control().questions);
  EXPECT_EQ(3, control().works);
  EXPECT_EQ(1, control().handles);
  stream_.reset();
  EXPECT_EQ(0, control().handles);
}

TEST_P(FftLibraryTest, FailuresNameTheLibrary) {
  control().work_status = 6;
  const uhal_tensor x = view_of(x_.data(), UHAL_COMPLEX64, {5, 12}), y = view_of(y_.data(), UHAL_COMPLEX64, {5, 12});
  const uhal_tensor* inputs[] = {&x};
  const uhal_tensor* outputs[] = {&y};
  const uhal_op op = {sizeof op, UHAL_OP_FFT, 1, 1, 0, inputs, outputs, nullptr, nullptr};
  LibraryQueue queue(traits_, nullptr, nullptr, stream_.get());
  EXPECT_EQ(UHAL_INTERNAL, kernels::launch(queue, op));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, std::string(library_->name()) + " failed", opencl::last_report.message);
}

TEST_P(FftLibraryTest, IsNamedWithItsVersion) {
  EXPECT_EQ(row().vendor == Vendor::kHip ? "hipFFT 1.0" : "cuFFT 11.4", notes_.at(0));
  LibraryNotes notes;
  set("UNIHAL_GPU_LIBRARIES", "cublas");
  EXPECT_EQ(nullptr, open_fft(device(), &notes));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "UNIHAL_GPU_LIBRARIES leaves it out", notes.at(0));
}

INSTANTIATE_TEST_SUITE_P(Libraries, FftLibraryTest, testing::Values(kCufft, kHipfft),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace unihal::gpu
