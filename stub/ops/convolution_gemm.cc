// Convolution as matrix products: the windows of an image are unfolded into the columns of a matrix, which the filter,
// as another matrix, is multiplied with; gradients run the same way back. One image and group at a time.
#include <algorithm>

#include "stub/common/activation.h"
#include "stub/common/parallel.h"
#include "stub/ops/convolution.h"
#include "stub/ops/gemm.h"
#include "stub/ops/matmul.h"
#include "stub/vector/vectorize.h"

namespace unihal::stub {
namespace {

// One group of one image and its windows, always with three spatial axes (leading ones of length 1). `depth` is the
// height of the unfolded matrix: channels times taps.
struct Geometry {
  explicit Geometry(const ConvolutionProblem& problem);

  int64_t images, groups, channels, filters;  // channels and filters of one group
  int64_t input[3], window[3], output[3];
  int64_t stride[3], dilation[3], pad[3];
  int64_t pixels, taps, places, depth;
  bool channels_last;  // of x; the unfolded matrix then has a window's channels side by side, else its places

  int64_t channel_stride() const { return channels_last ? 1 : pixels; }
  int64_t pixel_stride() const { return channels_last ? groups * channels : 1; }
};

bool is_channels_last(const uhal_tensor& view) { return view.shape[1] > 1 && view.strides[1] == 1; }

int64_t product(const int64_t (&lengths)[3]) { return lengths[0] * lengths[1] * lengths[2]; }

Geometry::Geometry(const ConvolutionProblem& problem) {
  const uhal_convolution_attributes& attributes = problem.attributes;
  images = problem.x->shape[0];
  groups = attributes.groups;
  channels = problem.x->shape[1] / groups;
  filters = problem.y->shape[1] / groups;
  const int missing = 3 - problem.spatial();
  for (int i = 0; i < 3; ++i) {
    const int own = i - missing;
    input[i] = own < 0 ? 1 : problem.x->shape[2 + own];
    window[i] = own < 0 ? 1 : problem.w->shape[2 + own];
    output[i] = own < 0 ? 1 : problem.y->shape[2 + own];
    stride[i] = own < 0 ? 1 : attributes.stride[own];
    dilation[i] = own < 0 ? 1 : attributes.dilation[own];
    pad[i] = own < 0 ? 0 : attributes.pad_before[own];
  }
  pixels = product(input);
  taps = product(window);
  places = product(output);
  depth = channels * taps;
  channels_last = is_channels_last(*problem.x);
}

// Calls visit(image_offset, tap, place, columns_begin, columns_end) for each row of places under each tap: the places
// [columns_begin, columns_end) of the row see pixels, the first of them the one at image_offset; the others see
// padding.
template <typename Visit>
void for_each_row(const Geometry& g, const Visit& visit) {
  for (int64_t tap = 0; tap < g.taps; ++tap) {
    const int64_t k[3] = {tap / (g.window[1] * g.window[2]), tap / g.window[2] % g.window[1], tap % g.window[2]};
    const int64_t first = k[2] * g.dilation[2] - g.pad[2];  // the pixel's column under place 0
    const int64_t begin = std::min(g.output[2], first >= 0 ? 0 : (-first + g.stride[2] - 1) / g.stride[2]);
    const int64_t end = std::clamp((g.input[2] - first + g.stride[2] - 1) / g.stride[2], begin, g.output[2]);
    for (int64_t row = 0; row < g.output[0] * g.output[1]; ++row) {
      const int64_t z = row / g.output[1] * g.stride[0] - g.pad[0] + k[0] * g.dilation[0];
      const int64_t y = row % g.output[1] * g.stride[1] - g.pad[1] + k[1] * g.dilation[1];
      const bool inside = z >= 0 && z < g.input[0] && y >= 0 && y < g.input[1];
      const int64_t pixel = (z * g.input[1] + y) * g.input[2] + first + begin * g.stride[2];
      visit(pixel * g.pixel_stride(), tap, row * g.output[2], inside ? begin : 0, inside ? end : 0);
    }
  }
}

template <typename T>
UNIHAL_VECTORIZED void copy_strided(const T* from, int64_t stride, int64_t count, T* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = from[i * stride];
}

// A row of places, of which those before `begin` and from `end` on see padding.
template <typename T>
void copy_row(const T* from, int64_t stride, int64_t begin, int64_t end, int64_t length, T* to) {
  if (begin > 0) std::fill(to, to + begin, T(0));
  if (stride == 1) {
    std::copy(from, from + (end - begin), to + begin);
  } else {
    copy_strided(from, stride, end - begin, to + begin);
  }
  if (end < length) std::fill(to + end, to + length, T(0));
}

template <typename T>
UNIHAL_VECTORIZED void add_strided(const T* from, int64_t count, T* to, int64_t stride) {
  for (int64_t i = 0; i < count; ++i) to[i * stride] += from[i];
}

template <typename T>
void unfold(const Geometry& g, const T* image, T* columns) {
  parallel_for(g.channels, g.taps * g.places, [&](int64_t first, int64_t last) {
    if (!g.channels_last) {
      for (int64_t channel = first; channel < last; ++channel) {  // its pixels stay in the first-level cache
        const T* const plane = image + channel * g.pixels;
        for_each_row(g, [&](int64_t offset, int64_t tap, int64_t place, int64_t begin, int64_t end) {
          copy_row(plane + offset, g.stride[2], begin, end, g.output[2],
                   columns + (channel * g.taps + tap) * g.places + place);
        });
      }
      return;
    }
    for_each_row(g, [&](int64_t offset, int64_t tap, int64_t place, int64_t begin, int64_t end) {
      for (int64_t i = 0; i < g.output[2]; ++i) {
        T* to = columns + (place + i) * g.depth + tap * g.channels;
        if (i < begin || i >= end) {
          std::fill(to + first, to + last, T(0));
        } else {
          const T* from = image + offset + (i - begin) * g.stride[2] * g.pixel_stride();
          std::copy(from + first, from + last, to + first);
        }
      }
    });
  });
}

// Adds the unfolded matrix back onto the image.
template <typename T>
void fold(const Geometry& g, const T* columns, T* image) {
  parallel_for(g.channels, g.taps * g.places, [&](int64_t first, int64_t last) {
    for_each_row(g, [&](int64_t offset, int64_t tap, int64_t place, int64_t begin, int64_t end) {
      if (g.channels_last) {
        for (int64_t i = begin; i < end; ++i) {
          const T* from = columns + (place + i) * g.depth + tap * g.channels;
          add_strided(from + first, last - first, image + offset + (i - begin) * g.stride[2] * g.pixel_stride() + first,
                      1);
        }
        return;
      }
      for (int64_t channel = first; channel < last; ++channel) {
        const T* from = columns + (channel * g.taps + tap) * g.places + place;
        add_strided(from + begin, end - begin, image + channel * g.pixels + offset, g.stride[2]);
      }
    });
  });
}

// The matrices of one image and group.
template <typename T>
struct Matrices {
  Matrices(const Geometry& g, const ConvolutionProblem& problem, const uhal_tensor& filter, T* columns)
      : g(g), problem(problem), filter_data(static_cast<T*>(filter.data)), columns_data(columns) {}

