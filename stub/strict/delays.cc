#include "stub/strict/delays.h"

namespace unihal::stub::strict {
namespace {

// Of 256 commands, how many are delayed in which way. On average a command waits for some 10 us.
struct Share {
  Delay::Kind kind;
  uint64_t of_256;
  int64_t longest_microseconds;
};
constexpr Share kShares[] = {
    {Delay::kHold, 1, 2000},
    {Delay::kSleep, 7, 300},
    {Delay::kYield, 32, 0},
};

}  // namespace

Delays::Delays(uint64_t seed, uint64_t stream) : state_(seed) {
  state_ = random() ^ stream;
  random();
}

// SplitMix64: neighbouring seeds give unrelated sequences.
uint64_t Delays::random() {
  state_ += 0x9E3779B97F4A7C15;
  uint64_t mixed = state_;
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB;
  return mixed ^ (mixed >> 31);
}

Delay Delays::next() {
  const uint64_t drawn = random();
  uint64_t share = drawn & 255;
  for (const Share& row : kShares) {
    if (share < row.of_256) {
      const int64_t longest = row.longest_microseconds;
      // A stream that is held back is held for the whole time; sleeps are of all lengths.
      const int64_t length = row.kind == Delay::kHold || longest == 0
                                 ? longest
                                 : static_cast<int64_t>((drawn >> 8) % static_cast<uint64_t>(longest + 1));
      return {row.kind, std::chrono::microseconds(length)};
    }
    share -= row.of_256;
  }
  return {};
}

}  // namespace unihal::stub::strict
