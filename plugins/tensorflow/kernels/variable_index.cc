// Gather from, scatter into and slice assignment to resource variables. TensorFlow has no way to run these on the CPU
// for a variable that lives on the device.
#include "plugins/tensorflow/kernels/index.h"
#include "plugins/tensorflow/kernels/strided_slice.h"
#include "plugins/tensorflow/registrar.h"
#include "plugins/tensorflow/variable.h"

namespace unihal::tensorflow {
namespace {

// (resource, indices)
class ResourceGather : public Kernel {
 public:
  explicit ResourceGather(Construction& construction)
      : Kernel(construction), batch_dimensions_(construction.integer("batch_dims")) {}
  void compute(Context& context) const override {
    const ReadVariable params(context, 0);
    const View indices = context.input(1);
    if (!context.ok()) return;
    const int64_t batch = batch_dimensions_;
    if (batch < 0 || batch > indices.rank || batch >= params.view().rank) {
      return context.fail_invalid("ResourceGather: params must have at least " + std::to_string(batch + 1) +
                                  " axes, got shape " + to_text(params.view()));
    }
    gather(context, params.view(), indices, static_cast<int>(batch), static_cast<int>(batch));
  }

 private:
  int64_t batch_dimensions_;
};

class ResourceGatherNd : public Kernel {
 public:
  using Kernel::Kernel;
  void compute(Context& context) const override {
    const ReadVariable params(context, 0);
    const View indices = context.input(1);
    if (context.ok()) gather_nd(context, params.view(), indices);
  }
};

// ResourceScatter*(resource, indices, updates): rows; updates may be one scalar.
template <uhal_reduction kReduction, uhal_map_function kPrepare = uhal_map_identity>
class ResourceScatter : public Kernel {
 public:
  using Kernel::Kernel;
  void compute(Context& context) const override {
    LockedVariables variables(context, {0});
    const View variable = variables.writable(0);
    const View indices = context.input(1);
    View updates = context.input(2);
    if (!context.ok()) return;
    Shape shape = shape_of(indices);
    if (variable.rank > 0) shape.insert(shape.end(), variable.shape + 1, variable.shape + variable.rank);
    if (variable.rank == 0 || (updates.rank != 0 && shape_of(updates) != shape)) {
      return context.fail_invalid(std::string(op()) +
                                  ": Must have updates.shape = indices.shape + params.shape[1:] or " +
                                  "updates.shape = [], got updates " + to_text(updates) + ", indices " +
                                  to_text(indices) + ", params " + to_text(variable));
    }
    if (indices.elements() == 0 || variable.elements() == 0) return;
    if (kPrepare != uhal_map_identity || updates.rank == 0) {
      const View prepared = context.temporary(variable.dtype, shape.data(), static_cast<int>(shape.size()));
      context.map(kPrepare, {&updates}, {&prepared});
      updates = prepared;
    }
    uhal_index_attributes attributes = lenient_index_attributes(0);
    attributes.reduction = kReduction;
    context.launch(UHAL_OP_SCATTER, {&indices, &updates}, {&variable}, &attributes);
  }
};

// ResourceScatterNd*(resource, indices, updates)
template <uhal_reduction kReduction, bool kNegate = false>
class ResourceScatterNd : public Kernel {
 public:
  using Kernel::Kernel;
  void compute(Context& context) const override {
    LockedVariables variables(context, {0});
    const View variable = variables.writable(0);
    const View indices = context.input(1);
    const View updates = context.input(2);
    if (context.ok()) scatter_nd(context, indices, updates, {kReduction, kNegate}, variable);
  }
};

// (resource, begin, end, strides, value)
class ResourceStridedSliceAssign : public Kernel {
 public:
  explicit ResourceStridedSliceAssign(Construction& construction) : Kernel(construction), slice_(construction) {}
  void compute(Context& context) const override {
    LockedVariables variables(context, {0});
    const View variable = variables.writable(0);
    View value = context.input(4);
    View part;
    Shape shape;
    if (!context.ok() || !slice_.select(context, 1, variable, &part, &shape)) return;
    if (part.elements() == 0) return;
    while (value.rank > static_cast<int>(shape.size()) && value.shape[0] == 1) {
      value = value.reshaped(value.shape + 1, value.rank - 1);
    }
    Shape joint;
    if (!broadcast_shape(shape_of(value), shape, &joint) || joint != shape) {
      return context.fail_invalid("ResourceStridedSliceAssign: the value has shape " + to_text(value) + ", the slice " +
                                  to_text(shape));
    }
    if (shape_of(value) != shape) {
      const View wide = context.temporary(value.dtype, shape.data(), static_cast<int>(shape.size()));
      context.copy(value, wide);
      value = wide;
    }
    context.copy(value.reshaped(part.shape, part.rank), part);
  }

 private:
  StridedSlice slice_;
};

}  // namespace

void register_variable_index(Registrar& registrar) {
  const auto types = [](DtypeSet dtypes) { return TypeConstraint{"dtype", without_int32(dtypes)}; };
  const TypeConstraint indices = {"Tindices", kIndices};
  registrar.add<ResourceGather>("ResourceGather", {types(kAll), indices}, {"resource"});
  registrar.add<ResourceGatherNd>("ResourceGatherNd", {types(kAll), indices}, {"resource"});

  const std::initializer_list<const char*> resource = {"resource"};
  registrar.add<ResourceScatter<UHAL_REDUCE_NONE>>("ResourceScatterUpdate", {types(kReal), indices}, resource);
  registrar.add<ResourceScatter<UHAL_REDUCE_SUM>>("ResourceScatterAdd", {types(kNumbers), indices}, resource);
  registrar.add<ResourceScatter<UHAL_REDUCE_SUM, uhal_map_negative>>("ResourceScatterSub", {types(kNumbers), indices},
                                                                     resource);
  registrar.add<ResourceScatter<UHAL_REDUCE_PRODUCT>>("ResourceScatterMul", {types(kNumbers), indices}, resource);
  registrar.add<ResourceScatter<UHAL_REDUCE_PRODUCT, uhal_map_reciprocal>>("ResourceScatterDiv",
                                                                           {types(kFloats), indices}, resource);
  registrar.add<ResourceScatter<UHAL_REDUCE_MAXIMUM>>("ResourceScatterMax", {types(kNumbers), indices}, resource);
  registrar.add<ResourceScatter<UHAL_REDUCE_MINIMUM>>("ResourceScatterMin", {types(kNumbers), indices}, resource);

  const TypeConstraint any = {"T", without_int32(kReal)};
  const TypeConstraint numbers = {"T", without_int32(kNumbers)};
  registrar.add<ResourceScatterNd<UHAL_REDUCE_NONE>>("ResourceScatterNdUpdate", {any, indices}, {"ref"});
  registrar.add<ResourceScatterNd<UHAL_REDUCE_SUM>>("ResourceScatterNdAdd", {numbers, indices}, {"ref"});
  registrar.add<ResourceScatterNd<UHAL_REDUCE_SUM, true>>("ResourceScatterNdSub", {numbers, indices}, {"ref"});
  registrar.add<ResourceScatterNd<UHAL_REDUCE_MAXIMUM>>("ResourceScatterNdMax", {numbers, indices}, {"ref"});
  registrar.add<ResourceScatterNd<UHAL_REDUCE_MINIMUM>>("ResourceScatterNdMin", {numbers, indices}, {"ref"});

  registrar.add<ResourceStridedSliceAssign>("ResourceStridedSliceAssign", {{"T", without_int32(kAll)}},
                                            {"ref", "begin", "end", "strides"});
}

}  // namespace unihal::tensorflow
