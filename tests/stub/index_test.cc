// UHAL_OP_GATHER, UHAL_OP_SCATTER, their nd and elements variants, and UHAL_OP_ONE_HOT.
#include <cmath>

#include "tests/stub/data_test.h"

namespace data_test {
namespace {

Shape joined(std::initializer_list<Shape> parts) {
  Shape result;
  for (const Shape& part : parts) result.insert(result.end(), part.begin(), part.end());
  return result;
}

Shape slice(const Shape& shape, size_t begin, size_t end) {
  return Shape(shape.begin() + static_cast<long>(begin), shape.begin() + static_cast<long>(end));
}

Array random_indices(const Shape& shape, int64_t low, int64_t high, std::mt19937& random) {
  Array indices = Array::scattered(random() % 2 == 0 ? UHAL_INT32 : UHAL_INT64, shape, random);
  for_each(shape, [&](const Shape& at) {
    indices.set(at, static_cast<double>(low + static_cast<int64_t>(random()) % (high - low)));
  });
  return indices;
}

double combine(uhal_reduction reduction, double a, double b) {
  switch (reduction) {
    case UHAL_REDUCE_SUM:
      return a + b;
    case UHAL_REDUCE_PRODUCT:
      return a * b;
    case UHAL_REDUCE_MAXIMUM:
      return std::fmax(a, b);
    case UHAL_REDUCE_MINIMUM:
      return std::fmin(a, b);
    default:
      return b;
  }
}

constexpr uhal_reduction kCombining[] = {UHAL_REDUCE_NONE, UHAL_REDUCE_SUM, UHAL_REDUCE_PRODUCT, UHAL_REDUCE_MAXIMUM,
                                         UHAL_REDUCE_MINIMUM};

// Checks a gather and the scatter that undoes it: `place` says which element of the data a position of the rows means,
// in a shape that it has for all of them, since each allocation is much for a sanitizer.
void check(uhal_op_kind gather, uhal_op_kind scatter, const Shape& data_shape, const Array& indices,
           const Shape& rows_shape, uhal_index_attributes attributes, std::mt19937& random,
           const std::function<void(const Shape&, Shape&)>& place) {
  const uhal_dtype dtypes[] = {UHAL_FLOAT32, UHAL_FLOAT64, UHAL_BFLOAT16, UHAL_INT32, UHAL_UINT8};
  const uhal_dtype dtype = dtypes[random() % std::size(dtypes)];
  Array x = Array::scattered(dtype, data_shape, random);
  Array rows = Array::scattered(dtype, rows_shape, random);
  x.fill_random(random, 0, 4);
  run(gather, {&x, &indices}, {&rows}, &attributes);
  int wrong = 0;
  Shape to;
  for_each(rows_shape, [&](const Shape& at) {
    place(at, to);
    wrong += rows.at(at) != x.at(to);
  });
  EXPECT_EQ(0, wrong);

  attributes.reduction = kCombining[random() % std::size(kCombining)];
  rows.fill_random(random, 0, 3);
  Array expected(UHAL_FLOAT64, data_shape);
  for_each(data_shape, [&](const Shape& at) { expected.set(at, x.at(at)); });
  for_each(rows_shape, [&](const Shape& at) {
    place(at, to);
    const double next = combine(attributes.reduction, expected.at(to), rows.at(at));
    expected.set(to, epsilon(dtype) == 0 ? rounded(dtype, next) : next);
  });
  run(scatter, {&indices, &rows}, {&x}, &attributes);
  std::vector<double> values;
  for_each(data_shape, [&](const Shape& at) { values.push_back(rounded(dtype, expected.at(at))); });
  // bfloat16 accumulates in float32, so one rounding is left; float32 adds up its own.
  expect_near(values, x.values(), dtype == UHAL_FLOAT32 ? 1e-5 : epsilon(dtype) / 2, uhal_dtype_name(dtype));
}

TEST(Index, AlongAnAxis) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 300; ++trial) {
    Shape shape(1 + random() % 3);
    for (int64_t& length : shape) length = 1 + static_cast<int64_t>(random() % 7);
    const size_t axis = random() % shape.size();
    const size_t batch = random() % (axis + 1);
    Shape own(random() % 3);
    for (int64_t& length : own) length = 1 + static_cast<int64_t>(random() % 4);
    if (trial % 20 == 0) {  // enough for all cores
      own = {40, 30};
      shape.back() = 50;
    }
    const int64_t length = shape[axis];
    const Array indices = random_indices(joined({slice(shape, 0, batch), own}), -length, length, random);
    uhal_index_attributes attributes = unihal::index_attributes(static_cast<int>(axis));
    attributes.batch_dimensions = static_cast<int32_t>(batch);
    attributes.negative_wraps = 1;
    const Shape rows = joined({slice(shape, 0, axis), own, slice(shape, axis + 1, shape.size())});
    check(UHAL_OP_GATHER, UHAL_OP_SCATTER, shape, indices, rows, attributes, random, [&](const Shape& at, Shape& to) {
      const auto first = at.begin() + static_cast<long>(axis), last = first + static_cast<long>(own.size());
      to.assign(at.begin(), at.begin() + static_cast<long>(batch));
      to.insert(to.end(), first, last);
      const auto index = static_cast<int64_t>(indices.at(to));
      to.assign(at.begin(), first);
      to.push_back(index < 0 ? index + length : index);
      to.insert(to.end(), last, at.end());
    });
  }
}

