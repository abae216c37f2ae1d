// A GraphDef as the graph pass reads and rewrites it. What is not touched is handed on byte for byte.
#pragma once

#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/tensorflow/op_registry.h"
#include "tensorflow/c/tf_datatype.h"

namespace unihal::tensorflow {

// Whether a node's device is of a type ("RDNA").
bool is_on(std::string_view device, std::string_view type);

class Graph {
 public:
  // An input: the node that makes it, and which of its outputs.
  struct Edge {
    int node;
    int port;
    bool operator==(const Edge& other) const { return node == other.node && port == other.port; }
    bool operator!=(const Edge& other) const { return !(*this == other); }
  };
  // The port of an edge that orders execution and carries no data.
  static constexpr int kControl = -1;

  struct Node {
    std::string_view name;
    std::string_view op;
    std::string_view device;
    std::vector<Edge> inputs;    // data first, then control, as TensorFlow has it
    std::vector<int> consumers;  // one entry for each edge that leaves
    bool removed = false;
  };

  // `definition` and the names in `preserved`, which no rewriting may remove, must outlive the graph.
  Graph(std::string_view definition, std::set<std::string_view> preserved);

  // False if an input names no node of the graph; then only move() may be called.
  bool is_complete() const { return complete_; }

  int size() const { return static_cast<int>(nodes_.size()); }
  const Node& operator[](int node) const { return nodes_[static_cast<size_t>(node)]; }

  // -- attributes -----------------------------------------------------------------------------------------

  // The serialized AttrValue; empty if the node has none of this name.
  std::string_view attribute(int node, std::string_view name) const;
  // The value of a type attribute; 0 if there is none.
  TF_DataType type_attribute(int node, std::string_view name) const;
  // The type that says most about an op ("T", else "dtype" and the like); 0 if there is none.
  TF_DataType main_type(int node) const;
  // All attributes that are types or lists of types.
  Types types(int node) const;
  // The value of a node that is a scalar constant of this type; false if it is none, or may be fed another value.
  bool scalar_constant(int node, float* value) const;
  bool scalar_constant(int node, int32_t* value) const;
  bool scalar_constant(int node, int64_t* value) const;
  bool scalar_constant(int node, bool* value) const;
  // The same of a type that float32 holds exactly: float32 itself, float16 and bfloat16.
  bool scalar_constant(int node, TF_DataType type, float* value) const;
  // The same of a tensor of truths of whatever shape: a number per element, 0 or 1.
  bool truth_constant(int node, std::vector<int64_t>* shape, std::vector<char>* values) const;
  // The same of a vector of int32, in order.
  bool vector_constant(int node, std::vector<int64_t>* values) const;
  // A string; empty if the node has none of this name.
  std::string_view text(int node, std::string_view name) const;
  // A boolean, and a list of integers; false and empty if the node has none of this name.
  bool flag(int node, std::string_view name) const;
  std::vector<int64_t> integers(int node, std::string_view name) const;
  // An integer, and a float; 0 if the node has none of this name.
  int64_t integer(int node, std::string_view name) const;
  float real(int node, std::string_view name) const;

  // -- rewriting ------------------------------------------------------------------------------------------

  // Attributes of a new node, to be given to replace().
  class Attributes {
   public:
    void set_type(std::string_view name, TF_DataType value);
    void set_float(std::string_view name, float value);
    void set_bool(std::string_view name, bool value);
    void set_integer(std::string_view name, int64_t value);
    void set_types(std::string_view name, const std::vector<TF_DataType>& values);
    void set_integers(std::string_view name, const std::vector<int64_t>& values);
    void set_floats(std::string_view name, const std::vector<float>& values);
    void set_vector(std::string_view name, const std::vector<int64_t>& values);  // a tensor of int32
    const std::string& encoded() const { return encoded_; }

   private:
    friend class Graph;
    void set(std::string_view name, std::string_view value);
    std::string encoded_;
  };

  // Those of a node, to be given to another; one that is set again then replaces the first. Without TensorFlow's notes
  // on the node, whose names begin with an underscore, and in an order that does not depend on the node.
  Attributes attributes_of(int node) const;

  // Puts one node of `op` with these data inputs in the place of `nodes`, all of one device. It takes over the name and
  // the outputs of nodes.front(), and every order of execution that any of the nodes was bound to, be it through data
  // that is no longer read, such as a constant that waits for something. `op` is a literal.
  // Does nothing and returns false if that would change what the rest of the graph sees: the data of another of the
  // nodes is used elsewhere, or something runs between the nodes.
  bool replace(const std::vector<int>& nodes, const char* op, const std::vector<Edge>& inputs,
               const Attributes& attributes);

