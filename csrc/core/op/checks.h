// The rules of each op kind (op.h) about shapes, dtypes and attributes.
//
// A check runs after the operands were found to be sound views and required ones to be present. It returns
// UHAL_OK, or UHAL_INVALID_ARGUMENT with a message that names the operand, what it is, and what it must be.
#pragma once

#include "csrc/core/op/table.h"

namespace unihal::core {

uhal_status check_nothing(const OpView& op);

// op_shapes.cc
uhal_status check_map(const OpView& op);
uhal_status check_copy(const OpView& op);
uhal_status check_cast(const OpView& op);
uhal_status check_iota(const OpView& op);
uhal_status check_triangular(const OpView& op);
uhal_status check_reduce(const OpView& op);
uhal_status check_arg_reduce(const OpView& op);
uhal_status check_scan(const OpView& op);
uhal_status check_sort(const OpView& op);
uhal_status check_top_k(const OpView& op);
uhal_status check_random(const OpView& op);
uhal_status check_dropout(const OpView& op);

// op_shapes_index.cc
uhal_status check_gather(const OpView& op);
uhal_status check_scatter(const OpView& op);
uhal_status check_gather_nd(const OpView& op);
uhal_status check_scatter_nd(const OpView& op);
uhal_status check_gather_elements(const OpView& op);
uhal_status check_scatter_elements(const OpView& op);
uhal_status check_one_hot(const OpView& op);

// op_shapes_image.cc
uhal_status check_convolution(const OpView& op);
uhal_status check_convolution_backward_data(const OpView& op);
uhal_status check_convolution_backward_filter(const OpView& op);
uhal_status check_pool(const OpView& op);
uhal_status check_pool_backward(const OpView& op);
uhal_status check_resize(const OpView& op);
uhal_status check_resize_backward(const OpView& op);

// op_shapes_neural.cc
uhal_status check_matmul(const OpView& op);
uhal_status check_softmax(const OpView& op);
uhal_status check_softmax_backward(const OpView& op);
uhal_status check_cross_entropy(const OpView& op);
uhal_status check_cross_entropy_backward(const OpView& op);
uhal_status check_batch_norm(const OpView& op);
uhal_status check_batch_norm_backward(const OpView& op);
uhal_status check_layer_norm(const OpView& op);
uhal_status check_layer_norm_backward(const OpView& op);
uhal_status check_group_norm(const OpView& op);
uhal_status check_group_norm_backward(const OpView& op);
uhal_status check_rms_norm(const OpView& op);
uhal_status check_rms_norm_backward(const OpView& op);
uhal_status check_attention(const OpView& op);
uhal_status check_attention_backward(const OpView& op);

}  // namespace unihal::core
