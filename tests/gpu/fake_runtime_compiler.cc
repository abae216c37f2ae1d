// A library with the functions of hipRTC or NVRTC. Its machine code is a text: the kind of code, the program's name and
// the options, a line each. A program with "#error" in it does not compile.
//
// PREFIX is hiprtc or nvrtc; HAS_CODE, HAS_CUBIN and HAS_PTX say which kinds of code it gives.

#include <cstddef>
#include <cstring>
#include <string>

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define ENTRY(type, name) extern "C" __attribute__((visibility("default"))) type JOIN(PREFIX, name)

namespace {

struct Program {
  std::string text;
  std::string name;
  std::string options;
  std::string log;
};

constexpr int kRefused = 6;

int give_size(const std::string& text, size_t* bytes) {
  *bytes = text.size();
  return 0;
}

int give(const std::string& text, char* to) {
  std::memcpy(to, text.data(), text.size());
  return 0;
}

}  // namespace

ENTRY(const char*, GetErrorString)(int code) { return code == kRefused ? "REFUSED" : "another error"; }

ENTRY(int, Version)(int* major, int* minor) {
  *major = 11;
  *minor = 4;
  return 0;
}

ENTRY(int, CreateProgram)
(Program** program, const char* text, const char* name, int headers, const char* const*, const char* const*) {
  *program = new Program{text, name, "", ""};
  return headers;
}

ENTRY(int, CompileProgram)(Program* program, int count, const char* const* options) {
  for (int i = 0; i < count; ++i) program->options += std::string(options[i]) + "\n";
  if (program->text.find("#error silent") != std::string::npos) return kRefused;
  if (program->text.find("#error") == std::string::npos) return 0;
  program->log = program->name + "(1): error: as it was asked to\n" + std::string(1 << 20, 'x');
  return kRefused;
}

ENTRY(int, GetProgramLogSize)(Program* program, size_t* bytes) { return give_size(program->log + '\0', bytes); }
ENTRY(int, GetProgramLog)(Program* program, char* log) { return give(program->log + '\0', log); }

#define CODE_OF(kind)                                                              \
  ENTRY(int, Get##kind##Size)(Program * program, size_t* bytes) {                  \
    return give_size(#kind "\n" + program->name + "\n" + program->options, bytes); \
  }                                                                                \
  ENTRY(int, Get##kind)(Program * program, char* code) {                           \
    return give(#kind "\n" + program->name + "\n" + program->options, code);       \
  }
#if HAS_CODE
CODE_OF(Code)
#endif
#if HAS_CUBIN
CODE_OF(CUBIN)
#endif
#if HAS_PTX
CODE_OF(PTX)
#endif

ENTRY(int, DestroyProgram)(Program** program) {
  delete *program;
  *program = nullptr;
  return 0;
}
