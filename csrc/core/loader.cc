#include "csrc/core/loader.h"

#include <dlfcn.h>
#include <elf.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <vector>

#include "csrc/core/environment.h"
#include "csrc/core/host.h"

namespace unihal::core {
namespace {

// The slots that a backend must have, in order.
struct RequiredSlot {
  const char* name;
  size_t offset;
};
#define UHAL_SLOT(name) {#name, offsetof(uhal_backend, name)}
const RequiredSlot kRequiredSlots[] = {
    UHAL_SLOT(device_count),      UHAL_SLOT(device_open),  UHAL_SLOT(device_properties),
    UHAL_SLOT(allocate),          UHAL_SLOT(free),         UHAL_SLOT(stream_create),
    UHAL_SLOT(stream_destroy),    UHAL_SLOT(stream_query), UHAL_SLOT(stream_synchronize),
    UHAL_SLOT(stream_wait_event), UHAL_SLOT(event_create), UHAL_SLOT(event_destroy),
    UHAL_SLOT(event_record),      UHAL_SLOT(event_query),  UHAL_SLOT(event_synchronize),
    UHAL_SLOT(event_elapsed),     UHAL_SLOT(copy),         UHAL_SLOT(fill),
    UHAL_SLOT(supports),          UHAL_SLOT(launch),
};
#undef UHAL_SLOT

// Slots of the first minor end here; later ones are optional.
constexpr size_t kFirstMinorSize = offsetof(uhal_backend, host_callback);

LoadResult refuse(uhal_status status, const std::string& library, const std::string& reason) {
  LoadResult result;
  result.status = status;
  result.library = library;
  result.reason = reason;
  return result;
}

// The dynamic loader maps a truncated file and dies at the first touch beyond its end, so the headers are
// checked before. Empty if the file is whole.
std::string check_elf(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return "cannot be read: " + std::string(strerror(errno));
  uint64_t size = static_cast<uint64_t>(file.tellg());
  Elf64_Ehdr header;
  file.seekg(0);
  if (size < sizeof header || !file.read(reinterpret_cast<char*>(&header), sizeof header) ||
      memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64) {
    return "is not a 64-bit ELF library (" + std::to_string(size) + " bytes)";
  }
  // The section headers are usually the end of a file, the segments are what gets mapped.
  uint64_t needed = header.e_shoff + uint64_t{header.e_shentsize} * header.e_shnum;
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    file.seekg(static_cast<std::streamoff>(header.e_phoff + uint64_t{header.e_phentsize} * i));
    if (!file.read(reinterpret_cast<char*>(&segment), sizeof segment)) return "is truncated within its headers";
    needed = std::max(needed, segment.p_offset + segment.p_filesz);
  }
  if (needed <= size) return "";
  return "is truncated: it has " + std::to_string(size) + " bytes of at least " + std::to_string(needed) +
         "; install it again";
}

// Empty if the table can be used, else what is wrong with it.
std::string check_table(const uhal_backend* table, const std::string& expected_name) {
  if (table->struct_size < offsetof(uhal_backend, device_count)) {
    return "has a table of " + std::to_string(table->struct_size) + " bytes, too short for its own version";
  }
  if (table->abi_major != UHAL_ABI_MAJOR) {
    return "has ABI major " + std::to_string(table->abi_major) + ", this core has " + std::to_string(UHAL_ABI_MAJOR) +
           "; install matching versions of unihal and the backend";
  }
  for (const RequiredSlot& slot : kRequiredSlots) {
    if (table->struct_size < slot.offset + sizeof(void*)) {
      return "has a table of " + std::to_string(table->struct_size) + " bytes, too short for the required slot " +
             slot.name + " (" + std::to_string(kFirstMinorSize) + " bytes are needed); rebuild the backend";
    }
    void* function;
    memcpy(&function, reinterpret_cast<const char*>(table) + slot.offset, sizeof function);
    if (function == nullptr) return std::string("has no function in the required slot ") + slot.name;
  }
  if (table->name == nullptr || table->name[0] == '\0') return "has a table without a name";
  if (!expected_name.empty() && expected_name != table->name) {
    return "is the backend '" + std::string(table->name) + "', not '" + expected_name + "'";
  }
  return "";
}

// A copy with NULL in every slot that the library does not have.
uhal_backend usable_table(const uhal_backend* table) {
  uhal_backend usable = {};
  // Below minor 1 the slots after the first minor mean nothing, whatever lies there.
  size_t known = table->abi_minor >= 1 ? sizeof usable : kFirstMinorSize;
  memcpy(&usable, table, table->struct_size < known ? table->struct_size : known);
  usable.struct_size = sizeof usable;
  return usable;
}

// Folder of libunihal.so itself.
std::string own_folder() {
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&uhal_abi_version), &info) == 0 || info.dli_fname == nullptr) return ".";
  std::string path = info.dli_fname;
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