TEST(Index, Nd) {
  std::mt19937 random(2);
  for (int trial = 0; trial < 200; ++trial) {
    Shape shape(1 + random() % 3);
    for (int64_t& length : shape) length = 2 + static_cast<int64_t>(random() % 5);
    const size_t components = 1 + random() % shape.size();
    Shape own(random() % 3);
    for (int64_t& length : own) length = 1 + static_cast<int64_t>(random() % 6);
    const Array indices = random_indices(joined({own, {static_cast<int64_t>(components)}}), 0, 2, random);
    const Shape rows = joined({own, slice(shape, components, shape.size())});
    check(UHAL_OP_GATHER_ND, UHAL_OP_SCATTER_ND, shape, indices, rows, attributes_of<uhal_index_attributes>(), random,
          [&](const Shape& at, Shape& to) {
            to.clear();
            for (size_t c = 0; c < components; ++c) {
              to.push_back(
                  static_cast<int64_t>(indices.at(joined({slice(at, 0, own.size()), {static_cast<int64_t>(c)}}))));
            }
            to.insert(to.end(), at.begin() + static_cast<long>(own.size()), at.end());
          });
  }
}

TEST(Index, Elements) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 200; ++trial) {
    Shape shape(1 + random() % 3);
    for (int64_t& length : shape) length = 1 + static_cast<int64_t>(random() % 6);
    const size_t axis = random() % shape.size();
    Shape own = shape;
    own[axis] = 1 + static_cast<int64_t>(random() % 8);
    const Array indices = random_indices(own, 0, shape[axis], random);
    check(UHAL_OP_GATHER_ELEMENTS, UHAL_OP_SCATTER_ELEMENTS, shape, indices, own,
          unihal::index_attributes(static_cast<int>(axis)), random, [&](const Shape& at, Shape& to) {
            to = at;
            to[axis] = static_cast<int64_t>(indices.at(at));
          });
  }
}

// Rows long enough for vectors, along an axis of few elements: one index counts from the end, and one is outside.
TEST(Index, ElementsAmongFew) {
  std::mt19937 random(3);
  uhal_index_attributes attributes = unihal::index_attributes(1);
  attributes.negative_wraps = 1;
  attributes.ignore_out_of_range = 1;
  for (const uhal_dtype wide : {UHAL_INT32, UHAL_INT64}) {
    for (const uhal_dtype dtype : {UHAL_FLOAT32, UHAL_INT64}) {
      for (int64_t few = 1; few <= 8; ++few) {
        Array x(dtype, {2, few, 107}), y(dtype, {2, 1, 107}), indices(wide, {2, 1, 107});
        x.fill_random(random, 0, 50);
        for_each({2, 1, 107}, [&](const Shape& at) { indices.set(at, static_cast<double>(random() % few)); });
        indices.set({0, 0, 40}, -1);
        indices.set({1, 0, 7}, static_cast<double>(few));
        run(UHAL_OP_GATHER_ELEMENTS, {&x, &indices}, {&y}, &attributes);
        for_each({2, 1, 107}, [&](const Shape& at) {
          const auto index = static_cast<int64_t>(indices.at(at));
          const double expected = index == few ? 0 : x.at({at[0], index < 0 ? index + few : index, at[2]});
          ASSERT_EQ(expected, y.at(at)) << few << " elements, " << at[2];
        });
      }
    }
  }
}

