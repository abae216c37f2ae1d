#include "plugins/tensorflow/fusion.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace unihal::tensorflow {
namespace {

// Ops that give the same result however often they run; reads of a variable do so between the same writes.
const std::set<std::string_view>& repeatable_ops() {
  static const auto* ops = new std::set<std::string_view>{
      "ReadVariableOp", "AddV2", "Cast", "Pow", "Sub", "Sqrt", "Mul", "RealDiv", "UnihalAdamRate",
  };
  return *ops;
}

// Ops that do nothing but compute, of which what is fused is made.
const std::set<std::string_view>& pure_ops() {
  static const auto* ops = new std::set<std::string_view>{
      "Add",       "AddV2",    "AddN",    "Sub",     "Mul",      "Neg",         "Square", "SquaredDifference",
      "RealDiv",   "Rsqrt",    "Mean",    "Sum",     "Cast",     "BroadcastTo", "Shape",  "ShapeN",
      "RsqrtGrad", "GatherV2", "Reshape", "Squeeze", "Tile",     "Prod",        "Const",  "BroadcastGradientArgs",
      "Erf",       "Erfc",     "Exp",     "Tanh",    "TanhGrad", "Pow",
  };
  return *ops;
}

// The same for attention.
const std::set<std::string_view>& attention_ops() {
  static const auto* ops = new std::set<std::string_view>{
      "Einsum",
      "BatchMatMul",
      "BatchMatMulV2",
      "Softmax",
      "SelectV2",
      "Transpose",
      "AddV2",
      "Add",
      "Sub",
      "Mul",
      "RealDiv",
      "Sum",
      "Cast",
      "Reshape",
      "Shape",
      "StridedSlice",
      "Pack",
      "BroadcastTo",
      "MatrixBandPart",
      "Fill",
      "BroadcastGradientArgs",
      "Const",
      "LogicalAnd",
      "ExpandDims",
      "Sqrt",
      "Rsqrt",
      "Reciprocal",
  };
  return *ops;
}

bool is_control_flow(std::string_view op) {
  return op == "Switch" || op == "Merge" || op == "Enter" || op == "Exit" || op == "NextIteration" ||
         op == "LoopCond" || op == "RefSwitch" || op == "RefMerge" || op == "RefEnter" || op == "RefExit" ||
         op == "RefNextIteration" || op == "_SwitchN";
}

// The nodes on devices of a type that run exactly once whenever the graph does. In branches and loops, which is all
// that comes after control flow, whether a node runs depends on more than what it computes with.
std::vector<int> find_candidates(const Graph& graph, std::string_view type) {
  std::vector<char> conditional(static_cast<size_t>(graph.size()));
  std::vector<int> reached;
  for (int node = 0; node < graph.size(); ++node) {
    if (is_control_flow(graph[node].op)) reached.push_back(node);
  }
  while (!reached.empty()) {
    const int node = reached.back();
    reached.pop_back();
    if (std::exchange(conditional[static_cast<size_t>(node)], 1)) continue;
    for (int consumer : graph[node].consumers) reached.push_back(consumer);
  }
  std::vector<int> candidates;
  for (int node = 0; node < graph.size(); ++node) {
    if (!conditional[static_cast<size_t>(node)] && is_on(graph[node].device, type)) candidates.push_back(node);
  }
  return candidates;
}

// Whether a constant is what branches are chosen by, and nothing else: TensorFlow reads it on the host.
bool is_predicate(const Graph& graph, int node) {
  if (graph[node].op != "Const" || graph.type_attribute(node, "dtype") != TF_BOOL) return false;
  const Graph::Edge value = {node, 0};
  bool is_read = false;
  for (int consumer : graph[node].consumers) {
    const std::vector<Graph::Edge>& inputs = graph[consumer].inputs;
    if (std::find(inputs.begin(), inputs.end(), value) == inputs.end()) continue;
    if (graph[consumer].op != "Switch" || inputs[1] != value) return false;
    is_read = true;
  }
  return is_read;
}

struct Name {
  const char* name;
  unsigned bit;
};

constexpr unsigned kOptimizer = 1, kNorm = 2, kGelu = 4, kMovingAverage = 8, kNegativeZero = 16, kSoftmax = 32,
                   kElementwise = 64, kLists = 128, kCollectives = 256, kProducts = 512, kSeeds = 1024,
                   kBranches = 2048, kAttention = 4096, kWaits = 8192, kAllFusions = 16383;
// Beside them: the fusions were named one by one, so that what is slower by one of them is fused all the same.
constexpr unsigned kNamed = 16384;

constexpr Name kNames[] = {{"optimizer", kOptimizer},
                           {"norm", kNorm},
                           {"gelu", kGelu},
                           {"moving_average", kMovingAverage},
                           {"negative_zero", kNegativeZero},
                           {"softmax", kSoftmax},
                           {"elementwise", kElementwise},
                           {"lists", kLists},
                           {"collectives", kCollectives},
                           {"products", kProducts},
                           {"seeds", kSeeds},
                           {"branches", kBranches},
                           {"attention", kAttention},
                           {"waits", kWaits}};

}  // namespace

