// Opening files in places that others may write to: what is no file (a FIFO, a device, a socket, a folder) must neither
// hang nor be read.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace unihal {

// Opens a regular file for reading, without waiting for anybody, and says what it is; `flags` come on top. -1 with
// errno if that fails: EINVAL for what is no regular file.
inline int open_regular_file(int folder, const char* path, int flags, struct stat* status) {
  const int file = openat(folder, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags);
  if (file < 0) return -1;
  int error = 0;
  if (fstat(file, status) != 0) {
    error = errno;
  } else if (!S_ISREG(status->st_mode)) {
    error = S_ISDIR(status->st_mode) ? EISDIR : EINVAL;
  }
  if (error == 0) return file;
  close(file);
  errno = error;
  return -1;
}

}  // namespace unihal
