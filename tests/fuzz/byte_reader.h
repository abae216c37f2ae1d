// Takes a fuzz input apart, front to back. Past its end there are zeros, so that every input means something.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace fuzz {

class ByteReader {
 public:
  ByteReader(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  template <class Number>
  Number take() {
    Number value = {};
    const size_t bytes = sizeof value < size_ ? sizeof value : size_;
    if (bytes > 0) memcpy(&value, data_, bytes);
    data_ += bytes;
    size_ -= bytes;
    return value;
  }

  uint8_t byte() { return take<uint8_t>(); }

  // 0 to limit - 1.
  int below(int limit) { return byte() % limit; }

  bool empty() const { return size_ == 0; }
  const uint8_t* rest() const { return data_; }
  size_t rest_size() const { return size_; }

 private:
  const uint8_t* data_;
  size_t size_;
};

}  // namespace fuzz
