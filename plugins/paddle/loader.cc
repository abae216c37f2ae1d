// What Paddle finds in site-packages/paddle_custom_device: one file per device type, all from this source.
//
// Paddle raises out of `import paddle` when a file there cannot be opened, so this one depends on nothing. It
// opens unihal/lib/libunihal_paddle.so, which lies beside this folder, and hands over. Without that library
// nothing happens.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>

extern "C" __attribute__((visibility("default"))) void InitPlugin(void* parameters) {
  Dl_info self;
  if (dladdr(reinterpret_cast<void*>(&InitPlugin), &self) == 0) return;
  const char* slash = std::strrchr(self.dli_fname, '/');
  const int folder = slash == nullptr ? 1 : static_cast<int>(slash - self.dli_fname);
  char path[4096];
  std::snprintf(path, sizeof path, "%.*s/../unihal/lib/libunihal_paddle.so", folder, slash ? self.dli_fname : ".");

  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "unihal: device type " UNIHAL_DEVICE_TYPE " is not available in Paddle: %s\n", dlerror());
    return;
  }
  using Initialize = void (*)(void*, const char*);
  auto initialize = reinterpret_cast<Initialize>(dlsym(library, "uhal_paddle_initialize"));
  if (initialize != nullptr) initialize(parameters, UNIHAL_DEVICE_TYPE);
}
