// UHAL_OP_MAP: any function of elementwise.def over broadcast, strided operands of mixed dtypes.

#include <algorithm>
#include <cstring>
#include <functional>

#include "csrc/backends/common/complex_parts.h"
#include "csrc/backends/common/map_rules.h"
#include "stub/common/blocks.h"
#include "stub/common/kernels.h"
#include "stub/common/move.h"
#include "stub/common/parallel.h"
#include "stub/ops/copy.h"
#include "stub/ops/map_functions.h"
#include "stub/vector/vectorize.h"

namespace unihal::stub {
namespace {

constexpr int kMaxViews = UHAL_MAP_MAX_INPUTS + UHAL_MAP_MAX_OUTPUTS;
static_assert(kMaxViews <= kMaxOperands);

const uhal_tensor& operand(const uhal_op& op, int index) {
  return index < op.output_count ? *op.outputs[index] : *op.inputs[index - op.output_count];
}

// The loop that converts numbers of two bytes on the way, where all operands are of one such dtype.
ComputeType choose_type(const uhal_op& op, uhal_map_function function, bool integer) {
  const uhal_dtype dtype = op.outputs[0]->dtype;
  const ComputeType narrow = narrow_type_of(dtype);
  if (narrow != kFloat && vectors().map[function][narrow] != nullptr) {
    const auto is_same = [dtype](const uhal_tensor* view) { return view->dtype == dtype; };
    if (std::all_of(op.outputs, op.outputs + op.output_count, is_same) &&
        std::all_of(op.inputs, op.inputs + op.input_count, is_same)) {
      return narrow;
    }
  }
  return compute_type_of(
      map_arithmetic(op.output_count, op.input_count, integer, [&](int i) { return operand(op, i).dtype; }));
}

struct Plan {
  Space space;
  BlockOperand operands[kMaxViews];  // outputs, then inputs
  int outputs = 0;
  int inputs = 0;
  bool dense = true;     // every operand is one run of the compute type
  bool streams = false;  // outputs are written around the caches
  uint32_t same = 0;     // the inputs of which the loop takes the first element of each block
  MapLoop loop = nullptr;
  double parameters[UHAL_MAP_MAX_PARAMETERS];  // of the compute type, or of its parts
};

// The function works on the caller's memory.
void run_dense(const Plan& plan, int64_t begin, int64_t end) {
  const void* inputs[UHAL_MAP_MAX_INPUTS];
  void* outputs[UHAL_MAP_MAX_OUTPUTS];
  for (int i = 0; i < plan.outputs; ++i) outputs[i] = plan.operands[i].at(begin);
  for (int i = 0; i < plan.inputs; ++i) inputs[i] = plan.operands[plan.outputs + i].at(begin);
  plan.loop(end - begin, inputs, outputs, plan.parameters);
}

// The same of one large result, by pieces that are written around the caches.
void run_dense_streamed(const Plan& plan, int64_t begin, int64_t end) {
  alignas(64) char piece[kStreamPiece];
  const void* inputs[UHAL_MAP_MAX_INPUTS];
  void* const outputs[] = {piece};
  const int64_t size = plan.operands[0].size();
  const int64_t length = kStreamPiece / size;
  for (; begin < end; begin += length) {
    const int64_t count = end - begin < length ? end - begin : length;
    for (int i = 0; i < plan.inputs; ++i) inputs[i] = plan.operands[1 + i].at(begin);
    plan.loop(count, inputs, outputs, plan.parameters);
    stream_bytes(plan.operands[0].at(begin), piece, count * size);
  }
  finish_streaming();
}

void write(const Plan& plan, const BlockOperand& output, const Cursor& cursor, int64_t count, const void* values) {
  void* own = plan.streams ? output.span(cursor, count) : nullptr;
  if (own != nullptr) {
    stream_bytes(own, values, count * output.size());
  } else {
    output.store(cursor, count, values);
  }
}

void run_blocks(const Plan& plan, int64_t begin, int64_t end) {
  BlockBuffer buffers[kMaxViews];
  const void* inputs[UHAL_MAP_MAX_INPUTS];
  void* outputs[UHAL_MAP_MAX_OUTPUTS];
  const int views = plan.outputs + plan.inputs;
  for (int i = plan.outputs; i < views; ++i) plan.operands[i].prepare(end - begin, buffers[i]);
  Cursor cursor(plan.space, begin);
  while (begin < end) {
    const int64_t count = block_length(plan.space, cursor, end - begin);
    for (int i = 0; i < plan.inputs; ++i) {
      const int64_t needed = plan.same >> i & 1 ? 1 : count;
      inputs[i] = plan.operands[plan.outputs + i].read(cursor, needed, buffers[plan.outputs + i]);
    }
    for (int i = 0; i < plan.outputs; ++i) {
      void* own = plan.streams ? nullptr : plan.operands[i].span(cursor, count);
      outputs[i] = own != nullptr ? own : buffers[i].bytes;
    }
    plan.loop(count, inputs, outputs, plan.parameters);
    for (int i = 0; i < plan.outputs; ++i) {
      if (outputs[i] == buffers[i].bytes) write(plan, plan.operands[i], cursor, count, outputs[i]);
    }
    cursor.skip(count);
    begin += count;
  }
  if (plan.streams) finish_streaming();
}

// What a short op works on: elements one behind the other, of the compute type, and one block at most. Then nothing is
// to be planned.
struct ShortRun {
  int64_t count = 0;                     // of the results; 0 where the op is none
  int64_t periods[UHAL_MAP_MAX_INPUTS];  // after so many elements an input begins anew
};

// The elements of a dense view that y repeats, as it does where axes in front are 1 or missing; 0 for other views.
int64_t period_in(const uhal_tensor& view, const uhal_tensor& y) {
  int64_t count = 1;
  bool repeats = false;
  for (int back = 1; back <= y.rank; ++back) {
    const int64_t length = y.shape[y.rank - back];
    if (length == 1) continue;
    const int axis = view.rank - back;
    if (axis < 0 || view.shape[axis] == 1) {
      repeats = true;
    } else if (repeats || view.strides[axis] != count) {
      return 0;
    } else {
      count *= length;
    }
  }
  return count;
}

ShortRun short_run(const uhal_op& op, ComputeType type) {
  ShortRun run;
  const uhal_tensor& y = *op.outputs[0];
  const uhal_dtype dtype = compute_dtype(type);
  int64_t count = 1;
  for (int axis = 0; axis < y.rank; ++axis) {
    count *= y.shape[axis];
    if (count > kBlock) return run;
  }
  for (int i = 0; i < op.output_count; ++i) {
    const uhal_tensor& view = *op.outputs[i];
    if (view.dtype != dtype || view.rank != y.rank || period_in(view, y) != count) return run;
  }
  for (int i = 0; i < op.input_count; ++i) {
    const uhal_tensor& view = *op.inputs[i];
    if (view.dtype != dtype) return run;
    run.periods[i] = period_in(view, y);
    if (run.periods[i] == 0) return run;
  }
  run.count = count;
  return run;
}

// The inputs that the loop for one element in the place of all takes, if it can be had; 0 else.
uint32_t same_in(const ShortRun& run, uhal_map_function function) {
  const uint32_t same = same_inputs(function);
  for (int i = 0; same >> i != 0; ++i) {
    if ((same >> i & 1) != 0 && run.periods[i] != 1) return 0;
  }
  return same;
}
uint32_t same_in(const Plan& plan, uhal_map_function function) {
  const uint32_t same = same_inputs(function);
  for (int i = 0; same >> i != 0; ++i) {
    if ((same >> i & 1) != 0 && !plan.operands[plan.outputs + i].same_in_blocks(plan.space)) return 0;
  }
  return same;
}

// `period` elements, again and again.
const void* repeated(const void* elements, int64_t period, int64_t count, int64_t size, BlockBuffer& buffer) {
  std::memcpy(buffer.bytes, elements, static_cast<size_t>(period * size));
  for (int64_t filled = period; filled < count; filled *= 2) {
    std::memcpy(buffer.bytes + filled * size, buffer.bytes,
                static_cast<size_t>(std::min(filled, count - filled) * size));
  }
  return buffer.bytes;
}

void run_short(const uhal_op& op, const ShortRun& run, uint32_t same, MapLoop loop, const double* parameters) {
  BlockBuffer buffers[UHAL_MAP_MAX_INPUTS];
  const void* inputs[UHAL_MAP_MAX_INPUTS];
  void* outputs[UHAL_MAP_MAX_OUTPUTS];
  for (int i = 0; i < op.output_count; ++i) outputs[i] = op.outputs[i]->data;
  for (int i = 0; i < op.input_count; ++i) {
    const uhal_tensor& view = *op.inputs[i];
    inputs[i] = run.periods[i] == run.count || (same >> i & 1) != 0
                    ? view.data
                    : repeated(view.data, run.periods[i], run.count, dtype_size(view.dtype), buffers[i]);
  }
  loop(run.count, inputs, outputs, parameters);
}

// Large results, unless they replace an input, whose lines are in the caches already.
bool should_stream(const uhal_op& op, int64_t count) {
  for (int i = 0; i < op.output_count; ++i) {
    if (count * dtype_size(op.outputs[i]->dtype) < kStreamBytes) return false;
    for (int k = 0; k < op.input_count; ++k) {
      if (op.inputs[k]->data == op.outputs[i]->data) return false;
    }
  }
  return true;
}

// -- comparisons of numbers of one dtype, without converting them

// result[i] = whether a[i] and b[i] compare so; an operand whose step is 0 is one number.
using CompareRun = void (*)(int64_t count, const void* a, int64_t a_step, const void* b, int64_t b_step,
                            uint8_t* result);

template <class T, class Compare>
UNIHAL_VECTORIZED void compare_run(int64_t count, const void* a, int64_t a_step, const void* b, int64_t b_step,
                                   uint8_t* result) {
  const T *const x = static_cast<const T*>(a), *const y = static_cast<const T*>(b);
  if (a_step != 0 && b_step != 0) {
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) result[i] = Compare()(x[i], y[i]) ? 1 : 0;
  } else {
    const T left = x[0], right = y[0];
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) {
      result[i] = Compare()(a_step != 0 ? x[i] : left, b_step != 0 ? y[i] : right) ? 1 : 0;
    }
  }
}

