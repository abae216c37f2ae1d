// Reads and writes protobuf messages field by field: the little that GraphDef and NodeDef need, without the protobuf
// library, whose version TensorFlow fixes.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace unihal::tensorflow {

// Walks over the fields of one serialized message. Malformed input ends the walk.
class ProtobufReader {
 public:
  explicit ProtobufReader(std::string_view message) : rest_(message) {}

  // Advances to the next field; false at the end.
  bool next() {
    const char* start = rest_.data();
    uint64_t tag = 0;
    if (rest_.empty() || !varint(&tag)) return false;
    number_ = static_cast<int>(tag >> 3);
    bytes_ = {};
    value_ = 0;
    bool good = false;
    switch (tag & 7) {
      case 0:
        good = varint(&value_);
        break;
      case 1:
        good = take(8, &bytes_);
        break;
      case 2: {
        uint64_t size = 0;
        good = varint(&size) && take(size, &bytes_);
        break;
      }
      case 5:
        good = take(4, &bytes_);
        break;
      default:
        break;
    }
    raw_ = std::string_view(start, static_cast<size_t>(rest_.data() - start));
    return good;
  }

  int number() const { return number_; }
  uint64_t value() const { return value_; }          // of a varint field
  std::string_view bytes() const { return bytes_; }  // of a string, bytes or message field; of one of fixed width too
  std::string_view raw() const { return raw_; }      // the field as it stands, with its tag

 private:
  bool varint(uint64_t* value) {
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      *value |= static_cast<uint64_t>(byte & 127) << shift;
      if (byte < 128) return true;
    }
    return false;
  }

  bool take(uint64_t size, std::string_view* bytes) {
    if (size > rest_.size()) return false;
    *bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return true;
  }

  std::string_view rest_;
  std::string_view bytes_;
  std::string_view raw_;
  uint64_t value_ = 0;
  int number_ = 0;
};

// The first of packed varints; 0 if there is none.
inline uint64_t read_varint(std::string_view bytes) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(bytes.front());
    bytes.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 127) << shift;
    if (byte < 128) return value;
  }
  return 0;
}

// -- Writing: each appends one field to a message ------------------------------------------------------------

inline void append_varint(std::string* out, uint64_t value) {
  for (; value >= 128; value >>= 7) out->push_back(static_cast<char>(value | 128));
  out->push_back(static_cast<char>(value));
}

inline void append_integer(std::string* out, int number, uint64_t value) {
  append_varint(out, static_cast<uint64_t>(number) << 3);
  append_varint(out, value);
}

inline void append_bytes(std::string* out, int number, std::string_view bytes) {
  append_varint(out, static_cast<uint64_t>(number) << 3 | 2);
  append_varint(out, bytes.size());
  out->append(bytes);
}

inline void append_float(std::string* out, int number, float value) {
  append_varint(out, static_cast<uint64_t>(number) << 3 | 5);
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out->append(bytes, sizeof bytes);
}

}  // namespace unihal::tensorflow