  // A new node; `op` is a literal. Gives its number.
  int add(const std::string& name, const char* op, std::string_view device, const std::vector<Edge>& inputs,
          const Attributes& attributes);

  // Puts one new node of `op` in the place of `nodes`, all of one device, none of them exposed: its output k is what
  // results[k], an output of one of them, was; where there are no results, it has a node's outputs. It waits for
  // whatever any of them waited for, directly or by data that is no longer read, and what waited for one of them waits
  // for it. Nothing may run between the nodes: see can_become_one(). `op` is a literal.
  int contract(const std::string& name, const char* op, const std::vector<int>& nodes, const std::vector<Edge>& inputs,
               const std::vector<Edge>& results, const Attributes& attributes);

  // Whether no node beside `nodes` runs after one of them and before another, nor would have to once they are one node
  // with these data inputs.
  bool can_become_one(const std::vector<int>& nodes, const std::vector<Edge>& inputs) const;

  // Lets all that read `from` read `to` instead. Control edges stay.
  void redirect_data(const Edge& from, const Edge& to);

  // Gives a node another op and data inputs. It still waits for what it waited for.
  void rewrite(int node, const char* op, const std::vector<Edge>& inputs, const Attributes& attributes);

  // Gives a node that replace() made another op and further data inputs; its attributes stay.
  void extend(int node, const char* op, const std::vector<Edge>& further);

  // Removes a node without readers that runs before another, as part of which it is to run. What waits for it and does
  // not come before the other waits for that; what does waits for what the node waited for.
  void absorb(int node, int into);

  // Whether one of `to` waits for what reads one of `from`, or for what waits for its node.
  bool leads_to(const std::vector<Edge>& from, const std::vector<Edge>& to) const;

  // Whether a node's value may be fetched, or be another than it computes, because it is fed. The body of a function
  // gives its results to nodes of their own, so that a preserved node there is one that the caller waits for.
  bool is_exposed(int node) const;

  // Removes the given nodes that nothing reads, and their inputs that nothing reads then, where their op is one of
  // these and does nothing but compute. What waits for one waits for its inputs instead.
  void prune(const std::vector<int>& nodes, const std::set<std::string_view>& ops);

  // Of the given nodes, merges those of these ops that have the same inputs, attributes and device. They must give the
  // same result however often they run at one point of the order of execution.
  void merge_duplicates(const std::vector<int>& nodes, const std::set<std::string_view>& ops);

  // Of the given nodes, removes those of these ops that nothing depends on.
  void remove_unused(const std::vector<int>& nodes, const std::set<std::string_view>& ops);

  // Removes those control inputs of a node, from other devices, for which all that use the node wait anyway.
  void drop_implied_waits(int node);

  // Lets a node wait for `other` instead of what it waits for by control inputs from `nodes`.
  void redirect_waits(int node, const std::vector<int>& nodes, int other);

  // Removes nodes, with what others that stay get from them or wait for; of those that a function must have a NoOp
  // stays.
  void remove(const std::vector<int>& nodes);

  // Places a node on another device.
  void move(int node, const std::string& device);

  // Gives a node one more attribute, true, and keeps the rest as it is.
  void mark(int node, std::string_view attribute);

  std::string serialize() const;

 private:
  struct Source {
    std::string_view message;  // the NodeDef
    std::string attributes;    // in place of the message's, where `op_changed`
    std::string marks;         // further attributes
    bool op_changed = false;
    bool inputs_changed = false;
    bool device_changed = false;
    bool is_new = false;
  };

  std::string_view definition_of(int node) const;
  // The TensorProto of a constant; false if the node is none, or may be fed another value.
  bool find_tensor(int node, std::string_view* tensor) const;
  bool find_constant(int node, TF_DataType type, std::string_view* content, std::string_view* values) const;
  void connect(const std::vector<std::vector<std::string_view>>& inputs);
  bool is_preserved(int node) const { return preserved_.count((*this)[node].name) != 0; }
  bool reaches(int from, int to, int around) const;
  void retire(int node, int successor);
  void become(int node, const char* op, const std::vector<Edge>& inputs, const std::string& attributes);
  void redirect(int from, int to);
  void disconnect(int node);
  std::vector<Edge> waits_of(int node) const;
  void set_inputs(int node, const std::vector<Edge>& inputs);
  std::string fingerprint(int node) const;
  std::string encode(int node) const;

  std::vector<Node> nodes_;
  std::vector<Source> sources_;
  std::deque<std::string> texts_;  // devices that nodes were moved to, names of new nodes
  std::string_view definition_;
  std::set<std::string_view> preserved_;
  bool complete_ = true;
  bool is_function_ = false;
};
using Edge = Graph::Edge;

}  // namespace unihal::tensorflow
