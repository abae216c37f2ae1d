#include "stub/strict/fault_report.h"

#include <pthread.h>
#include <ucontext.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "stub/common/kernels.h"
#include "stub/strict/address_space.h"
#include "stub/strict/signal_text.h"

namespace unihal::stub::strict {
namespace {

// -- the work that is running ------------------------------------------------------------------------------------

// Read by signal handlers while other threads write: they may see a name that is being replaced, but it always ends.
struct Slot {
  std::atomic<bool> taken{false};
  pthread_t thread;
  uint64_t stream;
  char name[120];  // the last byte stays 0
};
constexpr int kSlots = 64;
Slot slots[kSlots];

// The work of this thread, or nullptr.
const Slot* own_work() {
  for (const Slot& slot : slots) {
    if (slot.taken.load() && pthread_equal(slot.thread, pthread_self())) return &slot;
  }
  return nullptr;
}

// The work of this thread, or all there is: a kernel's own threads are not known here.
void describe_work(SignalText& text) {
  const Slot* own = own_work();
  const char* separator = own != nullptr ? "unihal: It happened in " : "unihal: It happened in one of: ";
  bool any = false;
  for (const Slot& slot : slots) {
    if (!slot.taken.load() || (own != nullptr && &slot != own)) continue;
    text << (any ? ", " : separator) << slot.name << " on stream " << slot.stream;
    any = true;
  }
  if (any) text << ".\n";
}

// -- the report ----------------------------------------------------------------------------------------------------

// "read" or "wrote", where the processor tells.
const char* access_of(const void* context) {
#if defined(__x86_64__)
  constexpr greg_t kWrite = 2;  // bit of the page fault's error code
  return (static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & kWrite) != 0 ? "wrote" : "read";
#else
  static_cast<void>(context);
  return "touched";
#endif
}

// "16 bytes into the 64 bytes at 0x7f00 of stub device 0, which were freed"
void describe_place(SignalText& text, const void* pointer, const AddressSpace::Finding& found) {
  const ptrdiff_t offset = static_cast<const char*>(pointer) - static_cast<const char*>(found.base);
  const size_t distance = static_cast<size_t>(std::abs(offset));
  if (offset < 0) {
    text << distance << " bytes before";
  } else if (distance >= found.bytes) {
    text << distance - found.bytes << " bytes beyond the end of";
  } else {
    text << distance << " bytes into";
  }
  text << " the " << found.bytes << " bytes at " << found.base << " of stub device "
       << static_cast<uint64_t>(found.device) << (found.live ? "" : ", which were freed");
}

void report(const void* address, AddressSpace::Side side, const void* context) {
  AddressSpace& space = AddressSpace::instance();
  const bool by_host = side == AddressSpace::Side::kDevice;
  const void* pointer = by_host ? address : space.device_pointer(address);
  SignalText text;
  text << "unihal: " << (by_host ? "the host " : "a kernel or copy of the stub ") << access_of(context)
       << (by_host ? " device memory at " : " what is no live device memory, at ") << pointer;
  AddressSpace::Finding found;
  if (!space.find(pointer, &found)) {
    text << " (its allocation cannot be told at this moment)";
  } else if (found.known) {
    text << ": ";
    describe_place(text, pointer, found);
  } else {
    text << ", where nothing was allocated";
  }
  text << ".\n";
  char sites[1024];
  const uhal_host& services = host();
  if (services.struct_size > offsetof(uhal_host, describe_pointer) && services.describe_pointer != nullptr &&
      services.describe_pointer(found.base, sites, sizeof sites) > 0) {
    text << "unihal: It was " << sites << ".\n";
  }
  if (by_host) {
    text << "unihal: Only the device can follow a device pointer. Copy to host memory first (uhal_copy, "
            "Buffer.numpy()), or "
            "allocate pinned or managed memory.\n";
  } else {
    describe_work(text);
    text << "unihal: Either memory was freed while submitted work still used it (free it on the stream that used it "
            "last), or the kernel is wrong.\n";
  }
  text.write();
}

// Work that went astray in the host's own memory, most likely because that is not there any more.
void report_host_memory(const void* address, const Slot& work, const void* context) {
  SignalText text;
  text << "unihal: " << work.name << " on stream " << work.stream << " " << access_of(context) << " host memory at "
       << address << ", where nothing is.\n"
       << "unihal: The host memory of a copy must stay valid until its stream has passed the copy; wait for the "
          "stream before it is freed.\n";
  text.write();
}

// -- the handlers --------------------------------------------------------------------------------------------------

constexpr int kSignals[] = {SIGSEGV, SIGBUS};
struct sigaction previous[2];

// What would have happened without us.
void pass_on(int signal, siginfo_t* info, void* context) {
  const struct sigaction& before = previous[signal == kSignals[0] ? 0 : 1];
  if ((before.sa_flags & SA_SIGINFO) != 0) return before.sa_sigaction(signal, info, context);
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) return before.sa_handler(signal);
  // The instruction faults again when this handler returns. A signal that somebody sent has to be sent again.
  sigaction(signal, &before, nullptr);
  if (info->si_code <= 0) raise(signal);
}

void on_fault(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  // si_code is positive for the processor's faults; only they have an address.
  if (info->si_code > 0) {
    const AddressSpace::Side side = AddressSpace::instance().side(info->si_addr);
    if (side != AddressSpace::Side::kNone) {
      report(info->si_addr, side, context);
    } else if (const Slot* work = own_work(); work != nullptr && std::strncmp(work->name, "copy.", 5) == 0) {
      report_host_memory(info->si_addr, *work, context);
    }
  }
  errno = error;
  pass_on(signal, info, context);
}

}  // namespace

void install_fault_report() {
  static const bool installed = [] {
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < 2; ++i) sigaction(kSignals[i], &action, &previous[i]);
    return true;
  }();
  static_cast<void>(installed);
}

WorkInProgress::WorkInProgress(const std::string& name, uint64_t stream) : slot_(-1) {
  for (int i = 0; i < kSlots && slot_ < 0; ++i) {
    if (!slots[i].taken.load(std::memory_order_relaxed) && !slots[i].taken.exchange(true)) slot_ = i;
  }
  if (slot_ < 0) return;
  Slot& slot = slots[slot_];
  slot.thread = pthread_self();
  slot.stream = stream;
  const size_t length = std::min(name.size(), sizeof slot.name - 1);
  std::memcpy(slot.name, name.data(), length);
  slot.name[length] = '\0';
}

WorkInProgress::~WorkInProgress() {
  if (slot_ >= 0) slots[slot_].taken.store(false);
}

}  // namespace unihal::stub::strict
