#include "plugins/tensorflow/graph.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <iterator>
#include <map>
#include <unordered_map>
#include <utility>

#include "plugins/tensorflow/protobuf.h"

namespace unihal::tensorflow {
namespace {

enum { kGraphNode = 1 };
enum { kNodeName = 1, kNodeOp = 2, kNodeInput = 3, kNodeDevice = 4, kNodeAttribute = 5 };
enum { kEntryKey = 1, kEntryValue = 2 };
enum {
  kValueList = 1,
  kValueString = 2,
  kValueInteger = 3,
  kValueFloat = 4,
  kValueBool = 5,
  kValueType = 6,
  kValueTensor = 8
};
enum { kListIntegers = 3, kListFloats = 4, kListTypes = 6 };
enum { kShapeDimension = 2, kDimensionSize = 1 };
enum {
  kTensorType = 1,
  kTensorShape = 2,
  kTensorContent = 4,
  kTensorFloats = 5,
  kTensorIntegers = 7,
  kTensorLongs = 10,
  kTensorBooleans = 11,
  kTensorHalves = 13
};

struct Entry {
  std::string_view name;
  std::string_view value;
};

Entry parse_entry(std::string_view message) {
  Entry entry;
  ProtobufReader fields(message);
  while (fields.next()) (fields.number() == kEntryKey ? entry.name : entry.value) = fields.bytes();
  return entry;
}

TF_DataType type_of(std::string_view value) {
  TF_DataType type = static_cast<TF_DataType>(0);
  ProtobufReader fields(value);
  while (fields.next()) {
    if (fields.number() == kValueType) type = static_cast<TF_DataType>(fields.value());
  }
  return type;
}

// By its bits; exact.
float half_to_float(uint16_t bits) {
  const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
  float magnitude =
      std::ldexp(static_cast<float>(exponent == 0 ? fraction : fraction + 1024), std::max(exponent, 1) - 25);
  if (exponent == 31) magnitude = fraction == 0 ? INFINITY : NAN;
  return (bits & 0x8000) == 0 ? magnitude : -magnitude;
}

float bfloat16_to_float(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value = 0;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

bool is_half(TF_DataType type) { return type == TF_HALF || type == TF_BFLOAT16; }

// The field of a tensor of this type that has its values where they are no bytes.
int values_field(TF_DataType type) {
  if (type == TF_FLOAT) return kTensorFloats;
  if (type == TF_INT64) return kTensorLongs;
  if (type == TF_BOOL) return kTensorBooleans;
  return is_half(type) ? kTensorHalves : kTensorIntegers;
}

}  // namespace

bool is_on(std::string_view device, std::string_view type) {
  const std::string part = "/device:" + std::string(type) + ":";
  return device.find(part) != std::string_view::npos;
}

Graph::Graph(std::string_view definition, std::set<std::string_view> preserved)
    : definition_(definition), preserved_(std::move(preserved)) {
  std::vector<std::vector<std::string_view>> inputs;
  ProtobufReader fields(definition);
  while (fields.next()) {
    if (fields.number() != kGraphNode) continue;
    Node& node = nodes_.emplace_back();
    Source& source = sources_.emplace_back();
    source.message = fields.bytes();
    std::vector<std::string_view>& names = inputs.emplace_back();
    ProtobufReader parts(source.message);
    while (parts.next()) {
      if (parts.number() == kNodeName) node.name = parts.bytes();
      if (parts.number() == kNodeOp) node.op = parts.bytes();
      if (parts.number() == kNodeDevice) node.device = parts.bytes();
      if (parts.number() == kNodeInput) names.push_back(parts.bytes());
    }
    is_function_ |= node.op == "_Arg" || node.op == "_Retval";
  }
  connect(inputs);
}

// Inputs are written "name", "name:port" or "^name".
void Graph::connect(const std::vector<std::vector<std::string_view>>& inputs) {
  std::unordered_map<std::string_view, int> by_name;
  for (int i = 0; i < size(); ++i) by_name[nodes_[static_cast<size_t>(i)].name] = i;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    for (std::string_view text : inputs[i]) {
      Edge edge = {0, 0};
      if (!text.empty() && text.front() == '^') {
        edge.port = kControl;
        text.remove_prefix(1);
      } else if (const size_t colon = text.find(':'); colon != std::string_view::npos) {
        std::from_chars(text.data() + colon + 1, text.data() + text.size(), edge.port);
        text = text.substr(0, colon);
      }
      const auto found = by_name.find(text);
      if (found == by_name.end()) {
        complete_ = false;
        continue;
      }
      edge.node = found->second;
      nodes_[i].inputs.push_back(edge);
      nodes_[static_cast<size_t>(edge.node)].consumers.push_back(static_cast<int>(i));
    }
  }
}

// -- attributes ---------------------------------------------------------------------------------------------

// A message with the attributes of a node.
std::string_view Graph::definition_of(int node) const {
  const Source& source = sources_[static_cast<size_t>(node)];
  return source.op_changed ? std::string_view(source.attributes) : source.message;
}

std::string_view Graph::attribute(int node, std::string_view name) const {
  std::string_view value;
  ProtobufReader fields(definition_of(node));
  while (fields.next()) {
    if (fields.number() != kNodeAttribute) continue;
    const Entry entry = parse_entry(fields.bytes());
    if (entry.name == name) value = entry.value;
  }
  return value;
}

TF_DataType Graph::type_attribute(int node, std::string_view name) const { return type_of(attribute(node, name)); }

TF_DataType Graph::main_type(int node) const {
  static constexpr std::string_view kPreferred[] = {"T", "dtype", "SrcT", "Tparams"};
  TF_DataType best = static_cast<TF_DataType>(0);
  std::ptrdiff_t best_rank = std::size(kPreferred) + 1;
  ProtobufReader fields(definition_of(node));
  while (fields.next()) {
    if (fields.number() != kNodeAttribute) continue;
    const Entry entry = parse_entry(fields.bytes());
    const TF_DataType type = type_of(entry.value);
    const std::ptrdiff_t rank = std::find(std::begin(kPreferred), std::end(kPreferred), entry.name) - kPreferred;
    if (type == 0 || rank >= best_rank) continue;
    best = type;
    best_rank = rank;
  }
  return best;
}

Types Graph::types(int node) const {
  Types result;
  ProtobufReader fields(definition_of(node));
  while (fields.next()) {
    if (fields.number() != kNodeAttribute) continue;
    const Entry entry = parse_entry(fields.bytes());
    std::vector<TF_DataType> types = parse_types(entry.value);
    if (!types.empty()) result.emplace(entry.name, std::move(types));
  }
  return result;
}

bool Graph::find_tensor(int node, std::string_view* tensor) const {
  if ((*this)[node].op != "Const" || is_exposed(node)) return false;
  ProtobufReader fields(attribute(node, "value"));
  while (fields.next()) {
    if (fields.number() == kValueTensor) *tensor = fields.bytes();
  }
  return true;
}

// Finds the value of a scalar constant, as raw bytes or as the field for its type; both are left out for a zero.
bool Graph::find_constant(int node, TF_DataType type, std::string_view* content, std::string_view* values) const {
  std::string_view tensor;
  if (!find_tensor(node, &tensor)) return false;
  bool fits = false;
  bool scalar = true;
  ProtobufReader parts(tensor);
  while (parts.next()) {
    if (parts.number() == kTensorType) fits = static_cast<TF_DataType>(parts.value()) == type;
    if (parts.number() == kTensorShape) scalar = parts.bytes().empty();
    if (parts.number() == kTensorContent) *content = parts.bytes();
    if (parts.number() == values_field(type)) *values = parts.bytes();
  }
  return fits && scalar;
}

bool Graph::scalar_constant(int node, float* value) const {
  std::string_view content, values;
  if (!find_constant(node, TF_FLOAT, &content, &values)) return false;
  const std::string_view bytes = values.empty() ? content : values;
  if (!bytes.empty() && bytes.size() != sizeof *value) return false;
  *value = 0;
  std::memcpy(value, bytes.data(), bytes.size());
  return true;
}

bool Graph::scalar_constant(int node, TF_DataType type, float* value) const {
  if (type == TF_FLOAT) return scalar_constant(node, value);
  std::string_view content, values;
  if (!is_half(type) || !find_constant(node, type, &content, &values)) return false;
  uint16_t bits = 0;
  if (!content.empty() && content.size() != sizeof bits) return false;
  std::memcpy(&bits, content.data(), content.size());
  if (!values.empty()) bits = static_cast<uint16_t>(read_varint(values));
  *value = type == TF_HALF ? half_to_float(bits) : bfloat16_to_float(bits);
  return true;
}

bool Graph::scalar_constant(int node, int32_t* value) const {
  std::string_view content, values;
  if (!find_constant(node, TF_INT32, &content, &values)) return false;
  if (!content.empty() && content.size() != sizeof *value) return false;
  *value = 0;
  std::memcpy(value, content.data(), content.size());
  if (!values.empty()) *value = static_cast<int32_t>(read_varint(values));
  return true;
}

bool Graph::scalar_constant(int node, int64_t* value) const {
  std::string_view content, values;
  if (!find_constant(node, TF_INT64, &content, &values)) return false;
  if (!content.empty() && content.size() != sizeof *value) return false;
  *value = 0;
  std::memcpy(value, content.data(), content.size());
  if (!values.empty()) *value = static_cast<int64_t>(read_varint(values));
  return true;
}

bool Graph::scalar_constant(int node, bool* value) const {
  std::string_view content, values;
  if (!find_constant(node, TF_BOOL, &content, &values)) return false;
  *value = (!content.empty() && content[0] != 0) || (!values.empty() && read_varint(values) != 0);
  return true;
}

namespace {

void append_varints(std::string_view packed, std::vector<int64_t>* values) {
  while (!packed.empty()) {
    values->push_back(static_cast<int64_t>(read_varint(packed)));
    size_t size = 1;
    while (size < packed.size() && (static_cast<uint8_t>(packed[size - 1]) & 128) != 0) ++size;
    packed.remove_prefix(size);
  }
}

}  // namespace

bool Graph::truth_constant(int node, std::vector<int64_t>* shape, std::vector<char>* values) const {
  constexpr int64_t kMost = int64_t{1} << 26;
  std::string_view tensor;
  if (!find_tensor(node, &tensor)) return false;
  bool fits = false;
  int64_t count = 1;
  shape->clear();
  values->clear();
  ProtobufReader parts(tensor);
  while (parts.next()) {
    if (parts.number() == kTensorType) fits = static_cast<TF_DataType>(parts.value()) == TF_BOOL;
    if (parts.number() == kTensorShape) {
      ProtobufReader dimensions(parts.bytes());
      while (dimensions.next()) {
        if (dimensions.number() != kShapeDimension) continue;
        int64_t length = 0;
        ProtobufReader sizes(dimensions.bytes());
        while (sizes.next()) {
          if (sizes.number() == kDimensionSize) length = static_cast<int64_t>(sizes.value());
        }
        if (length < 0 || length > kMost) return false;
        shape->push_back(length);
        count *= length;
        if (count > kMost) return false;
      }
    }
    if (parts.number() == kTensorContent) values->assign(parts.bytes().begin(), parts.bytes().end());
    if (parts.number() == values_field(TF_BOOL) && !parts.bytes().empty()) {
      values->insert(values->end(), parts.bytes().begin(), parts.bytes().end());  // a varint of 0 or 1 is a byte
    }
    if (parts.number() == values_field(TF_BOOL) && parts.bytes().empty()) {
      values->push_back(static_cast<char>(parts.value()));
    }
  }
  if (!fits) return false;
  values->resize(static_cast<size_t>(count), values->empty() ? 0 : values->back());
  return true;
}

bool Graph::vector_constant(int node, std::vector<int64_t>* values) const {
  values->clear();
  std::string_view tensor;
  if (!find_tensor(node, &tensor)) return false;
  bool fits = false;
  int64_t length = -1;
  int rank = 0;
  ProtobufReader parts(tensor);
  while (parts.next()) {
    if (parts.number() == kTensorType) fits = static_cast<TF_DataType>(parts.value()) == TF_INT32;
    if (parts.number() == kTensorShape) {
      ProtobufReader dimensions(parts.bytes());
      while (dimensions.next()) {
        if (dimensions.number() != kShapeDimension) continue;
        ++rank;
        length = 0;
        ProtobufReader sizes(dimensions.bytes());
        while (sizes.next()) {
          if (sizes.number() == kDimensionSize) length = static_cast<int64_t>(sizes.value());
        }
      }
    }
    if (parts.number() == kTensorContent) {
      for (size_t at = 0; at + sizeof(int32_t) <= parts.bytes().size(); at += sizeof(int32_t)) {
        int32_t value;
        std::memcpy(&value, parts.bytes().data() + at, sizeof value);
        values->push_back(value);
      }
    }
    if (parts.number() == kTensorIntegers && !parts.bytes().empty()) append_varints(parts.bytes(), values);
    if (parts.number() == kTensorIntegers && parts.bytes().empty()) {
      values->push_back(static_cast<int64_t>(parts.value()));
    }
  }
  if (!fits || rank != 1 || length < 0 || length > 64) return false;
  // What is left out repeats the last value, or is zero.
  values->resize(static_cast<size_t>(length), values->empty() ? 0 : values->back());
  return true;
}

std::string_view Graph::text(int node, std::string_view name) const {
  std::string_view value;
  ProtobufReader fields(attribute(node, name));
  while (fields.next()) {
    if (fields.number() == kValueString) value = fields.bytes();
  }
  return value;
}

bool Graph::flag(int node, std::string_view name) const {
  bool value = false;
  ProtobufReader fields(attribute(node, name));
  while (fields.next()) {
    if (fields.number() == kValueBool) value = fields.value() != 0;
  }
  return value;
}

int64_t Graph::integer(int node, std::string_view name) const {
  int64_t value = 0;
  ProtobufReader fields(attribute(node, name));
  while (fields.next()) {
    if (fields.number() == kValueInteger) value = static_cast<int64_t>(fields.value());
  }
  return value;
}

float Graph::real(int node, std::string_view name) const {
  float value = 0;
  ProtobufReader fields(attribute(node, name));
  while (fields.next()) {
    if (fields.number() == kValueFloat) std::memcpy(&value, fields.bytes().data(), sizeof value);
  }
  return value;
}

std::vector<int64_t> Graph::integers(int node, std::string_view name) const {
  std::vector<int64_t> values;
  ProtobufReader fields(attribute(node, name));
  while (fields.next()) {
    if (fields.number() != kValueList) continue;
    ProtobufReader entries(fields.bytes());
    while (entries.next()) {
      if (entries.number() != kListIntegers) continue;
      if (entries.bytes().empty()) {
        values.push_back(static_cast<int64_t>(entries.value()));
      } else {
        append_varints(entries.bytes(), &values);
      }
    }
  }
  return values;
}

Graph::Attributes Graph::attributes_of(int node) const {
  std::map<std::string_view, std::string_view> sorted;
  ProtobufReader fields(definition_of(node));
  while (fields.next()) {
    if (fields.number() != kNodeAttribute) continue;
    const Entry entry = parse_entry(fields.bytes());
    if (!entry.name.empty() && entry.name.front() != '_') sorted[entry.name] = entry.value;
  }
  Attributes attributes;
  for (const auto& [name, value] : sorted) attributes.set(name, value);
  return attributes;
}

void Graph::Attributes::set(std::string_view name, std::string_view value) {
  std::string entry;
  append_bytes(&entry, kEntryKey, name);
  append_bytes(&entry, kEntryValue, value);
  append_bytes(&encoded_, kNodeAttribute, entry);
}

void Graph::Attributes::set_type(std::string_view name, TF_DataType value) {
  std::string encoded;
  append_integer(&encoded, kValueType, static_cast<uint64_t>(value));
  set(name, encoded);
}

void Graph::Attributes::set_float(std::string_view name, float value) {
  std::string encoded;
  append_float(&encoded, kValueFloat, value);
  set(name, encoded);
}

void Graph::Attributes::set_bool(std::string_view name, bool value) {
  std::string encoded;
  append_integer(&encoded, kValueBool, value ? 1 : 0);
  set(name, encoded);
}

void Graph::Attributes::set_integer(std::string_view name, int64_t value) {
  std::string encoded;
  append_integer(&encoded, kValueInteger, static_cast<uint64_t>(value));
  set(name, encoded);
}

void Graph::Attributes::set_types(std::string_view name, const std::vector<TF_DataType>& values) {
  std::string list, encoded;
  for (TF_DataType value : values) append_integer(&list, kListTypes, static_cast<uint64_t>(value));
  append_bytes(&encoded, kValueList, list);
  set(name, encoded);
}

void Graph::Attributes::set_integers(std::string_view name, const std::vector<int64_t>& values) {
  std::string list, encoded;
  for (int64_t value : values) append_integer(&list, kListIntegers, static_cast<uint64_t>(value));
  append_bytes(&encoded, kValueList, list);
  set(name, encoded);
}

void Graph::Attributes::set_floats(std::string_view name, const std::vector<float>& values) {
  std::string list, encoded;
  for (float value : values) append_float(&list, kListFloats, value);
  append_bytes(&encoded, kValueList, list);
  set(name, encoded);
}

void Graph::Attributes::set_vector(std::string_view name, const std::vector<int64_t>& values) {
  std::string size, shape, content, tensor, encoded;
  append_integer(&size, kDimensionSize, values.size());
  append_bytes(&shape, kShapeDimension, size);
  for (int64_t value : values) {
    const auto narrow = static_cast<int32_t>(value);
    content.append(reinterpret_cast<const char*>(&narrow), sizeof narrow);
  }
  append_integer(&tensor, kTensorType, static_cast<uint64_t>(TF_INT32));
  append_bytes(&tensor, kTensorShape, shape);
  append_bytes(&tensor, kTensorContent, content);
  append_bytes(&encoded, kValueTensor, tensor);
  set(name, encoded);
}

// -- rewriting ----------------------------------------------------------------------------------------------

namespace {

void add_once(std::vector<Graph::Edge>* edges, const Graph::Edge& edge) {
  if (std::find(edges->begin(), edges->end(), edge) == edges->end()) edges->push_back(edge);
}

void remove_one(std::vector<int>* values, int value) {
  const auto found = std::find(values->begin(), values->end(), value);
  if (found != values->end()) values->erase(found);
}

}  // namespace

bool Graph::can_become_one(const std::vector<int>& nodes, const std::vector<Edge>& inputs) const {
  std::vector<char> inside(nodes_.size()), after(nodes_.size()), seen(nodes_.size());
  for (int node : nodes) inside[static_cast<size_t>(node)] = 1;
  for (int node : nodes) {
    for (int consumer : (*this)[node].consumers) after[static_cast<size_t>(consumer)] = 1;
  }
  std::vector<int> before;
  const auto visit = [&](int node) {
    if (!inside[static_cast<size_t>(node)] && !std::exchange(seen[static_cast<size_t>(node)], 1))
      before.push_back(node);
  };
  for (const Edge& edge : inputs) visit(edge.node);
  for (int node : nodes) {
    for (const Edge& edge : (*this)[node].inputs) visit(edge.node);
  }
  while (!before.empty()) {
    const int node = before.back();
    before.pop_back();
    if (after[static_cast<size_t>(node)]) return false;
    for (const Edge& edge : (*this)[node].inputs) visit(edge.node);
  }
  return true;
}

bool Graph::replace(const std::vector<int>& nodes, const char* op, const std::vector<Edge>& inputs,
                    const Attributes& attributes) {
  const int root = nodes.front();
  const auto is_inside = [&](int node) { return std::find(nodes.begin(), nodes.end(), node) != nodes.end(); };
  for (int node : nodes) {
    if (node == root) continue;
    if (is_exposed(node)) return false;
    for (int consumer : (*this)[node].consumers) {
      if (is_inside(consumer)) continue;
      for (const Edge& edge : (*this)[consumer].inputs) {
        if (edge.node == node && edge.port != kControl) return false;
      }
    }
  }
  if (!can_become_one(nodes, inputs)) return false;

  std::vector<Edge> all = inputs;
  const auto wait_for = [&](int node) {
    if (!is_inside(node)) add_once(&all, {node, kControl});
  };
  for (int node : nodes) {
    for (const Edge& edge : (*this)[node].inputs) {
      if (std::find(inputs.begin(), inputs.end(), edge) != inputs.end()) continue;
      if (edge.port == kControl || (*this)[edge.node].op != "Const") {
        wait_for(edge.node);
      } else {
        for (const Edge& before : (*this)[edge.node].inputs) wait_for(before.node);
      }
    }
  }
  for (int node : nodes) disconnect(node);
  become(root, op, all, attributes.encoded());
  for (int node : nodes) {
    if (node != root) retire(node, root);
  }
  return true;
}

bool Graph::is_exposed(int node) const { return is_preserved(node) && !is_function_; }

// Removes a node without inputs, in whose place `successor` stands.
void Graph::retire(int node, int successor) {
  redirect(node, successor);
  if (is_preserved(node)) {
    become(node, "NoOp", {{successor, kControl}}, "");
  } else {
    nodes_[static_cast<size_t>(node)].removed = true;
  }
}

// Makes another op of a node without inputs.
void Graph::become(int node, const char* op, const std::vector<Edge>& inputs, const std::string& attributes) {
  Node& self = nodes_[static_cast<size_t>(node)];
  self.op = op;
  self.inputs = inputs;
  for (const Edge& edge : inputs) nodes_[static_cast<size_t>(edge.node)].consumers.push_back(node);
  Source& source = sources_[static_cast<size_t>(node)];
  source.op_changed = source.inputs_changed = true;
  source.attributes = attributes;
}

// Takes a node's inputs away.
void Graph::disconnect(int node) {
  Node& self = nodes_[static_cast<size_t>(node)];
  for (const Edge& edge : self.inputs) remove_one(&nodes_[static_cast<size_t>(edge.node)].consumers, node);
  self.inputs.clear();
}

// Lets everything that depends on `from` depend on `to` instead.
void Graph::redirect(int from, int to) {
  const std::vector<int> entries = std::exchange(nodes_[static_cast<size_t>(from)].consumers, {});
  std::vector<int>& consumers = nodes_[static_cast<size_t>(to)].consumers;
  for (int consumer : std::set<int>(entries.begin(), entries.end())) {
    std::vector<Edge> inputs;
    for (Edge edge : (*this)[consumer].inputs) {
      if (edge.node == from) edge.node = to;
      if (edge.port == kControl) {
        add_once(&inputs, edge);
      } else {
        inputs.push_back(edge);
      }
    }
    consumers.erase(std::remove(consumers.begin(), consumers.end(), consumer), consumers.end());
    for (const Edge& edge : inputs) {
      if (edge.node == to) consumers.push_back(consumer);
    }
    nodes_[static_cast<size_t>(consumer)].inputs = std::move(inputs);
    sources_[static_cast<size_t>(consumer)].inputs_changed = true;
  }
}

int Graph::add(const std::string& name, const char* op, std::string_view device, const std::vector<Edge>& inputs,
               const Attributes& attributes) {
  const auto is_taken = [this](const std::string& text) {
    return std::any_of(nodes_.begin(), nodes_.end(), [&](const Node& node) { return node.name == text; });
  };
  std::string unique = name;
  for (int i = 1; is_taken(unique); ++i) unique = name + "_" + std::to_string(i);
  Node& node = nodes_.emplace_back();
  sources_.emplace_back().is_new = true;
  node.name = texts_.emplace_back(unique);
  node.device = device;
  become(size() - 1, op, inputs, attributes.encoded());
  return size() - 1;
}

int Graph::contract(const std::string& name, const char* op, const std::vector<int>& nodes,
                    const std::vector<Edge>& inputs, const std::vector<Edge>& results, const Attributes& attributes) {
  const auto is_inside = [&](int node) { return std::find(nodes.begin(), nodes.end(), node) != nodes.end(); };
  std::vector<Edge> all = inputs;
  for (int node : nodes) {
    for (const Edge& edge : (*this)[node].inputs) {
      if (is_inside(edge.node) || std::find(inputs.begin(), inputs.end(), edge) != inputs.end()) continue;
      if (edge.port == kControl || (*this)[edge.node].op != "Const") {
        add_once(&all, {edge.node, kControl});
      } else {
        for (const Edge& before : (*this)[edge.node].inputs) add_once(&all, {before.node, kControl});
      }
    }
  }
  for (int node : nodes) disconnect(node);
  const int made = add(name, op, (*this)[nodes.front()].device, all, attributes);
  for (size_t i = 0; i < results.size(); ++i) redirect_data(results[i], {made, static_cast<int>(i)});
  for (int node : nodes) retire(node, made);
  return made;
}

void Graph::redirect_data(const Edge& from, const Edge& to) {
  const std::vector<int> entries = (*this)[from.node].consumers;
  for (int consumer : std::set<int>(entries.begin(), entries.end())) {
    std::vector<Edge> inputs = (*this)[consumer].inputs;
    if (std::find(inputs.begin(), inputs.end(), from) == inputs.end()) continue;
    std::replace(inputs.begin(), inputs.end(), from, to);
    set_inputs(consumer, inputs);
  }
}

void Graph::rewrite(int node, const char* op, const std::vector<Edge>& inputs, const Attributes& attributes) {
  std::vector<Edge> all = inputs;
  for (const Edge& edge : (*this)[node].inputs) {
    if (edge.port == kControl) add_once(&all, edge);
  }
  disconnect(node);
  become(node, op, all, attributes.encoded());
}

void Graph::extend(int node, const char* op, const std::vector<Edge>& further) {
  std::vector<Edge> all = (*this)[node].inputs;
  const auto first_control =
      std::find_if(all.begin(), all.end(), [](const Edge& edge) { return edge.port == kControl; });
  all.insert(first_control, further.begin(), further.end());
  const std::string attributes = sources_[static_cast<size_t>(node)].attributes;
  disconnect(node);
  become(node, op, all, attributes);
}

// The edges with which a node's consumer waits for what the node waits for. A constant is never waited for by itself.
std::vector<Graph::Edge> Graph::waits_of(int node) const {
  std::vector<Edge> waits;
  for (const Edge& edge : (*this)[node].inputs) {
    if ((*this)[edge.node].op != "Const") {
      add_once(&waits, {edge.node, kControl});
    } else {
      for (const Edge& source : (*this)[edge.node].inputs) add_once(&waits, {source.node, kControl});
    }
  }
  return waits;
}

void Graph::absorb(int node, int into) {
  const std::vector<Edge> before = waits_of(node);
  const std::vector<int> entries = (*this)[node].consumers;
  for (int consumer : std::set<int>(entries.begin(), entries.end())) {
    const bool is_before = consumer == into || leads_to({{consumer, kControl}, {consumer, 0}}, {{into, 0}});
    std::vector<Edge> inputs;
    for (const Edge& edge : (*this)[consumer].inputs) {
      if (edge.node != node) inputs.push_back(edge);
    }
    if (is_before) {
      for (const Edge& edge : before) add_once(&inputs, edge);
    } else {
      add_once(&inputs, {into, kControl});
    }
    set_inputs(consumer, inputs);
  }
  disconnect(node);
  retire(node, into);
}

void Graph::set_inputs(int node, const std::vector<Edge>& inputs) {
  disconnect(node);
  for (const Edge& edge : inputs) nodes_[static_cast<size_t>(edge.node)].consumers.push_back(node);
  nodes_[static_cast<size_t>(node)].inputs = inputs;
  sources_[static_cast<size_t>(node)].inputs_changed = true;
}

bool Graph::leads_to(const std::vector<Edge>& from, const std::vector<Edge>& to) const {
  std::vector<char> seen(nodes_.size());
  std::vector<int> waiting;
  for (const Edge& edge : from) {
    for (int consumer : (*this)[edge.node].consumers) {
      for (const Edge& input : (*this)[consumer].inputs) {
        if (input == edge || input == Edge{edge.node, kControl}) waiting.push_back(consumer);
      }
    }
  }
  while (!waiting.empty()) {
    const int node = waiting.back();
    waiting.pop_back();
    if (std::exchange(seen[static_cast<size_t>(node)], 1)) continue;
    for (int consumer : (*this)[node].consumers) waiting.push_back(consumer);
  }
  return std::any_of(to.begin(), to.end(), [&](const Edge& edge) { return seen[static_cast<size_t>(edge.node)] != 0; });
}

void Graph::prune(const std::vector<int>& nodes, const std::set<std::string_view>& ops) {
  std::vector<int> candidates = nodes;
  while (!candidates.empty()) {
    const int index = candidates.back();
    candidates.pop_back();
    const Node& node = (*this)[index];
    if (node.removed || ops.count(node.op) == 0 || is_preserved(index)) continue;
    const std::vector<int> consumers = node.consumers;
    const bool is_read = std::any_of(consumers.begin(), consumers.end(), [&](int consumer) {
      const std::vector<Edge>& inputs = (*this)[consumer].inputs;
      return std::any_of(inputs.begin(), inputs.end(),
                         [&](const Edge& edge) { return edge.node == index && edge.port != kControl; });
    });
    if (is_read) continue;
    const std::vector<Edge> before = node.inputs;
    const std::vector<Edge> waits = waits_of(index);
    for (int consumer : std::set<int>(consumers.begin(), consumers.end())) {
      std::vector<Edge> inputs;
      for (const Edge& edge : (*this)[consumer].inputs) {
        if (edge.node != index) inputs.push_back(edge);
      }
      for (const Edge& edge : waits) add_once(&inputs, edge);
      set_inputs(consumer, inputs);
    }
    disconnect(index);
    nodes_[static_cast<size_t>(index)].removed = true;
    for (const Edge& edge : before) candidates.push_back(edge.node);
  }
}

// What two nodes with the same result have in common.
std::string Graph::fingerprint(int node) const {
  const Node& self = (*this)[node];
  std::vector<Edge> inputs = self.inputs;
  const auto first_control =
      std::find_if(inputs.begin(), inputs.end(), [](const Edge& edge) { return edge.port == kControl; });
  std::sort(first_control, inputs.end(), [](const Edge& a, const Edge& b) { return a.node < b.node; });
  std::string result;
  append_bytes(&result, 1, self.op);
  append_bytes(&result, 1, self.device);
  for (const Edge& edge : inputs) result += std::to_string(edge.node) + ":" + std::to_string(edge.port) + ",";
  return result + attributes_of(node).encoded();
}

void Graph::merge_duplicates(const std::vector<int>& nodes, const std::set<std::string_view>& ops) {
  std::vector<char> wanted(nodes_.size());
  for (int node : nodes) wanted[static_cast<size_t>(node)] = ops.count((*this)[node].op) != 0;
  // In the order of execution: inputs are merged before what they feed is looked at.
  std::vector<int> waiting(nodes_.size()), ready;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    waiting[i] = static_cast<int>(nodes_[i].inputs.size());
    if (waiting[i] == 0 && !nodes_[i].removed) ready.push_back(static_cast<int>(i));
  }
  std::unordered_map<std::string, int> first;
  while (!ready.empty()) {
    const int node = ready.back();
    ready.pop_back();
    const std::vector<int> consumers = (*this)[node].consumers;
    if (wanted[static_cast<size_t>(node)] && !is_exposed(node)) {
      const auto [found, is_new] = first.emplace(fingerprint(node), node);
      if (!is_new) {
        disconnect(node);
        retire(node, found->second);
      }
    }
    for (int consumer : consumers) {
      if (--waiting[static_cast<size_t>(consumer)] == 0) ready.push_back(consumer);
    }
  }
}

