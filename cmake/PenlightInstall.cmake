# Where things go: beside the Python package, so that one wheel has everything.

set(package "${PROJECT_SOURCE_DIR}/src/penlight")
foreach(target IN ITEMS penlight penlight-runner)
  if(NOT TARGET ${target})
    continue()
  endif()
  if(target STREQUAL "penlight")
    set(folder runtime)
  else()
    set(folder bin)
  endif()
  if(PENLIGHT_INPLACE)
    set_target_properties(${target} PROPERTIES
      LIBRARY_OUTPUT_DIRECTORY "${package}/${folder}" RUNTIME_OUTPUT_DIRECTORY "${package}/${folder}")
  endif()
  install(TARGETS ${target}
    LIBRARY DESTINATION penlight/${folder} RUNTIME DESTINATION penlight/${folder})
endforeach()

# Headers and sources, for kernels, backends and programs of the user's own.
install(DIRECTORY runtime kernels schema DESTINATION penlight/share
  FILES_MATCHING PATTERN "*.h" PATTERN "*.cpp" PATTERN "*.yaml" PATTERN "*.fbs")
