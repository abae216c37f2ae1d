#include "csrc/kernels/map_chain.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "csrc/backends/common/dtype.h"
#include "csrc/backends/common/map_rules.h"
#include "csrc/kernels/layout.h"
#include "csrc/kernels/map_function.h"
#include "kernel_sources.h"

namespace unihal::kernels {
namespace {

constexpr int kMaxViews = UHAL_MAP_MAX_INPUTS + UHAL_MAP_MAX_OUTPUTS;
static_assert(kMaxViews <= kMaxOperands);
constexpr int kOperandDtypeBits =
    5;  // of an operand's dtype, where a kernel learns it at the launch: DTYPE in source/map.cl
static_assert(UHAL_DTYPE_COUNT <= 1 << kOperandDtypeBits && kMaxViews * kOperandDtypeBits < 64);

constexpr const char* kInputNames[] = {"X0", "X1", "X2", "X3", "X4", "X5", "X6", "X7"};
constexpr const char* kOutputNames[] = {"Y0", "Y1", "Y2", "Y3"};

struct StepNames {
  const char* text;
  const char* operands;
  const char* result;
};
constexpr StepNames kStepNames[MapChain::kMaxSteps] = {
    {"STEP0", "STEP0_OPERANDS", "STEP0_RESULT"},    {"STEP1", "STEP1_OPERANDS", "STEP1_RESULT"},
    {"STEP2", "STEP2_OPERANDS", "STEP2_RESULT"},    {"STEP3", "STEP3_OPERANDS", "STEP3_RESULT"},
    {"STEP4", "STEP4_OPERANDS", "STEP4_RESULT"},    {"STEP5", "STEP5_OPERANDS", "STEP5_RESULT"},
    {"STEP6", "STEP6_OPERANDS", "STEP6_RESULT"},    {"STEP7", "STEP7_OPERANDS", "STEP7_RESULT"},
    {"STEP8", "STEP8_OPERANDS", "STEP8_RESULT"},    {"STEP9", "STEP9_OPERANDS", "STEP9_RESULT"},
    {"STEP10", "STEP10_OPERANDS", "STEP10_RESULT"}, {"STEP11", "STEP11_OPERANDS", "STEP11_RESULT"},
    {"STEP12", "STEP12_OPERANDS", "STEP12_RESULT"}, {"STEP13", "STEP13_OPERANDS", "STEP13_RESULT"},
    {"STEP14", "STEP14_OPERANDS", "STEP14_RESULT"}, {"STEP15", "STEP15_OPERANDS", "STEP15_RESULT"},
};

constexpr int64_t kWorthItsOwnKernel = int64_t{1} << 16;  // elements

// Integers only if all functions are defined on them. The enumerators of both are in one order.
Compute chain_compute(const MapChain& chain) {
  static_assert(static_cast<int>(Compute::kComplexDouble) == static_cast<int>(Arithmetic::kComplexDouble));
  bool integer = true;
  for (int i = 0; i < chain.step_count(); ++i) integer &= map_function(chain.step_at(i).function).integer;
  return static_cast<Compute>(map_arithmetic(chain.output_count(), chain.input_count(), integer,
                                             [&](int i) { return chain.operand(i).dtype; }));
}

template <class T, class Convert>
size_t write_parameters_as(const double* values, void* to, Convert convert) {
  T converted[UHAL_MAP_MAX_PARAMETERS];
  for (int i = 0; i < UHAL_MAP_MAX_PARAMETERS; ++i) converted[i] = convert(values[i]);
  std::memcpy(to, converted, sizeof converted);
  return sizeof converted;
}

// Writes a function's parameters as the kernel takes them, and returns their bytes.
__attribute__((hot)) size_t write_parameters(const double* values, Compute type, void* to) {
  switch (type) {
    case Compute::kFloat:
    case Compute::kComplexFloat:
      return write_parameters_as<float>(values, to, [](double value) { return static_cast<float>(value); });
    case Compute::kDouble:
    case Compute::kComplexDouble:
      return write_parameters_as<double>(values, to, [](double value) { return value; });
    default:
      return write_parameters_as<int64_t>(values, to, integer_parameter<int64_t>);
  }
}

void append_parameters(Arguments& arguments, const MapChain& chain, Compute type) {
  char bytes[MapChain::kMaxSteps * UHAL_MAP_MAX_PARAMETERS * sizeof(double)];
  size_t size = 0;
  for (int i = 0; i < chain.step_count(); ++i)
    size += write_parameters(chain.step_at(i).parameters, type, bytes + size);
  arguments.bytes(bytes, size);
}

size_t parameter_size(Compute type) {
  return type == Compute::kFloat || type == Compute::kComplexFloat ? sizeof(float) : sizeof(int64_t);
}

void define_chain(KernelSpec& spec, const MapChain& chain, Compute type) {
  spec.compute(type)
      .define("UHAL_INPUTS", chain.input_count())
      .define("UHAL_OUTPUTS", chain.output_count())
      .define("UHAL_VALUES", chain.value_count() + UHAL_MAP_MAX_OUTPUTS)
      .define("UHAL_RESULTS", static_cast<int64_t>(chain.results()))
      .define("UHAL_STEPS", chain.step_count());
  for (int i = 0; i < chain.step_count(); ++i) {
    const MapChain::Step& step = chain.step_at(i);
    const MapFunction& function = map_function(step.function);
    spec.define_text(kStepNames[i].text, computes_complex(type) ? function.complex_text : function.text)
        .define(kStepNames[i].operands, static_cast<int64_t>(step.operands))
        .define(kStepNames[i].result, step.result);
  }
}

void define_dtypes(KernelSpec& spec, const MapChain& chain) {
  for (int i = 0; i < chain.output_count(); ++i) spec.dtype(kOutputNames[i], chain.operand(i).dtype);
  for (int i = 0; i < chain.input_count(); ++i) {
    spec.dtype(kInputNames[i], chain.operand(chain.output_count() + i).dtype);
  }
}

void append_pointers(Arguments& arguments, const MapChain& chain) {
  for (int i = 0; i < chain.operand_count(); ++i) arguments.pointer(chain.operand(i).data);
}

// How an operand repeats along the order of iteration; the numbers of map.cl.
enum Mode { kScalar = 0, kDense = 1, kRow = 2, kColumn = 3 };

struct Pattern {
  Mode mode;
  int64_t period = 1;
  int64_t repeat = 1;
};

// False if the operand is none of these: its elements must be one run over neighbouring axes, and repeat along others.
bool find_pattern(const Space& space, int operand, Pattern* pattern) {
  const int64_t* strides = space.strides[operand];
  int last = space.rank - 1;
  for (; last >= 0 && strides[last] == 0; --last) pattern->repeat *= space.shape[last];
  int64_t expected = 1;
  int first = last;
  for (; first >= 0 && strides[first] == expected; --first) expected *= space.shape[first];
  for (int i = first; i >= 0; --i) {
    if (strides[i] != 0) return false;
  }
  pattern->period = expected;
  pattern->mode = last < 0 ? kScalar : pattern->repeat > 1 ? kColumn : first < 0 ? kDense : kRow;
  return true;
}

struct FlatPlan {
  int64_t unit = 1;  // UHAL_UNIT of map.cl
  Pattern inputs[UHAL_MAP_MAX_INPUTS];
};

// Whether operands' addresses, and where they repeat, are multiples of a unit.
bool lies_in_units(const MapChain& chain, const Pattern* patterns, int64_t unit) {
  for (int i = 0; i < chain.operand_count(); ++i) {
    const uhal_tensor& view = chain.operand(i);
    const Pattern& pattern = patterns[i];
    const bool loads_units = pattern.mode == kDense || pattern.mode == kRow;
    const auto run = static_cast<uintptr_t>(unit * dtype_size(view.dtype));
    if (loads_units && reinterpret_cast<uintptr_t>(view.data) % run != 0) return false;
    if (pattern.mode == kRow && pattern.period % unit != 0) return false;
    if (pattern.mode == kColumn && pattern.repeat % unit != 0) return false;
  }
  return true;
}

// False if operands need strides.
bool plan_flat(const MapChain& chain, const Space& space, FlatPlan* plan) {
  Pattern patterns[kMaxViews];
  int64_t widest = 1;
  for (int i = 0; i < chain.operand_count(); ++i) {
    if (!find_pattern(space, i, &patterns[i])) return false;
    if (i < chain.output_count() && patterns[i].mode != kDense) return false;
    if (i >= chain.output_count()) plan->inputs[i - chain.output_count()] = patterns[i];
    if (patterns[i].mode != kScalar) widest = std::max<int64_t>(widest, dtype_size(chain.operand(i).dtype));
  }
  plan->unit = widest == 2 && lies_in_units(chain, patterns, 8) ? 8 : lies_in_units(chain, patterns, 4) ? 4 : 1;
  return true;
}

// Few elements of dtypes that networks seldom compute with are not worth a compilation for each mixture of dtypes.
bool deserves_own_kernel(const MapChain& chain, int64_t count) {
  if (count >= kWorthItsOwnKernel) return true;
  for (int i = 0; i < chain.operand_count(); ++i) {
    const uhal_dtype dtype = chain.operand(i).dtype;
    if (dtype != UHAL_FLOAT32 && dtype != UHAL_FLOAT16 && dtype != UHAL_BFLOAT16 && dtype != UHAL_BOOL) return false;
  }
  return true;
}

template <class Integer>
void append_repeats(Arguments& arguments, const FlatPlan& plan, int inputs) {
  Integer values[2 * UHAL_MAP_MAX_INPUTS];
  for (int i = 0; i < inputs; ++i) {
    values[i] = static_cast<Integer>(plan.inputs[i].period);
    values[inputs + i] = static_cast<Integer>(plan.inputs[i].repeat);
  }
  arguments.bytes(values, static_cast<size_t>(2 * inputs) * sizeof(Integer));
}

// Runs a kernel and, if `plan` is given, keeps how.
uhal_status run_kernel(Queue& queue, const KernelSpec& spec, const Arguments& arguments, const Grid& grid, Compute type,
                       MapPlan* plan) {
  const uhal_status status = queue.run(spec, arguments, grid);
  if (status == UHAL_OK && plan != nullptr) {
    plan->type = type;
    plan->arguments.assign(arguments);
    plan->grid = grid;
    plan->kernel = queue.find_known(spec);
  }
  return status;
}

uhal_status run_flat(Queue& queue, const MapChain& chain, Compute type, const FlatPlan& plan, int64_t count,
                     MapPlan* kept) {
  const bool wide = !fits_32_bits(count);
  int64_t modes = 0;
  for (int i = 0; i < chain.input_count(); ++i) modes |= int64_t{plan.inputs[i].mode} << (2 * i);
  KernelSpec spec(sources::map, "flat");
  define_chain(spec, chain, type);
  spec.define("UHAL_WIDE_INDEX", wide).define("UHAL_UNIT", plan.unit).define("UHAL_MODES", modes);
  define_dtypes(spec, chain);
  Arguments arguments;
  append_pointers(arguments, chain);
  append_parameters(arguments, chain, type);
  wide ? append_repeats<int64_t>(arguments, plan, chain.input_count())
       : append_repeats<int32_t>(arguments, plan, chain.input_count());
  append_index(arguments, count, wide);
  const int32_t group = std::min(256, queue.traits().max_group_size);
  const int64_t per_item = std::max<int64_t>(plan.unit, 4);
  const Grid grid = linear_grid((count + per_item - 1) / per_item, group, INT64_MAX);
  return run_kernel(queue, spec, arguments, grid, type, kept);
}

// The struct Members of map.cl's joined, with as many members as fit beside the other arguments.
class MemberArguments {
 public:
  static constexpr int32_t kGroup = 256;

