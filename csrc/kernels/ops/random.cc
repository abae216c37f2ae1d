// UHAL_OP_RANDOM and UHAL_OP_DROPOUT: Philox4x32-10 in TensorFlow's order, so that a stateless op gives the same
// numbers as on TensorFlow's CPU. A work-item has the numbers of one block of four words.

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "csrc/backends/common/attributes.h"
#include "csrc/kernels/operands.h"
#include "csrc/kernels/ops.h"
#include "kernel_sources.h"

namespace unihal::kernels {
namespace {

// Of a float32 and a float64, beside the leading one.
constexpr int kFloatBits = 23;
constexpr int kDoubleBits = 52;

uhal_random_attributes random_attributes(const uhal_op& op) {
  return attributes_or(op,
                       uhal_random_attributes{sizeof(uhal_random_attributes), UHAL_RANDOM_UNIFORM, 0, 0, {0, 0}, 0, 1});
}

bool is_wide(uhal_dtype dtype) { return dtype_size(dtype) == 8; }

// float16 and bfloat16 have their own uniform numbers: as many low bits of the word as their fraction holds.
int uniform_bits(uhal_dtype dtype) {
  return is_wide(dtype) ? kDoubleBits : dtype == UHAL_FLOAT16 ? 10 : dtype == UHAL_BFLOAT16 ? 7 : kFloatBits;
}

// What a fraction of a word's bits is less than exactly if the uniform number that it makes is less than `probability`.
uint64_t threshold_of(double probability, bool wide) {
  const double rounded = wide ? probability : static_cast<double>(static_cast<float>(probability));
  return static_cast<uint64_t>(std::ceil(std::ldexp(rounded, wide ? kDoubleBits : kFloatBits)));
}

// A bound of integers, from -2^63 to below 2^64, as the bits of an int64 or a uint64.
uint64_t bits_of(double bound) {
  return bound < 0 ? static_cast<uint64_t>(static_cast<int64_t>(bound)) : static_cast<uint64_t>(bound);
}

// Where numbers begin: with the operand `turn`, if it is there, what it says is added.
void append_sequence(KernelSpec& spec, Arguments& arguments, const uhal_random_attributes& attributes,
                     const uhal_tensor* turn) {
  spec.define("TURN", turn != nullptr);
  if (turn != nullptr) arguments.pointer(turn->data);
  arguments.value_of(attributes.key).value_of(attributes.counter[0]).value_of(attributes.counter[1]);
}

const uhal_tensor* turn_of(const uhal_op& op, int input) { return op.input_count > input ? op.inputs[input] : nullptr; }

// Whether the numbers of a block are one access of four elements to each of the views, which follow the row-major one.
bool is_dense(const Space& space, std::initializer_list<const uhal_tensor*> views, bool wide) {
  bool dense = !wide;
  int operand = 1;
  for (const uhal_tensor* view : views) {
    const auto address = reinterpret_cast<uintptr_t>(view->data);
    dense &= space.dense(operand++) && address % static_cast<uintptr_t>(4 * dtype_size(view->dtype)) == 0;
  }
  return dense;
}

// Its items: the numbers of a block each.
Grid grid_of(const Queue& queue, int64_t count, bool wide) {
  const int64_t numbers = wide ? 2 : 4;
  return linear_grid((count + numbers - 1) / numbers, std::min(256, queue.traits().max_group_size));
}

uhal_status draw(Queue& queue, const uhal_op& op) {
  const uhal_tensor& y = *op.outputs[0];
  const uhal_random_attributes attributes = random_attributes(op);
  const bool wide = is_wide(y.dtype);
  const bool uniform = attributes.distribution == UHAL_RANDOM_UNIFORM;
  const uhal_tensor order = row_major_view(y);
  const uhal_tensor* views[] = {&order, &y};
  const Space space = make_space(views, 2);
  if (space.count == 0) return UHAL_OK;

  const Compute compute = y.dtype == UHAL_FLOAT64 ? Compute::kDouble
                          : is_floating(y.dtype)  ? Compute::kFloat
                                                  : Compute::kUint64;
  const LayoutKind kind = layout_kind(space);
  KernelSpec spec(sources::random, "draw");
  spec.compute(compute).dtype("Y", y.dtype).define("WIDE", wide).define("DISTRIBUTION", attributes.distribution);
  spec.define("DENSE", is_dense(space, {&y}, wide));
  spec.define("FRACTION_BITS", uniform ? uniform_bits(y.dtype) : wide ? kDoubleBits : kFloatBits);
  kind.define(spec);

  uint64_t first = 0;
  uint64_t second = 0;
  double a = 0;
  double b = 0;
  if (attributes.distribution == UHAL_RANDOM_BERNOULLI) {
    first = threshold_of(attributes.a, wide);
  } else if (is_floating(y.dtype)) {
    a = attributes.a;
    b = uniform ? attributes.b - attributes.a : attributes.b;
  } else {
    first = bits_of(attributes.a);
    second = bits_of(attributes.b) - first;
  }
  Arguments arguments;
  arguments.pointer(y.data);
  append_index(arguments, space.count, kind.wide);
  append_sequence(spec, arguments, attributes, turn_of(op, 0));
  arguments.value_of(first).value_of(second).real(a, compute).real(b, compute);
  append_layout(arguments, space, kind);
  return queue.run(spec, arguments, grid_of(queue, space.count, wide));
}

uhal_status dropout(Queue& queue, const uhal_op& op) {
  const uhal_tensor& x = *op.inputs[0];
  const uhal_tensor& y = *op.outputs[0];
  const uhal_tensor& mask = *op.outputs[1];
  const uhal_random_attributes attributes = random_attributes(op);
  const double rate = attributes.a;
  // Everything dropped: 0, not 0 times infinity.
  const double factor = attributes.scale_at_inference != 0 ? 1 : rate < 1 ? 1 / (1 - rate) : 0;
  const bool wide = is_wide(x.dtype);
  const uhal_tensor order = row_major_view(y);
  const uhal_tensor* views[] = {&order, &y, &x, &mask};
  const Space space = make_space(views, 4);
  if (space.count == 0) return UHAL_OK;

  const Compute compute = floating_compute(op);
  const LayoutKind kind = layout_kind(space);
  KernelSpec spec(sources::random, "dropout");
  spec.compute(compute).dtype("X", x.dtype).dtype("Y", y.dtype).define("WIDE", wide).define("DROPOUT", 1);
  spec.define("DENSE", is_dense(space, {&y, &x, &mask}, wide));
  kind.define(spec);
  Arguments arguments;
  arguments.pointer(y.data).pointer(x.data).pointer(mask.data);
  append_index(arguments, space.count, kind.wide);
  append_sequence(spec, arguments, attributes, turn_of(op, 1));
  arguments.value_of(threshold_of(rate, wide)).real(factor, compute);
  append_layout(arguments, space, kind);
  return queue.run(spec, arguments, grid_of(queue, space.count, wide));
}

}  // namespace

const char* refuse_random(const DeviceTraits&, const uhal_op& op) {
  const uhal_dtype dtype = op.outputs[0]->dtype;
  if (op.kind == UHAL_OP_DROPOUT) {
    return is_floating(dtype)
               ? nullptr
               : refusal("dropout: dtype %s is not supported; expected a floating one", dtype_name(dtype));
  }
  const uhal_distribution distribution = random_attributes(op).distribution;
  if (distribution < UHAL_RANDOM_UNIFORM || distribution > UHAL_RANDOM_BITS) {
    return refusal("random: distribution %d is unknown to this build of the kernels", distribution);
  }
  if (!is_real(dtype)) return refusal("random: dtype %s is not supported", dtype_name(dtype));
  const bool normal = distribution == UHAL_RANDOM_NORMAL || distribution == UHAL_RANDOM_TRUNCATED_NORMAL;
  if (normal && !is_floating(dtype)) {
    return refusal("random: normal numbers need a floating output, got %s", dtype_name(dtype));
  }
  if (distribution == UHAL_RANDOM_BITS && !is_integer(dtype)) {
    return refusal("random: raw bits need an integer output, got %s", dtype_name(dtype));
  }
  return nullptr;
}

uhal_status run_random(Queue& queue, const uhal_op& op) {
  return op.kind == UHAL_OP_DROPOUT ? dropout(queue, op) : draw(queue, op);
}

}  // namespace unihal::kernels
