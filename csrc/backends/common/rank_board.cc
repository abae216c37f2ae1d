#include "csrc/backends/common/rank_board.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace unihal {
namespace {

constexpr const char* kFolder = "/dev/shm/";
constexpr size_t kPage = 4096;

// A segment of nobody is removed at this age: before that its first rank may be about to lock it.
constexpr time_t kAgeOfOrphans = 60;

enum State : uint32_t { kNobody = 0, kComing = 1, kHere = 2, kLeft = 3 };
enum Failed : uint32_t { kSound = 0, kFailing = 1, kFailed = 2 };

static_assert(std::atomic<uint32_t>::is_always_lock_free && sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));

std::string prefix() { return "unihal." + std::to_string(geteuid()) + "."; }

void futex_wait(std::atomic<uint32_t>* word, uint32_t value, std::chrono::nanoseconds time) {
  const timespec limit = {static_cast<time_t>(time.count() / 1000000000), static_cast<long>(time.count() % 1000000000)};
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAIT, value, &limit, nullptr, 0);
}

void futex_wake(std::atomic<uint32_t>* word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// -- processes

// When a process was started, in ticks since the system was; 0 if there is none, or it is over and only its parent has
// not asked yet.
uint64_t start_of_process(int32_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  FILE* file = fopen(path.c_str(), "re");
  if (file == nullptr) return 0;
  char text[1024];
  const size_t length = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[length] = '\0';
  // The second field is the program's name in parentheses, which may hold any character.
  const char* rest = strrchr(text, ')');
  char state = 0;
  unsigned long long start = 0;
  if (rest == nullptr ||
      sscanf(rest + 1, " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu", &state,
             &start) != 2) {
    return 0;
  }
  return state == 'Z' || state == 'X' ? 0 : start;
}

uint64_t namespace_of_processes() {
  struct stat found = {};
  return stat("/proc/self/ns/pid", &found) == 0 ? found.st_ino : 0;
}

// -- files

bool lock_shared(int file) { return flock(file, LOCK_SH | LOCK_NB) == 0; }

// Removes segments of this user that no rank has open.
void remove_orphans() {
  DIR* folder = opendir(kFolder);
  if (folder == nullptr) return;
  const std::string own = prefix();
  while (const dirent* entry = readdir(folder)) {
    if (strncmp(entry->d_name, own.c_str(), own.size()) != 0) continue;
    const std::string path = std::string(kFolder) + entry->d_name;
    const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0) continue;
    struct stat found = {};
    const bool old = fstat(file, &found) == 0 && time(nullptr) - found.st_mtime > kAgeOfOrphans;
    if (old && flock(file, LOCK_EX | LOCK_NB) == 0) unlink(path.c_str());
    close(file);
  }
  closedir(folder);
}

RankFailure system_failure(const char* what, const std::string& path, size_t bytes, int error) {
  const std::string said = std::string(what) + " '" + path + "' for the ranks of a communicator: " + strerror(error);
  if (error == ENOSPC || error == ENOMEM || error == EDQUOT) {
    return {UHAL_RESOURCE_EXHAUSTED, "cannot " + said + "; free " + std::to_string(bytes) +
                                         " bytes in /dev/shm, or make it larger (docker run --shm-size)"};
  }
  return {UHAL_UNAVAILABLE, "cannot " + said + "; ranks need a /dev/shm that this user may write to"};
}

// Opens or makes a segment of at least some bytes. -1, and why.
int open_segment(const std::string& path, size_t bytes, RankFailure* failure) {
  while (true) {
    const int file = ::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0) {
      *failure = system_failure("open", path, bytes, errno);
      return -1;
    }
    struct stat found = {};
    const bool known = fstat(file, &found) == 0;
    if (!known || !S_ISREG(found.st_mode) || found.st_uid != geteuid()) {
      close(file);
      *failure = {UHAL_UNAVAILABLE, "'" + path + "' is not this user's file; create another id for the communicator"};
      return -1;
    }
    const bool locked = lock_shared(file);
    if (fstat(file, &found) == 0 && found.st_nlink > 0 && locked) {
      // It never makes the file smaller, and takes the pages now, so that writing cannot fail.
      const int error = posix_fallocate(file, 0, static_cast<off_t>(bytes));
      if (error == 0) return file;
      *failure = system_failure("make", path, bytes, error);
      unlink(path.c_str());
      close(file);
      return -1;
    }
    close(file);  // it was just removed as an orphan
  }
}

}  // namespace