std::vector<std::string> search_folders() {
  std::vector<std::string> folders;
  const std::string& path = environment().backend_path;
  for (size_t start = 0; start < path.size();) {
    size_t end = path.find(':', start);
    if (end == std::string::npos) end = path.size();
    if (end > start) folders.push_back(path.substr(start, end - start));
    start = end + 1;
  }
  folders.push_back(own_folder());
  return folders;
}

// libgomp, which the stub brings, reads its settings once, when it is loaded. Its own default lets a thread spin for
// milliseconds at the end of each parallel region; on a machine that is busy otherwise, that takes the time from the
// very thread that is waited for. The user's setting wins.
void bound_openmp_spinning() {
  if (getenv("OMP_WAIT_POLICY") == nullptr) setenv("GOMP_SPINCOUNT", "100000", 0);
}

}  // namespace

LoadResult load_backend_file(const std::string& path, const std::string& expected_name) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0) {
    return refuse(UHAL_NOT_FOUND, "", path + " cannot be opened: " + strerror(errno));
  }
  std::string damage = check_elf(path);
  if (!damage.empty()) return refuse(UHAL_INVALID_ARGUMENT, path, path + " " + damage);
  // A bare file name would make dlopen search the system's folders instead.
  std::string file = path.find('/') == std::string::npos ? "./" + path : path;
  bound_openmp_spinning();
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* what = dlerror();
    return refuse(UHAL_INVALID_ARGUMENT, path, path + " does not load: " + (what != nullptr ? what : "unknown cause"));
  }
  void* symbol = dlsym(library, UHAL_BACKEND_QUERY_SYMBOL);
  if (symbol == nullptr) {
    return refuse(UHAL_INVALID_ARGUMENT, path,
                  path + " is not a unihal backend: it has no symbol " UHAL_BACKEND_QUERY_SYMBOL);
  }
  uint64_t serial = error_serial();
  auto query = reinterpret_cast<uhal_backend_query_function>(symbol);
  const uhal_backend* table = query(&kHost, UHAL_ABI_MAJOR);
  if (table == nullptr) {
    std::string said = error_serial() != serial ? uhal_last_error()->message : "without a message";
    return refuse(UHAL_INVALID_ARGUMENT, path,
                  path + " refused the core's ABI " + std::to_string(UHAL_ABI_MAJOR) + "." +
                      std::to_string(UHAL_ABI_MINOR) + ": " + said);
  }
  std::string fault = check_table(table, expected_name);
  if (!fault.empty()) return refuse(UHAL_INVALID_ARGUMENT, path, path + " " + fault);

  LoadResult result;
  result.library = path;
  result.backend = new Backend;
  result.backend->table = usable_table(table);
  result.backend->name = table->name;
  result.backend->library = path;
  return result;
}

LoadResult load_backend_by_name(const std::string& name) {
  const std::string file = "libunihal_" + name + ".so";
  std::string missing_in;
  std::string reasons;
  std::string opened;
  for (const std::string& folder : search_folders()) {
    LoadResult result = load_backend_file(folder + "/" + file, name);
    if (result.backend != nullptr) return result;
    if (result.status == UHAL_NOT_FOUND) {
      missing_in += (missing_in.empty() ? "" : ", ") + folder;
    } else {
      opened = result.library;
      reasons += (reasons.empty() ? "" : "; ") + result.reason;
    }
  }
  if (!missing_in.empty()) reasons += (reasons.empty() ? "" : "; ") + file + " was not found in " + missing_in;
  return refuse(UHAL_NOT_FOUND, opened, reasons);
}

}  // namespace unihal::core