void Graph::remove_unused(const std::vector<int>& nodes, const std::set<std::string_view>& ops) {
  const std::set<int> wanted(nodes.begin(), nodes.end());
  std::vector<int> candidates = nodes;
  while (!candidates.empty()) {
    const int index = candidates.back();
    candidates.pop_back();
    const Node& node = (*this)[index];
    if (node.removed || !node.consumers.empty() || ops.count(node.op) == 0) continue;
    if (wanted.count(index) == 0 || is_preserved(index)) continue;
    for (const Edge& edge : node.inputs) candidates.push_back(edge.node);
    disconnect(index);
    nodes_[static_cast<size_t>(index)].removed = true;
  }
}

void Graph::remove(const std::vector<int>& nodes) {
  for (int node : nodes) disconnect(node);
  for (int node : nodes) {
    const std::vector<int> readers = (*this)[node].consumers;
    for (int reader : readers) {
      std::vector<Edge> inputs = (*this)[reader].inputs;
      inputs.erase(std::remove_if(inputs.begin(), inputs.end(), [&](const Edge& edge) { return edge.node == node; }),
                   inputs.end());
      set_inputs(reader, inputs);
    }
    if (is_preserved(node)) {
      become(node, "NoOp", {}, "");
    } else {
      nodes_[static_cast<size_t>(node)].removed = true;
    }
  }
}

