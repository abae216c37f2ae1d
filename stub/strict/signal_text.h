// Text put together in a signal handler: nothing here allocates, locks or depends on the locale.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace unihal::stub::strict {

// What does not fit is left out.
class SignalText {
 public:
  SignalText& operator<<(const char* text) {
    while (*text != '\0' && length_ + 1 < sizeof text_) text_[length_++] = *text++;
    return *this;
  }

  SignalText& operator<<(uint64_t number) { return digits(number, 10); }

  SignalText& operator<<(const void* address) {
    *this << "0x";
    return digits(reinterpret_cast<uintptr_t>(address), 16);
  }

  // To standard error.
  void write() const {
    for (size_t done = 0; done < length_;) {
      const ssize_t written = ::write(STDERR_FILENO, text_ + done, length_ - done);
      if (written <= 0) return;
      done += static_cast<size_t>(written);
    }
  }

 private:
  SignalText& digits(uint64_t number, unsigned base) {
    char reversed[20];
    size_t count = 0;
    do {
      reversed[count++] = "0123456789abcdef"[number % base];
      number /= base;
    } while (number != 0);
    while (count > 0 && length_ + 1 < sizeof text_) text_[length_++] = reversed[--count];
    return *this;
  }

  char text_[4096];
  size_t length_ = 0;
};

}  // namespace unihal::stub::strict
