# penlight_add_model(TARGET FILE [EMBED] [NAME name])
#
# Gives a program file (.pte, or .ptd with weights) to a target made in the same folder.
#
#   EMBED    the file becomes constant data of the target, declared in <penlight_models/NAME.h>:
#              extern const unsigned char NAME_data[];   aligned to 64 bytes
#              static const size_t NAME_size;
#            so that module.open(NAME_data, NAME_size) opens it
#   without  the file is copied beside the target's binary, under its own name or as NAME.pte
#
# NAME is the file's name without its extension, made an identifier, unless it is given.
# FILE may be the output of a rule of yours.

function(penlight_add_model target file)
  cmake_parse_arguments(PARSE_ARGV 2 model "EMBED" "NAME" "")
  if(model_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "penlight_add_model takes EMBED and NAME, not: ${model_UNPARSED_ARGUMENTS}")
  endif()
  _penlight_check_target(penlight_add_model ${target})
  get_filename_component(file "${file}" ABSOLUTE)
  _penlight_check_model("${file}")
  get_filename_component(stem "${file}" NAME_WE)
  get_filename_component(extension "${file}" LAST_EXT)
  if(model_EMBED)
    if(model_NAME)
      set(stem "${model_NAME}")
    endif()
    string(MAKE_C_IDENTIFIER "${stem}" name)
    if(model_NAME AND NOT name STREQUAL model_NAME)
      message(FATAL_ERROR "penlight_add_model: NAME ${model_NAME} is no identifier of C++; ${name} would be")
    endif()
    _penlight_embed(${target} "${file}" ${name})
    return()
  endif()

  get_target_property(kind ${target} TYPE)
  if(NOT kind MATCHES "^(EXECUTABLE|SHARED_LIBRARY|MODULE_LIBRARY)$")
    message(FATAL_ERROR "penlight_add_model: ${target} has no binary to put ${file} beside; use EMBED")
  endif()
  get_filename_component(copy "${file}" NAME)
  if(model_NAME)
    set(copy "${model_NAME}${extension}")
  endif()
  # A changed model counts as a reason to link, after which it is copied.
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${file}")
  add_custom_command(TARGET ${target} POST_BUILD
    COMMAND "${CMAKE_COMMAND}" -E copy_if_different "${file}" "$<TARGET_FILE_DIR:${target}>/${copy}"
    VERBATIM)
endfunction()

# Custom commands belong to the folder that makes a target.
function(_penlight_check_target caller target)
  if(NOT TARGET ${target})
    message(FATAL_ERROR "${caller}: there is no target ${target}")
  endif()
  get_target_property(folder ${target} SOURCE_DIR)
  if(NOT folder STREQUAL CMAKE_CURRENT_SOURCE_DIR)
    message(FATAL_ERROR "${caller}: call it in ${folder}, which makes the target ${target}")
  endif()
endfunction()

function(_penlight_check_model file)
  get_source_file_property(generated "${file}" GENERATED)
  if(generated)
    return()
  endif()
  if(NOT EXISTS "${file}" OR IS_DIRECTORY "${file}")
    message(FATAL_ERROR "penlight_add_model: no such file: ${file}")
  endif()
  file(READ "${file}" identifier OFFSET 4 LIMIT 4 HEX)
  if(NOT identifier MATCHES "^(45543132|46543031)$")  # ET12, FT01
    message(FATAL_ERROR "penlight_add_model: ${file} is neither a program (.pte) nor a data file (.ptd)")
  endif()
endfunction()

function(_penlight_embed target file name)
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/penlight_models_${target}")
  set(header "${folder}/penlight_models/${name}.h")
  set(source "${folder}/${name}.cpp")
  set(script "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/embed_model.cmake")
  add_custom_command(
    OUTPUT "${header}" "${source}"
    COMMAND "${CMAKE_COMMAND}" "-DMODEL=${file}" -DNAME=${name} "-DHEADER=${header}" "-DSOURCE=${source}"
            -P "${script}"
    DEPENDS "${file}" "${script}"
    COMMENT "Embedding ${name}" VERBATIM)
  set_source_files_properties("${source}" PROPERTIES OBJECT_DEPENDS "${file}")
  target_sources(${target} PRIVATE "${header}" "${source}")
  set_property(TARGET ${target} APPEND PROPERTY INCLUDE_DIRECTORIES "${folder}")
  set_property(TARGET ${target} APPEND PROPERTY INTERFACE_INCLUDE_DIRECTORIES "$<BUILD_INTERFACE:${folder}>")
endfunction()
