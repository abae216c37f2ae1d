// The interface between the adapter (C API only, any TensorFlow) and the shim (C++ API, one minor version).
//
// TensorFlow's C API for resource variables is missing from its wheels, so the shim provides the few things that
// need C++: locking variables, their tensors, assignment; running an op's CPU kernel in the place of its own; and
// taking the place of NCCL among TensorFlow's collectives. An op's operands come from it too, for a handle of the C API
// is two objects and a reference for each. It is opened at run time, by TensorFlow's version. Tensors that are handed
// over as TF_Tensor* are deleted by the receiver. All functions set `status` on failure.
#pragma once

#include "tensorflow/c/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct unihal_variable_locks unihal_variable_locks;

// Of how many axes an operand tells the sizes: UHAL_MAX_RANK.
#define UNIHAL_OPERAND_AXES 10

// What a kernel needs of a tensor, which the context holds until the op is done.
typedef struct unihal_operand {
  void* data;  // may be NULL where there are no elements
  int64_t elements;
  TF_DataType dtype;
  int rank;
  int64_t dims[UNIHAL_OPERAND_AXES];  // of the first axes, where there are more
} unihal_operand;

// Submits a copy of `source` to `destination`, of one shape and dtype, and deletes both handles.
typedef void (*unihal_variable_copy)(TF_OpKernelContext* context, TF_Tensor* source, TF_Tensor* destination,
                                     TF_Status* status);

// Copies `bytes` between host memory and memory of the context's device, and waits.
typedef void (*unihal_host_copy)(TF_OpKernelContext* context, void* destination, const void* source, size_t bytes,
                                 int to_host, TF_Status* status);

// What TensorFlow's collective ops do.
typedef enum unihal_collective_kind {
  UNIHAL_COLLECTIVE_REDUCE,
  UNIHAL_COLLECTIVE_GATHER,
  UNIHAL_COLLECTIVE_BROADCAST,
  UNIHAL_COLLECTIVE_REDUCE_SCATTER,
  UNIHAL_COLLECTIVE_ALL_TO_ALL
} unihal_collective_kind;

// What a collective moves: of each rank `count` elements, in blocks as in unihal/collectives.h.
typedef struct unihal_collective_part {
  int64_t count;
  const void* source;  // NULL where a broadcast receives
  void* destination;
} unihal_collective_part;

// One execution of a collective op, on the device of one rank of a group within this process.
typedef struct unihal_collective_rank {
  const char* key;  // the same for all ranks of one execution, and for no other execution under way
  unihal_collective_kind kind;
  const char* merge;  // of reductions, TensorFlow's op: "Add", "Mul", "Maximum", "Minimum"; else ""
  int average;        // of reductions: the sum is divided by the number of ranks
  TF_DataType dtype;
  int rank, size;
  int is_source;                        // of broadcasts
  const unihal_collective_part* parts;  // done alike, together; as many on all ranks
  int part_count;
} unihal_collective_rank;

// What the adapter gives for them.
typedef struct unihal_collective_functions {
  // Whether the adapter takes collectives of this kind and dtype on devices of this type ("RDNA"); TensorFlow's own
  // copies and adds do the others.
  int (*accepts)(const char* device_type, unihal_collective_kind kind, TF_DataType dtype, int average);

  // A number for arrive(), which follows, and cancel().
  int64_t (*new_ticket)(void);

  // Submits the collective to the devices' streams once all ranks have arrived. Then, or where that fails or
  // is cancelled, `done` is called, once, from any thread, also from within this call. What the rank points at, but its
  // key, lives until then; `context` need only live during the call.
  void (*arrive)(int64_t ticket, TF_OpKernelContext* context, const unihal_collective_rank* rank,
                 void (*done)(void* argument, TF_Status* status), void* argument);

  // A rank that waits for others is done with an error of this code, at once or when it arrives. Else nothing happens.
  void (*cancel)(int64_t ticket, TF_Code code);
} unihal_collective_functions;

typedef struct unihal_shim_functions {
  size_t struct_size;

  // Locks the variables behind `count` inputs, all resources or all references, for writing, in the order of their
  // addresses. NULL on failure, also where two inputs are one variable. An output that is a reference becomes one to
  // the first of them.
  unihal_variable_locks* (*lock)(TF_OpKernelContext* context, const int* inputs, int count, TF_Status* status);
  void (*unlock)(unihal_variable_locks* locks);

  // The tensor of locked variable number `index`, to be written in place: if someone else still reads it, the
  // variable gets a copy of its own first. NULL on failure.
  TF_Tensor* (*writable)(TF_OpKernelContext* context, unihal_variable_locks* locks, int index,
                         unihal_variable_copy copy, TF_Status* status);

  // The tensor of a variable to be read while this handle lives. NULL on failure.
  TF_Tensor* (*readable)(TF_OpKernelContext* context, int input, TF_Status* status);

  // Makes the variable behind input `variable` hold input `value`: by reference, or by a copy where the variable
  // must not share its memory, which a reference never does. `validate_shape`: a change of shape is an error.
  void (*assign)(TF_OpKernelContext* context, int variable, int value, int validate_shape, unihal_variable_copy copy,
                 TF_Status* status);

  // Computes the op on copies of its operands with TensorFlow's CPU kernel, and sets the outputs. Variables among the
  // operands are locked meanwhile, and get the values of their copies if that succeeds and `store_variables` is set.
  void (*compute_on_host)(TF_OpKernelContext* context, int store_variables, unihal_host_copy copy, TF_Status* status);

  // Whether tf.config.experimental.enable_op_determinism is in force.
  int (*determinism_required)(void);

  // Whether tf.config.experimental.enable_tensor_float_32_execution allows TF32, as it does by default.
  int (*tensor_float_32_allowed)(void);

  // Registers kernels of TensorFlow's collective ops for a device type that use these functions, which are to live as
  // long as the process. Groups of several processes, what the functions do not accept and the hint "ring" go on to
  // TensorFlow's own implementations, which send copies from host to host and add.
  void (*register_collectives)(const char* device_type, const unihal_collective_functions* functions);

  // An input that is no reference. This and the next two give 1, and 0 on failure: a kernel asks for no status where
  // nothing failed.
  int (*input)(TF_OpKernelContext* context, int index, unihal_operand* operand, TF_Status* status);

  // A new output; of TF_ForwardInputOrAllocateOutput, one that takes over the memory of the first of `count` inputs
  // that nobody else holds. The shape is one that a tensor can have.
  int (*output)(TF_OpKernelContext* context, int index, const int64_t* dims, int rank, unihal_operand* operand,
                TF_Status* status);
  int (*forwarded_output)(TF_OpKernelContext* context, const int* candidates, int count, int index, const int64_t* dims,
                          int rank, unihal_operand* operand, TF_Status* status);

  // Whether small outputs are cut from larger chunks of TensorFlow's pool from now on; at first not. For devices whose
  // memory TensorFlow pools.
  void (*set_small_outputs)(int on);
} unihal_shim_functions;

// The shim's only exported symbol.
const unihal_shim_functions* uhal_tensorflow_shim_functions(void);
#define UNIHAL_SHIM_FUNCTIONS_SYMBOL "uhal_tensorflow_shim_functions"

#ifdef __cplusplus
}
#endif
