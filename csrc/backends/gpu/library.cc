#include "csrc/backends/gpu/library.h"

#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "csrc/backends/common/foreign_llvm.h"
#include "csrc/backends/gpu/corex_sdk.h"
#include "csrc/backends/gpu/rocm_sdk.h"
#include "csrc/kernels/ops.h"

namespace unihal::gpu {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNames[] = {"cublaslt", "cublas", "hipblaslt", "rocblas", "cudnn", "miopen", "cufft", "hipfft"};
constexpr int64_t kDefaultWorkspaceLimit = int64_t{256} << 20;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::vector<std::string> wanted_names() {
  std::vector<std::string> names;
  const std::string text = variable("UNIHAL_GPU_LIBRARIES");
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    names.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

bool is_known(const std::string& name) {
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

// "256M", "1G", "4096"; -1 if it is none of these.
int64_t parse_bytes(const std::string& text) {
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string suffix = text.substr(digits);
  const int shift = suffix.empty() ? 0 : suffix == "K" ? 10 : suffix == "M" ? 20 : suffix == "G" ? 30 : -1;
  if (digits == 0 || digits > 9 || shift < 0) return -1;
  return static_cast<int64_t>(std::strtoll(text.c_str(), nullptr, 10)) << shift;
}

}  // namespace

uhal_status check_library_settings() {
  const std::string text = variable("UNIHAL_GPU_LIBRARIES");
  if (!text.empty() && text != "all" && text != "none") {
    for (const std::string& name : wanted_names()) {
      if (is_known(name)) continue;
      return kernels::fail(UHAL_INVALID_ARGUMENT,
                           "UNIHAL_GPU_LIBRARIES is '%s'; expected all, none, or some of cublaslt, cublas, hipblaslt, "
                           "rocblas, cudnn, miopen, cufft and hipfft, joined by commas",
                           text.c_str());
    }
  }
  const std::string measure = variable("UNIHAL_GPU_MEASURE");
  if (!measure.empty() && measure != "0" && measure != "1") {
    return kernels::fail(UHAL_INVALID_ARGUMENT, "UNIHAL_GPU_MEASURE is '%s'; expected 0 or 1", measure.c_str());
  }
  const std::string limit = variable("UNIHAL_GPU_WORKSPACE_LIMIT");
  if (limit.empty() || parse_bytes(limit) >= 0) return UHAL_OK;
  return kernels::fail(UHAL_INVALID_ARGUMENT,
                       "UNIHAL_GPU_WORKSPACE_LIMIT is '%s'; expected a number of bytes, also with K, M or G behind it",
                       limit.c_str());
}

bool has_tf32(const LibraryDevice& device) {
  const std::string processor = processor_of(device.architecture);
  if (device.vendor == Vendor::kHip) return processor == "gfx942" || processor == "gfx950";
  constexpr const char* kNvidia = "sm_";
  return processor.rfind(kNvidia, 0) != 0 || std::atoi(processor.c_str() + std::strlen(kNvidia)) >= 80;
}

bool wants_library(const std::string& name) {
  const std::string text = variable("UNIHAL_GPU_LIBRARIES");
  if (text.empty() || text == "all") return true;
  const std::vector<std::string> names = wanted_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

int64_t convolution_workspace_limit(int64_t operand_bytes) {
  const std::string text = variable("UNIHAL_GPU_WORKSPACE_LIMIT");
  return text.empty() ? std::max(kDefaultWorkspaceLimit, operand_bytes + operand_bytes / 4) : parse_bytes(text);
}

bool measures_convolutions() { return variable("UNIHAL_GPU_MEASURE") == "1"; }

bool Library::open(const std::vector<std::string>& files, std::string* refusal) {
  for (const std::string& file : files) {
    handle_ = dlopen(file.c_str(), vendor_library_flags() | RTLD_NODELETE);
    file_ = file;
    if (handle_ != nullptr) return true;
    // Files that are there and do not load say more than those that are not there.
    const char* said = dlerror();
    const bool is_there = file.find('/') != std::string::npos && fs::exists(file);
    if (said != nullptr && (refusal->empty() || is_there)) *refusal = said;
  }
  return false;
}

void* Library::symbol(const std::string& name) const { return dlsym(handle_, name.c_str()); }

bool Library::complete(std::string* refusal) const {
  if (missing_.empty()) return true;
  *refusal = file_ + " has no function " + missing_;
  return false;
}

std::string Library::path_of(const void* function) {
  Dl_info info;
  if (dladdr(function, &info) == 0 || info.dli_fname == nullptr) return "";
  std::error_code error;
  const fs::path path = fs::canonical(info.dli_fname, error);
  return error ? info.dli_fname : path.string();
}

std::vector<std::string> library_files(Vendor vendor, const std::string& stem, const std::vector<int>& versions) {
  if (vendor == Vendor::kHip) return rocm_libraries(stem, versions);
  std::vector<std::string> names;
  for (const int version : versions) names.push_back("lib" + stem + ".so." + std::to_string(version));
  names.push_back("lib" + stem + ".so");
  std::vector<std::string> files;
  const auto add_folder = [&](const std::string& folder) {
    for (const std::string& name : names) files.push_back(folder + "/" + name);
  };
  for (const std::string& folder : corex_library_folders()) add_folder(folder);
  files.insert(files.end(), names.begin(), names.end());
  add_folder("/usr/local/cuda/lib64");
  return files;
}

bool has_file_for(const std::string& folder, const std::string& prefix, const std::string& part) {
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.rfind(prefix, 0) != 0) continue;
    const size_t at = name.find(part);
    if (at == std::string::npos) continue;
    const size_t behind = at + part.size();
    if (behind == name.size() || std::isalnum(static_cast<unsigned char>(name[behind])) == 0) return true;
  }
  return false;
}

std::string processor_of(const std::string& architecture) { return architecture.substr(0, architecture.find(':')); }

}  // namespace unihal::gpu
