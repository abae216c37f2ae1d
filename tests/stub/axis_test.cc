// UHAL_OP_ARG_REDUCE, UHAL_OP_SCAN, UHAL_OP_SORT and UHAL_OP_TOP_K.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/stub/data_test.h"

namespace data_test {
namespace {

// Along an axis of x: calls body(coordinates of the first element, values).
template <class Body>
void for_each_row(const Array& x, int axis, const Body& body) {
  Shape outer = x.shape();
  const int64_t length = outer[static_cast<size_t>(axis)];
  outer[static_cast<size_t>(axis)] = 1;
  for_each(outer, [&](const Shape& first) {
    std::vector<double> row;
    Shape at = first;
    for (int64_t i = 0; i < length; ++i) {
      at[static_cast<size_t>(axis)] = i;
      row.push_back(x.at(at));
    }
    body(first, row);
  });
}

// The order of a stable sort: NaN is the largest.
std::vector<int64_t> sorted_order(const std::vector<double>& row, bool descending) {
  std::vector<int64_t> order(row.size());
  std::iota(order.begin(), order.end(), 0);
  const auto value = [&](int64_t i) { return row[static_cast<size_t>(i)]; };
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    const double left = value(descending ? b : a);
    const double right = value(descending ? a : b);
    return std::isnan(right) ? !std::isnan(left) : left < right;
  });
  return order;
}

TEST(Axis, SortTopKAndArgReduce) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 150; ++trial) {
    Shape shape(1 + random() % 3);
    for (int64_t& length : shape) length = 1 + static_cast<int64_t>(random() % 9);
    const int axis = static_cast<int>(random() % shape.size());
    if (trial % 10 == 0) shape[static_cast<size_t>(axis)] = 1100;
    const uhal_dtype dtype = kReal[random() % std::size(kReal)];
    Array x = Array::scattered(dtype, shape, random);
    x.fill_random(random, 0, 9);  // with ties, for integers
    if (epsilon(dtype) != 0 && trial % 2 == 0) x.set(Shape(shape.size(), 0), std::nan(""));
    const bool descending = trial % 3 == 0;
    const uhal_axis_attributes attributes = unihal::axis_attributes(axis, descending);

    Array values = Array::scattered(dtype, shape, random);
    Array indices = Array::scattered(trial % 2 == 0 ? UHAL_INT32 : UHAL_INT64, shape, random);
    run(UHAL_OP_SORT, {&x}, {&values, &indices}, &attributes);
    Shape top_shape = shape;
    const int64_t top = static_cast<int64_t>(random()) % (shape[static_cast<size_t>(axis)] + 1);
    top_shape[static_cast<size_t>(axis)] = top;
    Array top_values(dtype, top_shape);
    Array top_indices(UHAL_INT64, top_shape);
    run(UHAL_OP_TOP_K, {&x}, {&top_values, &top_indices}, &attributes);
    Shape single = shape;
    single[static_cast<size_t>(axis)] = 1;
    const uhal_dtype of_places = trial % 4 < 2 ? UHAL_INT32 : UHAL_INT64;
    Array best = trial % 2 == 0 ? Array(of_places, single) : Array::scattered(of_places, single, random);
    run(UHAL_OP_ARG_REDUCE, {&x}, {&best}, &attributes);

    for_each_row(x, axis, [&](const Shape& first, const std::vector<double>& row) {
      const std::vector<int64_t> order = sorted_order(row, descending);
      Shape at = first;
      for (size_t i = 0; i < row.size(); ++i) {
        at[static_cast<size_t>(axis)] = static_cast<int64_t>(i);
        const double key = row[static_cast<size_t>(order[i])];
        ASSERT_EQ(order[i], static_cast<int64_t>(indices.at(at))) << "trial " << trial;
        ASSERT_TRUE(values.at(at) == key || (std::isnan(key) && std::isnan(values.at(at))));
        if (static_cast<int64_t>(i) >= top) continue;
        ASSERT_EQ(order[i], static_cast<int64_t>(top_indices.at(at)));
        ASSERT_TRUE(top_values.at(at) == key || (std::isnan(key) && std::isnan(top_values.at(at))));
      }
      // NaN counts as the extreme of both directions.
      const auto nan = std::find_if(row.begin(), row.end(), [](double v) { return std::isnan(v); });
      const int64_t expected = nan != row.end() ? nan - row.begin() : order[0];
      ASSERT_EQ(expected, static_cast<int64_t>(best.at(first)));
    });
  }
}