  T* image(int64_t n, int64_t group) const {
    return static_cast<T*>(problem.x->data) + n * g.groups * g.channels * g.pixels +
           group * g.channels * g.channel_stride();
  }
  // filters x places
  Matrix<T> result(int64_t n, int64_t group) const {
    T* data = static_cast<T*>(problem.y->data) + n * g.groups * g.filters * g.places;
    if (is_channels_last(*problem.y)) return {data + group * g.filters, 1, g.groups * g.filters};
    return {data + group * g.filters * g.places, g.places, 1};
  }
  // filters x depth
  Matrix<T> filter(int64_t group) const { return {filter_data + group * g.filters * g.depth, g.depth, 1}; }
  // depth x places
  Matrix<T> columns() const {
    return g.channels_last ? Matrix<T>{columns_data, 1, g.depth} : Matrix<T>{columns_data, g.places, 1};
  }

  const Geometry& g;
  const ConvolutionProblem& problem;
  T* filter_data;
  T* columns_data;
};

template <typename T>
Matrix<const T> constant(const Matrix<T>& matrix) {
  return {matrix.data, matrix.row_stride, matrix.column_stride};
}

template <typename T>
Matrix<const T> transposed(const Matrix<T>& matrix) {
  return {matrix.data, matrix.column_stride, matrix.row_stride};
}

template <typename T>
bool forward(const Matrices<T>& matrices, int64_t n, int64_t group) {
  const Geometry& g = matrices.g;
  unfold(g, static_cast<const T*>(matrices.image(n, group)), matrices.columns_data);
  Epilogue<T> epilogue;
  epilogue.activation = matrices.problem.attributes.activation;
  if (matrices.problem.bias != nullptr) {
    epilogue.beta = 1;
    epilogue.c = {static_cast<const T*>(matrices.problem.bias->data) + group * g.filters, 1, 0};
  }
  return gemm<T>(g.filters, g.places, g.depth, constant(matrices.filter(group)), constant(matrices.columns()),
                 matrices.result(n, group), epilogue);
}

template <typename T>
bool backward_data(const Matrices<T>& matrices, int64_t n, int64_t group) {
  const Geometry& g = matrices.g;
  if (!gemm<T>(g.depth, g.places, g.filters, transposed(matrices.filter(group)), constant(matrices.result(n, group)),
               matrices.columns(), {})) {
    return false;
  }
  fold(g, static_cast<const T*>(matrices.columns_data), matrices.image(n, group));
  return true;
}

template <typename T>
bool backward_filter(const Matrices<T>& matrices, int64_t n, int64_t group) {
  const Geometry& g = matrices.g;
  unfold(g, static_cast<const T*>(matrices.image(n, group)), matrices.columns_data);
  Epilogue<T> epilogue;
  const Matrix<T> filter = matrices.filter(group);
  if (n > 0) {
    epilogue.beta = 1;
    epilogue.c = constant(filter);
  }
  return gemm<T>(g.filters, g.depth, g.places, constant(matrices.result(n, group)), transposed(matrices.columns()),
                 filter, epilogue);
}

// dbias: the sum of dy over images and places.
template <typename T>
void backward_bias(const Matrices<T>& matrices) {
  const Geometry& g = matrices.g;
  T* dbias = static_cast<T*>(matrices.problem.bias->data);
  parallel_for(g.groups * g.filters, g.images * g.places, [&](int64_t begin, int64_t end) {
    for (int64_t filter = begin; filter < end; ++filter) {
      double sum = 0;
      for (int64_t n = 0; n < g.images; ++n) {
        const Matrix<T> dy = matrices.result(n, filter / g.filters);
        for (int64_t place = 0; place < g.places; ++place) {
          sum += static_cast<double>(dy.at(filter % g.filters, place));
        }
      }
      dbias[filter] = static_cast<T>(sum);
    }
  });
}

// The filter's columns in the order of the unfolded matrix's rows.
AxisOrder filter_order(const Geometry& g, const uhal_tensor& filter) {
  AxisOrder order = row_major(filter.rank);
  if (g.channels_last) {
    for (int i = 1; i + 1 < order.rank; ++i) order.axes[i] = i + 1;
    order.axes[order.rank - 1] = 1;
  }
  return order;
}

// y = activation(y + bias), of whole numbers that wrap.
void add_bias(const Geometry& g, const ConvolutionProblem& problem) {
  const int64_t filters = g.groups * g.filters;
  const int64_t step = is_channels_last(*problem.y) ? filters : 1, next = step == 1 ? g.places : 1;
  auto* y = static_cast<int32_t*>(problem.y->data);
  const auto* bias = static_cast<const int32_t*>(problem.bias->data);
  parallel_for(g.images * filters, g.places, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int32_t* to = y + i / filters * filters * g.places + i % filters * next;
      for (int64_t place = 0; place < g.places; ++place) {
        const int32_t sum = to[place * step] + bias[i % filters];
        to[place * step] = problem.attributes.activation == UHAL_ACTIVATION_RELU && sum < 0 ? 0 : sum;
      }
    }
  });
}

}  // namespace

