// One typed function -> the two entries that Paddle wants of a kernel, and its signature.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "plugins/paddle/arguments.h"

namespace unihal::paddle {

struct Parameter {
  Role role;
  ArgumentType type;
  const char* code;
};

// What registration needs to know of a kernel function.
struct Entry {
  const Parameter* parameters;
  size_t count;
  void (*compute)(void* kernel_context);  // graph execution
  void* variadic;                         // eager mode
  const char** name;                      // to be set to the kernel's name
};

// File and number make a type per table row, so that a function which serves several kernels knows each by name.
template <auto function, class File, int number>
struct EntryOf;

template <class... Arguments, void (*function)(Context, Arguments...), class File, int number>
struct EntryOf<function, File, number> {
  static constexpr Parameter parameters[sizeof...(Arguments) + 1] = {
      {Argument<Arguments>::role, Argument<Arguments>::type, Argument<Arguments>::code}..., {}};
  static inline const char* name = "";

  // How many parameters of the same role stand before parameter `index`.
  static constexpr size_t position(size_t index) {
    size_t before = 0;
    for (size_t i = 0; i < index; ++i) before += parameters[i].role == parameters[index].role ? 1 : 0;
    return before;
  }

  template <size_t... index>
  static void compute_indexed(void* context, std::index_sequence<index...>) {
    function(Context(phi.PD_KernelContextGetDeviceContext(context), name),
             Argument<Arguments>::from_context(context, position(index))...);
  }
  static void compute(void* context) { compute_indexed(context, std::index_sequence_for<Arguments...>()); }

  static void variadic(const void* context, typename Argument<Arguments>::Raw... raw) {
    function(Context(context, name), Argument<Arguments>::from_raw(raw)...);
  }

  static Entry entry() {
    return {parameters, sizeof...(Arguments), &compute, reinterpret_cast<void*>(&variadic), &name};
  }
};

// "tensor,optional;float,int;tensor": inputs; attributes; outputs.
inline std::string signature_of(const Entry& entry) {
  std::string parts[3];
  for (size_t i = 0; i < entry.count; ++i) {
    std::string& part = parts[static_cast<int>(entry.parameters[i].role) - static_cast<int>(Role::kInput)];
    if (!part.empty()) part += ',';
    part += entry.parameters[i].code;
  }
  return parts[0] + ";" + parts[1] + ";" + parts[2];
}

}  // namespace unihal::paddle
