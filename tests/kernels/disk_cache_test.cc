// The store of compiled programs on disk: what it keeps, and that nothing wrong ever comes out of it.

#include "csrc/backends/common/disk_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

namespace unihal {
namespace {

constexpr uint64_t kPlenty = 1 << 20;

class DiskCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/unihal-disk-cache-XXXXXX";
    ASSERT_NE(nullptr, mkdtemp(name));
    folder = std::string(name) + "/deep/er";
    root = name;
  }

  void TearDown() override { EXPECT_EQ(0, std::system(("rm -rf " + root).c_str())); }

  std::vector<std::string> files() const {
    std::vector<std::string> names;
    DIR* directory = opendir(folder.c_str());
    if (directory == nullptr) return names;
    while (const dirent* item = readdir(directory)) {
      if (item->d_name[0] != '.') names.push_back(folder + "/" + item->d_name);
    }
    closedir(directory);
    return names;
  }

  std::string only_file() const {
    EXPECT_EQ(1u, files().size());
    return files().at(0);
  }

  static std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  static void write(const std::string& path, const std::string& content) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
  }

  // What the cache gives for a key; "missing" if nothing.
  static std::string loaded(DiskCache& cache, const std::string& key) {
    std::string bytes;
    return cache.load(key, &bytes) ? bytes : "missing";
  }

  static void set_use(const std::string& path, time_t seconds) {
    const timespec times[] = {{seconds, 0}, {seconds, 0}};
    ASSERT_EQ(0, utimensat(AT_FDCWD, path.c_str(), times, 0));
  }

  std::string root;
  std::string folder;
};

TEST_F(DiskCacheTest, KeepsBytesBetweenProcesses) {
  const std::string bytes("a\0b\nc", 5);
  const pid_t child = fork();
  if (child == 0) {
    DiskCache(folder, kPlenty).store("key", "program map", bytes);
    _exit(0);
  }
  int status;
  ASSERT_EQ(child, waitpid(child, &status, 0));
  DiskCache cache(folder, kPlenty);
  EXPECT_EQ(bytes, loaded(cache, "key"));
  EXPECT_EQ("missing", loaded(cache, "another key"));
  cache.store("key", "program map", "newer");
  EXPECT_EQ("newer", loaded(cache, "key"));
  struct stat mode;
  ASSERT_EQ(0, stat(folder.c_str(), &mode));
  EXPECT_EQ(0700u, mode.st_mode & 0777) << "programs that others may write would be run";
}

TEST_F(DiskCacheTest, EachDamageCountsAsMissingAndIsRepaired) {
  DiskCache cache(folder, kPlenty);
  cache.store("key", "label", "the bytes");
  const std::string path = only_file();
  const std::string whole = read(path);
  for (size_t length = 0; length < whole.size(); ++length) {
    write(path, whole.substr(0, length));
    EXPECT_EQ("missing", loaded(cache, "key")) << "cut off after " << length;
  }
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    write(path, damaged);
    EXPECT_EQ("missing", loaded(cache, "key")) << "byte " << at << " is another";
  }
  write(path, whole + "more");
  EXPECT_EQ("missing", loaded(cache, "key"));
  cache.store("key", "label", "the bytes");
  EXPECT_EQ("the bytes", loaded(cache, "key"));
}

TEST_F(DiskCacheTest, AnotherKeyOfTheSameHashIsNotServed) {
  DiskCache cache(folder, kPlenty);
  cache.store("mine", "label", "my bytes");
  const std::string mine = only_file();
  const std::string content = read(mine);
  unlink(mine.c_str());
  cache.store("yours", "label", "your bytes");
  write(only_file(), content);  // as if both keys had one hash
  EXPECT_EQ("missing", loaded(cache, "yours"));
}

TEST_F(DiskCacheTest, TheEntriesUsedLongestAgoGoFirst) {
  const std::string bytes(10000, 'b');
  {
    DiskCache cache(folder, kPlenty);
    for (int i = 0; i < 8; ++i) cache.store("key " + std::to_string(i), "label", bytes);
  }
  for (const std::string& path : files()) set_use(path, 1000);
  DiskCache cache(folder, 85000);
  EXPECT_EQ(bytes, loaded(cache, "key 3"));  // used now
  cache.store("new", "label", bytes);
  EXPECT_EQ(bytes, loaded(cache, "key 3"));
  EXPECT_EQ(bytes, loaded(cache, "new"));
  uint64_t total = 0;
  for (const std::string& path : files()) total += read(path).size();
  EXPECT_LE(total, 85000u);
  EXPECT_GE(total, 60000u) << "more was removed than needed";
}

