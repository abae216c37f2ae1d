// Convolutions of so few numbers that most of a library's time goes into what it prepares: one matrix product over all
// images' windows at once, whose blocks are small enough to lie in the first caches unpacked.
//
// Where an element of an unfolded image lies is the sum of two numbers: where its tap lies in the channels, and where
// its window begins. So images are padded first, and nothing asks for borders after that.
#include <algorithm>
#include <cstring>

#include "csrc/backends/common/implementation_note.h"
#include "stub/common/scratch.h"
#include "stub/ops/convolution.h"
#include "stub/ops/gemm.h"
#include "stub/vector/vectorize.h"

namespace unihal::stub {
namespace {

// Measured beside oneDNN with AVX2, whose kernels of windows it has for AVX-512 only; there the limit is a guess.
constexpr int64_t kMostMultiplications = 1 << 21, kMostWithWideVectors = 1 << 18;
constexpr int64_t kMostUnfolded = 1 << 17, kMostUnfoldedToFilter = 1 << 16, kMostInFilter = 1 << 16;  // elements
constexpr int64_t kVector = 8, kRows = 4, kColumns = 2 * kVector;
typedef float Vector __attribute__((vector_size(kVector * sizeof(float)), aligned(sizeof(float)), may_alias));

// A matrix whose columns may lie apart.
struct Factor {
  const float* data;
  int64_t row_stride, column_stride;
};

// `rows` rows of d, `columns` of them side by side, = a @ b.
template <int64_t rows>
UNIHAL_INLINE void multiply_rows(int64_t depth, int64_t columns, const Factor& a, const float* b, float* d) {
  for (int64_t column = 0; column < columns; column += kColumns) {
    Vector sums[rows][2] = {};
    for (int64_t k = 0; k < depth; ++k) {
      const auto* own = reinterpret_cast<const Vector*>(b + k * columns + column);
      const Vector first = own[0], second = own[1];
#pragma GCC unroll 4
      for (int64_t i = 0; i < rows; ++i) {
        const float factor = a.data[i * a.row_stride + k * a.column_stride];
        sums[i][0] += factor * first;
        sums[i][1] += factor * second;
      }
    }
#pragma GCC unroll 4
    for (int64_t i = 0; i < rows; ++i) {
      auto* to = reinterpret_cast<Vector*>(d + i * columns + column);
      to[0] = sums[i][0];
      to[1] = sums[i][1];
    }
  }
}

// d (rows x columns) = a @ b; the columns are a multiple of kColumns, those of b and d lie side by side.
UNIHAL_VECTORIZED void multiply(int64_t rows, int64_t depth, int64_t columns, Factor a, const float* b, float* d) {
  int64_t row = 0;
  for (; row + kRows <= rows; row += kRows, a.data += kRows * a.row_stride) {
    multiply_rows<kRows>(depth, columns, a, b, d + row * columns);
  }
  for (; row < rows; ++row, a.data += a.row_stride) multiply_rows<1>(depth, columns, a, b, d + row * columns);
}

// Places of numbers, of which `run` at a time lie side by side.
struct Places {
  int32_t* at = nullptr;
  int64_t count = 0;
  int64_t run = 1;
};

// So many numbers that move at once, wherever they lie. By copies: of a reference to a vector type with less alignment
// that a function gives clang knows the full alignment only.
template <int64_t numbers>
struct Piece {
  typedef float Numbers __attribute__((vector_size(numbers * sizeof(float))));

  static UNIHAL_INLINE void copy(const float* from, float* to) { std::memcpy(to, from, sizeof(Numbers)); }

