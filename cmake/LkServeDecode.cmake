# lk_serve_decode: the part of the server that reads the body of a request, for the tool and, alone,
# for the fuzz target and its replay. lk_verify_answer: the part of `lockstep verify` that reads
# what servers answer and the readers of receipts, for their fuzz targets. Not there where jansson
# is missing (cross builds).
find_package(PkgConfig)
if(PkgConfig_FOUND AND NOT CMAKE_CROSSCOMPILING)
  pkg_check_modules(DECODE_JANSSON IMPORTED_TARGET jansson)
endif()
if(TARGET PkgConfig::DECODE_JANSSON)
  set(folder ${CMAKE_SOURCE_DIR}/apps/lockstep)
  add_library(lk_serve_decode STATIC EXCLUDE_FROM_ALL ${folder}/serve/serve_decode.c
    ${folder}/serve/serve_fields.c ${folder}/serve/serve_problem.c ${folder}/serve/serve_media.c
    ${folder}/serve/serve_refused.c ${folder}/serve/serve_tools.c)
  target_include_directories(lk_serve_decode PUBLIC ${folder} ${CMAKE_SOURCE_DIR}/include)
  target_link_libraries(lk_serve_decode PUBLIC PkgConfig::DECODE_JANSSON
    PRIVATE lk_options lk_explored)
  add_library(lk_verify_answer STATIC EXCLUDE_FROM_ALL ${folder}/verify/http_answer.c
    ${folder}/verify/http_events.c ${folder}/verify/verify_receipt_read.c ${folder}/replay/replay.c)
  target_include_directories(lk_verify_answer PUBLIC ${folder} ${CMAKE_SOURCE_DIR}/include)
  target_link_libraries(lk_verify_answer PUBLIC PkgConfig::DECODE_JANSSON
    PRIVATE lk_options lk_explored)
endif()

# lk_verify_text: the part of `lockstep verify` that reads and prints points and schedules.
set(folder ${CMAKE_SOURCE_DIR}/apps/lockstep)
add_library(lk_verify_text STATIC EXCLUDE_FROM_ALL ${folder}/verify/verify_point.c
  ${folder}/verify/verify_schedule.c)
target_include_directories(lk_verify_text PUBLIC ${folder} ${CMAKE_SOURCE_DIR}/include)
target_link_libraries(lk_verify_text PRIVATE lk_options lk_explored)
if(LK_BUILD_FUZZERS)
  target_compile_options(lk_verify_text PRIVATE -fsanitize=fuzzer-no-link)
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
  file(STRINGS ${source} found REGEX "^#include \"verify/" LIMIT_COUNT 1)
  if(found AND TARGET lk_verify_answer)
    set(${libraries} lk_verify_answer PARENT_SCOPE)
  elseif(found)
    set(${missing} jansson PARENT_SCOPE)
  endif()
  file(STRINGS ${source} found REGEX "^#include \"verify/verify_schedule" LIMIT_COUNT 1)
  if(found)
    set(${libraries} lk_verify_text PARENT_SCOPE)
    set(${missing} PARENT_SCOPE)
  endif()
  file(STRINGS ${source} found REGEX "^#include \"recording/" LIMIT_COUNT 1)
  if(found)
    set(${libraries} lk_audio_files PARENT_SCOPE)
  endif()
endfunction()