TEST_F(DiskCacheTest, WhatCannotFitIsNotKept) {
  DiskCache cache(folder, 1000);
  cache.store("key", "label", std::string(2000, 'b'));
  EXPECT_EQ("missing", loaded(cache, "key"));
}

TEST_F(DiskCacheTest, HalfWrittenFilesOfTheDeadAreRemoved) {
  DiskCache(folder, kPlenty).store("key", "label", "bytes");
  const std::string old = folder + "/0123.entry.99.0.writing";
  const std::string recent = folder + "/0124.entry.99.0.writing";
  write(old, "half");
  write(recent, "half");
  set_use(old, 1000);
  DiskCache(folder, kPlenty).store("another key", "label", "bytes");
  EXPECT_EQ(-1, access(old.c_str(), F_OK));
  EXPECT_EQ(0, access(recent.c_str(), F_OK));
}

TEST_F(DiskCacheTest, AFolderThatCannotBeMadeIsToldOnceAndNoFailure) {
  write(root + "/file", "");
  DiskCache cache(root + "/file/below", kPlenty);
  testing::internal::CaptureStderr();
  cache.store("key", "label", "bytes");
  cache.store("key", "label", "bytes");
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(std::string::npos, text.find("UNIHAL_CACHE_DIR")) << text;
  EXPECT_EQ(text.find("unihal:"), text.rfind("unihal:")) << "told twice";
  EXPECT_EQ("missing", loaded(cache, "key"));
}

TEST_F(DiskCacheTest, WhatOthersMayWriteIsNotServed) {
  DiskCache(folder, kPlenty).store("key", "label", "the bytes");
  const std::string path = only_file();
  struct Case {
    const std::string& path;
    mode_t mode, usual;
  };
  for (const Case& one : {Case{path, 0666, 0600}, Case{path, 0620, 0600}, Case{folder, 0777, 0700},
                          Case{folder, 0770, 0700}, Case{folder, 01777, 0700}}) {
    ASSERT_EQ(0, chmod(one.path.c_str(), one.mode));
    DiskCache cache(folder, kPlenty);
    testing::internal::CaptureStderr();
    EXPECT_EQ("missing", loaded(cache, "key")) << one.path << " has mode " << std::oct << one.mode;
    EXPECT_EQ("missing", loaded(cache, "key"));
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(std::string::npos, said.find(one.path + " may be written by others")) << said;
    EXPECT_EQ(said.find('\n'), said.size() - 1) << "said more than once";
    ASSERT_EQ(0, chmod(one.path.c_str(), one.usual));
    EXPECT_EQ("the bytes", loaded(cache, "key"));
  }
}

