# oneDNN's headers, needed to build; the library itself is opened at run time (library.h). PyPI's
# onednn-devel-cpu-gomp and onednn-cpu-gomp put both into the Python prefix.

find_package(Python COMPONENTS Interpreter QUIET)
if(Python_EXECUTABLE)
  cmake_path(GET Python_EXECUTABLE PARENT_PATH UNIHAL_PYTHON_BIN)
  set(UNIHAL_PYTHON_PREFIX ${UNIHAL_PYTHON_BIN}/..)
endif()
# setup.py knows the folder of oneDNN's CMake package and passes it as dnnl_DIR.
set(UNIHAL_ONEDNN_HINTS ${UNIHAL_PYTHON_PREFIX})
if(dnnl_DIR)
  list(PREPEND UNIHAL_ONEDNN_HINTS ${dnnl_DIR}/../../..)
endif()
# The build folder stays, and what a build in isolation found lay in a folder that is gone by the next one.
foreach(found UNIHAL_ONEDNN_INCLUDE_DIR UNIHAL_ONEDNN_LIBRARY)
  if(${found} AND NOT EXISTS "${${found}}")
    unset(${found} CACHE)
  endif()
endforeach()
find_path(UNIHAL_ONEDNN_INCLUDE_DIR oneapi/dnnl/dnnl.h HINTS ${UNIHAL_ONEDNN_HINTS} PATH_SUFFIXES include)
find_file(UNIHAL_ONEDNN_LIBRARY libdnnl.so.3 HINTS ${UNIHAL_ONEDNN_HINTS} PATH_SUFFIXES lib)

option(UNIHAL_STUB_ONEDNN "Matrix products and convolutions of the stub with oneDNN" ON)
if(UNIHAL_STUB_ONEDNN AND NOT UNIHAL_ONEDNN_INCLUDE_DIR)
  message(WARNING "oneDNN's headers were not found, so the stub is built without it and is several times slower: "
    "pip install onednn-devel-cpu-gomp, or set UNIHAL_ONEDNN_INCLUDE_DIR")
elseif(UNIHAL_STUB_ONEDNN)
  target_compile_definitions(unihal_stub PRIVATE UNIHAL_STUB_ONEDNN)
  target_include_directories(unihal_stub SYSTEM PRIVATE ${UNIHAL_ONEDNN_INCLUDE_DIR})
  # In the build tree a link beside the backend stands for the installed package's place in the Python prefix.
  if(UNIHAL_ONEDNN_LIBRARY)
    file(MAKE_DIRECTORY ${UNIHAL_LIBRARY_DIR})
    file(CREATE_LINK ${UNIHAL_ONEDNN_LIBRARY} ${UNIHAL_LIBRARY_DIR}/libdnnl.so.3 SYMBOLIC)
  endif()
endif()
