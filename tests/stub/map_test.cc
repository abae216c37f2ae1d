// UHAL_OP_MAP: every function against its meaning, and operands of all dtypes and layouts.
#include <cmath>
#include <limits>
#include <map>

#include "csrc/tables/elementwise.h"
#include "tests/stub/data_test.h"
#include "tests/stub/map_reference.h"

namespace data_test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

uhal_map_attributes attributes_for(const MapReference& reference) {
  uhal_map_attributes attributes = attributes_of<uhal_map_attributes>();
  attributes.function = uhal_map_function_find(reference.name);
  std::copy(reference.parameters.begin(), reference.parameters.end(), attributes.parameters);
  return attributes;
}

uhal_map_function_info info_of(const std::string& name) {
  uhal_map_function_info info = attributes_of<uhal_map_function_info>();
  EXPECT_EQ(UHAL_OK, uhal_map_function_get(uhal_map_function_find(name.c_str()), &info)) << name;
  return info;
}

// Long enough for full vectors, a rest, and more than one block.
constexpr int64_t kElements = 1237;

std::vector<double> operand(Inputs inputs, std::mt19937& random, bool first) {
  const bool positive = inputs == Inputs::kPositive || inputs == Inputs::kOrders || inputs == Inputs::kAboveOne;
  const double high = inputs == Inputs::kUnit ? 0.9 : 3;
  std::uniform_real_distribution<double> uniform(positive ? 0.1 : -high, high);
  std::vector<double> values(kElements);
  for (double& value : values) value = inputs == Inputs::kInteger ? std::round(8 * uniform(random)) : uniform(random);
  if (first && inputs == Inputs::kOrders) {
    for (double& value : values) value = std::round(value);
  }
  if (first && inputs == Inputs::kAboveOne) {
    for (double& value : values) value += 1;
  }
  if (inputs != Inputs::kAny) return values;
  const std::vector<double> special = {kNan, kInfinity, -kInfinity, 0.0, -0.0, 1, -1, 0.5, -0.5, 2.5, 60, -60, 1e-4};
  // All pairs of special operands, and some in the rest of a vector at the end.
  for (size_t i = 0; i < special.size() * special.size(); ++i) {
    values[i] = special[first ? i / special.size() : i % special.size()];
  }
  for (size_t i = 0; i < 3; ++i) values[kElements - 3 + i] = special[i];
  return values;
}

// The operands from here on are second moments and powers of decay rates.
int first_positive_operand(const std::string& function) {
  if (function == "adadelta") return 2;
  const bool is_adam = function.rfind("adam", 0) == 0 || function == "nadam" || function == "lamb_direction";
  return is_adam ? 3 : UHAL_MAP_MAX_INPUTS;
}

class EveryFunction : public testing::TestWithParam<uhal_dtype> {};

