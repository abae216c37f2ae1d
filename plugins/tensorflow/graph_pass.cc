#include "plugins/tensorflow/graph_pass.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugins/tensorflow/fallback.h"
#include "plugins/tensorflow/fusion.h"
#include "plugins/tensorflow/graph.h"
#include "plugins/tensorflow/protobuf.h"
#include "unihal/fallback.h"

namespace unihal::tensorflow {
namespace {

// Names of the nodes that must stay: what is fetched or fed, and what has effects that the caller waits for. False
// where TensorFlow does not tell.
bool find_preserved(const TF_GrapplerItem* item, std::string* storage, std::set<std::string_view>* names) {
  // These functions are in TensorFlow's large library, which the adapter does not link.
  void* library = dlopen("libtensorflow_cc.so.2", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return false;
  static const auto get_size =
      reinterpret_cast<decltype(&TF_GetNodesToPreserveListSize)>(dlsym(library, "TF_GetNodesToPreserveListSize"));
  static const auto get_list =
      reinterpret_cast<decltype(&TF_GetNodesToPreserveList)>(dlsym(library, "TF_GetNodesToPreserveList"));
  dlclose(library);
  if (get_size == nullptr || get_list == nullptr) return false;
  TF_Status* status = TF_NewStatus();
  int count = 0;
  size_t bytes = 0;
  get_size(item, &count, &bytes, status);
  std::vector<char*> values(static_cast<size_t>(count));
  std::vector<size_t> lengths(static_cast<size_t>(count));
  storage->resize(bytes);
  if (TF_GetCode(status) == TF_OK) {
    get_list(item, values.data(), lengths.data(), count, storage->data(), bytes, status);
  }
  const bool found = TF_GetCode(status) == TF_OK;
  TF_DeleteStatus(status);
  for (size_t i = 0; found && i < values.size(); ++i) names->insert(std::string_view(values[i], lengths[i]));
  return found;
}

// TensorFlow runs the pass more than once over a graph; a node counts once.
constexpr const char* kCounted = "_unihal_counted";
// What the interpreter's hook (interpreter_hook.py) leaves at nodes: the type of the device that was asked for.
constexpr const char* kWanted = "_unihal_wanted";

std::string_view wanted_type(const Graph& graph, int node) {
  enum { kValueString = 2 };
  ProtobufReader value(graph.attribute(node, kWanted));
  while (value.next()) {
    if (value.number() == kValueString) return value.bytes();
  }
  return "";
}

// Ops that TensorFlow may place beside what they come from or go to.
bool only_passes_on(std::string_view op) {
  constexpr std::string_view kOps[] = {"Identity", "IdentityN", "Reshape", "Squeeze",       "ExpandDims",  "Switch",
                                       "Merge",    "Enter",     "Exit",    "NextIteration", "StopGradient"};
  return std::find(std::begin(kOps), std::end(kOps), op) != std::end(kOps);
}

// The device of a type where a node on the CPU would have run, if there is no better way to tell.
std::string first_device(std::string_view cpu, const char* type) {
  return std::string(cpu.substr(0, cpu.rfind("/device:"))) + "/device:" + type + ":0";
}

struct Fallen {
  Fallback fallback;
  std::string_view device;  // where it would have run; empty where nothing of the graph does
};

// The fallbacks of a graph, by node: what was asked to be on the device, and else what exchanges tensors with it, be it
// through other fallbacks.
std::map<int, Fallen> find_fallbacks(const Graph& graph, const char* type) {
  std::vector<std::pair<int, std::string_view>> reached;  // a node, and the device that it is beside
  for (int index = 0; index < graph.size(); ++index) {
    const Graph::Node& node = graph[index];
    if (wanted_type(graph, index) == type) reached.emplace_back(index, "");
    for (const Graph::Edge& edge : node.inputs) {
      if (is_on(graph[edge.node].device, type)) reached.emplace_back(index, graph[edge.node].device);
      if (is_on(node.device, type)) reached.emplace_back(edge.node, node.device);
    }
  }
  std::map<int, Fallen> fallen;
  std::vector<char> seen(static_cast<size_t>(graph.size()));
  while (!reached.empty()) {
    const auto [index, device] = reached.back();
    reached.pop_back();
    const Graph::Node& node = graph[index];
    if (!is_on(node.device, "CPU") || std::exchange(seen[static_cast<size_t>(index)], 1)) continue;
    const std::string_view wanted = wanted_type(graph, index);
    if (!wanted.empty() && wanted != type) continue;
    Fallen one = {{}, device};
    if (is_fallback(type, node.op, graph.types(index), &one.fallback)) {
      fallen.emplace(index, one);
    } else if (!only_passes_on(node.op)) {
      continue;
    }
    for (const Graph::Edge& edge : node.inputs) reached.emplace_back(edge.node, device);
    for (int consumer : node.consumers) reached.emplace_back(consumer, device);
  }
  return fallen;
}

// Counts fallbacks, and moves them to the device where a fallback is an error: there TensorFlow finds no kernel, and
// its error then names the op. An error returned from a graph pass would be logged and dropped.
void handle_fallbacks(Graph& graph, const char* type) {
  for (const auto& [node, fallen] : find_fallbacks(graph, type)) {
    if (!graph.attribute(node, kCounted).empty()) continue;
    std::string ignored;
    record_fallback(graph[node].op, fallen.fallback, &ignored);
    graph.mark(node, kCounted);
    if (uhal_strict() == 0) continue;
    graph.move(node, fallen.device.empty() ? first_device(graph[node].device, type) : std::string(fallen.device));
  }
}

// The adapter has made sure that the value makes sense.
unsigned wanted_fusions() {
  const char* value = std::getenv("UNIHAL_TENSORFLOW_FUSION");
  unsigned fusions = 0;
  return parse_fusions(value == nullptr ? "" : value, &fusions) ? fusions : 0;
}

void optimize(const char* type, const TF_GrapplerItem* item, const TF_Buffer* in, TF_Buffer* out) {
  std::string names;
  std::set<std::string_view> preserved;
  const unsigned fusions = wanted_fusions();
  const bool may_fuse = fusions != 0 && find_preserved(item, &names, &preserved);
  Graph graph(std::string_view(static_cast<const char*>(in->data), in->length), std::move(preserved));
  handle_fallbacks(graph, type);
  OutputShapes shapes(item);
  if (may_fuse) fuse(graph, type, fusions, shapes);
  const std::string result = graph.serialize();
  void* data = std::malloc(result.size());
  std::memcpy(data, result.data(), result.size());
  out->data = data;
  out->length = result.size();
  out->data_deallocator = [](void* bytes, size_t) { std::free(bytes); };
}

// TensorFlow hands a pass no context of ours, so there is one function per registered type.
constexpr int kMaxTypes = 8;
const char* g_types[kMaxTypes];
int g_type_count = 0;

template <int kType>
void run_pass(void*, const TF_Buffer* in, const TF_GrapplerItem* item, TF_Buffer* out, TF_Status* status) {
  try {
    optimize(g_types[kType], item, in, out);
  } catch (const std::exception& error) {
    TF_SetStatus(status, TF_INTERNAL, error.what());
  }
}

using Pass = void (*)(void*, const TF_Buffer*, const TF_GrapplerItem*, TF_Buffer*, TF_Status*);
template <int... kTypes>
constexpr std::array<Pass, sizeof...(kTypes)> all_passes(std::integer_sequence<int, kTypes...>) {
  return {run_pass<kTypes>...};
}
constexpr auto kPasses = all_passes(std::make_integer_sequence<int, kMaxTypes>());

}  // namespace

void fill_graph_registration(const char* type, TP_OptimizerRegistrationParams* params) {
  const int slot = g_type_count < kMaxTypes ? g_type_count++ : kMaxTypes - 1;
  g_types[slot] = type;
  params->struct_size = TP_OPTIMIZER_REGISTRATION_PARAMS_STRUCT_SIZE;
  params->device_type = type;
  params->optimizer_configs->struct_size = TP_OPTIMIZER_CONFIGS_STRUCT_SIZE;
  // It rewrites large sums and swaps tensors with ops that have kernels for TensorFlow's own devices only.
  params->optimizer_configs->memory_optimization = TF_TriState_Off;
  params->optimizer->struct_size = TP_OPTIMIZER_STRUCT_SIZE;
  params->optimizer->create_func = [] { return static_cast<void*>(nullptr); };
  params->optimizer->optimize_func = kPasses[static_cast<size_t>(slot)];
  params->optimizer->destroy_func = [](void*) {};
}

}  // namespace unihal::tensorflow
