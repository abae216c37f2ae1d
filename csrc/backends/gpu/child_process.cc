#include "csrc/backends/gpu/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

extern char** environ;

namespace unihal::gpu {
namespace {

using Clock = std::chrono::steady_clock;

// What posix_spawn is told besides the command.
class SpawnAttributes {
 public:
  explicit SpawnAttributes(const char* output_file) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions_, STDOUT_FILENO, output_file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions_, STDOUT_FILENO, STDERR_FILENO);
    // A group of its own, so that what it starts can be killed with it; signals as a fresh program has them.
    posix_spawnattr_init(&attributes_);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attributes_, 0);
    sigset_t signals;
    sigemptyset(&signals);
    posix_spawnattr_setsigmask(&attributes_, &signals);
    for (const int signal : {SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGCHLD}) sigaddset(&signals, signal);
    posix_spawnattr_setsigdefault(&attributes_, &signals);
  }
  ~SpawnAttributes() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnAttributes(const SpawnAttributes&) = delete;
  SpawnAttributes& operator=(const SpawnAttributes&) = delete;

  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

// Waits for a child's end; false at the deadline. *status is 0 where the end cannot be learned.
bool wait_until(pid_t child, Clock::time_point deadline, int* status) {
  std::chrono::microseconds pause(200);
  for (;;) {
    const pid_t ended = waitpid(child, status, WNOHANG);
    if (ended == child) return true;
    if (ended < 0 && errno != EINTR) {
      *status = 0;
      return true;
    }
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(pause);
    if (pause < std::chrono::milliseconds(5)) pause *= 2;
  }
}

}  // namespace

std::string run_program(const std::vector<std::string>& command, const std::string& output_file, double most_seconds) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  const SpawnAttributes attributes(output_file.c_str());
  const auto limit = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(most_seconds));
  const Clock::time_point deadline = Clock::now() + limit;
  pid_t child = 0;
  const int error =
      posix_spawn(&child, arguments[0], attributes.actions(), attributes.attributes(), arguments.data(), environ);
  if (error != 0) return command[0] + " could not be started: " + std::strerror(error);
  int status = 0;
  if (!wait_until(child, deadline, &status)) {
    kill(-child, SIGKILL);
    waitpid(child, &status, 0);
    std::string seconds = std::to_string(most_seconds);
    seconds.erase(seconds.find_last_not_of('0') + 1);
    if (seconds.back() == '.') seconds.pop_back();
    return command[0] + " did not end within " + seconds + " seconds and was stopped";
  }
  if (WIFSIGNALED(status)) return command[0] + " was ended by signal " + std::to_string(WTERMSIG(status));
  if (WEXITSTATUS(status) != 0) return command[0] + " ended with exit code " + std::to_string(WEXITSTATUS(status));
  return "";
}

}  // namespace unihal::gpu
