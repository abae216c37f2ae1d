// Our declarations of NCCL against its header. Compiled, never run.
#include <nccl.h>

#include "csrc/backends/gpu/collectives_library.cc"
#include "tests/gpu/headers/agree.h"

namespace unihal::gpu {

UHAL_AGREES(CollectiveFunctions::get_version, ::ncclGetVersion)
UHAL_AGREES(CollectiveFunctions::get_unique_id, ::ncclGetUniqueId)
UHAL_AGREES(CollectiveFunctions::init, ::ncclCommInitRank)
UHAL_AGREES(CollectiveFunctions::destroy, ::ncclCommDestroy)
UHAL_AGREES(CollectiveFunctions::abort, ::ncclCommAbort)
UHAL_AGREES(CollectiveFunctions::async_error, ::ncclCommGetAsyncError)
UHAL_AGREES(CollectiveFunctions::error_text, ::ncclGetErrorString)
UHAL_AGREES(CollectiveFunctions::last_error, ::ncclGetLastError)
UHAL_AGREES(CollectiveFunctions::group_start, ::ncclGroupStart)
UHAL_AGREES(CollectiveFunctions::group_end, ::ncclGroupEnd)
UHAL_AGREES(CollectiveFunctions::all_reduce, ::ncclAllReduce)
UHAL_AGREES(CollectiveFunctions::reduce, ::ncclReduce)
UHAL_AGREES(CollectiveFunctions::reduce_scatter, ::ncclReduceScatter)
UHAL_AGREES(CollectiveFunctions::all_gather, ::ncclAllGather)
UHAL_AGREES(CollectiveFunctions::broadcast, ::ncclBroadcast)
UHAL_AGREES(CollectiveFunctions::send, ::ncclSend)
UHAL_AGREES(CollectiveFunctions::receive, ::ncclRecv)

static_assert(kCollectiveSuccess == ncclSuccess);
static_assert(kBytes == ncclInt8);
static_assert(kMaximum == ncclMax);
static_assert(kMinimum == ncclMin);
static_assert(kReductionsOfNccl[UHAL_REDUCTION_SUM] == ncclSum);
static_assert(kReductionsOfNccl[UHAL_REDUCTION_PRODUCT] == ncclProd);
static_assert(kReductionsOfNccl[UHAL_REDUCTION_MINIMUM] == ncclMin);
static_assert(kReductionsOfNccl[UHAL_REDUCTION_MAXIMUM] == ncclMax);
static_assert(kDtypesOfNccl[UHAL_INT8] == ncclInt8);
static_assert(kDtypesOfNccl[UHAL_UINT8] == ncclUint8);
static_assert(kDtypesOfNccl[UHAL_INT32] == ncclInt32);
static_assert(kDtypesOfNccl[UHAL_UINT32] == ncclUint32);
static_assert(kDtypesOfNccl[UHAL_INT64] == ncclInt64);
static_assert(kDtypesOfNccl[UHAL_UINT64] == ncclUint64);
static_assert(kDtypesOfNccl[UHAL_FLOAT16] == ncclFloat16);
static_assert(kDtypesOfNccl[UHAL_BFLOAT16] == ncclBfloat16);
static_assert(kDtypesOfNccl[UHAL_FLOAT32] == ncclFloat32);
static_assert(kDtypesOfNccl[UHAL_FLOAT64] == ncclFloat64);

static_assert(sizeof(NativeId) == sizeof(ncclUniqueId));

}  // namespace unihal::gpu
