// Bytes that are kept between processes, by a text that says everything they depend on: compiled programs, and what the
// autotuner found. docs/cache.md is the user's view of it.
//
// An entry is one file, named by a 128-bit hash of the key. It holds the key itself, which is compared, so that two
// keys of one hash cost a second compilation and never give a wrong program; and a checksum, so that an entry that was
// cut off or damaged counts as missing and is written anew. Files appear by rename: any number of processes may use one
// folder. Nothing here fails: without a usable folder, nothing is kept (and one line on stderr says so).
//
// Entries are handed to the driver and run, so only what nobody else can have written is: folder and file must belong
// to this user and be writable by no other. What is refused counts as missing, and one line on stderr says so. Nothing
// that lies in the folder is waited for (FIFOs) or followed (links).
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

namespace unihal {

class DiskCache {
 public:
  // The process's cache, as the environment says at its first use: UNIHAL_CACHE=off, UNIHAL_CACHE_DIR,
  // UNIHAL_CACHE_LIMIT.
  static DiskCache& shared();

  // Of `folder`, which is made if need be; empty: nothing is kept. When the entries pass `limit` bytes, those whose
  // last use is longest ago are removed.
  DiskCache(std::string folder, uint64_t limit);

  // Whether there is an entry of this key; its bytes if so. From any thread, as all of this.
  bool load(const std::string& key, std::string* bytes);

  // Keeps bytes under a key, in the place of what was there. `label` is for people: "program matmul", "tuning gemm";
  // its first word is what `unihal cache info` counts by.
  void store(const std::string& key, const std::string& label, const std::string& bytes);

  bool on() const { return !folder_.empty(); }
  const std::string& folder() const { return folder_; }
  uint64_t limit() const { return limit_; }

  // A bad value of a variable, as a message; empty if all make sense. Such a value counts as the default.
  static std::string complaint();

 private:
  static std::string name_of(const std::string& key);
  bool write_entry(const std::string& path, const std::string& content);
  void evict();
  void complain_once(const std::string& action, int error);
  void refuse_once(const std::string& path, const std::string& reason);

  const std::string folder_;
  const uint64_t limit_;
  std::atomic<bool> complained_{false};
  std::atomic<bool> refused_{false};
  std::mutex mutex_;       // of what follows
  uint64_t estimate_ = 0;  // bytes of all entries, as of the last look plus what was written since
  bool has_looked_ = false;
};

// A 128-bit FNV-1a hash.
struct Hash128 {
  uint64_t high;
  uint64_t low;
};
Hash128 hash_bytes(const void* data, size_t bytes);

}  // namespace unihal
