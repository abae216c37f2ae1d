// The stub's own kernels beside oneDNN's primitives for the same op, both with all cores: why the stub takes only
// matrix products and convolutions from oneDNN. Prints one JSON object per op, with the best time of several runs.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <unordered_map>
#include <vector>

#include "plugins/common/view.h"
#include "unihal/memory.h"
#include "unihal/op.h"

namespace {

using unihal::Operands;
using unihal::View;
using Shape = std::vector<int64_t>;
using Tag = dnnl::memory::format_tag;

void check(uhal_status status) {
  if (status == UHAL_OK) return;
  std::fprintf(stderr, "%s\n", uhal_last_error()->message);
  std::exit(1);
}

double best_seconds(const std::function<void()>& call) {
  double best = 1e9;
  for (int run = 0; run < 30; ++run) {
    const auto start = std::chrono::steady_clock::now();
    call();
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    best = std::min(best, passed.count());
  }
  return best;
}

class Stub {
 public:
  Stub() {
    check(uhal_device_get("rdna", 0, &device_));
    check(uhal_stream_create(device_, &stream_));
  }

  // A view of new memory with ones in it. Shapes of rank 4 are images; `channels_last` says how they lie.
  View tensor(const Shape& shape, bool channels_last = false) {
    Shape stored = shape;
    if (channels_last) stored = {shape[0], shape[2], shape[3], shape[1]};
    View view(nullptr, UHAL_FLOAT32, stored);
    check(uhal_allocate(device_, stream_, UHAL_MEMORY_DEVICE, static_cast<size_t>(view.elements()) * 4, &view.data));
    const float one = 1;
    check(uhal_memory_fill(stream_, view.data, &one, 4, static_cast<size_t>(view.elements()) * 4));
    return channels_last ? view.permuted({0, 3, 1, 2}) : view;
  }

  void launch(uhal_op_kind kind, Operands inputs, Operands outputs, const void* attributes) {
    check(unihal::launch(stream_, kind, inputs, outputs, attributes));
    check(uhal_stream_synchronize(stream_));
  }

 private:
  uhal_device* device_ = nullptr;
  uhal_stream* stream_ = nullptr;
};

class OneDnn {
 public:
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};

  dnnl::memory memory(const dnnl::memory::desc& layout) {
    dnnl::memory memory(layout, engine);
    std::fill_n(static_cast<char*>(memory.get_data_handle()), layout.get_size(), char{0});
    return memory;
  }

  void run(const dnnl::primitive& primitive, const std::unordered_map<int, dnnl::memory>& arguments) {
    primitive.execute(stream_, arguments);
    stream_.wait();
  }

 private:
  dnnl::stream stream_{engine};
};

dnnl::memory::desc layout(const Shape& shape, Tag tag) { return {shape, dnnl::memory::data_type::f32, tag}; }

void print(const char* name, double device, double peer) {
  std::printf(
      "{\"benchmark\": \"stub: %s\", \"unit\": \"ms\", \"device\": %.4f, \"peer\": %.4f, \"peer_name\": \"oneDNN\", "
      "\"ratio\": %.3f}\n",
      name, device * 1e3, peer * 1e3, device / peer);
}

void softmax(Stub& stub, OneDnn& onednn) {
  const Shape shape = {4096, 1024};
  const View x = stub.tensor(shape);
  const View y = stub.tensor(shape);
  uhal_softmax_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.axis = 1;
  const auto table = layout(shape, Tag::ab);
  const dnnl::softmax_forward::primitive_desc description(onednn.engine, dnnl::prop_kind::forward_inference,
                                                          dnnl::algorithm::softmax_accurate, table, table, 1);
  const dnnl::softmax_forward primitive(description);
  const std::unordered_map<int, dnnl::memory> arguments = {{DNNL_ARG_SRC, onednn.memory(table)},
                                                           {DNNL_ARG_DST, onednn.memory(table)}};
  print("softmax of 4096 rows of 1024", best_seconds([&] { stub.launch(UHAL_OP_SOFTMAX, {&x}, {&y}, &attributes); }),
        best_seconds([&] { onednn.run(primitive, arguments); }));
}

