# The static libraries: core, kernels, and what a program on an operating system needs.
#
# Used by our own build and, through penlight-config.cmake, inside the build of a
# project that found Penlight; there nothing of ours is built unless a target asks.

get_filename_component(PENLIGHT_ROOT "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)

option(PENLIGHT_MESSAGES "Say in words what went wrong; status codes alone when off" ON)
option(PENLIGHT_TRACE "Event hooks for profiling" ON)
option(PENLIGHT_AVX512 "Kernels for AVX-512; when off, processors that have it run those for AVX2" ON)
set(PENLIGHT_BUILT "" CACHE PATH "Folder of another build of Penlight, whose libraries are taken")
option(PENLIGHT_SANITIZE "Build with AddressSanitizer and UndefinedBehaviorSanitizer" OFF)
option(PENLIGHT_WERROR "Treat warnings as errors; for us, not for users with other compilers" OFF)
option(PENLIGHT_UNFINISHED "Warn, rather than fail, of rows of ops.yaml without a kernel" OFF)
mark_as_advanced(PENLIGHT_BUILT PENLIGHT_SANITIZE PENLIGHT_WERROR PENLIGHT_UNFINISHED)

include("${CMAKE_CURRENT_LIST_DIR}/PenlightFlags.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/PenlightLibrary.cmake")
if(PENLIGHT_BUILT)
  include("${CMAKE_CURRENT_LIST_DIR}/PenlightBuilt.cmake")
  penlight_import_built("${PENLIGHT_BUILT}")
  return()
endif()

set(core_sources)
foreach(folder IN ITEMS core program kernel backend exec trace platform)
  file(GLOB found CONFIGURE_DEPENDS "${PENLIGHT_ROOT}/runtime/${folder}/*.cpp")
  list(APPEND core_sources ${found})
endforeach()
penlight_add_static(penlight_core ${core_sources})

file(GLOB common_sources CONFIGURE_DEPENDS "${PENLIGHT_ROOT}/kernels/common/*.cpp")
penlight_add_static(penlight_kernel_common ${common_sources})
penlight_add_kernel_library(portable)
include("${CMAKE_CURRENT_LIST_DIR}/PenlightOptimized.cmake")

# A board without an operating system has no files and no heap to offer.
if(NOT CMAKE_SYSTEM_NAME STREQUAL "Generic")
  file(GLOB hosted_sources CONFIGURE_DEPENDS "${PENLIGHT_ROOT}/runtime/hosted/*.cpp")
  find_package(Threads REQUIRED)
  penlight_add_static(penlight_hosted ${hosted_sources})
  target_link_libraries(penlight_hosted PUBLIC penlight_optimized penlight_portable penlight_core Threads::Threads ${CMAKE_DL_LIBS})
endif()
