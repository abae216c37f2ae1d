// Gather from, scatter into and slice assignment to variables, behind resources or references. TensorFlow has no way to
// run these on the CPU for a variable that lives on the device.
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
    uhal_index_attributes attributes = program_index_attributes(context, 0);
    attributes.reduction = kReduction;
    context.launch(UHAL_OP_SCATTER, {&indices, &updates}, {&variable}, &attributes);
    refuse_outside(context, indices, {variable.shape[0]}, Indices::kRows);
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

// Writes `value`, which broadcasts, to a part of `whole`: what host inputs 1 to 3 (begin, end, strides) select.
void assign_slice(Context& context, const StridedSlice& slice, const View& whole, View value) {
  View part;
  Shape shape;
  if (!context.ok() || !slice.select(context, 1, whole, &part, &shape)) return;
  if (part.elements() == 0) return;
  while (value.rank > static_cast<int>(shape.size()) && value.shape[0] == 1) {
    value = value.reshaped(value.shape + 1, value.rank - 1);
  }
  Shape joint;
  if (!broadcast_shape(shape_of(value), shape, &joint) || joint != shape) {
    return context.fail_invalid("StridedSliceAssign: the value has shape " + to_text(value) + ", the slice " +
                                to_text(shape));
  }
  if (shape_of(value) != shape) {
    const View wide = context.temporary(value.dtype, shape.data(), static_cast<int>(shape.size()));
    if (!context.ok() || !context.copy(value, wide)) return;
    value = wide;
  }
  context.copy(value.reshaped(part.shape, part.rank), part);
}

// (resource, begin, end, strides, value)
class ResourceStridedSliceAssign : public Kernel {
 public:
  explicit ResourceStridedSliceAssign(Construction& construction) : Kernel(construction), slice_(construction) {}
  void compute(Context& context) const override {
    LockedVariables variables(context, {0});
    const View variable = variables.writable(0);
    const View value = context.input(4);
    assign_slice(context, slice_, variable, value);
  }

 private:
  StridedSlice slice_;
};

// (input, begin, end, strides, value) -> the input with a part replaced
class TensorStridedSliceUpdate : public Kernel {
 public:
  explicit TensorStridedSliceUpdate(Construction& construction) : Kernel(construction), slice_(construction) {}
  void compute(Context& context) const override {
    const View input = context.input(0);
    const View value = context.input(4);
    if (!context.ok()) return;
    const int candidate = 0;
    const View output = context.forwarded_output(0, input.dtype, input.shape, input.rank, &candidate, 1);
    if (!context.ok()) return;
    if (output.data != input.data && output.elements() > 0) context.copy(input, output);
    assign_slice(context, slice_, output, value);
  }

 private:
  StridedSlice slice_;
};

// An op on resource variables and, where `reference` names it, its like for reference variables.
template <class K>
void add_both(Registrar& registrar, const char* op, const char* attribute, const char* resource, const char* reference,
              DtypeSet dtypes) {
  const TypeConstraint indices = {"Tindices", kIndices};
  registrar.add<K>(op, {{attribute, without_int32(dtypes)}, indices}, {resource});
  registrar.add<K>(reference, {{"T", without_int32(dtypes)}, indices});
}

}  // namespace

void register_variable_index(Registrar& registrar) {
  const TypeConstraint any = {"dtype", without_int32(kAll)};
  const TypeConstraint indices = {"Tindices", kIndices};
  registrar.add<ResourceGather>("ResourceGather", {any, indices}, {"resource"});
  registrar.add<ResourceGatherNd>("ResourceGatherNd", {any, indices}, {"resource"});

  const DtypeSet sums = kNumbers | kComplex;
  add_both<ResourceScatter<UHAL_REDUCE_NONE>>(registrar, "ResourceScatterUpdate", "dtype", "resource", "ScatterUpdate",
                                              kAll);
  add_both<ResourceScatter<UHAL_REDUCE_SUM>>(registrar, "ResourceScatterAdd", "dtype", "resource", "ScatterAdd", sums);
  add_both<ResourceScatter<UHAL_REDUCE_SUM, uhal_map_negative>>(registrar, "ResourceScatterSub", "dtype", "resource",
                                                                "ScatterSub", sums);
  add_both<ResourceScatter<UHAL_REDUCE_PRODUCT>>(registrar, "ResourceScatterMul", "dtype", "resource", "ScatterMul",
                                                 sums);
  add_both<ResourceScatter<UHAL_REDUCE_PRODUCT, uhal_map_reciprocal>>(registrar, "ResourceScatterDiv", "dtype",
                                                                      "resource", "ScatterDiv", kFloats | kComplex);
  add_both<ResourceScatter<UHAL_REDUCE_MAXIMUM>>(registrar, "ResourceScatterMax", "dtype", "resource", "ScatterMax",
                                                 kNumbers);
  add_both<ResourceScatter<UHAL_REDUCE_MINIMUM>>(registrar, "ResourceScatterMin", "dtype", "resource", "ScatterMin",
                                                 kNumbers);

  add_both<ResourceScatterNd<UHAL_REDUCE_NONE>>(registrar, "ResourceScatterNdUpdate", "T", "ref", "ScatterNdUpdate",
                                                kAll);
  add_both<ResourceScatterNd<UHAL_REDUCE_SUM>>(registrar, "ResourceScatterNdAdd", "T", "ref", "ScatterNdAdd", sums);
  add_both<ResourceScatterNd<UHAL_REDUCE_SUM, true>>(registrar, "ResourceScatterNdSub", "T", "ref", "ScatterNdSub",
                                                     sums);
  add_both<ResourceScatterNd<UHAL_REDUCE_MAXIMUM>>(registrar, "ResourceScatterNdMax", "T", "ref", "ScatterNdMax",
                                                   kNumbers);
  add_both<ResourceScatterNd<UHAL_REDUCE_MINIMUM>>(registrar, "ResourceScatterNdMin", "T", "ref", "ScatterNdMin",
                                                   kNumbers);

  const TypeConstraint type = {"T", without_int32(kAll)};
  registrar.add<ResourceStridedSliceAssign>("ResourceStridedSliceAssign", {type}, {"ref", "begin", "end", "strides"});
  registrar.add<ResourceStridedSliceAssign>("StridedSliceAssign", {type}, {"begin", "end", "strides"});
  registrar.add<TensorStridedSliceUpdate>("TensorStridedSliceUpdate", {{"T", kAll}}, {"begin", "end", "strides"});
}

}  // namespace unihal::tensorflow
