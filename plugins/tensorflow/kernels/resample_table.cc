#include "plugins/tensorflow/kernels/resample_table.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace unihal::tensorflow {
namespace {

constexpr int kBicubicSteps = 1024;

// Sums below this are not divided by.
constexpr float kLeastSum = 1000 * std::numeric_limits<float>::min();

// Keys' cubic convolution, of a distance up to 1 and of one from 1 to 2, at a step of the table.
float cubic_near(double a, int step) {
  const float x = static_cast<float>(step * 1.0 / kBicubicSteps);
  return static_cast<float>(
      ((a + 2) * static_cast<double>(x) - (a + 3)) * static_cast<double>(x) * static_cast<double>(x) + 1);
}
float cubic_far(double a, int step) {
  const auto x = static_cast<double>(static_cast<float>(step * 1.0 / kBicubicSteps) + 1.0f);
  return static_cast<float>(((a * x - 5 * a) * x + 8 * a) * x - 4 * a);
}

// What of pixel `i` an output covers that reaches from `low` to `high`.
float covered(int64_t i, float low, float high, float step) {
  const auto at = static_cast<float>(i);
  if (at < low) return at + 1 > high ? step : at + 1 - low;
  return at + 1 > high ? high - at : 1;
}

struct SamplingKernel {
  const char* name;
  float radius;
  float (*weight)(float x, float radius);  // of a distance, which is positive
};

float lanczos(float x, float radius) {
  constexpr float kPi = 3.14159265359f;
  if (x > radius) return 0;
  if (x <= 1e-3f) return 1;
  return radius * std::sin(kPi * x) * std::sin(kPi * x / radius) / (kPi * kPi * x * x);
}
float gaussian(float x, float radius) {
  const float deviation = radius / 3;
  return x >= radius ? 0 : static_cast<float>(std::exp(-x * x / (2.0 * static_cast<double>(deviation * deviation))));
}
float box(float x, float) { return x < 0.5f ? 1.0f : x == 0.5f ? 0.5f : 0.0f; }
float triangle(float x, float) { return x < 1 ? 1 - x : 0; }
float keys(float x, float) {
  if (x >= 2) return 0;
  if (x >= 1) return ((-0.5f * x + 2.5f) * x - 4.0f) * x + 2.0f;
  return ((1.5f * x - 2.5f) * x) * x + 1.0f;
}
float mitchell(float x, float) {
  if (x >= 2) return 0;
  if (x >= 1) return (((-7.0f / 18.0f) * x + 2.0f) * x - 10.0f / 3.0f) * x + 16.0f / 9.0f;
  return (((7.0f / 6.0f) * x - 2.0f) * x) * x + 8.0f / 9.0f;
}

constexpr SamplingKernel kSamplingKernels[] = {
    {"lanczos1", 1, lanczos}, {"lanczos3", 3, lanczos},  {"lanczos5", 5, lanczos}, {"gaussian", 1.5f, gaussian},
    {"box", 1, box},          {"triangle", 1, triangle}, {"keyscubic", 2, keys},   {"mitchellcubic", 2, mitchell},
};

const SamplingKernel* find_kernel(const std::string& name) {
  for (const SamplingKernel& kernel : kSamplingKernels) {
    if (name == kernel.name) return &kernel;
  }
  return nullptr;
}

// A position as a pixel, in range of the axis however far it lies outside.
int64_t pixel_of(float position, int64_t length) {
  return static_cast<int64_t>(std::clamp(position, 0.0f, static_cast<float>(length - 1)));
}

}  // namespace

void ResampleTable::add(int64_t element, float weight) {
  element = std::clamp<int64_t>(element, 0, length_ - 1);
  Row& row = rows_.back();
  if (row.weights.empty()) row.first = element;
  if (element < row.first) {
    row.weights.insert(row.weights.begin(), static_cast<size_t>(row.first - element), 0.0f);
    row.first = element;
  }
  const auto at = static_cast<size_t>(element - row.first);
  if (at >= row.weights.size()) row.weights.resize(at + 1, 0.0f);
  row.weights[at] += weight;
}

int64_t ResampleTable::taps() const {
  size_t most = 0;
  for (const Row& row : rows_) most = std::max(most, row.weights.size());
  return static_cast<int64_t>(most);
}

ResampleTable ResampleTable::transposed() const {
  ResampleTable result(outputs());
  result.rows_.resize(static_cast<size_t>(length_));
  for (int64_t i = 0; i < outputs(); ++i) {
    const Row& row = rows_[static_cast<size_t>(i)];
    for (size_t t = 0; t < row.weights.size(); ++t) {
      Row& to = result.rows_[static_cast<size_t>(row.first) + t];
      if (row.weights[t] == 0) continue;
      if (to.weights.empty()) to.first = i;
      to.weights.resize(static_cast<size_t>(i - to.first), 0.0f);
      to.weights.push_back(row.weights[t]);
    }
  }
  return result;
}

