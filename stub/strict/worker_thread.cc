#include "stub/strict/worker_thread.h"

#include <csignal>
#include <utility>
#include <vector>

namespace unihal::stub::strict {
namespace {

// The stack on which this thread's signal handlers run: a handler that another library installed may need more than the
// system's minimum.
class SignalStack {
 public:
  SignalStack() : memory_(size_t{64} << 10) {
    stack_t stack = {};
    stack.ss_sp = memory_.data();
    stack.ss_size = memory_.size();
    sigaltstack(&stack, &before_);
  }
  ~SignalStack() { sigaltstack(&before_, nullptr); }
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

 private:
  std::vector<char> memory_;
  stack_t before_ = {};
};

// Blocks asynchronous signals on this thread while it lives; threads started meanwhile inherit that.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t blocked;
    sigfillset(&blocked);
    for (const int synchronous : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) sigdelset(&blocked, synchronous);
    pthread_sigmask(SIG_BLOCK, &blocked, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

std::thread start_worker(std::function<void()> body) {
  const SignalsBlocked blocked;
  return std::thread([body = std::move(body)] {
    const SignalStack stack;
    body();
  });
}

}  // namespace unihal::stub::strict
