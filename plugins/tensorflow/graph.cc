#include "plugins/tensorflow/graph.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <unordered_map>
#include <utility>

#include "plugins/tensorflow/graph_messages.h"
#include "plugins/tensorflow/protobuf.h"

namespace unihal::tensorflow {

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
