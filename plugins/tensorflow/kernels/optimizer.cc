// Optimizer steps on variables, each one function of csrc/tables/elementwise.def.
//
// TensorFlow names a step after its rule, in up to four ops: ResourceApplyFtrl, of which ApplyFtrl is the form for
// reference variables and ResourceSparseApplyFtrl and SparseApplyFtrl are those for rows that indices name. A rule is
// written once. Learning rates and powers of beta come as device scalars and broadcast; the other coefficients are
// parameters of the function, so they are asked for in host memory.
//
// Rows of a sparse step are gathered, updated and scattered. Where indices name a row several times its updates follow
// one another, as on the CPU; the host waits for the largest number of them.
#include <algorithm>
#include <cstring>

#include "plugins/tensorflow/kernels/index.h"
#include "plugins/tensorflow/kernels/number.h"
#include "plugins/tensorflow/registrar.h"
#include "plugins/tensorflow/variable.h"

namespace unihal::tensorflow {
namespace {

struct Rule;

// One execution of a rule on whole variables, or on some of their rows.
struct Step {
  Context& context;
  const Rule& rule;
  std::vector<View> slots;  // the parameter first, in the op's order
  View gradient;
  std::vector<double> host;  // the coefficients that Rule::host names
  std::vector<View> device;  // those that Rule::device names
  bool nesterov = false;
  bool keep_slots = false;  // update_slots=False
  bool multiply_linear = false;
};

struct Rule {
  const char* name;
  DtypeSet dtypes;
  int slots;
  std::vector<const char*> device;
  std::vector<const char*> host;
  void (*run)(const Step& step);
};

void gradient_descent(const Step& s) {
  s.context.map(uhal_map_sgd, {&s.slots[0], &s.gradient, &s.device[0]}, {&s.slots[0]});
}

void momentum(const Step& s) {
  s.context.map(uhal_map_momentum, {&s.slots[0], &s.gradient, &s.slots[1], &s.device[0]}, {&s.slots[0], &s.slots[1]},
                {s.host[0], s.nesterov ? 1.0 : 0.0, 0, 1});
}

void keras_momentum(const Step& s) {
  s.context.map(uhal_map_momentum_with_rate, {&s.slots[0], &s.gradient, &s.slots[1], &s.device[0]},
                {&s.slots[0], &s.slots[1]}, {s.host[0], s.nesterov ? 1.0 : 0.0});
}

void adam(const Step& s) {
  s.context.map(uhal_map_adam_epsilon_hat,
                {&s.slots[0], &s.gradient, &s.slots[1], &s.slots[2], &s.device[0], &s.device[1], &s.device[2]},
                {&s.slots[0], &s.slots[1], &s.slots[2]}, {s.host[0], s.host[1], s.host[2]});
}

void amsgrad(const Step& s) {
  s.context.map(
      uhal_map_adam_amsgrad_epsilon_hat,
      {&s.slots[0], &s.gradient, &s.slots[1], &s.slots[2], &s.device[0], &s.device[1], &s.device[2], &s.slots[3]},
      {&s.slots[0], &s.slots[1], &s.slots[2], &s.slots[3]}, {s.host[0], s.host[1], s.host[2]});
}

void adamax(const Step& s) {
  s.context.map(uhal_map_adamax_epsilon_outside,
                {&s.slots[0], &s.gradient, &s.slots[1], &s.slots[2], &s.device[0], &s.device[1]},
                {&s.slots[0], &s.slots[1], &s.slots[2]}, {s.host[0], s.host[1], s.host[2]});
}

void rmsprop(const Step& s) {
  s.context.map(uhal_map_rmsprop, {&s.slots[0], &s.gradient, &s.slots[1], &s.slots[2], &s.device[0]},
                {&s.slots[0], &s.slots[1], &s.slots[2]}, {s.host[0], s.host[1], s.host[2]});
}

// (var, mean gradient, mean square, momentum)
void centered_rmsprop(const Step& s) {
  s.context.map(uhal_map_rmsprop_centered,
                {&s.slots[0], &s.gradient, &s.slots[2], &s.slots[3], &s.device[0], &s.slots[1]},
                {&s.slots[0], &s.slots[2], &s.slots[3], &s.slots[1]}, {s.host[0], s.host[1], s.host[2]});
}

// The epsilon is 0 where a rule has none.
void adagrad(const Step& s) {
  const double epsilon = s.host.empty() ? 0 : s.host[0];
  if (!s.keep_slots) {
    s.context.map(uhal_map_adagrad, {&s.slots[0], &s.gradient, &s.slots[1], &s.device[0]}, {&s.slots[0], &s.slots[1]},
                  {epsilon});
    return;
  }
  const View direction = s.context.temporary_like(s.slots[1]);
  if (!s.context.ok()) return;
  s.context.map(uhal_map_sqrt, {&s.slots[1]}, {&direction});
  s.context.map(uhal_map_scale, {&direction}, {&direction}, {1, epsilon});
  s.context.map(uhal_map_divide, {&s.gradient, &direction}, {&direction});
  s.context.map(uhal_map_sgd, {&s.slots[0], &direction, &s.device[0]}, {&s.slots[0]});
}

void adadelta(const Step& s) {
  s.context.map(uhal_map_adadelta, {&s.slots[0], &s.gradient, &s.slots[1], &s.slots[2], &s.device[0]},
                {&s.slots[0], &s.slots[1], &s.slots[2]}, {s.host[0], s.host[1]});
}

// The shrinkage, of version 2, is last.
void ftrl(const Step& s) {
  s.context.map(uhal_map_ftrl, {&s.slots[0], &s.gradient, &s.slots[1], &s.slots[2], &s.device[0]},
                {&s.slots[0], &s.slots[1], &s.slots[2]},
                {s.host[0], s.host[1], s.host[2], s.host.size() > 3 ? s.host[3] : 0, s.multiply_linear ? 1.0 : 0.0});
}

void add_sign(const Step& s) {
  s.context.map(uhal_map_add_sign, {&s.slots[0], &s.gradient, &s.slots[1], &s.device[0]}, {&s.slots[0], &s.slots[1]},
                {s.host[0], s.host[1], s.host[2]});
}

void power_sign(const Step& s) {
  s.context.map(uhal_map_power_sign, {&s.slots[0], &s.gradient, &s.slots[1], &s.device[0]}, {&s.slots[0], &s.slots[1]},
                {s.host[0], s.host[1] * s.host[2]});
}

void proximal_gradient_descent(const Step& s) {
  s.context.map(uhal_map_proximal_gradient_descent, {&s.slots[0], &s.gradient, &s.device[0]}, {&s.slots[0]},
                {s.host[0], s.host[1]});
}

void proximal_adagrad(const Step& s) {
  s.context.map(uhal_map_proximal_adagrad, {&s.slots[0], &s.gradient, &s.slots[1], &s.device[0]},
                {&s.slots[0], &s.slots[1]}, {s.host[0], s.host[1]});
}

const std::vector<Rule>& rules() {
  static const auto* rows = new std::vector<Rule>{
      {"GradientDescent", kFloats, 1, {"alpha"}, {}, gradient_descent},
      {"Momentum", kFloats, 2, {"lr"}, {"momentum"}, momentum},
      {"KerasMomentum", kFloats, 2, {"lr"}, {"momentum"}, keras_momentum},
      {"Adam", kFloats, 3, {"lr", "beta1_power", "beta2_power"}, {"beta1", "beta2", "epsilon"}, adam},
      {"AdamWithAmsgrad", kFloats, 4, {"lr", "beta1_power", "beta2_power"}, {"beta1", "beta2", "epsilon"}, amsgrad},
      {"AdaMax", kFloats, 3, {"lr", "beta1_power"}, {"beta1", "beta2", "epsilon"}, adamax},
      {"RMSProp", kFloats, 3, {"lr"}, {"rho", "momentum", "epsilon"}, rmsprop},
      {"CenteredRMSProp", kFloats, 4, {"lr"}, {"rho", "momentum", "epsilon"}, centered_rmsprop},
      {"Adagrad", kFloats, 2, {"lr"}, {}, adagrad},
      {"AdagradV2", kFloats, 2, {"lr"}, {"epsilon"}, adagrad},
      {"Adadelta", kFloats, 3, {"lr"}, {"rho", "epsilon"}, adadelta},
      {"Ftrl", kFloats, 3, {"lr"}, {"l1", "l2", "lr_power"}, ftrl},
      {"FtrlV2", kFloats, 3, {"lr"}, {"l1", "l2", "lr_power", "l2_shrinkage"}, ftrl},
      {"AddSign", kFloats, 2, {"lr"}, {"beta", "alpha", "sign_decay"}, add_sign},
      {"PowerSign", kFloats, 2, {"lr"}, {"beta", "logbase", "sign_decay"}, power_sign},
      {"ProximalGradientDescent", kFloats, 1, {"alpha"}, {"l1", "l2"}, proximal_gradient_descent},
      {"ProximalAdagrad", kFloats, 2, {"lr"}, {"l1", "l2"}, proximal_adagrad},
  };
  return *rows;
}

// The rule that an op is named after.
const Rule& rule_of(const char* op) {
  const char* name = std::strstr(op, "Apply") + std::strlen("Apply");
  const auto row =
      std::find_if(rules().begin(), rules().end(), [&](const Rule& r) { return !std::strcmp(r.name, name); });
  assert(row != rules().end());
  return *row;
}

bool flag_or(Construction& construction, const char* name, bool otherwise) {
  return construction.has(name) ? construction.boolean(name) : otherwise;
}

class Optimizer : public Kernel {
 public:
  explicit Optimizer(Construction& construction)
      : Kernel(construction),
        rule_(rule_of(construction.op())),
        nesterov_(flag_or(construction, "use_nesterov", false)),
        keep_slots_(!flag_or(construction, "update_slots", true)),
        multiply_linear_(flag_or(construction, "multiply_linear_by_lr", false)) {
    const std::vector<Argument>& inputs = find_operation(construction.op())->inputs;
    for (int i = 0; i < static_cast<int>(inputs.size()); ++i) {
      const std::string& name = inputs[static_cast<size_t>(i)].name;
      if (name == "indices") indices_ = i;
      if (name == "grad" || name == "delta") gradient_ = i;
      for (const char* wanted : rule_.host) {
        if (name == wanted) host_[wanted] = i;
      }
      for (const char* wanted : rule_.device) {
        if (name == wanted) device_[wanted] = i;
      }
    }
    if (nesterov_ && rule_.run == adam) construction.refuse("no kernel for use_nesterov=True");
  }

