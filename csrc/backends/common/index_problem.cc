#include "csrc/backends/common/index_problem.h"

#include "csrc/backends/common/attributes.h"

namespace unihal {
namespace {

struct WalkedAxis {
  int64_t length;
  int64_t data_stride;
  int64_t index_stride;
  bool of_index;
  bool of_data;
};

void add_axis(IndexProblem& problem, const WalkedAxis& axis) {
  const int rank = problem.data.rank;
  problem.data.shape[rank] = axis.length;
  problem.data.strides[rank] = axis.data_stride;
  problem.indices.shape[rank] = axis.length;
  problem.indices.strides[rank] = axis.index_stride;
  problem.of_index[rank] = axis.of_index;
  problem.of_both[rank] = axis.of_index && axis.of_data;
  problem.data.rank = problem.indices.rank = rank + 1;
}

void index_axis(IndexProblem& problem, const uhal_tensor& data, int axis) {
  problem.lengths[problem.components] = data.shape[axis];
  problem.strides[problem.components] = data.strides[axis];
  ++problem.components;
}

}  // namespace

uhal_index_attributes index_attributes(const uhal_op& op) {
  return attributes_or(op, uhal_index_attributes{sizeof(uhal_index_attributes)});
}

bool is_gather(const uhal_op& op) {
  return op.kind == UHAL_OP_GATHER || op.kind == UHAL_OP_GATHER_ND || op.kind == UHAL_OP_GATHER_ELEMENTS;
}

IndexProblem make_index_problem(const uhal_op& op) {
  const uhal_index_attributes attributes = index_attributes(op);
  const uhal_tensor& data = is_gather(op) ? *op.inputs[0] : *op.outputs[0];
  const uhal_tensor& indices = is_gather(op) ? *op.inputs[1] : *op.inputs[0];
  IndexProblem problem;
  problem.rows = is_gather(op) ? *op.outputs[0] : *op.inputs[1];
  problem.data = data;
  problem.indices = indices;
  problem.data.rank = problem.indices.rank = 0;
  switch (op.kind) {
    case UHAL_OP_GATHER:
    case UHAL_OP_SCATTER: {
      const int axis = attributes.axis;
      const int batch = attributes.batch_dimensions;
      for (int i = 0; i < axis; ++i) {
        add_axis(problem, {data.shape[i], data.strides[i], i < batch ? indices.strides[i] : 0, i < batch, true});
      }
      for (int i = batch; i < indices.rank; ++i) {
        add_axis(problem, {indices.shape[i], 0, indices.strides[i], true, false});
      }
      for (int i = axis + 1; i < data.rank; ++i) add_axis(problem, {data.shape[i], data.strides[i], 0, false, true});
      index_axis(problem, data, axis);
      break;
    }
    case UHAL_OP_GATHER_ND:
    case UHAL_OP_SCATTER_ND: {
      const int last = indices.rank - 1;
      const int components = static_cast<int>(indices.shape[last]);
      for (int i = 0; i < last; ++i) add_axis(problem, {indices.shape[i], 0, indices.strides[i], true, false});
      for (int i = components; i < data.rank; ++i) add_axis(problem, {data.shape[i], data.strides[i], 0, false, true});
      for (int i = 0; i < components; ++i) index_axis(problem, data, i);
      problem.component_stride = indices.strides[last];
      break;
    }
    default:
      for (int i = 0; i < data.rank; ++i) {
        const bool indexed = i == attributes.axis;
        add_axis(problem, {indices.shape[i], indexed ? 0 : data.strides[i], indices.strides[i], true, !indexed});
      }
      index_axis(problem, data, attributes.axis);
      break;
  }
  return problem;
}

}  // namespace unihal
