#include "stub/strict/guarded_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "stub/common/kernels.h"
#include "stub/strict/pages.h"

namespace unihal::stub::strict {

uhal_status allocate_guarded(size_t bytes, void** pointer) {
  *pointer = nullptr;
  const size_t pages = round_up(bytes, page_size());
  const size_t mapped = pages + 2 * page_size();
  void* memory = pages < bytes ? MAP_FAILED : mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory != MAP_FAILED) {
    char* first = static_cast<char*>(memory) + page_size();
    if (mprotect(first, pages, PROT_READ | PROT_WRITE) == 0) {
      fill_with_poison(first, pages);
      *pointer = first + pages - round_up(bytes, kAlignment);
      return UHAL_OK;
    }
    munmap(memory, mapped);
  }
  return fail(UHAL_RESOURCE_EXHAUSTED, "the host has no %zu bytes left for pinned or managed memory (%s)", bytes,
              std::strerror(ENOMEM));
}

uhal_status free_guarded(void* pointer, size_t bytes) {
  const size_t pages = round_up(bytes, page_size());
  char* first = static_cast<char*>(pointer) + round_up(bytes, kAlignment) - pages;
  if (munmap(first - page_size(), pages + 2 * page_size()) == 0) return UHAL_OK;
  return fail(UHAL_INTERNAL, "the system cannot unmap %zu bytes of pinned or managed memory (%s)", bytes,
              std::strerror(errno));
}

}  // namespace unihal::stub::strict
