# Makes C++ of the kernel sources: cmake -DROOT=... -DOUTPUT=<folder> -DSOURCES=<files> -DPRELUDES=<files> -P embed.cmake
#
# Writes kernel_sources.h and kernel_sources.cc: `sources::reduce` for source/reduce.cl, `prelude_opencl` for
# prelude/opencl.h. A line `#include "csrc/..."` of a source is replaced by that file.

function(read_with_includes path result)
  file(READ ${path} text)
  while(text MATCHES "#include \"(csrc/[a-z0-9_/.]+)\"\n")
    set(line "${CMAKE_MATCH_0}")
    file(READ ${ROOT}/${CMAKE_MATCH_1} included)
    string(REPLACE "${line}" "${included}" text "${text}")
  endwhile()
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

set(header "// Made by csrc/kernels/embed.cmake.\n#pragma once\n\n#include \"csrc/kernels/kernel_spec.h\"\n\nnamespace unihal::kernels {\nnamespace sources {\n")
set(definitions "// Made by csrc/kernels/embed.cmake.\n#include \"kernel_sources.h\"\n\nnamespace unihal::kernels {\nnamespace sources {\n")
foreach(path IN LISTS SOURCES)
  get_filename_component(name ${path} NAME_WE)
  read_with_includes(${path} text)
  string(APPEND header "extern const Source ${name};\n")
  string(APPEND definitions "extern const Source ${name} = {\"${name}\", R\"uhal(${text})uhal\"};\n")
endforeach()
string(APPEND header "}  // namespace sources\n\n")
string(APPEND definitions "}  // namespace sources\n\n")
foreach(path IN LISTS PRELUDES)
  get_filename_component(name ${path} NAME_WE)
  read_with_includes(${path} text)
  string(APPEND header "extern const char* const prelude_${name};\n")
  string(APPEND definitions "extern const char* const prelude_${name} = R\"uhal(${text})uhal\";\n")
endforeach()
file(WRITE ${OUTPUT}/kernel_sources.h "${header}\n}  // namespace unihal::kernels\n")
file(WRITE ${OUTPUT}/kernel_sources.cc "${definitions}\n}  // namespace unihal::kernels\n")