  Merging merging() const override { return indices_ < 0 ? Merging::kSameShape : Merging::kNone; }

  void compute(Context& context) const override {
    std::vector<int> numbers;
    for (int i = 0; i < rule_.slots; ++i) numbers.push_back(i);
    LockedVariables variables(context, numbers);
    Step step = {context, rule_, {}, {}, {}, {}, nesterov_, keep_slots_, multiply_linear_};
    for (int i : numbers) step.slots.push_back(variables.writable(i));
    // The CPU's kernel does not compare shapes.
    if (indices_ >= 0 && rule_.run == proximal_gradient_descent) context.fail_refusal();
    step.gradient = context.input(gradient_);
    for (const char* name : rule_.host) step.host.push_back(context.host_real(host_.at(name)));
    for (const char* name : rule_.device) {
      step.device.push_back(context.input(device_.at(name)));
      if (context.ok() && step.device.back().rank != 0) {
        context.fail_invalid(std::string(op()) + ": " + name + " is not a scalar: " + to_text(step.device.back()));
      }
    }
    if (!context.ok() || !check_signs(step)) return;
    const View& parameter = step.slots[0];
    for (const View& slot : step.slots) check_shape(context, "slots", slot, shape_of(parameter));
    if (indices_ >= 0) return compute_rows(step);
    check_shape(context, "gradient", step.gradient, shape_of(parameter));
    if (context.ok() && parameter.elements() > 0) rule_.run(step);
  }