  static UNIHAL_INLINE void add(const float* from, float* to) {
    Numbers sums, more;
    std::memcpy(&sums, to, sizeof sums);
    std::memcpy(&more, from, sizeof more);
    sums += more;
    std::memcpy(to, &sums, sizeof sums);
  }
};

// Calls move(a Piece, i, places.at[i]) so that all numbers are met.
template <class Move>
UNIHAL_INLINE void for_each_piece(const Places& places, const Move& move) {
  if (places.run % kVector == 0) {
    for (int64_t i = 0; i < places.count; i += kVector) move(Piece<kVector>(), i, places.at[i]);
  } else if (places.run % (kVector / 2) == 0) {
    for (int64_t i = 0; i < places.count; i += kVector / 2) move(Piece<kVector / 2>(), i, places.at[i]);
  } else {
    for (int64_t i = 0; i < places.count; ++i) move(Piece<1>(), i, places.at[i]);
  }
}

// to[0], to[1], ... = the numbers at the places from `from` on.
UNIHAL_VECTORIZED void gather(const float* from, Places places, float* to) {
  for_each_piece(places,
                 [&](auto piece, int64_t i, int64_t place) UNIHAL_INLINE_LAMBDA { piece.copy(from + place, to + i); });
}

UNIHAL_VECTORIZED void scatter(const float* from, Places places, float* to) {
  for_each_piece(places,
                 [&](auto piece, int64_t i, int64_t place) UNIHAL_INLINE_LAMBDA { piece.copy(from + i, to + place); });
}

// Several numbers may have one place, but none of a run.
UNIHAL_VECTORIZED void add_at(const float* from, Places places, float* to) {
  for_each_piece(places,
                 [&](auto piece, int64_t i, int64_t place) UNIHAL_INLINE_LAMBDA { piece.add(from + i, to + place); });
}

// Writes the places of all elements of axes with these lengths and strides, the last axis innermost.
int32_t* list_places(int rank, const int64_t* lengths, const int64_t* strides, int64_t first, int32_t* to) {
  if (rank == 0) {
    *to = static_cast<int32_t>(first);
    return to + 1;
  }
  for (int64_t i = 0; i < lengths[0]; ++i) {
    to = list_places(rank - 1, lengths + 1, strides + 1, first + i * strides[0], to);
  }
  return to;
}

// The places of all elements of axes with these lengths and strides, the last axis innermost; `at` has room for them.
Places places_of(int rank, const int64_t* lengths, const int64_t* strides, int32_t* at) {
  Places places;
  places.at = at;
  places.count = list_places(rank, lengths, strides, 0, at) - at;
  for (int i = rank - 1; i >= 0 && (strides[i] == places.run || lengths[i] == 1); --i) places.run *= lengths[i];
  return places;
}

int64_t rounded_up(int64_t count) { return (count + kColumns - 1) / kColumns * kColumns; }

// The images of x with their padding, packed, or x itself where there is none.
struct Images {
  explicit Images(const ConvolutionProblem& problem) : x(*problem.x) {
    const uhal_convolution_attributes& attributes = problem.attributes;
    for (int i = 0; i < x.rank; ++i) {
      const bool spatial = i >= 2;
      before[i] = spatial ? attributes.pad_before[i - 2] : 0;
      shape[i] = x.shape[i] + before[i] + (spatial ? attributes.pad_after[i - 2] : 0);
      padded = padded || shape[i] != x.shape[i];
    }
    for (int i = x.rank - 1; i >= 0; --i) {
      strides[i] = padded ? elements : x.strides[i];
      elements *= shape[i];
    }
  }

  // Calls visit(row of x, row of the padded images, length, stride of x) for each row of pixels. Rows that a negative
  // padding cuts off are left to others.
  template <class Visit>
  void for_each_row(const Visit& visit) const {
    const int last = x.rank - 1;
    int64_t at[UHAL_MAX_RANK] = {};
    for (;;) {
      int64_t own = 0, other = before[last];
      for (int i = 0; i < last; ++i) {
        own += at[i] * x.strides[i];
        other += (at[i] + before[i]) * strides[i];
      }
      visit(own, other, x.shape[last], x.strides[last]);
      int axis = last - 1;
      while (axis >= 0 && ++at[axis] == x.shape[axis]) at[axis--] = 0;
      if (axis < 0) return;
    }
  }

  const uhal_tensor& x;
  int64_t before[UHAL_MAX_RANK], shape[UHAL_MAX_RANK], strides[UHAL_MAX_RANK];
  int64_t elements = 1;
  bool padded = false;
};

class SmallConvolution {
 public:
  explicit SmallConvolution(const ConvolutionProblem& problem) : problem_(problem), images_(problem) {
    const uhal_tensor &w = *problem.w, &y = *problem.y;
    filters_ = y.shape[1];
    for (int i = 1; i < w.rank; ++i) depth_ *= w.shape[i];
    places_ = y.shape[0];
    for (int i = 2; i < y.rank; ++i) places_ *= y.shape[i];
  }

