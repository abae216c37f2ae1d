// ONNX Runtime's C API as this adapter needs it: declared by ourselves, since the wheel has no headers.
//
// What ONNX Runtime gives are handles and two tables of functions, called by the number of their slot
// (ort_functions.def). What it takes are structs of functions: execution providers, allocators, streams. Their members
// have fixed places, new ones come at the end, and each struct begins with the version that its author knew, so that
// ONNX Runtime reads no further. The least version is 24 (onnxruntime 1.24), which brought registries of kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

// Handles of theirs.
struct OrtEpDevice;
struct OrtEpGraphSupportInfo;
struct OrtGraph;
struct OrtHardwareDevice;
struct OrtKernelContext;
struct OrtKernelDef;
struct OrtKernelDefBuilder;
struct OrtKernelInfo;
struct OrtKernelRegistry;
struct OrtKeyValuePairs;
struct OrtLogger;
struct OrtMemoryDevice;
struct OrtMemoryInfo;
struct OrtNode;
struct OrtOpAttr;
struct OrtRunOptions;
struct OrtSessionOptions;
struct OrtSharedPrePackedWeightCache;
struct OrtStatus;
struct OrtSyncStream;
struct OrtTensorTypeAndShapeInfo;
struct OrtTypeInfo;
struct OrtValue;
struct OrtValueInfo;

extern "C" {

struct OrtApiBase {
  const void* (*GetApi)(uint32_t version);  // NULL, and a line on stderr, for a version that it has not
  const char* (*GetVersionString)();
};

struct OrtAllocator {
  uint32_t version;
  void* (*Alloc)(OrtAllocator*, size_t bytes);
  void (*Free)(OrtAllocator*, void* pointer);
  const OrtMemoryInfo* (*Info)(const OrtAllocator*);
  void* (*Reserve)(OrtAllocator*, size_t bytes);
  OrtStatus* (*GetStats)(const OrtAllocator*, OrtKeyValuePairs** owned);
  void* (*AllocOnStream)(OrtAllocator*, size_t bytes, OrtSyncStream*);
  void* later[8];
};

struct OrtDataTransferImpl {
  uint32_t version;
  void (*Release)(OrtDataTransferImpl*);
  bool (*CanCopy)(const OrtDataTransferImpl*, const OrtMemoryDevice* source, const OrtMemoryDevice* destination);
  OrtStatus* (*CopyTensors)(OrtDataTransferImpl*, const OrtValue** sources, OrtValue** destinations,
                            OrtSyncStream** streams, size_t count);  // streams may be NULL, and any of them
  void* later[8];
};

struct OrtSyncNotificationImpl {
  uint32_t version;
  void (*Release)(OrtSyncNotificationImpl*);
  OrtStatus* (*Activate)(OrtSyncNotificationImpl*);
  OrtStatus* (*WaitOnDevice)(OrtSyncNotificationImpl*, OrtSyncStream* waiting);
  OrtStatus* (*WaitOnHost)(OrtSyncNotificationImpl*);
  void* later[8];
};

struct OrtSyncStreamImpl {
  uint32_t version;
  void (*Release)(OrtSyncStreamImpl*);
  void* (*GetHandle)(OrtSyncStreamImpl*);
  OrtStatus* (*CreateNotification)(OrtSyncStreamImpl*, OrtSyncNotificationImpl** owned);
  OrtStatus* (*Flush)(OrtSyncStreamImpl*);
  OrtStatus* (*OnSessionRunEnd)(OrtSyncStreamImpl*);
  void* later[8];
};

struct OrtKernelImpl {
  uint32_t version;
  uint32_t flags;
  OrtStatus* (*Compute)(OrtKernelImpl*, OrtKernelContext*);
  void (*Release)(OrtKernelImpl*);
  // Optional. `allocator` and `cache` are ways to memory that ONNX Runtime owns.
  OrtStatus* (*PrePackWeight)(OrtKernelImpl*, const OrtValue* constant, int index, OrtAllocator* allocator,
                              OrtSharedPrePackedWeightCache* cache, bool* is_packed);
  void* SetSharedPrePackedWeight;  // optional
  void* later[8];
};

struct OrtEp {
  uint32_t version;
  const char* (*GetName)(const OrtEp*);
  OrtStatus* (*GetCapability)(OrtEp*, const OrtGraph*, OrtEpGraphSupportInfo*);
  void* Compile;                  // optional where there is a registry of kernels
  void* ReleaseNodeComputeInfos;  // optional
  OrtStatus* (*GetPreferredDataLayout)(OrtEp*, int32_t* layout);
  OrtStatus* (*ShouldConvertDataLayoutForOp)(OrtEp*, const char* domain, const char* op, int32_t layout, int* answer);
  void* SetDynamicOptions;  // optional
  OrtStatus* (*OnRunStart)(OrtEp*, const OrtRunOptions*);
  OrtStatus* (*OnRunEnd)(OrtEp*, const OrtRunOptions*, bool synchronize);
  OrtStatus* (*CreateAllocator)(OrtEp*, const OrtMemoryInfo*, OrtAllocator** owned);
  OrtStatus* (*CreateSyncStreamForDevice)(OrtEp*, const OrtMemoryDevice*, OrtSyncStreamImpl** owned);
  void* GetCompiledModelCompatibilityInfo;  // optional
  OrtStatus* (*GetKernelRegistry)(OrtEp*, const OrtKernelRegistry** borrowed);
  OrtStatus* (*IsConcurrentRunSupported)(OrtEp*, bool* is_supported);
  OrtStatus* (*Sync)(OrtEp*);  // since version 25
  // Since version 26.
  void* CreateProfiler;  // optional
  bool (*IsGraphCaptureEnabled)(const OrtEp*);
  bool (*IsGraphCaptured)(const OrtEp*, int number);
  OrtStatus* (*ReplayGraph)(OrtEp*, int number);
  int32_t (*GetGraphCaptureNodeAssignmentPolicy)(const OrtEp*);  // NULL: all nodes must be the provider's
  void* later[24];
};

struct OrtEpFactory {
  uint32_t version;
  const char* (*GetName)(const OrtEpFactory*);
  const char* (*GetVendor)(const OrtEpFactory*);
  OrtStatus* (*GetSupportedDevices)(OrtEpFactory*, const OrtHardwareDevice* const* devices, size_t count,
                                    OrtEpDevice** owned, size_t limit, size_t* found);
  OrtStatus* (*CreateEp)(OrtEpFactory*, const OrtHardwareDevice* const* devices,
                         const OrtKeyValuePairs* const* metadata, size_t count, const OrtSessionOptions*,
                         const OrtLogger*, OrtEp** owned);
  void (*ReleaseEp)(OrtEpFactory*, OrtEp*);
  uint32_t (*GetVendorId)(const OrtEpFactory*);
  const char* (*GetVersion)(const OrtEpFactory*);
  void* ValidateCompiledModelCompatibilityInfo;  // optional
  OrtStatus* (*CreateAllocator)(OrtEpFactory*, const OrtMemoryInfo*, const OrtKeyValuePairs* options,
                                OrtAllocator** owned);
  void (*ReleaseAllocator)(OrtEpFactory*, OrtAllocator*);
  OrtStatus* (*CreateDataTransfer)(OrtEpFactory*, OrtDataTransferImpl** owned);
  bool (*IsStreamAware)(const OrtEpFactory*);
  OrtStatus* (*CreateSyncStreamForDevice)(OrtEpFactory*, const OrtMemoryDevice*, const OrtKeyValuePairs* options,
                                          OrtSyncStreamImpl** owned);
  void* later[16];
};

using OrtKernelCreateFunction = OrtStatus* (*)(void* state, const OrtKernelInfo*, OrtKernelImpl** owned);

}  // extern "C"

