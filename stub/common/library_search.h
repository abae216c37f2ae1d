// Looking for a library at run time: the file that the user names, or the first of some places that can be used.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace unihal::stub {

// What is looked for, and where.
struct LibrarySearch {
  const char* variable;  // of the environment: names the only file to try; "none" asks for no library
  const char* name;      // for a person: "LAPACK"
  const char* without;   // what runs without it, for a person: "built-in kernels"
  std::string hint;      // how to get it, for a person
  std::vector<std::string> places;
  // Opens a file and takes what is needed from it; returns what was wrong with it, or an empty string.
  std::function<std::string(const std::string& path)> open;
};

// What a search came to.
struct FoundLibrary {
  bool usable = false;
  std::string refusal;  // of the file that the user named, and what to do; empty if it is usable or none was named
  std::string missing;  // where nothing usable was found: what runs instead, and why, for a person
};

// Searches. The environment is read once, here.
FoundLibrary find_library(const LibrarySearch& search);

// The folder of the stub's library, without a trailing slash; empty if the dynamic linker does not say.
std::string own_folder();

}  // namespace unihal::stub
