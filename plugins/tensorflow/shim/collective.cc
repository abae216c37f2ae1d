// Kernels of TensorFlow's collective ops. As TensorFlow's own, they let the executor of collectives find out who takes
// part and in which order; then the ranks of one process go to the adapter, and others to TensorFlow's implementation.
#include "plugins/tensorflow/shim/collective.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tensorflow/c/tf_status_helper.h"
#include "tensorflow/core/common_runtime/process_util.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/collective.h"
#include "tensorflow/core/framework/device_base.h"
#include "tensorflow/core/framework/kernel_def_builder.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor_util.h"

using tensorflow::CancellationManager;
using tensorflow::CollectiveExecutor;
using tensorflow::CollectiveParams;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::core::RefCountPtr;

namespace {

const unihal_collective_functions* adapter = nullptr;

struct Row {
  const char* op;
  unihal_collective_kind kind;
  // As what TensorFlow looks the group up. It refuses a scattered reduction, whose ranks are those of a reduction.
  tensorflow::CollectiveType type;
  bool has_input, is_reduction;
};
constexpr Row kRows[] = {
    {"CollectiveReduceV2", UNIHAL_COLLECTIVE_REDUCE, tensorflow::REDUCTION_COLLECTIVE, true, true},
    {"CollectiveReduceScatterV2", UNIHAL_COLLECTIVE_REDUCE_SCATTER, tensorflow::REDUCTION_COLLECTIVE, true, true},
    {"CollectiveGatherV2", UNIHAL_COLLECTIVE_GATHER, tensorflow::GATHER_COLLECTIVE, true, false},
    {"CollectiveBcastSendV2", UNIHAL_COLLECTIVE_BROADCAST, tensorflow::BROADCAST_COLLECTIVE, true, false},
    {"CollectiveBcastRecvV2", UNIHAL_COLLECTIVE_BROADCAST, tensorflow::BROADCAST_COLLECTIVE, false, false},
    {"CollectiveAllToAllV2", UNIHAL_COLLECTIVE_ALL_TO_ALL, tensorflow::ALL_TO_ALL_COLLECTIVE, true, false},
    // Of the adapter's graph pass: of several tensors, each by itself.
    {"UnihalCollectiveReduce", UNIHAL_COLLECTIVE_REDUCE, tensorflow::REDUCTION_COLLECTIVE, true, true},
};

const Row& row_of(const std::string& op) {
  for (const Row& row : kRows) {
    if (op == row.op) return row;
  }
  return kRows[0];
}

// One execution of a kernel, which ends with finish(). It keeps what the adapter was given pointers of.
struct Execution {
  OpKernelContext* context;
  tensorflow::AsyncOpKernel::DoneCallback done;
  RefCountPtr<CollectiveParams> params;
  std::vector<Tensor> inputs, outputs;
  std::vector<unihal_collective_part> parts;
  RefCountPtr<tensorflow::DeviceContext> device_context;
  CancellationManager* cancellation = nullptr;
  tensorflow::CancellationToken token = CancellationManager::kInvalidToken;
};

void finish(void* argument, TF_Status* status) {
  const std::unique_ptr<Execution> execution(static_cast<Execution*>(argument));
  if (execution->cancellation != nullptr) execution->cancellation->TryDeregisterCallback(execution->token);
  const absl::Status result = tensorflow::StatusFromTF_Status(status);
  if (!result.ok()) execution->context->SetStatus(result);
  execution->done();
}

class CollectiveKernel : public tensorflow::AsyncOpKernel {
 public:
  explicit CollectiveKernel(OpKernelConstruction* construction)
      : AsyncOpKernel(construction), row_(row_of(construction->def().op())), device_type_(construction->device_type()) {
    OP_REQUIRES_OK(construction, construction->GetAttr("T", &dtype_));
    OP_REQUIRES_OK(construction, construction->GetAttr("communication_hint", &hint_));
    OP_REQUIRES_OK(construction, construction->GetAttr("timeout_seconds", &timeout_));
    if (construction->HasAttr("is_stateless")) {
      OP_REQUIRES_OK(construction, construction->GetAttr("is_stateless", &is_stateless_));
    }
    if (construction->HasAttr("max_subdivs_per_device")) {
      OP_REQUIRES_OK(construction, construction->GetAttr("max_subdivs_per_device", &subdivisions_));
    }
    inputs_ = row_.has_input ? 1 : 0;
    is_list_ = construction->HasAttr("N");
    if (is_list_) OP_REQUIRES_OK(construction, construction->GetAttr("N", &inputs_));
    if (row_.is_reduction) {
      build(construction, "merge_op", &merge_);
      build(construction, "final_op", &final_);
    }
  }

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    CollectiveExecutor* executor = context->collective_executor();
    OP_REQUIRES_ASYNC(context, executor != nullptr,
                      absl::InternalError(std::string(row_.op) + ": this context has no executor of collectives"),
                      done);
    auto execution = std::make_unique<Execution>();
    execution->context = context;
    execution->done = done;
    execution->params.reset(new CollectiveParams);
    OP_REQUIRES_OK_ASYNC(context, fill(context, execution->params.get()), done);
    for (int i = 0; i < (is_list_ ? inputs_ : 1); ++i) {
      Tensor* output = nullptr;
      OP_REQUIRES_OK_ASYNC(context, allocate(context, *execution->params, i, &output), done);
      execution->inputs.push_back(row_.has_input ? context->input(i) : Tensor());
      execution->outputs.push_back(*output);
    }
    // Finding the group may block.
    executor->RunClosure([this, executor, owned = execution.release()] {
      executor->CompleteParamsAsync(owned->context->device()->attributes(), owned->params.get(),
                                    owned->context->cancellation_manager(), [this, owned](const absl::Status& status) {
                                      if (status.ok()) return run(owned);
                                      end(owned, status);
                                    });
    });
  }