void layer_norm(Stub& stub, OneDnn& onednn) {
  const Shape shape = {4096, 1024};
  const View x = stub.tensor(shape), y = stub.tensor(shape), scale = stub.tensor({1024}), bias = stub.tensor({1024});
  const View mean = stub.tensor({4096, 1}), variance = stub.tensor({4096, 1});
  uhal_norm_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.epsilon = 1e-5;
  attributes.axis = 1;
  const auto table = layout(shape, Tag::ab), row = layout({1024}, Tag::a), column = layout({4096}, Tag::a);
  const dnnl::layer_normalization_forward::primitive_desc description(
      onednn.engine, dnnl::prop_kind::forward_training, table, table, column, 1e-5f,
      dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift);
  const dnnl::layer_normalization_forward primitive(description);
  const std::unordered_map<int, dnnl::memory> arguments = {
      {DNNL_ARG_SRC, onednn.memory(table)},   {DNNL_ARG_DST, onednn.memory(table)},
      {DNNL_ARG_MEAN, onednn.memory(column)}, {DNNL_ARG_VARIANCE, onednn.memory(column)},
      {DNNL_ARG_SCALE, onednn.memory(row)},   {DNNL_ARG_SHIFT, onednn.memory(row)}};
  print("layer norm of 4096 rows of 1024", best_seconds([&] {
          stub.launch(UHAL_OP_LAYER_NORM, {&x, &scale, &bias}, {&y, &mean, &variance}, &attributes);
        }),
        best_seconds([&] { onednn.run(primitive, arguments); }));
}

void batch_norm(Stub& stub, OneDnn& onednn, bool channels_last) {
  const Shape shape = {8, 64, 56, 56};
  const View x = stub.tensor(shape, channels_last), y = stub.tensor(shape, channels_last);
  const View scale = stub.tensor({64}), bias = stub.tensor({64}), mean = stub.tensor({64}),
             variance = stub.tensor({64});
  uhal_norm_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.epsilon = 1e-5;
  const auto images = layout(shape, channels_last ? Tag::acdb : Tag::abcd), row = layout({64}, Tag::a);
  const dnnl::batch_normalization_forward::primitive_desc description(
      onednn.engine, dnnl::prop_kind::forward_training, images, images, 1e-5f,
      dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift);
  const dnnl::batch_normalization_forward primitive(description);
  const std::unordered_map<int, dnnl::memory> arguments = {
      {DNNL_ARG_SRC, onednn.memory(images)}, {DNNL_ARG_DST, onednn.memory(images)},
      {DNNL_ARG_MEAN, onednn.memory(row)},   {DNNL_ARG_VARIANCE, onednn.memory(row)},
      {DNNL_ARG_SCALE, onednn.memory(row)},  {DNNL_ARG_SHIFT, onednn.memory(row)}};
  print(channels_last ? "batch norm of 8x64x56x56, NHWC" : "batch norm of 8x64x56x56, NCHW", best_seconds([&] {
          stub.launch(UHAL_OP_BATCH_NORM, {&x, &scale, &bias}, {&y, &mean, &variance}, &attributes);
        }),
        best_seconds([&] { onednn.run(primitive, arguments); }));
}

void max_pool(Stub& stub, OneDnn& onednn, bool channels_last) {
  const Shape in = {8, 64, 112, 112}, out = {8, 64, 56, 56};
  const View x = stub.tensor(in, channels_last), y = stub.tensor(out, channels_last);
  uhal_pool_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.mode = UHAL_POOL_MAXIMUM;
  for (int i = 0; i < 2; ++i) {
    attributes.window[i] = 3;
    attributes.stride[i] = 2;
    attributes.pad_before[i] = 1;
  }
  const Tag tag = channels_last ? Tag::acdb : Tag::abcd;
  const dnnl::pooling_forward::primitive_desc description(onednn.engine, dnnl::prop_kind::forward_inference,
                                                          dnnl::algorithm::pooling_max, layout(in, tag),
                                                          layout(out, tag), {2, 2}, {3, 3}, {0, 0}, {1, 1}, {0, 0});
  const dnnl::pooling_forward primitive(description);
  const std::unordered_map<int, dnnl::memory> arguments = {{DNNL_ARG_SRC, onednn.memory(layout(in, tag))},
                                                           {DNNL_ARG_DST, onednn.memory(layout(out, tag))}};
  print(channels_last ? "3x3 max pool of 8x64x112x112, NHWC" : "3x3 max pool of 8x64x112x112, NCHW",
        best_seconds([&] { stub.launch(UHAL_OP_POOL, {&x}, {&y}, &attributes); }),
        best_seconds([&] { onednn.run(primitive, arguments); }));
}

}  // namespace

int main() {
  Stub stub;
  OneDnn onednn;
  softmax(stub, onednn);
  layer_norm(stub, onednn);
  for (const bool channels_last : {true, false}) batch_norm(stub, onednn, channels_last);
  for (const bool channels_last : {true, false}) max_pool(stub, onednn, channels_last);
  return 0;
}
