# The static libraries of another build of this tree, in place of building them again:
#
#   cmake -S . -B build -Dpenlight_DIR=... -DPENLIGHT_BUILT=/path/to/penlight/build/native
#
# Several projects may share one. It has to be of the same compiler family, and its
# PENLIGHT_MESSAGES and PENLIGHT_TRACE are taken over, as headers depend on them.

function(penlight_import_built folder)
  get_filename_component(root "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/.." ABSOLUTE)
  get_filename_component(folder "${folder}" ABSOLUTE BASE_DIR "${CMAKE_BINARY_DIR}")
  # Within the build of another project the cache is that project's.
  set(cache "${folder}/CMakeCache.txt")
  if(NOT EXISTS "${cache}")
    get_filename_component(project "${folder}" DIRECTORY)
    set(cache "${project}/CMakeCache.txt")
  endif()
  if(NOT EXISTS "${cache}")
    message(FATAL_ERROR "PENLIGHT_BUILT: there is no build of Penlight in ${folder}")
  endif()
  set(defines)
  foreach(option IN ITEMS PENLIGHT_MESSAGES PENLIGHT_TRACE)
    file(STRINGS "${cache}" line REGEX "^${option}:BOOL=")
    if(line MATCHES "=(ON|1|TRUE|YES|Y)$")
      list(APPEND defines "${option}=1")
    else()
      list(APPEND defines "${option}=0")
    endif()
  endforeach()
  foreach(name IN ITEMS core kernel_common portable optimized hosted)
    set(file "${folder}/${CMAKE_STATIC_LIBRARY_PREFIX}penlight_${name}${CMAKE_STATIC_LIBRARY_SUFFIX}")
    if(NOT EXISTS "${file}")
      message(FATAL_ERROR "PENLIGHT_BUILT: ${file} is missing; build Penlight there first")
    endif()
    add_library(penlight_${name} STATIC IMPORTED GLOBAL)
    add_library(penlight::${name} ALIAS penlight_${name})
    set_target_properties(penlight_${name} PROPERTIES IMPORTED_LOCATION "${file}")
    target_compile_features(penlight_${name} INTERFACE cxx_std_17)
    target_include_directories(penlight_${name} INTERFACE "${root}/runtime/include")
    target_compile_definitions(penlight_${name} INTERFACE ${defines})
    if(NOT WIN32)
      target_link_libraries(penlight_${name} INTERFACE m)
    endif()
  endforeach()
  target_link_libraries(penlight_portable INTERFACE penlight_kernel_common penlight_core)
  target_link_libraries(penlight_optimized INTERFACE penlight_kernel_common penlight_core)
  find_package(Threads REQUIRED)
  target_link_libraries(penlight_hosted INTERFACE
    penlight_optimized penlight_portable penlight_core Threads::Threads ${CMAKE_DL_LIBS})
endfunction()
