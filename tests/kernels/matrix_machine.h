// A group of work-items on the host, for kernels that exchange data within warps and at barriers: each work-item is a
// coroutine, which runs until it waits for others. Include it before the prelude, which takes this compiler for NVRTC.
#pragma once

#include <ucontext.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define __device__
#define __global__
#define __shared__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))

struct Index {
  unsigned x, y, z;
};
static Index threadIdx, blockIdx, blockDim, gridDim;  // of the work-item that runs

constexpr size_t kLocalBytes = 232448;  // what a work-group of an H100 may have

namespace on_host {
alignas(1024) inline unsigned char memory[kLocalBytes];
inline size_t local_bytes;  // of these, what the kernel says that it takes
}  // namespace on_host

static inline float __uint_as_float(unsigned bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}
static inline unsigned __float_as_uint(float value) {
  unsigned bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}
static inline long long __double_as_longlong(double value) {
  long long bits;
  std::memcpy(&bits, &value, 8);
  return bits;
}
static inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
static inline double rsqrt(double x) { return 1 / std::sqrt(x); }
static inline unsigned atomicCAS(unsigned*, unsigned, unsigned) { std::abort(); }
static inline int atomicCAS(int*, int, int) { std::abort(); }

namespace on_host {

constexpr int kLanes = 32;
constexpr size_t kStack = 256 << 10;

struct Warp {
  unsigned words[kLanes][16];
};

struct Copy {
  unsigned to;
  const void* from;
};

struct Item {
  ucontext_t context;
  std::vector<char> stack = std::vector<char>(kStack);
  std::vector<Copy> copies;
  int waits = 0;  // for: 0 nothing, 1 its warp, 2 its group
  bool is_done = false;
};

inline std::vector<Item> items;
inline std::vector<Warp> warps;
inline ucontext_t scheduler;
inline int running;
inline void (*body)();

inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s (group %u, work-item %d)\n", what, blockIdx.x, running);
  std::abort();
}
inline int lane() { return running % kLanes; }
inline Warp& warp() { return warps[running / kLanes]; }

inline void wait(int what) {
  Item& item = items[running];
  item.waits = what;
  swapcontext(&item.context, &scheduler);
}
inline void sync_warp() { wait(1); }
inline void sync_group() { wait(2); }

// UHAL_LAUNCHED_LOCAL_MEMORY.
template <class Type>
Type* take_local_memory(size_t count) {
  local_bytes = count * sizeof(Type);
  require(local_bytes <= kLocalBytes, "the kernel takes more local memory than there is");
  return reinterpret_cast<Type*>(memory);
}

inline unsigned local_address(const void* pointer) {
  return static_cast<unsigned>(static_cast<const unsigned char*>(pointer) - memory);
}
inline unsigned local_element(unsigned address) {
  require(address + 2 <= local_bytes, "an address is beyond local memory");
  return memory[address] | memory[address + 1] << 8;
}
inline void copy_later(unsigned to, const void* from) {
  require(to + 16 <= local_bytes, "an address is beyond local memory");
  // Until the copy is there, nothing may be read: NaN in both dtypes.
  std::memset(memory + to, 0xff, 16);
  items[running].copies.push_back({to, from});
}
inline void finish_copies() {
  for (const Copy& copy : items[running].copies) {
    if (copy.from != nullptr)
      std::memcpy(memory + copy.to, copy.from, 16);
    else
      std::memset(memory + copy.to, 0, 16);
  }
  items[running].copies.clear();
}

inline float float_of_half(unsigned bits) {
  _Float16 value;
  std::memcpy(&value, &bits, 2);
  return static_cast<float>(value);
}
inline unsigned half_of_float(float value) {
  const _Float16 half = static_cast<_Float16>(value);
  unsigned short bits;
  std::memcpy(&bits, &half, 2);
  return bits;
}

inline void begin_item() {
  body();
  items[running].is_done = true;
  swapcontext(&items[running].context, &scheduler);
}

inline void run_item(int number) {
  running = number;
  threadIdx = {static_cast<unsigned>(number), 0, 0};
  swapcontext(&scheduler, &items[number].context);
}

// Whether all of a range wait for `what`, or are done; then none waits any more.
inline bool release(int first, int count, int what) {
  bool is_done = true;
  for (int i = first; i < first + count; ++i) {
    if (!items[i].is_done && items[i].waits != what) return false;
    is_done &= items[i].is_done;
  }
  if (is_done) return false;
  for (int i = first; i < first + count; ++i) {
    require(!items[i].is_done || what == 2, "a warp waits for a work-item that has ended");
    items[i].waits = 0;
  }
  return true;
}

// Runs a kernel, group after group.
inline void launch(unsigned groups, int size, void (*kernel)()) {
  body = kernel;
  if (static_cast<int>(items.size()) != size) {
    items = std::vector<Item>(size);
    warps.resize(size / kLanes);
  }
  blockDim = {static_cast<unsigned>(size), 1, 1};
  gridDim = {groups, 1, 1};
  for (unsigned group = 0; group < groups; ++group) {
    blockIdx = {group, 0, 0};
    std::memset(memory, 0xff, kLocalBytes);
    for (Item& item : items) {
      getcontext(&item.context);
      item.context.uc_stack.ss_sp = item.stack.data();
      item.context.uc_stack.ss_size = kStack;
      item.context.uc_link = nullptr;
      makecontext(&item.context, begin_item, 0);
      item.waits = 0;
      item.is_done = false;
      item.copies.clear();
    }
    for (bool goes_on = true; goes_on;) {
      goes_on = false;
      // The last warp first, so that what is read too early is seen.
      for (int first = size - kLanes; first >= 0; first -= kLanes) {
        do {
          for (int i = first; i < first + kLanes; ++i) {
            if (!items[i].is_done && items[i].waits == 0) run_item(i);
          }
        } while (release(first, kLanes, 1));
      }
      goes_on = release(0, size, 2);
    }
    for (const Item& item : items) require(item.is_done, "work-items wait for each other");
  }
}

}  // namespace on_host

static inline void __syncthreads() { on_host::sync_group(); }
static inline void __syncwarp() { on_host::sync_warp(); }
static inline int __popc(unsigned bits) { return __builtin_popcount(bits); }

// Work-items run one at a time.
static inline int atomicAdd(int* p, int value) {
  const int before = *p;
  *p += value;
  return before;
}

static inline int __shfl_xor_sync(unsigned, int value, int mask) {
  on_host::warp().words[on_host::lane()][0] = static_cast<unsigned>(value);
  on_host::sync_warp();
  const int other = static_cast<int>(on_host::warp().words[on_host::lane() ^ mask][0]);
  on_host::sync_warp();
  return other;
}
static inline unsigned __ballot_sync(unsigned, int predicate) {
  on_host::warp().words[on_host::lane()][0] = predicate != 0;
  on_host::sync_warp();
  unsigned bits = 0;
  for (int lane = 0; lane < on_host::kLanes; ++lane) bits |= on_host::warp().words[lane][0] << lane;
  on_host::sync_warp();
  return bits;
}
