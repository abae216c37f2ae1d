// The compilers of the GPU backends, without one: what is looked for, what they are called with, and what becomes of
// their failures. tests/gpu/test_programs.py compiles the kernels with real ones.

#include "csrc/backends/gpu/compiler.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "csrc/backends/gpu/clang_compiler.h"
#include "csrc/backends/gpu/runtime_compiler.h"
#include "csrc/kernels/program_text.h"
#include "kernel_sources.h"

namespace unihal::gpu {
namespace {

namespace fs = std::filesystem;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

constexpr char kNoContraction[] = "int x;\nUHAL_NO_CONTRACTION\nint y;\n";

// What a test may find of CoreX and ROCm is what it puts into `folder`, unless the machine has them in the loader's
// path.
class CompilerTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/unihal-compiler-XXXXXX";
    ASSERT_NE(nullptr, mkdtemp(name));
    folder = name;
    fs::create_directories(folder + "/sdk/lib64");
    fs::create_directories(folder + "/sdk/bin");
    fs::create_directories(folder + "/temporary");
    for (const char* variable : {"UNIHAL_GPU_COMPILER", "UNIHAL_COREX_CLANG", "COREX_HOME", "ILUVATAR_SOFTWARE_ROOT"}) {
      unsetenv(variable);
    }
    setenv("COREX_ROOT", (folder + "/sdk").c_str(), 1);
    setenv("TMPDIR", (folder + "/temporary").c_str(), 1);
  }

  void TearDown() override { fs::remove_all(folder); }

  // A clang++ that does what is asked, and writes its arguments and the program as machine code.
  std::string write_clang(const std::string& does = "") const {
    const std::string path = folder + "/sdk/bin/clang++";
    std::ofstream(path) << "#!/bin/sh\n"
                           "if [ \"$1\" = --version ]; then echo 'fake clang 1.0'; echo more; exit 0; fi\n"
                        << does
                        << "\nfor last in \"$@\"; do\n"
                           "  case $last in *.cu) source=$last;; esac\n"
                           "done\n"
                           "{ for argument in \"$@\"; do echo \"[$argument]\"; done; cat \"$source\"; ls -ld "
                           "\"$(dirname \"$source\")\"; } "
                           ">\"$last\"\n";
    chmod(path.c_str(), 0700);
    return path;
  }

  std::unique_ptr<Compiler> clang(double most_seconds = 60) const {
    std::string refusal;
    auto compiler = open_clang_compiler({folder + "/sdk/bin/clang++", folder + "/sdk"}, most_seconds, &refusal);
    EXPECT_EQ("", refusal);
    return compiler;
  }

  std::string folder;
  std::string binary, log, refusal;
};

// -- libraries
// ---------------------------------------------------------------------------------------------------------

TEST_F(CompilerTest, HipRtcIsCalledWithTheArchitecture) {
  const auto compiler = open_runtime_compiler(Vendor::kHip, {FAKE_HIPRTC}, &refusal);
  ASSERT_NE(nullptr, compiler) << refusal;
  EXPECT_EQ("hipRTC 11.4", compiler->name());
  ASSERT_TRUE(compiler->compile("reduce", "int x;\n", "gfx1030:xnack-", &binary, &log)) << log;
  EXPECT_EQ(0u, binary.find("Code\nreduce.hip\n--offload-arch=gfx1030:xnack-\n")) << binary;
  EXPECT_TRUE(has(binary, "-ffp-contract=on\n"));
  EXPECT_FALSE(has(binary, "fast")) << binary;
}

TEST_F(CompilerTest, NvrtcGivesMachineCode) {
  const auto compiler = open_runtime_compiler(Vendor::kCorex, {FAKE_NVRTC}, &refusal);
  ASSERT_NE(nullptr, compiler) << refusal;
  EXPECT_EQ("NVRTC 11.4", compiler->name());
  ASSERT_TRUE(compiler->compile("reduce", "int x;\n", "sm_90", &binary, &log)) << log;
  EXPECT_EQ(0u, binary.find("CUBIN\nreduce.cu\n--gpu-architecture=sm_90\n")) << binary;
  EXPECT_TRUE(has(binary, "--prec-div=true\n") && has(binary, "--prec-sqrt=true\n") && has(binary, "--ftz=false\n"));
}

