// What belongs to a matrix product or a convolution becomes part of it:
//
//   activation(product + bias), be the product reshaped before the bias or not;
//   the gradient of a convolution's filter, with the bias' gradient from the same operand;
//   sum(x^T @ gradient over the batch), as a weight's gradient is where each matrix of a batch met the same weight: one
//   product over the rows of all matrices, of which nothing is summed in memory.
#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <string>

#include "plugins/tensorflow/fusion.h"
#include "plugins/tensorflow/fusion/pattern.h"
#include "unihal/op.h"

namespace unihal::tensorflow {
namespace {

using Sizes = std::vector<int64_t>;

bool is_real(TF_DataType type) {
  return type == TF_FLOAT || type == TF_HALF || type == TF_BFLOAT16 || type == TF_DOUBLE;
}

bool is_one_of(std::string_view op, std::initializer_list<std::string_view> ops) {
  return std::find(ops.begin(), ops.end(), op) != ops.end();
}

std::optional<Sizes> sizes_of_edge(const Graph& graph, OutputShapes& shapes, const Edge& edge) {
  return edge.node < 0 ? std::nullopt : sizes_of(shapes.of(graph[edge.node].name, edge.port));
}

bool has_channels_first(const Graph& graph, int node) { return graph.text(node, "data_format").substr(0, 2) == "NC"; }

// Those whose gradients TensorFlow computes from their results, so that nothing else asks for their operand.
constexpr struct {
  const char* op;
  uhal_activation activation;
} kActivations[] = {{"Relu", UHAL_ACTIVATION_RELU},
                    {"Relu6", UHAL_ACTIVATION_RELU6},
                    {"Sigmoid", UHAL_ACTIVATION_SIGMOID},
                    {"Tanh", UHAL_ACTIVATION_TANH}};

// The activation that is the only reader of a node's value; -1 if there is none.
int activation_of(const Graph& graph, int node, uhal_activation* activation) {
  int reader = -1;
  for (int consumer : graph[node].consumers) {
    const std::vector<Edge>& inputs = graph[consumer].inputs;
    if (std::find(inputs.begin(), inputs.end(), Edge{node, 0}) == inputs.end()) continue;
    if (reader >= 0 && reader != consumer) return -1;
    reader = consumer;
  }
  if (reader < 0 || graph[reader].device != graph[node].device) return -1;
  const auto* found = std::find_if(std::begin(kActivations), std::end(kActivations),
                                   [&](const auto& row) { return graph[reader].op == row.op; });
  if (found == std::end(kActivations)) return -1;
  *activation = found->activation;
  return reader;
}

// activation(product + bias), from the sum on.
class Bias {
 public:
  Bias(Graph& graph, OutputShapes& shapes, int root)
      : graph_(graph), shapes_(shapes), root_(root), type_(graph.main_type(root)) {}

  bool fuse() {
    if (!is_real(type_)) return false;
    const bool is_sum = graph_[root_].op != "BiasAdd";
    for (int side = 0; side < (is_sum ? 2 : 1); ++side) {
      nodes_ = {root_};
      reshape_ = -1;
      const Pattern pattern(graph_, root_);
      const Edge value = pattern.input(root_, side);
      bias_ = pattern.input(root_, 1 - side);
      if (value.node < 0 || bias_.node < 0 || bias_ == value) continue;
      if (is_sum ? fuse_product(value) : fuse_convolution(value) || fuse_product(value)) return true;
    }
    return false;
  }

 private:
  bool is_beside(const Edge& edge) const {
    return edge.port == 0 && graph_[edge.node].device == graph_[root_].device && graph_.main_type(edge.node) == type_;
  }

