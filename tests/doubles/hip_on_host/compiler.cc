// hipRTC, or NVRTC: every program compiles, if no rule says otherwise.
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>

#include "tests/doubles/hip_on_host/faults.h"
#include "tests/doubles/hip_on_host/program.h"
#include "tests/doubles/hip_on_host/vendor.h"

namespace {

// Both compilers' results.
constexpr int kCompilerSuccess = 0;
constexpr int kInvalidInput = 3;
constexpr int kInvalidProgram = 4;
constexpr int kInvalidOption = 5;
constexpr int kCompilation = 6;

struct Compilation {
  std::string text;
  std::string name;
  std::string log;
  std::string binary;
};

// One file a text, so that what is compiled again is there once: NAME.HASH.txt.
void keep_text(const Compilation& program) {
  const char* folder = std::getenv("HIP_ON_HOST_PROGRAMS");
  if (folder == nullptr) return;
  char hash[32];
  std::snprintf(hash, sizeof hash, "%016zx", std::hash<std::string>()(program.text));
  const std::string file = std::string(folder) + "/" + program.name + "." + hash + ".txt";
  // Under a name of its own first: several processes may write.
  static std::atomic<int> count{0};
  const std::string draft = file + "." + std::to_string(getpid()) + "." + std::to_string(count++);
  if (!(std::ofstream(draft) << program.text) || std::rename(draft.c_str(), file.c_str()) != 0) {
    std::fprintf(stderr, "HIP_ON_HOST_PROGRAMS: %s cannot be written\n", file.c_str());
    std::abort();
  }
}

// "gfx1030" of "--offload-arch=gfx1030" and "--gpu-architecture=gfx1030"; "sm_71" likewise.
std::string architecture_of(int count, const char** options) {
  for (int i = 0; i < count; ++i) {
    for (const char* name : {"--offload-arch=", "--gpu-architecture=", "-arch="}) {
      if (std::strncmp(options[i], name, std::strlen(name)) == 0) return options[i] + std::strlen(name);
    }
  }
  return "";
}

}  // namespace

// RTC(name): hiprtcName or nvrtcName.
#define RTC(name) ON_HOST_NAME(nvrtc##name, hiprtc##name)
#define RTC_TEXT(name) ON_HOST_NAME("nvrtc" #name, "hiprtc" #name)
#define FAIL_IF_ASKED(name) \
  if (const int code = on_host::failure(RTC_TEXT(name)); code != 0) return code

ON_HOST_EXPORT const char* RTC(GetErrorString)(int result) {
  switch (result) {
    case kCompilerSuccess:
      return ON_HOST_NAME("NVRTC_SUCCESS", "HIPRTC_SUCCESS");
    case kCompilation:
      return ON_HOST_NAME("NVRTC_ERROR_COMPILATION", "HIPRTC_ERROR_COMPILATION");
    default:
      return ON_HOST_NAME("NVRTC_ERROR_INVALID_INPUT", "HIPRTC_ERROR_INVALID_INPUT");
  }
}

ON_HOST_EXPORT int RTC(Version)(int* major, int* minor) {
  FAIL_IF_ASKED(Version);
  *major = ON_HOST_NAME(10, 9);
  *minor = ON_HOST_NAME(2, 0);
  return kCompilerSuccess;
}

ON_HOST_EXPORT int RTC(CreateProgram)(void** program, const char* text, const char* name, int header_count,
                                      const char** headers, const char** header_names) {
  FAIL_IF_ASKED(CreateProgram);
  if (program == nullptr || text == nullptr || (header_count > 0 && (headers == nullptr || header_names == nullptr))) {
    return kInvalidInput;
  }
  *program = new Compilation{text, name != nullptr ? name : "program", "", ""};
  return kCompilerSuccess;
}

ON_HOST_EXPORT int RTC(CompileProgram)(void* handle, int count, const char** options) {
  FAIL_IF_ASKED(CompileProgram);
  if (handle == nullptr) return kInvalidProgram;
  Compilation& program = *static_cast<Compilation*>(handle);
  const std::string architecture = architecture_of(count, options);
  if (architecture.empty()) {
    program.log = "no architecture is named";
    return kInvalidOption;
  }
  if (on_host::failure("compile") != 0) {
    program.log = program.name + ":7:3: error: unknown type name 'UHAL_MISTAKE'\n1 error generated.\n";
    return kCompilation;
  }
  keep_text(program);
  program.binary = on_host::make_binary(architecture, program.text);
  return kCompilerSuccess;
}

ON_HOST_EXPORT int RTC(GetProgramLogSize)(void* handle, size_t* bytes) {
  FAIL_IF_ASKED(GetProgramLogSize);
  *bytes = static_cast<Compilation*>(handle)->log.size() + 1;
  return kCompilerSuccess;
}

ON_HOST_EXPORT int RTC(GetProgramLog)(void* handle, char* log) {
  FAIL_IF_ASKED(GetProgramLog);
  const Compilation& program = *static_cast<Compilation*>(handle);
  std::memcpy(log, program.log.c_str(), program.log.size() + 1);
  return kCompilerSuccess;
}

namespace {

int binary_size(void* handle, size_t* bytes) {
  const Compilation& program = *static_cast<Compilation*>(handle);
  if (program.binary.empty()) return kInvalidProgram;
  *bytes = program.binary.size() + 1;
  return kCompilerSuccess;
}

int binary(void* handle, char* bytes) {
  const Compilation& program = *static_cast<Compilation*>(handle);
  if (program.binary.empty()) return kInvalidProgram;
  std::memcpy(bytes, program.binary.c_str(), program.binary.size() + 1);
  return kCompilerSuccess;
}

}  // namespace

#ifdef ON_HOST_CUDA
ON_HOST_EXPORT int nvrtcGetCUBINSize(void* program, size_t* bytes) { return binary_size(program, bytes); }
ON_HOST_EXPORT int nvrtcGetCUBIN(void* program, char* bytes) { return binary(program, bytes); }
ON_HOST_EXPORT int nvrtcGetPTXSize(void* program, size_t* bytes) { return binary_size(program, bytes); }
ON_HOST_EXPORT int nvrtcGetPTX(void* program, char* bytes) { return binary(program, bytes); }
#else
ON_HOST_EXPORT int hiprtcGetCodeSize(void* program, size_t* bytes) { return binary_size(program, bytes); }
ON_HOST_EXPORT int hiprtcGetCode(void* program, char* bytes) { return binary(program, bytes); }
#endif

ON_HOST_EXPORT int RTC(DestroyProgram)(void** handle) {
  FAIL_IF_ASKED(DestroyProgram);
  if (handle == nullptr || *handle == nullptr) return kInvalidProgram;
  delete static_cast<Compilation*>(*handle);
  *handle = nullptr;
  return kCompilerSuccess;
}
