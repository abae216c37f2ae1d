#include <cstring>
#include <unordered_set>

#include "plugins/onnxruntime/call.h"
#include "plugins/onnxruntime/provider.h"

namespace unihal::onnxruntime {
namespace {

// Ops that compute with shapes: on values that lie on the host anyway they are left there.
constexpr const char* kOpsOnShapes[] = {"Abs",
                                        "Add",
                                        "And",
                                        "Cast",
                                        "Ceil",
                                        "Concat",
                                        "ConstantOfShape",
                                        "CumSum",
                                        "Div",
                                        "Equal",
                                        "Expand",
                                        "Flatten",
                                        "Floor",
                                        "Gather",
                                        "GatherElements",
                                        "Greater",
                                        "Identity",
                                        "Less",
                                        "Max",
                                        "Min",
                                        "Mod",
                                        "Mul",
                                        "Neg",
                                        "Not",
                                        "Or",
                                        "Range",
                                        "Reshape",
                                        "ReduceMax",
                                        "ReduceMin",
                                        "ReduceProd",
                                        "ReduceSum",
                                        "Size",
                                        "Slice",
                                        "Split",
                                        "Squeeze",
                                        "Sub",
                                        "Unsqueeze",
                                        "Where",
                                        "ScatterElements",
                                        "ScatterND",
                                        "LessOrEqual",
                                        "GreaterOrEqual",
                                        "Sign",
                                        "Sqrt",
                                        "Transpose",
                                        "Tile"};

constexpr const char* kControlOps[] = {"If", "Loop", "Scan"};

template <size_t kCount>
bool is_one_of(const char* name, const char* const (&names)[kCount]) {
  for (const char* other : names) {
    if (std::strcmp(name, other) == 0) return true;
  }
  return false;
}

// The number of elements up to which a value counts as one of shapes, where that is known.
constexpr int64_t kMostShapeElements = 1024;

std::string name_of(const OrtValueInfo* value) {
  const char* name = nullptr;
  if (value != nullptr) check(ort.GetValueInfoName(value, &name));
  return name != nullptr ? name : "";
}

bool is_constant(const OrtValueInfo* value) {
  bool constant = false;
  check(ort.ValueInfo_IsConstantInitializer(value, &constant));
  return constant;
}

class Chooser {
 public:
  explicit Chooser(const Provider& provider) : provider_(provider) {}

  Choice run(const OrtGraph* graph) {
    size_t count = 0;
    check(ort.Graph_GetNumNodes(graph, &count));
    std::vector<const OrtNode*> nodes(count);
    check(ort.Graph_GetNodes(graph, nodes.data(), count));
    for (const OrtNode* node : nodes) add(node);
    choice_.opset = opset_of(graph);
    choice_.graph = identity_of(graph);
    return std::move(choice_);
  }

 private:
  void add(const OrtNode* node) {
    const char* type = "";
    const char* domain = "";
    int32_t version = 0;
    check(ort.Node_GetOperatorType(node, &type));
    check(ort.Node_GetDomain(node, &domain));
    check(ort.Node_GetSinceVersion(node, &version));
    const bool is_onnx = domain[0] == '\0' || std::strcmp(domain, "ai.onnx") == 0;
    const bool is_shown_plainly = is_onnx || std::strcmp(domain, kChannelsLastDomain) == 0;
    if (is_onnx && is_one_of(type, kControlOps)) return;
    if (is_onnx && stays_on_host(node, type)) {
      for (const std::string& output : outputs_of(node)) on_host_.insert(output);
      return;
    }
    std::string dtype, reason;
    const Op* const op = find_op(is_onnx ? "" : domain, type, version);
    if (op == nullptr) {
      dtype = first_dtype(node);
      reason = find_op(is_onnx ? "" : domain, type, 0) != nullptr
                   ? "no kernel for opset " + std::to_string(version) + " of it"
                   : "no kernel is registered";
    } else {
      try {
        const std::unique_ptr<Description> description = describe(node, provider_);
        const bool by_output = description->input_count() == 0;
        const OperandType& typed = by_output ? description->output(0) : description->input(op->typed_by);
        dtype = typed.type == kTypeUndefined ? "" : type_name(typed.type);
        if (!contains(op->dtypes, from_onnx(typed.type))) {
          throw Refusal("no kernel for dtype " + std::string(type_name(typed.type)));
        }
        check_operands(*description);
        op->make(*description, op->data);
        choice_.nodes.push_back(node);
        const uhal_dtype convolved = from_onnx(typed.type);
        if (std::strcmp(type, "Conv") == 0) {
          choice_.convolves = true;
          choice_.convolves_halves |= convolved == UHAL_FLOAT16 || convolved == UHAL_BFLOAT16;
        }
        if (op->host_output) {
          for (const std::string& output : outputs_of(node)) on_host_.insert(output);
        }
        return;
      } catch (Refusal& refusal) {
        reason = std::move(refusal.reason);
      } catch (const Failure& failure) {
        reason = failure.what();  // of one node: the others stay
      }
    }
    choice_.left.push_back({is_shown_plainly ? type : std::string(domain) + "." + type, dtype, reason});
  }

