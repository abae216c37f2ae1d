#include "csrc/backends/common/disk_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>
#include <vector>

#include "csrc/backends/common/regular_file.h"

namespace unihal {
namespace {

constexpr uint64_t kDefaultLimit = uint64_t{512} << 20;
constexpr char kMagic[8] = {'U', 'N', 'I', 'H', 'A', 'L', 'C', '1'};  // the last one is the format's version
constexpr char kSuffix[] = ".entry";
constexpr char kTemporarySuffix[] = ".writing";
constexpr time_t kAbandonedSeconds = 3600;  // a file that was being written this long ago never will be

// At the start of a file; label, key and bytes follow. python/unihal/cache.py reads it too.
struct Header {
  char magic[sizeof kMagic];
  uint64_t label_bytes;
  uint64_t key_bytes;
  uint64_t content_bytes;
  Hash128 checksum;  // of the three sizes and all that follows the header
};
static_assert(sizeof(Header) == 48);

constexpr unsigned __int128 kFnvBasis = (unsigned __int128){0x6c62272e07bb0142} << 64 | 0x62b821756295c58d;
constexpr unsigned __int128 kFnvPrime = (unsigned __int128){1} << 88 | 0x13b;

unsigned __int128 hash_on(unsigned __int128 state, const void* data, size_t bytes) {
  const auto* at = static_cast<const unsigned char*>(data);
  for (size_t i = 0; i < bytes; ++i) state = (state ^ at[i]) * kFnvPrime;
  return state;
}

Hash128 halves(unsigned __int128 state) { return {static_cast<uint64_t>(state >> 64), static_cast<uint64_t>(state)}; }

Hash128 checksum_of(const Header& header, const char* rest, size_t bytes) {
  const uint64_t sizes[] = {header.label_bytes, header.key_bytes, header.content_bytes};
  return halves(hash_on(hash_on(kFnvBasis, sizes, sizeof sizes), rest, bytes));
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// "4096", "512M", "8G"; false if it is none of these.
bool parse_limit(const std::string& text, uint64_t* bytes) {
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string suffix = text.substr(digits);
  const int shift = suffix.empty() ? 0 : suffix == "K" ? 10 : suffix == "M" ? 20 : suffix == "G" ? 30 : -1;
  if (digits == 0 || digits > 18 || shift < 0) return false;
  const uint64_t number = std::strtoull(text.c_str(), nullptr, 10);
  if (number > UINT64_MAX >> shift) return false;
  *bytes = number << shift;
  return true;
}

// The folder that the environment asks for; empty if nothing is to be kept.
std::string wanted_folder() {
  if (variable("UNIHAL_CACHE") == "off") return "";
  if (const std::string own = variable("UNIHAL_CACHE_DIR"); !own.empty()) return own;
  if (const std::string base = variable("XDG_CACHE_HOME"); base[0] == '/') return base + "/unihal";
  if (const std::string home = variable("HOME"); !home.empty()) return home + "/.cache/unihal";
  return "";
}

uint64_t wanted_limit() {
  uint64_t limit = kDefaultLimit;
  parse_limit(variable("UNIHAL_CACHE_LIMIT"), &limit);
  return limit;
}

// Programs are handed to the driver: nobody else may write them. True if the folder is there afterwards.
bool make_folder(const std::string& path) {
  for (size_t at = path.find('/', 1);; at = path.find('/', at + 1)) {
    if (mkdir(path.substr(0, at).c_str(), 0700) != 0 && errno != EEXIST && at == std::string::npos) return false;
    if (at == std::string::npos) break;
  }
  struct stat status;
  if (stat(path.c_str(), &status) != 0) return false;
  if (S_ISDIR(status.st_mode)) return true;
  errno = ENOTDIR;
  return false;
}

// Why what is kept there must not be handed to the driver: somebody else could have written it. Empty if nobody could.
std::string distrust(const struct stat& status) {
  if (status.st_uid != geteuid()) {
    return "belongs to user " + std::to_string(status.st_uid) + ", and this process is user " +
           std::to_string(geteuid()) + "'s";
  }
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) == 0) return "";
  char mode[8];
  std::snprintf(mode, sizeof mode, "%04o", static_cast<unsigned>(status.st_mode & 07777));
  return std::string("may be written by others (mode ") + mode + ")";
}

// Opens the folder. -1 if it is not there, or is not to be trusted, which `reason` tells.
int open_folder(const std::string& path, std::string* reason) {
  const int folder = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK);
  struct stat status;
  if (folder < 0) return -1;
  if (fstat(folder, &status) == 0) *reason = distrust(status);
  if (reason->empty()) return folder;
  close(folder);
  return -1;
}

