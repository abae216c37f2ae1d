// oneDNN, found at run time and never linked.
//
// Looked for, in this order: the file in UNIHAL_ONEDNN_LIBRARY ("none" turns oneDNN off); libdnnl.so.3 beside this
// library; in the lib folder of the Python prefix that this library is installed in, where pip puts the
// onednn-cpu-gomp package; and by name, as the dynamic linker finds it. Full paths come first because frameworks
// bring a libdnnl.so.3 of their own, which the name alone would find.
//
// Without it the kernels in gemm.cc and convolution_direct.cc take over.
#pragma once

namespace unihal::stub {

// What matrix products and convolutions run on, for a person: "oneDNN 3.2.0", or "built-in kernels (...)" with the
// reason. Valid for the life of the process. Any thread.
const char* onednn_description();

// What is wrong with the library that UNIHAL_ONEDNN_LIBRARY names; "" if nothing, or it names none. Loads it.
const char* onednn_refusal();

}  // namespace unihal::stub

#if defined(UNIHAL_STUB_ONEDNN)

#include <oneapi/dnnl/dnnl.h>

namespace unihal::stub {

// Every function of oneDNN that the stub calls.
#define UNIHAL_ONEDNN_FUNCTIONS(X)                           \
  X(dnnl_convolution_backward_data_primitive_desc_create)    \
  X(dnnl_convolution_backward_weights_primitive_desc_create) \
  X(dnnl_convolution_forward_primitive_desc_create)          \
  X(dnnl_engine_create)                                      \
  X(dnnl_get_effective_cpu_isa)                              \
  X(dnnl_matmul_primitive_desc_create)                       \
  X(dnnl_memory_create)                                      \
  X(dnnl_memory_desc_clone)                                  \
  X(dnnl_memory_desc_create_with_strides)                    \
  X(dnnl_memory_desc_create_with_tag)                        \
  X(dnnl_memory_desc_destroy)                                \
  X(dnnl_memory_desc_equal)                                  \
  X(dnnl_memory_desc_get_size)                               \
  X(dnnl_memory_destroy)                                     \
  X(dnnl_memory_get_memory_desc)                             \
  X(dnnl_memory_set_data_handle)                             \
  X(dnnl_post_ops_append_binary)                             \
  X(dnnl_post_ops_append_eltwise)                            \
  X(dnnl_post_ops_append_sum)                                \
  X(dnnl_post_ops_create)                                    \
  X(dnnl_post_ops_destroy)                                   \
  X(dnnl_primitive_attr_create)                              \
  X(dnnl_primitive_attr_destroy)                             \
  X(dnnl_primitive_attr_set_post_ops)                        \
  X(dnnl_primitive_attr_set_scratchpad_mode)                 \
  X(dnnl_primitive_create)                                   \
  X(dnnl_primitive_desc_destroy)                             \
  X(dnnl_primitive_desc_query_md)                            \
  X(dnnl_primitive_desc_query)                               \
  X(dnnl_primitive_destroy)                                  \
  X(dnnl_primitive_execute)                                  \
  X(dnnl_reorder_primitive_desc_create)                      \
  X(dnnl_stream_create)                                      \
  X(dnnl_version)

// The loaded library: its functions by name, and the CPU engine.
struct OneDnn {
#define UNIHAL_ONEDNN_POINTER(name) decltype(&::name) name;
  UNIHAL_ONEDNN_FUNCTIONS(UNIHAL_ONEDNN_POINTER)
#undef UNIHAL_ONEDNN_POINTER
  dnnl_engine_t engine;
};

// The library, or nullptr if it is not used. Loaded at the first call; any thread.
const OneDnn* onednn();

}  // namespace unihal::stub

#endif  // UNIHAL_STUB_ONEDNN
