// Whether a function that we declare ourselves can be called as a vendor's header declares it: agree<ours, theirs>.
//
// Equal must be what the calling convention sees: the number of parameters, and of each its size and kind; the
// sign counts below 32 bits only, where it decides what fills the register. Pointers agree if what they point at does,
// or one side says void or names a struct that only it has. Enumerations are integers of their size, and CUDA's
// addresses, which are integers there, are pointers here.
#pragma once

#include <cstddef>
#include <type_traits>

namespace headers {

template <class Ours, class Theirs>
constexpr bool agree();

template <class Ours, class Theirs>
struct Functions {
  static constexpr bool agree = false;
};

template <class OursResult, class TheirsResult, class... Ours, class... Theirs>
struct Functions<OursResult(Ours...), TheirsResult(Theirs...)> {
  static constexpr bool parameters() {
    if constexpr (sizeof...(Ours) == sizeof...(Theirs)) {
      return (headers::agree<Ours, Theirs>() && ...);
    } else {
      return false;
    }
  }
  static constexpr bool agree = headers::agree<OursResult, TheirsResult>() && parameters();
};

template <class Type>
constexpr bool is_whole = std::is_integral_v<Type> || std::is_enum_v<Type>;

template <class Type>
constexpr bool is_opaque = std::is_void_v<Type> || std::is_class_v<Type>;

template <class Ours, class Theirs>
constexpr bool agree() {
  using A = std::remove_cv_t<Ours>;
  using B = std::remove_cv_t<Theirs>;
  if constexpr (std::is_function_v<A> || std::is_function_v<B>) {
    return Functions<A, B>::agree;
  } else if constexpr (std::is_void_v<A> && std::is_void_v<B>) {
    return true;
  } else if constexpr (std::is_pointer_v<A> && std::is_pointer_v<B>) {
    using APointee = std::remove_cv_t<std::remove_pointer_t<A>>;
    using BPointee = std::remove_cv_t<std::remove_pointer_t<B>>;
    if constexpr (is_opaque<APointee> || is_opaque<BPointee>) {
      return true;
    } else {
      return agree<APointee, BPointee>();
    }
  } else if constexpr (std::is_pointer_v<A>) {
    return std::is_same_v<B, unsigned long long>;  // CUdeviceptr
  } else if constexpr (std::is_class_v<A> || std::is_class_v<B>) {
    return std::is_class_v<A> && std::is_class_v<B> && sizeof(A) == sizeof(B) && alignof(A) == alignof(B);
  } else if constexpr (is_whole<A> && is_whole<B>) {
    return sizeof(A) == sizeof(B) && (sizeof(A) >= sizeof(int) || std::is_signed_v<A> == std::is_signed_v<B>);
  } else {
    return std::is_floating_point_v<A> && std::is_floating_point_v<B> && sizeof(A) == sizeof(B);
  }
}

// The same for a pointer to ours.
#define UHAL_AGREES(ours, theirs)                                                          \
  static_assert(headers::agree<std::remove_pointer_t<decltype(ours)>, decltype(theirs)>(), \
                #theirs " is declared otherwise");

// What the checks rest on.
enum Code { kCode };
using Handle = struct OnlyTheyHaveIt*;
static_assert(agree<int(void**, size_t), Code(void**, size_t)>());
static_assert(agree<int(void**, const void*), Code(unsigned long long*, Handle)>());
static_assert(agree<int(void (*)(void*)), int(void (*)(void*))>());
static_assert(!agree<int(void**, size_t), Code(void**, unsigned)>());
static_assert(!agree<int(signed char), Code(unsigned char)>());
static_assert(!agree<int(int*), Code(size_t*)>());
static_assert(!agree<int(int), Code(int, int)>());
static_assert(!agree<int(void (*)(void*)), int(void (*)(int))>());
static_assert(!agree<int(float*), Code(double*)>());
static_assert(!agree<long(int), Code(int)>());

// The status that a vendor's code becomes, by the rows of status.cc.
template <class Row, size_t kRows>
constexpr int status_in(const Row (&rows)[kRows], int code) {
  for (const Row& row : rows) {
    if (row.code == code) return row.status;
  }
  return -1;
}

}  // namespace headers