bool convolution_of_bytes(Staging& staging, const ConvolutionProblem& problem, uhal_status* status) {
  const Geometry g(problem);
  if (!has_byte_products(g.filters, g.places)) return false;
  const AxisOrder order = filter_order(g, *problem.w);
  const uhal_tensor* filter = staging.read(problem.w, problem.w->dtype, &order);
  auto* columns = staging.take<uint8_t>(static_cast<size_t>(g.depth * g.places));
  *status = staging.status();
  MatmulProblem product;
  product.m = g.filters;
  product.n = g.places;
  product.k = g.depth;
  if (problem.bias == nullptr) product.activation = problem.attributes.activation;
  for (int64_t i = 0; i < g.images * g.groups && *status == UHAL_OK; ++i) {
    const int64_t n = i / g.groups, group = i % g.groups;
    const int64_t first_channel = n * g.groups * g.channels * g.pixels + group * g.channels * g.channel_stride();
    unfold(g, static_cast<const uint8_t*>(problem.x->data) + first_channel, columns);
    const bool y_last = is_channels_last(*problem.y);
    auto* y = static_cast<int32_t*>(problem.y->data) + n * g.groups * g.filters * g.places +
              group * g.filters * (y_last ? 1 : g.places);
    auto* of_group = static_cast<uint8_t*>(filter->data) + group * g.filters * g.depth;
    product.operands[kMatmulA] = {of_group, problem.w->dtype, g.depth, 1, {0}};
    product.operands[kMatmulB] = {
        columns, problem.x->dtype, g.channels_last ? 1 : g.places, g.channels_last ? g.depth : 1, {0}};
    product.operands[kMatmulD] = {y, UHAL_INT32, y_last ? 1 : g.places, y_last ? g.groups * g.filters : 1, {0}};
    matmul_of_bytes(product, status);
  }
  if (*status == UHAL_OK && problem.bias != nullptr) add_bias(g, problem);
  return true;
}

