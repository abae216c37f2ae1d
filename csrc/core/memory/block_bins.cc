#include "csrc/core/memory/block_bins.h"

namespace unihal::core {

int BlockBins::bin_of(size_t bytes) {
  int shift = 63 - __builtin_clzll(bytes | (size_t{1} << kSmallestShift));
  int within = static_cast<int>(bytes >> (shift - kClassShift)) & ((1 << kClassShift) - 1);
  int bin = ((shift - kSmallestShift) << kClassShift) + within;
  return bin < kBinCount ? bin : kBinCount - 1;
}

int BlockBins::next_bin(int from) const {
  if (from >= kBinCount) return kBinCount;
  int word = from / 64;
  uint64_t bits = filled_[word] & (~uint64_t{0} << (from % 64));
  while (bits == 0) {
    if (++word == kWordCount) return kBinCount;
    bits = filled_[word];
  }
  return word * 64 + __builtin_ctzll(bits);
}

void BlockBins::insert(Block* block) {
  int bin = bin_of(block->bytes);
  block->previous_in_bin = nullptr;
  block->next_in_bin = heads_[bin];
  if (heads_[bin] != nullptr) heads_[bin]->previous_in_bin = block;
  heads_[bin] = block;
  filled_[bin / 64] |= uint64_t{1} << (bin % 64);
}

void BlockBins::remove(Block* block) {
  int bin = bin_of(block->bytes);
  if (block->previous_in_bin != nullptr) {
    block->previous_in_bin->next_in_bin = block->next_in_bin;
  } else {
    heads_[bin] = block->next_in_bin;
  }
  if (block->next_in_bin != nullptr) block->next_in_bin->previous_in_bin = block->previous_in_bin;
  if (heads_[bin] == nullptr) filled_[bin / 64] &= ~(uint64_t{1} << (bin % 64));
}

Block* BlockBins::best_fit(size_t bytes) const {
  // A class spans an eighth of a power of two, so a look at a few of its blocks is nearly the best fit.
  constexpr int kLooks = 16;
  for (int bin = next_bin(bin_of(bytes)); bin < kBinCount; bin = next_bin(bin + 1)) {
    Block* best = nullptr;
    int looks = 0;
    for (Block* block = heads_[bin]; block != nullptr; block = block->next_in_bin) {
      if (block->bytes >= bytes && (best == nullptr || block->bytes < best->bytes)) best = block;
      if (block->bytes == bytes || (++looks >= kLooks && best != nullptr)) break;
    }
    if (best != nullptr) return best;
  }
  return nullptr;
}

size_t BlockBins::largest() const {
  for (int word = kWordCount - 1; word >= 0; --word) {
    if (filled_[word] == 0) continue;
    size_t largest = 0;
    for (Block* block = heads_[word * 64 + 63 - __builtin_clzll(filled_[word])]; block != nullptr;
         block = block->next_in_bin) {
      if (block->bytes > largest) largest = block->bytes;
    }
    return largest;
  }
  return 0;
}

bool BlockBins::empty() const { return next_bin(0) == kBinCount; }

}  // namespace unihal::core
