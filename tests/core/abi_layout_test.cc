// The layout of everything that crosses the boundary, as of ABI 1.8. A line that fails to compile means that a binary
// built against an older header would read the wrong bytes: append instead, or raise the major.
#include <gtest/gtest.h>

#include "csrc/tables/elementwise.h"
#include "unihal/backend.h"
#include "unihal/check.h"
#include "unihal/collectives.h"
#include "unihal/constants.h"
#include "unihal/event.h"
#include "unihal/fallback.h"
#include "unihal/fault_injection.h"
#include "unihal/graph_capture.h"
#include "unihal/host_kernels.h"
#include "unihal/launch_group.h"
#include "unihal/peer_copy.h"
#include "unihal/profiler.h"
#include "unihal/tuning.h"

extern "C" int uhal_test_from_c(void);

namespace {

#define FIELD(type, field, offset) static_assert(offsetof(type, field) == (offset), #type "." #field " has moved")
// A struct may grow at its end, never shrink.
#define SIZE(type, size) static_assert(sizeof(type) >= (size), #type " has shrunk")
#define VALUE(name, value) static_assert((name) == (value), #name " was renumbered")

// -- structs: bytes on a 64-bit machine

SIZE(uhal_error, 64);
FIELD(uhal_error, struct_size, 0);
FIELD(uhal_error, status, 8);
FIELD(uhal_error, native_code, 12);
FIELD(uhal_error, native_name, 16);
FIELD(uhal_error, message, 24);
FIELD(uhal_error, op, 32);
FIELD(uhal_error, device, 40);
FIELD(uhal_error, file, 48);
FIELD(uhal_error, line, 56);

SIZE(uhal_device_type_info, 40);
FIELD(uhal_device_type_info, struct_size, 0);
FIELD(uhal_device_type_info, name, 8);
FIELD(uhal_device_type_info, paddle_name, 16);
FIELD(uhal_device_type_info, tensorflow_name, 24);
FIELD(uhal_device_type_info, backends, 32);

SIZE(uhal_backend_report, 40);
FIELD(uhal_backend_report, struct_size, 0);
FIELD(uhal_backend_report, backend, 8);
FIELD(uhal_backend_report, state, 16);
FIELD(uhal_backend_report, device_count, 20);
FIELD(uhal_backend_report, library, 24);
FIELD(uhal_backend_report, reason, 32);

SIZE(uhal_device_properties, 144);
FIELD(uhal_device_properties, struct_size, 0);
FIELD(uhal_device_properties, device_type, 8);
FIELD(uhal_device_properties, backend, 16);
FIELD(uhal_device_properties, name, 24);
FIELD(uhal_device_properties, vendor, 32);
FIELD(uhal_device_properties, driver, 40);
FIELD(uhal_device_properties, pci_bus_id, 48);
FIELD(uhal_device_properties, ordinal, 56);
FIELD(uhal_device_properties, compute_units, 60);
FIELD(uhal_device_properties, wavefront_size, 64);
FIELD(uhal_device_properties, is_stub, 68);
FIELD(uhal_device_properties, unified_memory, 72);
FIELD(uhal_device_properties, clock_megahertz, 76);
FIELD(uhal_device_properties, total_memory, 80);
FIELD(uhal_device_properties, max_allocation, 88);
FIELD(uhal_device_properties, local_memory, 96);
FIELD(uhal_device_properties, supported_dtypes, 104);
FIELD(uhal_device_properties, peak_gigaflops_float32, 112);
FIELD(uhal_device_properties, peak_gigabytes_per_second, 120);
FIELD(uhal_device_properties, launch_nanoseconds, 128);
FIELD(uhal_device_properties, checks, 136);
FIELD(uhal_device_properties, figures_are_of, 140);

SIZE(uhal_pointer_info, 40);
FIELD(uhal_pointer_info, struct_size, 0);
FIELD(uhal_pointer_info, device, 8);
FIELD(uhal_pointer_info, base, 16);
FIELD(uhal_pointer_info, bytes, 24);
FIELD(uhal_pointer_info, kind, 32);

SIZE(uhal_memory_stats, 104);
FIELD(uhal_memory_stats, struct_size, 0);
FIELD(uhal_memory_stats, allocated_bytes, 8);
FIELD(uhal_memory_stats, peak_allocated_bytes, 16);
FIELD(uhal_memory_stats, reserved_bytes, 24);
FIELD(uhal_memory_stats, peak_reserved_bytes, 32);
FIELD(uhal_memory_stats, limit_bytes, 40);
FIELD(uhal_memory_stats, total_bytes, 48);
FIELD(uhal_memory_stats, largest_free_block, 56);
FIELD(uhal_memory_stats, live_allocations, 64);
FIELD(uhal_memory_stats, total_allocations, 72);
FIELD(uhal_memory_stats, cache_hits, 80);
FIELD(uhal_memory_stats, backend_allocations, 88);
FIELD(uhal_memory_stats, fragmentation, 96);

SIZE(uhal_tensor, 184);
FIELD(uhal_tensor, struct_size, 0);
FIELD(uhal_tensor, data, 8);
FIELD(uhal_tensor, dtype, 16);
FIELD(uhal_tensor, rank, 20);
FIELD(uhal_tensor, shape, 24);
FIELD(uhal_tensor, strides, 104);

SIZE(uhal_map_function_info, 48);
FIELD(uhal_map_function_info, struct_size, 0);
FIELD(uhal_map_function_info, name, 8);
FIELD(uhal_map_function_info, input_count, 16);
FIELD(uhal_map_function_info, output_count, 20);
FIELD(uhal_map_function_info, integer, 24);
FIELD(uhal_map_function_info, flops, 28);
FIELD(uhal_map_function_info, expression, 32);
FIELD(uhal_map_function_info, complex_expression, 40);

SIZE(uhal_map_attributes, 80);
FIELD(uhal_map_attributes, struct_size, 0);
FIELD(uhal_map_attributes, function, 8);
FIELD(uhal_map_attributes, reserved, 12);
FIELD(uhal_map_attributes, parameters, 16);

SIZE(uhal_map_chain_attributes, 1632);
FIELD(uhal_map_chain_attributes, struct_size, 0);
FIELD(uhal_map_chain_attributes, step_count, 8);
FIELD(uhal_map_chain_attributes, results, 12);
FIELD(uhal_map_chain_attributes, functions, 28);
FIELD(uhal_map_chain_attributes, operands, 92);
FIELD(uhal_map_chain_attributes, reserved, 604);
FIELD(uhal_map_chain_attributes, parameters, 608);

SIZE(uhal_fill_attributes, 24);
FIELD(uhal_fill_attributes, struct_size, 0);
FIELD(uhal_fill_attributes, value, 8);
FIELD(uhal_fill_attributes, integer_value, 16);

SIZE(uhal_iota_attributes, 40);
FIELD(uhal_iota_attributes, struct_size, 0);
FIELD(uhal_iota_attributes, start, 8);
FIELD(uhal_iota_attributes, step, 16);
FIELD(uhal_iota_attributes, integer_start, 24);
FIELD(uhal_iota_attributes, integer_step, 32);

SIZE(uhal_triangular_attributes, 24);
FIELD(uhal_triangular_attributes, struct_size, 0);
FIELD(uhal_triangular_attributes, upper, 8);
FIELD(uhal_triangular_attributes, reserved, 12);
FIELD(uhal_triangular_attributes, diagonal, 16);

SIZE(uhal_index_attributes, 32);
FIELD(uhal_index_attributes, struct_size, 0);
FIELD(uhal_index_attributes, axis, 8);
FIELD(uhal_index_attributes, batch_dimensions, 12);
FIELD(uhal_index_attributes, reduction, 16);
FIELD(uhal_index_attributes, negative_wraps, 20);
FIELD(uhal_index_attributes, ignore_out_of_range, 24);
FIELD(uhal_index_attributes, reserved, 28);

SIZE(uhal_segment_attributes, 40);
FIELD(uhal_segment_attributes, struct_size, 0);
FIELD(uhal_segment_attributes, reduction, 8);
FIELD(uhal_segment_attributes, form, 12);
FIELD(uhal_segment_attributes, ignore_negative, 16);
FIELD(uhal_segment_attributes, ignore_out_of_range, 20);
FIELD(uhal_segment_attributes, empty, 24);
FIELD(uhal_segment_attributes, integer_empty, 32);

SIZE(uhal_reduce_attributes, 16);
FIELD(uhal_reduce_attributes, struct_size, 0);
FIELD(uhal_reduce_attributes, reduction, 8);
FIELD(uhal_reduce_attributes, reserved, 12);

SIZE(uhal_axis_attributes, 16);
FIELD(uhal_axis_attributes, struct_size, 0);
FIELD(uhal_axis_attributes, axis, 8);
FIELD(uhal_axis_attributes, flags, 12);

SIZE(uhal_scan_attributes, 24);
FIELD(uhal_scan_attributes, struct_size, 0);
FIELD(uhal_scan_attributes, axis, 8);
FIELD(uhal_scan_attributes, reduction, 12);
FIELD(uhal_scan_attributes, exclusive, 16);
FIELD(uhal_scan_attributes, reverse, 20);

SIZE(uhal_matmul_attributes, 32);
FIELD(uhal_matmul_attributes, struct_size, 0);
FIELD(uhal_matmul_attributes, alpha, 8);
FIELD(uhal_matmul_attributes, beta, 16);
FIELD(uhal_matmul_attributes, activation, 24);
FIELD(uhal_matmul_attributes, math_mode, 28);
SIZE(uhal_matmul_quantized_attributes, 32);
FIELD(uhal_matmul_quantized_attributes, struct_size, 0);
FIELD(uhal_matmul_quantized_attributes, bits, 8);
FIELD(uhal_matmul_quantized_attributes, activation, 12);
FIELD(uhal_matmul_quantized_attributes, block_size, 16);
FIELD(uhal_matmul_quantized_attributes, zero_point, 24);
SIZE(uhal_triangular_solve_attributes, 24);
FIELD(uhal_triangular_solve_attributes, struct_size, 0);
FIELD(uhal_triangular_solve_attributes, upper, 8);
FIELD(uhal_triangular_solve_attributes, unit_diagonal, 12);
FIELD(uhal_triangular_solve_attributes, conjugate, 16);
FIELD(uhal_triangular_solve_attributes, reserved, 20);
SIZE(uhal_triangle_attributes, 16);
FIELD(uhal_triangle_attributes, struct_size, 0);
FIELD(uhal_triangle_attributes, upper, 8);
FIELD(uhal_triangle_attributes, reserved, 12);

SIZE(uhal_convolution_attributes, 120);
FIELD(uhal_convolution_attributes, struct_size, 0);
FIELD(uhal_convolution_attributes, stride, 8);
FIELD(uhal_convolution_attributes, dilation, 32);
FIELD(uhal_convolution_attributes, pad_before, 56);
FIELD(uhal_convolution_attributes, pad_after, 80);
FIELD(uhal_convolution_attributes, groups, 104);
FIELD(uhal_convolution_attributes, activation, 112);
FIELD(uhal_convolution_attributes, math_mode, 116);

SIZE(uhal_pool_attributes, 112);
FIELD(uhal_pool_attributes, struct_size, 0);
FIELD(uhal_pool_attributes, mode, 8);
FIELD(uhal_pool_attributes, adaptive, 12);
FIELD(uhal_pool_attributes, window, 16);
FIELD(uhal_pool_attributes, stride, 40);
FIELD(uhal_pool_attributes, pad_before, 64);
FIELD(uhal_pool_attributes, pad_after, 88);

SIZE(uhal_softmax_attributes, 16);
FIELD(uhal_softmax_attributes, struct_size, 0);
FIELD(uhal_softmax_attributes, axis, 8);
FIELD(uhal_softmax_attributes, logarithm, 12);

SIZE(uhal_cross_entropy_attributes, 24);
FIELD(uhal_cross_entropy_attributes, struct_size, 0);
FIELD(uhal_cross_entropy_attributes, axis, 8);
FIELD(uhal_cross_entropy_attributes, has_ignore, 12);
FIELD(uhal_cross_entropy_attributes, ignore_index, 16);

SIZE(uhal_norm_attributes, 48);
FIELD(uhal_norm_attributes, struct_size, 0);
FIELD(uhal_norm_attributes, epsilon, 8);
FIELD(uhal_norm_attributes, momentum, 16);
FIELD(uhal_norm_attributes, inference, 24);
FIELD(uhal_norm_attributes, unbiased_running, 28);
FIELD(uhal_norm_attributes, axis, 32);
FIELD(uhal_norm_attributes, activation, 36);
FIELD(uhal_norm_attributes, groups, 40);

SIZE(uhal_attention_attributes, 24);
FIELD(uhal_attention_attributes, struct_size, 0);
FIELD(uhal_attention_attributes, scale, 8);
FIELD(uhal_attention_attributes, causal, 16);
FIELD(uhal_attention_attributes, math_mode, 20);

SIZE(uhal_random_attributes, 56);
FIELD(uhal_random_attributes, struct_size, 0);
FIELD(uhal_random_attributes, distribution, 8);
FIELD(uhal_random_attributes, scale_at_inference, 12);
FIELD(uhal_random_attributes, key, 16);
FIELD(uhal_random_attributes, counter, 24);
FIELD(uhal_random_attributes, a, 40);
FIELD(uhal_random_attributes, b, 48);
SIZE(uhal_random_distribution_attributes, 40);
FIELD(uhal_random_distribution_attributes, struct_size, 0);
FIELD(uhal_random_distribution_attributes, distribution, 8);
FIELD(uhal_random_distribution_attributes, key, 16);
FIELD(uhal_random_distribution_attributes, counter, 24);

SIZE(uhal_resize_attributes, 48);
FIELD(uhal_resize_attributes, struct_size, 0);
FIELD(uhal_resize_attributes, mode, 8);
FIELD(uhal_resize_attributes, align_corners, 12);
FIELD(uhal_resize_attributes, half_pixel_centers, 16);
FIELD(uhal_resize_attributes, reserved, 20);
FIELD(uhal_resize_attributes, scale, 24);
SIZE(uhal_grid_sample_attributes, 32);
FIELD(uhal_grid_sample_attributes, struct_size, 0);
FIELD(uhal_grid_sample_attributes, mode, 8);
FIELD(uhal_grid_sample_attributes, padding, 12);
FIELD(uhal_grid_sample_attributes, align_corners, 16);
FIELD(uhal_grid_sample_attributes, edge_gradient, 20);
FIELD(uhal_grid_sample_attributes, in_pixels, 24);

SIZE(uhal_roi_align_attributes, 24);
FIELD(uhal_roi_align_attributes, struct_size, 0);
FIELD(uhal_roi_align_attributes, scale, 8);
FIELD(uhal_roi_align_attributes, samples, 16);
FIELD(uhal_roi_align_attributes, aligned, 20);

SIZE(uhal_roi_pool_attributes, 24);
FIELD(uhal_roi_pool_attributes, struct_size, 0);
FIELD(uhal_roi_pool_attributes, scale, 8);
FIELD(uhal_roi_pool_attributes, mode, 16);

SIZE(uhal_non_max_suppression_attributes, 40);
FIELD(uhal_non_max_suppression_attributes, struct_size, 0);
FIELD(uhal_non_max_suppression_attributes, threshold, 8);
FIELD(uhal_non_max_suppression_attributes, decay, 16);
FIELD(uhal_non_max_suppression_attributes, extent, 24);
FIELD(uhal_non_max_suppression_attributes, ordered, 32);
SIZE(uhal_fft_attributes, 32);
FIELD(uhal_fft_attributes, struct_size, 0);
FIELD(uhal_fft_attributes, direction, 8);
FIELD(uhal_fft_attributes, normalization, 12);
FIELD(uhal_fft_attributes, axis_count, 16);
FIELD(uhal_fft_attributes, axes, 20);

SIZE(uhal_search_attributes, 16);
FIELD(uhal_search_attributes, struct_size, 0);
FIELD(uhal_search_attributes, right, 8);
FIELD(uhal_search_attributes, reserved, 12);

SIZE(uhal_rnn_attributes, 32);
FIELD(uhal_rnn_attributes, struct_size, 0);
FIELD(uhal_rnn_attributes, mode, 8);
FIELD(uhal_rnn_attributes, reverse, 12);
FIELD(uhal_rnn_attributes, cell_clip, 16);
FIELD(uhal_rnn_attributes, math_mode, 24);
FIELD(uhal_rnn_attributes, reserved, 28);
SIZE(uhal_ctc_attributes, 16);
FIELD(uhal_ctc_attributes, struct_size, 0);
FIELD(uhal_ctc_attributes, blank, 8);
FIELD(uhal_ctc_attributes, zero_infinity, 12);

SIZE(uhal_op, 56);
FIELD(uhal_op, struct_size, 0);
FIELD(uhal_op, kind, 8);
FIELD(uhal_op, input_count, 12);
FIELD(uhal_op, output_count, 16);
FIELD(uhal_op, reserved, 20);
FIELD(uhal_op, inputs, 24);
FIELD(uhal_op, outputs, 32);
FIELD(uhal_op, attributes, 40);
FIELD(uhal_op, label, 48);

SIZE(uhal_profiler_event, 120);
FIELD(uhal_profiler_event, struct_size, 0);
FIELD(uhal_profiler_event, name, 8);
FIELD(uhal_profiler_event, op, 16);
FIELD(uhal_profiler_event, shape, 24);
FIELD(uhal_profiler_event, device, 32);
FIELD(uhal_profiler_event, stream, 40);
FIELD(uhal_profiler_event, start_nanoseconds, 48);
FIELD(uhal_profiler_event, duration_nanoseconds, 56);
FIELD(uhal_profiler_event, bytes, 64);
FIELD(uhal_profiler_event, flops, 72);
FIELD(uhal_profiler_event, estimated_nanoseconds, 80);
FIELD(uhal_profiler_event, implementation, 88);
FIELD(uhal_profiler_event, submit_nanoseconds, 96);
FIELD(uhal_profiler_event, submit_duration_nanoseconds, 104);
FIELD(uhal_profiler_event, thread, 112);

SIZE(uhal_profiler_total, 64);
FIELD(uhal_profiler_total, struct_size, 0);
FIELD(uhal_profiler_total, op, 8);
FIELD(uhal_profiler_total, calls, 16);
FIELD(uhal_profiler_total, duration_nanoseconds, 24);
FIELD(uhal_profiler_total, bytes, 32);
FIELD(uhal_profiler_total, flops, 40);
FIELD(uhal_profiler_total, estimated_nanoseconds, 48);
FIELD(uhal_profiler_total, implementations, 56);

SIZE(uhal_race_access, 64);
FIELD(uhal_race_access, struct_size, 0);
FIELD(uhal_race_access, work, 8);
FIELD(uhal_race_access, role, 16);
FIELD(uhal_race_access, site, 24);
FIELD(uhal_race_access, stream, 32);
FIELD(uhal_race_access, is_write, 40);
FIELD(uhal_race_access, address, 48);
FIELD(uhal_race_access, bytes, 56);

SIZE(uhal_live_allocation, 40);
FIELD(uhal_live_allocation, struct_size, 0);
FIELD(uhal_live_allocation, pointer, 8);
FIELD(uhal_live_allocation, bytes, 16);
FIELD(uhal_live_allocation, kind, 24);
FIELD(uhal_live_allocation, site, 32);

SIZE(uhal_fault_counts, 40);
FIELD(uhal_fault_counts, struct_size, 0);
FIELD(uhal_fault_counts, allocations, 8);
FIELD(uhal_fault_counts, launches, 16);
FIELD(uhal_fault_counts, copies, 24);
FIELD(uhal_fault_counts, injected, 32);

SIZE(uhal_fault_injection, 24);
FIELD(uhal_fault_injection, struct_size, 0);
FIELD(uhal_fault_injection, set_rules, 8);
FIELD(uhal_fault_injection, get_counts, 16);

SIZE(uhal_host_kernels, 24);
FIELD(uhal_host_kernels, struct_size, 0);
FIELD(uhal_host_kernels, supports, 8);
FIELD(uhal_host_kernels, launch, 16);

SIZE(uhal_launch_group, 24);
FIELD(uhal_launch_group, struct_size, 0);
FIELD(uhal_launch_group, start, 8);
FIELD(uhal_launch_group, end, 16);

SIZE(uhal_peer_copy, 16);
FIELD(uhal_peer_copy, struct_size, 0);
FIELD(uhal_peer_copy, copy, 8);

SIZE(uhal_tuning, 56);
FIELD(uhal_tuning, struct_size, 0);
FIELD(uhal_tuning, describe, 8);
FIELD(uhal_tuning, candidate, 16);
FIELD(uhal_tuning, choose, 24);
FIELD(uhal_tuning, chosen, 32);
FIELD(uhal_tuning, keep, 40);
FIELD(uhal_tuning, forget, 48);

SIZE(uhal_fallback, 48);
FIELD(uhal_fallback, struct_size, 0);
FIELD(uhal_fallback, framework, 8);
FIELD(uhal_fallback, op, 16);
FIELD(uhal_fallback, dtype, 24);
FIELD(uhal_fallback, reason, 32);
FIELD(uhal_fallback, count, 40);

SIZE(uhal_host, 56);
FIELD(uhal_host, struct_size, 0);
FIELD(uhal_host, abi_major, 8);
FIELD(uhal_host, abi_minor, 12);
FIELD(uhal_host, report, 16);
FIELD(uhal_host, stream_error, 24);
FIELD(uhal_host, workspace, 32);
FIELD(uhal_host, describe_pointer, 40);
FIELD(uhal_host, is_asked_for, 48);

SIZE(uhal_backend, 224);
FIELD(uhal_backend, struct_size, 0);
FIELD(uhal_backend, abi_major, 8);
FIELD(uhal_backend, abi_minor, 12);
FIELD(uhal_backend, name, 16);
FIELD(uhal_backend, version, 24);
FIELD(uhal_backend, device_count, 32);
FIELD(uhal_backend, device_open, 40);
FIELD(uhal_backend, device_properties, 48);
FIELD(uhal_backend, allocate, 56);
FIELD(uhal_backend, free, 64);
FIELD(uhal_backend, memory_info, 72);
FIELD(uhal_backend, stream_create, 80);
FIELD(uhal_backend, stream_destroy, 88);
FIELD(uhal_backend, stream_query, 96);
FIELD(uhal_backend, stream_synchronize, 104);
FIELD(uhal_backend, stream_wait_event, 112);
FIELD(uhal_backend, event_create, 120);
FIELD(uhal_backend, event_destroy, 128);
FIELD(uhal_backend, event_record, 136);
FIELD(uhal_backend, event_query, 144);
FIELD(uhal_backend, event_synchronize, 152);
FIELD(uhal_backend, event_elapsed, 160);
FIELD(uhal_backend, copy, 168);
FIELD(uhal_backend, fill, 176);
FIELD(uhal_backend, supports, 184);
FIELD(uhal_backend, launch, 192);
FIELD(uhal_backend, finalize, 200);
FIELD(uhal_backend, host_callback, 208);
FIELD(uhal_backend, extension, 216);

// -- enumerators
VALUE(UHAL_OK, 0);
VALUE(UHAL_CANCELLED, 1);
VALUE(UHAL_UNKNOWN, 2);
VALUE(UHAL_INVALID_ARGUMENT, 3);
VALUE(UHAL_DEADLINE_EXCEEDED, 4);
VALUE(UHAL_NOT_FOUND, 5);
VALUE(UHAL_ALREADY_EXISTS, 6);
VALUE(UHAL_PERMISSION_DENIED, 7);
VALUE(UHAL_RESOURCE_EXHAUSTED, 8);
VALUE(UHAL_FAILED_PRECONDITION, 9);
VALUE(UHAL_ABORTED, 10);
VALUE(UHAL_OUT_OF_RANGE, 11);
VALUE(UHAL_UNIMPLEMENTED, 12);
VALUE(UHAL_INTERNAL, 13);
VALUE(UHAL_UNAVAILABLE, 14);
VALUE(UHAL_DATA_LOSS, 15);
VALUE(UHAL_UNAUTHENTICATED, 16);
VALUE(UHAL_BACKEND_CHOSEN, 0);
VALUE(UHAL_BACKEND_REFUSED, 1);
VALUE(UHAL_BACKEND_NOT_TRIED, 2);
VALUE(UHAL_MEMORY_DEVICE, 0);
VALUE(UHAL_MEMORY_PINNED, 1);
VALUE(UHAL_MEMORY_MANAGED, 2);
VALUE(UHAL_MEMORY_KIND_COUNT, 3);
VALUE(UHAL_COPY_HOST_TO_DEVICE, 0);
VALUE(UHAL_COPY_DEVICE_TO_HOST, 1);
VALUE(UHAL_COPY_DEVICE_TO_DEVICE, 2);
VALUE(UHAL_DTYPE_INVALID, 0);
VALUE(UHAL_BOOL, 1);
VALUE(UHAL_INT8, 2);
VALUE(UHAL_INT16, 3);
VALUE(UHAL_INT32, 4);
VALUE(UHAL_INT64, 5);
VALUE(UHAL_UINT8, 6);
VALUE(UHAL_UINT16, 7);
VALUE(UHAL_UINT32, 8);
VALUE(UHAL_UINT64, 9);
VALUE(UHAL_FLOAT16, 10);
VALUE(UHAL_BFLOAT16, 11);
VALUE(UHAL_FLOAT32, 12);
VALUE(UHAL_FLOAT64, 13);
VALUE(UHAL_COMPLEX64, 14);
VALUE(UHAL_COMPLEX128, 15);
VALUE(UHAL_FLOAT8_E4M3FN, 16);
VALUE(UHAL_FLOAT8_E5M2, 17);
VALUE(UHAL_MAX_RANK, 10);
VALUE(UHAL_OP_INVALID, 0);
VALUE(UHAL_OP_MAP, 1);
VALUE(UHAL_OP_COPY, 2);
VALUE(UHAL_OP_CAST, 3);
VALUE(UHAL_OP_FILL, 4);
VALUE(UHAL_OP_IOTA, 5);
VALUE(UHAL_OP_TRIANGULAR, 6);
VALUE(UHAL_OP_MAP_CHAIN, 7);
VALUE(UHAL_MAP_CHAIN_MAX_STEPS, 16);
VALUE(UHAL_OP_GATHER, 16);
VALUE(UHAL_OP_SCATTER, 17);
VALUE(UHAL_OP_GATHER_ND, 18);
VALUE(UHAL_OP_SCATTER_ND, 19);
VALUE(UHAL_OP_GATHER_ELEMENTS, 20);
VALUE(UHAL_OP_SCATTER_ELEMENTS, 21);
VALUE(UHAL_OP_ONE_HOT, 22);
VALUE(UHAL_OP_SEGMENT_REDUCE, 23);
VALUE(UHAL_OP_REDUCE, 32);
VALUE(UHAL_OP_ARG_REDUCE, 33);
VALUE(UHAL_OP_SCAN, 34);
VALUE(UHAL_OP_SORT, 35);
VALUE(UHAL_OP_TOP_K, 36);
VALUE(UHAL_OP_MATMUL, 48);
VALUE(UHAL_OP_TRIANGULAR_SOLVE, 49);
VALUE(UHAL_OP_CHOLESKY, 50);
VALUE(UHAL_OP_LU, 51);
VALUE(UHAL_OP_QR, 52);
VALUE(UHAL_OP_EIGEN_SYMMETRIC, 53);
VALUE(UHAL_OP_SVD, 54);
VALUE(UHAL_OP_EIGEN, 55);
VALUE(UHAL_OP_MATMUL_QUANTIZED, 56);
VALUE(UHAL_OP_CONVOLUTION, 64);
VALUE(UHAL_OP_CONVOLUTION_BACKWARD_DATA, 65);
VALUE(UHAL_OP_CONVOLUTION_BACKWARD_FILTER, 66);
VALUE(UHAL_OP_POOL, 67);
VALUE(UHAL_OP_POOL_BACKWARD, 68);
VALUE(UHAL_OP_SOFTMAX, 80);
VALUE(UHAL_OP_SOFTMAX_BACKWARD, 81);
VALUE(UHAL_OP_CROSS_ENTROPY, 82);
VALUE(UHAL_OP_CROSS_ENTROPY_BACKWARD, 83);
VALUE(UHAL_OP_BATCH_NORM, 84);
VALUE(UHAL_OP_BATCH_NORM_BACKWARD, 85);
VALUE(UHAL_OP_LAYER_NORM, 86);
VALUE(UHAL_OP_LAYER_NORM_BACKWARD, 87);
VALUE(UHAL_OP_GROUP_NORM, 88);
VALUE(UHAL_OP_GROUP_NORM_BACKWARD, 89);
VALUE(UHAL_OP_RMS_NORM, 90);
VALUE(UHAL_OP_RMS_NORM_BACKWARD, 91);
VALUE(UHAL_OP_ATTENTION, 96);
VALUE(UHAL_OP_ATTENTION_BACKWARD, 97);
VALUE(UHAL_OP_RANDOM, 112);
VALUE(UHAL_OP_DROPOUT, 113);
VALUE(UHAL_OP_RANDOM_DISTRIBUTION, 114);
VALUE(UHAL_OP_RESIZE, 128);
VALUE(UHAL_OP_RESIZE_BACKWARD, 129);
VALUE(UHAL_OP_GRID_SAMPLE, 130);
VALUE(UHAL_OP_GRID_SAMPLE_BACKWARD_DATA, 131);
VALUE(UHAL_OP_GRID_SAMPLE_BACKWARD_GRID, 132);
VALUE(UHAL_OP_RESAMPLE, 133);
VALUE(UHAL_OP_ROI_ALIGN, 134);
VALUE(UHAL_OP_ROI_ALIGN_BACKWARD, 135);
VALUE(UHAL_OP_ROI_POOL, 136);
VALUE(UHAL_OP_ROI_POOL_BACKWARD, 137);
VALUE(UHAL_ROI_POOL_MAX, 0);
VALUE(UHAL_ROI_POOL_AVERAGE_BY_POSITION, 1);
VALUE(UHAL_OP_NON_MAX_SUPPRESSION, 139);
VALUE(UHAL_OP_FFT, 144);
VALUE(UHAL_OP_NONZERO, 160);
VALUE(UHAL_OP_SEARCH_SORTED, 161);
VALUE(UHAL_OP_COMPACT, 162);
VALUE(UHAL_OP_RNN, 176);
VALUE(UHAL_OP_RNN_BACKWARD, 177);
VALUE(UHAL_OP_CTC_LOSS, 178);
VALUE(UHAL_OP_KIND_LIMIT, 256);
VALUE(UHAL_MAP_MAX_INPUTS, 8);
VALUE(UHAL_MAP_MAX_OUTPUTS, 4);
VALUE(UHAL_MAP_MAX_PARAMETERS, 8);
VALUE(UHAL_REDUCE_NONE, 0);
VALUE(UHAL_REDUCE_SUM, 1);
VALUE(UHAL_REDUCE_MEAN, 2);
VALUE(UHAL_REDUCE_PRODUCT, 3);
VALUE(UHAL_REDUCE_MAXIMUM, 4);
VALUE(UHAL_REDUCE_MINIMUM, 5);
VALUE(UHAL_REDUCE_ALL, 6);
VALUE(UHAL_REDUCE_ANY, 7);
VALUE(UHAL_REDUCE_SUM_OF_SQUARES, 8);
VALUE(UHAL_REDUCE_L1_NORM, 9);
VALUE(UHAL_REDUCE_L2_NORM, 10);
VALUE(UHAL_REDUCE_LOG_SUM_EXP, 11);
VALUE(UHAL_SEGMENT_UNSORTED, 0);
VALUE(UHAL_SEGMENT_SORTED, 1);
VALUE(UHAL_SEGMENT_OFFSETS, 2);
VALUE(UHAL_AXIS_DESCENDING, 1);
VALUE(UHAL_ACTIVATION_NONE, 0);
VALUE(UHAL_ACTIVATION_RELU, 1);
VALUE(UHAL_ACTIVATION_GELU_ERF, 2);
VALUE(UHAL_ACTIVATION_GELU_TANH, 3);
VALUE(UHAL_ACTIVATION_SIGMOID, 4);
VALUE(UHAL_ACTIVATION_TANH, 5);
VALUE(UHAL_ACTIVATION_SILU, 6);
VALUE(UHAL_ACTIVATION_RELU6, 7);
VALUE(UHAL_MATH_STRICT, 0);
VALUE(UHAL_MATH_ALLOW_TF32, 1);
VALUE(UHAL_MAX_SPATIAL, 3);
VALUE(UHAL_POOL_MAXIMUM, 0);
VALUE(UHAL_POOL_AVERAGE_INCLUDE_PADDING, 1);
VALUE(UHAL_POOL_AVERAGE_EXCLUDE_PADDING, 2);
VALUE(UHAL_RANDOM_UNIFORM, 0);
VALUE(UHAL_RANDOM_NORMAL, 1);
VALUE(UHAL_RANDOM_TRUNCATED_NORMAL, 2);
VALUE(UHAL_RANDOM_BERNOULLI, 3);
VALUE(UHAL_RANDOM_BITS, 4);
VALUE(UHAL_RANDOM_GAMMA, 0);
VALUE(UHAL_RANDOM_POISSON, 1);
VALUE(UHAL_RANDOM_BINOMIAL, 2);
VALUE(UHAL_RESIZE_NEAREST, 0);
VALUE(UHAL_RESIZE_LINEAR, 1);
VALUE(UHAL_RESIZE_CUBIC, 2);
VALUE(UHAL_GRID_SAMPLE_NEAREST, 0);
VALUE(UHAL_GRID_SAMPLE_LINEAR, 1);
VALUE(UHAL_GRID_SAMPLE_CUBIC, 2);
VALUE(UHAL_GRID_SAMPLE_ZEROS, 0);
VALUE(UHAL_GRID_SAMPLE_BORDER, 1);
VALUE(UHAL_GRID_SAMPLE_REFLECTION, 2);
VALUE(UHAL_FFT_FORWARD, 0);
VALUE(UHAL_FFT_INVERSE, 1);
VALUE(UHAL_FFT_UNSCALED, 0);
VALUE(UHAL_FFT_BY_LENGTH, 1);
VALUE(UHAL_FFT_ORTHONORMAL, 2);
VALUE(UHAL_FFT_MAX_AXES, 3);
VALUE(UHAL_RNN_LSTM, 0);
VALUE(UHAL_RNN_GRU, 1);
VALUE(UHAL_RNN_TANH, 2);
VALUE(UHAL_RNN_RELU, 3);
VALUE(UHAL_RNN_MAX_DIRECTIONS, 8);

// -- numbers of map functions: positions in elementwise.def
VALUE(uhal_map_identity, 0);
VALUE(uhal_map_negative, 1);
VALUE(uhal_map_absolute, 2);
VALUE(uhal_map_scale, 6);
VALUE(uhal_map_add, 9);
VALUE(uhal_map_divide, 12);
VALUE(uhal_map_select, 26);
VALUE(uhal_map_exp, 32);
VALUE(uhal_map_rsqrt, 39);
VALUE(uhal_map_erf, 53);
VALUE(uhal_map_relu, 55);
VALUE(uhal_map_gelu_erf, 64);
VALUE(uhal_map_hard_swish, 70);
VALUE(uhal_map_is_nan, 75);
VALUE(uhal_map_less_equal, 81);
VALUE(uhal_map_bitwise_xor, 91);
VALUE(uhal_map_relu_backward, 94);
VALUE(uhal_map_gelu_tanh_backward, 105);
VALUE(uhal_map_hard_swish_backward, 109);
VALUE(uhal_map_power_scalar_backward, 120);
VALUE(uhal_map_minimum_backward_second, 125);
VALUE(uhal_map_sgd, 126);
VALUE(uhal_map_momentum, 127);
VALUE(uhal_map_adam, 128);
VALUE(uhal_map_adam_epsilon_hat, 129);
VALUE(uhal_map_adagrad, 130);
VALUE(uhal_map_rmsprop, 131);
static_assert(uhal_map_function_limit > uhal_map_rmsprop, "functions are appended, never removed");

// -- collectives

VALUE(UHAL_COMMUNICATOR_ID_BYTES, 256);
SIZE(uhal_communicator_id, 256);
SIZE(uhal_collective, 48);
FIELD(uhal_collective, struct_size, 0);
FIELD(uhal_collective, kind, 8);
FIELD(uhal_collective, dtype, 12);
FIELD(uhal_collective, reduction, 16);
FIELD(uhal_collective, peer, 20);
FIELD(uhal_collective, source, 24);
FIELD(uhal_collective, destination, 32);
FIELD(uhal_collective, count, 40);
SIZE(uhal_collective_batch, 32);
FIELD(uhal_collective_batch, communicator, 0);
FIELD(uhal_collective_batch, stream, 8);
FIELD(uhal_collective_batch, collectives, 16);
FIELD(uhal_collective_batch, count, 24);
SIZE(uhal_collectives, 48);
FIELD(uhal_collectives, struct_size, 0);
FIELD(uhal_collectives, create_id, 8);
FIELD(uhal_collectives, create, 16);
FIELD(uhal_collectives, destroy, 24);
FIELD(uhal_collectives, abort, 32);
FIELD(uhal_collectives, launch, 40);
FIELD(uhal_host, is_wait_given_up, 56);
FIELD(uhal_host, note_implementation, 64);
VALUE(UHAL_COLLECTIVES_VERSION, 1);
VALUE(UHAL_ALL_REDUCE, 1);
VALUE(UHAL_ALL_GATHER, 2);
VALUE(UHAL_REDUCE_SCATTER, 3);
VALUE(UHAL_BROADCAST, 4);
VALUE(UHAL_REDUCE, 5);
VALUE(UHAL_ALL_TO_ALL, 6);
VALUE(UHAL_SEND, 7);
VALUE(UHAL_RECEIVE, 8);
VALUE(UHAL_REDUCTION_SUM, 0);
VALUE(UHAL_REDUCTION_PRODUCT, 1);
VALUE(UHAL_REDUCTION_MINIMUM, 2);
VALUE(UHAL_REDUCTION_MAXIMUM, 3);
VALUE(UHAL_REDUCTION_AVERAGE, 4);

// -- graphs

SIZE(uhal_graph_info, 40);
FIELD(uhal_graph_info, struct_size, 0);
FIELD(uhal_graph_info, device, 8);
FIELD(uhal_graph_info, work_count, 16);
FIELD(uhal_graph_info, bytes, 24);
FIELD(uhal_graph_info, flops, 32);
SIZE(uhal_graph_capture, 48);
FIELD(uhal_graph_capture, struct_size, 0);
FIELD(uhal_graph_capture, begin, 8);
FIELD(uhal_graph_capture, end, 16);
FIELD(uhal_graph_capture, cancel, 24);
FIELD(uhal_graph_capture, launch, 32);
FIELD(uhal_graph_capture, destroy, 40);

SIZE(uhal_constants, 24);
FIELD(uhal_constants, struct_size, 0);
FIELD(uhal_constants, declare, 8);
FIELD(uhal_constants, withdraw, 16);
VALUE(UHAL_GRAPH_CAPTURE_VERSION, 1);

TEST(AbiLayout, VersionIsThatOfTheHeaders) {
  EXPECT_EQ(UHAL_ABI_MAJOR, static_cast<int>(uhal_abi_version() >> 16));
  EXPECT_EQ(UHAL_ABI_MINOR, static_cast<int>(uhal_abi_version() & 0xffff));
  EXPECT_STREQ("0.1.0", uhal_version_string());
}

TEST(AbiLayout, HeadersWorkFromC) { EXPECT_EQ(1, uhal_test_from_c()); }

TEST(AbiLayout, MapFunctionsAreFoundByName) {
  EXPECT_EQ(static_cast<size_t>(uhal_map_function_limit), uhal_map_function_count());
  uhal_map_function_info info = {};
  info.struct_size = sizeof info;
  ASSERT_EQ(UHAL_OK, uhal_map_function_get(uhal_map_adam, &info));
  EXPECT_STREQ("adam", info.name);
  EXPECT_EQ(7, info.input_count);
  EXPECT_EQ(3, info.output_count);
  EXPECT_EQ(0, info.integer);
  ASSERT_EQ(UHAL_OK, uhal_map_function_get(uhal_map_add, &info));
  EXPECT_STREQ("x + y", info.expression);
  EXPECT_EQ(1, info.integer);
  for (size_t i = 0; i < uhal_map_function_count(); ++i) {
    uhal_map_function number = static_cast<uhal_map_function>(i);
    ASSERT_EQ(UHAL_OK, uhal_map_function_get(number, &info));
    EXPECT_EQ(number, uhal_map_function_find(info.name)) << info.name << " is there twice";
    EXPECT_LE(info.input_count, UHAL_MAP_MAX_INPUTS);
    EXPECT_LE(info.output_count, UHAL_MAP_MAX_OUTPUTS);
  }
  EXPECT_EQ(UHAL_OUT_OF_RANGE, uhal_map_function_get(uhal_map_function_limit, &info));
  EXPECT_EQ(UHAL_OUT_OF_RANGE, uhal_map_function_get(-1, &info));
  EXPECT_EQ(-1, uhal_map_function_find("no such function"));
  EXPECT_EQ(-1, uhal_map_function_find(nullptr));
}

// A caller of an older minor has a shorter struct: what lies behind it must not be touched.
TEST(AbiLayout, ShortStructsAreFilledOnlyAsFarAsTheyReach) {
  struct {
    size_t struct_size = offsetof(uhal_map_function_info, output_count);
    const char* name = nullptr;
    int32_t input_count = 0;
    int32_t guard = 0x5a5a5a5a;
  } caller;
  ASSERT_EQ(UHAL_OK, uhal_map_function_get(uhal_map_add, reinterpret_cast<uhal_map_function_info*>(&caller)));
  EXPECT_STREQ("add", caller.name);
  EXPECT_EQ(2, caller.input_count);
  EXPECT_EQ(0x5a5a5a5a, caller.guard);
  caller.struct_size = 0;
  EXPECT_EQ(UHAL_INVALID_ARGUMENT,
            uhal_map_function_get(uhal_map_add, reinterpret_cast<uhal_map_function_info*>(&caller)));
}

}  // namespace