// Whether `to` waits for `from` by a way that does not lead through `around`, nor through what may be fed.
bool Graph::reaches(int from, int to, int around) const {
  std::vector<char> seen(nodes_.size());
  std::vector<int> waiting{to};
  while (!waiting.empty()) {
    const int node = waiting.back();
    waiting.pop_back();
    for (const Edge& edge : (*this)[node].inputs) {
      if (edge.node == from) return true;
      if (edge.node == around || is_exposed(edge.node)) continue;
      if (!std::exchange(seen[static_cast<size_t>(edge.node)], 1)) waiting.push_back(edge.node);
    }
  }
  return false;
}

void Graph::redirect_waits(int node, const std::vector<int>& nodes, int other) {
  const auto is_redirected = [&](const Edge& edge) {
    return edge.port == kControl && std::find(nodes.begin(), nodes.end(), edge.node) != nodes.end();
  };
  std::vector<Edge> inputs;
  std::remove_copy_if((*this)[node].inputs.begin(), (*this)[node].inputs.end(), std::back_inserter(inputs),
                      is_redirected);
  add_once(&inputs, {other, kControl});
  set_inputs(node, inputs);
}

void Graph::drop_implied_waits(int node) {
  if (is_preserved(node)) return;
  const Node& self = (*this)[node];
  const auto is_implied = [&](const Edge& edge) {
    if (edge.port != kControl || (*this)[edge.node].device == self.device) return false;
    return std::all_of(self.consumers.begin(), self.consumers.end(),
                       [&](int consumer) { return reaches(edge.node, consumer, node); });
  };
  std::vector<Edge> kept;
  std::remove_copy_if(self.inputs.begin(), self.inputs.end(), std::back_inserter(kept), is_implied);
  if (kept.size() == self.inputs.size()) return;
  disconnect(node);
  for (const Edge& edge : kept) nodes_[static_cast<size_t>(edge.node)].consumers.push_back(node);
  nodes_[static_cast<size_t>(node)].inputs = kept;
  sources_[static_cast<size_t>(node)].inputs_changed = true;
}

