// Reads protobuf messages field by field: the little that GraphDef and NodeDef need, without the protobuf library,
// whose version TensorFlow fixes.
#pragma once

#include <cstdint>
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
        good = take(8, nullptr);
        break;
      case 2: {
        uint64_t size = 0;
        good = varint(&size) && take(size, &bytes_);
        break;
      }
      case 5:
        good = take(4, nullptr);
        break;
      default:
        break;
    }
    raw_ = std::string_view(start, static_cast<size_t>(rest_.data() - start));
    return good;
  }

  int number() const { return number_; }
  uint64_t value() const { return value_; }          // of a varint field
  std::string_view bytes() const { return bytes_; }  // of a string, bytes or message field
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
    if (bytes != nullptr) *bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return true;
  }

  std::string_view rest_;
  std::string_view bytes_;
  std::string_view raw_;
  uint64_t value_ = 0;
  int number_ = 0;
};

}  // namespace unihal::tensorflow
