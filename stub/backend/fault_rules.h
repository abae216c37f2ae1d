// The rules of fault injection (unihal/fault_injection.h): from their text to what calls are compared with.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "unihal/op.h"

namespace unihal::stub {

// What a rule is about, and what a call is.
enum class FaultTarget { kAllocation, kLaunch, kCopy, kDevice, kSpeed };

// Which of a rule's calls it applies to.
enum class FaultCondition { kAlways, kEvery, kAfter, kNumber };

struct FaultRule {
  std::string text;  // as it was given
  FaultTarget target = FaultTarget::kAllocation;
  uhal_op_kind kind = UHAL_OP_INVALID;  // launch: of this kind only; UHAL_OP_INVALID: of every kind
  uhal_map_function function = -1;      // map: of this function only; -1: of every function
  FaultCondition condition = FaultCondition::kAlways;
  uint64_t number = 0;        // of the condition
  bool asynchronous = false;  // the error sticks to the stream
  double slowdown = 1;        // slow: work takes so many times as long

  // Whether the rule is about a launch of this op.
  bool covers(const uhal_op& op) const;

  // Whether it applies to its call number `call`, counted from 1.
  bool applies_to(uint64_t call) const;
};

// Appends the rules in `text` to *rules. If it is wrong: false, and *complaint names the rule, its place, and what was
// expected; *rules is then undefined.
bool parse_fault_rules(const std::string& text, std::vector<FaultRule>* rules, std::string* complaint);

}  // namespace unihal::stub