std::string fusion_names() {
  std::string names;
  for (const Name& entry : kNames) names += (names.empty() ? "" : ",") + std::string(entry.name);
  return names;
}

bool parse_fusions(std::string_view value, unsigned* fusions) {
  *fusions = value == "0" ? 0 : kAllFusions;
  if (value.empty() || value == "0" || value == "1") return true;
  *fusions = kNamed;
  for (;;) {
    const size_t comma = value.find(',');
    const std::string_view name = value.substr(0, comma);
    const auto* found =
        std::find_if(std::begin(kNames), std::end(kNames), [&](const Name& e) { return e.name == name; });
    if (found == std::end(kNames)) return false;
    *fusions |= found->bit;
    if (comma == std::string_view::npos) return true;
    value.remove_prefix(comma + 1);
  }
}

void fuse(Graph& graph, const std::string& type, unsigned fusions, OutputShapes& shapes) {
  if (!graph.is_complete()) return;
  const bool chosen = (fusions & kBranches) != 0 && take_known_branches(graph);
  std::vector<int> candidates = find_candidates(graph, type);
  const auto rewrite = [&](unsigned bit, bool (*fusion)(Graph&, int)) {
    bool found = false;
    if ((fusions & bit) == 0) return found;
    for (int node : candidates) found |= !graph[node].removed && fusion(graph, node);
    return found;
  };
  bool fused = rewrite(kOptimizer, fuse_adam) || chosen;
  bool found = rewrite(kOptimizer, fuse_adam_decay);
  fused |= rewrite(kOptimizer, fuse_adam_rate);
  fused |= rewrite(kOptimizer, fuse_momentum);
  // Keras reads the learning rate and the count of steps, and computes with them, once for each variable.
  if (fused) graph.merge_duplicates(candidates, repeatable_ops());
  // Of two norms whose results meet in a sum, the second is seen once the first is one op.
  for (bool again = true; again;) {
    candidates = find_candidates(graph, type);
    again = rewrite(kNorm, fuse_norm);
    again |= rewrite(kGelu, fuse_gelu);
    if (again || found) graph.prune(candidates, pure_ops());
    found |= again;
  }
  if ((fusions & kNorm) != 0) fused |= narrow_norms(graph, candidates);
  fused |= found;
  if ((fusions & kAttention) != 0 && fuse_attention(graph, type, candidates, shapes, (fusions & kNamed) != 0)) {
    graph.prune(candidates, attention_ops());
    candidates = find_candidates(graph, type);
    fused = true;
  }
  fused |= rewrite(kSoftmax, fuse_softmax_gradient);
  // After the norms, which must see the products of a gradient and a learning rate.
  if (rewrite(kOptimizer, fuse_scaled_update)) {
    graph.merge_duplicates(candidates, repeatable_ops());
    fused = true;
  }
  fused |= rewrite(kMovingAverage, fuse_moving_average);
  fused |= rewrite(kNegativeZero, fuse_negative_zero);
  if ((fusions & kSeeds) != 0) fused |= fuse_seeds(graph, candidates);
  // After the norms and GELU, which look at what they read.
  if ((fusions & kProducts) != 0) fused |= fuse_products(graph, candidates, shapes);
  // At last, of what no other fusion took. A constant that became a parameter may have no reader any more.
  if ((fusions & kElementwise) != 0) fused |= fuse_elementwise(graph, type, candidates, shapes);
  if ((fusions & kLists) != 0) fused |= join_steps(graph, candidates);
  if ((fusions & kCollectives) != 0) {
    fused |= fuse_all_reduces(graph, type, candidates);
    fused |= fold_gathers(graph, candidates);
  }
  if (fused) graph.remove_unused(candidates, {"Const", "ReadVariableOp"});
  // A constant that took the place of something computed waits for what that read. Where this is on the host, the wait
  // costs a copy, mostly of what whoever uses the constant gets anyway.
  for (int node : candidates) {
    if (graph[node].removed || graph[node].op != "Const") continue;
    graph.drop_implied_waits(node);
    // On the device it would be copied to the host in each run, after all that was submitted before.
    const std::string_view device = graph[node].device;
    if (is_predicate(graph, node)) {
      graph.move(node, std::string(device.substr(0, device.rfind("/device:"))) + "/device:CPU:0");
    }
  }
  if ((fusions & kWaits) != 0) drop_waits(graph, candidates);
}

}  // namespace unihal::tensorflow
