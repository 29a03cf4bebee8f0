# Where things go: beside the Python package, so that one wheel has everything.

install(TARGETS penlight LIBRARY DESTINATION penlight/runtime RUNTIME DESTINATION penlight/runtime)
if(PENLIGHT_INPLACE)
  set(folder "${PROJECT_SOURCE_DIR}/src/penlight/runtime")
  set_target_properties(penlight PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY "${folder}" RUNTIME_OUTPUT_DIRECTORY "${folder}")
endif()

# A wheel's scripts are on the user's PATH.
if(DEFINED SKBUILD_SCRIPTS_DIR)
  install(TARGETS penlight-runner RUNTIME DESTINATION "${SKBUILD_SCRIPTS_DIR}")
else()
  install(TARGETS penlight-runner RUNTIME DESTINATION bin)
endif()

# Headers, sources and CMake files, for kernels, backends and programs of the user's own:
# find_package(penlight) builds the static libraries from them. The tables of kernels are
# put in ready, so that it needs no Python.
set(share penlight/share)
install(DIRECTORY runtime kernels schema DESTINATION ${share}
  FILES_MATCHING PATTERN "*.h" PATTERN "*.cpp" PATTERN "*.yaml" PATTERN "*.fbs")
install(DIRECTORY platforms DESTINATION ${share} OPTIONAL)
install(DIRECTORY cmake DESTINATION ${share}
  PATTERN "build_backend.py" EXCLUDE PATTERN "__pycache__" EXCLUDE PATTERN "PenlightInstall.cmake" EXCLUDE)
get_property(tables GLOBAL PROPERTY PENLIGHT_TABLES)
install(FILES ${tables} DESTINATION ${share}/kernels/generated)
