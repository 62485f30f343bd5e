# lk_serve_decode: the part of the server that reads the body of a request, for the tool and, alone,
# for the fuzz target and its replay. Not there where jansson is missing (cross builds).
find_package(PkgConfig)
if(PkgConfig_FOUND AND NOT CMAKE_CROSSCOMPILING)
  pkg_check_modules(DECODE_JANSSON IMPORTED_TARGET jansson)
endif()
if(TARGET PkgConfig::DECODE_JANSSON)
  set(folder ${CMAKE_SOURCE_DIR}/apps/lockstep)
  add_library(lk_serve_decode STATIC EXCLUDE_FROM_ALL ${folder}/serve/serve_decode.c
    ${folder}/serve/serve_fields.c ${folder}/serve/serve_problem.c ${folder}/serve/serve_media.c
    ${folder}/serve/serve_tools.c)
  target_include_directories(lk_serve_decode PUBLIC ${folder} ${CMAKE_SOURCE_DIR}/include)
  target_link_libraries(lk_serve_decode PUBLIC PkgConfig::DECODE_JANSSON PRIVATE lk_options)
  if(LK_BUILD_FUZZERS)
    target_compile_options(lk_serve_decode PRIVATE -fsanitize=fuzzer-no-link)
  endif()
endif()

# Sets ${libraries} to what a fuzz target needs beside the library, ${missing} when it is not there.
function(lk_fuzz_needs source libraries missing)
  set(${libraries} PARENT_SCOPE)
  set(${missing} PARENT_SCOPE)
  file(STRINGS ${source} found REGEX "^#include \"serve/" LIMIT_COUNT 1)
  if(found AND TARGET lk_serve_decode)
    set(${libraries} lk_serve_decode PARENT_SCOPE)
  elseif(found)
    set(${missing} jansson PARENT_SCOPE)
  endif()
  file(STRINGS ${source} found REGEX "^#include \"audio_" LIMIT_COUNT 1)
  if(found)
    set(${libraries} lk_audio_files PARENT_SCOPE)
  endif()
endfunction()
