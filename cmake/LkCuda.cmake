# The device code of the CUDA backend: src/backend/cuda/kern/*.cu, compiled to PTX by Clang alone
# (no CUDA toolkit takes part) and embedded in the library as text, for the driver to compile.
# Without Clang, or with -DLK_CUDA=OFF, the library has none, and says so when it is asked for a
# device.
#
#   cmake -DLK_IMAGES_OUT=... -DLK_IMAGES_PTX="a.ptx;b.ptx" -P LkCuda.cmake    writes the C file
if(CMAKE_SCRIPT_MODE_FILE)
  set(arrays)
  set(entries)
  foreach(file IN LISTS LK_IMAGES_PTX)
    get_filename_component(name ${file} NAME_WE)
    file(READ ${file} bytes HEX)
    string(REGEX REPLACE "(................................)" "\\1\n    " bytes "${bytes}")
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
    string(APPEND arrays "static const char ${name}_ptx[] = {\n    ${bytes} 0};\n")
    string(APPEND entries "    {\"${name}\", ${name}_ptx},\n")
  endforeach()
  file(WRITE ${LK_IMAGES_OUT} "/* Made by cmake/LkCuda.cmake. */
#include <stddef.h>
#include \"backend/cuda/cuda_images.h\"
${arrays}const lk_cuda_image lk_cuda_images[] = {
${entries}    {NULL, NULL}};
")
  return()
endif()

option(LK_CUDA "Build the device code of the CUDA backend (needs Clang, no CUDA toolkit)" ON)
set(LK_CUDA_FLAGS -x cuda --cuda-device-only --cuda-gpu-arch=sm_70 -nocudainc -nocudalib
  -std=c++17 -Xclang -target-feature -Xclang +ptx63
  -O3 -ffp-contract=off -fno-math-errno -Wall -Wextra -Werror -Wno-unknown-cuda-version
  -I${CMAKE_SOURCE_DIR}/src -I${CMAKE_SOURCE_DIR}/include)

# Sets ${result} to a Clang that compiles for the device, or to nothing.
function(lk_find_cuda_clang result)
  set(${result} "" PARENT_SCOPE)
  if(NOT LK_CUDA)
    return()
  endif()
  find_program(LK_CUDA_CLANG NAMES clang clang-19 clang-18 clang-17 clang-16 clang-15 clang-14)
  if(NOT LK_CUDA_CLANG)
    message(STATUS "CUDA backend: without device code, clang is missing")
    return()
  endif()
  set(probe ${CMAKE_BINARY_DIR}/generated/probe.cu)
  file(WRITE ${probe} "extern \"C\" __attribute__((global)) void k(float *y) { *y = 1.0f; }\n")
  execute_process(COMMAND ${LK_CUDA_CLANG} ${LK_CUDA_FLAGS} -S ${probe} -o ${probe}.ptx
    RESULT_VARIABLE status ERROR_VARIABLE why OUTPUT_QUIET)
  if(status EQUAL 0)
    set(${result} ${LK_CUDA_CLANG} PARENT_SCOPE)
  else()
    message(STATUS "CUDA backend: without device code, ${LK_CUDA_CLANG} cannot make it: ${why}")
  endif()
endfunction()

# lk_cuda_images(out_file): the C file with the device code, and the rules that make it.
function(lk_cuda_images out_file)
  lk_find_cuda_clang(clang)
  set(images)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/backend/cuda/kern/*.cu)
  foreach(source IN LISTS sources)
    if(NOT clang)
      break()
    endif()
    get_filename_component(name ${source} NAME_WE)
    set(image ${CMAKE_BINARY_DIR}/generated/cuda/${name}.ptx)
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/generated/cuda)
    add_custom_command(OUTPUT ${image}
      COMMAND ${clang} ${LK_CUDA_FLAGS} -MD -MF ${image}.d -MT ${image} -S ${source} -o ${image}
      DEPENDS ${source} DEPFILE ${image}.d COMMENT "Compiling ${name}.cu for devices" VERBATIM)
    list(APPEND images ${image})
  endforeach()
  add_custom_command(OUTPUT ${out_file}
    COMMAND ${CMAKE_COMMAND} -DLK_IMAGES_OUT=${out_file} "-DLK_IMAGES_PTX=${images}"
      -P ${CMAKE_SOURCE_DIR}/cmake/LkCuda.cmake
    DEPENDS ${images} ${CMAKE_SOURCE_DIR}/cmake/LkCuda.cmake VERBATIM)
endfunction()