template <class Compare>
CompareRun compare_run_as(uhal_dtype dtype) {
  switch (dtype) {
    case UHAL_INT8:
      return compare_run<int8_t, Compare>;
    case UHAL_UINT8:
      return compare_run<uint8_t, Compare>;
    case UHAL_INT16:
      return compare_run<int16_t, Compare>;
    case UHAL_INT32:
      return compare_run<int32_t, Compare>;
    case UHAL_INT64:
      return compare_run<int64_t, Compare>;
    case UHAL_FLOAT32:
      return compare_run<float, Compare>;
    case UHAL_FLOAT64:
      return compare_run<double, Compare>;
    default:
      return nullptr;
  }
}

CompareRun compare_run_of(uhal_map_function function, uhal_dtype dtype) {
  switch (function) {
    case uhal_map_equal:
      return compare_run_as<std::equal_to<>>(dtype);
    case uhal_map_not_equal:
      return compare_run_as<std::not_equal_to<>>(dtype);
    case uhal_map_less:
      return compare_run_as<std::less<>>(dtype);
    case uhal_map_less_equal:
      return compare_run_as<std::less_equal<>>(dtype);
    case uhal_map_greater:
      return compare_run_as<std::greater<>>(dtype);
    case uhal_map_greater_equal:
      return compare_run_as<std::greater_equal<>>(dtype);
    default:
      return nullptr;
  }
}

