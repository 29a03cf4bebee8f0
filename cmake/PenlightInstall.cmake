# Where things go: beside the Python package, so that one wheel has everything.

set(package "${PROJECT_SOURCE_DIR}/src/penlight")
if(TARGET penlight)
  install(TARGETS penlight LIBRARY DESTINATION penlight/runtime RUNTIME DESTINATION penlight/runtime)
  if(PENLIGHT_INPLACE)
    set_target_properties(penlight PROPERTIES
      LIBRARY_OUTPUT_DIRECTORY "${package}/runtime" RUNTIME_OUTPUT_DIRECTORY "${package}/runtime")
  endif()
endif()
if(TARGET penlight-runner)
  # A wheel's scripts are on the user's PATH.
  if(DEFINED SKBUILD_SCRIPTS_DIR)
    install(TARGETS penlight-runner RUNTIME DESTINATION "${SKBUILD_SCRIPTS_DIR}")
  else()
    install(TARGETS penlight-runner RUNTIME DESTINATION bin)
  endif()
endif()

# Headers and sources, for kernels, backends and programs of the user's own.
install(DIRECTORY runtime kernels schema DESTINATION penlight/share
  FILES_MATCHING PATTERN "*.h" PATTERN "*.cpp" PATTERN "*.yaml" PATTERN "*.fbs")
