# Functions for the CMakeLists.txt of src/core and src/<backend>.
include_guard()

set(GK_EMBED_SCRIPT "${CMAKE_CURRENT_LIST_DIR}/embed.cmake")

# gk_set_flags(<target>): sets the flags that all gk targets share. All of them appear in the compile command.
function(gk_set_flags target)
  set_target_properties(${target} PROPERTIES
    C_STANDARD 11
    C_STANDARD_REQUIRED ON
    C_EXTENSIONS ON # POSIX declarations: clock_gettime, madvise, dlopen
    POSITION_INDEPENDENT_CODE ON
    C_VISIBILITY_PRESET hidden
    CXX_VISIBILITY_PRESET hidden
    OBJC_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON)
  if(CMAKE_C_COMPILER_ID MATCHES "GNU|Clang")
    target_compile_options(${target} PRIVATE
      $<$<COMPILE_LANGUAGE:C>:-Wall> $<$<COMPILE_LANGUAGE:C>:-Wextra>
      $<$<COMPILE_LANGUAGE:C>:-Wpedantic> $<$<COMPILE_LANGUAGE:C>:-Wconversion>)
    if(GK_WERROR)
      target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:C>:-Werror>)
    endif()
  elseif(MSVC)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:C>:/W3>)
    target_compile_definitions(${target} PRIVATE _CRT_SECURE_NO_WARNINGS)
    if(GK_WERROR)
      target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:C>:/WX>)
    endif()
  endif()
endfunction()

# gk_add_backend(<id> SOURCES <file>... [LIBRARIES <library>...])
# Adds the static library gk-<id> (alias gk::<id>), which exports only gk_backend_<id>(). LIBRARIES are what the final
# link needs, such as
# ${CMAKE_DL_LIBS} or Threads::Threads.
function(gk_add_backend id)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBRARIES")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "gk_add_backend(${id}): unknown arguments `${arg_UNPARSED_ARGUMENTS}`")
  endif()
  if(NOT arg_SOURCES)
    message(FATAL_ERROR "gk_add_backend(${id}): no SOURCES")
  endif()
  add_library(gk-${id} STATIC ${arg_SOURCES})
  add_library(gk::${id} ALIAS gk-${id})
  gk_set_flags(gk-${id})
  target_include_directories(gk-${id} PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
  target_link_libraries(gk-${id} PUBLIC gk-core ${arg_LIBRARIES})
endfunction()

# gk_embed(<target> NAME <symbol> INPUT <file> [DEPENDS <file or target>...])
# Adds the bytes of a (generated) file to a target:
#   extern const unsigned char <symbol>[];  extern const size_t <symbol>_size;
# The array is aligned to 64 bytes and followed by a byte that is 0.
function(gk_embed target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "NAME;INPUT" "DEPENDS")
  set(output "${CMAKE_CURRENT_BINARY_DIR}/embed/${arg_NAME}.c")
  set(strings OFF)
  if(CMAKE_C_COMPILER_ID MATCHES "GNU|Clang")
    set(strings ON)
  endif()
  add_custom_command(
    OUTPUT "${output}"
    COMMAND "${CMAKE_COMMAND}" "-DINPUT=${arg_INPUT}" "-DOUTPUT=${output}" "-DNAME=${arg_NAME}"
            "-DSTRINGS=${strings}" -P "${GK_EMBED_SCRIPT}"
    DEPENDS "${arg_INPUT}" "${GK_EMBED_SCRIPT}" ${arg_DEPENDS}
    COMMENT "Embedding ${arg_NAME}"
    VERBATIM)
  target_sources(${target} PRIVATE "${output}")
endfunction()