// Reads an entry. False if there is none, or it is not to be trusted, which `reason` tells.
bool read_file(int folder, const char* name, std::string* content, std::string* reason) {
  struct stat status;
  const int file = open_regular_file(folder, name, O_NOFOLLOW, &status);
  if (file < 0) {
    if (errno == EINVAL || errno == EISDIR || errno == ELOOP || errno == ENXIO) *reason = "is no regular file";
    return false;
  }
  *reason = distrust(status);
  bool whole = reason->empty();
  if (whole) content->resize(static_cast<size_t>(status.st_size));
  for (size_t done = 0; whole && done < content->size();) {
    const ssize_t got = read(file, &(*content)[done], content->size() - done);
    if (got < 0 && errno == EINTR) continue;
    whole = got > 0;
    done += whole ? static_cast<size_t>(got) : 0;
  }
  close(file);
  return whole;
}

bool write_all(int file, const std::string& content) {
  for (size_t done = 0; done < content.size();) {
    const ssize_t put = write(file, content.data() + done, content.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return false;
    done += static_cast<size_t>(put);
  }
  return true;
}

// Where the bytes of an entry begin in its file; 0 if the file is not a whole entry of this key.
size_t find_content(const std::string& file, const std::string& key) {
  Header header;
  if (file.size() < sizeof header) return 0;
  std::memcpy(&header, file.data(), sizeof header);
  const size_t rest = file.size() - sizeof header;
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 || header.label_bytes > rest || header.key_bytes > rest ||
      header.content_bytes > rest || header.label_bytes + header.key_bytes + header.content_bytes != rest) {
    return 0;
  }
  const Hash128 sum = checksum_of(header, file.data() + sizeof header, rest);
  if (sum.high != header.checksum.high || sum.low != header.checksum.low) return 0;
  const size_t key_at = sizeof header + header.label_bytes;
  return file.compare(key_at, header.key_bytes, key) == 0 ? key_at + header.key_bytes : 0;
}

bool ends_with(const std::string& text, const char* suffix) {
  const size_t length = std::strlen(suffix);
  return text.size() >= length && text.compare(text.size() - length, length, suffix) == 0;
}

struct File {
  std::string path;
  uint64_t bytes;
  timespec used;
};

// The entries of a folder; files that some process left half-written are removed.
std::vector<File> list(const std::string& folder) {
  std::vector<File> files;
  DIR* directory = opendir(folder.c_str());
  if (directory == nullptr) return files;
  while (const dirent* item = readdir(directory)) {
    const std::string name = item->d_name;
    const std::string path = folder + "/" + name;
    struct stat status;
    if (lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    if (ends_with(name, kSuffix)) {
      files.push_back({path, static_cast<uint64_t>(status.st_size), status.st_mtim});
    } else if (ends_with(name, kTemporarySuffix) && status.st_mtim.tv_sec + kAbandonedSeconds < time(nullptr)) {
      unlink(path.c_str());
    }
  }
  closedir(directory);
  return files;
}

}  // namespace

Hash128 hash_bytes(const void* data, size_t bytes) { return halves(hash_on(kFnvBasis, data, bytes)); }

DiskCache& DiskCache::shared() {
  static DiskCache* const instance = new DiskCache(wanted_folder(), wanted_limit());
  return *instance;
}

DiskCache::DiskCache(std::string folder, uint64_t limit) : folder_(std::move(folder)), limit_(limit) {}

