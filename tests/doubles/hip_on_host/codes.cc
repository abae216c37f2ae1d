#include "tests/doubles/hip_on_host/codes.h"

#include "tests/doubles/hip_on_host/vendor.h"

namespace on_host {
namespace {

struct Row {
  int code;
  const char* name;
};

constexpr Row kRows[] = {
    {kSuccess, ON_HOST_NAME("CUDA_SUCCESS", "hipSuccess")},
    {kInvalidValue, ON_HOST_NAME("CUDA_ERROR_INVALID_VALUE", "hipErrorInvalidValue")},
    {kOutOfMemory, ON_HOST_NAME("CUDA_ERROR_OUT_OF_MEMORY", "hipErrorOutOfMemory")},
    {kNotInitialized, ON_HOST_NAME("CUDA_ERROR_NOT_INITIALIZED", "hipErrorNotInitialized")},
    {kNoDevice, ON_HOST_NAME("CUDA_ERROR_NO_DEVICE", "hipErrorNoDevice")},
    {kInvalidDevice, ON_HOST_NAME("CUDA_ERROR_INVALID_DEVICE", "hipErrorInvalidDevice")},
    {kInvalidImage, ON_HOST_NAME("CUDA_ERROR_INVALID_IMAGE", "hipErrorInvalidImage")},
    {kInvalidContext, ON_HOST_NAME("CUDA_ERROR_INVALID_CONTEXT", "hipErrorInvalidContext")},
    {kNoBinary, ON_HOST_NAME("CUDA_ERROR_NO_BINARY_FOR_GPU", "hipErrorNoBinaryForGpu")},
    {kInvalidHandle, ON_HOST_NAME("CUDA_ERROR_INVALID_HANDLE", "hipErrorInvalidHandle")},
    {kNotFound, ON_HOST_NAME("CUDA_ERROR_NOT_FOUND", "hipErrorNotFound")},
    {kNotReady, ON_HOST_NAME("CUDA_ERROR_NOT_READY", "hipErrorNotReady")},
    {kIllegalAddress, ON_HOST_NAME("CUDA_ERROR_ILLEGAL_ADDRESS", "hipErrorIllegalAddress")},
    {kTooManyResources, ON_HOST_NAME("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "hipErrorLaunchOutOfResources")},
    {kPeerAlreadyEnabled, ON_HOST_NAME("CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "hipErrorPeerAccessAlreadyEnabled")},
    {kLaunchFailure, ON_HOST_NAME("CUDA_ERROR_LAUNCH_FAILED", "hipErrorLaunchFailure")},
    {kNotPermitted, ON_HOST_NAME("CUDA_ERROR_NOT_PERMITTED", nullptr)},
    {kNotSupported, ON_HOST_NAME("CUDA_ERROR_NOT_SUPPORTED", "hipErrorNotSupported")},
    {kCaptureUnsupported, ON_HOST_NAME("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "hipErrorStreamCaptureUnsupported")},
    {kCaptureInvalidated, ON_HOST_NAME("CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "hipErrorStreamCaptureInvalidated")},
    {kUnknown, ON_HOST_NAME("CUDA_ERROR_UNKNOWN", "hipErrorUnknown")},
};

}  // namespace

const char* code_name(int code) {
  for (const Row& row : kRows) {
    if (row.code == code) return row.name;
  }
  return nullptr;
}

}  // namespace on_host
