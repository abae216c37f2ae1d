#include "plugins/tensorflow/interpreter_hook.h"

#include <dlfcn.h>

#include <cstdio>

namespace unihal::tensorflow {
namespace {

constexpr const char* kHook =
#include "interpreter_hook.inc"
    ;

// Python's Py_file_input: a whole module.
constexpr int kFileInput = 257;

template <class Function>
Function find(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace

void install_interpreter_hook() {
  static bool installed = false;
  if (installed) return;
  installed = true;
  // Python is found at run time: the adapter links none, and TensorFlow may run without one.
  const auto is_initialized = find<int (*)()>("Py_IsInitialized");
  const auto acquire = find<int (*)()>("PyGILState_Ensure");
  const auto release = find<void (*)(int)>("PyGILState_Release");
  const auto new_dictionary = find<void* (*)()>("PyDict_New");
  const auto run = find<void* (*)(const char*, int, void*, void*)>("PyRun_String");
  const auto print_error = find<void (*)()>("PyErr_Print");
  if (!is_initialized || !acquire || !release || !new_dictionary || !run || !print_error) return;
  if (is_initialized() == 0) return;
  const int held = acquire();
  // A namespace of its own, which the functions defined in it keep alive.
  void* const globals = new_dictionary();
  if (run(kHook, kFileInput, globals, globals) == nullptr) {
    print_error();
    std::fprintf(stderr, "unihal: this TensorFlow differs from the known ones; with Keras pass jit_compile=False\n");
  }
  release(held);
}

}  // namespace unihal::tensorflow
