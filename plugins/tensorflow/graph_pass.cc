#include "plugins/tensorflow/graph_pass.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugins/tensorflow/fallback.h"
#include "plugins/tensorflow/fusion.h"
#include "plugins/tensorflow/graph.h"
#include "unihal/fallback.h"

namespace unihal::tensorflow {
namespace {

// TensorFlow runs the pass more than once over a graph; each set of fallen nodes counts once.
bool is_new(const std::string& fallen) {
  static std::mutex mutex;
  static auto* seen = new std::set<size_t>;
  std::lock_guard<std::mutex> lock(mutex);
  return seen->insert(std::hash<std::string>()(fallen)).second;
}

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

// Counts ops on the CPU beside the device, and moves them to the device where a fallback is an error: there TensorFlow
// finds no kernel, and its error then names the op. An error returned from a graph pass would be logged and dropped.
void handle_fallbacks(Graph& graph, const char* type) {
  std::map<std::string_view, int> beside_device;  // name of a node on the CPU with an edge from or to the device
  std::map<std::string_view, std::string_view> devices;
  for (int index = 0; index < graph.size(); ++index) {
    const Graph::Node& node = graph[index];
    for (const Graph::Edge& edge : node.inputs) {
      const Graph::Node& producer = graph[edge.node];
      if (is_on(node.device, "CPU") && is_on(producer.device, type)) {
        beside_device[node.name] = index;
        devices[node.name] = producer.device;
      }
      if (is_on(producer.device, "CPU") && is_on(node.device, type)) {
        beside_device[producer.name] = edge.node;
        devices[producer.name] = node.device;
      }
    }
  }
  struct Fallen {
    int node;
    TF_DataType dtype;
    const char* reason;
  };
  std::vector<Fallen> fallen;
  std::string signature = type;
  for (const auto& [name, index] : beside_device) {
    const TF_DataType dtype = graph.main_type(index);
    const char* reason = nullptr;
    if (!is_fallback(type, graph[index].op, dtype, &reason)) continue;
    fallen.push_back({index, dtype, reason});
    signature += "," + std::string(name) + ":" + std::string(graph[index].op);
  }
  const bool counts = !fallen.empty() && is_new(signature);
  for (const Fallen& one : fallen) {
    std::string ignored;
    if (counts) record_fallback(graph[one.node].op, one.dtype, one.reason, &ignored);
    if (uhal_strict() != 0) graph.move(one.node, devices[graph[one.node].name]);
  }
}

// The adapter has made sure that the value makes sense.
bool fusion_is_wanted() {
  const char* value = std::getenv("UNIHAL_TENSORFLOW_FUSION");
  return value == nullptr || std::strcmp(value, "0") != 0;
}

void optimize(const char* type, const TF_GrapplerItem* item, const TF_Buffer* in, TF_Buffer* out) {
  std::string names;
  std::set<std::string_view> preserved;
  const bool may_fuse = fusion_is_wanted() && find_preserved(item, &names, &preserved);
  Graph graph(std::string_view(static_cast<const char*>(in->data), in->length), std::move(preserved));
  handle_fallbacks(graph, type);
  if (may_fuse) fuse(graph, type);
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
