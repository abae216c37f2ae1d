// The codes that both drivers have, and what each calls them.
#pragma once

namespace on_host {

constexpr int kSuccess = 0;
constexpr int kInvalidValue = 1;
constexpr int kOutOfMemory = 2;
constexpr int kNotInitialized = 3;
constexpr int kNoDevice = 100;
constexpr int kInvalidDevice = 101;
constexpr int kInvalidImage = 200;
constexpr int kInvalidContext = 201;
constexpr int kNoBinary = 209;
constexpr int kInvalidHandle = 400;
constexpr int kNotFound = 500;
constexpr int kNotReady = 600;
constexpr int kIllegalAddress = 700;
constexpr int kTooManyResources = 701;
constexpr int kPeerAlreadyEnabled = 704;
constexpr int kLaunchFailure = 719;
constexpr int kNotPermitted = 800;
constexpr int kNotSupported = 801;
constexpr int kCaptureUnsupported = 900;
constexpr int kCaptureInvalidated = 901;
constexpr int kUnknown = 999;

// "hipErrorOutOfMemory" or "CUDA_ERROR_OUT_OF_MEMORY"; nullptr for what is no code.
const char* code_name(int code);

}  // namespace on_host
