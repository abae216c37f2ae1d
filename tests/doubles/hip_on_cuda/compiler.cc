// hipRTC by NVRTC, whose results have the same numbers. Options are translated; those of clang that NVRTC lacks are
// left out.
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "tests/doubles/hip_on_cuda/library.h"

namespace on_cuda {
namespace {

const Library& nvrtc() {
  static const Library* const library =
      new Library({"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"});
  return *library;
}

struct Translation {
  const char* hip;
  const char* cuda;  // nullptr: left out
};

constexpr Translation kOptions[] = {
    {"-ffp-contract=off", "--fmad=false"},
    {"-ffp-contract=on", "--fmad=true"},
    {"-ffp-contract=fast", "--fmad=true"},
};
constexpr const char* kArchitecture = "--offload-arch=";

std::vector<std::string> translate(int count, const char* const* options) {
  // As the corex backend compiles.
  std::vector<std::string> result = {"--ftz=false", "--prec-div=true", "--prec-sqrt=true"};
  for (int i = 0; i < count; ++i) {
    if (std::strncmp(options[i], kArchitecture, std::strlen(kArchitecture)) == 0) {
      result.push_back(std::string("--gpu-architecture=") + (options[i] + std::strlen(kArchitecture)));
    }
    for (const Translation& row : kOptions) {
      if (std::strcmp(options[i], row.hip) == 0) result.push_back(row.cuda);
    }
  }
  return result;
}

}  // namespace
}  // namespace on_cuda

using namespace on_cuda;

ON_CUDA_EXPORT const char* hiprtcGetErrorString(int result) {
  return call<const char*(int)>(nvrtc(), "nvrtcGetErrorString")(result);
}

ON_CUDA_EXPORT int hiprtcVersion(int* major, int* minor) {
  constexpr int kInternalError = 11;
  if (nvrtc().find("nvrtcVersion") == nullptr) return kInternalError;
  return call<int(int*, int*)>(nvrtc(), "nvrtcVersion")(major, minor);
}

ON_CUDA_EXPORT int hiprtcCreateProgram(void** program, const char* text, const char* name, int header_count,
                                       const char* const* headers, const char* const* header_names) {
  return call<int(void**, const char*, const char*, int, const char* const*, const char* const*)>(
      nvrtc(), "nvrtcCreateProgram")(program, text, name, header_count, headers, header_names);
}

ON_CUDA_EXPORT int hiprtcCompileProgram(void* program, int count, const char* const* options) {
  const std::vector<std::string> translated = translate(count, options);
  std::vector<const char*> texts;
  for (const std::string& option : translated) texts.push_back(option.c_str());
  return call<int(void*, int, const char* const*)>(nvrtc(), "nvrtcCompileProgram")(
      program, static_cast<int>(texts.size()), texts.data());
}

ON_CUDA_EXPORT int hiprtcGetProgramLogSize(void* program, size_t* bytes) {
  return call<int(void*, size_t*)>(nvrtc(), "nvrtcGetProgramLogSize")(program, bytes);
}

ON_CUDA_EXPORT int hiprtcGetProgramLog(void* program, char* log) {
  return call<int(void*, char*)>(nvrtc(), "nvrtcGetProgramLog")(program, log);
}

ON_CUDA_EXPORT int hiprtcGetCodeSize(void* program, size_t* bytes) {
  return call<int(void*, size_t*)>(nvrtc(), "nvrtcGetCUBINSize")(program, bytes);
}

ON_CUDA_EXPORT int hiprtcGetCode(void* program, char* code) {
  return call<int(void*, char*)>(nvrtc(), "nvrtcGetCUBIN")(program, code);
}

ON_CUDA_EXPORT int hiprtcDestroyProgram(void** program) {
  return call<int(void**)>(nvrtc(), "nvrtcDestroyProgram")(program);
}
