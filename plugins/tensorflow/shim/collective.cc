// TensorFlow's kernels of collective ops (CollectiveReduceV2 and so on, which every device has) find who takes part and
// in which order, and then look up an implementation by name: "Ring..." sends through the host's threads, copy by copy;
// "Nccl..." is asked for by MirroredStrategy and missing in wheels without CUDA. These are its implementations.
#include "plugins/tensorflow/shim/collective.h"

#include <memory>
#include <string>
#include <utility>

#include "tensorflow/c/tf_status_helper.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/collective.h"
#include "tensorflow/core/framework/device_base.h"
#include "tensorflow/core/framework/op_kernel.h"

using tensorflow::CancellationManager;
using tensorflow::CollectiveContext;
using tensorflow::CollectiveImplementationInterface;
using tensorflow::CollectiveParams;
using tensorflow::CollectiveRegistry;
using tensorflow::StatusCallback;
using tensorflow::Tensor;

namespace {

const unihal_collective_functions* adapter = nullptr;

struct Row {
  unihal_collective_kind kind;
  const char* name;
  const char* other;  // what TensorFlow does the same with where the adapter does not take it
};
constexpr Row kRows[] = {
    {UNIHAL_COLLECTIVE_REDUCE, "NcclReduce", "RingReduce"},
    {UNIHAL_COLLECTIVE_GATHER, "NcclGather", "RingGather"},
    {UNIHAL_COLLECTIVE_BROADCAST, "NcclBroadcast", "HierarchicalTreeBroadcast"},
    {UNIHAL_COLLECTIVE_REDUCE_SCATTER, "NcclReduceScatter", "NcclReduceScatter"},  // it has no other
    {UNIHAL_COLLECTIVE_ALL_TO_ALL, "NcclAllToAll", "AllToAll"},
};

bool is_average(const CollectiveParams& params) {
  return params.final_op != nullptr && params.final_op->type_string() == "Div";
}

// A rank from its arrival to its end. It keeps what the adapter was given pointers of.
struct Arrival {
  StatusCallback done;
  Tensor input, output;
  tensorflow::core::RefCountPtr<tensorflow::DeviceContext> device_context;
  CancellationManager* cancellation = nullptr;
  tensorflow::CancellationToken token = CancellationManager::kInvalidToken;
};

void finish(void* argument, TF_Status* status) {
  const std::unique_ptr<Arrival> arrival(static_cast<Arrival*>(argument));
  if (arrival->cancellation != nullptr) arrival->cancellation->TryDeregisterCallback(arrival->token);
  arrival->done(tensorflow::StatusFromTF_Status(status));
}

class Collective : public CollectiveImplementationInterface {
 public:
  explicit Collective(const Row& row) : row_(row) {}

  // Who takes part is known by now. Groups of several processes or other devices go to TensorFlow's implementations.
  absl::Status InitializeCollectiveParams(CollectiveParams* params) override {
    const std::string& type = params->group.device_type.type_string();
    const auto dtype = static_cast<TF_DataType>(params->instance.data_type);
    if (params->group.num_tasks == 1 && adapter->accepts(type.c_str(), row_.kind, dtype, is_average(*params)) != 0) {
      return absl::OkStatus();
    }
    if (row_.name == std::string(row_.other)) {
      return absl::UnimplementedError(
          "unihal: " + type + ": " + row_.name +
          " is for devices of one process whose backend has collectives (uhal.collectives)");
    }
    params->instance.impl_details.collective_name = row_.other;
    CollectiveImplementationInterface* other = nullptr;
    absl::Status found = CollectiveRegistry::LookupParamResolverInstance(row_.other, &other);
    return found.ok() ? other->InitializeCollectiveParams(params) : found;
  }

  absl::Status InitializeCollectiveContext(std::shared_ptr<CollectiveContext> context) override {
    context_ = std::move(context);
    return absl::OkStatus();
  }

  void Run(StatusCallback done) override {
    const CollectiveParams& params = *context_->col_params;
    context_->col_exec->WaitForDependencies(params);
    unihal_collective_rank rank = {};
    auto arrival = std::make_unique<Arrival>();
    if (context_->input != nullptr) arrival->input = *context_->input;
    arrival->output = *context_->output;
    tensorflow::OpKernelContext* op = context_->op_ctx;
    tensorflow::DeviceContext* device_context = op->op_device_context();
    device_context->Ref();
    arrival->device_context.reset(device_context);

    // Keys of instances may come again in another step.
    const std::string key = context_->exec_key + ";" + std::to_string(context_->step_id);
    rank.key = key.c_str();
    rank.kind = row_.kind;
    rank.merge = params.merge_op != nullptr ? params.merge_op->type_string().c_str() : "";
    rank.average = is_average(params) ? 1 : 0;
    rank.dtype = static_cast<TF_DataType>(params.instance.data_type);
    rank.rank = params.default_rank;
    rank.size = params.group.group_size;
    rank.root = params.source_rank;
    rank.count = block_of(arrival->output.NumElements(), rank.size);
    if (context_->input != nullptr) rank.source = arrival->input.data();
    rank.destination = arrival->output.data();

    const int64_t ticket = adapter->new_ticket();
    arrival->done = [done = std::move(done), context = context_](const absl::Status& status) {
      if (status.ok()) context->col_exec->UnblockDependencies(*context->col_params);
      done(status);
    };
    CancellationManager* cancellation = op->cancellation_manager();
    if (cancellation != nullptr) {
      arrival->cancellation = cancellation;
      arrival->token = cancellation->get_cancellation_token();
      const bool in_time = cancellation->RegisterCallback(arrival->token, [ticket] { adapter->cancel(ticket); });
      if (!in_time) adapter->cancel(ticket);
    }
    adapter->arrive(ticket, reinterpret_cast<TF_OpKernelContext*>(op), &rank, finish, arrival.release());
  }

 private:
  // Elements of one block, from those of the output.
  int64_t block_of(int64_t elements, int64_t ranks) const {
    const bool each = row_.kind == UNIHAL_COLLECTIVE_GATHER || row_.kind == UNIHAL_COLLECTIVE_ALL_TO_ALL;
    return each ? elements / ranks : elements;
  }

  const Row& row_;
  std::shared_ptr<CollectiveContext> context_;
};

}  // namespace

void unihal_register_collectives(const unihal_collective_functions* functions) {
  CollectiveImplementationInterface* present = nullptr;
  if (adapter != nullptr || CollectiveRegistry::LookupParamResolverInstance("NcclReduce", &present).ok()) return;
  adapter = functions;
  for (const Row& row : kRows) {
    tensorflow::CollectiveRegistration registration(row.name, [&row] { return new Collective(row); });
  }
}
