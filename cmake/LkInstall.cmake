# Install rules: library (static and shared), headers, tool, pkg-config file and CMake package. Both
# describe themselves by relative paths, so that an installed tree can be moved.
include(CMakePackageConfigHelpers)

install(DIRECTORY include/lk DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
set_target_properties(lockstep_shared PROPERTIES EXPORT_NAME lockstep)
add_library(lockstep::lockstep ALIAS lockstep_shared)
add_library(lockstep::lockstep_static ALIAS lockstep_static)
install(TARGETS lockstep_static lockstep_shared EXPORT lockstepTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(LK_BUILD_APPS)
  install(TARGETS lockstep_tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

set(lk_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/lockstep)
install(EXPORT lockstepTargets NAMESPACE lockstep:: DESTINATION ${lk_package_dir})
configure_package_config_file(cmake/lockstepConfig.cmake.in
  ${CMAKE_BINARY_DIR}/lockstepConfig.cmake INSTALL_DESTINATION ${lk_package_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/lockstepConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/lockstepConfig.cmake
  ${CMAKE_BINARY_DIR}/lockstepConfigVersion.cmake DESTINATION ${lk_package_dir})

# From the folder of lockstep.pc up to the prefix, and from there to the library and the headers.
set(lk_pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH lk_pc_to_prefix /prefix/${lk_pc_dir} /prefix)
string(REGEX REPLACE "/$" "" lk_pc_to_prefix "${lk_pc_to_prefix}")
configure_file(cmake/lockstep.pc.in ${CMAKE_BINARY_DIR}/lockstep.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/lockstep.pc DESTINATION ${lk_pc_dir})
