// A vendor's compiler, opened at run time.
//
// Threads: any.
#pragma once

#include <memory>
#include <string>

namespace unihal::gpu {

enum class Vendor { kHip, kCorex };

class Compiler {
 public:
  virtual ~Compiler() = default;

  // "NVRTC 13.0": for people, and a part of what binaries are kept by.
  virtual const std::string& name() const = 0;

  // Makes machine code, which the driver loads, of a program's text. `name` is the source's, `architecture` the
  // device's
  // ("gfx1030", "sm_90", "ivcore11"). False, with the compiler's whole log, if it refuses.
  virtual bool compile(const std::string& name, const std::string& text, const std::string& architecture,
                       std::string* binary, std::string* log) = 0;
};

// The compiler of a vendor; nullptr, with what was looked for and what to install, if there is none.
std::unique_ptr<Compiler> open_compiler(Vendor vendor, std::string* refusal);

}  // namespace unihal::gpu
