#include "plugins/tensorflow/graph_pass.h"

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
#include "plugins/tensorflow/protobuf.h"
#include "unihal/fallback.h"

namespace unihal::tensorflow {
namespace {

enum { kGraphNode = 1 };
enum { kNodeName = 1, kNodeOp = 2, kNodeInput = 3, kNodeDevice = 4, kNodeAttribute = 5 };
enum { kEntryKey = 1, kEntryValue = 2 };
enum { kAttrValueType = 6 };

struct Node {
  std::string_view name, op, device;
  std::string_view raw;  // the NodeDef field of the GraphDef, with its tag
  std::string_view message;
  std::vector<std::string_view> inputs;  // names of nodes
  TF_DataType dtype = static_cast<TF_DataType>(0);
};

// The name of the node behind an input ("^name" or "name:output").
std::string_view node_of(std::string_view input) {
  if (!input.empty() && input.front() == '^') input.remove_prefix(1);
  return input.substr(0, input.find(':'));
}

// The type attribute that says most about an op: attributes come in no order, so by preference.
int preference(std::string_view attribute) {
  static constexpr std::string_view kOrder[] = {"T", "dtype", "SrcT", "Tparams"};
  for (size_t i = 0; i < std::size(kOrder); ++i) {
    if (attribute == kOrder[i]) return static_cast<int>(i);
  }
  return static_cast<int>(std::size(kOrder));
}

Node parse_node(std::string_view message) {
  Node node;
  node.message = message;
  int best = 100;
  ProtobufReader fields(message);
  while (fields.next()) {
    switch (fields.number()) {
      case kNodeName:
        node.name = fields.bytes();
        break;
      case kNodeOp:
        node.op = fields.bytes();
        break;
      case kNodeInput:
        node.inputs.push_back(node_of(fields.bytes()));
        break;
      case kNodeDevice:
        node.device = fields.bytes();
        break;
      case kNodeAttribute: {
        std::string_view key, value;
        ProtobufReader entry(fields.bytes());
        while (entry.next()) (entry.number() == kEntryKey ? key : value) = entry.bytes();
        ProtobufReader attribute(value);
        while (attribute.next()) {
          if (attribute.number() != kAttrValueType || preference(key) >= best) continue;
          best = preference(key);
          node.dtype = static_cast<TF_DataType>(attribute.value());
        }
        break;
      }
      default:
        break;
    }
  }
  return node;
}

bool is_on(const Node& node, std::string_view type) {
  const std::string part = "/device:" + std::string(type) + ":";
  return node.device.find(part) != std::string_view::npos;
}

// TensorFlow runs the pass more than once over a graph; each set of fallen nodes counts once.
bool is_new(const std::string& fallen) {
  static std::mutex mutex;
  static auto* seen = new std::set<size_t>;
  std::lock_guard<std::mutex> lock(mutex);
  return seen->insert(std::hash<std::string>()(fallen)).second;
}

void append_varint(std::string* out, uint64_t value) {
  for (; value >= 128; value >>= 7) out->push_back(static_cast<char>(value | 128));
  out->push_back(static_cast<char>(value));
}
void append_bytes(std::string* out, int number, std::string_view bytes) {
  append_varint(out, static_cast<uint64_t>(number) << 3 | 2);
  append_varint(out, bytes.size());
  out->append(bytes);
}

// The graph with fallen nodes moved to the device, where TensorFlow finds no kernel: its error then names the op.
// An error returned from a graph pass would be logged and dropped.
std::string moved_to_device(std::string_view graph, const std::set<std::string_view>& fallen,
                            const std::string& device) {
  std::string result;
  result.reserve(graph.size() + 64 * fallen.size());
  ProtobufReader fields(graph);
  while (fields.next()) {
    const bool moves = fields.number() == kGraphNode && fallen.count(parse_node(fields.bytes()).name) != 0;
    if (!moves) {
      result.append(fields.raw());
      continue;
    }
    std::string node(fields.bytes());
    append_bytes(&node, kNodeDevice, device);  // the last value of a field holds
    append_bytes(&result, kGraphNode, node);
  }
  return result;
}

void optimize(const char* type, const TF_Buffer* in, TF_Buffer* out) {
  const std::string_view graph(static_cast<const char*>(in->data), in->length);
  std::vector<Node> nodes;
  ProtobufReader fields(graph);
  while (fields.next()) {
    if (fields.number() == kGraphNode) nodes.push_back(parse_node(fields.bytes()));
  }
  std::map<std::string_view, const Node*> by_name;
  for (const Node& node : nodes) by_name[node.name] = &node;
  // Nodes on the CPU with an edge from or to the device.
  std::map<std::string_view, std::string_view> beside_device;  // name of the node -> the device
  for (const Node& node : nodes) {
    for (std::string_view input : node.inputs) {
      const auto found = by_name.find(input);
      if (found == by_name.end()) continue;
      const Node& producer = *found->second;
      if (is_on(node, "CPU") && is_on(producer, type)) beside_device[node.name] = producer.device;
      if (is_on(producer, "CPU") && is_on(node, type)) beside_device[producer.name] = node.device;
    }
  }
  std::set<std::string_view> fallen;
  std::string signature = type;
  std::string device;
  for (const auto& [name, on] : beside_device) {
    const Node& node = *by_name[name];
    const char* reason = nullptr;
    if (!is_fallback(type, node.op, node.dtype, &reason)) continue;
    fallen.insert(name);
    device = on;
    signature += "," + std::string(name) + ":" + std::string(node.op);
  }
  if (!fallen.empty() && is_new(signature)) {
    for (std::string_view name : fallen) {
      const char* reason = nullptr;
      std::string ignored;
      is_fallback(type, by_name[name]->op, by_name[name]->dtype, &reason);
      record_fallback(by_name[name]->op, by_name[name]->dtype, reason, &ignored);
    }
  }
  const std::string result =
      !fallen.empty() && uhal_strict() != 0 ? moved_to_device(graph, fallen, device) : std::string(graph);
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
void run_pass(void*, const TF_Buffer* in, const TF_GrapplerItem*, TF_Buffer* out, TF_Status* status) {
  try {
    optimize(g_types[kType], in, out);
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