 private:
  // The kernel that TensorFlow's implementation merges with, or divides with at the end.
  void build(OpKernelConstruction* construction, const char* attribute, std::unique_ptr<OpKernel>* kernel) const {
    std::string name;
    OP_REQUIRES_OK(construction, construction->GetAttr(attribute, &name));
    if (name == "Id") return;
    tensorflow::NodeDef node;
    node.set_op(name == "Min" || name == "Max" ? name + "imum" : name);
    node.set_name(node.op());
    node.add_input(construction->def().input(0));
    node.add_input(construction->def().input(0));
    node.set_device(construction->def().device());
    (*node.mutable_attr())["T"].set_type(dtype_);
    absl::Status status;
    tensorflow::DeviceBase* device = construction->device();
    *kernel = tensorflow::CreateOpKernel(construction->device_type(), device,
                                         device->GetAllocator(tensorflow::AllocatorAttributes()), node,
                                         construction->graph_def_version(), &status);
    if (!status.ok()) construction->CtxFailureWithWarning(status);
  }

  absl::Status fill(OpKernelContext* context, CollectiveParams* params) const {
    int32_t values[3] = {};
    constexpr const char* kNames[] = {"group_size", "group_key", "instance_key"};
    for (int i = 0; i < 3; ++i) {
      const Tensor& value = context->input(inputs_ + i);
      if (value.dims() > 0) {
        return absl::InvalidArgumentError("Unexpected dimensions on input " + std::string(kNames[i]) + ", got " +
                                          value.shape().DebugString());
      }
      values[i] = value.scalar<int32_t>()();
    }
    if (values[0] <= 0) {
      return absl::InvalidArgumentError("group_size must be positive integer but got " + std::to_string(values[0]));
    }
    params->name = name();
    params->is_stateless = is_stateless_;
    params->group.device_type = device_type_;
    params->group.group_size = values[0];
    params->group.group_key = values[1];
    params->instance.type = row_.type;
    params->instance.instance_key = values[2];
    params->instance.data_type = dtype_;
    params->instance.impl_details.communication_hint = hint_;
    params->instance.impl_details.timeout_seconds = timeout_;
    params->instance.impl_details.max_subdivs_per_device = subdivisions_;
    params->merge_op = merge_.get();
    params->final_op = final_.get();
    if (row_.kind == UNIHAL_COLLECTIVE_BROADCAST) {
      params->is_source = row_.has_input;
      params->instance.impl_details.subdiv_offsets.push_back(0);
    }
    return shape(context, values[0], &params->instance.shape);
  }

  // The output's shape.
  absl::Status shape(OpKernelContext* context, int64_t ranks, TensorShape* shape) const {
    if (!row_.has_input) return tensorflow::tensor::MakeShape(context->input(3), shape);
    *shape = context->input(0).shape();
    if (is_list_) {  // whoever looks the group up wants one shape
      int64_t elements = 0;
      for (int i = 0; i < inputs_; ++i) elements += context->input(i).NumElements();
      *shape = TensorShape({elements});
    }
    const bool divides = row_.kind == UNIHAL_COLLECTIVE_REDUCE_SCATTER;
    const bool each = row_.kind == UNIHAL_COLLECTIVE_ALL_TO_ALL;
    if (row_.kind != UNIHAL_COLLECTIVE_GATHER && !divides && !each) return absl::OkStatus();
    if (shape->dims() == 0 || (divides && shape->dim_size(0) % ranks != 0) || (each && shape->dim_size(0) != ranks)) {
      return absl::InvalidArgumentError(std::string(row_.op) + ": input has shape " + shape->DebugString() +
                                        "; expected a first axis" +
                                        (divides ? " that divides by " : (each ? " of " : " to gather along, of ")) +
                                        std::to_string(ranks) + " ranks");
    }
    if (each) return absl::OkStatus();
    const int64_t rows = shape->dim_size(0);
    return shape->SetDimWithStatus(0, divides ? rows / ranks : rows * ranks);
  }

  absl::Status allocate(OpKernelContext* context, const CollectiveParams& params, int index, Tensor** output) const {
    const bool in_place = row_.kind == UNIHAL_COLLECTIVE_REDUCE || row_.kind == UNIHAL_COLLECTIVE_BROADCAST;
    const TensorShape& shape = is_list_ ? context->input(index).shape() : params.instance.shape;
    if (!row_.has_input || !in_place) return context->allocate_output(index, shape, output);
    return context->forward_input_or_allocate_output({index}, index, shape, output);
  }