  bool fuse_convolution(const Edge& value) {
    const std::string_view op = graph_[value.node].op;
    const bool is_depthwise = op == "DepthwiseConv2dNative";
    if (!is_beside(value) || !(is_depthwise || op == "Conv2D" || op == "Conv3D")) return false;
    if (has_channels_first(graph_, value.node) != has_channels_first(graph_, root_)) return false;
    nodes_.push_back(value.node);
    Graph::Attributes attributes = graph_.attributes_of(value.node);
    attributes.set_bool("use_cudnn_on_gpu", true);
    attributes.set_integers("explicit_paddings", graph_.integers(value.node, "explicit_paddings"));
    const std::vector<Edge>& inputs = graph_[value.node].inputs;
    return write(is_depthwise ? "UnihalDepthwiseConvolution" : "UnihalConvolution", {inputs[0], inputs[1], bias_},
                 attributes);
  }

  bool fuse_product(Edge value) {
    if (graph_[value.node].op == "Reshape") {
      reshape_ = value.node;
      if (!is_beside(value) || graph_.type_attribute(reshape_, "Tshape") == TF_INT64) return false;
      nodes_.push_back(reshape_);
      value = graph_[reshape_].inputs[0];
    }
    const bool is_batched = graph_[value.node].op == "BatchMatMulV2";
    if (!is_beside(value) || !(is_batched || graph_[value.node].op == "MatMul") || !fits(value)) return false;
    nodes_.push_back(value.node);
    const std::vector<Edge>& inputs = graph_[value.node].inputs;
    std::vector<Edge> operands = {inputs[0], inputs[1], bias_};
    if (reshape_ >= 0) operands.push_back(graph_[reshape_].inputs[1]);
    Graph::Attributes attributes;
    attributes.set_type("T", type_);
    attributes.set_bool("batched", is_batched);
    attributes.set_bool("transpose_a", graph_.flag(value.node, is_batched ? "adj_x" : "transpose_a"));
    attributes.set_bool("transpose_b", graph_.flag(value.node, is_batched ? "adj_y" : "transpose_b"));
    attributes.set_integer("count", reshape_ >= 0 ? 1 : 0);
    return write("UnihalMatMul", operands, attributes);
  }

  // Whether the bias has a number for each column of the product, also where the columns were made several axes.
  bool fits(const Edge& product) {
    const std::optional<Sizes> bias = sizes_of_edge(graph_, shapes_, bias_);
    const std::optional<Sizes> columns = sizes_of_edge(graph_, shapes_, product);
    if (!bias || bias->empty() || !columns || columns->empty()) return false;
    int64_t count = 1;
    for (int64_t size : *bias) {
      if (size <= 0) return false;
      count *= size;
    }
    if (columns->back() != count) return false;
    if (reshape_ < 0) return bias->size() == 1 && !has_channels_first(graph_, root_);
    const std::optional<Sizes> shape = sizes_of_edge(graph_, shapes_, {reshape_, 0});
    if (!shape || shape->size() < bias->size()) return false;
    if (graph_[root_].op == "BiasAdd" && has_channels_first(graph_, root_)) return false;
    return std::equal(bias->rbegin(), bias->rend(), shape->rbegin());
  }

  bool write(const char* op, const std::vector<Edge>& inputs, Graph::Attributes attributes) {
    uhal_activation activation = UHAL_ACTIVATION_NONE;
    const int last = activation_of(graph_, root_, &activation);
    if (last >= 0) {
      Graph::Attributes with_activation = attributes;
      with_activation.set_integer("activation", activation);
      std::vector<int> all = nodes_;
      all.insert(all.begin(), last);
      if (graph_.replace(all, op, inputs, with_activation)) return true;
    }
    attributes.set_integer("activation", UHAL_ACTIVATION_NONE);
    return graph_.replace(nodes_, op, inputs, attributes);
  }