  bool serves() const {
    if (problem_.attributes.groups != 1 || problem_.attributes.activation != UHAL_ACTIVATION_NONE) return false;
    for (int i = 0; i < problem_.spatial(); ++i) {
      if (problem_.attributes.pad_before[i] < 0 || problem_.attributes.pad_after[i] < 0) return false;
    }
    const bool to_filter = problem_.kind == UHAL_OP_CONVOLUTION_BACKWARD_FILTER;
    if (to_filter && (filters_ * depth_ > kMostInFilter || depth_ * places_ > kMostUnfoldedToFilter)) return false;
    return depth_ * places_ <= kMostUnfolded && images_.elements <= kMostUnfolded &&
           filters_ * depth_ * places_ <= (has_wide_vectors() ? kMostWithWideVectors : kMostMultiplications);
  }

  bool run() {
    if (!prepare()) return false;
    switch (problem_.kind) {
      case UHAL_OP_CONVOLUTION:
        return forward();
      case UHAL_OP_CONVOLUTION_BACKWARD_DATA:
        return backward_data();
      default:
        return backward_filter();
    }
  }

 private:
  float* take(int64_t count) { return frame_.take<float>(static_cast<size_t>(count)); }

  bool prepare() {
    const uhal_tensor &w = *problem_.w, &y = *problem_.y;
    columns_ = rounded_up(places_);
    auto* at = frame_.take<int32_t>(static_cast<size_t>(2 * (depth_ + places_)));
    if (at == nullptr) return false;
    const int axes = 1 + problem_.spatial();
    int64_t lengths[UHAL_MAX_RANK], steps[UHAL_MAX_RANK], own[UHAL_MAX_RANK];
    for (int i = 0; i < axes; ++i) {  // channels, taps
      lengths[i] = w.shape[1 + i];
      steps[i] = images_.strides[1 + i] * (i == 0 ? 1 : problem_.attributes.dilation[i - 1]);
    }
    taps_ = places_of(axes, lengths, steps, at);
    of_filter_ = places_of(axes, lengths, w.strides + 1, at + depth_);
    for (int i = 0; i < axes; ++i) {  // images, windows
      lengths[i] = y.shape[i == 0 ? 0 : 1 + i];
      steps[i] = i == 0 ? images_.strides[0] : images_.strides[1 + i] * problem_.attributes.stride[i - 1];
      own[i] = y.strides[i == 0 ? 0 : 1 + i];
    }
    windows_ = places_of(axes, lengths, steps, at + 2 * depth_);
    of_result_ = places_of(axes, lengths, own, at + 2 * depth_ + places_);
    return true;
  }

  float* x() const { return static_cast<float*>(problem_.x->data); }
  float* y(int64_t filter) const { return static_cast<float*>(problem_.y->data) + filter * problem_.y->strides[1]; }
  float* w(int64_t filter) const { return static_cast<float*>(problem_.w->data) + filter * problem_.w->strides[0]; }

  // The images to read; nullptr if there is no memory.
  const float* padded_images() {
    if (!images_.padded) return x();
    float* padded = take(images_.elements);
    if (padded == nullptr) return nullptr;
    std::fill_n(padded, images_.elements, 0.0f);
    images_.for_each_row([&](int64_t own, int64_t other, int64_t length, int64_t stride) {
      for (int64_t i = 0; i < length; ++i) padded[other + i] = x()[own + i * stride];
    });
    return padded;
  }

  // The filter as a matrix of filters x depth.
  bool filter(Factor* result) {
    *result = {w(0), problem_.w->strides[0], 1};
    if (of_filter_.run == depth_) return true;
    float* copy = take(filters_ * depth_);
    if (copy == nullptr) return false;
    for (int64_t f = 0; f < filters_; ++f) gather(w(f), of_filter_, copy + f * depth_);
    *result = {copy, depth_, 1};
    return true;
  }