  static int64_t opset_of(const OrtGraph* graph) {
    size_t count = 0;
    check(ort.Graph_GetNumOperatorSets(graph, &count));
    std::vector<const char*> domains(count);
    std::vector<int64_t> versions(count);
    check(ort.Graph_GetOperatorSets(graph, domains.data(), versions.data(), count));
    for (size_t i = 0; i < count; ++i) {
      if (domains[i][0] == '\0' || std::strcmp(domains[i], "ai.onnx") == 0) return versions[i];
    }
    return 0;
  }

  // The same each time that ONNX Runtime shows a graph: of a body of If, Loop or Scan by the node that has it.
  static std::string identity_of(const OrtGraph* graph) {
    const OrtNode* parent = nullptr;
    check(ort.Graph_GetParentNode(graph, &parent));
    if (parent == nullptr) return "";
    size_t id = 0, count = 0;
    const char* name = "";
    check(ort.Node_GetId(parent, &id));
    check(ort.Graph_GetName(graph, &name));
    check(ort.Graph_GetNumOutputs(graph, &count));
    std::vector<const OrtValueInfo*> outputs(count);
    check(ort.Graph_GetOutputs(graph, outputs.data(), count));
    std::string identity = std::to_string(id) + "/" + name;
    for (const OrtValueInfo* output : outputs) identity += "/" + name_of(output);
    return identity;
  }

  static void check_operands(const Description& node) {
    for (int i = 0; i < node.input_count(); ++i) check_operand(node.input(i));
    for (int i = 0; i < node.output_count(); ++i) check_operand(node.output(i));
  }
  static void check_operand(const OperandType& operand) {
    if (operand.shape && operand.shape->size() > UHAL_MAX_RANK) throw Refusal("an operand with more than 10 axes");
  }

  // Whether all that a node reads is on the host or constant, and small.
  bool stays_on_host(const OrtNode* node, const char* type) const {
    if (!is_one_of(type, kOpsOnShapes)) return false;
    size_t count = 0;
    check(ort.Node_GetNumInputs(node, &count));
    std::vector<const OrtValueInfo*> inputs(count);
    check(ort.Node_GetInputs(node, inputs.data(), count));
    bool any = false;
    for (const OrtValueInfo* input : inputs) {
      if (input == nullptr) continue;
      if (on_host_.count(name_of(input)) != 0) {
        any = true;
      } else if (!is_constant(input)) {
        return false;
      }
    }
    if (!any) return false;
    const std::unique_ptr<Description> description = describe(node, provider_);
    for (int i = 0; i < description->output_count(); ++i) {
      const OperandType& output = description->output(i);
      if (output.type != kTypeInt64 && output.type != kTypeInt32 && output.type != kTypeBool &&
          !(output.type == kTypeFloat && output.shape && elements(*output.shape) <= kMostShapeElements)) {
        return false;
      }
      if (output.shape && (output.shape->size() > 1 || elements(*output.shape) > kMostShapeElements)) return false;
    }
    return true;
  }

  // Of a shape with lengths that are not known: as if they were 1.
  static int64_t elements(const std::vector<int64_t>& shape) {
    int64_t count = 1;
    for (const int64_t length : shape) count *= length < 0 ? 1 : length;
    return count;
  }

  static std::vector<std::string> outputs_of(const OrtNode* node) {
    size_t count = 0;
    check(ort.Node_GetNumOutputs(node, &count));
    std::vector<const OrtValueInfo*> values(count);
    check(ort.Node_GetOutputs(node, values.data(), count));
    std::vector<std::string> names;
    for (const OrtValueInfo* value : values) {
      if (value != nullptr) names.push_back(name_of(value));
    }
    return names;
  }

  std::string first_dtype(const OrtNode* node) const {
    const std::unique_ptr<Description> description = describe(node, provider_);
    for (int i = 0; i < description->input_count(); ++i) {
      if (description->has_input(i)) return type_name(description->input(i).type);
    }
    return "";
  }

  const Provider& provider_;
  std::unordered_set<std::string> on_host_;
  Choice choice_;
};

}  // namespace

Choice choose(const OrtGraph* graph, const Provider& provider) { return Chooser(provider).run(graph); }

}  // namespace unihal::onnxruntime