  // Of one member.
  static constexpr int64_t bytes_of_one(int operands) {
    return operands * static_cast<int64_t>(sizeof(uint64_t)) + 2 * static_cast<int64_t>(sizeof(int32_t));
  }

  MemberArguments(const JoinedMaps& maps, int operands, int room) : bytes_used_(room * bytes_of_one(operands)) {
    const int64_t per_group = int64_t{kGroup} * maps.unit;
    char* const counts = bytes_ + static_cast<size_t>(room * operands) * sizeof(uint64_t);
    char* const firsts = counts + static_cast<size_t>(room) * sizeof(int32_t);
    for (int member = 0; member < maps.members; ++member) {
      for (int k = 0; k < operands; ++k) {
        put(bytes_, member * operands + k, reinterpret_cast<uintptr_t>(maps.addresses[member][k]));
      }
      put(counts, member, static_cast<int32_t>(maps.counts[member]));
      put(firsts, member, static_cast<int32_t>(items_));
      // Each begins a work-group, whose items then read one member.
      items_ += (maps.counts[member] + per_group - 1) / per_group * kGroup;
    }
  }

  void append_to(Arguments& arguments) const { arguments.bytes(bytes_, static_cast<size_t>(bytes_used_)); }
  int64_t items() const { return items_; }

