#include "stub/lapack/library.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <vector>

#include "stub/common/library_search.h"

namespace unihal::stub {
namespace {

struct LoadedLapack {
  Lapack<float> s = {};
  Lapack<double> d = {};
  Lapack<std::complex<float>> c = {};
  Lapack<std::complex<double>> z = {};
  void (*set_threads)(int) = nullptr;  // OpenBLAS' own; nullptr in others
  std::string description;
  FoundLibrary found;
};

// Finds functions by their Fortran names; scipy-openblas puts a word in front of them. The first that is missing is
// kept.
struct Finder {
  void* library;
  std::string prefix;
  std::string missing;

  using SetThreads = void(int);
  SetThreads* set_threads() const {
    return reinterpret_cast<SetThreads*>(dlsym(library, (prefix + "openblas_set_num_threads").c_str()));
  }

  template <typename Function>
  void find(const std::string& name, Function*& function) {
    find_if_there(name, function);
    if (function == nullptr && missing.empty()) missing = prefix + name + "_";
  }

  template <typename Function>
  void find_if_there(const std::string& name, Function*& function) const {
    function = reinterpret_cast<Function*>(dlsym(library, (prefix + name + "_").c_str()));
  }

  template <typename T>
  void find_all(const std::string& letter, Lapack<T>& functions) {
    if (set_threads() != nullptr) {
      find(letter + "gemm", functions.gemm);
      find(letter + "gemv", functions.gemv);
    }
    find(letter + "trsm", functions.trsm);
    find(letter + "potrf", functions.potrf);
    find(letter + "getrf", functions.getrf);
    find(letter + "geqrf", functions.geqrf);
    find_if_there(letter + "geqrt", functions.geqrt);
    if constexpr (kIsComplex<T>) {
      find(letter + "ungqr", functions.form_q);
      find(letter + "heevd", functions.eigen_hermitian);
      find(letter + "gesdd", functions.svd_complex);
      find(letter + "geev", functions.eigen_complex);
    } else {
      find(letter + "orgqr", functions.form_q);
      find(letter + "syevd", functions.eigen_symmetric);
      find(letter + "gesdd", functions.svd_real);
      find(letter + "geev", functions.eigen_real);
    }
  }
};

std::vector<std::string> lapack_candidates() {
  std::vector<std::string> paths;
  const std::string folder = own_folder();
  // site-packages/unihal/lib -> site-packages; in a build tree a link beside the backend stands for it.
  if (!folder.empty()) {
    paths.push_back(folder + "/libscipy_openblas.so");
    paths.push_back(folder + "/../../scipy_openblas32/lib/libscipy_openblas.so");
  }
  paths.push_back("liblapack.so.3");
  paths.push_back("libopenblas.so.0");
  return paths;
}

std::string describe_lapack(void* library, const std::string& prefix, const std::string& path) {
  using GetConfig = char*();
  auto* const get_config = reinterpret_cast<GetConfig*>(dlsym(library, (prefix + "openblas_get_config").c_str()));
  if (get_config == nullptr) return "LAPACK (" + path.substr(path.rfind('/') + 1) + ")";
  const std::string config = get_config();  // "OpenBLAS 0.3.29  USE64BITINT DYNAMIC_ARCH ..."
  const size_t version = config.find(' ');
  return config.substr(0, config.find(' ', version + 1));
}

// Opens a file and fills the functions; returns what was wrong, or an empty string.
std::string open_lapack(const std::string& path, LoadedLapack& loaded) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return dlerror();
  std::string missing;
  for (const char* prefix : {"", "scipy_"}) {
    Finder finder = {library, prefix, {}};
    finder.find_all("s", loaded.s);
    finder.find_all("d", loaded.d);
    finder.find_all("c", loaded.c);
    finder.find_all("z", loaded.z);
    if (finder.missing.empty()) {
      loaded.set_threads = finder.set_threads();
      loaded.description = describe_lapack(library, finder.prefix, path);
      return {};
    }
    if (missing.empty()) missing = finder.missing;
  }
  dlclose(library);
  return path + " has no function " + missing;
}

LoadedLapack load_lapack() {
  LoadedLapack loaded;
  loaded.found = find_library({"UNIHAL_LAPACK_LIBRARY", "LAPACK", "built-in kernels",
                               "pip install scipy-openblas32, or Debian's liblapack3", lapack_candidates(),
                               [&](const std::string& path) { return open_lapack(path, loaded); }});
  if (!loaded.found.usable) loaded.description = loaded.found.missing;
  return loaded;
}

// Never destroyed: kernels may run until the process ends.
const LoadedLapack& loaded_lapack() {
  static const LoadedLapack* const instance = new LoadedLapack(load_lapack());
  return *instance;
}

template <typename T>
const Lapack<T>* usable(const Lapack<T>& functions) {
  return loaded_lapack().found.usable ? &functions : nullptr;
}

}  // namespace

template <>
const Lapack<float>* lapack<float>() {
  return usable(loaded_lapack().s);
}
template <>
const Lapack<double>* lapack<double>() {
  return usable(loaded_lapack().d);
}
template <>
const Lapack<std::complex<float>>* lapack<std::complex<float>>() {
  return usable(loaded_lapack().c);
}
template <>
const Lapack<std::complex<double>>* lapack<std::complex<double>>() {
  return usable(loaded_lapack().z);
}

const char* lapack_description() { return loaded_lapack().description.c_str(); }

const char* lapack_refusal() {
  const char* wish = std::getenv("UNIHAL_LAPACK_LIBRARY");
  return wish != nullptr && *wish != '\0' ? loaded_lapack().found.refusal.c_str() : "";
}

void set_lapack_threads(int threads) {
  static std::atomic<int> current{0};
  if (loaded_lapack().set_threads != nullptr && current.exchange(threads, std::memory_order_relaxed) != threads) {
    loaded_lapack().set_threads(threads);
  }
}

}  // namespace unihal::stub
