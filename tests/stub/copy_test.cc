// UHAL_OP_COPY, UHAL_OP_CAST, UHAL_OP_FILL, UHAL_OP_IOTA and UHAL_OP_TRIANGULAR.
#include <cmath>
#include <cstring>

#include "tests/stub/data_test.h"

namespace data_test {
namespace {

constexpr uhal_dtype kAll[] = {UHAL_BOOL,     UHAL_INT8,    UHAL_INT16,   UHAL_INT32,     UHAL_INT64,
                               UHAL_UINT8,    UHAL_UINT16,  UHAL_UINT32,  UHAL_UINT64,    UHAL_FLOAT16,
                               UHAL_BFLOAT16, UHAL_FLOAT32, UHAL_FLOAT64, UHAL_COMPLEX64, UHAL_COMPLEX128};

TEST(Copy, AllDtypesLayoutsAndBroadcasts) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 500; ++trial) {
    const uhal_dtype dtype = kAll[random() % std::size(kAll)];
    Shape shape(random() % 5);
    for (int64_t& length : shape) length = 1 + static_cast<int64_t>(random() % (trial % 5 == 0 ? 35 : 6));
    if (count(shape) > 30000) continue;
    Shape own = shape;
    for (int64_t& length : own) length = random() % 4 == 0 ? 1 : length;
    Array x = Array::scattered(dtype, own, random);
    Array y = Array::scattered(dtype, shape, random);
    const size_t size = uhal_dtype_size(dtype);
    for_each(own, [&](const Shape& at) {
      uint8_t bytes[16];
      for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
      std::memcpy(x.address(at), bytes, size);
    });
    run(UHAL_OP_COPY, {&x}, {&y});
    int wrong = 0;
    for_each(shape, [&](const Shape& at) { wrong += std::memcmp(x.address(at), y.address(at), size) != 0; });
    EXPECT_EQ(0, wrong) << uhal_dtype_name(dtype) << " in trial " << trial;
  }
}

TEST(Copy, LargeTranspose) {
  for (const uhal_dtype dtype : {UHAL_UINT8, UHAL_FLOAT16, UHAL_FLOAT32, UHAL_FLOAT64, UHAL_COMPLEX128}) {
    const int64_t rows = 515;
    const int64_t columns = 130;
    Array x(dtype, {3, rows, columns});
    Array y(dtype, {3, columns, rows});
    const size_t size = uhal_dtype_size(dtype);
    for_each(x.shape(), [&](const Shape& at) { x.set(at, static_cast<double>((at[0] + at[1] * 7 + at[2]) % 113)); });
    std::swap(y.mutable_view().shape[1], y.mutable_view().shape[2]);
    std::swap(y.mutable_view().strides[1], y.mutable_view().strides[2]);
    run(UHAL_OP_COPY, {&x}, {&y});
    int wrong = 0;
    for_each(x.shape(), [&](const Shape& at) { wrong += std::memcmp(x.address(at), y.address(at), size) != 0; });
    EXPECT_EQ(0, wrong) << uhal_dtype_name(dtype);
  }
}

TEST(Cast, AllPairsOfRealDtypes) {
  std::mt19937 random(2);
  for (const uhal_dtype from : kReal) {
    for (const uhal_dtype to : kReal) {
      Array x = Array::scattered(from, {7, 1, 300}, random);
      Array y = Array::scattered(to, {7, 2, 300}, random);
      x.fill_random(random, 0, 120);
      run(UHAL_OP_CAST, {&x}, {&y});
      std::vector<double> expected;
      for_each(y.shape(), [&](const Shape& at) { expected.push_back(rounded(to, x.at(at))); });
      expect_near(expected, y.values(), 0, std::string(uhal_dtype_name(from)) + " to " + uhal_dtype_name(to));
    }
  }
}

