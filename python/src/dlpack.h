// The DLPack exchange format, as its specification (version 1.0) lays it out.
#pragma once

#include <cstdint>

namespace unihal::python::dlpack {

enum DeviceType : int32_t { kCpu = 1 };
enum TypeCode : uint8_t {
  kInt = 0,
  kUint = 1,
  kFloat = 2,
  kBfloat = 4,
  kComplex = 5,
  kBool = 6,
  kFloat8E4m3fn = 10,
  kFloat8E5m2 = 12
};

struct DataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};

struct Device {
  int32_t type;
  int32_t id;
};

struct Tensor {
  void* data;
  Device device;
  int32_t rank;
  DataType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; NULL: dense, row-major
  uint64_t byte_offset;
};

// What a capsule named "dltensor" holds.
struct ManagedTensor {
  Tensor tensor;
  void* context;
  void (*deleter)(ManagedTensor* self);
};

// What a capsule named "dltensor_versioned" holds.
struct VersionedTensor {
  uint32_t major;
  uint32_t minor;
  void* context;
  void (*deleter)(VersionedTensor* self);
  uint64_t flags;
  Tensor tensor;
};

constexpr uint64_t kFlagReadOnly = 1;
constexpr uint64_t kFlagCopied = 2;

}  // namespace unihal::python::dlpack
