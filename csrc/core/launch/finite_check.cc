#include "csrc/core/launch/finite_check.h"

#include <cstdlib>
#include <cstring>
#include <memory>

#include "csrc/core/memory/host_memory.h"
#include "csrc/core/op/description.h"
#include "csrc/core/op/shape_rules.h"
#include "csrc/core/stream/wait.h"

namespace unihal::core {
namespace {

// The bits that are all set in the exponent of a NaN or infinity.
struct ExponentMask {
  uhal_dtype dtype;
  uint64_t mask;
};
constexpr ExponentMask kExponentMasks[] = {
    {UHAL_FLOAT16, 0x7c00}, {UHAL_BFLOAT16, 0x7f80}, {UHAL_FLOAT32, 0x7f800000}, {UHAL_FLOAT64, 0x7ff0000000000000}};

uint64_t exponent_mask(uhal_dtype dtype) {
  for (const ExponentMask& row : kExponentMasks) {
    if (row.dtype == dtype) return row.mask;
  }
  return 0;
}

// Walks the elements in row-major order. `first` is element (0, ..., 0); index gets the place of a bad one.
bool find_not_finite(const uhal_tensor& t, const char* first, int64_t* index) {
  const uint64_t mask = exponent_mask(t.dtype);
  const int64_t size = static_cast<int64_t>(uhal_dtype_size(t.dtype));
  const int64_t count = element_count(t);
  int64_t at[UHAL_MAX_RANK] = {};
  int64_t offset = 0;
  for (int64_t i = 0; i < count; ++i) {
    uint64_t bits = 0;
    memcpy(&bits, first + offset * size, static_cast<size_t>(size));
    if ((bits & mask) == mask) {
      memcpy(index, at, sizeof at);
      return true;
    }
    for (int d = t.rank - 1; d >= 0; --d) {
      offset += t.strides[d];
      if (++at[d] < t.shape[d]) break;
      offset -= t.strides[d] * t.shape[d];
      at[d] = 0;
    }
  }
  return false;
}

uhal_status check_output(Stream* stream, const OpView& op, const uhal_tensor& t, const char* name) {
  if (exponent_mask(t.dtype) == 0 || element_count(t) == 0) return UHAL_OK;
  int64_t low = 0, high = 0;
  for (int d = 0; d < t.rank; ++d) (t.strides[d] < 0 ? low : high) += (t.shape[d] - 1) * t.strides[d];
  const int64_t size = static_cast<int64_t>(uhal_dtype_size(t.dtype));
  const char* lowest = static_cast<const char*>(t.data) + low * size;
  const size_t bytes = static_cast<size_t>((high - low + 1) * size);
  uhal_device& device = *stream->device;
  std::unique_ptr<char, FreeHostMemory> copy;
  if (device.properties.unified_memory == 0) {
    copy.reset(static_cast<char*>(malloc(bytes)));
    if (copy == nullptr) throw std::bad_alloc();
    {
      std::lock_guard<SubmissionLock> lock(stream->submission);
      UHAL_EXPECT(call_backend(*device.backend, "copy", device.backend->table.copy, stream->backend_stream,
                               static_cast<void*>(copy.get()), static_cast<const void*>(lowest), bytes,
                               uhal_copy_kind{UHAL_COPY_DEVICE_TO_HOST}));
    }
    UHAL_EXPECT(synchronize(stream));
    lowest = copy.get();
  }
  int64_t index[UHAL_MAX_RANK];
  if (!find_not_finite(t, lowest - low * size, index)) return UHAL_OK;
  return UHAL_FAIL(UHAL_DATA_LOSS,
                   "%s: output %s is not finite at %s, the first such element (UNIHAL_CHECK_NAN=1). Look at this op's "
                   "inputs, the learning rate, or the loss scale.",
                   op_display_name(*op.op).c_str(), name, shape_text(t.rank, index).c_str());
}

}  // namespace

uhal_status check_outputs_finite(Stream* stream, const OpView& op) {
  UHAL_EXPECT(synchronize(stream));
  for (int i = 0; i < op.op->output_count; ++i) {
    const uhal_tensor* output = op.op->outputs[i];
    if (output != nullptr) UHAL_EXPECT(check_output(stream, op, *output, op.row->outputs.names[i]));
  }
  return UHAL_OK;
}

}  // namespace unihal::core
