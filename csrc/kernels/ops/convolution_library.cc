// Convolutions by a vendor's library, and what it leaves to us: filters in an order that it does not read are copied
// into one that it does, the bias and the activation come behind it.
#include <algorithm>
#include <utility>

#include "csrc/backends/common/quotient.h"
#include "csrc/kernels/map_chain.h"
#include "csrc/kernels/map_function.h"
#include "csrc/kernels/ops/convolution.h"
#include "csrc/kernels/views.h"

namespace unihal::kernels {
namespace {

// The images and the filter of a convolution whose result and source may have changed places.
struct Roles {
  int64_t input_channels, output_channels;  // of all groups
  ConvolutionOperand filter;                // rows are outputs
};

Roles roles_of(const Convolution& c, Pass pass) {
  Roles roles = {c.channels * c.groups, c.rows * c.groups, c.filter};
  if (pass == Pass::kBackwardData) {
    std::swap(roles.input_channels, roles.output_channels);
    std::swap(roles.filter.strides[0], roles.filter.strides[1]);
  }
  return roles;
}

// All filters as a view: (outputs, inputs of a group, taps).
uhal_tensor filter_view(const Convolution& c, Pass pass) {
  const Roles roles = roles_of(c, pass);
  uhal_tensor view = {};
  view.struct_size = sizeof view;
  view.data = roles.filter.data;
  view.dtype = roles.filter.dtype;
  view.rank = 2 + kSpatial;
  view.shape[0] = roles.output_channels;
  view.shape[1] = roles.input_channels / c.groups;
  for (int i = 0; i < kSpatial; ++i) view.shape[2 + i] = c.window[i];
  std::copy_n(roles.filter.strides, 2 + kSpatial, view.strides);
  return view;
}

uhal_tensor result_view(const Convolution& c) {
  uhal_tensor view = {};
  view.struct_size = sizeof view;
  view.data = c.result.data;
  view.dtype = c.result.dtype;
  view.rank = 2 + kSpatial;
  view.shape[0] = c.images;
  view.shape[1] = c.rows * c.groups;
  for (int i = 0; i < kSpatial; ++i) view.shape[2 + i] = c.output[i];
  std::copy_n(c.result.strides, 2 + kSpatial, view.strides);
  return view;
}

// The filter without gaps, its channels last where those of the source are.
void pack_filter(Pass pass, Convolution* c) {
  const bool is_last =
      channels_last(c->source, c->channels * c->groups) || channels_last(c->result, c->rows * c->groups);
  const bool is_transposed = pass == Pass::kBackwardData;
  const int64_t inputs = is_transposed ? c->rows : c->channels;
  const int64_t outputs = is_transposed ? c->channels : c->rows;
  int64_t* const strides = c->filter.strides;
  int64_t stride = is_last ? inputs : 1;
  for (int i = kSpatial - 1; i >= 0; --i) {
    strides[2 + i] = stride;
    stride *= c->window[i];
  }
  strides[is_transposed ? 0 : 1] = is_last ? 1 : stride;
  strides[is_transposed ? 1 : 0] = c->taps() * inputs;
  c->filter.group_stride = outputs * c->taps() * inputs;
}

// What the library is asked for: false if it takes it neither with the filter as it is nor with a copy.
bool find_task(const DeviceTraits& traits, const Convolution& c, Pass pass, Convolution* asked, bool* packs) {
  *packs = false;
  if (traits.convolution_library == nullptr) return false;
  *asked = c;
  asked->bias = {};
  asked->activation = UHAL_ACTIVATION_NONE;
  if (traits.convolution_library->takes({*asked, pass})) return true;
  *packs = true;
  pack_filter(pass, asked);
  asked->filter.data = nullptr;  // somewhere in the workspace
  return traits.convolution_library->takes({*asked, pass});
}

// result = activation(result + bias), in place.
uhal_status finish(Queue& queue, const Convolution& c) {
  const bool has_bias = c.bias.data != nullptr;
  if (!has_bias && c.activation == UHAL_ACTIVATION_NONE) return UHAL_OK;
  const uhal_tensor result = result_view(c);
  uhal_tensor bias = result;
  MapChain chain;
  int value = chain.input(result);
  if (has_bias) {
    bias.data = c.bias.data;
    bias.dtype = c.bias.dtype;
    for (int i = 0; i < bias.rank; ++i) {
      bias.shape[i] = i == 1 ? result.shape[1] : 1;
      bias.strides[i] = i == 1 ? c.bias.strides[0] : 0;
    }
    const int row = chain.input(bias);
    value = chain.step(uhal_map_add, {value, row});
  }
  if (c.activation != UHAL_ACTIVATION_NONE) value = chain.step(activation_function(c.activation), {value});
  chain.output(value, result);
  return run_map_chain(queue, chain);
}

}  // namespace

bool takes_library(const DeviceTraits& traits, const Convolution& c, Pass pass) {
  Convolution asked;
  bool packs;
  return find_task(traits, c, pass, &asked, &packs);
}

bool suits_library(const DeviceTraits& traits, const Convolution& c, Pass pass) {
  return traits.convolution_library != nullptr && traits.convolution_library->suits({c, pass}) &&
         takes_library(traits, c, pass);
}

int library_algorithms(const DeviceTraits& traits, const Convolution& c, Pass pass, LibraryAlgorithm* numbers) {
  Convolution asked;
  bool packs;
  return find_task(traits, c, pass, &asked, &packs) ? traits.convolution_library->algorithms({asked, pass}, numbers)
                                                    : 0;
}

uhal_status convolve_by_library(Queue& queue, const Convolution& c, Pass pass, LibraryAlgorithm algorithm) {
  Convolution asked;
  bool packs;
  if (!find_task(queue.traits(), c, pass, &asked, &packs)) return UHAL_UNIMPLEMENTED;
  const ConvolutionTask task = {asked, pass, algorithm};
  size_t bytes = 0;
  if (!queue.plan_library_convolution(task, &bytes)) return UHAL_UNIMPLEMENTED;
  const uhal_tensor filter = filter_view(c, pass);
  size_t filter_bytes = 0;
  if (packs) {
    filter_bytes = static_cast<size_t>(c.groups * c.rows * c.channels * c.taps()) * dtype_size(c.filter.dtype);
    filter_bytes = aligned_bytes(filter_bytes);
  }
  void* workspace = nullptr;
  if (filter_bytes + bytes != 0) {
    const uhal_status status = queue.workspace(filter_bytes + bytes, &workspace);
    if (status == UHAL_RESOURCE_EXHAUSTED) return UHAL_UNIMPLEMENTED;  // another algorithm may need less
    if (status != UHAL_OK) return status;
  }
  if (packs) asked.filter.data = workspace;
  if (packs && pass != Pass::kBackwardFilter) {
    const uhal_status status = copy_views(queue, filter, filter_view(asked, pass));
    if (status != UHAL_OK) return status;
  }
  void* const rest = bytes != 0 ? static_cast<char*>(workspace) + filter_bytes : nullptr;
  const uhal_status status = queue.library_convolution(task, rest);
  if (status != UHAL_OK) return status;
  if (pass != Pass::kBackwardFilter) return finish(queue, c);
  return packs ? copy_views(queue, filter_view(asked, pass), filter) : UHAL_OK;
}

}  // namespace unihal::kernels
