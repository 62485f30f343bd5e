# Commit and build number, from git when this is a checkout. A new commit configures again, so that
# `lockstep --version` does not lie.
set(LK_COMMIT "unknown")
set(LK_BUILD 0)
find_package(Git QUIET)

# lk_git(variable arguments...): the output of git, empty when it fails.
function(lk_git variable)
  execute_process(COMMAND ${GIT_EXECUTABLE} ${ARGN} WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}
    OUTPUT_VARIABLE output OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    set(output "")
  endif()
  set(${variable} "${output}" PARENT_SCOPE)
endfunction()

# Only the repository whose root this is: a source archive unpacked inside another one has none.
if(GIT_FOUND AND EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/.git)
  lk_git(lk_commit rev-parse --short=12 HEAD)
  lk_git(lk_build rev-list --count HEAD)
  lk_git(lk_log rev-parse --git-path logs/HEAD)
  if(lk_commit AND lk_build)
    set(LK_COMMIT ${lk_commit})
    set(LK_BUILD ${lk_build})
  endif()
  get_filename_component(lk_log "${lk_log}" ABSOLUTE BASE_DIR ${CMAKE_CURRENT_SOURCE_DIR})
  if(EXISTS ${lk_log})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${lk_log})
  endif()
endif()
configure_file(src/base/version.c.in ${CMAKE_BINARY_DIR}/generated/version.c @ONLY)
