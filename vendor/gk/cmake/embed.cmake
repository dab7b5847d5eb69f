#   cmake -DINPUT=<file> -DOUTPUT=<file.c> -DNAME=<symbol> [-DSTRINGS=ON] -P embed.cmake
# Writes a C file with the bytes of INPUT as `const unsigned char NAME[]` and their number as `const size_t NAME_size`.
# STRINGS: as string literals, which compile twenty times as fast, but may be longer than the C standard promises.
foreach(variable IN ITEMS INPUT OUTPUT NAME)
  if(NOT DEFINED ${variable})
    message(FATAL_ERROR "embed.cmake: -D${variable}=... is missing")
  endif()
endforeach()
file(READ "${INPUT}" hex HEX)
string(LENGTH "${hex}" digits)
if(digits EQUAL 0)
  message(FATAL_ERROR "embed.cmake: `${INPUT}` is empty")
endif()
math(EXPR size "${digits} / 2")
# 20 bytes per line: some compilers limit the length of a line.
string(REPEAT "." 40 row)
string(REGEX REPLACE "(${row})" "\\1\n" bytes "${hex}")
set(pragma "")
if(STRINGS)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" bytes "${bytes}")
  string(REPLACE "\n" "\"\n\"" bytes "\"${bytes}\"")
  set(pragma "#pragma GCC diagnostic ignored \"-Woverlength-strings\"\n")
else()
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(APPEND bytes "0")
endif()
get_filename_component(source "${INPUT}" NAME)
file(WRITE "${OUTPUT}.new" "/* Generated from ${source} by embed.cmake. */
#include <stddef.h>
${pragma}extern const unsigned char ${NAME}[${size} + 1];
extern const size_t ${NAME}_size;
_Alignas(64) const unsigned char ${NAME}[${size} + 1] = {
${bytes}
};
const size_t ${NAME}_size = ${size};
")
file(RENAME "${OUTPUT}.new" "${OUTPUT}")
