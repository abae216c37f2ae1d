// What a launch of a kernel passes to it: its work-items and its arguments.
#ifndef UNIHAL_KERNELS_KERNEL_LAUNCH_H_
#define UNIHAL_KERNELS_KERNEL_LAUNCH_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "csrc/kernels/kernel_spec.h"

namespace unihal::kernels {

// The work-items of a launch, along three axes. Kernels check their bounds themselves.
struct Grid {
  int64_t groups[3] = {1, 1, 1};
  int32_t group_size[3] = {1, 1, 1};
  int32_t local_bytes = 0;  // of UHAL_LAUNCHED_LOCAL_MEMORY; always the same for a spec
};

// `count` items along one axis, in groups of `group_size`; as many groups as it takes, or as `most_items` fill: what a
// 32-bit INDEX counts lies in the grid, and of more the kernel's UHAL_FOR_ITEMS has the rest.
inline Grid linear_grid(int64_t count, int32_t group_size, int64_t most_items = INT32_MAX) {
  Grid grid;
  const int64_t groups = (count + group_size - 1) / group_size;
  const int64_t most_groups = most_items / group_size;
  grid.groups[0] = groups < 1 ? 1 : groups > most_groups ? most_groups : groups;
  grid.group_size[0] = group_size;
  return grid;
}

// The arguments of a kernel, in order. A kernel declares them with UHAL_POINTER and as plain values.
class Arguments {
 public:
  static constexpr int kMaxItems = 48;
  static constexpr int kMaxBytes = 2048;  // of all values, each aligned to 16
  enum Kind : uint8_t { kPointer, kValue };
  struct Item {
    Kind kind;
    uint16_t bytes;
    uint16_t offset;  // of a value, in data()
  };

  // A device address, at any offset inside its allocation, or NULL (an absent operand, which the kernel must not
  // touch).
  Arguments& pointer(const void* address) {
    add(kPointer, &address, sizeof address);
    return *this;
  }
  Arguments& int32(int32_t value) { return value_of(value); }
  Arguments& int64(int64_t value) { return value_of(value); }
  Arguments& float32(float value) { return value_of(value); }
  Arguments& float64(double value) { return value_of(value); }

  // A value of the compute type (the dialect's T).
  Arguments& real(double value, Compute type);

  // A struct passed by value. Its layout must be the same in C++ and in the dialect: order members by falling size.
  template <class Struct>
  Arguments& value_of(const Struct& value) {
    add(kValue, &value, sizeof value);
    return *this;
  }

  // The same, for a struct whose size is known at run time.
  Arguments& bytes(const void* data, size_t size) {
    add(kValue, data, size);
    return *this;
  }

  // Another address in the place of a pointer.
  void set_pointer(int index, const void* address) { memcpy(value(index), &address, sizeof address); }

  // Where a value lies, to write another one of the same size.
  void* value(int index) { return bytes_ + items_[index].offset; }

  // Becomes a copy of another list, without copying the room that it does not use.
  void assign(const Arguments& other) {
    count_ = other.count_;
    used_ = other.used_;
    memcpy(items_, other.items_, sizeof(Item) * static_cast<size_t>(count_));
    memcpy(bytes_, other.bytes_, static_cast<size_t>(used_));
  }

  int count() const { return count_; }
  const Item& item(int index) const { return items_[index]; }
  const void* data(int index) const { return bytes_ + items_[index].offset; }
  const void* address(int index) const {
    const void* value;
    memcpy(&value, data(index), sizeof value);
    return value;
  }

 private:
  // Inline, so that the size is a constant.
  void add(Kind kind, const void* data, size_t bytes) {
    const int offset = (used_ + 15) / 16 * 16;
    if (count_ == kMaxItems || offset + bytes > kMaxBytes) abort();  // a mistake in an op's own code
    memcpy(bytes_ + offset, data, bytes);
    items_[count_++] = {kind, static_cast<uint16_t>(bytes), static_cast<uint16_t>(offset)};
    used_ = offset + static_cast<int>(bytes);
  }

  int count_ = 0;
  int used_ = 0;
  Item items_[kMaxItems];
  alignas(16) char bytes_[kMaxBytes];
};

}  // namespace unihal::kernels

#endif  // UNIHAL_KERNELS_KERNEL_LAUNCH_H_