struct RankBoard::Rank {
  alignas(64) std::atomic<uint32_t> state;
  std::atomic<uint32_t> bell;
  std::atomic<uint32_t> listens;
  int32_t pid;
  uint64_t start;
  uint64_t pid_namespace;
};

struct RankBoard::Header {
  std::atomic<uint32_t> size;
  std::atomic<uint32_t> here;  // ranks that have come
  std::atomic<uint32_t> failed;
  int32_t status;
  char message[480];
};

// -- opening ----------------------------------------------------------------------------------------------------------

std::unique_ptr<RankBoard> RankBoard::open(const Place& place, RankFailure* failure) {
  remove_orphans();
  const size_t entries = sizeof(Header) + static_cast<size_t>(place.size + 1) * sizeof(Rank);
  const size_t payload = (entries + kPage - 1) / kPage * kPage;
  const size_t bytes = payload + place.payload_bytes;
  const std::string path = kFolder + prefix() + place.name;
  const int file = open_segment(path, bytes, failure);
  if (file < 0) return nullptr;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) {
    *failure = system_failure("map", path, bytes, errno);
    close(file);
    return nullptr;
  }
  std::unique_ptr<RankBoard> board(new RankBoard(place, file, path, static_cast<char*>(memory), bytes));
  board->payload_ = board->memory_ + payload;
  *failure = board->join();
  return *failure ? nullptr : std::move(board);
}

RankBoard::RankBoard(const Place& place, int file, std::string path, char* memory, size_t bytes)
    : place_(place), file_(file), path_(std::move(path)), memory_(memory), bytes_(bytes) {}

RankBoard::~RankBoard() {
  if (joined_) {
    entry(rank()).state.store(kLeft);
    ring_others();
  }
  munmap(memory_, bytes_);
  if (file_ >= 0) close(file_);
}

RankFailure RankBoard::join() {
  uint32_t size = 0;
  if (!header().size.compare_exchange_strong(size, static_cast<uint32_t>(place_.size)) &&
      size != static_cast<uint32_t>(place_.size)) {
    return {UHAL_INVALID_ARGUMENT, "rank " + std::to_string(rank()) + " says that the communicator has " +
                                       std::to_string(place_.size) + " ranks, another one said " +
                                       std::to_string(size) + "; give all ranks the same size"};
  }
  Rank& own = entry(rank());
  uint32_t state = kNobody;
  if (!own.state.compare_exchange_strong(state, kComing)) {
    return {UHAL_ALREADY_EXISTS, "rank " + std::to_string(rank()) + " of the communicator is taken by process " +
                                     std::to_string(own.pid) +
                                     "; give each rank a number of its own, and each communicator a new id"};
  }
  own.pid = getpid();
  own.start = start_of_process(own.pid);
  own.pid_namespace = namespace_of_processes();
  own.state.store(kHere);
  joined_ = true;
  header().here.fetch_add(1);
  ring_others();
  return {};
}

RankFailure RankBoard::await_all(const Wait& wait) {
  RankFailure failure = this->wait(
      wait, [&] { return header().here.load() == static_cast<uint32_t>(size()); },
      [&](int32_t rank) { return !has_come(rank) || !end_of(rank).empty(); });
  remove_name();
  return failure;
}

void RankBoard::remove_name() {
  if (file_ < 0) return;
  unlink(path_.c_str());
  close(file_);
  file_ = -1;
}

RankBoard::Header& RankBoard::header() const { return *reinterpret_cast<Header*>(memory_); }

RankBoard::Rank& RankBoard::entry(int32_t rank) const {
  const size_t first = (sizeof(Header) + alignof(Rank) - 1) / alignof(Rank) * alignof(Rank);
  return *reinterpret_cast<Rank*>(memory_ + first + static_cast<size_t>(rank) * sizeof(Rank));
}

// -- the others -------------------------------------------------------------------------------------------------------

void RankBoard::ring(int32_t rank) {
  Rank& other = entry(rank);
  other.bell.fetch_add(1);
  if (other.listens.load() != 0) futex_wake(&other.bell);
}