  // Places in a row, rounded up with zeros.
  void end_row(float* row) const { std::fill(row + places_, row + columns_, 0.0f); }

  // The unfolded images: depth x places, rounded up.
  float* unfolded_images() {
    const float* images = padded_images();
    float* unfolded = take(depth_ * columns_);
    if (images == nullptr || unfolded == nullptr) return nullptr;
    for (int64_t k = 0; k < depth_; ++k) {
      gather(images + taps_.at[k], windows_, unfolded + k * columns_);
      end_row(unfolded + k * columns_);
    }
    return unfolded;
  }

  bool forward() {
    Factor a;
    const float* unfolded = unfolded_images();
    float* product = take(filters_ * columns_);
    if (unfolded == nullptr || product == nullptr || !filter(&a)) return false;
    multiply(filters_, depth_, columns_, a, unfolded, product);
    for (int64_t f = 0; f < filters_; ++f) {
      float* row = product + f * columns_;
      if (problem_.bias != nullptr) {
        const float bias = static_cast<const float*>(problem_.bias->data)[f];
        for (int64_t p = 0; p < places_; ++p) row[p] += bias;
      }
      scatter(row, of_result_, y(f));
    }
    return true;
  }

  bool backward_data() {
    Factor a;
    float* rows = take(filters_ * columns_);
    float* unfolded = take(depth_ * columns_);
    float* sums = images_.padded ? take(images_.elements) : x();
    if (rows == nullptr || unfolded == nullptr || sums == nullptr || !filter(&a)) return false;
    for (int64_t f = 0; f < filters_; ++f) {
      gather(y(f), of_result_, rows + f * columns_);
      end_row(rows + f * columns_);
    }
    multiply(depth_, filters_, columns_, {a.data, a.column_stride, a.row_stride}, rows, unfolded);
    std::fill_n(sums, images_.elements, 0.0f);
    for (int64_t k = 0; k < depth_; ++k) add_at(unfolded + k * columns_, windows_, sums + taps_.at[k]);
    if (images_.padded) {
      images_.for_each_row([&](int64_t own, int64_t other, int64_t length, int64_t stride) {
        for (int64_t i = 0; i < length; ++i) x()[own + i * stride] = sums[other + i];
      });
    }
    return true;
  }

  // The transpose of dw: unfolded images, which need not be transposed, by dy, of which there is less.
  bool backward_filter() {
    const int64_t filters = rounded_up(filters_);
    const float* unfolded = unfolded_images();
    float* columns = take(places_ * filters);
    float* product = take(depth_ * filters);
    if (unfolded == nullptr || columns == nullptr || product == nullptr) return false;
    for (int64_t p = 0; p < places_; ++p) {
      float* to = columns + p * filters;
      for (int64_t f = 0; f < filters_; ++f) to[f] = y(f)[of_result_.at[p]];
      std::fill(to + filters_, to + filters, 0.0f);
    }
    multiply(depth_, places_, filters, {unfolded, columns_, 1}, columns, product);
    for (int64_t f = 0; f < filters_; ++f) {
      for (int64_t k = 0; k < depth_; ++k) w(f)[of_filter_.at[k]] = product[k * filters + f];
    }
    if (problem_.bias == nullptr) return true;
    for (int64_t f = 0; f < filters_; ++f) {
      double sum = 0;
      for (int64_t p = 0; p < places_; ++p) sum += static_cast<double>(columns[p * filters + f]);
      static_cast<float*>(problem_.bias->data)[f] = static_cast<float>(sum);
    }
    return true;
  }

  const ConvolutionProblem& problem_;
  const Images images_;
  ScratchFrame frame_;
  int64_t filters_, depth_ = 1, places_;
  int64_t columns_ = 0;  // the places, rounded up
  Places taps_;          // where each channel's taps lie in the padded images
  Places windows_;       // where each window begins there
  Places of_filter_;     // where taps lie in a filter
  Places of_result_;     // where windows' results lie in y
};

}  // namespace

bool convolution_of_little(const ConvolutionProblem& problem) {
  SmallConvolution convolution(problem);
  if (!convolution.serves() || !convolution.run()) return false;
  note_implementation(host(), "built-in");
  return true;
}

}  // namespace unihal::stub
