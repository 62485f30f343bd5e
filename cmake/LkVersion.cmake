# Commit and build number, from git when this is a checkout.
set(LK_COMMIT "unknown")
set(LK_BUILD 0)
find_package(Git QUIET)
if(GIT_FOUND)
  execute_process(COMMAND ${GIT_EXECUTABLE} rev-parse --short=12 HEAD
    WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} OUTPUT_VARIABLE lk_commit
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE lk_rc)
  if(lk_rc EQUAL 0)
    set(LK_COMMIT ${lk_commit})
    execute_process(COMMAND ${GIT_EXECUTABLE} rev-list --count HEAD
      WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} OUTPUT_VARIABLE LK_BUILD
      OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
endif()
configure_file(src/base/version.c.in ${CMAKE_BINARY_DIR}/generated/version.c @ONLY)
