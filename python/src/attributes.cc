#include "attributes.h"

#include <cstring>
#include <iterator>
#include <string>

#include "errors.h"

namespace unihal::python {
namespace {

enum class FieldType { kInt32, kInt64, kUint64, kDouble };

// A field of an attributes struct, or an array of `length` entries.
struct Field {
  const char* name;
  size_t offset;
  FieldType type;
  size_t length;
  double initial;
};

constexpr FieldType field_type(const int32_t&) { return FieldType::kInt32; }
constexpr FieldType field_type(const uint32_t&) { return FieldType::kInt32; }  // flags, never above 2^31
constexpr FieldType field_type(const int64_t&) { return FieldType::kInt64; }
constexpr FieldType field_type(const uint64_t&) { return FieldType::kUint64; }
constexpr FieldType field_type(const double&) { return FieldType::kDouble; }

template <class Struct, class Member>
constexpr FieldType member_type(Member Struct::*) {
  return field_type(Member{});
}
template <class Struct, class Member, size_t Length>
constexpr FieldType member_type(Member (Struct::*)[Length]) {
  return field_type(Member{});
}
template <class Struct, class Member, size_t Rows, size_t Length>
constexpr FieldType member_type(Member (Struct::*)[Rows][Length]) {
  return field_type(Member{});
}
template <class Struct, class Member>
constexpr size_t member_length(Member Struct::*) {
  return 1;
}
template <class Struct, class Member, size_t Length>
constexpr size_t member_length(Member (Struct::*)[Length]) {
  return Length;
}

template <class Struct, class Member, size_t Rows, size_t Length>
constexpr size_t member_length(Member (Struct::*)[Rows][Length]) {
  return Rows * Length;  // row by row
}

#define FIELD(structure, member, initial)                                                                             \
  Field {                                                                                                             \
    #member, offsetof(structure, member), member_type(&structure::member), member_length(&structure::member), initial \
  }

const Field map_fields[] = {FIELD(uhal_map_attributes, function, 0), FIELD(uhal_map_attributes, parameters, 0)};
const Field map_chain_fields[] = {
    FIELD(uhal_map_chain_attributes, step_count, 1), FIELD(uhal_map_chain_attributes, results, 0),
    FIELD(uhal_map_chain_attributes, functions, 0), FIELD(uhal_map_chain_attributes, operands, 0),
    FIELD(uhal_map_chain_attributes, parameters, 0)};
const Field fill_fields[] = {FIELD(uhal_fill_attributes, value, 0), FIELD(uhal_fill_attributes, integer_value, 0)};
const Field iota_fields[] = {FIELD(uhal_iota_attributes, start, 0), FIELD(uhal_iota_attributes, step, 1),
                             FIELD(uhal_iota_attributes, integer_start, 0),
                             FIELD(uhal_iota_attributes, integer_step, 1)};
const Field triangular_fields[] = {FIELD(uhal_triangular_attributes, upper, 0),
                                   FIELD(uhal_triangular_attributes, diagonal, 0)};
const Field index_fields[] = {FIELD(uhal_index_attributes, axis, 0), FIELD(uhal_index_attributes, batch_dimensions, 0),
                              FIELD(uhal_index_attributes, reduction, UHAL_REDUCE_NONE),
                              FIELD(uhal_index_attributes, negative_wraps, 0),
                              FIELD(uhal_index_attributes, ignore_out_of_range, 0)};
const Field segment_fields[] = {FIELD(uhal_segment_attributes, reduction, UHAL_REDUCE_SUM),
                                FIELD(uhal_segment_attributes, form, UHAL_SEGMENT_UNSORTED),
                                FIELD(uhal_segment_attributes, ignore_negative, 0),
                                FIELD(uhal_segment_attributes, ignore_out_of_range, 0),
                                FIELD(uhal_segment_attributes, empty, 0),
                                FIELD(uhal_segment_attributes, integer_empty, 0)};
const Field reduce_fields[] = {FIELD(uhal_reduce_attributes, reduction, UHAL_REDUCE_SUM)};
const Field axis_fields[] = {FIELD(uhal_axis_attributes, axis, 0), FIELD(uhal_axis_attributes, flags, 0)};
const Field scan_fields[] = {FIELD(uhal_scan_attributes, axis, 0),
                             FIELD(uhal_scan_attributes, reduction, UHAL_REDUCE_SUM),
                             FIELD(uhal_scan_attributes, exclusive, 0), FIELD(uhal_scan_attributes, reverse, 0)};
const Field matmul_fields[] = {FIELD(uhal_matmul_attributes, alpha, 1), FIELD(uhal_matmul_attributes, beta, 1),
                               FIELD(uhal_matmul_attributes, activation, UHAL_ACTIVATION_NONE),
                               FIELD(uhal_matmul_attributes, math_mode, UHAL_MATH_STRICT)};
const Field triangular_solve_fields[] = {FIELD(uhal_triangular_solve_attributes, upper, 0),
                                         FIELD(uhal_triangular_solve_attributes, unit_diagonal, 0),
                                         FIELD(uhal_triangular_solve_attributes, conjugate, 0)};
const Field triangle_fields[] = {FIELD(uhal_triangle_attributes, upper, 0)};
const Field convolution_fields[] = {FIELD(uhal_convolution_attributes, stride, 1),
                                    FIELD(uhal_convolution_attributes, dilation, 1),
                                    FIELD(uhal_convolution_attributes, pad_before, 0),
                                    FIELD(uhal_convolution_attributes, pad_after, 0),
                                    FIELD(uhal_convolution_attributes, groups, 1),
                                    FIELD(uhal_convolution_attributes, activation, UHAL_ACTIVATION_NONE),
                                    FIELD(uhal_convolution_attributes, math_mode, UHAL_MATH_STRICT)};
const Field pool_fields[] = {FIELD(uhal_pool_attributes, mode, UHAL_POOL_MAXIMUM),
                             FIELD(uhal_pool_attributes, adaptive, 0),
                             FIELD(uhal_pool_attributes, window, 1),
                             FIELD(uhal_pool_attributes, stride, 1),
                             FIELD(uhal_pool_attributes, pad_before, 0),
                             FIELD(uhal_pool_attributes, pad_after, 0)};
const Field softmax_fields[] = {FIELD(uhal_softmax_attributes, axis, -1), FIELD(uhal_softmax_attributes, logarithm, 0)};
const Field cross_entropy_fields[] = {FIELD(uhal_cross_entropy_attributes, axis, -1),
                                      FIELD(uhal_cross_entropy_attributes, has_ignore, 0),
                                      FIELD(uhal_cross_entropy_attributes, ignore_index, 0)};
const Field norm_fields[] = {
    FIELD(uhal_norm_attributes, epsilon, 1e-5), FIELD(uhal_norm_attributes, momentum, 0.9),
    FIELD(uhal_norm_attributes, inference, 0),  FIELD(uhal_norm_attributes, unbiased_running, 0),
    FIELD(uhal_norm_attributes, axis, -1),      FIELD(uhal_norm_attributes, activation, UHAL_ACTIVATION_NONE),
    FIELD(uhal_norm_attributes, groups, 1)};
const Field attention_fields[] = {FIELD(uhal_attention_attributes, scale, 0),
                                  FIELD(uhal_attention_attributes, causal, 0),
                                  FIELD(uhal_attention_attributes, math_mode, UHAL_MATH_STRICT)};
const Field random_fields[] = {FIELD(uhal_random_attributes, distribution, UHAL_RANDOM_UNIFORM),
                               FIELD(uhal_random_attributes, scale_at_inference, 0),
                               FIELD(uhal_random_attributes, key, 0),
                               FIELD(uhal_random_attributes, counter, 0),
                               FIELD(uhal_random_attributes, a, 0),
                               FIELD(uhal_random_attributes, b, 1)};
const Field resize_fields[] = {
    FIELD(uhal_resize_attributes, mode, UHAL_RESIZE_NEAREST), FIELD(uhal_resize_attributes, align_corners, 0),
    FIELD(uhal_resize_attributes, half_pixel_centers, 0), FIELD(uhal_resize_attributes, scale, 0)};
const Field random_distribution_fields[] = {FIELD(uhal_random_distribution_attributes, distribution, 0),
                                            FIELD(uhal_random_distribution_attributes, key, 0),
                                            FIELD(uhal_random_distribution_attributes, counter, 0)};
const Field matmul_quantized_fields[] = {FIELD(uhal_matmul_quantized_attributes, bits, 8),
                                         FIELD(uhal_matmul_quantized_attributes, activation, UHAL_ACTIVATION_NONE),
                                         FIELD(uhal_matmul_quantized_attributes, block_size, 0),
                                         FIELD(uhal_matmul_quantized_attributes, zero_point, 0)};
const Field grid_sample_fields[] = {FIELD(uhal_grid_sample_attributes, mode, UHAL_GRID_SAMPLE_LINEAR),
                                    FIELD(uhal_grid_sample_attributes, padding, UHAL_GRID_SAMPLE_ZEROS),
                                    FIELD(uhal_grid_sample_attributes, align_corners, 0),
                                    FIELD(uhal_grid_sample_attributes, edge_gradient, 0),
                                    FIELD(uhal_grid_sample_attributes, in_pixels, 0)};
const Field roi_align_fields[] = {FIELD(uhal_roi_align_attributes, scale, 1),
                                  FIELD(uhal_roi_align_attributes, samples, 0),
                                  FIELD(uhal_roi_align_attributes, aligned, 0)};
const Field roi_pool_fields[] = {FIELD(uhal_roi_pool_attributes, scale, 1),
                                 FIELD(uhal_roi_pool_attributes, mode, UHAL_ROI_POOL_MAX)};
const Field non_max_suppression_fields[] = {
    FIELD(uhal_non_max_suppression_attributes, threshold, 0.5), FIELD(uhal_non_max_suppression_attributes, decay, 1),
    FIELD(uhal_non_max_suppression_attributes, extent, 0), FIELD(uhal_non_max_suppression_attributes, ordered, 0)};
const Field fft_fields[] = {FIELD(uhal_fft_attributes, direction, UHAL_FFT_FORWARD),
                            FIELD(uhal_fft_attributes, normalization, UHAL_FFT_UNSCALED),
                            FIELD(uhal_fft_attributes, axis_count, 1), FIELD(uhal_fft_attributes, axes, -1)};

const Field search_fields[] = {FIELD(uhal_search_attributes, right, 0)};
const Field ctc_fields[] = {FIELD(uhal_ctc_attributes, blank, 0), FIELD(uhal_ctc_attributes, zero_infinity, 0)};
const Field rnn_fields[] = {FIELD(uhal_rnn_attributes, mode, UHAL_RNN_LSTM), FIELD(uhal_rnn_attributes, reverse, 0),
                            FIELD(uhal_rnn_attributes, cell_clip, 0),
                            FIELD(uhal_rnn_attributes, math_mode, UHAL_MATH_STRICT)};

// The struct that one or more op kinds take.
struct Layout {
  uhal_op_kind first_kind;
  uhal_op_kind last_kind;
  size_t size;
  const Field* fields;
  size_t field_count;
};

#define LAYOUT(first, last, structure, fields) \
  Layout { first, last, sizeof(structure), fields, std::size(fields) }

const Layout layouts[] = {
    LAYOUT(UHAL_OP_MAP, UHAL_OP_MAP, uhal_map_attributes, map_fields),
    LAYOUT(UHAL_OP_MAP_CHAIN, UHAL_OP_MAP_CHAIN, uhal_map_chain_attributes, map_chain_fields),
    LAYOUT(UHAL_OP_FILL, UHAL_OP_FILL, uhal_fill_attributes, fill_fields),
    LAYOUT(UHAL_OP_IOTA, UHAL_OP_IOTA, uhal_iota_attributes, iota_fields),
    LAYOUT(UHAL_OP_TRIANGULAR, UHAL_OP_TRIANGULAR, uhal_triangular_attributes, triangular_fields),
    LAYOUT(UHAL_OP_GATHER, UHAL_OP_ONE_HOT, uhal_index_attributes, index_fields),
    LAYOUT(UHAL_OP_SEGMENT_REDUCE, UHAL_OP_SEGMENT_REDUCE, uhal_segment_attributes, segment_fields),
    LAYOUT(UHAL_OP_REDUCE, UHAL_OP_REDUCE, uhal_reduce_attributes, reduce_fields),
    LAYOUT(UHAL_OP_ARG_REDUCE, UHAL_OP_ARG_REDUCE, uhal_axis_attributes, axis_fields),
    LAYOUT(UHAL_OP_SCAN, UHAL_OP_SCAN, uhal_scan_attributes, scan_fields),
    LAYOUT(UHAL_OP_SORT, UHAL_OP_TOP_K, uhal_axis_attributes, axis_fields),
    LAYOUT(UHAL_OP_MATMUL, UHAL_OP_MATMUL, uhal_matmul_attributes, matmul_fields),
    LAYOUT(UHAL_OP_MATMUL_QUANTIZED, UHAL_OP_MATMUL_QUANTIZED, uhal_matmul_quantized_attributes,
           matmul_quantized_fields),
    LAYOUT(UHAL_OP_TRIANGULAR_SOLVE, UHAL_OP_TRIANGULAR_SOLVE, uhal_triangular_solve_attributes,
           triangular_solve_fields),
    LAYOUT(UHAL_OP_CHOLESKY, UHAL_OP_CHOLESKY, uhal_triangle_attributes, triangle_fields),
    LAYOUT(UHAL_OP_EIGEN_SYMMETRIC, UHAL_OP_EIGEN_SYMMETRIC, uhal_triangle_attributes, triangle_fields),
    LAYOUT(UHAL_OP_CONVOLUTION, UHAL_OP_CONVOLUTION_BACKWARD_FILTER, uhal_convolution_attributes, convolution_fields),
    LAYOUT(UHAL_OP_POOL, UHAL_OP_POOL_BACKWARD, uhal_pool_attributes, pool_fields),
    LAYOUT(UHAL_OP_SOFTMAX, UHAL_OP_SOFTMAX_BACKWARD, uhal_softmax_attributes, softmax_fields),
    LAYOUT(UHAL_OP_CROSS_ENTROPY, UHAL_OP_CROSS_ENTROPY_BACKWARD, uhal_cross_entropy_attributes, cross_entropy_fields),
    LAYOUT(UHAL_OP_BATCH_NORM, UHAL_OP_RMS_NORM_BACKWARD, uhal_norm_attributes, norm_fields),
    LAYOUT(UHAL_OP_ATTENTION, UHAL_OP_ATTENTION_BACKWARD, uhal_attention_attributes, attention_fields),
    LAYOUT(UHAL_OP_RANDOM, UHAL_OP_DROPOUT, uhal_random_attributes, random_fields),
    LAYOUT(UHAL_OP_RANDOM_DISTRIBUTION, UHAL_OP_RANDOM_DISTRIBUTION, uhal_random_distribution_attributes,
           random_distribution_fields),
    LAYOUT(UHAL_OP_RESIZE, UHAL_OP_RESIZE_BACKWARD, uhal_resize_attributes, resize_fields),
    LAYOUT(UHAL_OP_GRID_SAMPLE, UHAL_OP_GRID_SAMPLE_BACKWARD_GRID, uhal_grid_sample_attributes, grid_sample_fields),
    LAYOUT(UHAL_OP_RESAMPLE, UHAL_OP_RESAMPLE, uhal_axis_attributes, axis_fields),
    LAYOUT(UHAL_OP_ROI_ALIGN, UHAL_OP_ROI_ALIGN_BACKWARD, uhal_roi_align_attributes, roi_align_fields),
    LAYOUT(UHAL_OP_ROI_POOL, UHAL_OP_ROI_POOL_BACKWARD, uhal_roi_pool_attributes, roi_pool_fields),
    LAYOUT(UHAL_OP_NON_MAX_SUPPRESSION, UHAL_OP_NON_MAX_SUPPRESSION, uhal_non_max_suppression_attributes,
           non_max_suppression_fields),
    LAYOUT(UHAL_OP_FFT, UHAL_OP_FFT, uhal_fft_attributes, fft_fields),
    LAYOUT(UHAL_OP_SEARCH_SORTED, UHAL_OP_SEARCH_SORTED, uhal_search_attributes, search_fields),
    LAYOUT(UHAL_OP_RNN, UHAL_OP_RNN_BACKWARD, uhal_rnn_attributes, rnn_fields),
    LAYOUT(UHAL_OP_CTC_LOSS, UHAL_OP_CTC_LOSS, uhal_ctc_attributes, ctc_fields),
};

const Layout* find_layout(uhal_op_kind kind) {
  for (const Layout& layout : layouts) {
    if (layout.first_kind <= kind && kind <= layout.last_kind) return &layout;
  }
  return nullptr;
}

template <class Number>
void put(std::byte* destination, Number value) {
  std::memcpy(destination, &value, sizeof value);
}

// Stores entry `index` of a field.
template <class Source>
void store(std::byte* attributes, const Field& field, size_t index, const Source& value) {
  std::byte* base = attributes + field.offset;
  switch (field.type) {
    case FieldType::kInt32:
      return put(base + index * sizeof(int32_t), value.template operator()<int32_t>());
    case FieldType::kInt64:
      return put(base + index * sizeof(int64_t), value.template operator()<int64_t>());
    case FieldType::kUint64:
      return put(base + index * sizeof(uint64_t), value.template operator()<uint64_t>());
    case FieldType::kDouble:
      return put(base + index * sizeof(double), value.template operator()<double>());
  }
}

struct Initial {
  double value;
  template <class Number>
  Number operator()() const {
    return static_cast<Number>(value);
  }
};

struct FromPython {
  const Field& field;
  py::handle value;
  template <class Number>
  Number operator()() const {
    try {
      return value.cast<Number>();
    } catch (const py::cast_error&) {
      throw py::type_error(std::string(field.name) + " is " + py::repr(value).cast<std::string>() +
                           ", which is not a number of its range");
    }
  }
};

void store_value(std::byte* attributes, const Field& field, py::handle value) {
  if (field.length == 1) return store(attributes, field, 0, FromPython{field, value});
  if (!py::isinstance<py::sequence>(value)) {
    throw py::type_error(std::string(field.name) + " is " + py::repr(value).cast<std::string>() +
                         ", which is no sequence of numbers");
  }
  const auto entries = py::reinterpret_borrow<py::sequence>(value);
  if (entries.size() > field.length) {
    throw py::value_error(std::string(field.name) + " has at most " + std::to_string(field.length) + " entries, not " +
                          std::to_string(entries.size()));
  }
  for (size_t i = 0; i < entries.size(); ++i) {
    const py::object entry = entries[i];
    store(attributes, field, i, FromPython{field, entry});
  }
}

const Field& find_field(const Layout& layout, py::handle name) {
  const char* text = PyUnicode_AsUTF8(name.ptr());
  if (text == nullptr) throw py::error_already_set();
  for (size_t i = 0; i < layout.field_count; ++i) {
    if (std::strcmp(text, layout.fields[i].name) == 0) return layout.fields[i];
  }
  std::string known;
  for (size_t i = 0; i < layout.field_count; ++i) known += (i == 0 ? "" : ", ") + std::string(layout.fields[i].name);
  throw py::type_error(std::string("there is no attribute ") + text + "; this op has: " + known);
}

}  // namespace

std::vector<std::byte> make_attributes(uhal_op_kind kind, const py::dict& values) {
  const Layout* layout = find_layout(kind);
  if (layout == nullptr) {
    if (!values.empty()) throw py::type_error(std::string(uhal_op_kind_name(kind)) + " has no attributes");
    return {};
  }
  std::vector<std::byte> attributes(layout->size);
  put(attributes.data(), layout->size);
  for (size_t i = 0; i < layout->field_count; ++i) {
    const Field& field = layout->fields[i];
    for (size_t k = 0; k < field.length; ++k) store(attributes.data(), field, k, Initial{field.initial});
  }
  for (const auto& [name, value] : values) {
    store_value(attributes.data(), find_field(*layout, name), value);
  }
  return attributes;
}

const std::byte* Attributes::of(uhal_op_kind kind) const {
  if (kind != kind_ && find_layout(kind) != find_layout(kind_)) {
    throw py::type_error(std::string("these are attributes of ") + uhal_op_kind_name(kind_));
  }
  return bytes_.empty() ? nullptr : bytes_.data();
}

}  // namespace unihal::python