bool DiskCache::load(const std::string& key, std::string* bytes) {
  if (!on()) return false;
  std::string reason;
  const int folder = open_folder(folder_, &reason);
  if (folder < 0) {
    if (!reason.empty()) refuse_once(folder_, reason);
    return false;
  }
  const std::string name = name_of(key);
  std::string file;
  const bool read = read_file(folder, name.c_str(), &file, &reason);
  const size_t content = read ? find_content(file, key) : 0;
  // Its last use; a folder that cannot be written keeps none.
  if (content != 0) utimensat(folder, name.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
  close(folder);
  if (!reason.empty()) refuse_once(folder_ + "/" + name, reason);
  if (content == 0) return false;
  bytes->assign(file, content, std::string::npos);
  return true;
}

void DiskCache::store(const std::string& key, const std::string& label, const std::string& bytes) {
  if (!on() || sizeof(Header) + label.size() + key.size() + bytes.size() > limit_) return;
  Header header = {{}, label.size(), key.size(), bytes.size(), {}};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  const std::string rest = label + key + bytes;
  header.checksum = checksum_of(header, rest.data(), rest.size());
  const std::string file = std::string(reinterpret_cast<const char*>(&header), sizeof header) + rest;

  if (!make_folder(folder_)) return complain_once("made", errno);
  // What is kept where others write would not be served either.
  std::string reason;
  const int folder = open_folder(folder_, &reason);
  if (!reason.empty()) return refuse_once(folder_, reason);
  if (folder >= 0) close(folder);
  if (!write_entry(folder_ + "/" + name_of(key), file)) return complain_once("written", errno);

  std::lock_guard<std::mutex> lock(mutex_);
  estimate_ += file.size();
  // Other processes write too: what is really there is looked up once, and whenever the estimate says it is too much.
  if (!has_looked_ || estimate_ > limit_) evict();
}

std::string DiskCache::complaint() {
  std::string text;
  if (const std::string value = variable("UNIHAL_CACHE"); !value.empty() && value != "on" && value != "off") {
    text += "The environment variable UNIHAL_CACHE is '" + value + "', but must be on or off; correct or unset it. ";
  }
  uint64_t bytes;
  if (const std::string value = variable("UNIHAL_CACHE_LIMIT"); !value.empty() && !parse_limit(value, &bytes)) {
    text += "The environment variable UNIHAL_CACHE_LIMIT is '" + value +
            "', but must be a number of bytes, or one with the suffix K, M or G (such as 512M); correct or unset it. ";
  }
  if (!text.empty()) text.pop_back();
  return text;
}

std::string DiskCache::name_of(const std::string& key) {
  const Hash128 hash = hash_bytes(key.data(), key.size());
  char name[40];
  std::snprintf(name, sizeof name, "%016llx%016llx", static_cast<unsigned long long>(hash.high),
                static_cast<unsigned long long>(hash.low));
  return std::string(name) + kSuffix;
}

// All or nothing, for readers too: they see the old file or the new one. Two writers of one entry write the same.
bool DiskCache::write_entry(const std::string& path, const std::string& content) {
  static std::atomic<unsigned> serial{0};
  const std::string temporary =
      path + "." + std::to_string(getpid()) + "." + std::to_string(serial.fetch_add(1)) + kTemporarySuffix;
  const int file = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return false;
  bool done = write_all(file, content);
  done = close(file) == 0 && done;
  done = done && rename(temporary.c_str(), path.c_str()) == 0;
  if (!done) {
    const int error = errno;
    unlink(temporary.c_str());
    errno = error;
  }
  return done;
}

// Down to nine tenths of the limit, so that a full cache is not looked through at each store.
void DiskCache::evict() {
  std::vector<File> files = list(folder_);
  has_looked_ = true;
  estimate_ = 0;
  for (const File& file : files) estimate_ += file.bytes;
  if (estimate_ <= limit_) return;
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) {
    return std::make_pair(a.used.tv_sec, a.used.tv_nsec) < std::make_pair(b.used.tv_sec, b.used.tv_nsec);
  });
  for (const File& file : files) {
    if (estimate_ <= limit_ / 10 * 9) break;
    if (unlink(file.path.c_str()) == 0 || errno == ENOENT) estimate_ -= file.bytes;
  }
}

void DiskCache::refuse_once(const std::string& path, const std::string& reason) {
  if (refused_.exchange(true)) return;
  std::fprintf(
      stderr,
      "unihal: compiled programs that were kept are not used: %s %s. They are compiled again. Remove it, or set "
      "UNIHAL_CACHE_DIR to a folder that only you can write, or UNIHAL_CACHE=off.\n",
      path.c_str(), reason.c_str());
}

void DiskCache::complain_once(const std::string& action, int error) {
  if (complained_.exchange(true)) return;
  std::fprintf(
      stderr,
      "unihal: compiled programs are not kept: %s cannot be %s: %s. Set UNIHAL_CACHE_DIR to a folder of yours, "
      "or UNIHAL_CACHE=off.\n",
      folder_.c_str(), action.c_str(), std::strerror(error));
}

}  // namespace unihal
