#include "stub/vector/compute.h"

#include <cstring>

namespace unihal::stub {

#define UHAL_DECLARE(set)                                                       \
  namespace set {                                                               \
  extern const MapLoop kMapLoops[uhal_map_function_limit][kComputeTypes];       \
  extern const MapLoop kMapLoopsOfSame[uhal_map_function_limit][kComputeTypes]; \
  void add_complex_loops(InstructionSet& set);                                  \
  extern const LoadLoop kLoadLoops[UHAL_DTYPE_COUNT][kComputeTypes];            \
  extern const StoreLoop kStoreLoops[kComputeTypes][UHAL_DTYPE_COUNT];          \
  extern const ReduceRun kReduceRuns[kReduceSteps][kComputeTypes];              \
  extern const ReduceRows kReduceRows[kReduceSteps][kComputeTypes];             \
  extern const ExtremePlace kExtremePlaces[2][kExtremeTypes];                   \
  CombineRows combine_rows_of(uhal_reduction reduction, uhal_dtype dtype);      \
  SumLookedUp sum_looked_up_of(uhal_dtype dtype);                               \
  extern const ByteTile kByteTile;                                              \
  extern const StreamLines kStreamLines;                                        \
  extern const RandomLoops kRandomLoops;                                        \
  }
UHAL_DECLARE(baseline)
#ifdef UHAL_STUB_AVX2
UHAL_DECLARE(avx2)
#endif
#ifdef UHAL_STUB_AVX512
UHAL_DECLARE(avx512)
#endif
#undef UHAL_DECLARE

namespace {

#define UHAL_MAKE(set)                                                                                     \
  make(#set, set::kMapLoops, set::kMapLoopsOfSame, set::kLoadLoops, set::kStoreLoops, set::kReduceRuns,    \
       set::kReduceRows, set::kExtremePlaces, set::combine_rows_of, set::sum_looked_up_of, set::kByteTile, \
       set::kStreamLines, set::kRandomLoops, set::add_complex_loops)

template <class Map, class Load, class Store, class Run, class Rows, class Places>
InstructionSet make(const char* name, const Map& map, const Map& map_of_same, const Load& load, const Store& store,
                    const Run& run, const Rows& rows, const Places& places,
                    CombineRows (*combine_rows)(uhal_reduction, uhal_dtype), SumLookedUp (*sum_looked_up)(uhal_dtype),
                    ByteTile byte_tile, StreamLines stream_lines, const RandomLoops& random,
                    void (*add_complex_loops)(InstructionSet&)) {
  InstructionSet set = {};
  set.name = name;
  std::memcpy(set.map, map, sizeof map);
  std::memcpy(set.map_of_same, map_of_same, sizeof map_of_same);
  std::memcpy(set.load, load, sizeof load);
  std::memcpy(set.store, store, sizeof store);
  std::memcpy(set.reduce_run, run, sizeof run);
  std::memcpy(set.reduce_rows, rows, sizeof rows);
  std::memcpy(set.extreme_place, places, sizeof places);
  set.combine_rows = combine_rows;
  set.sum_looked_up = sum_looked_up;
  set.byte_tile = byte_tile;
  set.stream_lines = stream_lines;
  set.random = random;
  add_complex_loops(set);
  return set;
}

InstructionSet choose() {
#if defined(UHAL_STUB_AVX2) || defined(UHAL_STUB_AVX512)
  __builtin_cpu_init();
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#ifdef UHAL_STUB_AVX512
  const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (has_avx2 && has_avx512) return UHAL_MAKE(avx512);
#endif
#ifdef UHAL_STUB_AVX2
  if (has_avx2) return UHAL_MAKE(avx2);
#endif
#endif
  return UHAL_MAKE(baseline);
}
#undef UHAL_MAKE

}  // namespace

const InstructionSet& vectors() {
  static const InstructionSet set = choose();
  return set;
}

}  // namespace unihal::stub
