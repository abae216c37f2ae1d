#include "csrc/backends/gpu/clang_compiler.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "csrc/backends/gpu/child_process.h"
#include "csrc/kernels/program_text.h"

namespace unihal::gpu {
namespace {

constexpr double kVersionSeconds = 20;  // a first start from a slow disk

// A folder that only this user may enter, removed with what is in it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    const char* root = std::getenv("TMPDIR");
    const std::string parent = root != nullptr && *root != '\0' ? root : "/tmp";
    path_ = parent + "/unihal-XXXXXX";
    if (mkdtemp(path_.data()) == nullptr) {
      complaint_ = "no temporary folder could be made in " + parent + ": " + std::strerror(errno);
      path_.clear();
    }
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  // Why there is none; empty if there is.
  const std::string& complaint() const { return complaint_; }
  std::string file(const char* name) const { return path_ + "/" + name; }

 private:
  std::string path_;
  std::string complaint_;
};

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

class ClangCompiler : public Compiler {
 public:
  ClangCompiler(ClangFile file, double most_seconds, const std::string& version)
      : file_(std::move(file)), most_seconds_(most_seconds), name_(file_.path + " (" + version + ")") {}

  const std::string& name() const override { return name_; }

  bool compile(const std::string& name, const std::string& text, const std::string& architecture, std::string* binary,
               std::string* log) override {
    const TemporaryFolder folder;
    *log = folder.complaint();
    if (!log->empty()) return false;
    const std::string source = folder.file((name + ".cu").c_str());
    const std::string result = folder.file("program");
    const std::string output = folder.file("output");
    if (std::ofstream stream(source, std::ios::binary); !(stream << text).flush()) {
      *log = "the program could not be written to " + source;
      return false;
    }
    const std::string failure = run_program(command(source, result, architecture, text), output, most_seconds_);
    *log = content_of(output);
    if (!failure.empty()) {
      *log += (log->empty() || log->back() == '\n' ? "" : "\n") + failure + "\n";
      return false;
    }
    *binary = content_of(result);
    if (binary->empty()) *log += file_.path + " wrote no program\n";
    return !binary->empty();
  }

 private:
  // Never fast-math: kernels rely on NaN, infinities and signed zeros.
  std::vector<std::string> command(const std::string& source, const std::string& result,
                                   const std::string& architecture, const std::string& text) const {
    std::vector<std::string> command = {file_.path,
                                        "-x",
                                        "cuda",
                                        "--cuda-gpu-arch=" + architecture,
                                        "--cuda-device-only",
                                        "-c",
                                        "-O3",
                                        "-std=c++14",
                                        "-fno-strict-aliasing",
                                        kernels::forbids_contraction(text) ? "-ffp-contract=off" : "-ffp-contract=on"};
    if (!file_.cuda_path.empty()) command.push_back("--cuda-path=" + file_.cuda_path);
    command.insert(command.end(), {source, "-o", result});
    return command;
  }

  const ClangFile file_;
  const double most_seconds_;
  const std::string name_;
};

}  // namespace

std::unique_ptr<Compiler> open_clang_compiler(const ClangFile& file, double most_seconds, std::string* refusal) {
  if (access(file.path.c_str(), X_OK) != 0) {
    *refusal = file.path + " is no program that can be run: " + std::strerror(errno);
    return nullptr;
  }
  const TemporaryFolder folder;
  *refusal = folder.complaint();
  if (!refusal->empty()) return nullptr;
  const std::string output = folder.file("output");
  *refusal = run_program({file.path, "--version"}, output, kVersionSeconds);
  if (!refusal->empty()) return nullptr;
  const std::string said = content_of(output);
  return std::make_unique<ClangCompiler>(file, most_seconds, said.substr(0, said.find('\n')));
}

}  // namespace unihal::gpu
