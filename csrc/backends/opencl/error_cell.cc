#include "csrc/backends/opencl/error_cell.h"

#include "csrc/backends/opencl/address_space.h"
#include "csrc/backends/opencl/device.h"
#include "csrc/backends/opencl/status.h"
#include "csrc/kernels/error_content.h"

namespace unihal::opencl {
namespace {

using Content = kernels::ErrorContent;

uhal_status empty(cl_command_queue queue, const Place& place) {
  const int64_t zero = 0;
  const cl_int code =
      api.clEnqueueFillBuffer(queue, place.buffer, &zero, sizeof zero, 0, sizeof(Content), 0, nullptr, nullptr);
  return code == CL_SUCCESS ? UHAL_OK : fail_native(code, "the cell for errors in data cannot be emptied");
}

}  // namespace

ErrorCell::~ErrorCell() {
  if (address_ != nullptr) static_cast<void>(device_.memory.free(UHAL_MEMORY_DEVICE, address_, sizeof(Content)));
}

uhal_status ErrorCell::get(cl_command_queue queue, const uhal_op& op, void** cell, int64_t* ticket) {
  if (address_ == nullptr) {
    void* address;
    if (const uhal_status status = device_.memory.allocate(UHAL_MEMORY_DEVICE, sizeof(Content), &address);
        status != UHAL_OK) {
      return status;
    }
    Place place;
    AddressSpace::instance().resolve(address, &place);
    if (const uhal_status status = empty(queue, place); status != UHAL_OK) {
      static_cast<void>(device_.memory.free(UHAL_MEMORY_DEVICE, address, sizeof(Content)));
      return status;
    }
    address_ = address;
  }
  *cell = address_;
  *ticket = op.kind;  // all that the message needs to know
  given_.store(true, std::memory_order_release);
  return UHAL_OK;
}

uhal_status ErrorCell::collect(cl_command_queue queue, uhal_stream* owner) {
  if (!given_.load(std::memory_order_acquire)) return UHAL_OK;
  std::lock_guard<std::mutex> lock(mutex_);
  if (!given_.exchange(false)) return UHAL_OK;
  Place place;
  AddressSpace::instance().resolve(address_, &place);
  Content content;
  const cl_int code =
      api.clEnqueueReadBuffer(queue, place.buffer, CL_TRUE, 0, sizeof content, &content, 0, nullptr, nullptr);
  if (code != CL_SUCCESS) return fail_native(code, "the cell for errors in data cannot be read");
  if (content.ticket == 0) return UHAL_OK;
  kernels::report_bad_index(owner, content);
  return empty(queue, place);
}

}  // namespace unihal::opencl
