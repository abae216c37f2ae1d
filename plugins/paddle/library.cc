#include "plugins/paddle/library.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace unihal::paddle {
namespace {

// Paddle's own libraries lie in .../paddle/libs and .../paddle/base.
bool belongs_to_paddle(const dl_phdr_info* info) {
  return info->dlpi_name != nullptr && (std::strstr(info->dlpi_name, "/paddle/libs/") != nullptr ||
                                        std::strstr(info->dlpi_name, "/paddle/base/") != nullptr);
}

// The parts of a library's dynamic section that describe its calls into other libraries.
struct JumpSlots {
  const ElfW(Sym) * symbols = nullptr;
  const char* strings = nullptr;
  const ElfW(Rela) * relocations = nullptr;
  size_t bytes = 0;

  explicit JumpSlots(const dl_phdr_info* info) {
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      if (info->dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
      auto* entry = reinterpret_cast<const ElfW(Dyn)*>(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
      for (; entry->d_tag != DT_NULL; ++entry) {
        if (entry->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const ElfW(Sym)*>(entry->d_un.d_ptr);
        if (entry->d_tag == DT_STRTAB) strings = reinterpret_cast<const char*>(entry->d_un.d_ptr);
        if (entry->d_tag == DT_JMPREL) relocations = reinterpret_cast<const ElfW(Rela)*>(entry->d_un.d_ptr);
        if (entry->d_tag == DT_PLTRELSZ) bytes = entry->d_un.d_val;
      }
    }
  }
  size_t count() const { return symbols && strings && relocations ? bytes / sizeof(ElfW(Rela)) : 0; }
};

bool make_writable(void** slot) {
  const auto page_size = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t page = reinterpret_cast<uintptr_t>(slot) & ~(page_size - 1);
  return mprotect(reinterpret_cast<void*>(page), page_size, PROT_READ | PROT_WRITE) == 0;
}

struct Redirection {
  const char* symbol;
  void* replacement;
  int slots;
};

int redirect_one_library(dl_phdr_info* info, size_t, void* argument) {
  auto* redirection = static_cast<Redirection*>(argument);
  if (!belongs_to_paddle(info)) return 0;
  const JumpSlots slots(info);
  for (size_t i = 0; i < slots.count(); ++i) {
    const ElfW(Rela) & relocation = slots.relocations[i];
    const ElfW(Sym) & symbol = slots.symbols[ELF64_R_SYM(relocation.r_info)];
    if (std::strcmp(slots.strings + symbol.st_name, redirection->symbol) != 0) continue;
    // Lazily bound slots are writable already; with full RELRO they are not.
    auto* const slot = reinterpret_cast<void**>(info->dlpi_addr + relocation.r_offset);
    if (!make_writable(slot)) continue;
    __atomic_store_n(slot, redirection->replacement, __ATOMIC_RELEASE);
    ++redirection->slots;
  }
  return 0;
}

int note_one_library(dl_phdr_info* info, size_t, void* paths) {
  if (belongs_to_paddle(info)) static_cast<std::vector<std::string>*>(paths)->emplace_back(info->dlpi_name);
  return 0;
}

}  // namespace

void* find_paddle_library(const char* symbol) {
  // Nothing is opened while the libraries are gone through: a thread that opens another one at that time holds the lock
  // that opening takes, and waits for the one that going through them takes.
  std::vector<std::string> paths;
  dl_iterate_phdr(note_one_library, &paths);
  for (const std::string& path : paths) {
    void* library = dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr) continue;
    if (dlsym(library, symbol) != nullptr) return library;
    dlclose(library);
  }
  return nullptr;
}

int redirect_paddle_calls(const char* symbol, void* replacement) {
  Redirection redirection = {symbol, replacement, 0};
  dl_iterate_phdr(redirect_one_library, &redirection);
  return redirection.slots;
}

bool redirect_virtual_functions(const char* symbol, std::initializer_list<VirtualFunctions> pairs) {
  void* library = find_paddle_library(symbol);
  if (library == nullptr) return false;
  auto* const table = static_cast<void**>(dlsym(library, symbol));
  Dl_info info = {};
  ElfW(Sym)* described = nullptr;
  if (dladdr1(table, &info, reinterpret_cast<void**>(&described), RTLD_DL_SYMENT) == 0 || described == nullptr ||
      info.dli_saddr != table) {
    return false;
  }
  void** const end = table + described->st_size / sizeof(void*);
  for (const VirtualFunctions& pair : pairs) {
    if (std::count(table, end, pair.original) != 1 || !make_writable(std::find(table, end, pair.original))) {
      return false;
    }
  }
  for (const VirtualFunctions& pair : pairs) {
    __atomic_store_n(std::find(table, end, pair.original), pair.replacement, __ATOMIC_RELEASE);
  }
  return true;
}

}  // namespace unihal::paddle