TEST_P(EveryFunction, EqualsItsMeaning) {
  const uhal_dtype dtype = GetParam();
  const bool integer = epsilon(dtype) == 0;
  std::mt19937 random(1);
  for (const MapReference& reference : map_references()) {
    const uhal_map_function_info info = info_of(reference.name);
    if ((reference.inputs == Inputs::kInteger) != integer) continue;
    ASSERT_EQ(reference.input_count, info.input_count) << reference.name;
    std::vector<Array> inputs;
    std::vector<Array> outputs;
    for (int i = 0; i < info.input_count; ++i) {
      std::vector<double> values = operand(reference.inputs, random, i == 0);
      // Second moments are positive, and powers of the decay rates below 1.
      if (i >= first_positive_operand(reference.name))
        std::transform(values.begin(), values.end(), values.begin(), [](double v) { return std::abs(v); });
      inputs.emplace_back(dtype, Shape{kElements}, values);
    }
    for (int i = 0; i < info.output_count; ++i) outputs.emplace_back(dtype, Shape{kElements});
    std::vector<const Array*> input_pointers, output_pointers;
    for (const Array& array : inputs) input_pointers.push_back(&array);
    for (const Array& array : outputs) output_pointers.push_back(&array);
    const uhal_map_attributes attributes = attributes_for(reference);
    run(UHAL_OP_MAP, input_pointers, output_pointers, &attributes);

    std::vector<std::vector<double>> expected(outputs.size());
    for (int64_t i = 0; i < kElements; ++i) {
      double x[UHAL_MAP_MAX_INPUTS], r[UHAL_MAP_MAX_OUTPUTS];
      for (size_t k = 0; k < inputs.size(); ++k) x[k] = inputs[k].at({i});
      reference.compute(x, attributes.parameters, r);
      for (size_t k = 0; k < outputs.size(); ++k) expected[k].push_back(rounded(dtype, r[k]));
    }
    // Vector functions of libm are good to 4 units in the last place; formulas add the roundings of their steps.
    const double tolerance = dtype == UHAL_FLOAT64 ? 1e-10 : 32 * std::max(epsilon(UHAL_FLOAT32), epsilon(dtype) / 24);
    for (size_t k = 0; k < outputs.size(); ++k) {
      expect_near(expected[k], outputs[k].values(), integer ? 0 : tolerance, reference.name);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, EveryFunction,
                         testing::Values(UHAL_FLOAT32, UHAL_FLOAT64, UHAL_FLOAT16, UHAL_BFLOAT16, UHAL_INT8, UHAL_INT32,
                                         UHAL_INT64),
                         [](const auto& parameter) { return std::string(uhal_dtype_name(parameter.param)); });

TEST(Map, EveryFunctionHasAReference) {
  std::map<std::string, int> seen;
  for (const MapReference& reference : map_references()) ++seen[reference.name];
  for (size_t i = 0; i < uhal_map_function_count(); ++i) {
    uhal_map_function_info info = attributes_of<uhal_map_function_info>();
    ASSERT_EQ(UHAL_OK, uhal_map_function_get(static_cast<uhal_map_function>(i), &info));
    EXPECT_EQ(1, seen[info.name]) << "add a line for " << info.name << " to tests/stub/map_reference.cc";
  }
}

void map(uhal_map_function function, const std::vector<const Array*>& inputs, const std::vector<const Array*>& outputs,
         std::initializer_list<double> parameters = {}) {
  const uhal_map_attributes attributes = unihal::map_attributes(function, parameters);
  run(UHAL_OP_MAP, inputs, outputs, &attributes);
}

// float64 if any operand is, else float32 if any is floating, else 64-bit integers.
double arithmetic(const std::vector<uhal_dtype>& dtypes, double x, double y) {
  bool wide = false, floating = false;
  for (const uhal_dtype dtype : dtypes) {
    wide |= dtype == UHAL_FLOAT64;
    floating |= epsilon(dtype) != 0;
  }
  if (wide || !floating) return x * y;
  return static_cast<float>(x) * static_cast<float>(y);
}

TEST(Map, MixedDtypesLayoutsAndBroadcasts) {
  std::mt19937 random(2);
  for (int trial = 0; trial < 600; ++trial) {
    Shape shape(random() % 5);
    for (int64_t& length : shape) length = 1 + static_cast<int64_t>(random() % (trial % 10 == 0 ? 40 : 7));
    if (count(shape) > 20000) continue;
    std::vector<uhal_dtype> dtypes;
    for (int i = 0; i < 3; ++i) dtypes.push_back(trial % 3 == 0 ? UHAL_FLOAT32 : kReal[random() % std::size(kReal)]);
    std::vector<Array> inputs;
    for (int i = 0; i < 2; ++i) {
      Shape own = shape;
      for (int64_t& length : own) length = random() % 3 == 0 ? 1 : length;
      if (!own.empty() && random() % 4 == 0) own.erase(own.begin());
      inputs.push_back(Array::scattered(dtypes[static_cast<size_t>(i)], own, random));
      inputs.back().fill_random(random, 0, 9);
    }
    Array output = Array::scattered(dtypes[2], shape, random);
    map(uhal_map_multiply, {&inputs[0], &inputs[1]}, {&output});
    std::vector<double> expected;
    for_each(shape, [&](const Shape& at) {
      expected.push_back(rounded(dtypes[2], arithmetic(dtypes, inputs[0].at(at), inputs[1].at(at))));
    });
    expect_near(expected, output.values(), 0, "trial " + std::to_string(trial));
  }
}

TEST(Map, InPlace) {
  std::mt19937 random(3);
  for (const uhal_dtype dtype : {UHAL_FLOAT32, UHAL_FLOAT16, UHAL_INT32}) {
    Array x = Array::scattered(dtype, {5, 1, 600}, random);
    Array y(dtype, {600});
    x.fill_random(random, -9, 9);
    y.fill_random(random, -9, 9);
    std::vector<double> expected;
    for_each(x.shape(), [&](const Shape& at) { expected.push_back(rounded(dtype, x.at(at) + y.at(at))); });
    map(uhal_map_add, {&x, &y}, {&x});
    expect_near(expected, x.values(), 0, uhal_dtype_name(dtype));
  }
}

TEST(Map, LargeOperandsUseAllCoresAndStreams) {
  const int64_t elements = (int64_t{5} << 20) + 3;  // 20 MiB, and not a multiple of a vector
  Array x(UHAL_FLOAT32, {elements});
  Array y(UHAL_FLOAT32, {elements});
  float* values = x.host<float>();
  for (int64_t i = 0; i < elements; ++i) values[i] = static_cast<float>(i % 1000);
  map(uhal_map_scale, {&x}, {&y}, {2, 1});
  const float* results = y.host<float>();
  int64_t wrong = 0;
  for (int64_t i = 0; i < elements; ++i) wrong += results[i] != static_cast<float>(i % 1000) * 2 + 1;
  EXPECT_EQ(0, wrong);
}

TEST(Map, EmptyOperands) {
  Array x(UHAL_FLOAT32, {0, 3});
  Array y(UHAL_FLOAT32, {3});
  Array z(UHAL_FLOAT32, {0, 3});
  map(uhal_map_add, {&x, &y}, {&z});
}

TEST(Map, IntegerDivisionNeverTraps) {
  constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
  for (const uhal_map_function function :
       {uhal_map_divide, uhal_map_truncate_divide, uhal_map_floor_divide, uhal_map_truncate_mod, uhal_map_floor_mod}) {
    Array x(UHAL_INT64, {2});
    Array y(UHAL_INT64, {2});
    Array z(UHAL_INT64, {2});
    int64_t* a = x.host<int64_t>();
    int64_t* b = y.host<int64_t>();
    a[0] = 7;
    b[0] = 0;
    a[1] = kLowest;
    b[1] = -1;
    map(function, {&x, &y}, {&z});
    const int64_t* c = z.host<int64_t>();
    EXPECT_EQ(0, c[0]) << function;
    const bool quotient = function != uhal_map_truncate_mod && function != uhal_map_floor_mod;
    EXPECT_EQ(quotient ? kLowest : 0, c[1]) << function;
  }
}

TEST(Map, Uint64IsUnsigned) {
  Array x(UHAL_UINT64, {1});
  Array y(UHAL_UINT64, {1});
  Array quotient(UHAL_UINT64, {1});
  Array greater(UHAL_BOOL, {1});
  *x.host<uint64_t>() = uint64_t{1} << 63;
  *y.host<uint64_t>() = 3;
  map(uhal_map_greater, {&x, &y}, {&greater});
  map(uhal_map_divide, {&x, &y}, {&quotient});
  EXPECT_EQ(1, greater.at({0}));
  EXPECT_EQ((uint64_t{1} << 63) / 3, *quotient.host<uint64_t>());
}

TEST(Map, Int64IsExactBeyondDoubles) {
  Array x(UHAL_INT64, {1});
  Array y(UHAL_INT32, {1}, {1});
  *x.host<int64_t>() = (int64_t{1} << 62) + 1;
  map(uhal_map_add, {&x, &y}, {&x});
  EXPECT_EQ((int64_t{1} << 62) + 2, *x.host<int64_t>());
}

TEST(Map, IntegersOfFloatingFunctionsAreComputedInFloatingPoint) {
  Array x(UHAL_INT32, {3}, {1, 4, 2000000000});
  Array root(UHAL_FLOAT64, {3});
  Array whole(UHAL_INT32, {3});
  map(uhal_map_sqrt, {&x}, {&root});
  map(uhal_map_sqrt, {&x}, {&whole});
  expect_near({1, 2, std::sqrt(2e9)}, root.values(), 1e-15, "sqrt to float64");
  expect_near({1, 2, 44721}, whole.values(), 0, "sqrt to int32");
}

TEST(Map, OneSidedClipsOfIntegers) {
  Array x(UHAL_INT32, {3}, {-5, 0, 5});
  Array y(UHAL_INT32, {3});
  map(uhal_map_clip, {&x}, {&y}, {-1, kInfinity});
  expect_near({-1, 0, 5}, y.values(), 0, "from below");
  map(uhal_map_clip, {&x}, {&y}, {-kInfinity, 1});
  expect_near({-5, 0, 1}, y.values(), 0, "from above");
}

TEST(Map, BooleanResultsAreZeroOrOne) {
  Array x(UHAL_BOOL, {2}, {0, 1});
  Array y(UHAL_BOOL, {2});
  map(uhal_map_bitwise_not, {&x}, {&y});
  expect_near({1, 0}, y.values(), 0, "not");
  map(uhal_map_add, {&x, &x}, {&y});
  EXPECT_EQ(1, y.host<uint8_t>()[1]) << "true + true is true";
}

TEST(Map, RefusesBitsOfFloats) {
  Array x(UHAL_FLOAT32, {2});
  const uhal_map_attributes attributes = unihal::map_attributes(uhal_map_bitwise_and);
  EXPECT_EQ(UHAL_UNIMPLEMENTED, launch(UHAL_OP_MAP, {&x, &x}, {&x}, &attributes));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "bitwise_and needs integer or bool operands, got float32",
                      std::string(uhal_last_error()->message));
}

}  // namespace
}  // namespace data_test