template <typename T>
uhal_status convolution_with_gemm(Staging& staging, const ConvolutionProblem& problem) {
  const Geometry g(problem);
  const bool to_filter = problem.kind == UHAL_OP_CONVOLUTION_BACKWARD_FILTER;
  const AxisOrder order = filter_order(g, *problem.w);
  const uhal_tensor* filter = to_filter ? staging.write(problem.w, problem.w->dtype, &order)
                                        : staging.read(problem.w, problem.w->dtype, &order);
  T* columns = staging.take<T>(static_cast<size_t>(g.depth * g.places));
  if (staging.status() != UHAL_OK) return staging.status();

  const Matrices<T> matrices(g, problem, *filter, columns);
  const auto step = problem.kind == UHAL_OP_CONVOLUTION                 ? forward<T>
                    : problem.kind == UHAL_OP_CONVOLUTION_BACKWARD_DATA ? backward_data<T>
                                                                        : backward_filter<T>;
  if (problem.kind == UHAL_OP_CONVOLUTION_BACKWARD_DATA) {
    std::fill_n(static_cast<T*>(problem.x->data), element_count(*problem.x), T(0));
  }
  for (int64_t n = 0; n < g.images; ++n) {
    for (int64_t group = 0; group < g.groups; ++group) {
      if (!step(matrices, n, group)) {
        return fail(UHAL_RESOURCE_EXHAUSTED, "convolution: the host has no memory left for packed blocks");
      }
    }
  }
  if (to_filter && problem.bias != nullptr) backward_bias(matrices);
  return UHAL_OK;
}

template uhal_status convolution_with_gemm<float>(Staging&, const ConvolutionProblem&);
template uhal_status convolution_with_gemm<double>(Staging&, const ConvolutionProblem&);

}  // namespace unihal::stub
