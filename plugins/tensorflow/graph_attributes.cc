// A graph's attributes: those of nodes read, those of new nodes written.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/tensorflow/graph.h"
#include "plugins/tensorflow/graph_messages.h"
#include "plugins/tensorflow/protobuf.h"

namespace unihal::tensorflow {
namespace {

struct Entry {
  std::string_view name;
  std::string_view value;
};

Entry parse_entry(std::string_view message) {
  Entry entry;
  ProtobufReader fields(message);
  while (fields.next()) (fields.number() == kEntryKey ? entry.name : entry.value) = fields.bytes();
  return entry;
}

TF_DataType type_of(std::string_view value) {
  TF_DataType type = static_cast<TF_DataType>(0);
  ProtobufReader fields(value);
  while (fields.next()) {
    if (fields.number() == kValueType) type = static_cast<TF_DataType>(fields.value());
  }
  return type;
}

// By its bits; exact.
float half_to_float(uint16_t bits) {
  const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
  float magnitude =
      std::ldexp(static_cast<float>(exponent == 0 ? fraction : fraction + 1024), std::max(exponent, 1) - 25);
  if (exponent == 31) magnitude = fraction == 0 ? INFINITY : NAN;
  return (bits & 0x8000) == 0 ? magnitude : -magnitude;
}

float bfloat16_to_float(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value = 0;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

bool is_half(TF_DataType type) { return type == TF_HALF || type == TF_BFLOAT16; }

// The field of a tensor of this type that has its values where they are no bytes.
int values_field(TF_DataType type) {
  if (type == TF_FLOAT) return kTensorFloats;
  if (type == TF_INT64) return kTensorLongs;
  if (type == TF_BOOL) return kTensorBooleans;
  return is_half(type) ? kTensorHalves : kTensorIntegers;
}

}  // namespace

// A message with the attributes of a node.
std::string_view Graph::definition_of(int node) const {
  const Source& source = sources_[static_cast<size_t>(node)];
  return source.op_changed ? std::string_view(source.attributes) : source.message;
}

std::string_view Graph::attribute(int node, std::string_view name) const {
  std::string_view value;
  ProtobufReader fields(definition_of(node));
  while (fields.next()) {
    if (fields.number() != kNodeAttribute) continue;
    const Entry entry = parse_entry(fields.bytes());
    if (entry.name == name) value = entry.value;
  }
  return value;
}

TF_DataType Graph::type_attribute(int node, std::string_view name) const { return type_of(attribute(node, name)); }

TF_DataType Graph::main_type(int node) const {
  static constexpr std::string_view kPreferred[] = {"T", "dtype", "SrcT", "Tparams"};
  TF_DataType best = static_cast<TF_DataType>(0);
  std::ptrdiff_t best_rank = std::size(kPreferred) + 1;
  ProtobufReader fields(definition_of(node));
  while (fields.next()) {
    if (fields.number() != kNodeAttribute) continue;
    const Entry entry = parse_entry(fields.bytes());
    const TF_DataType type = type_of(entry.value);
    const std::ptrdiff_t rank = std::find(std::begin(kPreferred), std::end(kPreferred), entry.name) - kPreferred;
    if (type == 0 || rank >= best_rank) continue;
    best = type;
    best_rank = rank;
  }
  return best;
}

Types Graph::types(int node) const {
  Types result;
  ProtobufReader fields(definition_of(node));
  while (fields.next()) {
    if (fields.number() != kNodeAttribute) continue;
    const Entry entry = parse_entry(fields.bytes());
    std::vector<TF_DataType> types = parse_types(entry.value);
    if (!types.empty()) result.emplace(entry.name, std::move(types));
  }
  return result;
}

bool Graph::find_tensor(int node, std::string_view* tensor) const {
  if ((*this)[node].op != "Const" || is_exposed(node)) return false;
  ProtobufReader fields(attribute(node, "value"));
  while (fields.next()) {
    if (fields.number() == kValueTensor) *tensor = fields.bytes();
  }
  return true;
}

// Finds the value of a scalar constant, as raw bytes or as the field for its type; both are left out for a zero.
bool Graph::find_constant(int node, TF_DataType type, std::string_view* content, std::string_view* values) const {
  std::string_view tensor;
  if (!find_tensor(node, &tensor)) return false;
  bool fits = false;
  bool scalar = true;
  ProtobufReader parts(tensor);
  while (parts.next()) {
    if (parts.number() == kTensorType) fits = static_cast<TF_DataType>(parts.value()) == type;
    if (parts.number() == kTensorShape) scalar = parts.bytes().empty();
    if (parts.number() == kTensorContent) *content = parts.bytes();
    if (parts.number() == values_field(type)) *values = parts.bytes();
  }
  return fits && scalar;
}

bool Graph::scalar_constant(int node, float* value) const {
  std::string_view content, values;
  if (!find_constant(node, TF_FLOAT, &content, &values)) return false;
  const std::string_view bytes = values.empty() ? content : values;
  if (!bytes.empty() && bytes.size() != sizeof *value) return false;
  *value = 0;
  std::memcpy(value, bytes.data(), bytes.size());
  return true;
}

bool Graph::scalar_constant(int node, TF_DataType type, float* value) const {
  if (type == TF_FLOAT) return scalar_constant(node, value);
  std::string_view content, values;
  if (!is_half(type) || !find_constant(node, type, &content, &values)) return false;
  uint16_t bits = 0;
  if (!content.empty() && content.size() != sizeof bits) return false;
  std::memcpy(&bits, content.data(), content.size());
  if (!values.empty()) bits = static_cast<uint16_t>(read_varint(values));
  *value = type == TF_HALF ? half_to_float(bits) : bfloat16_to_float(bits);
  return true;
}

bool Graph::scalar_constant(int node, int32_t* value) const {
  std::string_view content, values;
  if (!find_constant(node, TF_INT32, &content, &values)) return false;
  if (!content.empty() && content.size() != sizeof *value) return false;
  *value = 0;
  std::memcpy(value, content.data(), content.size());
  if (!values.empty()) *value = static_cast<int32_t>(read_varint(values));
  return true;
}

bool Graph::scalar_constant(int node, int64_t* value) const {
  std::string_view content, values;
  if (!find_constant(node, TF_INT64, &content, &values)) return false;
  if (!content.empty() && content.size() != sizeof *value) return false;
  *value = 0;
  std::memcpy(value, content.data(), content.size());
  if (!values.empty()) *value = static_cast<int64_t>(read_varint(values));
  return true;
}

bool Graph::scalar_constant(int node, bool* value) const {
  std::string_view content, values;
  if (!find_constant(node, TF_BOOL, &content, &values)) return false;
  *value = (!content.empty() && content[0] != 0) || (!values.empty() && read_varint(values) != 0);
  return true;
}

namespace {

void append_varints(std::string_view packed, std::vector<int64_t>* values) {
  while (!packed.empty()) {
    values->push_back(static_cast<int64_t>(read_varint(packed)));
    size_t size = 1;
    while (size < packed.size() && (static_cast<uint8_t>(packed[size - 1]) & 128) != 0) ++size;
    packed.remove_prefix(size);
  }
}

}  // namespace

bool Graph::truth_constant(int node, std::vector<int64_t>* shape, std::vector<char>* values) const {
  constexpr int64_t kMost = int64_t{1} << 26;
  std::string_view tensor;
  if (!find_tensor(node, &tensor)) return false;
  bool fits = false;
  int64_t count = 1;
  shape->clear();
  values->clear();
  ProtobufReader parts(tensor);
  while (parts.next()) {
    if (parts.number() == kTensorType) fits = static_cast<TF_DataType>(parts.value()) == TF_BOOL;
    if (parts.number() == kTensorShape) {
      ProtobufReader dimensions(parts.bytes());
      while (dimensions.next()) {
        if (dimensions.number() != kShapeDimension) continue;
        int64_t length = 0;
        ProtobufReader sizes(dimensions.bytes());
        while (sizes.next()) {
          if (sizes.number() == kDimensionSize) length = static_cast<int64_t>(sizes.value());
        }
        if (length < 0 || length > kMost) return false;
        shape->push_back(length);
        count *= length;
        if (count > kMost) return false;
      }
    }
    if (parts.number() == kTensorContent) values->assign(parts.bytes().begin(), parts.bytes().end());
    if (parts.number() == values_field(TF_BOOL) && !parts.bytes().empty()) {
      values->insert(values->end(), parts.bytes().begin(), parts.bytes().end());  // a varint of 0 or 1 is a byte
    }
    if (parts.number() == values_field(TF_BOOL) && parts.bytes().empty()) {
      values->push_back(static_cast<char>(parts.value()));
    }
  }
  if (!fits) return false;
  values->resize(static_cast<size_t>(count), values->empty() ? 0 : values->back());
  return true;
}

bool Graph::vector_constant(int node, std::vector<int64_t>* values) const {
  values->clear();
  std::string_view tensor;
  if (!find_tensor(node, &tensor)) return false;
  bool fits = false;
  int64_t length = -1;
  int rank = 0;
  ProtobufReader parts(tensor);
  while (parts.next()) {
    if (parts.number() == kTensorType) fits = static_cast<TF_DataType>(parts.value()) == TF_INT32;
    if (parts.number() == kTensorShape) {
      ProtobufReader dimensions(parts.bytes());
      while (dimensions.next()) {
        if (dimensions.number() != kShapeDimension) continue;
        ++rank;
        length = 0;
        ProtobufReader sizes(dimensions.bytes());
        while (sizes.next()) {
          if (sizes.number() == kDimensionSize) length = static_cast<int64_t>(sizes.value());
        }
      }
    }
    if (parts.number() == kTensorContent) {
      for (size_t at = 0; at + sizeof(int32_t) <= parts.bytes().size(); at += sizeof(int32_t)) {
        int32_t value;
        std::memcpy(&value, parts.bytes().data() + at, sizeof value);
        values->push_back(value);
      }
    }
    if (parts.number() == kTensorIntegers && !parts.bytes().empty()) append_varints(parts.bytes(), values);
    if (parts.number() == kTensorIntegers && parts.bytes().empty()) {
      values->push_back(static_cast<int64_t>(parts.value()));
    }
  }
  if (!fits || rank != 1 || length < 0 || length > 64) return false;
  // What is left out repeats the last value, or is zero.
  values->resize(static_cast<size_t>(length), values->empty() ? 0 : values->back());
  return true;
}

std::string_view Graph::text(int node, std::string_view name) const {
  std::string_view value;
  ProtobufReader fields(attribute(node, name));
  while (fields.next()) {
    if (fields.number() == kValueString) value = fields.bytes();
  }
  return value;
}

bool Graph::flag(int node, std::string_view name) const {
  bool value = false;
  ProtobufReader fields(attribute(node, name));
  while (fields.next()) {
    if (fields.number() == kValueBool) value = fields.value() != 0;
  }
  return value;
}

int64_t Graph::integer(int node, std::string_view name) const {
  int64_t value = 0;
  ProtobufReader fields(attribute(node, name));
  while (fields.next()) {
    if (fields.number() == kValueInteger) value = static_cast<int64_t>(fields.value());
  }
  return value;
}

float Graph::real(int node, std::string_view name) const {
  float value = 0;
  ProtobufReader fields(attribute(node, name));
  while (fields.next()) {
    if (fields.number() == kValueFloat) std::memcpy(&value, fields.bytes().data(), sizeof value);
  }
  return value;
}

std::vector<int64_t> Graph::integers(int node, std::string_view name) const {
  std::vector<int64_t> values;
  ProtobufReader fields(attribute(node, name));
  while (fields.next()) {
    if (fields.number() != kValueList) continue;
    ProtobufReader entries(fields.bytes());
    while (entries.next()) {
      if (entries.number() != kListIntegers) continue;
      if (entries.bytes().empty()) {
        values.push_back(static_cast<int64_t>(entries.value()));
      } else {
        append_varints(entries.bytes(), &values);
      }
    }
  }
  return values;
}

Graph::Attributes Graph::attributes_of(int node) const {
  std::map<std::string_view, std::string_view> sorted;
  ProtobufReader fields(definition_of(node));
  while (fields.next()) {
    if (fields.number() != kNodeAttribute) continue;
    const Entry entry = parse_entry(fields.bytes());
    if (!entry.name.empty() && entry.name.front() != '_') sorted[entry.name] = entry.value;
  }
  Attributes attributes;
  for (const auto& [name, value] : sorted) attributes.set(name, value);
  return attributes;
}

void Graph::Attributes::set(std::string_view name, std::string_view value) {
  std::string entry;
  append_bytes(&entry, kEntryKey, name);
  append_bytes(&entry, kEntryValue, value);
  append_bytes(&encoded_, kNodeAttribute, entry);
}

void Graph::Attributes::set_type(std::string_view name, TF_DataType value) {
  std::string encoded;
  append_integer(&encoded, kValueType, static_cast<uint64_t>(value));
  set(name, encoded);
}

void Graph::Attributes::set_float(std::string_view name, float value) {
  std::string encoded;
  append_float(&encoded, kValueFloat, value);
  set(name, encoded);
}

void Graph::Attributes::set_bool(std::string_view name, bool value) {
  std::string encoded;
  append_integer(&encoded, kValueBool, value ? 1 : 0);
  set(name, encoded);
}

void Graph::Attributes::set_integer(std::string_view name, int64_t value) {
  std::string encoded;
  append_integer(&encoded, kValueInteger, static_cast<uint64_t>(value));
  set(name, encoded);
}

void Graph::Attributes::set_types(std::string_view name, const std::vector<TF_DataType>& values) {
  std::string list, encoded;
  for (TF_DataType value : values) append_integer(&list, kListTypes, static_cast<uint64_t>(value));
  append_bytes(&encoded, kValueList, list);
  set(name, encoded);
}

void Graph::Attributes::set_integers(std::string_view name, const std::vector<int64_t>& values) {
  std::string list, encoded;
  for (int64_t value : values) append_integer(&list, kListIntegers, static_cast<uint64_t>(value));
  append_bytes(&encoded, kValueList, list);
  set(name, encoded);
}

void Graph::Attributes::set_floats(std::string_view name, const std::vector<float>& values) {
  std::string list, encoded;
  for (float value : values) append_float(&list, kListFloats, value);
  append_bytes(&encoded, kValueList, list);
  set(name, encoded);
}

void Graph::Attributes::set_vector(std::string_view name, const std::vector<int64_t>& values) {
  std::string size, shape, content, tensor, encoded;
  append_integer(&size, kDimensionSize, values.size());
  append_bytes(&shape, kShapeDimension, size);
  for (int64_t value : values) {
    const auto narrow = static_cast<int32_t>(value);
    content.append(reinterpret_cast<const char*>(&narrow), sizeof narrow);
  }
  append_integer(&tensor, kTensorType, static_cast<uint64_t>(TF_INT32));
  append_bytes(&tensor, kTensorShape, shape);
  append_bytes(&tensor, kTensorContent, content);
  append_bytes(&encoded, kValueTensor, tensor);
  set(name, encoded);
}

}  // namespace unihal::tensorflow