// 300 updates of 1/256 are lost one by one in bfloat16: 1 + 1/256 rounds to 1.
TEST(Index, HalfWidthSumsAccumulateInFloat32) {
  Array indices(UHAL_INT32, {300});
  Array updates(UHAL_BFLOAT16, {300}, std::vector<double>(300, 1.0 / 256));
  Array y(UHAL_BFLOAT16, {1}, {1});
  uhal_index_attributes attributes = unihal::index_attributes(0);
  attributes.reduction = UHAL_REDUCE_SUM;
  run(UHAL_OP_SCATTER, {&indices, &updates}, {&y}, &attributes);
  EXPECT_EQ(rounded(UHAL_BFLOAT16, 1 + 300.0 / 256), y.at({0}));
}

TEST(Index, TheLastUpdateWins) {
  const int64_t updates_count = 50000;
  Array indices(UHAL_INT64, {updates_count});
  Array updates(UHAL_INT32, {updates_count, 2});
  Array y(UHAL_INT32, {7, 2});
  for (int64_t i = 0; i < updates_count; ++i) {
    indices.set({i}, static_cast<double>(i % 7));
    updates.set({i, 0}, static_cast<double>(i));
    updates.set({i, 1}, static_cast<double>(-i));
  }
  run(UHAL_OP_SCATTER, {&indices, &updates}, {&y});
  for (int64_t i = updates_count - 7; i < updates_count; ++i) {
    EXPECT_EQ(static_cast<double>(i), y.at({i % 7, 0}));
    EXPECT_EQ(static_cast<double>(-i), y.at({i % 7, 1}));
  }
}

TEST(Index, OutOfRangeIsAnErrorOfTheStream) {
  Array x(UHAL_FLOAT32, {3, 2}, {1, 2, 3, 4, 5, 6});
  Array indices(UHAL_INT64, {3}, {1, 7, -1});
  Array y(UHAL_FLOAT32, {3, 2}, {9, 9, 9, 9, 9, 9});
  EXPECT_EQ(UHAL_OK, launch(UHAL_OP_GATHER, {&x, &indices}, {&y}));
  EXPECT_EQ(UHAL_OUT_OF_RANGE, uhal_stream_synchronize(stream()));
  const std::string message = uhal_last_error()->message;
  for (const char* part : {"gather", "index 7", "axis of length 3"}) {
    EXPECT_PRED_FORMAT2(testing::IsSubstring, part, message);
  }
  expect_near({3, 4, 0, 0, 0, 0}, y.values(), 0, "indices out of range read as zero");
  EXPECT_EQ(UHAL_OK, uhal_stream_synchronize(stream())) << "the error comes out once";

  uhal_index_attributes attributes = unihal::index_attributes(0);
  attributes.ignore_out_of_range = 1;
  run(UHAL_OP_GATHER, {&x, &indices}, {&y}, &attributes);
  run(UHAL_OP_SCATTER, {&indices, &y}, {&x}, &attributes);
  expect_near({1, 2, 3, 4, 5, 6}, x.values(), 0, "updates out of range are dropped");
}

TEST(Index, OneHot) {
  std::mt19937 random(4);
  for (int axis = 0; axis < 3; ++axis) {
    const Array indices = random_indices({3, 4}, -2, 7, random);  // those outside 0 to 4 give zeros and no error
    Shape shape = {3, 4};
    shape.insert(shape.begin() + axis, 5);
    Array y = Array::scattered(UHAL_FLOAT16, shape, random);
    y.fill_random(random, 1, 2);
    const uhal_index_attributes attributes = unihal::index_attributes(axis);
    run(UHAL_OP_ONE_HOT, {&indices}, {&y}, &attributes);
    for_each(shape, [&](Shape at) {
      const double value = y.at(at);
      const int64_t class_number = at[static_cast<size_t>(axis)];
      at.erase(at.begin() + axis);
      EXPECT_EQ(static_cast<int64_t>(indices.at(at)) == class_number ? 1 : 0, value);
    });
  }
}

TEST(Index, ScatterRefusesAMean) {
  Array indices(UHAL_INT32, {1});
  Array updates(UHAL_FLOAT32, {1});
  Array y(UHAL_FLOAT32, {1});
  uhal_index_attributes attributes = unihal::index_attributes(0);
  attributes.reduction = UHAL_REDUCE_MEAN;
  EXPECT_EQ(UHAL_UNIMPLEMENTED, launch(UHAL_OP_SCATTER, {&indices, &updates}, {&y}, &attributes));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "expected none, sum, product, maximum or minimum",
                      std::string(uhal_last_error()->message));
}

}  // namespace
}  // namespace data_test