TEST_F(DiskCacheTest, WhatOthersOwnIsNotServed) {
  if (geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  DiskCache(folder, kPlenty).store("key", "label", "the bytes");
  for (const std::string& path : {only_file(), folder}) {
    ASSERT_EQ(0, chown(path.c_str(), 12345, 0));
    DiskCache cache(folder, kPlenty);
    testing::internal::CaptureStderr();
    EXPECT_EQ("missing", loaded(cache, "key"));
    EXPECT_NE(std::string::npos, testing::internal::GetCapturedStderr().find(path + " belongs to user 12345"));
    ASSERT_EQ(0, chown(path.c_str(), 0, 0));
  }
}

TEST_F(DiskCacheTest, ARefusedEntryIsWrittenAnewARefusedFolderIsLeftAlone) {
  DiskCache cache(folder, kPlenty);
  cache.store("key", "label", "the bytes");
  const std::string path = only_file();
  ASSERT_EQ(0, chmod(path.c_str(), 0666));
  testing::internal::CaptureStderr();
  EXPECT_EQ("missing", loaded(cache, "key"));
  cache.store("key", "label", "compiled again");
  EXPECT_EQ("compiled again", loaded(cache, "key"));
  ASSERT_EQ(0, chmod(folder.c_str(), 0777));
  cache.store("another key", "label", "more");
  testing::internal::GetCapturedStderr();
  EXPECT_EQ(1u, files().size());
}

TEST_F(DiskCacheTest, WhatIsNoFileNeitherHangsNorIsFollowed) {
  DiskCache cache(folder, kPlenty);
  cache.store("key", "label", "the bytes");
  const std::string path = only_file();
  const std::string aside = root + "/aside";
  ASSERT_EQ(0, rename(path.c_str(), aside.c_str()));
  const auto is_missing = [&](const char* what) {
    testing::internal::CaptureStderr();
    EXPECT_EQ("missing", loaded(cache, "key")) << what;
    testing::internal::GetCapturedStderr();
    ASSERT_TRUE(unlink(path.c_str()) == 0 || rmdir(path.c_str()) == 0);
  };
  ASSERT_EQ(0, mkfifo(path.c_str(), 0600));
  is_missing("a FIFO");
  ASSERT_EQ(0, symlink(aside.c_str(), path.c_str()));
  is_missing("a link to a good entry");
  ASSERT_EQ(0, symlink(path.c_str(), path.c_str()));
  is_missing("a link to itself");
  ASSERT_EQ(0, symlink("/dev/zero", path.c_str()));
  is_missing("a device");
  ASSERT_EQ(0, mkdir(path.c_str(), 0700));
  is_missing("a folder");
  const int socket_file = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  ASSERT_LT(path.size(), sizeof address.sun_path);
  path.copy(address.sun_path, path.size());
  ASSERT_EQ(0, bind(socket_file, reinterpret_cast<sockaddr*>(&address), sizeof address));
  is_missing("a socket");
  close(socket_file);
  ASSERT_EQ(0, rename(aside.c_str(), path.c_str()));
  EXPECT_EQ("the bytes", loaded(cache, "key"));
}

TEST_F(DiskCacheTest, AFolderThatIsAFifoIsNotWaitedFor) {
  ASSERT_EQ(0, mkdir((root + "/deep").c_str(), 0700));
  ASSERT_EQ(0, mkfifo(folder.c_str(), 0600));
  DiskCache cache(folder, kPlenty);
  EXPECT_EQ("missing", loaded(cache, "key"));
}

TEST_F(DiskCacheTest, ManyWritersAndReadersOfOneEntryAgree) {
  std::vector<pid_t> children;
  for (int process = 0; process < 4; ++process) {
    const pid_t child = fork();
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    DiskCache cache(folder, kPlenty);
    const std::string bytes(5000, 'x');
    std::atomic<bool> right{true};
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 2; ++thread) {
      threads.emplace_back([&] {
        for (int i = 0; i < 100; ++i) {
          cache.store("key", "label", bytes);
          if (loaded(cache, "key") != bytes) right = false;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    _exit(right ? 0 : 1);
  }
  for (const pid_t child : children) {
    int status;
    ASSERT_EQ(child, waitpid(child, &status, 0));
    EXPECT_EQ(0, status);
  }
  only_file();
}

TEST_F(DiskCacheTest, TheEnvironmentChoosesTheFolder) {
  unsetenv("UNIHAL_CACHE");
  unsetenv("UNIHAL_CACHE_DIR");
  setenv("HOME", "/home/someone", 1);
  setenv("XDG_CACHE_HOME", "relative", 1);  // ignored, as the standard says
  setenv("UNIHAL_CACHE_LIMIT", "3M", 1);
  EXPECT_EQ("/home/someone/.cache/unihal", DiskCache::shared().folder());
  EXPECT_EQ(uint64_t{3} << 20, DiskCache::shared().limit());
  EXPECT_EQ("", DiskCache::complaint());
}

TEST_F(DiskCacheTest, TheVariableNamesAFolder) {
  setenv("UNIHAL_CACHE_DIR", folder.c_str(), 1);
  setenv("XDG_CACHE_HOME", "/elsewhere", 1);
  EXPECT_EQ(folder, DiskCache::shared().folder());
}

TEST_F(DiskCacheTest, OffKeepsNothing) {
  setenv("UNIHAL_CACHE", "off", 1);
  EXPECT_FALSE(DiskCache::shared().on());
  DiskCache::shared().store("key", "label", "bytes");
  EXPECT_EQ("missing", loaded(DiskCache::shared(), "key"));
}

TEST_F(DiskCacheTest, NonsenseIsNamed) {
  setenv("UNIHAL_CACHE", "no", 1);
  setenv("UNIHAL_CACHE_LIMIT", "5 MB", 1);
  const std::string complaint = DiskCache::complaint();
  EXPECT_NE(std::string::npos, complaint.find("UNIHAL_CACHE is 'no'")) << complaint;
  EXPECT_NE(std::string::npos, complaint.find("UNIHAL_CACHE_LIMIT is '5 MB'")) << complaint;
}

}  // namespace
}  // namespace unihal
