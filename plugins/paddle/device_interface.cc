#include "plugins/paddle/device_interface.h"

#include <cstring>

namespace unihal::paddle {

const char* const kSupportedPaddleVersions = "3.0, 3.1, 3.2, 3.3";

namespace {

// Versions in order; `since` and `until` below are positions here.
enum Version { k30, k31, k32, k33, kVersions };
constexpr size_t kInterfaceSizes[kVersions] = {920, 976, 1032, 1128};

struct Slot {
  const char* name;
  Version since = k30;
  Version until = k33;
  int count = 1;  // of consecutive pointers
};

// The struct after its size field. Slots whose callback changed its parameters appear once for each form; the
// callback's name for the older form ends in "@3.0".
constexpr Slot kSlots[] = {
    {"initialize"},
    {"finalize"},
    {"init_device"},
    {"set_device"},
    {"get_device"},
    {"deinit_device"},
    {"create_stream"},
    {"destroy_stream"},
    {"query_stream"},
    {"stream_add_callback"},
    {"create_event"},
    {"record_event"},
    {"destroy_event"},
    {"query_event"},
    {"synchronize_device"},
    {"synchronize_stream"},
    {"synchronize_event"},
    {"stream_wait_event"},
    {"reserved_dev_api", k30, k33, 8},
    {"device_memory_allocate"},
    {"device_memory_deallocate"},
    {"device_memory_set"},
    {"host_memory_allocate"},
    {"host_memory_deallocate"},
    {"unified_memory_allocate"},
    {"unified_memory_deallocate"},
    {"memory_copy_h2d"},
    {"memory_copy_d2h"},
    {"memory_copy_d2d"},
    {"memory_copy_p2p"},
    {"async_memory_copy_h2d"},
    {"async_memory_copy_d2h"},
    {"async_memory_copy_d2d"},
    {"async_memory_copy_p2p"},
    {"reserved_mem_api", k30, k33, 8},
    {"get_device_count"},
    {"get_device_list"},
    {"device_memory_stats"},
    {"device_min_chunk_size"},
    {"device_max_chunk_size"},
    {"device_max_alloc_size"},
    {"device_extra_padding_size"},
    {"device_init_alloc_size"},
    {"device_realloc_size"},
    {"get_compute_capability@3.0", k30, k30},
    {"get_compute_capability", k31},
    {"get_device_properties", k31},
    {"get_runtime_version@3.0", k30, k30},
    {"get_runtime_version", k31},
    {"get_driver_version@3.0", k30, k30},
    {"get_driver_version", k31},
    {"get_multi_process", k31},
    {"get_max_threads_per_mp", k31},
    {"get_max_threads_per_block", k31},
    {"get_max_grid_dim_size", k31},
    {"is_float16_supported", k32},
    {"is_bfloat16_supported", k32},
    {"is_dnn_supported", k33},
    {"init_eigen_device", k31},
    {"destroy_eigen_device", k31},
    {"reserved_info_api", k30, k33, 8},
    {"xccl_get_comm_name"},
    {"xccl_get_unique_id_size"},
    {"xccl_get_unique_id"},
    {"xccl_comm_init_rank"},
    {"xccl_destroy_comm"},
    {"xccl_all_reduce"},
    {"xccl_broadcast"},
    {"xccl_reduce"},
    {"xccl_all_gather"},
    {"xccl_reduce_scatter"},
    {"xccl_group_start"},
    {"xccl_group_end"},
    {"xccl_send"},
    {"xccl_recv"},
    {"xccl_all_to_all"},
    {"reserved_ccl_api", k30, k33, 8},
    {"profiler_initialize"},
    {"profiler_finalize"},
    {"profiler_prepare_tracing"},
    {"profiler_start_tracing"},
    {"profiler_stop_tracing"},
    {"profiler_collect_trace_data"},
    {"reserved_profiler_api", k30, k33, 8},
    {"init_blas_handle", k32},
    {"blas_set_math_mode", k32},
    {"init_blaslt_handle", k32},
    {"destroy_blas_handle", k32},
    {"destroy_blaslt_handle", k32},
    {"cuda_stream_begin_capture", k33},
    {"cuda_stream_end_captrue", k33},
    {"cuda_graph_launch", k33},
    {"cuda_graph_destroy", k33},
    {"cuda_graph_exec_destroy", k33},
    {"cuda_graph_instantiate", k33},
    {"cuda_graph_get_nodes", k33},
    {"cuda_stream_capture_info", k33},
    {"get_parameter_setter_for_exec_graph", k33},
    {"cuda_graph_debug_dot_print", k33},
    {"cuda_thread_exchange_stream_capthure_mode", k33},
    {"blas_axpby"},
    {"reserved_other_api", k30, k33, 7},
};

constexpr bool exists_in(const Slot& slot, Version version) { return slot.since <= version && version <= slot.until; }

constexpr size_t layout_size(Version version) {
  size_t size = sizeof(size_t);
  for (const Slot& slot : kSlots) size += exists_in(slot, version) ? sizeof(void*) * slot.count : 0;
  return size;
}
static_assert(layout_size(k30) == kInterfaceSizes[k30] && layout_size(k31) == kInterfaceSizes[k31] &&
                  layout_size(k32) == kInterfaceSizes[k32] && layout_size(k33) == kInterfaceSizes[k33],
              "the slots do not add up to the size of Paddle's struct");

void* find_callback(const Callback* callbacks, const char* name) {
  for (; callbacks->slot != nullptr; ++callbacks) {
    if (std::strcmp(callbacks->slot, name) == 0) return callbacks->function;
  }
  return nullptr;
}

}  // namespace

bool fill_device_interface(void* device_interface, size_t size, const Callback* callbacks) {
  int version = k30;
  while (version < kVersions && kInterfaceSizes[version] != size) ++version;
  if (version == kVersions) return false;

  char* position = static_cast<char*>(device_interface) + sizeof(size_t);
  for (const Slot& slot : kSlots) {
    if (!exists_in(slot, static_cast<Version>(version))) continue;
    if (void* function = find_callback(callbacks, slot.name)) *reinterpret_cast<void**>(position) = function;
    position += sizeof(void*) * static_cast<size_t>(slot.count);
  }
  return true;
}

}  // namespace unihal::paddle
