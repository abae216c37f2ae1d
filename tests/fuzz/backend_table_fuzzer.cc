// Tables that a backend library might hand out: any length, NULL or missing slots, other versions, odd names.
#include <cstdlib>
#include <memory>

#include "csrc/core/backend/backend_table.h"
#include "tests/fuzz/byte_reader.h"
#include "tests/fuzz/expect.h"

namespace {

constexpr size_t kHeader = offsetof(uhal_backend, device_count);
constexpr size_t kSlots = (sizeof(uhal_backend) - kHeader) / sizeof(void*);

const char* const kNames[] = {nullptr, "", "fuzzed", "stub", "\xff\x01 name/../with\nodd bytes"};

uhal_status do_nothing() { return UHAL_OK; }

const void* slot_at(const uhal_backend& table, size_t number) {
  const void* slot;
  memcpy(&slot, reinterpret_cast<const char*>(&table) + kHeader + number * sizeof slot, sizeof slot);
  return slot;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::ByteReader input(data, size);
  uhal_backend whole = {};
  whole.struct_size = input.take<uint16_t>() % (sizeof whole + 64);
  whole.abi_major = input.byte() % 8 == 0 ? input.take<uint32_t>() : UHAL_ABI_MAJOR;
  whole.abi_minor = input.byte() % 8 == 0 ? input.take<uint32_t>() : input.byte() % 8;
  whole.name = kNames[input.below(5)];
  whole.version = kNames[input.below(5)];
  const std::string expected_name = input.below(2) == 0 ? "" : "fuzzed";
  for (size_t i = 0; i < kSlots; ++i) {
    const void* slot = input.byte() % 16 == 15 ? nullptr : reinterpret_cast<const void*>(&do_nothing);
    memcpy(reinterpret_cast<char*>(&whole) + kHeader + i * sizeof slot, &slot, sizeof slot);
  }
  // Exactly as long as it says, so that AddressSanitizer sees each read beyond. Bytes past what this core knows are a
  // later minor's.
  const size_t readable = whole.struct_size < sizeof whole.struct_size ? sizeof whole.struct_size : whole.struct_size;
  std::unique_ptr<void, decltype(&free)> memory(calloc(1, readable), free);
  memcpy(memory.get(), &whole, readable < sizeof whole ? readable : sizeof whole);
  const auto* table = static_cast<const uhal_backend*>(memory.get());

  const std::string fault = unihal::core::check_backend_table(table, expected_name);
  if (!fault.empty()) return 0;
  FUZZ_EXPECT(table->abi_major == UHAL_ABI_MAJOR);
  FUZZ_EXPECT(expected_name.empty() || expected_name == table->name);
  const uhal_backend usable = unihal::core::usable_backend_table(table);
  for (size_t i = 0; i < kSlots; ++i) {
    const bool has = kHeader + (i + 1) * sizeof(void*) <= table->struct_size;
    const void* slot = slot_at(usable, i);
    FUZZ_EXPECT(slot == nullptr || (has && slot == slot_at(whole, i)));
  }
  FUZZ_EXPECT(usable.launch != nullptr && usable.device_count != nullptr);
  return 0;
}
