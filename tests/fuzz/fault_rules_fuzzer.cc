// The text of fault rules (fault_injection.h), as in UNIHAL_STUB_FAULTS.
#include "stub/backend/fault_rules.h"
#include "tests/fuzz/expect.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  std::vector<unihal::stub::FaultRule> rules;
  std::string complaint;
  if (!unihal::stub::parse_fault_rules(text, &rules, &complaint)) {
    FUZZ_EXPECT(!complaint.empty());
    return 0;
  }
  FUZZ_EXPECT(complaint.empty());
  for (const unihal::stub::FaultRule& rule : rules) {
    FUZZ_EXPECT(rule.slowdown >= 1 && rule.slowdown <= 1e9);
    for (uint64_t call : {uint64_t{1}, uint64_t{2}, rule.number, rule.number + 1, UINT64_MAX}) rule.applies_to(call);
    // A rule means the same by itself.
    std::vector<unihal::stub::FaultRule> alone;
    FUZZ_EXPECT(unihal::stub::parse_fault_rules(rule.text, &alone, &complaint) && alone.size() == 1);
    FUZZ_EXPECT(alone[0].target == rule.target && alone[0].kind == rule.kind && alone[0].number == rule.number);
  }
  return 0;
}