void Graph::mark(int node, std::string_view attribute) {
  Attributes marks;
  marks.set_bool(attribute, true);
  sources_[static_cast<size_t>(node)].marks += marks.encoded();
}

void Graph::move(int node, const std::string& device) {
  nodes_[static_cast<size_t>(node)].device = texts_.emplace_back(device);
  sources_[static_cast<size_t>(node)].device_changed = true;
}

// -- writing ------------------------------------------------------------------------------------------------

std::string Graph::encode(int node) const {
  const Node& self = (*this)[node];
  const Source& source = sources_[static_cast<size_t>(node)];
  if (!source.op_changed && !source.inputs_changed && !source.device_changed) {
    return std::string(source.message) + source.marks;
  }
  std::string result;
  if (source.is_new) {
    append_bytes(&result, kNodeName, self.name);
    append_bytes(&result, kNodeDevice, self.device);
  }
  ProtobufReader fields(source.message);
  while (fields.next()) {
    const int number = fields.number();
    const bool is_replaced = (source.op_changed && (number == kNodeOp || number == kNodeAttribute)) ||
                             (source.inputs_changed && number == kNodeInput) ||
                             (source.device_changed && number == kNodeDevice);
    if (!is_replaced) result.append(fields.raw());
  }
  if (source.op_changed) {
    append_bytes(&result, kNodeOp, self.op);
    result += source.attributes;
  }
  result += source.marks;
  if (source.device_changed) append_bytes(&result, kNodeDevice, self.device);
  if (source.inputs_changed) {
    for (const Edge& edge : self.inputs) {
      std::string text = edge.port == kControl ? "^" : "";
      text += (*this)[edge.node].name;
      if (edge.port > 0) text += ":" + std::to_string(edge.port);
      append_bytes(&result, kNodeInput, text);
    }
  }
  return result;
}

std::string Graph::serialize() const {
  std::string result;
  result.reserve(definition_.size());
  int node = 0;
  ProtobufReader fields(definition_);
  while (fields.next()) {
    if (fields.number() != kGraphNode) {
      result.append(fields.raw());
      continue;
    }
    if (!(*this)[node].removed) append_bytes(&result, kGraphNode, encode(node));
    ++node;
  }
  for (; node < size(); ++node) {
    if (!(*this)[node].removed) append_bytes(&result, kGraphNode, encode(node));
  }
  return result;
}

}  // namespace unihal::tensorflow
