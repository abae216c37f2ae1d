#include "csrc/core/memory/segment.h"

namespace unihal::core {

Segment::Segment(char* base, size_t bytes, size_t granule)
    : base(base),
      bytes(bytes),
      granule(granule),
      starts(new uint64_t[bytes / granule / 64 + 1]()),
      blocks(new Block*[bytes / granule + 1]) {}

void Segment::add_start(Block* block) {
  size_t index = static_cast<size_t>(block->address - base) / granule;
  starts[index / 64] |= uint64_t{1} << (index % 64);
  blocks[index] = block;
}

void Segment::remove_start(const Block* block) {
  size_t index = static_cast<size_t>(block->address - base) / granule;
  starts[index / 64] &= ~(uint64_t{1} << (index % 64));
}

Block* Segment::find(const char* address) const {
  size_t index = static_cast<size_t>(address - base) / granule;
  size_t word = index / 64;
  // The bits up to and including the address's own granule; a segment's first granule always begins a block.
  uint64_t bits = starts[word] & (~uint64_t{0} >> (63 - index % 64));
  while (bits == 0) bits = starts[--word];
  return blocks[word * 64 + 63 - static_cast<size_t>(__builtin_clzll(bits))];
}

}  // namespace unihal::core
