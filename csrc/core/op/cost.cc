#include "csrc/core/op/cost.h"

#include <algorithm>
#include <cmath>

#include "csrc/core/op/shape_rules.h"

namespace unihal::core {
namespace {

uint64_t elements(const uhal_tensor* tensor) {
  return tensor != nullptr ? static_cast<uint64_t>(element_count(*tensor)) : 0;
}

// Elements that a view has in memory: an axis of stride 0 is one element.
uint64_t distinct_elements(const uhal_tensor& tensor) {
  uint64_t count = 1;
  for (int i = 0; i < tensor.rank; ++i) {
    count *= static_cast<uint64_t>(tensor.strides[i] == 0 && tensor.shape[i] > 1 ? 1 : tensor.shape[i]);
  }
  return count;
}

uint64_t bytes_of(const uhal_tensor* const* operands, int count) {
  uint64_t bytes = 0;
  for (int i = 0; i < count; ++i) {
    if (operands[i] != nullptr) bytes += distinct_elements(*operands[i]) * uhal_dtype_size(operands[i]->dtype);
  }
  return bytes;
}

// What one operation counts for: on complex numbers 4, the multiplications of a product.
uint64_t per_operation(const OpView& op) {
  for (int i = 0; i < op.op->input_count; ++i) {
    if (op.input(i) != nullptr && is_complex(op.input(i)->dtype)) return 4;
  }
  return 1;
}

// 2 per multiplication and addition: each element of y sums over C/groups and the filter's spatial axes.
uint64_t convolution_flops_of(const uhal_tensor* w, const uhal_tensor* y) {
  uint64_t filters = static_cast<uint64_t>(w->shape[0]);
  return filters == 0 ? 0 : 2 * elements(y) * (elements(w) / filters);
}

uint64_t pool_flops_of(const OpView& op, const uhal_tensor* x, const uhal_tensor* y) {
  const auto& attributes = op.attributes_as<uhal_pool_attributes>();
  if (attributes.adaptive != 0) return elements(x);
  uint64_t window = 1;
  for (int i = 0; i < x->rank - 2; ++i) window *= static_cast<uint64_t>(attributes.window[i]);
  return elements(y) * window;
}

uint64_t rounded(double count) { return static_cast<uint64_t>(count + 0.5); }

// A batch of matrices: how many, and their sides.
struct Matrices {
  double count, larger, smaller;
  explicit Matrices(const uhal_tensor& view) {
    const auto rows = static_cast<double>(view.shape[view.rank - 2]);
    const auto columns = static_cast<double>(view.shape[view.rank - 1]);
    larger = std::max(rows, columns);
    smaller = std::min(rows, columns);
    count = larger * smaller > 0 ? static_cast<double>(element_count(view)) / (larger * smaller) : 0;
  }
};

// So many times the third power of the side of the square matrices that the op takes.
uint64_t cubic_flops(const OpView& op, double factor) {
  const Matrices a(*op.input(0));
  return rounded(factor * a.count * a.larger * a.larger * a.larger);
}

// The nominal counts per element of ops that go over their input a few times.
constexpr uint64_t kSoftmaxFlops = 12;  // maximum, subtract, exp (8), sum, divide
constexpr uint64_t kNormFlops = 8;      // mean, variance, normalize, scale and bias

}  // namespace

uint64_t op_bytes(const uhal_op& op) {
  return bytes_of(op.inputs, op.input_count) + bytes_of(op.outputs, op.output_count);
}

int64_t estimated_nanoseconds(const uhal_device_properties& properties, uint64_t bytes, uint64_t flops) {
  // A gigabyte per second is a byte per nanosecond.
  const double bytes_per_nanosecond = properties.peak_gigabytes_per_second;
  const double flops_per_nanosecond = properties.peak_gigaflops_float32;
  if (!(bytes_per_nanosecond > 0) || !(flops_per_nanosecond > 0)) return 0;
  const double moving = static_cast<double>(bytes) / bytes_per_nanosecond;
  const double computing = static_cast<double>(flops) / flops_per_nanosecond;
  return std::max(properties.launch_nanoseconds, static_cast<int64_t>(std::ceil(std::max(moving, computing))));
}

uint64_t no_flops(const OpView&) { return 0; }
uint64_t input_0_flops(const OpView& op) { return elements(op.input(0)); }
uint64_t input_1_flops(const OpView& op) { return elements(op.input(1)); }
uint64_t output_0_flops(const OpView& op) { return elements(op.output(0)); }

uint64_t map_flops(const OpView& op) {
  return per_operation(op) * elements(op.output(0)) * static_cast<uint64_t>(map_function_of(op).flops);
}

uint64_t map_chain_flops(const OpView& op) {
  const auto& attributes = op.attributes_as<uhal_map_chain_attributes>();
  uint64_t flops = 0;
  for (int i = 0; i < attributes.step_count; ++i) {
    flops += static_cast<uint64_t>(map_function_row(attributes.functions[i]).flops);
  }
  return per_operation(op) * elements(op.output(0)) * flops;
}

// Each element's row is combined once, and multiplied where there are weights.
uint64_t segment_flops(const OpView& op) {
  const uhal_tensor* x = op.input(0);
  const uint64_t rows = static_cast<uint64_t>(x->shape[0]);
  const uint64_t row = rows == 0 ? 0 : elements(x) / rows;
  return (op.input(2) != nullptr ? elements(op.input(2)) : rows) * row * (op.input(3) != nullptr ? 2 : 1);
}

// A comparison for each halving of the row.
uint64_t search_flops(const OpView& op) {
  const uhal_tensor* sorted = op.input(0);
  uint64_t steps = 1;
  for (int64_t rest = sorted->shape[sorted->rank - 1]; rest > 1; rest /= 2) ++steps;
  return steps * elements(op.input(1));
}

uint64_t matmul_flops(const OpView& op) {
  const uhal_tensor* a = op.input(0);
  return per_operation(op) * 2 * elements(op.output(0)) * static_cast<uint64_t>(a->shape[a->rank - 1]);
}

// The counts of Golub and Van Loan, Matrix Computations (4th ed.): sections 3.1.2, 4.2.5, 3.2.6 and 3.4, 5.2.2, 8.3.3,
// 8.6.4, 7.5.6.
uint64_t triangular_solve_flops(const OpView& op) {
  return per_operation(op) * elements(op.output(0)) * static_cast<uint64_t>(op.input(0)->shape[op.input(0)->rank - 1]);
}

uint64_t cholesky_flops(const OpView& op) { return per_operation(op) * cubic_flops(op, 1.0 / 3); }

uint64_t lu_flops(const OpView& op) {
  const Matrices a(*op.input(0));
  return per_operation(op) *
         rounded(a.count * (2 * a.larger * a.smaller * a.smaller - a.smaller * a.smaller * (a.larger + a.smaller) +
                            2.0 / 3 * a.smaller * a.smaller * a.smaller));
}

uint64_t qr_flops(const OpView& op) {
  const Matrices a(*op.input(0));
  const double once = 2 * a.smaller * a.smaller * (a.larger - a.smaller / 3);
  return per_operation(op) * rounded(a.count * once * (op.output(1) != nullptr ? 2 : 1));
}

uint64_t eigen_symmetric_flops(const OpView& op) {
  return per_operation(op) * cubic_flops(op, op.output(1) != nullptr ? 9 : 4.0 / 3);
}

uint64_t svd_flops(const OpView& op) {
  const Matrices a(*op.input(0));
  const double square = a.smaller * a.smaller;
  const double vectors = 6 * a.larger * square + 20 * a.smaller * square;
  const double values = 2 * a.larger * square + 2 * a.smaller * square;
  return per_operation(op) * rounded(a.count * (op.output(1) != nullptr ? vectors : values));
}

uint64_t eigen_flops(const OpView& op) {
  return per_operation(op) * cubic_flops(op, op.output(1) != nullptr ? 25 : 10);
}

uint64_t convolution_flops(const OpView& op) { return convolution_flops_of(op.input(1), op.output(0)); }
uint64_t convolution_backward_data_flops(const OpView& op) { return convolution_flops_of(op.input(1), op.input(0)); }
uint64_t convolution_backward_filter_flops(const OpView& op) { return convolution_flops_of(op.output(0), op.input(1)); }

uint64_t pool_flops(const OpView& op) { return pool_flops_of(op, op.input(0), op.output(0)); }
uint64_t pool_backward_flops(const OpView& op) { return pool_flops_of(op, op.output(0), op.input(0)); }
uint64_t softmax_flops(const OpView& op) { return kSoftmaxFlops * elements(op.input(0)); }
uint64_t norm_flops(const OpView& op) { return kNormFlops * elements(op.input(0)); }

uint64_t attention_flops(const OpView& op) {
  const uhal_tensor* q = op.input(0);
  const uhal_tensor* v = op.input(2);
  uint64_t scores = static_cast<uint64_t>(q->shape[0] * q->shape[1] * q->shape[2] * v->shape[2]);
  return scores * (2 * static_cast<uint64_t>(q->shape[3] + v->shape[3]) + kSoftmaxFlops);
}

uint64_t attention_backward_flops(const OpView& op) {
  // Scores again, and two products for each of the three gradients' chains.
  return attention_flops(op) * 5 / 2;
}

// The products with r of all steps, forward or back, and a cell's arithmetic at ten for each part of x.
uint64_t rnn_flops(const OpView& op) {
  const uhal_tensor* gates = op.op->kind == UHAL_OP_RNN ? op.input(0) : op.output(0);
  return elements(gates) * (2 * static_cast<uint64_t>(op.input(1)->shape[2]) + 10);
}

// A softmax of the logits, and a sum of three exponentials for each state of each step, forwards and back.
uint64_t ctc_flops(const OpView& op) {
  const uhal_tensor* logits = op.input(0);
  const uint64_t states = static_cast<uint64_t>(logits->shape[0] * logits->shape[1] * (2 * op.input(1)->shape[1] + 1));
  const uint64_t passes = op.output(1) != nullptr ? 2 : 1;
  return kSoftmaxFlops * elements(logits) + passes * 40 * states;
}

uint64_t fft_flops(const OpView& op) {
  const auto& attributes = op.attributes_as<uhal_fft_attributes>();
  // The signal is the real side; half of it as many complex numbers have its information.
  const uhal_tensor& signal = *(is_complex(op.input(0)->dtype) ? op.output(0) : op.input(0));
  double length = 1;
  for (int i = 0; i < attributes.axis_count; ++i) {
    const int axis = attributes.axes[i] < 0 ? signal.rank - 1 : attributes.axes[i];
    length *= static_cast<double>(signal.shape[axis]);
  }
  if (length <= 1) return 0;
  const double halves = is_complex(signal.dtype) ? 2 : 1;
  return static_cast<uint64_t>(2.5 * halves * static_cast<double>(elements(&signal)) * std::log2(length));
}

}  // namespace unihal::core
