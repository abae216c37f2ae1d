#include "csrc/backends/gpu/compiler.h"

#include <cstdlib>
#include <cstring>
#include <vector>

#include "csrc/backends/gpu/clang_compiler.h"
#include "csrc/backends/gpu/corex_sdk.h"
#include "csrc/backends/gpu/rocm_sdk.h"
#include "csrc/backends/gpu/runtime_compiler.h"

namespace unihal::gpu {
namespace {

// Kernels take seconds at most, also on a machine that swaps.
constexpr double kMostSeconds = 300;

const char* variable_or(const char* value, const char* otherwise) {
  return value != nullptr && *value != '\0' ? value : otherwise;
}

// The ways of UNIHAL_GPU_COMPILER.
struct Ways {
  bool library = true;
  bool clang = true;
};

// Empty, or what is wrong with the variable.
std::string read_ways(Vendor vendor, Ways* ways) {
  const std::string wish = variable_or(std::getenv("UNIHAL_GPU_COMPILER"), "");
  if (wish.empty()) return "";
  if (wish != "rtc" && wish != "clang") return "UNIHAL_GPU_COMPILER is '" + wish + "'; expected rtc or clang";
  if (wish == "clang" && vendor == Vendor::kHip) {
    return "UNIHAL_GPU_COMPILER is 'clang', which compiles for CoreX only; unset it";
  }
  ways->library = wish == "rtc";
  ways->clang = wish == "clang";
  return "";
}

void add_reasons(const std::string& more, std::string* reasons) {
  if (!more.empty()) *reasons += (reasons->empty() ? "" : "; ") + more;
}

// A library of its own since ROCm 5.3, a part of libamdhip64 before.
std::unique_ptr<Compiler> open_hip(std::string* refusal) {
  std::vector<std::string> files = rocm_libraries("hiprtc", {7, 6, 5});
  for (const std::string& file : rocm_libraries("amdhip64", {5})) files.push_back(file);
  std::unique_ptr<Compiler> compiler = open_runtime_compiler(Vendor::kHip, files, refusal);
  if (compiler == nullptr) *refusal += ". Install ROCm's hipRTC (libhiprtc, or libamdhip64 of ROCm 5.2)";
  return compiler;
}

std::vector<std::string> sdk_libraries() {
  std::vector<std::string> files;
  for (const std::string& folder : corex_library_folders()) files.push_back(folder + "/libnvrtc.so");
  return files;
}

std::unique_ptr<Compiler> open_clang(std::string* refusal) {
  std::vector<ClangFile> files;
  const char* const wish = std::getenv("UNIHAL_COREX_CLANG");
  if (wish != nullptr && *wish != '\0') {
    files.push_back({wish, ""});
  } else {
    for (const std::string& root : corex_roots()) files.push_back({root + "/bin/clang++", root});
  }
  std::string reasons;
  for (const ClangFile& file : files) {
    std::string reason;
    if (auto compiler = open_clang_compiler(file, kMostSeconds, &reason)) return compiler;
    add_reasons(reason, &reasons);
  }
  *refusal = files.empty() ? "no folder of CoreX was found, for its clang++" : reasons;
  return nullptr;
}

// The SDK's own compilers first: an NVRTC beside it makes nothing that CoreX' cards run.
std::unique_ptr<Compiler> open_corex(const Ways& ways, std::string* refusal) {
  std::string reasons, reason;
  if (ways.library) {
    if (auto compiler = open_runtime_compiler(Vendor::kCorex, sdk_libraries(), &reason)) return compiler;
    add_reasons(reason, &reasons);
  }
  if (ways.clang) {
    if (auto compiler = open_clang(&reason)) return compiler;
    add_reasons(reason, &reasons);
  }
  if (ways.library) {
    const std::vector<std::string> files = {"libnvrtc.so.13",   "libnvrtc.so.12",   "libnvrtc.so.11.2",
                                            "libnvrtc.so.11.1", "libnvrtc.so.11.0", "libnvrtc.so.10.2",
                                            "libnvrtc.so"};
    if (auto compiler = open_runtime_compiler(Vendor::kCorex, files, &reason)) return compiler;
    add_reasons(reason, &reasons);
  }
  *refusal =
      reasons +
      ". Install CoreX' SDK, or name its folder in COREX_ROOT; its NVRTC is used where it has one, else its clang++";
  return nullptr;
}

}  // namespace

std::unique_ptr<Compiler> open_compiler(Vendor vendor, std::string* refusal) {
  Ways ways;
  *refusal = read_ways(vendor, &ways);
  if (!refusal->empty()) return nullptr;
  return vendor == Vendor::kHip ? open_hip(refusal) : open_corex(ways, refusal);
}

}  // namespace unihal::gpu
