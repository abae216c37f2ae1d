// What the compiler makes and the driver loads: a program's text, with what it was made for. A string, ended by a zero.
//
// Threads: any.
#pragma once

#include <memory>
#include <string>

namespace on_host {

// "ON_HOST gfx1030\n" and the text.
std::string make_binary(const std::string& architecture, const std::string& text);

// False if the image is none of ours.
bool read_binary(const void* image, std::string* architecture, std::string* text);

// A loaded program.
struct Program {
  std::string text;
};

// A kernel of one.
struct Kernel {
  std::shared_ptr<const Program> program;
  std::string name;
};

// Whether the text defines a kernel of that name.
bool has_kernel(const Program& program, const std::string& name);

}  // namespace on_host