namespace unihal::onnxruntime {

// The version of the structs that is asked for, and the newest whose members are filled in.
inline constexpr uint32_t kLeastVersion = 24;
inline constexpr uint32_t kNewestVersion = 26;

// Values of their enumerations.
enum : int32_t {
  kOrtFail = 1,
  kOrtInvalidArgument = 2,
  kOrtNotImplemented = 9,
};
enum : int32_t { kOrtDeviceCpu = 0, kOrtDeviceGpu = 1 };         // OrtMemoryInfoDeviceType, OrtHardwareDeviceType
enum : int32_t { kOrtMemoryDefault = 0, kOrtMemoryOfHost = 5 };  // OrtDeviceMemoryType
enum : int32_t { kOrtMemTypeCpuInput = -2, kOrtMemTypeCpuOutput = -1 };
enum : int32_t { kOrtLayoutNchw = 0, kOrtLayoutNhwc = 1 };
enum : int32_t { kOrtDeviceAllocator = 0, kOrtReadOnlyAllocator = 2 };
enum : int32_t {
  kOrtAttributeInt = 1,
  kOrtAttributeInts,
  kOrtAttributeFloat,
  kOrtAttributeFloats,
  kOrtAttributeString,
  kOrtAttributeStrings
};

// Their functions, by name.
struct Api {
#define ORT_FUNCTION(slot, result, name, parameters) result(*name) parameters;
#define ORT_EP_FUNCTION(slot, result, name, parameters) result(*name) parameters;
#include "ort_functions.def"
#undef ORT_FUNCTION
#undef ORT_EP_FUNCTION
  uint32_t version = 0;  // what the process's ONNX Runtime has, up to kNewestVersion
};

// Valid after open_api, for the life of the process.
extern Api ort;

// Reads the tables. False for an ONNX Runtime older than kLeastVersion.
bool open_api(const OrtApiBase* base);

// The slots as JSON, {"OrtApi": {"CreateStatus": 0, ...}, "OrtEpApi": {...}}, for the test of them.
std::string slots();

// A failure on its way to ONNX Runtime.
class Failure : public std::runtime_error {
 public:
  Failure(int32_t code, const std::string& message) : std::runtime_error(message), code(code) {}
  const int32_t code;
};

// Throws what a status of theirs says, and releases it.
void check(OrtStatus* status);

// The status for the exception that is being handled.
OrtStatus* status_of_exception() noexcept;

// Runs a function of ours that they called: exceptions become a status.
template <class Function>
OrtStatus* guarded(Function function) noexcept {
  try {
    function();
    return nullptr;
  } catch (...) {
    return status_of_exception();
  }
}

}  // namespace unihal::onnxruntime