TEST_F(CompilerTest, AnOldNvrtcGivesPtxForARealArchitectureOnly) {
  const auto compiler = open_runtime_compiler(Vendor::kCorex, {FAKE_OLD_NVRTC}, &refusal);
  ASSERT_NE(nullptr, compiler) << refusal;
  ASSERT_TRUE(compiler->compile("reduce", "int x;\n", "sm_70", &binary, &log)) << log;
  EXPECT_EQ(0u, binary.find("PTX\nreduce.cu\n--gpu-architecture=compute_70\n")) << binary;
  ASSERT_TRUE(compiler->compile("reduce", "int x;\n", "ivcore11", &binary, &log)) << log;
  EXPECT_TRUE(has(binary, "--gpu-architecture=ivcore11\n")) << binary;
}

TEST_F(CompilerTest, ASourceForbidsContraction) {
  EXPECT_TRUE(kernels::forbids_contraction(kNoContraction));
  for (const auto& [vendor, file, forbidden, allowed] :
       {std::tuple(Vendor::kHip, FAKE_HIPRTC, "-ffp-contract=off\n", "-ffp-contract=on\n"),
        std::tuple(Vendor::kCorex, FAKE_NVRTC, "--fmad=false\n", "--fmad=true\n")}) {
    const auto compiler = open_runtime_compiler(vendor, {file}, &refusal);
    ASSERT_NE(nullptr, compiler) << refusal;
    ASSERT_TRUE(compiler->compile("random", kNoContraction, "any", &binary, &log)) << log;
    EXPECT_TRUE(has(binary, forbidden) && !has(binary, allowed)) << binary;
    ASSERT_TRUE(compiler->compile("reduce", "int x;\n", "any", &binary, &log)) << log;
    EXPECT_TRUE(has(binary, allowed) && !has(binary, forbidden)) << binary;
  }
}

// The preludes have the word in comments and definitions.
TEST_F(CompilerTest, OnlyTheSourceOfRandomNumbersForbidsContraction) {
  const kernels::DeviceTraits traits;
  const auto forbids = [&](const kernels::Source& source, kernels::Prelude prelude) {
    return kernels::forbids_contraction(kernels::program_text(kernels::KernelSpec(source, "any"), traits, prelude));
  };
  for (const auto prelude : {kernels::Prelude::kGpu, kernels::Prelude::kOpencl}) {
    EXPECT_TRUE(forbids(kernels::sources::random, prelude));
    EXPECT_FALSE(forbids(kernels::sources::reduce, prelude));
    EXPECT_FALSE(forbids(kernels::sources::map, prelude));
  }
}

TEST_F(CompilerTest, ALibrarysLogIsGivenWhole) {
  const auto compiler = open_runtime_compiler(Vendor::kCorex, {FAKE_NVRTC}, &refusal);
  ASSERT_NE(nullptr, compiler) << refusal;
  EXPECT_FALSE(compiler->compile("reduce", "#error\n", "sm_90", &binary, &log));
  EXPECT_EQ(0u, log.find("reduce.cu(1): error: as it was asked to\n")) << log.substr(0, 100);
  EXPECT_GT(log.size(), 1u << 20);
  EXPECT_FALSE(compiler->compile("reduce", "#error silent\n", "sm_90", &binary, &log));
  EXPECT_EQ("NVRTC 11.4 refuses the program: REFUSED (6)\n", log);
}

TEST_F(CompilerTest, EachFileThatIsNoCompilerIsNamedWithItsReason) {
  EXPECT_EQ(nullptr, open_runtime_compiler(Vendor::kHip, {"/nowhere/libhiprtc.so", "/dev/null", FAKE_NVRTC}, &refusal));
  EXPECT_TRUE(has(refusal, "/nowhere/libhiprtc.so: cannot open shared object file")) << refusal;
  EXPECT_TRUE(has(refusal, "/dev/null")) << refusal;
  EXPECT_TRUE(has(refusal, std::string(FAKE_NVRTC) + " has no function hiprtcGetErrorString")) << refusal;
}

// -- the clang++
// ---------------------------------------------------------------------------------------------------------

TEST_F(CompilerTest, ClangCompilesInAFolderOfItsOwn) {
  write_clang("echo 'warning: of no matter' >&2");
  const auto compiler = clang();
  EXPECT_EQ(folder + "/sdk/bin/clang++ (fake clang 1.0)", compiler->name());
  ASSERT_TRUE(compiler->compile("reduce", "the program's text\n", "ivcore11", &binary, &log)) << log;
  EXPECT_EQ("warning: of no matter\n", log);
  for (const char* argument : {"[cuda]\n", "[--cuda-gpu-arch=ivcore11]\n", "[--cuda-device-only]\n", "/reduce.cu]\n",
                               "[-ffp-contract=on]\n", "the program's text\n"}) {
    EXPECT_TRUE(has(binary, argument)) << argument << binary;
  }
  EXPECT_TRUE(has(binary, "[--cuda-path=" + folder + "/sdk]\n")) << binary;
  EXPECT_TRUE(has(binary, "drwx------")) << binary;
  EXPECT_TRUE(fs::is_empty(folder + "/temporary"));
  ASSERT_TRUE(compiler->compile("random", kNoContraction, "ivcore11", &binary, &log)) << log;
  EXPECT_TRUE(has(binary, "[-ffp-contract=off]\n")) << binary;
}

