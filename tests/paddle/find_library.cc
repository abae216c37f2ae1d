// find_paddle_library beside a thread that opens and closes libraries: find_library PADDLE_LIBRARY OTHER_LIBRARY
#include <dlfcn.h>

#include <atomic>
#include <thread>

#include "plugins/paddle/library.h"

int main(int, char** arguments) {
  if (dlopen(arguments[1], RTLD_NOW) == nullptr) return 2;
  std::atomic<bool> done{false};
  std::thread other([&] {
    for (int i = 0; i < 300; ++i) {
      void* library = dlopen(arguments[2], RTLD_NOW);
      if (library == nullptr) return;
      dlclose(library);
    }
    done = true;
  });
  bool found = true;
  while (!done && found) found = unihal::paddle::find_paddle_library("a_symbol_of_paddle") != nullptr;
  found = found && unihal::paddle::find_paddle_library("no_symbol_of_paddle") == nullptr;
  other.join();
  return found && done ? 0 : 1;
}