  Graph& graph_;
  OutputShapes& shapes_;
  int root_;
  TF_DataType type_;
  Edge bias_ = {-1, 0};
  int reshape_ = -1;
  std::vector<int> nodes_;
};

// The node of `op` that reads an edge as its input `index`, and may go; -1 if there is none.
int reader_of(const Graph& graph, const Edge& edge, std::initializer_list<std::string_view> ops, int beside) {
  for (int consumer : graph[edge.node].consumers) {
    const Graph::Node& node = graph[consumer];
    if (is_one_of(node.op, ops) && node.inputs.size() > 2 && node.inputs[2] == edge && !graph.is_exposed(consumer) &&
        node.device == graph[beside].device && graph.main_type(consumer) == graph.main_type(beside)) {
      return consumer;
    }
  }
  return -1;
}

bool fuse_bias_gradient(Graph& graph, int root) {
  if (!is_real(graph.main_type(root)) || graph.is_exposed(root)) return false;
  const Edge gradient = graph[root].inputs[0];
  const int filter = reader_of(graph, gradient, {"Conv2DBackpropFilter", "Conv3DBackpropFilterV2"}, root);
  if (filter < 0 || has_channels_first(graph, filter) != has_channels_first(graph, root)) return false;
  const std::vector<Edge> inputs(graph[filter].inputs.begin(), graph[filter].inputs.begin() + 3);
  if (!graph.can_become_one({filter, root}, inputs)) return false;
  Graph::Attributes attributes = graph.attributes_of(filter);
  attributes.set_bool("use_cudnn_on_gpu", true);
  attributes.set_integers("explicit_paddings", graph.integers(filter, "explicit_paddings"));
  const std::string name = std::string(graph[filter].name) + "/unihal";
  graph.contract(name, "UnihalConvolutionFilterGrad", {filter, root}, inputs, {{filter, 0}, {root, 0}}, attributes);
  return true;
}

bool fuse_product_sum(Graph& graph, int root, OutputShapes& shapes) {
  const TF_DataType type = graph.main_type(root);
  if (!is_real(type) || graph.flag(root, "keep_dims")) return false;
  Pattern pattern(graph, root);
  const int product = pattern.make(root, 0, "BatchMatMulV2", type);
  if (product < 0 || !graph.flag(product, "adj_x") || graph.flag(product, "adj_y")) return false;
  const Edge x = pattern.input(product, 0), y = pattern.input(product, 1);
  const std::optional<Sizes> x_sizes = sizes_of_edge(graph, shapes, x), y_sizes = sizes_of_edge(graph, shapes, y);
  if (!x_sizes || !y_sizes || x_sizes->size() != y_sizes->size() || x_sizes->size() < 3) return false;
  // Matrices that are broadcast to a batch are summed as often as they are read.
  if (!std::equal(x_sizes->begin(), x_sizes->end() - 1, y_sizes->begin())) return false;
  Sizes axes;
  int32_t axis = 0;
  const int axes_node = pattern.input(root, 1).node;
  if (graph.scalar_constant(axes_node, &axis)) {
    axes = {axis};
  } else if (!graph.vector_constant(axes_node, &axes)) {
    return false;
  }
  const auto rank = static_cast<int64_t>(x_sizes->size());
  for (int64_t& one : axes) one += one < 0 ? rank : 0;
  std::sort(axes.begin(), axes.end());
  for (int64_t i = 0; i < rank - 2; ++i) {
    if (static_cast<int64_t>(axes.size()) != rank - 2 || axes[static_cast<size_t>(i)] != i) return false;
  }
  Graph::Attributes attributes;
  attributes.set_type("T", type);
  return graph.replace(pattern.nodes(), "UnihalMatMulSum", {x, y}, attributes);
}

}  // namespace

bool fuse_products(Graph& graph, const std::vector<int>& candidates, OutputShapes& shapes) {
  bool found = false;
  for (int node : candidates) {
    if (graph[node].removed) continue;
    const std::string_view op = graph[node].op;
    if (is_one_of(op, {"BiasAdd", "AddV2", "Add"})) found |= Bias(graph, shapes, node).fuse();
    if (op == "BiasAddGrad") found |= fuse_bias_gradient(graph, node);
    if (op == "Sum") found |= fuse_product_sum(graph, node, shapes);
  }
  return found;
}

}  // namespace unihal::tensorflow