 private:
  static_assert(sizeof(uintptr_t) == sizeof(uint64_t));

  template <class T>
  static void put(char* list, int index, T value) {
    std::memcpy(list + static_cast<size_t>(index) * sizeof value, &value, sizeof value);
  }

  const int64_t bytes_used_;
  int64_t items_ = 0;
  alignas(16) char bytes_[Arguments::kMaxBytes] = {};
};

uhal_status run_strided(Queue& queue, const MapChain& chain, Compute type, const Space& space, MapPlan* kept) {
  const LayoutKind kind = layout_kind(space);
  KernelSpec spec(sources::map, "strided");
  define_chain(spec, chain, type);
  spec.define("UHAL_STRIDED", 1);
  kind.define(spec);
  Arguments arguments;
  append_pointers(arguments, chain);
  append_parameters(arguments, chain, type);
  append_layout(arguments, space, kind);
  int64_t dtypes = 0;
  for (int i = 0; i < chain.operand_count(); ++i) dtypes |= int64_t{chain.operand(i).dtype} << (kOperandDtypeBits * i);
  arguments.int64(dtypes);
  append_index(arguments, space.count, kind.wide);
  const Grid grid = linear_grid(space.count, std::min(256, queue.traits().max_group_size));
  return run_kernel(queue, spec, arguments, grid, type, kept);
}

// Bytes of the arguments of map.cl's flat, at most.
int64_t flat_bytes(const MapChain& chain, Compute type) {
  const int64_t parameters = UHAL_MAP_MAX_PARAMETERS * chain.step_count() * static_cast<int64_t>(parameter_size(type));
  return 16 * (chain.operand_count() + chain.input_count()) + parameters + 16;
}

// Bytes of the arguments of map.cl's strided.
int64_t strided_bytes(const MapChain& chain, Compute type, const Space& space) {
  const LayoutKind kind = layout_kind(space);
  const int64_t pointers = 16 * chain.operand_count();
  const int64_t parameters = UHAL_MAP_MAX_PARAMETERS * chain.step_count() * static_cast<int64_t>(parameter_size(type));
  const int64_t layout = (kind.wide ? 8 : 4) * (1 + int64_t{kind.rank} * (1 + chain.operand_count()));
  return pointers + parameters + layout + 16;
}

Space space_of(const MapChain& chain) {
  const uhal_tensor* views[kMaxViews];
  for (int i = 0; i < chain.operand_count(); ++i) views[i] = &chain.operand(i);
  return make_space(views, chain.operand_count());
}

}  // namespace

int MapChain::input(const uhal_tensor& view) {
  if (input_count_ == UHAL_MAP_MAX_INPUTS || step_count_ > 0) abort();  // a mistake in an op's own code
  inputs_[input_count_++] = &view;
  return value_count_++;
}

void MapChain::output(int value, const uhal_tensor& view) {
  if (output_count_ == UHAL_MAP_MAX_OUTPUTS || value >= value_count_) abort();
  results_ |= static_cast<uint64_t>(value) << (8 * output_count_);
  outputs_[output_count_++] = &view;
}

int MapChain::step(uhal_map_function function, std::initializer_list<int> operands, const double* parameters) {
  return step(function, operands.begin(), static_cast<int>(operands.size()), parameters);
}

int MapChain::step(uhal_map_function function, const int* operands, int operand_count, const double* parameters) {
  if (step_count_ == kMaxSteps || operand_count != map_function(function).inputs) abort();
  Step& step = steps_[step_count_++];
  step.function = function;
  step.operands = 0;
  for (int i = 0; i < operand_count; ++i) step.operands |= static_cast<uint64_t>(operands[i]) << (8 * i);
  std::fill_n(step.parameters, int{UHAL_MAP_MAX_PARAMETERS}, 0.0);
  if (parameters != nullptr) std::copy_n(parameters, int{UHAL_MAP_MAX_PARAMETERS}, step.parameters);
  step.result = value_count_;
  value_count_ += map_function(function).outputs;
  return step.result;
}

bool MapChain::has_steps_of(const MapChain& other) const {
  if (input_count_ != other.input_count_ || output_count_ != other.output_count_ || step_count_ != other.step_count_ ||
      results_ != other.results_) {
    return false;
  }
  for (int i = 0; i < step_count_; ++i) {
    const Step &a = steps_[i], &b = other.steps_[i];
    if (a.function != b.function || a.operands != b.operands ||
        std::memcmp(a.parameters, b.parameters, sizeof a.parameters) != 0) {
      return false;
    }
  }
  return true;
}

const char* refuse_map_chain(const DeviceTraits& traits, const MapChain& chain) {
  const char* name = map_function(chain.step_at(0).function).name;
  for (int i = 0; i < chain.operand_count(); ++i) {
    const uhal_dtype dtype = chain.operand(i).dtype;
    for (int k = 0; k < chain.step_count(); ++k) {
      const uhal_map_function function = chain.step_at(k).function;
      if (is_complex(dtype) && map_function(function).complex_text == nullptr) {
        return refusal("map %s is not defined on complex numbers, got %s", map_function(function).name,
                       dtype_name(dtype));
      }
      if (is_bitwise(function) && !is_integer(dtype)) {
        return refusal("map %s needs integer or bool operands, got %s; cast it first", map_function(function).name,
                       dtype_name(dtype));
      }
    }
  }
  const Compute type = chain_compute(chain);
  if (type == Compute::kDouble && !traits.has_float64) {
    return refusal(
        "map %s of 32- and 64-bit integers computes in float64, which the device has not; cast to float32 first", name);
  }
  // Only long chains, and operands of many axes, come near to what a kernel may be passed.
  if (chain.step_count() > 4 || (chain.operand(0).rank > 4 && chain.operand_count() > 4)) {
    const Space space = space_of(chain);
    FlatPlan plan;
    const bool flat = plan_flat(chain, space, &plan) && deserves_own_kernel(chain, space.count);
    const int64_t bytes = flat ? flat_bytes(chain, type) : strided_bytes(chain, type, space);
    const int64_t room = std::min<int64_t>(traits.max_parameters, Arguments::kMaxBytes);
    if (bytes > room) {
      return refusal(
          "map %s: the strides of %d operands of rank %d and the parameters of %d steps take %lld bytes of arguments, "
          "the device takes %lld; make the operands contiguous, or the chain shorter",
          name, chain.operand_count(), chain.operand(0).rank, chain.step_count(), static_cast<long long>(bytes),
          static_cast<long long>(room));
    }
  }
  return nullptr;
}

uhal_status run_map_chain(Queue& queue, const MapChain& chain, MapPlan* kept) {
  const Space space = space_of(chain);
  if (space.count == 0) return UHAL_OK;
  const Compute type = chain_compute(chain);
  FlatPlan plan;
  return plan_flat(chain, space, &plan) && deserves_own_kernel(chain, space.count)
             ? run_flat(queue, chain, type, plan, space.count, kept)
             : run_strided(queue, chain, type, space, kept);
}

int JoinedMaps::most_members(const DeviceTraits& traits, const MapChain& chain) {
  if (!traits.takes_addresses) return 0;
  constexpr int64_t kPadding = 48;  // and the number of members
  const int64_t parameters =
      chain.step_count() * UHAL_MAP_MAX_PARAMETERS * static_cast<int64_t>(parameter_size(chain_compute(chain)));
  const int64_t room = std::min<int64_t>(traits.max_parameters, Arguments::kMaxBytes) - parameters - kPadding;
  const int64_t most = room / MemberArguments::bytes_of_one(chain.operand_count());
  return static_cast<int>(std::clamp<int64_t>(most, 0, kMostMembers));
}

uhal_status run_joined_maps(Queue& queue, const MapChain& chain, const JoinedMaps& maps) {
  const int operands = chain.operand_count();
  const int room = JoinedMaps::most_members(queue.traits(), chain);
  const Compute type = chain_compute(chain);
  int64_t modes = 0;
  for (int i = 0; i < chain.input_count(); ++i) {
    modes |= int64_t{maps.is_dense[chain.output_count() + i] ? kDense : kScalar} << (2 * i);
  }
  KernelSpec spec(sources::map, "joined");
  define_chain(spec, chain, type);
  spec.define("UHAL_JOINED", 1).define("UHAL_MEMBERS", room).define("UHAL_UNIT", maps.unit).define("UHAL_MODES", modes);
  define_dtypes(spec, chain);
  const MemberArguments members(maps, operands, room);
  Arguments arguments;
  members.append_to(arguments);
  append_parameters(arguments, chain, type);
  arguments.int32(maps.members);
  const int32_t group = std::min(MemberArguments::kGroup, queue.traits().max_group_size);
  return queue.run(spec, arguments, linear_grid(members.items(), group, INT64_MAX));
}

__attribute__((hot)) uhal_status run_map_plan(Queue& queue, MapPlan& plan, const uhal_op& op) {
  int item = 0;
  for (int i = 0; i < op.output_count; ++i) plan.arguments.set_pointer(item++, op.outputs[i]->data);
  for (int i = 0; i < op.input_count; ++i) plan.arguments.set_pointer(item++, op.inputs[i]->data);
  if (op.kind == UHAL_OP_MAP) {  // a cast has no parameters
    write_parameters(static_cast<const uhal_map_attributes*>(op.attributes)->parameters, plan.type,
                     plan.arguments.value(item));
  } else if (op.kind == UHAL_OP_MAP_CHAIN) {
    const auto& chain = *static_cast<const uhal_map_chain_attributes*>(op.attributes);
    char* to = static_cast<char*>(plan.arguments.value(item));
    for (int i = 0; i < chain.step_count; ++i) to += write_parameters(chain.parameters[i], plan.type, to);
  }
  return queue.run_known(*plan.kernel, plan.arguments, plan.grid);
}

}  // namespace unihal::kernels
