#include "stub/backend/faults.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include "stub/common/kernels.h"

namespace unihal::stub {

std::atomic<bool> has_fault_rules{false};

namespace {

// A rule in force.
struct Counted {
  FaultRule rule;
  uint64_t calls = 0;
};

// Behind a lock: whoever injects faults does not time the calls.
struct State {
  std::mutex mutex;
  std::vector<Counted> rules;
  std::string lost_by;  // the rule that took the device away; empty: it is there
  uhal_fault_counts counts = {sizeof(uhal_fault_counts)};
};

State& state() {
  static State* const instance = new State;  // never destroyed: threads may outlive static destructors
  return *instance;
}

// What each target's failure is called and looks like.
struct FailureText {
  uhal_status status;
  const char* what;
};
FailureText failure_of(FaultTarget target) {
  switch (target) {
    case FaultTarget::kAllocation:
      return {UHAL_RESOURCE_EXHAUSTED, "this allocation fails as if the device were out of memory"};
    case FaultTarget::kLaunch:
      return {UHAL_INTERNAL, "this launch fails"};
    case FaultTarget::kCopy:
      return {UHAL_INTERNAL, "this copy fails"};
    default:
      return {UHAL_UNAVAILABLE, "the device is lost, and every call fails until the rules are replaced"};
  }
}

std::string message_of(FaultTarget target, const std::string& rule) {
  return std::string("Injected fault: ") + failure_of(target).what + ". The rule '" + rule +
         "' (UNIHAL_STUB_FAULTS, or unihal.inject_faults) asks for it; remove the rule to go on without.";
}

// Counts a call against the rules of a target; the first rule that applies, or nullptr.
const FaultRule* count_against_rules(std::vector<Counted>& rules, FaultTarget target, const uhal_op* op) {
  const FaultRule* applying = nullptr;
  for (Counted& counted : rules) {
    const FaultRule& rule = counted.rule;
    if (rule.target != target || (op != nullptr && !rule.covers(*op))) continue;
    if (rule.applies_to(++counted.calls) && applying == nullptr) applying = &rule;
  }
  return applying;
}

uint64_t* count_of(uhal_fault_counts* counts, FaultTarget target) {
  switch (target) {
    case FaultTarget::kAllocation:
      return &counts->allocations;
    case FaultTarget::kLaunch:
      return &counts->launches;
    case FaultTarget::kCopy:
      return &counts->copies;
    default:
      return nullptr;
  }
}

// `origin` is what the complaint about wrong rules begins with.
uhal_status install_text(const char* text, const char* origin) {
  try {
    std::vector<FaultRule> rules;
    std::string complaint;
    if (!parse_fault_rules(text != nullptr ? text : "", &rules, &complaint)) {
      return fail(UHAL_INVALID_ARGUMENT, "%s: %s.", origin, complaint.c_str());
    }
    install_fault_rules(std::move(rules));
    return UHAL_OK;
  } catch (const std::bad_alloc&) {
    return fail(UHAL_RESOURCE_EXHAUSTED, "the host has no memory left for rules of fault injection");
  }
}

uhal_status set_rules(const char* text) { return install_text(text, "The rules of fault injection"); }

uhal_status get_counts(uhal_fault_counts* counts) {
  if (counts == nullptr || counts->struct_size < sizeof counts->struct_size) {
    return fail(UHAL_INVALID_ARGUMENT, "The counts of faults are %s; pass a struct with struct_size set to its size.",
                counts == nullptr ? "NULL" : "without a struct_size");
  }
  std::lock_guard<std::mutex> lock(state().mutex);
  const size_t known = std::min(counts->struct_size, sizeof *counts);
  std::memcpy(reinterpret_cast<char*>(counts) + sizeof(size_t),
              reinterpret_cast<const char*>(&state().counts) + sizeof(size_t), known - sizeof(size_t));
  return UHAL_OK;
}

}  // namespace

const uhal_fault_injection kFaultInjection = {sizeof(uhal_fault_injection), set_rules, get_counts};

void install_fault_rules(std::vector<FaultRule> rules) {
  std::vector<Counted> counted;
  for (FaultRule& rule : rules) counted.push_back({std::move(rule)});
  std::lock_guard<std::mutex> lock(state().mutex);
  state().rules.swap(counted);
  state().lost_by.clear();
  state().counts = {sizeof(uhal_fault_counts)};
  has_fault_rules.store(!state().rules.empty(), std::memory_order_relaxed);
}

uhal_status install_fault_rules_of_environment() {
  const char* text = std::getenv("UNIHAL_STUB_FAULTS");
  return text == nullptr || *text == '\0' ? UHAL_OK : install_text(text, "UNIHAL_STUB_FAULTS");
}

Fault next_fault(FaultTarget target, const uhal_op* op) {
  std::lock_guard<std::mutex> lock(state().mutex);
  State& s = state();
  if (uint64_t* count = count_of(&s.counts, target)) ++*count;
  const FaultRule* loss = count_against_rules(s.rules, FaultTarget::kDevice, nullptr);
  if (loss != nullptr && s.lost_by.empty()) s.lost_by = loss->text;
  const FaultRule* rule = target == FaultTarget::kDevice ? nullptr : count_against_rules(s.rules, target, op);
  if (!s.lost_by.empty()) {
    ++s.counts.injected;
    return {UHAL_UNAVAILABLE, false, message_of(FaultTarget::kDevice, s.lost_by)};
  }
  if (rule == nullptr) return {};
  ++s.counts.injected;
  return {failure_of(target).status, rule->asynchronous, message_of(target, rule->text)};
}

void SlowedWork::begin() {
  {
    std::lock_guard<std::mutex> lock(state().mutex);
    const FaultRule* rule = count_against_rules(state().rules, FaultTarget::kSpeed, nullptr);
    if (rule != nullptr) factor_ = rule->slowdown;
  }
  start_ = std::chrono::steady_clock::now();
}

void SlowedWork::end() {
  const std::chrono::duration<double> worked = std::chrono::steady_clock::now() - start_;
  std::this_thread::sleep_for(worked * (factor_ - 1));
}

}  // namespace unihal::stub
