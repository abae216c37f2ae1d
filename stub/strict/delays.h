// When a stream's thread dawdles, so that work which needs a synchronization that is missing meets the unfinished state
// of other work. The decisions are a function of the seed and the stream's number.
#pragma once

#include <chrono>
#include <cstdint>

namespace unihal::stub::strict {

// What to do before a command.
struct Delay {
  enum Kind {
    kNone,
    kYield,  // let other threads run
    kSleep,  // for `length`
    kHold,   // until somebody waits for the stream, at most for `length`
  };
  Kind kind = kNone;
  std::chrono::microseconds length{0};
};

class Delays {
 public:
  // `stream`: the stream's number in order of creation.
  Delays(uint64_t seed, uint64_t stream);

  Delay next();

 private:
  uint64_t random();

  uint64_t state_;
};

}  // namespace unihal::stub::strict