 private:
  // Slots have the variable's shape, and so has a gradient.
  void check_shape(Context& context, const char* what, const View& view, const Shape& expected) const {
    if (!context.ok() || shape_of(view) == expected) return;
    context.fail_invalid(std::string(op()) + ": " + what + " must have shape " + to_text(expected) +
                         ", as the variable says, got " + to_text(view));
  }

  // The signs that the CPU's kernels insist on: Ftrl's of rows, and ProximalAdagrad's. A rate in the device's memory is
  // looked at where that costs no wait.
  bool check_signs(const Step& step) const {
    Context& context = step.context;
    if (rule_.run != proximal_adagrad && (indices_ < 0 || rule_.run != ftrl)) return true;
    for (size_t i = 0; i < rule_.host.size(); ++i) {
      const std::string name = rule_.host[i];
      const bool is_power = name == "lr_power";
      if (is_power ? step.host[i] <= 0 : step.host[i] >= 0) continue;
      const std::string title = is_power                 ? name
                                : name == "l2_shrinkage" ? "l2 shrinkage regularization strength"
                                                         : name + " regularization strength";
      context.fail_invalid(title + " is not a non-" + (is_power ? "positive" : "negative") + " scalar: []");
      return false;
    }
    if (!context.computes_at_once()) return context.ok();
    const std::vector<double> rate = read_reals(context, {step.device[0]});
    if (context.ok() && !(step.multiply_linear ? rate[0] >= 0 : rate[0] > 0)) {
      context.fail_invalid("lr is not a positive scalar" +
                           std::string(rule_.run == ftrl ? " (or zero if multiply_linear_by_lr is set)" : "") + ": []");
    }
    return context.ok();
  }

