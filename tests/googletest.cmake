# GoogleTest from its sources (tests/fetch_googletest.sh), and how the project's suites use it.
include_guard(GLOBAL)
include(GoogleTest)

set(UNIHAL_GOOGLETEST_DIR ${CMAKE_SOURCE_DIR}/.venv/googletest/usr/src/googletest CACHE PATH "Sources of GoogleTest")
if(NOT EXISTS ${UNIHAL_GOOGLETEST_DIR}/CMakeLists.txt)
  message(FATAL_ERROR "GoogleTest's sources are not in ${UNIHAL_GOOGLETEST_DIR}: run tests/fetch_googletest.sh, "
                      "or set UNIHAL_GOOGLETEST_DIR.")
endif()
set(INSTALL_GTEST OFF CACHE BOOL "" FORCE)
set(BUILD_GMOCK OFF CACHE BOOL "" FORCE)
add_subdirectory(${UNIHAL_GOOGLETEST_DIR} ${CMAKE_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)

# Tests are templates of GoogleTest for the most part: unoptimized they compile five times faster. What is tested is
# optimized as ever; suites that compute references (OPTIMIZED) are a little, which takes 60 % of the time that -O3 takes.
set(UNIHAL_TEST_OPTIONS -O0 CACHE INTERNAL "Of every folder's suites: this file is read once")
set(UNIHAL_OPTIMIZED_TEST_OPTIONS -O1 CACHE INTERNAL "The same")
foreach(target gtest gtest_main)
  target_compile_options(${target} PRIVATE ${UNIHAL_TEST_OPTIONS})
  if(UNIHAL_SANITIZE)  # the library and what it is linked into must agree
    target_compile_options(${target} PRIVATE -fsanitize=${UNIHAL_SANITIZE})
  endif()
endforeach()

# GoogleTest's header takes as long as what most files do with it: it is compiled once, for all suites of the same flags. The
# programs have no definitions of their own, which a precompiled header would ask of those that use it.
function(unihal_add_test_headers name)
  add_executable(${name} ${UNIHAL_GOOGLETEST_DIR}/googletest/src/gtest_main.cc)
  target_compile_options(${name} PRIVATE ${ARGN})
  target_link_libraries(${name} PRIVATE unihal_flags gtest)
  set_target_properties(${name} PROPERTIES UNIHAL_IS_A_TEST ON)
  target_precompile_headers(${name} PRIVATE
    <gtest/gtest.h> <algorithm> <atomic> <chrono> <cmath> <cstring> <fstream> <functional> <map> <memory> <mutex> <random> <string>
    <thread> <vector>)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${name} PRIVATE -fpch-preprocess)  # or ccache keeps nothing of what uses it
  endif()
endfunction()
unihal_add_test_headers(unihal_test_headers ${UNIHAL_TEST_OPTIONS})
unihal_add_test_headers(unihal_optimized_test_headers ${UNIHAL_OPTIMIZED_TEST_OPTIONS})

# unihal_add_run(NAME PROGRAM [VARIABLE=VALUE...]): ctest runs all tests of a program in one process, as it starts the longest first.
function(unihal_add_run name program)
  add_test(NAME ${name} COMMAND ${program} --gtest_brief=1)
  set_tests_properties(${name} PROPERTIES TIMEOUT 900 COST 100 ENVIRONMENT "${ARGN}")
endfunction()

# unihal_add_suite(NAME [OPTIMIZED] [ONE_PROCESS] [UNITE] SOURCES...): one program. ctest runs each of its tests in a process of its own, since
# the choice of a backend, the environment and finalize are for the life of a process; with ONE_PROCESS, where none of that is tested,
# all in one, which takes half the time. UNITE: six files at a time go to the compiler, which takes 0.6 of the time; the names in
# their anonymous namespaces must differ.
function(unihal_add_suite name)
  cmake_parse_arguments(PARSE_ARGV 1 SUITE "OPTIMIZED;ONE_PROCESS;UNITE" "" "")
  add_executable(${name} ${SUITE_UNPARSED_ARGUMENTS})
  if(SUITE_OPTIMIZED)
    set(options ${UNIHAL_OPTIMIZED_TEST_OPTIONS})
    set(headers unihal_optimized_test_headers)
  else()
    set(options ${UNIHAL_TEST_OPTIONS})
    set(headers unihal_test_headers)
  endif()
  target_compile_options(${name} PRIVATE ${options} $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
  target_precompile_headers(${name} REUSE_FROM ${headers})
  if(SUITE_UNITE)
    set_target_properties(${name} PROPERTIES UNITY_BUILD ${UNIHAL_UNITY} UNITY_BUILD_BATCH_SIZE 6)
  endif()
  target_link_libraries(${name} PRIVATE unihal_flags unihal gtest_main)
  set_target_properties(${name} PROPERTIES BUILD_RPATH ${UNIHAL_LIBRARY_DIR} UNIHAL_IS_A_TEST ON)
  if(SUITE_ONE_PROCESS)
    unihal_add_run(${name} ${name})
  else()
    gtest_discover_tests(${name} TEST_PREFIX ${name}. DISCOVERY_MODE PRE_TEST PROPERTIES TIMEOUT 120)
  endif()
endfunction()
