# What every source of core and stub is compiled with for the fuzz targets.
if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "UNIHAL_BUILD_FUZZERS needs clang, for libFuzzer: run tests/fuzz/run.sh")
endif()
# The stub's loops, instrumented and optimized, would take two thirds of the build, and inputs are small.
target_compile_options(unihal_flags INTERFACE
  -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
  $<IF:$<BOOL:$<TARGET_PROPERTY:UNIHAL_READS_ELEMENTS>>,-O0,-O1> -gline-tables-only
  -Wno-unknown-pragmas -Wno-unused-function)  # OpenMP's; clang looks into templates' branches
