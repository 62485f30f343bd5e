# Install rules: library, headers, tool, pkg-config file and CMake package.
include(CMakePackageConfigHelpers)
install(DIRECTORY include/lk DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS lockstep_static lockstep_shared EXPORT lockstepTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(LK_BUILD_APPS)
  install(TARGETS lockstep_tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(EXPORT lockstepTargets NAMESPACE lockstep::
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/lockstep)
configure_package_config_file(cmake/lockstepConfig.cmake.in
  ${CMAKE_BINARY_DIR}/lockstepConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/lockstep)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/lockstepConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/lockstepConfig.cmake
  ${CMAKE_BINARY_DIR}/lockstepConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/lockstep)
configure_file(cmake/lockstep.pc.in ${CMAKE_BINARY_DIR}/lockstep.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/lockstep.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
