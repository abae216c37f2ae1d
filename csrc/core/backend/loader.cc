#include "csrc/core/backend/loader.h"

#include <dlfcn.h>
#include <elf.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <vector>

#include "csrc/core/backend/backend_table.h"
#include "csrc/core/base/environment.h"

namespace unihal::core {
namespace {

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
  struct stat status;
  // A FIFO would be waited for.
  if (stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) return "is no regular file";
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

LoadResult load_backend_file(const std::string& path, const std::string& expected_name, const uhal_host& host) {
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
  const uhal_backend* table = query(&host, UHAL_ABI_MAJOR);
  if (table == nullptr) {
    std::string said = error_serial() != serial ? uhal_last_error()->message : "without a message";
    return refuse(UHAL_INVALID_ARGUMENT, path,
                  path + " refused the core's ABI " + std::to_string(UHAL_ABI_MAJOR) + "." +
                      std::to_string(UHAL_ABI_MINOR) + ": " + said);
  }
  std::string fault = check_backend_table(table, expected_name);
  if (!fault.empty()) return refuse(UHAL_INVALID_ARGUMENT, path, path + " " + fault);

  LoadResult result;
  result.library = path;
  result.backend = new Backend;
  result.backend->table = usable_backend_table(table);
  result.backend->name = table->name;
  result.backend->library = path;
  return result;
}

LoadResult load_backend_by_name(const std::string& name, const uhal_host& host) {
  const std::string file = "libunihal_" + name + ".so";
  std::string missing_in;
  std::string reasons;
  std::string opened;
  for (const std::string& folder : search_folders()) {
    LoadResult result = load_backend_file(folder + "/" + file, name, host);
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
