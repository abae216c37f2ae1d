// Who touched which bytes last: what a new access must be ordered after.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "csrc/core/check/byte_set.h"
#include "csrc/core/handle/vector_clock.h"
#include "unihal/device.h"

namespace unihal::core {

// An operand of a piece of work.
struct Operand {
  const char* role;  // static
  bool writes;       // perhaps it reads as well
  ByteSet bytes;
};

// Something that was submitted to a stream, or a free; as a report speaks of it.
struct Work {
  std::string text;
  std::string site;
  uhal_device* device = nullptr;
  uint64_t stream = 0;  // its number, or kHost
  Moment moment;
  std::vector<Operand> operands;

  static constexpr uint64_t kHost = UINT64_MAX;
};

// One operand of some work. Copies share the work.
struct Access {
  std::shared_ptr<const Work> work;
  size_t index = 0;

  const Operand& operand() const { return work->operands[index]; }
  bool operator==(const Access& other) const { return work == other.work && index == other.index; }
};

// The last accesses of each byte, for the whole process (addresses are unique in it).
//
// Accesses of whole ranges are kept in cells: disjoint ranges of bytes that were touched alike, each with its last
// write and the reads since. An access cuts the cells at its ends; a write makes what it covers one cell. Accesses of
// interleaved views (columns of a matrix) are kept beside them as they are. So there are no more records than ranges
// in use, however often they are used.
//
// An access that comes before another which covers it is dropped: what is ordered after the later is ordered after
// the earlier. Not thread-safe.
class AccessHistory {
 public:
  // The kept accesses that have a byte in common with `access`, if either of them writes, and that do not come before
  // it. `before` is the clock of its work.
  std::vector<Access> conflicts(const Access& access, const VectorClock& before) const;

  // Keeps an access from now on.
  void add(const Access& access, const VectorClock& before);

  // Drops what is known of a range, whose memory is another's from now on. Views do not reach over its ends.
  void forget(uintptr_t begin, uintptr_t end);

  // Drops what comes before `seen`, and so before all work to come. forget_old() does so when that is worth its time:
  // whenever twice as much is kept as was left the last time.
  void forget_before(const VectorClock& seen);
  void forget_old(const VectorClock& seen);

  // Cells and interleaved accesses.
  size_t size() const;

 private:
  struct Cell {
    uintptr_t end;
    Access write;  // none: work is nullptr
    std::vector<Access> reads;
  };
  using Cells = std::map<uintptr_t, Cell>;         // by the first byte
  using Views = std::multimap<uintptr_t, Access>;  // likewise
  static constexpr size_t kFewRecords = 4096;
  static constexpr size_t kSpanClasses = 64;  // views of less than 2 << i bytes from first to last

  Cells::const_iterator first_cell(uintptr_t address) const;
  Cells::iterator cut(uintptr_t address);
  void add_write(const Access& access);
  void add_read(const Access& access, const VectorClock& before);
  void add_view(const Access& access, const VectorClock& before);
  void forget_views(uintptr_t begin, uintptr_t end);
  template <class Visitor>
  void visit_views(uintptr_t begin, uintptr_t end, Visitor&& visit) const;

  Cells cells_;
  std::array<Views, kSpanClasses> views_;
  size_t worth_forgetting_ = kFewRecords;  // forget_old() waits for so many records
};

}  // namespace unihal::core
