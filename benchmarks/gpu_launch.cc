// The cost of a launch on the corex backend, against a bare cuLaunchKernel of such a kernel, on a stream of its own in
// the context that the backend uses too.
//
//     benchmark_gpu_launch [DEVICE]     iluvatar:0 if none is given; UNIHAL_BACKEND=corex

#include "benchmarks/launch.h"

#include <dlfcn.h>

namespace {

// c[i] = a[i] + b[i] for i < count, by one thread an element.
constexpr char kText[] = R"(
.version 6.4
.target sm_70
.address_size 64
.visible .entry add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 count) {
  .reg .pred %p;
  .reg .b32 %r<5>;
  .reg .b64 %x<8>;
  .reg .f32 %f<4>;
  mov.u32 %r1, %tid.x;
  ld.param.u32 %r2, [count];
  setp.ge.s32 %p, %r1, %r2;
  @%p bra DONE;
  ld.param.u64 %x1, [a];
  ld.param.u64 %x2, [b];
  ld.param.u64 %x3, [c];
  mul.wide.s32 %x4, %r1, 4;
  add.s64 %x5, %x1, %x4;
  add.s64 %x6, %x2, %x4;
  add.s64 %x7, %x3, %x4;
  ld.global.f32 %f1, [%x5];
  ld.global.f32 %f2, [%x6];
  add.f32 %f3, %f1, %f2;
  st.global.f32 [%x7], %f3;
DONE:
  ret;
}
)";

class BareKernel {
 public:
  BareKernel() {
    library_ = dlopen("libcuda.so.1", RTLD_NOW);
    if (library_ == nullptr) {
      std::fprintf(stderr, "%s\n", dlerror());
      std::exit(1);
    }
    call<int (*)(unsigned)>("cuInit", 0u);
    call<int (*)(void**, int)>("cuDevicePrimaryCtxRetain", &context_, 0);
    call<int (*)(void*)>("cuCtxSetCurrent", context_);
    void* module = nullptr;
    call<int (*)(void**, const void*)>("cuModuleLoadData", &module, kText);
    call<int (*)(void**, void*, const char*)>("cuModuleGetFunction", &function_, module, "add");
    call<int (*)(void**, unsigned)>("cuStreamCreate", &stream_, 1u);
    for (unsigned long long& address : addresses_) {
      call<int (*)(unsigned long long*, size_t)>("cuMemAlloc_v2", &address, size_t{4096});
    }
    find("cuLaunchKernel", &launch_);
    find("cuStreamSynchronize", &wait_);
  }

  void launch() {
    void* parameters[] = {&addresses_[0], &addresses_[1], &addresses_[2], &count_};
    check("cuLaunchKernel", launch_(function_, 1, 1, 1, 256, 1, 1, 0, stream_, parameters, nullptr));
  }

  void wait() { check("cuStreamSynchronize", wait_(stream_)); }

 private:
  static void check(const char* name, int code) {
    if (code == 0) return;
    std::fprintf(stderr, "%s failed with %d\n", name, code);
    std::exit(1);
  }

  template <class Function>
  void find(const char* name, Function* function) {
    *reinterpret_cast<void**>(function) = dlsym(library_, name);
    if (*function != nullptr) return;
    std::fprintf(stderr, "libcuda.so.1 has no %s\n", name);
    std::exit(1);
  }

  template <class Function, class... Arguments>
  void call(const char* name, Arguments... arguments) {
    Function function = nullptr;
    find(name, &function);
    check(name, function(arguments...));
  }

  void* library_ = nullptr;
  void* context_ = nullptr;
  void* function_ = nullptr;
  void* stream_ = nullptr;
  unsigned long long addresses_[3] = {};
  int count_ = 16;
  int (*launch_)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                 void**) = nullptr;
  int (*wait_)(void*) = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  launch_benchmark::measure("corex: launch", argc > 1 ? argv[1] : "iluvatar:0", "cuLaunchKernel", 1.1,
                            [](const std::string&) { return BareKernel(); });
  return 0;
}
