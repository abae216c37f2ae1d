#include "csrc/backends/gpu/tensile.h"

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "csrc/backends/gpu/library.h"

namespace unihal::gpu {

bool has_tensile_library(const void* function, const std::string& name, const char* override,
                         const std::string& architecture, std::string* refusal) {
  const std::string processor = processor_of(architecture);
  if (processor.rfind("gfx", 0) != 0) return true;  // a stand-in for AMD's libraries, without such files
  const char* chosen = std::getenv(override);
  std::vector<std::string> folders;
  if (chosen != nullptr && *chosen != '\0') {
    folders.emplace_back(chosen);
  } else {
    const std::string beside = std::filesystem::path(Library::path_of(function)).parent_path().string();
    // Debian puts the version between the two.
    folders = {beside + "/" + name + "/library", beside + "/" + name};
  }
  for (const std::string& folder : folders) {
    if (has_file_for(folder, "TensileLibrary", processor)) return true;
  }
  *refusal = "it has no kernels for " + processor + ": no TensileLibrary file for it in " + folders[0] +
             "; HSA_OVERRIDE_GFX_VERSION makes a card pass for a near relative that it has them for";
  return false;
}

}  // namespace unihal::gpu