// False, and nothing is done, where it is no such comparison of operands that lie in the result's order, or are one
// number.
bool run_comparison(const uhal_op& op, uhal_map_function function) {
  if (op.input_count != 2 || op.output_count != 1 || op.outputs[0]->dtype != UHAL_BOOL) return false;
  const uhal_tensor *const a = op.inputs[0], *const b = op.inputs[1];
  const CompareRun run = a->dtype == b->dtype ? compare_run_of(function, a->dtype) : nullptr;
  if (run == nullptr) return false;
  const uhal_tensor* views[] = {op.outputs[0], a, b};
  const Space space = make_space(views, 3);
  if (!space.dense(0)) return false;
  for (int i = 1; i < 3; ++i) {
    if (!space.dense(i) && space.period(i) != 1) return false;
  }
  const int64_t size = dtype_size(a->dtype), a_step = space.dense(1) ? 1 : 0, b_step = space.dense(2) ? 1 : 0;
  parallel_for(space.count, 1, kBlock, [&](int64_t begin, int64_t end) {
    run(end - begin, static_cast<const char*>(a->data) + begin * a_step * size, a_step,
        static_cast<const char*>(b->data) + begin * b_step * size, b_step,
        static_cast<uint8_t*>(op.outputs[0]->data) + begin);
  });
  return true;
}

