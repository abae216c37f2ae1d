// Field numbers of the messages that a GraphDef consists of (tensorflow/core/framework: graph, node_def, attr_value,
// tensor, tensor_shape).
#pragma once

namespace unihal::tensorflow {

enum { kGraphNode = 1 };
enum { kNodeName = 1, kNodeOp = 2, kNodeInput = 3, kNodeDevice = 4, kNodeAttribute = 5 };
enum { kEntryKey = 1, kEntryValue = 2 };
enum {
  kValueList = 1,
  kValueString = 2,
  kValueInteger = 3,
  kValueFloat = 4,
  kValueBool = 5,
  kValueType = 6,
  kValueShape = 7,
  kValueTensor = 8
};
enum { kListIntegers = 3, kListFloats = 4, kListTypes = 6, kListShapes = 7 };
enum { kShapeDimension = 2, kShapeUnknownRank = 3, kDimensionSize = 1 };
enum {
  kTensorType = 1,
  kTensorShape = 2,
  kTensorContent = 4,
  kTensorFloats = 5,
  kTensorIntegers = 7,
  kTensorLongs = 10,
  kTensorBooleans = 11,
  kTensorHalves = 13
};

}  // namespace unihal::tensorflow
