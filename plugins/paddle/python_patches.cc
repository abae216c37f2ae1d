#include "plugins/paddle/python_patches.h"

#include <dlfcn.h>

#include <cstdio>
#include <string>

#include "plugins/paddle/library.h"

namespace unihal::paddle {
namespace {

struct Module {
  const char* name;
  const char* text;
};

// In the order in which they are run: each may import those before it.
constexpr Module kModules[] = {
#include "patches.inc"
};

// glog's FLAGS_minloglevel; 2 keeps errors.
constexpr const char* kLogLevelSymbol = "_ZN3fLI17FLAGS_minloglevelE";
constexpr int kErrorsOnly = 2;

// The interpreter's functions, found where it exports them.
template <class Function>
Function python(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

int* log_level() {
  static int* level = [] {
    void* library = find_paddle_library(kLogLevelSymbol);
    return library == nullptr ? nullptr : static_cast<int*>(dlsym(library, kLogLevelSymbol));
  }();
  return level;
}
int previous_log_level = 0;

int restore_log_level(void*) {
  *log_level() = previous_log_level;
  return 0;
}

}  // namespace

void apply_python_patches() {
  auto initialized = python<int (*)()>("Py_IsInitialized");
  auto ensure = python<int (*)()>("PyGILState_Ensure");
  auto release = python<void (*)(int)>("PyGILState_Release");
  auto run = python<int (*)(const char*)>("PyRun_SimpleString");
  if (!initialized || !ensure || !release || !run || initialized() == 0) return;
  static bool applied = false;
  if (applied) return;
  applied = true;
  Dl_info self;
  dladdr(reinterpret_cast<void*>(&apply_python_patches), &self);
  const int state = ensure();
  // Modules with dictionaries of their own, so that nothing appears in __main__.
  for (const Module& module : kModules) {
    const std::string program = std::string("exec(compile(r'''") + module.text + "''', 'unihal/" + module.name +
                                ".py', 'exec'), (lambda m: [setattr(m, 'LIBRARY', r'''" + self.dli_fname +
                                "'''), __import__('sys').modules.update({m.__name__: m})] and vars(m))"
                                "(__import__('types').ModuleType('" +
                                module.name + "')))";
    run(program.c_str());
  }
  release(state);
}

void silence_plugin_loading() {
  auto add_pending_call = python<int (*)(int (*)(void*), void*)>("Py_AddPendingCall");
  auto initialized = python<int (*)()>("Py_IsInitialized");
  if (!add_pending_call || !initialized || initialized() == 0 || log_level() == nullptr) return;
  if (*log_level() >= kErrorsOnly) return;
  previous_log_level = *log_level();
  if (add_pending_call(restore_log_level, nullptr) == 0) *log_level() = kErrorsOnly;
}

}  // namespace unihal::paddle
