#include "csrc/backends/gpu/runtime_compiler.h"

#include <dlfcn.h>

#include "csrc/backends/common/foreign_llvm.h"
#include "csrc/kernels/program_text.h"

namespace unihal::gpu {
namespace {

using Program = struct RuntimeProgram*;

constexpr int kCompilerSuccess = 0;

// The functions of the library, after their prefix: hiprtc or nvrtc. All return 0 for success but for the first.
#define UHAL_RUNTIME_COMPILER_FUNCTIONS(M)                                                                \
  M(const char*, GetErrorString, (int code))                                                              \
  M(int, Version, (int* major, int* minor))                                                               \
  M(int, CreateProgram,                                                                                   \
    (Program * program, const char* text, const char* name, int headers, const char* const* header_texts, \
     const char* const* header_names))                                                                    \
  M(int, CompileProgram, (Program program, int options, const char* const* option_texts))                 \
  M(int, GetProgramLogSize, (Program program, size_t* bytes))                                             \
  M(int, GetProgramLog, (Program program, char* log))                                                     \
  M(int, DestroyProgram, (Program * program))

struct CompilerFunctions {
#define UHAL_DECLARE(result, function, parameters) result(*function) parameters;
  UHAL_RUNTIME_COMPILER_FUNCTIONS(UHAL_DECLARE)
#undef UHAL_DECLARE
  // What there is of these; machine code if both are.
  int (*code_size)(Program program, size_t* bytes);
  int (*code)(Program program, char* code);
  bool gives_machine_code;  // else PTX, which the driver compiles further
};

class RuntimeCompiler : public Compiler {
 public:
  RuntimeCompiler(Vendor vendor, const CompilerFunctions& functions, std::string name)
      : vendor_(vendor), functions_(functions), name_(std::move(name)) {}

  const std::string& name() const override { return name_; }

  bool compile(const std::string& name, const std::string& text, const std::string& architecture, std::string* binary,
               std::string* log) override {
    Program program = nullptr;
    const std::string file = name + (vendor_ == Vendor::kHip ? ".hip" : ".cu");
    int code = functions_.CreateProgram(&program, text.c_str(), file.c_str(), 0, nullptr, nullptr);
    if (code != kCompilerSuccess) return refuse("takes no program", code, log);
    const std::vector<std::string> options = options_of(architecture, kernels::forbids_contraction(text));
    std::vector<const char*> texts;
    for (const std::string& option : options) texts.push_back(option.c_str());
    code = functions_.CompileProgram(program, static_cast<int>(texts.size()), texts.data());
    *log = log_of(program);
    if (code == kCompilerSuccess) {
      code = take_code(program, binary);
      if (code != kCompilerSuccess) refuse("gives no code of what it compiled", code, log);
    } else if (log->empty()) {
      refuse("refuses the program", code, log);
    }
    functions_.DestroyProgram(&program);
    return code == kCompilerSuccess;
  }

 private:
  // Never fast-math: kernels rely on NaN, infinities and signed zeros.
  std::vector<std::string> options_of(const std::string& architecture, bool no_contraction) const {
    if (vendor_ == Vendor::kHip) {
      return {"--offload-arch=" + architecture, "-O3", no_contraction ? "-ffp-contract=off" : "-ffp-contract=on",
              "-fno-strict-aliasing", "--gpu-max-threads-per-block=256"};
    }
    std::string target = architecture;
    // Before version 11.1 there is no machine code, and no name of a real architecture.
    if (!functions_.gives_machine_code && target.rfind("sm_", 0) == 0) target = "compute_" + target.substr(3);
    return {"--gpu-architecture=" + target, "--ftz=false", "--prec-div=true", "--prec-sqrt=true",
            no_contraction ? "--fmad=false" : "--fmad=true"};
  }

  bool refuse(const std::string& what, int code, std::string* log) const {
    const char* error = functions_.GetErrorString(code);
    *log +=
        name_ + " " + what + ": " + (error != nullptr ? error : "unknown error") + " (" + std::to_string(code) + ")\n";
    return false;
  }

  std::string log_of(Program program) const {
    size_t bytes = 0;  // with the NUL
    if (functions_.GetProgramLogSize(program, &bytes) != kCompilerSuccess || bytes <= 1) return "";
    std::string log(bytes, '\0');
    if (functions_.GetProgramLog(program, log.data()) != kCompilerSuccess) return "";
    log.resize(log.find('\0') == std::string::npos ? bytes : log.find('\0'));
    return log;
  }

  int take_code(Program program, std::string* binary) const {
    size_t bytes = 0;
    int code = functions_.code_size(program, &bytes);
    if (code != kCompilerSuccess) return code;
    binary->assign(bytes, '\0');
    return functions_.code(program, binary->data());
  }

  const Vendor vendor_;
  const CompilerFunctions functions_;
  const std::string name_;
};

struct Names {
  const char* prefix;
  const char* product;
  const char* code_size;  // machine code
  const char* code;
  const char* text_size;  // instead of it; nullptr: the vendor always has machine code
  const char* text;
};

constexpr Names kHipNames = {"hiprtc", "hipRTC", "hiprtcGetCodeSize", "hiprtcGetCode", nullptr, nullptr};
constexpr Names kCudaNames = {"nvrtc", "NVRTC", "nvrtcGetCUBINSize", "nvrtcGetCUBIN", "nvrtcGetPTXSize", "nvrtcGetPTX"};

template <class Function>
bool find(void* library, const std::string& symbol, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, symbol.c_str()));
  return *function != nullptr;
}

// The name of a function that the library lacks; empty if it has all.
std::string find_functions(void* library, const Names& names, CompilerFunctions* functions) {
#define UHAL_FIND(result, function, parameters)                                      \
  if (!find(library, std::string(names.prefix) + #function, &functions->function)) { \
    return std::string(names.prefix) + #function;                                    \
  }
  UHAL_RUNTIME_COMPILER_FUNCTIONS(UHAL_FIND)
#undef UHAL_FIND
  functions->gives_machine_code =
      find(library, names.code_size, &functions->code_size) && find(library, names.code, &functions->code);
  if (functions->gives_machine_code) return "";
  if (names.text == nullptr) return names.code;
  if (!find(library, names.text_size, &functions->code_size)) return names.text_size;
  return find(library, names.text, &functions->code) ? "" : names.text;
}

}  // namespace

std::unique_ptr<Compiler> open_runtime_compiler(Vendor vendor, const std::vector<std::string>& files,
                                                std::string* refusal) {
  const Names& names = vendor == Vendor::kHip ? kHipNames : kCudaNames;
  std::string reasons;
  for (const std::string& file : files) {
    reasons += reasons.empty() ? "" : "; ";
    void* library = dlopen(file.c_str(), vendor_library_flags());
    if (library == nullptr) {
      const char* said = dlerror();
      reasons += said != nullptr ? said : file + " does not load";
      continue;
    }
    CompilerFunctions functions = {};
    const std::string lacking = find_functions(library, names, &functions);
    if (!lacking.empty()) {
      reasons += file + " has no function " + lacking;
      continue;
    }
    int major = 0, minor = 0;
    const int code = functions.Version(&major, &minor);
    if (code != kCompilerSuccess) {
      const char* error = functions.GetErrorString(code);
      reasons += file + " does not tell its version: " + (error != nullptr ? error : "unknown error");
      continue;
    }
    const std::string name = std::string(names.product) + " " + std::to_string(major) + "." + std::to_string(minor);
    return std::make_unique<RuntimeCompiler>(vendor, functions, name);
  }
  *refusal = reasons;
  return nullptr;
}

}  // namespace unihal::gpu
