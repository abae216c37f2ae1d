// UHAL_OP_FILL, UHAL_OP_IOTA, UHAL_OP_TRIANGULAR and UHAL_OP_ONE_HOT.
//
// What these ops look at (the index along an axis, the column less the row) is a sum of coordinates with factors: one
// more operand of the space, whose "offset" it is.

#include <algorithm>
#include <cstring>

#include "csrc/backends/common/attributes.h"
#include "csrc/backends/common/dtype.h"
#include "csrc/backends/common/float_bits.h"
#include "csrc/kernels/layout.h"
#include "csrc/kernels/views.h"
#include "kernel_sources.h"

namespace unihal::kernels {
namespace {

// A view of y's shape whose offsets are 0; give it strides along the axes that count.
uhal_tensor position_view(const uhal_tensor& y) {
  uhal_tensor position = y;
  position.data = nullptr;
  std::fill_n(position.strides, y.rank, int64_t{0});
  return position;
}

// Runs a kernel of generate.cl over a space; `arguments` so far are those before the layout.
uhal_status run_over(Queue& queue, KernelSpec& spec, Arguments& arguments, const Space& space) {
  const LayoutKind kind = layout_kind(space);
  kind.define(spec);
  append_layout(arguments, space, kind);
  append_index(arguments, space.count, kind.wide);
  return queue.run(spec, arguments, linear_grid(space.count, std::min(256, queue.traits().max_group_size)));
}

void append_element(Arguments& arguments, const ElementBytes& element, int64_t size) {
  arguments.bytes(element.bytes, static_cast<size_t>(size));
}

// Elements of `size` bytes at offsets that are multiples of it.
uhal_status fill_space(Queue& queue, const ElementBytes& element, int64_t size, void* data, const Space& space) {
  KernelSpec spec(sources::generate, "fill");
  spec.define("UHAL_FILL", 1).define("UHAL_SIZE", size);
  Arguments arguments;
  arguments.pointer(data);
  append_element(arguments, element, size);
  return run_over(queue, spec, arguments, space);
}

uhal_status fill_with(Queue& queue, const ElementBytes& element, const uhal_tensor& y) {
  const uhal_tensor* views[] = {&y};
  const Space space = make_space(views, 1);
  const int64_t size = dtype_size(y.dtype);
  if (space.count == 0) return UHAL_OK;
  if (needs_halves(y)) {
    ElementBytes last;
    std::memcpy(last.bytes, element.bytes + size / 2, static_cast<size_t>(size / 2));
    const uhal_status status = fill_with(queue, element, half(y, 0));
    return status != UHAL_OK ? status : fill_with(queue, last, half(y, 1));
  }
  if (space.dense(0)) {
    return queue.fill(y.data, element.bytes, static_cast<size_t>(size), static_cast<size_t>(space.count * size));
  }
  return fill_space(queue, element, size, y.data, space);
}

uhal_status iota(Queue& queue, const uhal_op& op) {
  const auto attributes = attributes_or(op, uhal_iota_attributes{sizeof(uhal_iota_attributes), 0, 1, 0, 1});
  const uhal_tensor& y = *op.outputs[0];
  uhal_tensor position = position_view(y);
  if (y.rank > 0) position.strides[y.rank - 1] = 1;
  const uhal_tensor* views[] = {&y, &position};
  const Space space = make_space(views, 2);
  if (space.count == 0) return UHAL_OK;
  const Compute type = is_integer(y.dtype)          ? Compute::kInt64
                       : queue.traits().has_float64 ? Compute::kDouble
                                                    : Compute::kFloat;
  KernelSpec spec(sources::generate, "iota");
  spec.compute(type).define("UHAL_IOTA", 1);
  Arguments arguments;
  arguments.pointer(y.data);
  if (type == Compute::kInt64) {
    arguments.int64(attributes.integer_start).int64(attributes.integer_step);
  } else {
    arguments.real(attributes.start, type).real(attributes.step, type);
  }
  arguments.int32(y.dtype);
  return run_over(queue, spec, arguments, space);
}

uhal_status triangular_of(Queue& queue, const uhal_triangular_attributes& attributes, const uhal_tensor& x,
                          const uhal_tensor& y) {
  if (needs_halves(x) || needs_halves(y)) {
    const uhal_status status = triangular_of(queue, attributes, half(x, 0), half(y, 0));
    return status != UHAL_OK ? status : triangular_of(queue, attributes, half(x, 1), half(y, 1));
  }
  uhal_tensor position = position_view(y);
  position.strides[y.rank - 1] = 1;
  position.strides[y.rank - 2] = -1;
  const uhal_tensor* views[] = {&y, &x, &position};
  const Space space = make_space(views, 3);
  if (space.count == 0) return UHAL_OK;
  const int64_t size = dtype_size(y.dtype);
  KernelSpec spec(sources::generate, "triangular");
  spec.define("UHAL_TRIANGULAR", 1).define("UHAL_SIZE", size);
  Arguments arguments;
  arguments.pointer(y.data).pointer(x.data);
  append_element(arguments, {}, size);
  arguments.int64(attributes.diagonal).int32(attributes.upper);
  return run_over(queue, spec, arguments, space);
}

// `indices` has y's rank, with length 1 along the axis.
uhal_status one_hot_of(Queue& queue, const uhal_tensor& indices, int axis, const uhal_tensor& y) {
  if (needs_halves(y)) {  // complex 1: 1 and 0
    const uhal_status status = one_hot_of(queue, indices, axis, half(y, 0));
    return status != UHAL_OK ? status : fill_view(queue, 0, 0, half(y, 1));
  }
  uhal_tensor position = position_view(y);
  position.strides[axis] = 1;
  const uhal_tensor* views[] = {&y, &indices, &position};
  const Space space = make_space(views, 3);
  if (space.count == 0) return UHAL_OK;
  const int64_t size = dtype_size(y.dtype);
  KernelSpec spec(sources::generate, "one_hot");
  spec.compute(Compute::kInt64).define("UHAL_ONE_HOT", 1).define("UHAL_SIZE", size);
  Arguments arguments;
  arguments.pointer(y.data).pointer(indices.data);
  append_element(arguments, {}, size);
  append_element(arguments, encode(1, 1, y.dtype), size);
  arguments.int32(indices.dtype);
  return run_over(queue, spec, arguments, space);
}

uhal_status one_hot(Queue& queue, const uhal_op& op) {
  const int axis = attributes_or(op, uhal_index_attributes{sizeof(uhal_index_attributes)}).axis;
  const uhal_tensor& given = *op.inputs[0];
  uhal_tensor indices = given;
  indices.rank = given.rank + 1;
  indices.shape[axis] = 1;
  indices.strides[axis] = 0;
  for (int i = axis; i < given.rank; ++i) {
    indices.shape[i + 1] = given.shape[i];
    indices.strides[i + 1] = given.strides[i];
  }
  return one_hot_of(queue, indices, axis, *op.outputs[0]);
}

template <class Value>
void put(ElementBytes& element, int place, Value value) {
  std::memcpy(element.bytes + place * static_cast<int>(sizeof value), &value, sizeof value);
}

}  // namespace

ElementBytes encode(double value, int64_t integer_value, uhal_dtype dtype) {
  ElementBytes element;
  switch (dtype) {
    case UHAL_BOOL:
      put(element, 0, static_cast<uint8_t>(integer_value != 0));
      break;
    case UHAL_FLOAT16:
      put(element, 0, float_to_float16(double_to_float_odd(value)));
      break;
    case UHAL_BFLOAT16:
      put(element, 0, float_to_bfloat16(double_to_float_odd(value)));
      break;
    case UHAL_FLOAT8_E4M3FN:
      put(element, 0, float_to_float8_e4m3fn(double_to_float_odd(value)));
      break;
    case UHAL_FLOAT8_E5M2:
      put(element, 0, float_to_float8_e5m2(double_to_float_odd(value)));
      break;
    case UHAL_FLOAT32:
    case UHAL_COMPLEX64:  // the imaginary part stays 0
      put(element, 0, static_cast<float>(value));
      break;
    case UHAL_FLOAT64:
    case UHAL_COMPLEX128:
      put(element, 0, value);
      break;
    default:  // integers: the low bytes, in the host's order, which is the device's
      std::memcpy(element.bytes, &integer_value, static_cast<size_t>(dtype_size(dtype)));
      break;
  }
  return element;
}

uhal_status fill_view(Queue& queue, double value, int64_t integer_value, const uhal_tensor& y) {
  return fill_with(queue, encode(value, integer_value, y.dtype), y);
}

uhal_status fill_by_kernel(Queue& queue, void* destination, const void* pattern, size_t pattern_bytes, size_t bytes) {
  // In units as wide as they may be.
  ElementBytes element;
  size_t unit = pattern_bytes;
  std::memcpy(element.bytes, pattern, unit);
  while (unit < sizeof element.bytes && (reinterpret_cast<uintptr_t>(destination) | bytes) % (2 * unit) == 0) {
    std::memcpy(element.bytes + unit, element.bytes, unit);
    unit *= 2;
  }
  uhal_tensor units = {};
  units.rank = 1;
  units.shape[0] = static_cast<int64_t>(bytes / unit);
  units.strides[0] = 1;
  const uhal_tensor* views[] = {&units};
  return fill_space(queue, element, static_cast<int64_t>(unit), destination, make_space(views, 1));
}

const char* refuse_generate(const DeviceTraits&, const uhal_op& op) {
  const uhal_dtype dtype = op.outputs[0]->dtype;
  if (op.kind == UHAL_OP_IOTA && !is_real(dtype)) {
    return refusal("iota: dtype %s is not supported; generate real numbers and cast them", dtype_name(dtype));
  }
  return nullptr;
}

uhal_status run_generate(Queue& queue, const uhal_op& op) {
  const uhal_tensor& y = *op.outputs[0];
  switch (op.kind) {
    case UHAL_OP_FILL: {
      const auto attributes = attributes_or(op, uhal_fill_attributes{sizeof(uhal_fill_attributes), 0, 0});
      return fill_view(queue, attributes.value, attributes.integer_value, y);
    }
    case UHAL_OP_IOTA:
      return iota(queue, op);
    case UHAL_OP_TRIANGULAR:
      return triangular_of(queue,
                           attributes_or(op, uhal_triangular_attributes{sizeof(uhal_triangular_attributes), 0, 0, 0}),
                           *op.inputs[0], y);
    default:
      return one_hot(queue, op);
  }
}

}  // namespace unihal::kernels
