// The inner loops: elementwise functions, conversions and reductions over runs of elements, compiled once per
// instruction set (vector_*.cc) and chosen when the backend is loaded.
#pragma once

#include <cstdint>

#include "csrc/backends/common/dtype.h"
#include "csrc/tables/elementwise.h"
#include "unihal/op.h"

namespace unihal::stub {

// The types that arithmetic is done in (op.h, "Arithmetic"). kFloat16 and kBfloat16 are that in float of numbers that
// lie in memory as they are stored, for loops that convert them on the way, where there are such: buffers of float
// between loops cost more than cheap arithmetic does. Parameters of these are of float.
enum ComputeType {
  kFloat,
  kDouble,
  kInt64,
  kUint64,
  kComplexFloat,
  kComplexDouble,
  kFloat16,
  kBfloat16,
  kComputeTypes
};

inline constexpr int64_t compute_size(ComputeType type) {
  constexpr int64_t kSize[kComputeTypes] = {4, 8, 8, 8, 8, 16, 2, 2};
  return kSize[type];
}

// The dtype that a compute type is stored as without conversion.
inline constexpr uhal_dtype compute_dtype(ComputeType type) {
  constexpr uhal_dtype kDtype[kComputeTypes] = {UHAL_FLOAT32,   UHAL_FLOAT64,    UHAL_INT64,   UHAL_UINT64,
                                                UHAL_COMPLEX64, UHAL_COMPLEX128, UHAL_FLOAT16, UHAL_BFLOAT16};
  return kDtype[type];
}

// The one of loops that convert numbers of a dtype on the way to float; kFloat for other dtypes.
inline constexpr ComputeType narrow_type_of(uhal_dtype dtype) {
  return dtype == UHAL_FLOAT16 ? kFloat16 : dtype == UHAL_BFLOAT16 ? kBfloat16 : kFloat;
}

// The narrowest compute type that holds every value of a dtype.
inline constexpr ComputeType compute_type_of(uhal_dtype dtype) {
  if (is_complex(dtype)) return dtype == UHAL_COMPLEX64 ? kComplexFloat : kComplexDouble;
  return dtype == UHAL_FLOAT64 ? kDouble : is_floating(dtype) ? kFloat : dtype == UHAL_UINT64 ? kUint64 : kInt64;
}

// outputs[k][i] = function(inputs[...][i]...) for `count` elements of the compute type. An output may be the same
// memory as an input. `parameters` are UHAL_MAP_MAX_PARAMETERS values of the compute type, of the type of its parts if
// it is complex.
using MapLoop = void (*)(int64_t count, const void* const* inputs, void* const* outputs, const void* parameters);

// The inputs, as bits, that are one number for all elements as a rule (a learning rate, the ends of a range) and make
// much of a function's work the same for all of them: InstructionSet::map_of_same does that once.
inline constexpr uint32_t same_inputs(uhal_map_function function) {
  switch (function) {
    case uhal_map_fake_quantize_range:
    case uhal_map_fake_quantize_range_backward:
    case uhal_map_quantize_dequantize_range:
      return 1 << 1 | 1 << 2;
    case uhal_map_adam:
    case uhal_map_adam_epsilon_hat:
    case uhal_map_adam_amsgrad:
    case uhal_map_adam_amsgrad_epsilon_hat:
      return 1 << 4 | 1 << 5 | 1 << 6;
    case uhal_map_adamax:
    case uhal_map_adamax_epsilon_outside:
      return 1 << 4 | 1 << 5;
    default:
      return 0;
  }
}

// Converts `count` elements, `stride` apart, to adjacent elements of a compute type. Real numbers become complex ones
// on the real axis.
using LoadLoop = void (*)(int64_t count, const void* source, int64_t stride, void* destination);

// Converts adjacent elements of a compute type, rounding to nearest even, to elements `stride` apart. Of complex
// numbers a real dtype gets the real part.
using StoreLoop = void (*)(int64_t count, const void* source, void* destination, int64_t stride);

// How elements enter a reduction, and how they are combined.
enum ReduceStep { kSum, kSumSquares, kSumAbsolute, kSumExp, kProduct, kMaximum, kMinimum, kAll, kAny, kReduceSteps };

// Reductions accumulate in double for floating compute types, kFloat16 and kBfloat16 among them, and in the type itself
// for integers.
//
// Combines `count` adjacent elements into *accumulator. `shift` (of the compute type) is subtracted before kSumExp.
using ReduceRun = void (*)(int64_t count, const void* source, const void* shift, void* accumulator);

// Combines `rows` rows of `count` adjacent elements, `row_stride` elements apart, into `count` accumulators.
using ReduceRows = void (*)(int64_t count, int64_t rows, const void* source, int64_t row_stride, void* accumulators);

// The place of the first of the smallest or largest of 1 to 2^31 - 1 adjacent elements; -1 if one of them is NaN. Of
// real compute types, and of int32 and integers of one and two bytes as they lie.
using ExtremePlace = int64_t (*)(int64_t count, const void* source);
inline constexpr int kExtremeInt32 = kComplexFloat;  // where it is in the table, and the others behind it
inline constexpr int kExtremeInt8 = kExtremeInt32 + 1;
inline constexpr int kExtremeUint8 = kExtremeInt32 + 2;
inline constexpr int kExtremeInt16 = kExtremeInt32 + 3;
inline constexpr int kExtremeUint16 = kExtremeInt32 + 4;
inline constexpr int kExtremeTypes = kExtremeInt32 + 5;

// Of the integers that are looked at as they lie; kExtremeTypes of other dtypes.
inline constexpr int narrow_extreme_type(uhal_dtype dtype) {
  switch (dtype) {
    case UHAL_INT32:
      return kExtremeInt32;
    case UHAL_INT16:
      return kExtremeInt16;
    case UHAL_UINT16:
      return kExtremeUint16;
    case UHAL_INT8:
      return kExtremeInt8;
    case UHAL_UINT8:
      return kExtremeUint8;
    default:
      return kExtremeTypes;
  }
}

// tile (kByteTileRows x kByteTileColumns) = a @ b of numbers of 9 bits at most: a has, for each pair along k, two of
// each row, b two of each column. Sums wrap.
using ByteTile = void (*)(int64_t pairs, const int16_t* a, const int16_t* b, int32_t* tile);
inline constexpr int64_t kByteTileRows = 6;
inline constexpr int64_t kByteTileColumns = 16;

// Rows of one segment, which are combined with its sum (or its extremes) in their order. The sum and the weights are of
// the compute type.
struct SegmentRows {
  const void* const* rows;
  int64_t count;        // at least 1
  const void* weights;  // of each row one, `weight_step` elements apart; nullptr: none has one
  int64_t weight_step;
  void* sum;
  bool begins;  // the first row is the sum so far
};

// Combines rows of `length` adjacent elements of `count` segments, of which all have weights or none has; extremes have
// none. There are `ahead` pointers behind those to a segment's rows: what they point to is asked for meanwhile.
using CombineRows = void (*)(int64_t length, int64_t ahead, int64_t count, const SegmentRows* segments);

// Rows of a table that elements name, in segments that begin and end at offsets.
struct LookedUpRows {
  const void* table;
  int64_t rows;       // of the table
  int64_t length;     // adjacent elements of a row
  int64_t row_bytes;  // from one row to the next
  const void* indices;
  int64_t index_step;   // in elements, as all steps are
  bool wide_indices;    // they are of int64, and not of int32
  const void* weights;  // of each element one, of the compute type; nullptr: none has one
  int64_t weight_step;
  int64_t elements;
  const void* offsets;
  int64_t offset_step;
  bool wide_offsets;
  void* results;         // of each segment one, stored as the table is
  int64_t result_bytes;  // from one segment's to the next
  bool mean;
};

// Stores the sums or means of segments from `first` on, up to one that has no elements or an element whose row does not
// exist, or to `last`, and returns which that is. What is stored of the one that it stops at is not its result.
using SumLookedUp = int64_t (*)(const LookedUpRows& problem, int64_t first, int64_t last);

// Copies lines of 64 bytes with stores around the caches; `destination` is aligned to 64.
using StreamLines = void (*)(void* destination, const void* source, int64_t lines);

// Random numbers. A block of Philox is four words; `counter` is its low and high half.
struct RandomLoops {
  void (*philox)(uint64_t key, const uint64_t* counter, int64_t blocks, uint32_t* words);
  // The same of counters in place, by words; `lanes` is a multiple of 8.
  void (*philox_rounds)(uint64_t key, int64_t lanes, uint32_t* c0, uint32_t* c1, uint32_t* c2, uint32_t* c3);
  void (*uniform_float)(int64_t count, const uint32_t* words, float* out);    // [0, 1), a word each
  void (*uniform_double)(int64_t count, const uint32_t* words, double* out);  // [0, 1), two words each
  void (*normal_float)(int64_t count, const uint32_t* words, float* out);     // a word each; even counts
  void (*normal_double)(int64_t count, const uint32_t* words, double* out);   // two words each; even counts
};

struct InstructionSet {
  const char* name;
  MapLoop map[uhal_map_function_limit][kComputeTypes];          // null where a function is not defined on a type
  MapLoop map_of_same[uhal_map_function_limit][kComputeTypes];  // of those of same_inputs the first elements count
  MapLoop modulus[kComputeTypes];  // of complex types: uhal_map_absolute with results of the type of the parts
  LoadLoop load[UHAL_DTYPE_COUNT][kComputeTypes];     // complex dtypes to complex types only, narrow types to and from
  StoreLoop store[kComputeTypes][UHAL_DTYPE_COUNT];   // their own dtypes, and real types to real dtypes only
  ReduceRun reduce_run[kReduceSteps][kComputeTypes];  // null for complex types, kSumExp is of kFloat and kDouble
  ReduceRows reduce_rows[kReduceSteps][kComputeTypes];  // and for kSumExp
  ExtremePlace extreme_place[2][kExtremeTypes];         // of the smallest, of the largest
  // nullptr but for sums and means of real floating numbers, and for extremes of float32 and float64.
  CombineRows (*combine_rows)(uhal_reduction reduction, uhal_dtype dtype);
  SumLookedUp (*sum_looked_up)(uhal_dtype dtype);  // nullptr but for real floating numbers
  ByteTile byte_tile;                              // nullptr: float32 computes
  StreamLines stream_lines;                        // nullptr where there are no such stores
  RandomLoops random;
};

// The best instruction set that this processor has.
const InstructionSet& vectors();

}  // namespace unihal::stub
