# find_package(penlight): the runtime and its kernels, built from source inside your build,
# with your compiler and your flags.
#
#   cmake -S . -B build -Dpenlight_DIR="$(penlight --cmake-dir)"
#
#   find_package(penlight REQUIRED)
#   target_link_libraries(app PRIVATE penlight::hosted)
#   penlight_add_model(app model.pte EMBED)         see PenlightModel.cmake
#   penlight_add_operators(app my_operator.cpp)     see PenlightOperators.cmake
#
# Targets:
#   penlight::hosted    Module, files, threads; with every kernel (operating systems only)
#   penlight::portable  every operator in plain C++; a program hands its table to a registry
#   penlight::core      the runtime alone: no heap, no kernels
#
# Options: PENLIGHT_MESSAGES, PENLIGHT_TRACE (both ON); PENLIGHT_BUILT, a folder where the
# libraries have been built already, as several projects may share (PenlightBuilt.cmake).

if(CMAKE_VERSION VERSION_LESS 3.18)
  set(penlight_FOUND FALSE)
  set(penlight_NOT_FOUND_MESSAGE "Penlight needs CMake 3.18 or newer, this is ${CMAKE_VERSION}")
  return()
endif()
if(MSVC AND NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  set(penlight_FOUND FALSE)
  set(penlight_NOT_FOUND_MESSAGE "Penlight's kernels need GCC, Clang or zig; with Visual Studio use -T ClangCL")
  return()
endif()
if(NOT CMAKE_CXX_COMPILER_LOADED)
  set(penlight_FOUND FALSE)
  set(penlight_NOT_FOUND_MESSAGE "Penlight is built by your C++ compiler: add CXX to the languages of project()")
  return()
endif()

include("${CMAKE_CURRENT_LIST_DIR}/PenlightModel.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/PenlightOperators.cmake")
if(NOT TARGET penlight::core)
  add_subdirectory("${CMAKE_CURRENT_LIST_DIR}" "${CMAKE_BINARY_DIR}/penlight" EXCLUDE_FROM_ALL)
endif()