TEST_F(CompilerTest, WhatClangSaysOfAProgramIsTheLog) {
  write_clang("echo 'reduce.cu:1: error: no such thing' >&2; exit 3");
  EXPECT_FALSE(clang()->compile("reduce", "x", "ivcore11", &binary, &log));
  EXPECT_EQ("reduce.cu:1: error: no such thing\n" + folder + "/sdk/bin/clang++ ended with exit code 3\n", log);
  write_clang("kill -SEGV $$");
  EXPECT_FALSE(clang()->compile("reduce", "x", "ivcore11", &binary, &log));
  EXPECT_EQ(folder + "/sdk/bin/clang++ was ended by signal 11\n", log);
  write_clang("exit 0");
  EXPECT_FALSE(clang()->compile("reduce", "x", "ivcore11", &binary, &log));
  EXPECT_EQ(folder + "/sdk/bin/clang++ wrote no program\n", log);
  EXPECT_TRUE(fs::is_empty(folder + "/temporary"));
}

TEST_F(CompilerTest, AMegabyteOfLogIsKept) {
  write_clang("head -c 1048576 /dev/zero | tr '\\0' x; echo; exit 1");
  EXPECT_FALSE(clang()->compile("reduce", "x", "ivcore11", &binary, &log));
  EXPECT_EQ(std::string(1 << 20, 'x') + "\n" + folder + "/sdk/bin/clang++ ended with exit code 1\n", log);
}

TEST_F(CompilerTest, AClangThatHangsIsStoppedWithWhatItStarted) {
  write_clang("sleep 600 & echo $! >" + folder + "/sleeper; echo begun; wait");
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(clang(0.5)->compile("reduce", "x", "ivcore11", &binary, &log));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(300));
  EXPECT_EQ("begun\n" + folder + "/sdk/bin/clang++ did not end within 0.5 seconds and was stopped\n", log);
  EXPECT_TRUE(fs::is_empty(folder + "/temporary"));
  std::string sleeper;
  std::getline(std::ifstream(folder + "/sleeper"), sleeper);
  ASSERT_FALSE(sleeper.empty());
  // Gone, or dead and not yet collected by whoever does that here.
  std::string state;
  for (int i = 0; i < 1000; ++i) {
    state.clear();
    std::getline(std::ifstream("/proc/" + sleeper + "/stat"), state);
    if (state.empty() || has(state, ") Z ")) break;
    usleep(10000);
  }
  EXPECT_TRUE(state.empty() || has(state, ") Z ")) << state;
}

// Programs that ignore the signal do not learn how their children end.
TEST_F(CompilerTest, ClangCompilesInAProgramThatIgnoresItsChildren) {
  ASSERT_NE(SIG_ERR, std::signal(SIGCHLD, SIG_IGN));
  write_clang();
  const auto compiler = clang();
  ASSERT_NE(nullptr, compiler);
  EXPECT_TRUE(compiler->compile("reduce", "x", "ivcore11", &binary, &log)) << log;
  write_clang("echo 'an error'; exit 1");
  EXPECT_FALSE(compiler->compile("reduce", "x", "ivcore11", &binary, &log));
  EXPECT_EQ("an error\n" + folder + "/sdk/bin/clang++ wrote no program\n", log);
}

TEST_F(CompilerTest, AFolderThatCannotBeWrittenIsNamed) {
  write_clang();
  const auto compiler = clang();
  setenv("TMPDIR", "/nowhere", 1);
  EXPECT_FALSE(compiler->compile("reduce", "x", "ivcore11", &binary, &log));
  EXPECT_EQ("no temporary folder could be made in /nowhere: No such file or directory", log);
}

TEST_F(CompilerTest, AClangThatDoesNotRunIsRefused) {
  EXPECT_EQ(nullptr, open_clang_compiler({"/nowhere/clang++", ""}, 1, &refusal));
  EXPECT_EQ("/nowhere/clang++ is no program that can be run: No such file or directory", refusal);
  std::ofstream(folder + "/broken") << "#!/bin/sh\nexit 9\n";
  chmod((folder + "/broken").c_str(), 0700);
  EXPECT_EQ(nullptr, open_clang_compiler({folder + "/broken", ""}, 1, &refusal));
  EXPECT_EQ(folder + "/broken ended with exit code 9", refusal);
}

