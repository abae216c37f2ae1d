#include "stub/common/library_search.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>

namespace unihal::stub {

FoundLibrary find_library(const LibrarySearch& search) {
  FoundLibrary found;
  const std::string without = search.without;
  const char* wish = std::getenv(search.variable);
  const bool named = wish != nullptr && *wish != '\0';
  if (named && std::strcmp(wish, "none") == 0) {
    found.missing = without + " (" + search.variable + "=none)";
    return found;
  }
  std::string reason;
  for (const std::string& path : named ? std::vector<std::string>{wish} : search.places) {
    reason = search.open(path);
    if (reason.empty()) {
      found.usable = true;
      return found;
    }
  }
  if (named) {
    found.refusal = std::string(search.variable) + " names no " + search.name + ": " + reason +
                    ". Correct it, or unset it; none runs without " + search.name + ".";
  }
  found.missing = without + " (no " + search.name + " was found: " + reason + "; " + search.hint +
                  ", or name the file in " + search.variable + ")";
  return found;
}

std::string own_folder() {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&own_folder), &info) == 0 || info.dli_fname == nullptr) return {};
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string(".") : path.substr(0, slash);
}

}  // namespace unihal::stub
