# lk_embed(out_file name file): writes a C file that holds the bytes of `file` as
# `const unsigned char lk_<name>[]` and their number as `const size_t lk_<name>_size`.
function(lk_embed out_file name file)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(READ ${file} bytes HEX)
  string(REGEX REPLACE "(................................)" "\\1\n    " bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  get_filename_component(base ${file} NAME)
  set(text "/* Made from ${base} by cmake/LkEmbed.cmake. */
#include <stddef.h>
extern const unsigned char lk_${name}[];
extern const size_t lk_${name}_size;
const unsigned char lk_${name}[] = {
    ${bytes}
};
const size_t lk_${name}_size = sizeof lk_${name};
")
  file(CONFIGURE OUTPUT ${out_file} CONTENT "${text}" @ONLY)
endfunction()
