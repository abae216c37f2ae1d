#include "csrc/backends/gpu/error_cell.h"

#include "csrc/backends/gpu/device.h"
#include "csrc/kernels/error_content.h"

namespace unihal::gpu {

using Content = kernels::ErrorContent;

ErrorCell::~ErrorCell() {
  if (address_ != nullptr) static_cast<void>(device_.memory.free(UHAL_MEMORY_DEVICE, address_));
}

uhal_status ErrorCell::get(const uhal_op& op, void** cell, int64_t* ticket) {
  if (address_ == nullptr) {
    void* address;
    uhal_status status = device_.memory.allocate(UHAL_MEMORY_DEVICE, sizeof(Content), &address);
    if (status != UHAL_OK) return status;
    status = device_.clear(address, sizeof(Content));
    if (status != UHAL_OK) {
      static_cast<void>(device_.memory.free(UHAL_MEMORY_DEVICE, address));
      return status;
    }
    address_ = address;
  }
  *cell = address_;
  *ticket = op.kind;  // all that the message needs to know
  given_.store(true, std::memory_order_release);
  return UHAL_OK;
}

uhal_status ErrorCell::collect(uhal_stream* owner) {
  if (!given_.load(std::memory_order_acquire)) return UHAL_OK;
  std::lock_guard<std::mutex> lock(mutex_);
  return given_.exchange(false) ? take_content(owner) : UHAL_OK;
}

uhal_status ErrorCell::read_out(uhal_stream* owner) {
  std::lock_guard<std::mutex> lock(mutex_);
  return is_used() ? take_content(owner) : UHAL_OK;
}

uhal_status ErrorCell::take_content(uhal_stream* owner) {
  Content content;
  if (const uhal_status status = device_.read(&content, address_, sizeof content); status != UHAL_OK) return status;
  if (content.ticket == 0) return UHAL_OK;
  kernels::report_bad_index(owner, content);
  return device_.clear(address_, sizeof content);
}

}  // namespace unihal::gpu
