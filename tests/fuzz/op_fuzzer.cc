// uhal_supports and uhal_launch of the stub with any op: what is wrong is refused with a reason, what is sound touches
// its views and nothing else.
#include <sanitizer/asan_interface.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "tests/fuzz/expect.h"
#include "tests/fuzz/op_builder.h"
#include "unihal/memory.h"
#include "unihal/profiler.h"

namespace {

constexpr size_t kArenaBytes = 1 << 20;
constexpr int64_t kMostElements = 1 << 13;  // more would be sound, and take its time

uhal_device* device = nullptr;
uhal_stream* stream = nullptr;
fuzz::Arena arena;

// The bytes of the arena that a view covers, by the same rule as tensor.h; none if it reaches outside.
bool part_of_arena(const uhal_tensor& view, char** begin, size_t* bytes) {
  using Wide = __int128;
  const Wide size = static_cast<Wide>(uhal_dtype_size(view.dtype));
  if (size == 0 || view.rank < 0 || view.rank > UHAL_MAX_RANK) return false;
  Wide low = reinterpret_cast<uintptr_t>(view.data);
  Wide high = low + size;
  for (int i = 0; i < view.rank; ++i) {
    if (view.shape[i] <= 0) return false;
    const Wide reach = (static_cast<Wide>(view.shape[i]) - 1) * view.strides[i];
    const Wide limit = static_cast<Wide>(1) << 70;
    if (reach > limit || reach < -limit) return false;
    (reach < 0 ? low : high) += reach * size;
  }
  const Wide start = reinterpret_cast<uintptr_t>(arena.base);
  if (low < start || high > start + static_cast<Wide>(arena.bytes)) return false;
  *begin = arena.base + static_cast<size_t>(low - start);
  *bytes = static_cast<size_t>(high - low);
  return true;
}

// The operands' bytes: reachable as long as this lives, and filled with what is left of the input. All other bytes of
// the arena stay poisoned.
class OperandMemory {
 public:
  OperandMemory(const fuzz::BuiltOp& op, const fuzz::ByteReader& input) {
    for (const auto& view : op.operands()) {
      char* begin;
      size_t bytes;
      if (view == nullptr || !part_of_arena(*view, &begin, &bytes)) continue;
      ASAN_UNPOISON_MEMORY_REGION(begin, bytes);
      parts_.emplace_back(begin, bytes);
      memset(begin, 0, bytes);
      for (size_t at = 0; input.rest_size() > 0 && at < bytes; at += input.rest_size()) {
        memcpy(begin + at, input.rest(), std::min(input.rest_size(), bytes - at));
      }
    }
  }
  ~OperandMemory() {
    for (auto [begin, bytes] : parts_) ASAN_POISON_MEMORY_REGION(begin, bytes);
  }

 private:
  std::vector<std::pair<char*, size_t>> parts_;
};

void expect_reason(uhal_status status) {
  FUZZ_EXPECT(status == UHAL_INVALID_ARGUMENT || status == UHAL_UNIMPLEMENTED || status == UHAL_RESOURCE_EXHAUSTED);
  FUZZ_EXPECT(uhal_last_error()->status == status);
  FUZZ_EXPECT(uhal_last_error()->message[0] != '\0');
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  const char* name = nullptr;
  FUZZ_EXPECT(uhal_backend_load(STUB_LIBRARY, &name) == UHAL_OK);
  FUZZ_EXPECT(uhal_select_backend(name) == UHAL_OK);
  FUZZ_EXPECT(uhal_device_get("rdna", 0, &device) == UHAL_OK);
  FUZZ_EXPECT(uhal_stream_create(device, &stream) == UHAL_OK);
  void* memory = nullptr;
  FUZZ_EXPECT(uhal_allocate(device, stream, UHAL_MEMORY_DEVICE, kArenaBytes, &memory) == UHAL_OK);
  arena = {static_cast<char*>(memory), kArenaBytes};
  ASAN_POISON_MEMORY_REGION(arena.base, arena.bytes);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::ByteReader input(data, size);
  const bool profiled = input.byte() % 16 == 15;  // adds the op's description and cost
  const fuzz::BuiltOp op(input, arena);
  const OperandMemory memory(op, input);

  const uhal_status supported = uhal_supports(device, op.get());
  if (supported != UHAL_OK) expect_reason(supported);
  if (op.elements() > kMostElements) return 0;
  if (profiled) FUZZ_EXPECT(uhal_profiler_start() == UHAL_OK);
  const uhal_status launched = uhal_launch(stream, op.get());
  if (launched != UHAL_OK) expect_reason(launched);
  FUZZ_EXPECT(supported != UHAL_OK ? launched != UHAL_OK : launched != UHAL_UNIMPLEMENTED);
  if (profiled) {
    FUZZ_EXPECT(uhal_profiler_stop() == UHAL_OK);
    uhal_profiler_clear();
  }
  // An index outside its axis is the stream's error.
  const uhal_status finished = uhal_stream_synchronize(stream);
  FUZZ_EXPECT(finished == UHAL_OK || finished == UHAL_OUT_OF_RANGE);
  return 0;
}