TEST(Axis, Scan) {
  std::mt19937 random(2);
  for (int trial = 0; trial < 150; ++trial) {
    Shape shape(1 + random() % 3);
    for (int64_t& length : shape) length = 1 + static_cast<int64_t>(random() % 9);
    uhal_scan_attributes attributes = attributes_of<uhal_scan_attributes>();
    attributes.axis = static_cast<int32_t>(random() % shape.size());
    const size_t axis = static_cast<size_t>(attributes.axis);
    if (trial % 10 == 0) shape[axis] = 1100;
    const uhal_reduction reductions[] = {UHAL_REDUCE_SUM, UHAL_REDUCE_PRODUCT, UHAL_REDUCE_MAXIMUM,
                                         UHAL_REDUCE_MINIMUM};
    attributes.reduction = reductions[random() % 4];
    attributes.exclusive = static_cast<int32_t>(random() % 2);
    attributes.reverse = static_cast<int32_t>(random() % 2);
    const uhal_dtype dtype = trial % 5 == 4 ? UHAL_INT16 : kFloating[trial % 4];
    Array x = Array::scattered(dtype, shape, random);
    const bool integer = dtype == UHAL_INT16;
    x.fill_random(random, integer ? -2 : 0.9, integer ? 2 : 1.1);
    Array y = Array::scattered(dtype, shape, random);
    run(UHAL_OP_SCAN, {&x}, {&y}, &attributes);

    const double infinity = std::numeric_limits<double>::infinity();
    const double largest = integer ? static_cast<double>(std::numeric_limits<int16_t>::max()) : infinity;
    const double lowest = integer ? static_cast<double>(std::numeric_limits<int16_t>::min()) : -infinity;
    for_each_row(x, attributes.axis, [&](const Shape& first, std::vector<double> row) {
      if (attributes.reverse) std::reverse(row.begin(), row.end());
      double total = attributes.reduction == UHAL_REDUCE_SUM       ? 0
                     : attributes.reduction == UHAL_REDUCE_PRODUCT ? 1
                     : attributes.reduction == UHAL_REDUCE_MAXIMUM ? lowest
                                                                   : largest;
      std::vector<double> expected, got;
      Shape at = first;
      for (size_t i = 0; i < row.size(); ++i) {
        const double before = total;
        total = attributes.reduction == UHAL_REDUCE_SUM       ? total + row[i]
                : attributes.reduction == UHAL_REDUCE_PRODUCT ? total * row[i]
                : attributes.reduction == UHAL_REDUCE_MAXIMUM ? std::max(total, row[i])
                                                              : std::min(total, row[i]);
        expected.push_back(rounded(dtype, attributes.exclusive ? before : total));
        at[axis] = static_cast<int64_t>(attributes.reverse ? row.size() - 1 - i : i);
        got.push_back(y.at(at));
      }
      expect_near(expected, got, 2 * epsilon(dtype), "trial " + std::to_string(trial));
    });
  }
}

TEST(Axis, ManyEmptyRows) {
  Array x(UHAL_FLOAT32, {100000, 0});
  Array y(UHAL_FLOAT32, {100000, 0});
  Array indices(UHAL_INT32, {100000, 0});
  const uhal_axis_attributes attributes = unihal::axis_attributes(1, false);
  run(UHAL_OP_SORT, {&x}, {&y, &indices}, &attributes);
  uhal_scan_attributes scan = attributes_of<uhal_scan_attributes>();
  scan.axis = 1;
  scan.reduction = UHAL_REDUCE_SUM;
  run(UHAL_OP_SCAN, {&x}, {&y}, &scan);
  run(UHAL_OP_IOTA, {}, {&y});
}

TEST(Axis, ScanRefusesAMean) {
  uhal_scan_attributes attributes = attributes_of<uhal_scan_attributes>();
  attributes.reduction = UHAL_REDUCE_MEAN;
  Array x(UHAL_FLOAT32, {3});
  Array y(UHAL_FLOAT32, {3});
  EXPECT_NE(UHAL_OK, launch(UHAL_OP_SCAN, {&x}, {&y}, &attributes));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "expected sum, product, maximum or minimum",
                      std::string(uhal_last_error()->message));
}

}  // namespace
}  // namespace data_test
