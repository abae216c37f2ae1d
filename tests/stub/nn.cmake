# Suite of the stub's neural-network kernels: with oneDNN, where there is one, without, and in the strict mode.
if(NOT UNIHAL_BUILD_SEQUENTIAL_TESTS)
  return()
endif()
file(GLOB UNIHAL_NN_TESTS CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/nn_*.cc)
unihal_add_suite(stub_nn_test OPTIMIZED ONE_PROCESS ${UNIHAL_NN_TESTS})
add_dependencies(stub_nn_test unihal_stub)
unihal_add_run(stub_nn_test.built_in stub_nn_test UNIHAL_ONEDNN_LIBRARY=none)
unihal_add_run(stub_nn_test.strict stub_nn_test UNIHAL_STUB=strict)