  void compute_rows(Step& step) const {
    Context& context = step.context;
    const std::vector<View> whole = step.slots;
    View indices = context.input(indices_);
    if (!context.ok()) return;
    if (indices.rank != 1 || whole[0].rank == 0) {
      return context.fail_invalid(std::string(op()) +
                                  ": indices must be one-dimensional and the variable at least so, got " +
                                  to_text(indices) + " and " + to_text(whole[0]));
    }
    Shape shape = shape_of(whole[0]);
    shape[0] = indices.shape[0];
    check_shape(context, "gradient", step.gradient, shape);
    if (!context.ok() || step.gradient.elements() == 0) {
      const bool takes_empty_rows = rule_.run == momentum || rule_.run == keras_momentum || rule_.run == adadelta ||
                                    rule_.run == rmsprop || rule_.run == centered_rmsprop;
      if (context.ok() && indices.shape[0] > 0 && !takes_empty_rows) {
        context.fail_invalid("Inner dimension should be greater than zero.");
      }
      return;
    }
    if (!refuse_any_outside(context, indices, {whole[0].shape[0]}, Indices::kRows)) return;
    View turn;
    int64_t turns = 1;
    if (indices.shape[0] > 1) {
      turn = occurrences(context, indices);
      const int64_t one[] = {1};
      const View largest = context.temporary(UHAL_INT64, one, 1);
      if (!context.ok()) return;
      const uhal_reduce_attributes attributes = reduce_attributes(UHAL_REDUCE_MAXIMUM);
      context.launch(UHAL_OP_REDUCE, {&turn}, {&largest}, &attributes);
      turns = read_number(context, largest) + 1;
    }
    for (View& slot : step.slots) slot = context.temporary(slot.dtype, shape.data(), static_cast<int>(shape.size()));
    const View chosen = turns > 1 ? context.temporary_like(indices) : View();
    const View mask = turns > 1 ? context.temporary(UHAL_BOOL, indices.shape, 1) : View();
    const View number = context.temporary(UHAL_INT64, nullptr, 0);
    const View none = context.temporary(indices.dtype, nullptr, 0);
    if (!context.ok() || !context.fill(none, 0, -1)) return;
    const uhal_index_attributes attributes = lenient_index_attributes(0);
    for (int64_t i = 0; context.ok() && i < turns; ++i) {
      const View* rows = &indices;
      if (turns > 1) {
        context.fill(number, 0, i);
        context.map(uhal_map_equal, {&turn, &number}, {&mask});
        context.map(uhal_map_select, {&mask, &indices, &none}, {&chosen});
        rows = &chosen;
      }
      for (size_t k = 0; k < whole.size(); ++k) {
        context.launch(UHAL_OP_GATHER, {&whole[k], rows}, {&step.slots[k]}, &attributes);
      }
      if (context.ok()) rule_.run(step);
      for (size_t k = 0; k < whole.size(); ++k) {
        context.launch(UHAL_OP_SCATTER, {rows, &step.slots[k]}, {&whole[k]}, &attributes);
      }
    }
  }

  const Rule& rule_;
  bool nesterov_;
  bool keep_slots_;
  bool multiply_linear_;
  int indices_ = -1;
  int gradient_ = -1;
  std::map<std::string, int> host_;
  std::map<std::string, int> device_;
};

}  // namespace

void register_optimizer(Registrar& registrar) {
  for (const Rule& rule : rules()) {
    for (const char* form : {"ResourceApply", "ResourceSparseApply", "Apply", "SparseApply"}) {
      const std::string op = std::string(form) + rule.name;
      const Operation* operation = find_operation(op);
      if (operation == nullptr) continue;
      std::vector<const char*> host = rule.host;
      // References are to variables on the device.
      for (int i = 0; *form == 'R' && i < rule.slots; ++i) {
        host.push_back(operation->inputs[static_cast<size_t>(i)].name.c_str());
      }
      if (std::strstr(form, "Sparse") != nullptr) {
        registrar.add_with_host<Optimizer>(op.c_str(), {{"T", rule.dtypes}, {"Tindices", kIndices}}, host);
      } else {
        registrar.add_with_host<Optimizer>(op.c_str(), {{"T", rule.dtypes}}, host);
      }
    }
  }
}

}  // namespace unihal::tensorflow
