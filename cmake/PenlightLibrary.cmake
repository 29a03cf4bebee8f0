# Functions that make the libraries of the runtime.

# A static library over the public headers: penlight_core, for users penlight::core.
function(penlight_add_static name)
  get_filename_component(root "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/.." ABSOLUTE)
  add_library(${name} STATIC ${ARGN})
  string(REPLACE "penlight_" "penlight::" alias ${name})
  add_library(${alias} ALIAS ${name})
  target_compile_features(${name} PUBLIC cxx_std_17)
  # What one folder shows to another is included as "core/x.h", "kernels/common/x.h".
  target_include_directories(${name} PUBLIC "${root}/runtime/include" PRIVATE "${root}/runtime" "${root}")
  penlight_compile_flags(${name})
  # Both change the layout of what headers declare, so users get them too.
  target_compile_definitions(${name} PUBLIC
    PENLIGHT_MESSAGES=$<BOOL:${PENLIGHT_MESSAGES}> PENLIGHT_TRACE=$<BOOL:${PENLIGHT_TRACE}>)
  if(NOT WIN32)
    target_link_libraries(${name} PUBLIC m)
  endif()
endfunction()

# A library of kernels: kernels/NAME/*.cpp and a table, which is made from ops.yaml
# unless an installed package has it ready.
function(penlight_add_kernel_library name)
  get_filename_component(root "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/.." ABSOLUTE)
  file(GLOB sources CONFIGURE_DEPENDS "${root}/kernels/${name}/*.cpp")
  set(table "${root}/kernels/generated/${name}_table.cpp")
  if(NOT EXISTS "${table}")
    set(table "${CMAKE_CURRENT_BINARY_DIR}/generated/${name}_table.cpp")
    set(ops "${root}/kernels/ops.yaml")
    set(script "${root}/src/penlight/build/registration.py")
    # A checkout's own environment has what the script needs; the system's Python may not.
    if(NOT DEFINED Python_EXECUTABLE AND EXISTS "${root}/.venv/bin/python")
      set(Python_EXECUTABLE "${root}/.venv/bin/python")
    endif()
    # What reads the table and the kernels, beside the script itself.
    file(GLOB readers CONFIGURE_DEPENDS "${root}/src/penlight/kernels/*.py")
    find_package(Python COMPONENTS Interpreter REQUIRED)
    add_custom_command(
      OUTPUT "${table}"
      COMMAND Python::Interpreter "${script}" "${ops}" ${name} -o "${table}"
              $<$<BOOL:${PENLIGHT_UNFINISHED}>:--unfinished>
      DEPENDS "${ops}" "${script}" ${readers} ${sources}
      COMMENT "Kernel table of ${name}"
      COMMAND_EXPAND_LISTS VERBATIM)
    set_property(GLOBAL APPEND PROPERTY PENLIGHT_TABLES "${table}")
  endif()
  penlight_add_static(penlight_${name} ${sources} "${table}")
  target_compile_options(penlight_${name} PRIVATE $<$<CONFIG:Release>:-O2>)
  target_link_libraries(penlight_${name} PUBLIC penlight_kernel_common penlight_core)
endfunction()

# libpenlight: the C interface, for Python and other languages.
function(penlight_add_shared)
  get_filename_component(root "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/.." ABSOLUTE)
  add_library(penlight SHARED "${root}/cmake/anchor.c")
  if(APPLE)
    target_link_libraries(penlight PRIVATE -Wl,-force_load $<TARGET_FILE:penlight_hosted> penlight_hosted)
    target_link_options(penlight PRIVATE "-Wl,-exported_symbol,_pl_*")
  else()
    target_link_libraries(penlight PRIVATE
      -Wl,--whole-archive $<TARGET_FILE:penlight_hosted> -Wl,--no-whole-archive penlight_hosted)
    set(exports "${root}/cmake/exports.map")
    target_link_options(penlight PRIVATE "-Wl,--version-script=${exports}" -Wl,--no-undefined)
    set_property(TARGET penlight PROPERTY LINK_DEPENDS "${exports}")
  endif()
  if(PENLIGHT_SANITIZE)
    target_link_options(penlight PRIVATE -fsanitize=address,undefined)
  endif()
  target_link_options(penlight PRIVATE ${PENLIGHT_GC_SECTIONS})
  set_target_properties(penlight PROPERTIES LINKER_LANGUAGE C)
endfunction()
