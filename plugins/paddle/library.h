// Finding what is loaded in this process.
#pragma once

#include <dlfcn.h>
#include <link.h>

#include <cstddef>
#include <initializer_list>

namespace unihal::paddle {

// A handle of the loaded library, belonging to Paddle, that exports `symbol`; nullptr if none does.
void* find_paddle_library(const char* symbol);

// A function of a library, and of the one that find_paddle_library() finds; nullptr if there is none.
template <class Function>
Function find_function(void* library, const char* symbol) {
  return reinterpret_cast<Function>(dlsym(library, symbol));
}
template <class Function>
Function find_function(const char* symbol) {
  void* library = find_paddle_library(symbol);
  return library == nullptr ? nullptr : find_function<Function>(library, symbol);
}

// Sets *function to one of Paddle's functions; returns false if there is none.
template <class Function>
bool bind_function(const char* symbol, Function* function) {
  *function = find_function<Function>(symbol);
  return *function != nullptr;
}

// Points every jump slot of Paddle's libraries that calls `symbol` to `replacement`. Returns the number of slots.
int redirect_paddle_calls(const char* symbol, void* replacement);

// Sends Paddle's calls of one of its functions to `replacement`, which may call *original. Returns nullptr, or the
// symbol if this Paddle does not have it or does not call it across libraries.
template <class Function>
const char* redirect_paddle_function(const char* symbol, Function replacement, Function* original) {
  void* library = find_paddle_library(symbol);
  if (library == nullptr) return symbol;
  *original = reinterpret_cast<Function>(dlsym(library, symbol));
  return redirect_paddle_calls(symbol, reinterpret_cast<void*>(replacement)) > 0 ? nullptr : symbol;
}

// In the table of virtual functions that `symbol` is, puts each second function of `pairs` in the place of the first.
// Changes nothing, and returns false, unless the table is Paddle's and has each of the first ones once.
struct VirtualFunctions {
  void* original;
  void* replacement;
};
bool redirect_virtual_functions(const char* symbol, std::initializer_list<VirtualFunctions> pairs);

// The first of redirect_paddle_function's answers that names a symbol, or nullptr.
template <size_t count>
const char* first_missing(const char* (&answers)[count]) {
  for (const char* answer : answers) {
    if (answer != nullptr) return answer;
  }
  return nullptr;
}

}  // namespace unihal::paddle
