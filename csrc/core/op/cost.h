// The textbook costs of ops, for the profiler.
#pragma once

#include "csrc/core/op/table.h"

namespace unihal::core {

// Bytes of all operands, each read or written once. A broadcast operand counts its own elements only.
uint64_t op_bytes(const uhal_op& op);

// The least time that work could take on a device with these peaks (profiler.h); 0 if they are unknown.
int64_t estimated_nanoseconds(const uhal_device_properties& properties, uint64_t bytes, uint64_t flops);

uint64_t no_flops(const OpView& op);
uint64_t input_0_flops(const OpView& op);  // one per element of an operand
uint64_t input_1_flops(const OpView& op);
uint64_t output_0_flops(const OpView& op);
uint64_t map_flops(const OpView& op);
uint64_t matmul_flops(const OpView& op);
uint64_t convolution_flops(const OpView& op);
uint64_t convolution_backward_data_flops(const OpView& op);
uint64_t convolution_backward_filter_flops(const OpView& op);
uint64_t pool_flops(const OpView& op);
uint64_t pool_backward_flops(const OpView& op);
uint64_t softmax_flops(const OpView& op);
uint64_t norm_flops(const OpView& op);
uint64_t attention_flops(const OpView& op);
uint64_t attention_backward_flops(const OpView& op);

}  // namespace unihal::core
