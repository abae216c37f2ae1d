#include "stub/backend/fault_rules.h"

#include <cstdlib>

#include "csrc/backends/common/op_names.h"
#include "stub/backend/quoted.h"

namespace unihal::stub {
namespace {

struct TargetName {
  const char* name;
  FaultTarget target;
};
constexpr TargetName kTargets[] = {
    {"alloc", FaultTarget::kAllocation},   {"launch", FaultTarget::kLaunch}, {"copy", FaultTarget::kCopy},
    {"device-lost", FaultTarget::kDevice}, {"slow", FaultTarget::kSpeed},
};
constexpr char kTargetsExpected[] = "alloc, launch, copy, device-lost or slow";

struct ConditionName {
  const char* prefix;
  FaultCondition condition;
  uint64_t least;
};
constexpr ConditionName kConditions[] = {
    {"every=", FaultCondition::kEvery, 1},
    {"after=", FaultCondition::kAfter, 0},
    {"nth=", FaultCondition::kNumber, 1},
};

constexpr double kLargestSlowdown = 10000;

// A piece of the text, and where it begins.
struct Piece {
  std::string text;
  size_t place = 0;
};

std::vector<Piece> split(const Piece& whole, char separator) {
  std::vector<Piece> pieces;
  size_t begin = 0;
  while (true) {
    const size_t end = whole.text.find(separator, begin);
    pieces.push_back({whole.text.substr(begin, end - begin), whole.place + begin});
    if (end == std::string::npos) return pieces;
    begin = end + 1;
  }
}

bool parse_number(const std::string& text, uint64_t least, uint64_t* number) {
  if (text.empty() || text.size() > 19 || text.find_first_not_of("0123456789") != std::string::npos) return false;
  *number = std::strtoull(text.c_str(), nullptr, 10);
  return *number >= least;
}

// Digits, optionally with a point and digits: what strtod takes is far more, and depends on the locale.
bool parse_slowdown(const std::string& text, double* factor) {
  const size_t point = text.find('.');
  uint64_t whole = 0;
  if (!parse_number(text.substr(0, point), 0, &whole)) return false;
  *factor = static_cast<double>(whole);
  if (point != std::string::npos) {
    const std::string digits = text.substr(point + 1);
    uint64_t fraction = 0;
    if (!parse_number(digits, 0, &fraction)) return false;
    double scaled = static_cast<double>(fraction);
    for (size_t i = 0; i < digits.size(); ++i) scaled /= 10;
    *factor += scaled;
  }
  return *factor >= 1 && *factor <= kLargestSlowdown;
}

// One rule's text, read piece by piece.
class RuleParser {
 public:
  RuleParser(const Piece& text, size_t number, std::string* complaint)
      : text_(text), number_(number), complaint_(complaint) {}

  bool parse(FaultRule* rule) {
    rule->text = text_.text;
    const std::vector<Piece> pieces = split(text_, ':');
    if (!parse_target(pieces[0], rule)) return false;
    for (size_t i = 1; i < pieces.size(); ++i) {
      if (!parse_part(pieces[i], i == 1, rule)) return false;
    }
    if (rule->target == FaultTarget::kSpeed && !has_slowdown_) {
      return complain(text_, "slow needs x and a factor, such as slow:x10");
    }
    return true;
  }

 private:
  bool parse_target(const Piece& piece, FaultRule* rule) {
    for (const TargetName& row : kTargets) {
      if (piece.text != row.name) continue;
      rule->target = row.target;
      return true;
    }
    return complain(piece, std::string("expected ") + kTargetsExpected);
  }

  bool parse_part(const Piece& piece, bool first, FaultRule* rule) {
    if (piece.text == "once") return set_condition(piece, FaultCondition::kNumber, 1, rule);
    for (const ConditionName& row : kConditions) {
      const std::string prefix = row.prefix;
      if (piece.text.compare(0, prefix.size(), prefix) != 0) continue;
      uint64_t number = 0;
      if (!parse_number(piece.text.substr(prefix.size()), row.least, &number)) {
        return complain(piece, "expected " + prefix + " and a whole number from " + std::to_string(row.least));
      }
      return set_condition(piece, row.condition, number, rule);
    }
    const bool is_work = rule->target == FaultTarget::kLaunch || rule->target == FaultTarget::kCopy;
    if (piece.text == "async" && is_work) {
      rule->asynchronous = true;
      return true;
    }
    if (rule->target == FaultTarget::kSpeed && piece.text.compare(0, 1, "x") == 0) {
      has_slowdown_ = true;
      return parse_slowdown(piece.text.substr(1), &rule->slowdown) ||
             complain(piece, "expected x and a factor from 1 to 10000, such as x10 or x1.5");
    }
    if (rule->target == FaultTarget::kLaunch && first && find_op(piece.text, &rule->kind, &rule->function)) return true;
    return complain(piece, expected_parts(*rule, first));
  }

  bool set_condition(const Piece& piece, FaultCondition condition, uint64_t number, FaultRule* rule) {
    if (rule->condition != FaultCondition::kAlways) return complain(piece, "the rule has a condition already");
    rule->condition = condition;
    rule->number = number;
    return true;
  }

  static std::string expected_parts(const FaultRule& rule, bool first) {
    std::string text = "expected ";
    if (rule.target == FaultTarget::kLaunch && first) text += "an op's name (such as matmul or map.relu), ";
    text += "every=N, after=N, nth=N";
    switch (rule.target) {
      case FaultTarget::kLaunch:
      case FaultTarget::kCopy:
        return text + ", once or async";
      case FaultTarget::kSpeed:
        return text + ", once or x and a factor";
      default:
        return text + " or once";
    }
  }

  bool complain(const Piece& piece, const std::string& what) {
    *complaint_ = "rule " + std::to_string(number_) + ", " + quoted(text_.text) + ", is wrong at character " +
                  std::to_string(piece.place + 1) + ", " + quoted(piece.text) + ": " + what;
    return false;
  }

  const Piece text_;
  const size_t number_;
  std::string* const complaint_;
  bool has_slowdown_ = false;
};

}  // namespace

bool FaultRule::covers(const uhal_op& op) const {
  if (kind == UHAL_OP_INVALID) return true;
  if (kind != op.kind) return false;
  return function < 0 || static_cast<const uhal_map_attributes*>(op.attributes)->function == function;
}

bool FaultRule::applies_to(uint64_t call) const {
  switch (condition) {
    case FaultCondition::kAlways:
      return true;
    case FaultCondition::kEvery:
      return call % number == 0;
    case FaultCondition::kAfter:
      return call > number;
    case FaultCondition::kNumber:
      return call == number;
  }
  return false;
}

bool parse_fault_rules(const std::string& text, std::vector<FaultRule>* rules, std::string* complaint) {
  if (text.empty()) return true;
  const std::vector<Piece> pieces = split({text, 0}, ',');
  for (size_t i = 0; i < pieces.size(); ++i) {
    FaultRule rule;
    if (!RuleParser(pieces[i], i + 1, complaint).parse(&rule)) return false;
    rules->push_back(std::move(rule));
  }
  return true;
}

}  // namespace unihal::stub
