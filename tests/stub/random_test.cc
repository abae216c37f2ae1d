// UHAL_OP_RANDOM and UHAL_OP_DROPOUT.
#include <omp.h>

#include <cmath>

#include "tests/stub/data_test.h"

namespace data_test {
namespace {

uhal_random_attributes attributes_for(uhal_distribution distribution, double a, double b, uint64_t key = 42) {
  return unihal::random_attributes(distribution, a, b, key, 1, 2);
}

struct KnownNumbers {
  uhal_distribution distribution;
  uhal_dtype dtype;
  double a;
  double b;
  std::vector<double> numbers;
};

// What TensorFlow 2.21's stateless ops (StatelessRandomUniformV2, ...NormalV2, StatelessTruncatedNormalV2,
// ...UniformIntV2, ...UniformFullIntV2) give on the CPU for shape [7] and the key and counter below.
const KnownNumbers kTensorFlow[] = {
    {UHAL_RANDOM_UNIFORM,
     UHAL_FLOAT32,
     0,
     1,
     {0.41231703758239746, 0.5412615537643433, 0.3359283208847046, 0.5186355113983154, 0.3213684558868408,
      0.42196857929229736, 0.2093956470489502}},
    {UHAL_RANDOM_UNIFORM,
     UHAL_FLOAT16,
     0,
     1,
     {0.701171875, 0.0146484375, 0.9248046875, 0.662109375, 0.650390625, 0.7666015625, 0.369140625}},
    {UHAL_RANDOM_UNIFORM,
     UHAL_BFLOAT16,
     0,
     1,
     {0.609375, 0.1171875, 0.3984375, 0.296875, 0.203125, 0.1328125, 0.953125}},
    {UHAL_RANDOM_UNIFORM,
     UHAL_FLOAT64,
     0,
     1,
     {0.2985367375263228, 0.6874268362645721, 0.5709479719809603, 0.6751653111734273, 0.08140853316375463,
      0.8617679098066358, 0.07981481917002786}},
    {UHAL_RANDOM_NORMAL,
     UHAL_FLOAT32,
     0,
     1,
     {-0.3412497341632843, -1.2866523265838623, -0.1725548356771469, -1.4669491052627563, 0.7095015048980713,
      -1.3292635679244995, 1.3594032526016235}},
    {UHAL_RANDOM_NORMAL,
     UHAL_BFLOAT16,
     0,
     1,
     {-0.341796875, -1.2890625, -0.1728515625, -1.46875, 0.7109375, -1.328125, 1.359375}},
    {UHAL_RANDOM_NORMAL,
     UHAL_FLOAT64,
     0,
     1,
     {-1.4362697288210573, -0.5956960852121741, -0.9438362499166503, -0.47967438439122856, -1.7098041601490288,
      1.4467619350915388, 1.6714833142671048}},
    {UHAL_RANDOM_TRUNCATED_NORMAL,
     UHAL_FLOAT32,
     0,
     1,
     {-0.3412497341632843, -1.2866523265838623, -0.1725548356771469, -1.4669491052627563, -0.07010136544704437,
      -1.0919252634048462, 0.49151530861854553}},
    {UHAL_RANDOM_TRUNCATED_NORMAL,
     UHAL_FLOAT64,
     0,
     1,
     {-1.4362697288210573, -0.5956960852121741, -0.01815959808182468, -0.5874761703102125, 1.3377884849280635,
      -0.24478079084878995, 0.5371333196069833}},
    {UHAL_RANDOM_UNIFORM, UHAL_INT32, -100, 12345, {5797, 7218, 9144, 5297, 10538, 11216, 4405}},
    {UHAL_RANDOM_UNIFORM, UHAL_INT64, -100, 12345, {11420, 6946, 11934, 5030, 5540, 2271, 1325}},
    {UHAL_RANDOM_BITS,
     UHAL_INT32,
     0,
     1,
     {1781843662, 1967474703, -1934950477, 1212310182, -1792466278, 1463157521, 35310970}},
};

TEST(Random, EqualsTensorFlow) {
  for (const KnownNumbers& known : kTensorFlow) {
    const uhal_random_attributes attributes = unihal::random_attributes(
        known.distribution, known.a, known.b, 12345678901234567890u, 9876543210u, 1234567890123456789u);
    Array y(known.dtype, {7});
    run(UHAL_OP_RANDOM, {}, {&y}, &attributes);
    // Uniform numbers are exact; normal ones depend on the rounding of libm's functions.
    const bool exact = known.distribution == UHAL_RANDOM_UNIFORM || known.distribution == UHAL_RANDOM_BITS;
    expect_near(known.numbers, y.values(), exact ? 0 : 4 * epsilon(known.dtype), uhal_dtype_name(known.dtype));
  }
}

TEST(Random, BitsOf64BitIntegersAreTwoWords) {
  const uhal_random_attributes attributes =
      unihal::random_attributes(UHAL_RANDOM_BITS, 0, 1, 12345678901234567890u, 9876543210u, 1234567890123456789u);
  Array y(UHAL_UINT64, {3});
  run(UHAL_OP_RANDOM, {}, {&y}, &attributes);
  const uint64_t expected[] = {8450239506874156750u, 5206832586657824691u, 6284213704093934234u};
  for (int i = 0; i < 3; ++i) EXPECT_EQ(expected[i], y.host<uint64_t>()[i]);
}

TEST(Random, IntegersAboveTheSigned64Bits) {
  const uhal_random_attributes attributes =
      unihal::random_attributes(UHAL_RANDOM_UNIFORM, 0x1p63, 0x1p63 + 4096, 1, 2, 3);
  Array y(UHAL_UINT64, {100});
  run(UHAL_OP_RANDOM, {}, {&y}, &attributes);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(uint64_t{1} << 63, y.host<uint64_t>()[i] & ~uint64_t{4095}) << i;
}

// The order is row-major by coordinates, whatever the strides and the number of threads.
TEST(Random, DependsOnPositionAlone) {
  std::mt19937 random(1);
  for (const uhal_distribution distribution : {UHAL_RANDOM_UNIFORM, UHAL_RANDOM_NORMAL, UHAL_RANDOM_TRUNCATED_NORMAL}) {
    for (const uhal_dtype dtype : {UHAL_FLOAT32, UHAL_FLOAT64}) {
      const uhal_random_attributes attributes = attributes_for(distribution, 1, 2);
      Array dense(dtype, {3, 7, 5001});
      Array other = Array::scattered(dtype, {3, 7, 5001}, random);
      run(UHAL_OP_RANDOM, {}, {&dense}, &attributes);
      omp_set_num_threads(1);
      run(UHAL_OP_RANDOM, {}, {&other}, &attributes);
      omp_set_num_threads(omp_get_num_procs());
      expect_near(dense.values(), other.values(), 0, uhal_dtype_name(dtype));
    }
  }
}

TEST(Random, CounterCarriesIntoItsHighHalf) {
  Array first(UHAL_FLOAT32, {12});
  Array second(UHAL_FLOAT32, {8});
  const auto draw = [](uint64_t low, uint64_t high, const Array& y) {
    const uhal_random_attributes attributes = unihal::random_attributes(UHAL_RANDOM_UNIFORM, 0, 1, 7, low, high);
    run(UHAL_OP_RANDOM, {}, {&y}, &attributes);
  };
  draw(~uint64_t{0}, 5, first);
  draw(0, 6, second);
  const std::vector<double> all = first.values();
  expect_near(std::vector<double>(all.begin() + 4, all.end()), second.values(), 0, "after the carry");
}

struct Moments {
  double mean = 0;
  double deviation = 0;
  double lowest = 1e300;
  double highest = -1e300;
};

Moments moments_of(const Array& array) {
  Moments result;
  const std::vector<double> values = array.values();
  for (const double value : values) {
    result.mean += value / static_cast<double>(values.size());
    result.lowest = std::min(result.lowest, value);
    result.highest = std::max(result.highest, value);
  }
  for (const double value : values) {
    result.deviation += (value - result.mean) * (value - result.mean) / static_cast<double>(values.size());
  }
  result.deviation = std::sqrt(result.deviation);
  return result;
}

// 200,000 numbers: means are within a few standard errors, 1 / sqrt(200,000) = 0.0022.
TEST(Random, Distributions) {
  Array y(UHAL_FLOAT32, {200000});
  const auto draw = [&](uhal_distribution distribution, double a, double b) {
    const uhal_random_attributes attributes = attributes_for(distribution, a, b);
    run(UHAL_OP_RANDOM, {}, {&y}, &attributes);
    return moments_of(y);
  };
  const Moments uniform = draw(UHAL_RANDOM_UNIFORM, -1, 3);
  EXPECT_NEAR(1, uniform.mean, 0.015);
  EXPECT_NEAR(4 / std::sqrt(12), uniform.deviation, 0.01);
  EXPECT_GE(uniform.lowest, -1);
  EXPECT_LE(uniform.highest, 3);
  const Moments normal = draw(UHAL_RANDOM_NORMAL, 5, 2);
  EXPECT_NEAR(5, normal.mean, 0.03);
  EXPECT_NEAR(2, normal.deviation, 0.03);
  const Moments truncated = draw(UHAL_RANDOM_TRUNCATED_NORMAL, 5, 2);
  EXPECT_NEAR(5, truncated.mean, 0.03);
  EXPECT_GT(truncated.lowest, 1);
  EXPECT_LT(truncated.highest, 9);
  EXPECT_NEAR(2 * 0.8796, truncated.deviation, 0.02);  // of a normal distribution cut at two deviations
  const Moments bernoulli = draw(UHAL_RANDOM_BERNOULLI, 0.3, 0);
  EXPECT_NEAR(0.3, bernoulli.mean, 0.006);
  EXPECT_EQ(0, bernoulli.lowest);
  EXPECT_EQ(1, bernoulli.highest);
}

TEST(Random, Dropout) {
  for (const uhal_dtype dtype : kFloating) {
    for (const int scale_at_inference : {0, 1}) {
      Array x(dtype, {100, 333});
      Array y(dtype, {100, 333});
      Array mask(UHAL_UINT8, {100, 333});
      x.assign(std::vector<double>(33300, 2));
      uhal_random_attributes attributes = attributes_for(UHAL_RANDOM_UNIFORM, 0.25, 0);
      attributes.scale_at_inference = scale_at_inference;
      run(UHAL_OP_DROPOUT, {&x}, {&y, &mask}, &attributes);
      EXPECT_NEAR(0.75, moments_of(mask).mean, 0.015);
      const double kept = rounded(dtype, scale_at_inference ? 2 : static_cast<double>(2 * (1 / 0.75)));
      int wrong = 0;
      for_each(x.shape(), [&](const Shape& at) {
        wrong += std::abs(y.at(at) - (mask.at(at) != 0 ? kept : 0)) > 2 * epsilon(dtype);
      });
      EXPECT_EQ(0, wrong) << uhal_dtype_name(dtype);
    }
  }
}

TEST(Random, DropoutOfEverythingIsZeroNotNan) {
  Array x(UHAL_FLOAT32, {50}, std::vector<double>(50, 1));
  Array y(UHAL_FLOAT32, {50});
  Array mask(UHAL_BOOL, {50});
  const uhal_random_attributes attributes = attributes_for(UHAL_RANDOM_UNIFORM, 1, 0);
  run(UHAL_OP_DROPOUT, {&x}, {&y, &mask}, &attributes);
  expect_near(std::vector<double>(50, 0), y.values(), 0, "y");
  expect_near(std::vector<double>(50, 0), mask.values(), 0, "mask");
}

TEST(Random, RefusesNormalIntegers) {
  Array y(UHAL_INT32, {3});
  const uhal_random_attributes attributes = attributes_for(UHAL_RANDOM_NORMAL, 0, 1);
  EXPECT_NE(UHAL_OK, launch(UHAL_OP_RANDOM, {}, {&y}, &attributes));
}

}  // namespace
}  // namespace data_test