void RankBoard::ring_others() {
  for (int32_t rank = 0; rank < size(); ++rank) {
    if (rank != place_.rank) ring(rank);
  }
}

bool RankBoard::has_come(int32_t rank) const {
  const uint32_t state = entry(rank).state.load();
  return state == kHere || state == kLeft;
}

bool RankBoard::has_left(int32_t rank) const { return entry(rank).state.load() == kLeft; }

bool RankBoard::has_died(int32_t rank) const {
  const Rank& other = entry(rank);
  if (other.state.load() != kHere || other.pid == getpid()) return false;
  // Numbers of processes mean nothing in another namespace (container).
  if (other.pid_namespace != entry(place_.rank).pid_namespace) return false;
  return start_of_process(other.pid) != other.start;
}

std::string RankBoard::end_of(int32_t rank) const {
  if (has_died(rank)) return "has ended (process " + std::to_string(entry(rank).pid) + ")";
  return has_left(rank) ? "has destroyed its communicator" : "";
}

RankFailure RankBoard::fail(const RankFailure& failure) {
  Header& shared = header();
  uint32_t state = kSound;
  if (shared.failed.compare_exchange_strong(state, kFailing)) {
    // Whose wait was given up is only one rank's business.
    shared.status = failure.status == UHAL_CANCELLED ? UHAL_ABORTED : failure.status;
    const size_t length = std::min(failure.message.size(), sizeof shared.message - 1);
    memcpy(shared.message, failure.message.data(), length);
    shared.message[length] = '\0';
    shared.failed.store(kFailed);
    for (int32_t rank = 0; rank < size(); ++rank) ring(rank);
  }
  return failure;
}

bool RankBoard::failed() const { return header().failed.load() == kFailed; }

RankFailure RankBoard::failure() const { return {header().status, header().message}; }

// -- sleeping ---------------------------------------------------------------------------------------------------------

RankBoard::Sleep::Sleep(RankBoard& board, const Wait& wait)
    : board_(board),
      wait_(wait),
      deadline_(Clock::now() +
                std::chrono::milliseconds(std::min<int64_t>(wait.timeout_milliseconds, INT64_MAX / 4000000))) {
  board_.entry(board_.rank()).listens.store(1);
}

RankBoard::Sleep::~Sleep() { board_.entry(board_.rank()).listens.store(0); }

uint32_t RankBoard::Sleep::listen() { return board_.entry(board_.rank()).bell.load(); }

bool RankBoard::Sleep::until_rung(uint32_t bell) {
  std::atomic<uint32_t>& own = board_.entry(board_.rank()).bell;
  const Clock::duration left = std::max<Clock::duration>(deadline_ - Clock::now(), std::chrono::microseconds(1));
  futex_wait(&own, bell, std::min<std::chrono::nanoseconds>(left, wait_.longest_sleep));
  return own.load() == bell;
}

RankFailure RankBoard::Sleep::given_up() const {
  return {UHAL_CANCELLED,
          board_.subject(wait_) + " was given up, as its thread's wait function asked; destroy the communicator"};
}

// -- what is said of a wait -------------------------------------------------------------------------------------------

std::string RankBoard::subject(const Wait& wait) const {
  return std::string(wait.what) + " on rank " + std::to_string(rank()) + " of " + std::to_string(size());
}

RankFailure RankBoard::ended(const Wait& wait, int32_t other, const std::string& end) const {
  return {UHAL_ABORTED, subject(wait) + " needs rank " + std::to_string(other) + ", which " + end +
                            "; see what that rank reports, then create the communicators with a new id"};
}

RankFailure RankBoard::timed_out(const Wait& wait, const std::string& missing) const {
  char seconds[32];
  snprintf(seconds, sizeof seconds, "%g s", static_cast<double>(wait.timeout_milliseconds) / 1000);
  // Without a name: the ranks of this host are there, and what they wait for is another host or a device.
  const std::string whom = missing.empty() ? "for others than the ranks of this host" : "for " + missing;
  return {UHAL_DEADLINE_EXCEEDED, subject(wait) + " waited " + seconds + " " + whom +
                                      ", in vain; see what keeps them, or raise the communicator's timeout, and create "
                                      "the communicators with a new id"};
}

}  // namespace unihal