void ResampleTable::append(std::vector<char>& bytes) const {
  const auto put = [&](const auto& value) {
    const char* from = reinterpret_cast<const char*>(&value);
    bytes.insert(bytes.end(), from, from + sizeof value);
  };
  const auto most = static_cast<size_t>(taps());
  for (const Row& row : rows_) put(static_cast<int32_t>(row.first));
  for (const Row& row : rows_) {
    for (const float weight : row.weights) put(weight);
    bytes.resize(bytes.size() + (most - row.weights.size()) * sizeof(float), 0);
  }
}

float resize_step(int64_t length, int64_t outputs, bool align_corners) {
  if (align_corners && outputs > 1) return static_cast<float>(length - 1) / static_cast<float>(outputs - 1);
  return static_cast<float>(length) / static_cast<float>(outputs);
}

ResampleTable bicubic_table(int64_t length, int64_t outputs, bool align_corners, bool half_pixel_centers) {
  const float step = resize_step(length, outputs, align_corners);
  const double a = half_pixel_centers ? -0.5 : -0.75;
  ResampleTable table(length);
  for (int64_t i = 0; i < outputs; ++i) {
    const auto number = static_cast<float>(i);
    const float position = half_pixel_centers ? (number + 0.5f) * step - 0.5f : number * step;
    const auto pixel = static_cast<int64_t>(std::floor(position));
    const auto offset = static_cast<int>(std::lrintf((position - static_cast<float>(pixel)) * kBicubicSteps));
    float weights[4] = {cubic_far(a, offset), cubic_near(a, offset), cubic_near(a, kBicubicSteps - offset),
                        cubic_far(a, kBicubicSteps - offset)};
    if (half_pixel_centers) {
      float sum = 0;
      for (int t = 0; t < 4; ++t) {
        if (pixel - 1 + t < 0 || pixel - 1 + t >= length) weights[t] = 0;
        sum += weights[t];
      }
      for (float& weight : weights) weight *= std::fabs(sum) >= kLeastSum ? 1 / sum : 1;
    }
    table.next();
    for (int t = 0; t < 4; ++t) table.add(pixel - 1 + t, weights[t]);
  }
  return table;
}

ResampleTable area_table(int64_t length, int64_t outputs, bool align_corners) {
  const float step = resize_step(length, outputs, align_corners);
  ResampleTable table(length);
  for (int64_t i = 0; i < outputs; ++i) {
    const float low = static_cast<float>(i) * step, high = static_cast<float>(i + 1) * step;
    table.next();
    for (auto at = static_cast<int64_t>(std::floor(low)); at < static_cast<int64_t>(std::ceil(high)); ++at) {
      table.add(at, covered(at, low, high, step) / step);
    }
  }
  return table;
}

bool is_sampling_kernel(const std::string& name) { return find_kernel(name) != nullptr; }

ResampleTable scale_and_translate_table(const std::string& name, int64_t length, int64_t outputs, float scale,
                                        float translation, bool antialias) {
  const SamplingKernel& kernel = *find_kernel(name);
  const float step = static_cast<float>(1.0 / static_cast<double>(scale)), offset = -step * translation;
  const float widening = antialias ? std::max(step, 1.0f) : 1.0f;
  const float reach = kernel.radius * widening;
  ResampleTable table(length);
  std::vector<float> weights;
  for (int64_t i = 0; i < outputs; ++i) {
    table.next();
    const float position = (static_cast<float>(i) + 0.5f) * step + offset;
    const bool inside = position >= 0 && position <= static_cast<float>(length);
    if (!inside || length == 0) continue;  // nothing of the image
    const int64_t begin = pixel_of(std::ceil(position - reach - 0.5f), length);
    const int64_t end = pixel_of(std::floor(position + reach - 0.5f), length) + 1;
    float sum = 0;
    weights.clear();
    for (int64_t at = begin; at < end; ++at) {
      const float distance = static_cast<float>(at) + 0.5f - position;
      weights.push_back(kernel.weight(std::fabs(distance * (1 / widening)), kernel.radius));
      sum += weights.back();
    }
    if (std::fabs(sum) < kLeastSum) continue;
    for (int64_t at = begin; at < end; ++at) table.add(at, weights[static_cast<size_t>(at - begin)] * (1 / sum));
  }
  return table;
}

}  // namespace unihal::tensorflow
