// Host memory from malloc, in a std::unique_ptr.
#pragma once

#include <cstdlib>

namespace unihal::core {

struct FreeHostMemory {
  void operator()(void* memory) const { free(memory); }
};

}  // namespace unihal::core