  static void end(Execution* execution, const absl::Status& result) {
    TF_Status* status = TF_NewStatus();
    if (!result.ok()) tensorflow::Set_TF_Status_from_Status(status, result);
    finish(execution, status);
    TF_DeleteStatus(status);
  }

  bool is_average() const { return final_ != nullptr; }

  // "ring", in whatever case.
  bool wants_ring() const { return hint_.size() == 4 && (hint_[0] | 0x20) == 'r'; }

  void run(Execution* execution) {
    OpKernelContext* context = execution->context;
    const CollectiveParams& params = *execution->params;
    const std::string& type = params.group.device_type.type_string();
    if (params.group.num_tasks == 1 && !wants_ring() &&
        adapter->accepts(type.c_str(), row_.kind, static_cast<TF_DataType>(dtype_), is_average() ? 1 : 0) != 0) {
      return arrive(execution);
    }
    if (row_.kind == UNIHAL_COLLECTIVE_REDUCE_SCATTER || is_list_) {
      return end(execution, absl::UnimplementedError(
                                std::string(row_.op) + " on " + type +
                                " is for devices of one process whose backend has collectives (uhal.collectives)"));
    }
    context->collective_executor()->ExecuteAsync(context, &params, key_of(context, params),
                                                 [execution](const absl::Status& status) { end(execution, status); });
  }

  // What tells an execution from others. All ranks of a step have one executor.
  static std::string key_of(OpKernelContext* context, const CollectiveParams& params) {
    const tensorflow::FrameAndIter frame = context->frame_iter();
    return std::to_string(params.group.group_key) + ":" + std::to_string(params.instance.instance_key) + ":" +
           std::to_string(frame.frame_id) + ":" + std::to_string(frame.iter_id);
  }

  void arrive(Execution* execution) {
    OpKernelContext* context = execution->context;
    const CollectiveParams& params = *execution->params;
    context->op_device_context()->Ref();
    execution->device_context.reset(context->op_device_context());

    unihal_collective_rank rank = {};
    const std::string key =
        key_of(context, params) + ":" + std::to_string(reinterpret_cast<uintptr_t>(context->collective_executor()));
    rank.key = key.c_str();
    rank.kind = row_.kind;
    rank.merge = merge_ != nullptr ? merge_->type_string().c_str() : "";
    rank.average = is_average() ? 1 : 0;
    rank.dtype = static_cast<TF_DataType>(dtype_);
    rank.rank = params.default_rank;
    rank.size = params.group.group_size;
    rank.is_source = params.is_source ? 1 : 0;
    const bool each = row_.kind == UNIHAL_COLLECTIVE_GATHER || row_.kind == UNIHAL_COLLECTIVE_ALL_TO_ALL;
    for (size_t i = 0; i < execution->outputs.size(); ++i) {
      const Tensor& output = execution->outputs[i];
      const void* source = row_.has_input ? execution->inputs[i].data() : nullptr;
      execution->parts.push_back({output.NumElements() / (each ? rank.size : 1), source, output.data()});
    }
    rank.parts = execution->parts.data();
    rank.part_count = static_cast<int>(execution->parts.size());

    const int64_t ticket = adapter->new_ticket();
    CancellationManager* cancellation = context->cancellation_manager();
    if (cancellation != nullptr) {
      execution->cancellation = cancellation;
      execution->token = cancellation->get_cancellation_token();
      const auto cancel = [ticket] { adapter->cancel(ticket, TF_CANCELLED); };
      if (!cancellation->RegisterCallback(execution->token, cancel)) cancel();
    }
    if (timeout_ > 0) {
      tensorflow::SchedNonBlockingClosureAfter(static_cast<int64_t>(timeout_ * 1e6F),
                                               [ticket] { adapter->cancel(ticket, TF_DEADLINE_EXCEEDED); });
    }
    adapter->arrive(ticket, reinterpret_cast<TF_OpKernelContext*>(context), &rank, finish, execution);
  }

  const Row& row_;
  const tensorflow::DeviceType device_type_;
  tensorflow::DataType dtype_ = tensorflow::DT_INVALID;
  int inputs_ = 1;  // those before the group's size
  bool is_list_ = false;
  std::string hint_;
  float timeout_ = 0;
  bool is_stateless_ = false;
  int subdivisions_ = -1;
  std::unique_ptr<OpKernel> merge_, final_;
};

}  // namespace

void unihal_register_collectives(const char* device_type, const unihal_collective_functions* functions) {
  adapter = functions;
  for (const Row& row : kRows) {
    tensorflow::KernelDefBuilder builder(row.op);
    builder.Device(device_type).HostMemory("group_size").HostMemory("group_key").HostMemory("instance_key");
    if (!row.has_input) builder.HostMemory("shape");
    tensorflow::kernel_factory::OpKernelRegistrar registrar(
        builder.Build(), "UnihalCollective",
        [](OpKernelConstruction* construction) -> OpKernel* { return new CollectiveKernel(construction); });
  }
}
