// The memory of launches that are held back, and which others may join them: those that read and write nothing that one
// of them writes, and write nothing that one of them reads.
#ifndef UNIHAL_KERNELS_HELD_RANGES_H_
#define UNIHAL_KERNELS_HELD_RANGES_H_

#include <cstdint>
#include <cstdlib>

namespace unihal::kernels {

// Bytes from `begin` to before `end`; with a pitch only `length` of each so many, from the first one on.
struct HeldRange {
  uintptr_t begin;
  uintptr_t end;
  uintptr_t pitch = 0;
  uintptr_t length = 0;

  bool meets(const HeldRange& other) const { return begin < other.end && other.begin < end; }

  bool overlaps(const HeldRange& other) const {
    if (!meets(other)) return false;
    if (pitch == 0 || pitch != other.pitch) return true;
    const HeldRange& first = begin <= other.begin ? *this : other;
    const HeldRange& second = begin <= other.begin ? other : *this;
    const uintptr_t apart = (second.begin - first.begin) % pitch;
    return apart < first.length || apart + second.length > pitch;
  }
};

template <int kMostWrites, int kMostReads>
class HeldRanges {
 public:
  void clear() { write_count_ = read_count_ = 0; }

  bool allows_write(const HeldRange& range) const {
    return !is_among(writes_, write_count_, range) && !is_among(reads_, read_count_, range);
  }
  bool allows_read(const HeldRange& range) const { return !is_among(writes_, write_count_, range); }

  void add_write(const HeldRange& range) {
    if (write_count_ == kMostWrites) abort();  // a mistake of the caller's
    writes_[write_count_++] = range;
  }
  void add_read(const HeldRange& range) {
    if (read_count_ == kMostReads) abort();
    reads_[read_count_++] = range;
  }

 private:
  static bool is_among(const HeldRange* ranges, int count, const HeldRange& wanted) {
    bool meets = false;  // without a branch for each, so that several are compared at a time
    for (int i = 0; i < count; ++i) meets |= ranges[i].meets(wanted);
    for (int i = 0; meets && i < count; ++i) {
      if (ranges[i].overlaps(wanted)) return true;
    }
    return false;
  }

  int write_count_ = 0;
  int read_count_ = 0;
  HeldRange writes_[kMostWrites];
  HeldRange reads_[kMostReads];
};

}  // namespace unihal::kernels

#endif  // UNIHAL_KERNELS_HELD_RANGES_H_