// -- the choice
// ------------------------------------------------------------------------------------------------------------

TEST_F(CompilerTest, TheSdksLibraryComesFirst) {
  write_clang();
  fs::create_symlink(FAKE_NVRTC, folder + "/sdk/lib64/libnvrtc.so");
  EXPECT_EQ("NVRTC 11.4", open_compiler(Vendor::kCorex, &refusal)->name());
  setenv("UNIHAL_GPU_COMPILER", "clang", 1);
  EXPECT_EQ(folder + "/sdk/bin/clang++ (fake clang 1.0)", open_compiler(Vendor::kCorex, &refusal)->name());
}

TEST_F(CompilerTest, ItsClangServesWhereItHasNoLibrary) {
  write_clang();
  EXPECT_EQ(folder + "/sdk/bin/clang++ (fake clang 1.0)", open_compiler(Vendor::kCorex, &refusal)->name());
}

TEST_F(CompilerTest, AClangIsNamedByTheVariable) {
  const std::string path = write_clang();
  setenv("COREX_ROOT", "/nowhere", 1);
  setenv("UNIHAL_GPU_COMPILER", "clang", 1);
  setenv("UNIHAL_COREX_CLANG", path.c_str(), 1);
  const auto compiler = open_compiler(Vendor::kCorex, &refusal);
  ASSERT_NE(nullptr, compiler) << refusal;
  ASSERT_TRUE(compiler->compile("reduce", "x", "ivcore11", &binary, &log)) << log;
  EXPECT_FALSE(has(binary, "--cuda-path")) << binary;
  setenv("UNIHAL_COREX_CLANG", "/nowhere/clang++", 1);
  EXPECT_EQ(nullptr, open_compiler(Vendor::kCorex, &refusal));
  EXPECT_EQ(0u,
            refusal.find("/nowhere/clang++ is no program that can be run: No such file or directory. Install CoreX"))
      << refusal;
}

TEST_F(CompilerTest, RocmsFolderIsLookedIn) {
  fs::create_directories(folder + "/rocm/lib");
  fs::create_symlink(FAKE_HIPRTC, folder + "/rocm/lib/libhiprtc.so");
  setenv("ROCM_PATH", (folder + "/rocm").c_str(), 1);
  const auto compiler = open_compiler(Vendor::kHip, &refusal);
  ASSERT_NE(nullptr, compiler) << refusal;
  EXPECT_EQ(0u, compiler->name().find("hipRTC ")) << compiler->name();
}

TEST_F(CompilerTest, ARefusalNamesWhatWasTriedAndWhatToInstall) {
  fs::create_directories(folder + "/rocm");
  setenv("ROCM_PATH", (folder + "/rocm").c_str(), 1);
  if (open_compiler(Vendor::kHip, &refusal) == nullptr) {
    EXPECT_TRUE(has(refusal, "libhiprtc.so.6: cannot open shared object file")) << refusal;
    EXPECT_TRUE(has(refusal, folder + "/rocm/lib/libamdhip64.so")) << refusal;
    EXPECT_TRUE(has(refusal, ". Install ROCm's hipRTC")) << refusal;
  }
  setenv("UNIHAL_GPU_COMPILER", "rtc", 1);
  if (open_compiler(Vendor::kCorex, &refusal) == nullptr) {
    EXPECT_TRUE(has(refusal, folder + "/sdk/lib64/libnvrtc.so: cannot open shared object file")) << refusal;
    EXPECT_TRUE(has(refusal, "libnvrtc.so.12: cannot open shared object file")) << refusal;
    EXPECT_FALSE(has(refusal, "is no program")) << refusal;
    EXPECT_TRUE(has(refusal, ". Install CoreX' SDK")) << refusal;
  }
}

TEST_F(CompilerTest, AnotherWishIsRefused) {
  setenv("UNIHAL_GPU_COMPILER", "gcc", 1);
  for (const Vendor vendor : {Vendor::kHip, Vendor::kCorex}) {
    EXPECT_EQ(nullptr, open_compiler(vendor, &refusal));
    EXPECT_EQ("UNIHAL_GPU_COMPILER is 'gcc'; expected rtc or clang", refusal);
  }
  setenv("UNIHAL_GPU_COMPILER", "clang", 1);
  EXPECT_EQ(nullptr, open_compiler(Vendor::kHip, &refusal));
  EXPECT_EQ("UNIHAL_GPU_COMPILER is 'clang', which compiles for CoreX only; unset it", refusal);
}

}  // namespace
}  // namespace unihal::gpu
