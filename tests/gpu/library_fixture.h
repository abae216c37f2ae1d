// What tests of the vendors' libraries share: the doubles, and a queue that calls them.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "csrc/backends/gpu/blas.h"
#include "csrc/backends/gpu/dnn.h"
#include "csrc/backends/gpu/fft.h"
#include "csrc/kernels/queue.h"
#include "tests/doubles/libraries_on_host/control.h"
#include "tests/opencl/parts_host.h"

namespace unihal::gpu {

// A library's double.
struct LibraryRow {
  const char* name;  // of UNIHAL_GPU_LIBRARIES
  Vendor vendor;
  const char* architecture;
  const char* file;  // in LIBRARIES_ON_HOST
};

// Zeros, which take no time until somebody writes them.
class Memory {
 public:
  explicit Memory(size_t bytes)
      : bytes_(bytes), data_(static_cast<unsigned char*>(std::calloc(bytes, 1)), &std::free) {}

  unsigned char* data() { return data_.get(); }
  size_t size() const { return bytes_; }

 private:
  size_t bytes_;
  std::unique_ptr<unsigned char, void (*)(void*)> data_;
};

// The process's cache, which is where the environment says at its first use.
class CacheFolder {
 public:
  CacheFolder() {
    char name[] = "/tmp/unihal-libraries-test-XXXXXX";
    path_ = mkdtemp(name);
    setenv("UNIHAL_CACHE_DIR", path_.c_str(), 1);
  }
  ~CacheFolder() { std::filesystem::remove_all(path_); }
  CacheFolder(const CacheFolder&) = delete;
  CacheFolder& operator=(const CacheFolder&) = delete;

  // Removes what is kept.
  void clear() const {
    for (const auto& entry : std::filesystem::directory_iterator(path_)) std::filesystem::remove_all(entry.path());
  }

 private:
  std::string path_;
};
inline const CacheFolder cache_folder;

inline LibraryControl& control_of(const LibraryRow& row) {
  void* library = dlopen((std::string(LIBRARIES_ON_HOST) + "/" + row.file).c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(library, nullptr) << dlerror();
  auto* control = reinterpret_cast<LibraryControl* (*)()>(dlsym(library, "on_host_control"));
  return *control();
}

// Makes the environment lead to the doubles, and only to one of them; restores nothing: every test sets all of it.
class LibraryTest : public testing::TestWithParam<LibraryRow> {
 protected:
  void SetUp() override {
    opencl::keep_reports();
    opencl::last_report = {};
    opencl::implementations.clear();
    cache_folder.clear();
    char folder[] = "/tmp/unihal-tensile-XXXXXX";
    tensile_ = mkdtemp(folder);
    std::ofstream(tensile_ + "/TensileLibrary_lazy_gfx1030.dat") << "kernels";
    const std::string root = LIBRARIES_ON_HOST;
    set("COREX_ROOT", root + "/corex");
    set("COREX_HOME", "");
    set("ILUVATAR_SOFTWARE_ROOT", "");
    set("ROCM_PATH", root + "/rocm");
    set("ROCBLAS_TENSILE_LIBPATH", tensile_);
    set("HIPBLASLT_TENSILE_LIBPATH", tensile_);
    set("UNIHAL_GPU_WORKSPACE_LIMIT", "");
    set("UNIHAL_GPU_MEASURE", "");
    set("UNIHAL_GPU_LIBRARIES", row().name);
    control() = {};
  }
  void TearDown() override { std::filesystem::remove_all(tensile_); }

  static void set(const char* name, const std::string& value) { setenv(name, value.c_str(), 1); }
  virtual const LibraryRow& row() const { return GetParam(); }
  LibraryControl& control() const { return control_of(row()); }
  LibraryDevice device() const { return {row().vendor, row().architecture}; }

  LibraryNotes notes_;
  std::string tensile_;
};

// Runs nothing but the libraries; writes down the kernels.
class LibraryQueue final : public kernels::Queue {
 public:
  LibraryQueue(const kernels::DeviceTraits& traits, BlasQueue* blas, DnnStream* dnn, FftStream* fft = nullptr)
      : Queue(traits), blas_(blas), dnn_(dnn), fft_(fft), memory_(size_t{64} << 20) {}

  uhal_status run(const kernels::KernelSpec& spec, const kernels::Arguments&, const kernels::Grid&) override {
    submitted.push_back(spec.describe());
    return UHAL_OK;
  }
  uhal_status copy(void*, const void*, size_t) override {
    submitted.push_back("copy");
    return UHAL_OK;
  }
  uhal_status fill(void*, const void*, size_t, size_t) override { return UHAL_OK; }
  uhal_status workspace(size_t bytes, void** pointer) override {
    asked_bytes = bytes;
    *pointer = memory_.data();
    return bytes <= memory_.size() ? UHAL_OK : UHAL_RESOURCE_EXHAUSTED;
  }
  uhal_status error_cell(const uhal_op&, void**, int64_t*) override { return UHAL_UNIMPLEMENTED; }
  uhal_status library_gemm(const MatmulProblem& problem, kernels::LibraryAlgorithm algorithm,
                           void* workspace) override {
    const uhal_status status = blas_->run(problem, algorithm, workspace);
    if (status == UHAL_OK) submitted.push_back("library");
    return status;
  }
  bool plan_library_convolution(const kernels::ConvolutionTask& task, size_t* bytes) override {
    return dnn_->plan(task, bytes);
  }
  uhal_status library_convolution(const kernels::ConvolutionTask& task, void* workspace) override {
    const uhal_status status = dnn_->run(task, workspace);
    if (status == UHAL_OK) submitted.push_back("library");
    return status;
  }

  bool plan_library_fft(const kernels::FftTask& task, size_t* bytes) override { return fft_->plan(task, bytes); }
  uhal_status library_fft(const kernels::FftTask& task, void* workspace) override {
    const uhal_status status = fft_->run(task, workspace);
    if (status == UHAL_OK) submitted.push_back("library");
    return status;
  }

  std::vector<std::string> submitted;
  size_t asked_bytes = 0;

 private:
  BlasQueue* const blas_;
  DnnStream* const dnn_;
  FftStream* const fft_;
  Memory memory_;
};

inline kernels::DeviceTraits gpu_traits() {
  kernels::DeviceTraits traits;
  traits.has_float64 = true;
  traits.compute_units = 100;
  traits.wavefront_size = 32;
  traits.max_group_size = 1024;
  traits.local_memory = 48 << 10;
  traits.max_parameters = 4096;
  traits.dtypes = ~uint64_t{0};
  return traits;
}

}  // namespace unihal::gpu
