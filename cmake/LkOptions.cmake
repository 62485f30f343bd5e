# Compile options that every target of the project gets.
add_library(lk_options INTERFACE)
target_compile_options(lk_options INTERFACE
  -ffp-contract=off -fno-math-errno -fno-strict-aliasing
  -Wall -Wextra -Wconversion -Wsign-conversion -Wdouble-promotion -Wshadow -Wundef -Wvla
  -Wstrict-prototypes -Wmissing-prototypes -Wcast-qual -Wpointer-arith -Wwrite-strings
  -Wimplicit-fallthrough
  $<$<C_COMPILER_ID:Clang>:-Wenum-float-conversion>) # a part of -Wextra from Clang 19 on
target_compile_definitions(lk_options INTERFACE _POSIX_C_SOURCE=200809L _FILE_OFFSET_BITS=64)
if(LK_WERROR)
  target_compile_options(lk_options INTERFACE -Werror)
endif()
if(LK_SANITIZE)
  target_compile_options(lk_options INTERFACE -fsanitize=${LK_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(lk_options INTERFACE -fsanitize=${LK_SANITIZE})
endif()

# For what reads bytes from outside: the fuzz targets count its paths.
add_library(lk_explored INTERFACE)
if(LK_BUILD_FUZZERS)
  target_compile_options(lk_explored INTERFACE -fsanitize=fuzzer-no-link)
endif()

# Flags of the files that hold kernels of one instruction set, by the ending of their names.
set(LK_FLAGS_avx2 -mavx2 -mfma -mf16c)
set(LK_FLAGS_avx512 -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni
  -mprefer-vector-width=512)
set(LK_FLAGS_avxvnni ${LK_FLAGS_avx2} -mavxvnni)
set(LK_FLAGS_neon -march=armv8.2-a+dotprod)
set(LK_FLAGS_i8mm -march=armv8.2-a+dotprod+i8mm)
set(LK_FLAGS_amx ${LK_FLAGS_avx512} -mamx-tile -mamx-int8)
# AddressSanitizer and the checks of undefined behaviour make these files take minutes to compile.
# Kernels go without: checkkern gives them memory between guard pages, and their scalar twins, which
# it holds them against, keep the checks. TSan stays: which thread writes what is theirs.
if(LK_SANITIZE)
  set(lk_kernel_flags -g1)
  if(LK_SANITIZE MATCHES "address")
    list(APPEND lk_kernel_flags -fno-sanitize=all)
  endif()
  list(APPEND LK_FLAGS_avx2 ${lk_kernel_flags})
  list(APPEND LK_FLAGS_avxvnni ${lk_kernel_flags})
  list(APPEND LK_FLAGS_avx512 ${lk_kernel_flags})
  list(APPEND LK_FLAGS_amx ${lk_kernel_flags})
  list(APPEND LK_FLAGS_neon ${lk_kernel_flags})
  list(APPEND LK_FLAGS_i8mm ${lk_kernel_flags})
endif()