// Rows and columns of every length up to a few vectors: what is copied by vectors and what is left, also of rows that
// lie apart, are turned around, or repeat.
TEST(Copy, ShortRows) {
  for (const uhal_dtype dtype : {UHAL_UINT8, UHAL_INT16, UHAL_FLOAT32, UHAL_FLOAT64, UHAL_COMPLEX128}) {
    const size_t size = uhal_dtype_size(dtype);
    for (int64_t length = 1; length <= 150; ++length) {
      for (const bool transposed : {false, true}) {
        Array x(dtype, {9, 160}), y(dtype, transposed ? Shape{length, 9} : Shape{9, 170});
        for_each(x.shape(), [&](const Shape& at) { x.set(at, static_cast<double>((at[0] * 31 + at[1]) % 113)); });
        for_each(y.shape(), [&](const Shape& at) { y.set(at, 120); });
        uhal_tensor& to = y.mutable_view();
        if (transposed) {
          std::swap(to.shape[0], to.shape[1]);
          std::swap(to.strides[0], to.strides[1]);
        } else {
          to.shape[1] = length;
        }
        x.mutable_view().shape[1] = length;
        run(UHAL_OP_COPY, {&x}, {&y});
        int wrong = 0;
        for (int64_t row = 0; row < 9; ++row) {
          for (int64_t i = 0; i < length; ++i)
            wrong += std::memcmp(x.address({row, i}), y.address({row, i}), size) != 0;
        }
        if (!transposed) {
          to.shape[1] = 170;
          for (int64_t row = 0; row < 9; ++row) wrong += y.at({row, length}) != 120;
        }
        EXPECT_EQ(0, wrong) << uhal_dtype_name(dtype) << " " << length << (transposed ? " transposed" : "");
      }
    }
  }
}

// Every bit pattern of the two half-width formats, and back.
TEST(Cast, HalfWidthFormatsAreExact) {
  for (const uhal_dtype dtype : {UHAL_FLOAT16, UHAL_BFLOAT16}) {
    Array bits(dtype, {65536});
    Array wide(UHAL_FLOAT32, {65536});
    Array back(dtype, {65536});
    uint16_t* patterns = bits.host<uint16_t>();
    for (int i = 0; i < 65536; ++i) patterns[i] = static_cast<uint16_t>(i);
    run(UHAL_OP_CAST, {&bits}, {&wide});
    run(UHAL_OP_CAST, {&wide}, {&back});
    expect_near(bits.values(), wide.values(), 0, uhal_dtype_name(dtype));
    const uint16_t* returned = back.host<uint16_t>();
    for (int i = 0; i < 65536; ++i) {
      const bool same = std::isnan(bits.at({i})) ? std::isnan(back.at({i})) : patterns[i] == returned[i];
      ASSERT_TRUE(same) << patterns[i] << " came back as " << returned[i];
    }
  }
}

TEST(Cast, RoundsOnceToNearestEven) {
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  for (const uhal_dtype from : {UHAL_FLOAT32, UHAL_FLOAT64}) {
    for (const uhal_dtype to : {UHAL_FLOAT16, UHAL_BFLOAT16}) {
      Array x(from, {20000});
      Array y(to, {20000});
      std::vector<double> expected;
      for (int64_t i = 0; i < x.size(); ++i) {
        // Around the middle between two neighbours, in all of the range: where a second rounding shows.
        const double near = rounded(to, std::ldexp(normal(random), static_cast<int>(random() % 40) - 24));
        const double middle = near * (1 + epsilon(to) / 2);
        x.set({i}, i % 3 == 0 ? middle : middle * (1 + (i % 3 == 1 ? 1 : -1) * 1e-12));
        expected.push_back(rounded(to, x.at({i})));
      }
      run(UHAL_OP_CAST, {&x}, {&y});
      expect_near(expected, y.values(), 0, std::string(uhal_dtype_name(from)) + " to " + uhal_dtype_name(to));
    }
  }
}

TEST(Cast, ComplexKeepsOrDropsTheImaginaryPart) {
  Array x(UHAL_COMPLEX64, {2});
  float* parts = x.host<float>();
  for (int i = 0; i < 4; ++i) parts[i] = static_cast<float>(i + 1);
  Array wide(UHAL_COMPLEX128, {2});
  Array real(UHAL_INT32, {2});
  Array again(UHAL_COMPLEX64, {2});
  run(UHAL_OP_CAST, {&x}, {&wide});
  run(UHAL_OP_CAST, {&x}, {&real});
  run(UHAL_OP_CAST, {&real}, {&again});
  const double* doubles = wide.host<double>();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(i + 1, doubles[i]);
  expect_near({1, 3}, real.values(), 0, "real part");
  const float* floats = again.host<float>();
  EXPECT_EQ(3, floats[2]);
  EXPECT_EQ(0, floats[3]);
}