// Parts of complex numbers as real ones of their type and shape: a copy of every other number.
bool copies_part(const uhal_op& op, uhal_map_function function) {
  if (function != uhal_map_real && function != uhal_map_imaginary) return false;
  const uhal_tensor &x = *op.inputs[0], &y = *op.outputs[0];
  return is_complex(x.dtype) && y.dtype == part_dtype(x.dtype) && x.rank == y.rank &&
         std::equal(x.shape, x.shape + x.rank, y.shape);
}

}  // namespace

const char* refuse_map(const uhal_op& op) {
  const auto& attributes = *static_cast<const uhal_map_attributes*>(op.attributes);
  const uhal_map_function function = attributes.function;
  if (function < 0 || function >= uhal_map_function_limit) {
    return refusal("map function %d is unknown to this build of the stub, which knows 0 to %d", function,
                   uhal_map_function_limit - 1);
  }
  const char* name = kMapFunctions[function].name;
  for (int i = 0; i < op.output_count + op.input_count; ++i) {
    const uhal_dtype dtype = operand(op, i).dtype;
    if (is_complex(dtype) && !has_complex_form(function)) {
      return refusal("map %s is not defined on complex numbers, got %s", name, dtype_name(dtype));
    }
    if (is_bitwise(function) && !is_integer(dtype)) {
      return refusal("map %s needs integer or bool operands, got %s; cast it first", name, dtype_name(dtype));
    }
  }
  return nullptr;
}

uhal_status run_map(const Launch& launch) {
  const uhal_op& op = launch.op;
  const auto& attributes = *static_cast<const uhal_map_attributes*>(op.attributes);
  const uhal_map_function function = meant_function(attributes.function, op.outputs[0]->dtype);
  if (copies_part(op, function)) {
    copy_views(part(*op.inputs[0], function == uhal_map_imaginary), *op.outputs[0]);
    return UHAL_OK;
  }
  const MapFunctionInfo& info = kMapFunctions[function];
  const ComputeType type = choose_type(op, function, info.integer);
  if (const ShortRun run = short_run(op, type); run.count > 0) {
    double parameters[UHAL_MAP_MAX_PARAMETERS];
    convert_map_parameters(type, attributes.parameters, parameters);
    const uint32_t same = same_in(run, function);
    run_short(op, run, same, (same != 0 ? vectors().map_of_same : vectors().map)[function][type], parameters);
    return UHAL_OK;
  }
  if (run_comparison(op, function)) return UHAL_OK;

  Plan plan;
  plan.outputs = op.output_count;
  plan.inputs = op.input_count;
  const uhal_tensor* views[kMaxViews] = {};
  const int count = plan.outputs + plan.inputs;
  for (int i = 0; i < count; ++i) views[i] = &operand(op, i);
  plan.space = make_space(views, count);
  if (plan.space.count == 0) return UHAL_OK;
  // The modulus of complex numbers is formed in its own type if that is the result's.
  const ComputeType part = type == kComplexFloat ? kFloat : kDouble;
  const bool real =
      is_complex(compute_dtype(type)) && function == uhal_map_absolute && op.outputs[0]->dtype == compute_dtype(part);
  for (int i = 0; i < count; ++i) {
    plan.operands[i] = BlockOperand(plan.space, i, *views[i], real && i == 0 ? part : type);
    plan.dense = plan.dense && plan.operands[i].dense();
  }
  plan.streams = should_stream(op, plan.space.count);
  plan.same = same_in(plan, function);
  plan.loop = real             ? vectors().modulus[type]
              : plan.same != 0 ? vectors().map_of_same[function][type]
                               : vectors().map[function][type];
  convert_map_parameters(type, attributes.parameters, plan.parameters);
  const int64_t parts = type == kComplexFloat || type == kComplexDouble ? 2 : 1;
  const int64_t work = parts * (1 + info.flops / 4) + (plan.dense ? 0 : count / 2);
  parallel_for(plan.space.count, work, kBlock, [&](int64_t begin, int64_t end) {
    if (!plan.dense) return run_blocks(plan, begin, end);
    if (plan.streams && plan.outputs == 1) return run_dense_streamed(plan, begin, end);
    run_dense(plan, begin, end);
  });
  return UHAL_OK;
}

}  // namespace unihal::stub
