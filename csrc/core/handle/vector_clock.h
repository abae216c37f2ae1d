// Vector clocks: which work has surely run before which.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace unihal::core {

// One piece of work: the agent that it was submitted to, and how many there were on that agent by then. An agent is
// the slot of a stream; the count goes on when a later stream takes the slot, whose creation comes after the end of
// the earlier one. The host has no count of its own: nothing that it does itself is kept.
struct Moment {
  uint32_t agent = 0;
  uint64_t time = 0;
};

// For each agent, the last of its work that comes before something.
class VectorClock {
 public:
  bool includes(Moment moment) const { return moment.agent < times_.size() && times_[moment.agent] >= moment.time; }

  // Whatever comes before the other comes before this as well.
  void join(const VectorClock& other) {
    if (times_.size() < other.times_.size()) times_.resize(other.times_.size());
    for (size_t i = 0; i < other.times_.size(); ++i) times_[i] = std::max(times_[i], other.times_[i]);
  }

  // The agent's next work.
  Moment tick(uint32_t agent) {
    if (times_.size() <= agent) times_.resize(agent + 1);
    return {agent, ++times_[agent]};
  }

 private:
  std::vector<uint64_t> times_;  // agents beyond the end: 0
};

}  // namespace unihal::core
