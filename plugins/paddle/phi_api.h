// Paddle's plain C functions (paddle/phi/capi), bound at run time: no header of Paddle, no link.
//
// They live in libphi_core.so (Paddle 3.x), which is loaded but not in the global scope. The set below is the
// same in Paddle 3.0 to 3.3. `int*` at the end is a status that Paddle sets; failures also throw.
#pragma once

#include <cstddef>
#include <cstdint>

#include "unihal/tensor.h"

namespace unihal::paddle {

// C_DataType, as the C functions count dtypes.
enum Dtype : int32_t {
  kUnsupported = -1,  // ours: a dtype that they do not count
  kUndefined = 0,
  kBool,
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kFloat16,
  kFloat32,
  kFloat64,
  kBfloat16,
  kComplex64,
  kComplex128,
  kDtypeCount
};

uhal_dtype to_uhal(Dtype dtype);    // UHAL_DTYPE_INVALID for one that unihal has not
Dtype to_paddle(uhal_dtype dtype);  // kUndefined for one that Paddle has not

// PD_KernelArgumentType.
enum ArgumentType : int32_t {
  kArgumentContext = 0,
  kArgumentTensor = 1,
  kArgumentBool = 2,
  kArgumentFloat32 = 5,
  kArgumentFloat64 = 6,
  kArgumentInt32 = 7,
  kArgumentInt64 = 8,
  kArgumentString = 9,
  kArgumentScalar = 10,
  kArgumentIntArray = 11,
  kArgumentDtype = 12,
  kArgumentListInt32 = 16,
  kArgumentListInt64 = 17,
  kArgumentListFloat32 = 20,
  kArgumentListFloat64 = 21,
  kArgumentListString = 22,
  kArgumentListScalar = 23,
  kArgumentOptionalTensor = 24,
  kArgumentListTensor = 25,
  kArgumentOptionalListTensor = 26,
};

struct List {
  size_t size;
  void* data;
};

#define UNIHAL_PADDLE_FUNCTIONS(X)                                                                          \
  X(void, PD_RegisterPhiKernel, const char*, const char*, int32_t, int32_t, size_t, const int32_t*, size_t, \
    const int32_t*, size_t, const int32_t*, void (*)(const void*, void*), void (*)(void*), void*)           \
  X(void*, PD_KernelContextGetDeviceContext, void*)                                                         \
  X(void*, PD_KernelContextInputAt, void*, size_t)                                                          \
  X(List, PD_KernelContextMultiInputAt, void*, size_t)                                                      \
  X(void*, PD_KernelContextOutputAt, void*, size_t)                                                         \
  X(List, PD_KernelContextMultiOutputAt, void*, size_t)                                                     \
  X(bool, PD_KernelContextBoolAttrAt, void*, size_t)                                                        \
  X(int32_t, PD_KernelContextInt32AttrAt, void*, size_t)                                                    \
  X(int64_t, PD_KernelContextInt64AttrAt, void*, size_t)                                                    \
  X(float, PD_KernelContextFloatAttrAt, void*, size_t)                                                      \
  X(double, PD_KernelContextDoubleAttrAt, void*, size_t)                                                    \
  X(void*, PD_KernelContextScalarAttrAt, void*, size_t)                                                     \
  X(void*, PD_KernelContextIntArrayAttrAt, void*, size_t)                                                   \
  X(int32_t, PD_KernelContextDataTypeAttrAt, void*, size_t)                                                 \
  X(char*, PD_KernelContextStringAttrAt, void*, size_t)                                                     \
  X(List, PD_KernelContextListInt32AttrAt, void*, size_t)                                                   \
  X(List, PD_KernelContextListInt64AttrAt, void*, size_t)                                                   \
  X(List, PD_KernelContextListFloatAttrAt, void*, size_t)                                                   \
  X(List, PD_KernelContextListDoubleAttrAt, void*, size_t)                                                  \
  X(List, PD_KernelContextListScalarAttrAt, void*, size_t)                                                  \
  X(List, PD_KernelContextListStringAttrAt, void*, size_t)                                                  \
  X(const char*, PD_StringAttr, const void*)                                                                \
  X(int32_t, PD_DatatTypeAttr, const void*)                                                                 \
  X(List, PD_ListInt32Attr, const void*)                                                                    \
  X(List, PD_ListInt64Attr, const void*)                                                                    \
  X(List, PD_ListFloatAttr, const void*)                                                                    \
  X(List, PD_ListDoubleAttr, const void*)                                                                   \
  X(List, PD_ListScalarAttr, const void*)                                                                   \
  X(List, PD_ListStringAttr, const void*)                                                                   \
  X(void, PD_DeletePointerList, List)                                                                       \
  X(int32_t, PD_TensorGetPDDataType, const void*, int*)                                                     \
  X(int64_t, PD_TensorGetElementCount, const void*, int*)                                                   \
  X(bool, PD_TensorIsInitialized, const void*, int*)                                                        \
  X(void*, PD_TensorGetDataPointer, const void*, int*)                                                      \
  X(void*, PD_TensorGetHolder, const void*, int*)                                                           \
  X(size_t, PD_TensorGetOffset, const void*, int*)                                                          \
  X(int64_t, PD_TensorGetNumDims, const void*, int*)                                                        \
  X(int64_t, PD_TensorGetDim, const void*, size_t, int*)                                                    \
  X(int64_t, PD_TensorGetNumStrides, const void*, int*)                                                     \
  X(int64_t, PD_TensorGetStride, const void*, size_t, int*)                                                 \
  X(void, PD_TensorSetDims, void*, int64_t, const int64_t*, int*)                                           \
  X(void, PD_TensorSetOffset, void*, int64_t, int*)                                                         \
  X(void, PD_TensorSetStrides, void*, int64_t, const int64_t*, int*)                                        \
  X(void*, PD_OptionalTensorGetPointer, const void*)                                                        \
  X(List, PD_TensorVectorToList, const void*)                                                               \
  X(void*, PD_DeviceContextGetStream, const void*, int*)                                                    \
  X(void*, PD_DeviceContextAllocateTensor, const void*, void*, size_t, int32_t, int*)                       \
  X(uint64_t, PD_DeviceContextGetRandom, const void*, int*)                                                 \
  X(int64_t, PD_ScalarGetInt64Data, const void*)                                                            \
  X(double, PD_ScalarGetFloat64Data, const void*)                                                           \
  X(List, PD_IntArrayGetDataPointer, const void*)                                                           \
  X(void*, PD_KernelGetArgsDef, void*, int*)                                                                \
  X(List, PD_KernelArgsDefGetInputArgDefs, void*, int*)                                                     \
  X(List, PD_KernelArgsDefGetOutputArgDefs, void*, int*)

// C++ functions of Paddle, exported under the same mangled names in 3.0 to 3.3, for what C cannot do: reading
// attributes that are tensors at run time, the bytes of a tensor's memory from its offset on, and the signatures of
// Paddle's own kernels.
//   name here, mangled name, type
#define UNIHAL_PADDLE_CXX_FUNCTIONS(X)                                                                                 \
  X(void*, kernel_factory, "_ZN3phi13KernelFactory8InstanceEv")                                                        \
  X(size_t, tensor_memory_size, "_ZNK3phi11DenseTensor11memory_sizeEv", const void*)                                   \
  X(const void*, select_kernel,                                                                                        \
    "_ZNK3phi13KernelFactory12SelectKernelERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEERKNS_9KernelKeyE",    \
    const void*, const void*, const void*)                                                                             \
  X(void*, print_kernel, "_ZN3philsERSoRKNS_6KernelE", void*, const void*)                                             \
  X(const void* const*, tensor_attribute, "_ZNK3phi13KernelContext6AttrAtINS_9TensorRefEEERKT_m", const void*, size_t) \
  X(const void*, tensor_list_attribute, "_ZNK3phi13KernelContext6AttrAtISt6vectorINS_9TensorRefESaIS3_EEEERKT_m",      \
    const void*, size_t)                                                                                               \
  X(void, make_scalar, "_ZN6paddle12experimental10ScalarBaseIN3phi11DenseTensorEEC1ERKS3_", void*, const void*)        \
  X(void, make_int_array, "_ZN6paddle12experimental12IntArrayBaseIN3phi11DenseTensorEEC1ERKS3_", void*, const void*)   \
  X(void, make_int_array_from_list,                                                                                    \
    "_ZN6paddle12experimental12IntArrayBaseIN3phi11DenseTensorEEC1ERKSt6vectorINS2_9TensorRefESaIS6_EE", void*,        \
    const void*)

struct PhiApi {
#define UNIHAL_FIELD(result, name, ...) result (*name)(__VA_ARGS__);
  UNIHAL_PADDLE_FUNCTIONS(UNIHAL_FIELD)
#undef UNIHAL_FIELD
#define UNIHAL_FIELD(result, name, symbol, ...) result (*name)(__VA_ARGS__);
  UNIHAL_PADDLE_CXX_FUNCTIONS(UNIHAL_FIELD)
#undef UNIHAL_FIELD
};

// The bound functions; valid once load_phi() has returned nullptr.
extern PhiApi phi;

// Binds everything, once per process. Returns nullptr, or the name of a symbol that this Paddle has not.
const char* load_phi();

}  // namespace unihal::paddle