TEST(Fill, AllDtypes) {
  std::mt19937 random(4);
  for (const uhal_dtype dtype : kAll) {
    uhal_fill_attributes attributes = attributes_of<uhal_fill_attributes>();
    attributes.value = 2.5;
    attributes.integer_value = 3;
    Array y = Array::scattered(dtype, {3, 5, 700}, random);
    run(UHAL_OP_FILL, {}, {&y}, &attributes);
    const bool integer = epsilon(dtype) == 0 && dtype < UHAL_COMPLEX64;
    const double expected = integer ? rounded(dtype, 3) : 2.5;
    expect_near(std::vector<double>(static_cast<size_t>(y.size()), expected), y.values(), 0, uhal_dtype_name(dtype));
    run(UHAL_OP_FILL, {}, {&y});
    expect_near(std::vector<double>(static_cast<size_t>(y.size()), 0), y.values(), 0, "default");
  }
}

TEST(Fill, OnlyItsView) {
  Array all(UHAL_INT32, {6, 6});
  Array* every_second = &all;
  every_second->mutable_view().shape[1] = 3;
  every_second->mutable_view().strides[1] = 2;
  uhal_fill_attributes attributes = attributes_of<uhal_fill_attributes>();
  attributes.integer_value = 1;
  run(UHAL_OP_FILL, {}, {every_second}, &attributes);
  const int32_t* memory = all.host<int32_t>();
  for (int i = 0; i < 36; ++i) EXPECT_EQ(i % 2 == 0 ? 1 : 0, memory[i]);
}

TEST(Iota, CountsAlongTheLastAxis) {
  std::mt19937 random(5);
  uhal_iota_attributes attributes = attributes_of<uhal_iota_attributes>();
  attributes.start = 0.5;
  attributes.step = 2;
  attributes.integer_start = -3;
  attributes.integer_step = 4;
  for (const uhal_dtype dtype : {UHAL_INT8, UHAL_INT64, UHAL_FLOAT16, UHAL_FLOAT32, UHAL_FLOAT64}) {
    Array y = Array::scattered(dtype, {2, 1500}, random);
    run(UHAL_OP_IOTA, {}, {&y}, &attributes);
    std::vector<double> expected;
    for_each(y.shape(), [&](const Shape& at) {
      const double i = static_cast<double>(at[1]);
      expected.push_back(rounded(dtype, epsilon(dtype) == 0 ? -3 + 4 * i : 0.5 + 2 * i));
    });
    expect_near(expected, y.values(), 0, uhal_dtype_name(dtype));
  }
}

TEST(Triangular, KeepsOneSideOfTheDiagonal) {
  std::mt19937 random(6);
  for (int64_t diagonal : {-9, -1, 0, 2, 9}) {
    for (int upper : {0, 1}) {
      Array x = Array::scattered(UHAL_INT32, {2, 5, 7}, random);
      Array y = Array::scattered(UHAL_INT32, {2, 5, 7}, random);
      x.fill_random(random, 1, 99);
      y.fill_random(random, 1, 99);
      uhal_triangular_attributes attributes = attributes_of<uhal_triangular_attributes>();
      attributes.upper = upper;
      attributes.diagonal = diagonal;
      std::vector<double> expected;
      for_each(x.shape(), [&](const Shape& at) {
        const int64_t beyond = at[2] - at[1] - diagonal;
        expected.push_back((upper ? beyond >= 0 : beyond <= 0) ? x.at(at) : 0);
      });
      run(UHAL_OP_TRIANGULAR, {&x}, {&y}, &attributes);
      run(UHAL_OP_TRIANGULAR, {&x}, {&x}, &attributes);
      expect_near(expected, y.values(), 0, "out of place");
      expect_near(expected, x.values(), 0, "in place");
    }
  }
}

}  // namespace
}  // namespace data_test
