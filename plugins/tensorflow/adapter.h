// What the loaders in tensorflow-plugins/ call: TensorFlow's plugin entry points with the device type added.
//
// A loader finds libunihal_tensorflow.so and forwards to these symbols. `type` is TensorFlow's name of the
// device type ("RDNA"), a literal. The structs are TensorFlow's own; nothing else crosses this boundary.
#pragma once

#include "tensorflow/c/experimental/grappler/grappler.h"
#include "tensorflow/c/experimental/pluggable_profiler/pluggable_profiler.h"
#include "tensorflow/c/experimental/stream_executor/stream_executor.h"
#include "tensorflow/c/tf_status.h"

#define UNIHAL_TENSORFLOW_EXPORT extern "C" __attribute__((visibility("default")))

// Registers the platform. Always succeeds: without devices, or when called again for a type, it registers one
// that reports none, since TensorFlow ends the process on an error from here.
UNIHAL_TENSORFLOW_EXPORT void uhal_tensorflow_init_plugin(const char* type, SE_PlatformRegistrationParams* params,
                                                          TF_Status* status);

// Registers all kernels for the type; nothing when it has no devices or has them already.
UNIHAL_TENSORFLOW_EXPORT void uhal_tensorflow_init_kernels(const char* type);

// Registers the graph pass that counts the ops that fell back to the CPU.
UNIHAL_TENSORFLOW_EXPORT void uhal_tensorflow_init_graph(const char* type, TP_OptimizerRegistrationParams* params,
                                                         TF_Status* status);

// Registers a profiler for the type; one of an empty profile where it has no devices.
UNIHAL_TENSORFLOW_EXPORT void uhal_tensorflow_init_profiler(const char* type, TF_ProfilerRegistrationParams* params,
                                                            TF_Status* status);

// Whether the platform of a type shows no devices from now on: before the eager context exists.
UNIHAL_TENSORFLOW_EXPORT void uhal_tensorflow_hide(const char* type, int hidden);

// The ops with kernels and their dtypes, as JSON: [{"op": "MatMul", "dtypes": ["float32", ...]}, ...]. The string
// lives as long as the process. Empty list before kernels were registered.
UNIHAL_TENSORFLOW_EXPORT const char* uhal_tensorflow_coverage();

// Counts an op that eager execution placed on the CPU though a device of `type` was asked for, unless it belongs there.
// `types` are its type attributes as numbers of TF_DataType: "T=1;Tin=1,3;"; others do no harm. Returns NULL, or under
// UNIHAL_STRICT=1 the message to raise, valid until the thread's next call.
UNIHAL_TENSORFLOW_EXPORT const char* uhal_tensorflow_record_fallback(const char* type, const char* op,
                                                                     const char* types);
