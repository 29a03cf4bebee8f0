# penlight_add_operators(TARGET FILE.cpp ...)
#
# Gives a target operators of your own: C++ files that end in PENLIGHT_LIBRARY. They register
# themselves when the program starts, and are part of it although nothing names them:
#
#   an executable, a shared library or a module compiles the files itself;
#   a static library hands their objects on to whatever is linked with it, because a linker
#   takes from an archive only what somebody asks for.

function(penlight_add_operators target)
  _penlight_check_target(penlight_add_operators ${target})
  if(NOT ARGN)
    message(FATAL_ERROR "penlight_add_operators: name the C++ files of the operators of ${target}")
  endif()
  set(files)
  foreach(file IN LISTS ARGN)
    get_filename_component(file "${file}" ABSOLUTE)
    get_source_file_property(generated "${file}" GENERATED)
    if(NOT generated AND NOT EXISTS "${file}")
      message(FATAL_ERROR "penlight_add_operators: no such file: ${file}")
    endif()
    list(APPEND files "${file}")
  endforeach()

  get_target_property(kind ${target} TYPE)
  # Set as properties, because target_link_libraries must not mix its two forms and the
  # user may have chosen either.
  if(NOT kind STREQUAL "STATIC_LIBRARY")
    target_sources(${target} PRIVATE ${files})
    set_property(TARGET ${target} APPEND PROPERTY LINK_LIBRARIES penlight::core)
    return()
  endif()
  set(objects "${target}_penlight_operators")
  if(TARGET ${objects})
    target_sources(${objects} PRIVATE ${files})
    return()
  endif()
  add_library(${objects} OBJECT ${files})
  target_link_libraries(${objects} PRIVATE penlight::core)
  # They may end up in a shared library.
  get_property(shared_libraries GLOBAL PROPERTY TARGET_SUPPORTS_SHARED_LIBS)
  set_property(TARGET ${objects} PROPERTY POSITION_INDEPENDENT_CODE ${shared_libraries})
  set_property(TARGET ${target} APPEND PROPERTY INTERFACE_SOURCES "$<TARGET_OBJECTS:${objects}>")
  set_property(TARGET ${target} APPEND PROPERTY INTERFACE_LINK_LIBRARIES penlight::core)
  add_dependencies(${target} ${objects})
endfunction()
