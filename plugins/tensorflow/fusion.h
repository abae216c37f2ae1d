// Fusion: what Keras composes of many small ops becomes one op of ours.
//
// Each fusion replaces a pattern of nodes that it recognizes exactly, with its constants, and the op computes the same
// function in float32; whatever differs (another formula, another dtype, a value that is used elsewhere, something that
// runs in between) is left as it is. docs/tensorflow.md lists the patterns.
#pragma once

#include <string>
#include <string_view>

#include "plugins/tensorflow/graph.h"
#include "plugins/tensorflow/output_shapes.h"

namespace unihal::tensorflow {

// Tells TensorFlow of the ops that fusions use. Call it before the first graph is optimized; further calls do nothing.
void register_fused_ops();

// The fusions that a value of UNIHAL_TENSORFLOW_FUSION asks for, a bit each: "0" for none, "1" or "" for all, or names
// with commas between them. What is named is fused where it is slower, too. False if it makes no sense.
bool parse_fusions(std::string_view value, unsigned* fusions);
// The names, with commas between them.
std::string fusion_names();

// Fuses what is placed on devices of this type ("RDNA"), as far as the bits of `fusions` ask for it.
void fuse(Graph& graph, const std::string& type, unsigned fusions, OutputShapes& shapes);

// -- the fusions: each looks whether `root` ends its pattern, and rewrites the graph if so --------------------------

// The step of keras.optimizers.Adam and AdamW, for one variable.
bool fuse_adam(Graph& graph, int root);
// The decay of weights before a step that fuse_adam found.
bool fuse_adam_decay(Graph& graph, int root);
// The learning rate with Adam's bias corrections.
bool fuse_adam_rate(Graph& graph, int root);
// The step of keras.optimizers.SGD with momentum, for one variable.
bool fuse_momentum(Graph& graph, int root);
// The step of keras.optimizers.SGD without momentum, and decay of weights, for one variable.
bool fuse_scaled_update(Graph& graph, int root);
// Joins those steps of single variables among `candidates`, as the fusions above and below made them, that differ in
// the variables only, to steps of lists of variables. Whether there were some.
bool join_steps(Graph& graph, const std::vector<int>& candidates);
// All-reductions of tensors laid end to end: each by itself instead, in one op without the copies to and fro.
bool fuse_all_reduces(Graph& graph, const std::string& type, const std::vector<int>& candidates);
// Gathers of constants that all ranks of the graph have alike: what they give is a constant.
bool fold_gathers(Graph& graph, const std::vector<int>& candidates);
// Branches whose condition is a constant: what is not taken goes, and what is runs without a condition, so that other
// fusions look at it. Whether there were some.
bool take_known_branches(Graph& graph);
// Attention's products and softmax, and their gradient, among `candidates`, as far as the type's first device takes
// them and is not slower by it, or `anyway`. Whether something was found.
bool fuse_attention(Graph& graph, const std::string& type, const std::vector<int>& candidates, OutputShapes& shapes,
                    bool anyway);
// Where the host waits for what a device has yet to compute although nothing of it is read: whether there were such.
// Devices, hosts among them, that wait for one of the type by a control edge only wait until its work is submitted, and
// what is computed on the host for the host does not go by way of the device.
bool drop_waits(Graph& graph, const std::vector<int>& candidates);
// The gradient of a softmax.
bool fuse_softmax_gradient(Graph& graph, int root);
// keras.ops.argmax and argmin: negative zeros made smaller than positive ones.
bool fuse_negative_zero(Graph& graph, int root);
// The update of a moving average: variable = variable * momentum + value * (1 - momentum).
bool fuse_moving_average(Graph& graph, int root);
// GELU and its gradient, from the node of erf, erfc or tanh.
bool fuse_gelu(Graph& graph, int root);
// Batch, layer and RMS normalization with their gradients, from the node of 1 / deviation.
bool fuse_norm(Graph& graph, int root);

// Those of norms that Keras casts narrow numbers for: they read and write these. Whether something was found.
bool narrow_norms(Graph& graph, const std::vector<int>& candidates);
// What the seeds of Keras' random layers become, for all of them in one op. Whether something was found.
bool fuse_seeds(Graph& graph, const std::vector<int>& candidates);

// Bias and activation after matrix products and convolutions, the bias' gradient beside a filter's, and sums over a
// batch of products. Whether something was found.
bool fuse_products(Graph& graph, const std::vector<int>& candidates, OutputShapes& shapes);
// Joins elementwise ops among `candidates`, which are on devices of a type, to chains (UHAL_OP_MAP_CHAIN), as far as
// the type's first device takes them. Whether something was found.
bool fuse_elementwise(Graph& graph, const std::string& type, const std::vector<int>& candidates, OutputShapes& shapes);

}  // namespace unihal::tensorflow
