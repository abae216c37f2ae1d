// NCCL and RCCL, which has NCCL's names: opened at run time, with our own declarations.
#pragma once

#include <cstddef>
#include <string>

#include "csrc/backends/gpu/api.h"
#include "unihal/collectives.h"

namespace unihal::gpu {

using NativeCommunicator = struct NcclCommunicator*;

// What one rank makes and the others get.
struct NativeId {
  char bytes[128];
};

constexpr int kCollectiveSuccess = 0;

// NCCL's functions. All return its codes but the two that return texts.
struct CollectiveFunctions {
  int (*get_version)(int* version);
  int (*get_unique_id)(NativeId* id);
  int (*init)(NativeCommunicator* communicator, int size, NativeId id, int rank);
  int (*destroy)(NativeCommunicator communicator);
  int (*abort)(NativeCommunicator communicator);
  int (*async_error)(NativeCommunicator communicator, int* code);
  const char* (*error_text)(int code);
  const char* (*last_error)(NativeCommunicator communicator);  // may be nullptr
  int (*group_start)();
  int (*group_end)();
  int (*all_reduce)(const void* source, void* destination, size_t count, int dtype, int reduction,
                    NativeCommunicator communicator, NativeStream stream);
  int (*reduce)(const void* source, void* destination, size_t count, int dtype, int reduction, int root,
                NativeCommunicator communicator, NativeStream stream);
  int (*reduce_scatter)(const void* source, void* destination, size_t count, int dtype, int reduction,
                        NativeCommunicator communicator, NativeStream stream);
  int (*all_gather)(const void* source, void* destination, size_t count, int dtype, NativeCommunicator communicator,
                    NativeStream stream);
  int (*broadcast)(const void* source, void* destination, size_t count, int dtype, int root,
                   NativeCommunicator communicator, NativeStream stream);
  int (*send)(const void* source, size_t count, int dtype, int peer, NativeCommunicator communicator,
              NativeStream stream);
  int (*receive)(void* destination, size_t count, int dtype, int peer, NativeCommunicator communicator,
                 NativeStream stream);
};

class CollectiveLibrary {
 public:
  // The vendor's, opened by the first call. It is never closed.
  static const CollectiveLibrary& instance();

  // Empty, or why there is none, and what to do.
  const std::string& refusal() const { return refusal_; }

  const CollectiveFunctions& functions() const { return functions_; }

  // "NCCL 2.21.5".
  const std::string& name() const { return name_; }

  // Why it does not reduce so; empty if it does.
  std::string refusal_of(const uhal_collective& collective) const;

  // Submits a collective, inside a group. `size`: of the communicator.
  int submit(const uhal_collective& collective, int32_t size, NativeCommunicator communicator,
             NativeStream stream) const;

  // "NCCL 2.21.5: unhandled system error (2)", with what it says beside.
  std::string describe(int code) const;

 private:
  CollectiveLibrary();
  std::string open();

  std::string refusal_;
  std::string name_;
  int version_ = 0;  // 22105; 2804 is 20804
  CollectiveFunctions functions_ = {};
};

}  // namespace unihal::gpu
