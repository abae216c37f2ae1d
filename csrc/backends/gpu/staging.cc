#include "csrc/backends/gpu/staging.h"

#include <cstring>
#include <memory>

#include "csrc/backends/gpu/device.h"
#include "csrc/backends/gpu/status.h"

namespace unihal::gpu {
namespace {

constexpr size_t kLeastBytes = size_t{64} << 10;

// The host's part of a copy.
struct HostCopy {
  void* destination;
  const void* source;
  size_t bytes;

  static void run(void* given) {
    const std::unique_ptr<HostCopy> self(static_cast<HostCopy*>(given));
    std::memcpy(self->destination, self->source, self->bytes);
  }
};

}  // namespace

Staging::~Staging() {
  if (blocks_.empty() || device_.make_current() != UHAL_OK) return;
  for (const Block& block : blocks_) {
    static_cast<void>(api.event_destroy(block.passed));
    static_cast<void>(api.free_pinned(block.memory));
  }
}

bool Staging::is_needed(uhal_copy_kind kind, const void* destination, const void* source) {
  return kind != UHAL_COPY_DEVICE_TO_DEVICE && HostWork::is_outstanding() &&
         !Memory::is_pinned(kind == UHAL_COPY_HOST_TO_DEVICE ? source : destination);
}

uhal_status Staging::copy(HostWork& host_work, NativeStream stream, void* destination, const void* source, size_t bytes,
                          uhal_copy_kind kind) {
  Block* block = nullptr;
  if (const uhal_status status = take(bytes, &block); status != UHAL_OK) return status;
  const bool to_device = kind == UHAL_COPY_HOST_TO_DEVICE;
  auto host_copy = std::make_unique<HostCopy>(
      HostCopy{to_device ? block->memory : destination, to_device ? source : block->memory, bytes});
  const auto copy_on_host = [&]() -> int {
    const int code = host_work.submit(stream, HostCopy::run, host_copy.get());
    if (code == kSuccess) static_cast<void>(host_copy.release());
    return code;
  };
  int code = to_device ? copy_on_host() : vendor.copy(block->memory, source, bytes, stream);
  if (code == kSuccess) code = to_device ? vendor.copy(destination, block->memory, bytes, stream) : copy_on_host();
  // After a failure, too: the first half may have been submitted.
  const int recorded = api.event_record(block->passed, stream);
  if (code == kSuccess) code = recorded;
  return code == kSuccess ? UHAL_OK : fail_native(code, "%s does not take a copy", device_.name.c_str());
}

// A block that no copy uses any more, else a new one. Sizes are powers of two, so that blocks serve again.
uhal_status Staging::take(size_t bytes, Block** block) {
  size_t rounded = kLeastBytes;
  while (rounded < bytes) rounded *= 2;
  for (Block& known : blocks_) {
    if (known.bytes == rounded && api.event_query(known.passed) == kSuccess) {
      *block = &known;
      return UHAL_OK;
    }
  }
  blocks_.reserve(blocks_.size() + 1);
  Block added = {};
  if (const uhal_status status = allocate(rounded, &added); status != UHAL_OK) return status;
  blocks_.push_back(added);
  *block = &blocks_.back();
  return UHAL_OK;
}

uhal_status Staging::allocate(size_t bytes, Block* block) {
  int code = api.event_create(&block->passed, kEventUntimed);
  if (code != kSuccess) return fail_native(code, "%s gives no event", device_.name.c_str());
  code = api.allocate_pinned(&block->memory, bytes, kPinnedPortable);
  if (code == kSuccess) {
    block->bytes = bytes;
    return UHAL_OK;
  }
  static_cast<void>(api.event_destroy(block->passed));
  return fail_native(code, "%s gives no %llu bytes of pinned host memory for a copy behind a function of the host",
                     device_.name.c_str(), static_cast<unsigned long long>(bytes));
}

}  // namespace unihal::gpu
