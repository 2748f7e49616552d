# What is installed, and in which package: the component `planner` (ptdp and its names, man pages,
# completions, profiles to copy from), `runtime` (ptdp-run, ptdp-profile) and `development` (libraries,
# headers, the CMake package).
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

install(TARGETS ptdp COMPONENT planner)
foreach(word IN LISTS PTDP_OWN_COMMANDS)
  install(FILES "${PROJECT_BINARY_DIR}/tools/ptdp-${word}" TYPE BIN COMPONENT planner)
endforeach()
install(DIRECTORY profiles DESTINATION ${CMAKE_INSTALL_DATADIR}/ptdp COMPONENT planner)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR}-planner COMPONENT planner)

# A static program carries the licences of what is linked into it, as Debian's packages have them.
if(PTDP_PLANNER_ONLY)
  file(GLOB linked LIST_DIRECTORIES ON /usr/share/doc/libboost-program-options*-dev /usr/share/doc/libc6-dev
       /usr/share/doc/libfmt-dev /usr/share/doc/libpugixml-dev /usr/share/doc/libstdc++-*-dev
       /usr/share/doc/libtomlplusplus-dev /usr/share/doc/libyaml-cpp-dev /usr/share/doc/nlohmann-json3-dev
       /usr/share/doc/zlib1g-dev)
  foreach(directory IN LISTS linked)
    cmake_path(GET directory FILENAME package)
    file(REAL_PATH "${directory}/copyright" copyright)
    install(FILES "${copyright}" DESTINATION ${CMAKE_INSTALL_DOCDIR}-planner/linked RENAME ${package}
            COMPONENT planner OPTIONAL)
    install(FILES "${copyright}" DESTINATION ptdp/linked RENAME ${package}.txt COMPONENT python
            EXCLUDE_FROM_ALL OPTIONAL)
  endforeach()
endif()

file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/tools/man")
# ptdp_install_manners(<component> <command> <program> <words>...): the man page that the program prints
# with these words, compressed as Debian has them, and what shells complete the command by.
function(ptdp_install_manners component command program)
  set(page "${PROJECT_BINARY_DIR}/tools/man/${command}.1.gz")
  install(CODE "execute_process(COMMAND \"${program}\" ${ARGN} --help man COMMAND gzip -9n
                                OUTPUT_FILE \"${page}\" COMMAND_ERROR_IS_FATAL ANY)" COMPONENT ${component})
  install(FILES "${page}" DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT ${component})
  install(FILES tools/completion/ptdp.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
          RENAME ${command} COMPONENT ${component})
  install(FILES tools/completion/ptdp.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d
          RENAME ${command}.fish COMPONENT ${component})
endfunction()
# For all commands; where Debian's zsh looks for those of packages.
install(FILES tools/completion/_ptdp DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions COMPONENT planner)
ptdp_install_manners(planner ptdp "$<TARGET_FILE:ptdp>")
foreach(word IN LISTS PTDP_OWN_COMMANDS)
  ptdp_install_manners(planner ptdp-${word} "$<TARGET_FILE:ptdp>" ${word})
endforeach()

set(CPACK_COMPONENTS_ALL planner)
if(NOT PTDP_PLANNER_ONLY)
  list(APPEND CPACK_COMPONENTS_ALL runtime)
  # CUDA's libraries lie where nothing looks for them by itself.
  set_target_properties(ptdp-run ptdp-profile PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS ptdp-run ptdp-profile COMPONENT runtime)
  install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR}-runtime COMPONENT runtime)
  foreach(command ptdp-run ptdp-profile)
    ptdp_install_manners(runtime ${command} "$<TARGET_FILE:${command}>")
  endforeach()
endif()

# Libraries, for programs of others: find_package(ptdp), ptdp::cost_model, ptdp::planner.
set(package_directory ${CMAKE_INSTALL_LIBDIR}/cmake/ptdp)
foreach(library cost_model searches planning planner)
  set_target_properties(ptdp_${library} PROPERTIES EXPORT_NAME ${library})
endforeach()
install(TARGETS ptdp_options ptdp_casts_no_pointer ptdp_cost_model ptdp_searches
                ptdp_planning ptdp_planner
        EXPORT ptdp ARCHIVE COMPONENT development)
install(EXPORT ptdp NAMESPACE ptdp:: DESTINATION ${package_directory} FILE ptdpTargets.cmake
        COMPONENT development)
install(DIRECTORY cost_model planner DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/ptdp COMPONENT development
        FILES_MATCHING PATTERN "*.h" PATTERN "page" EXCLUDE)
configure_package_config_file(tools/cmake/ptdpConfig.cmake.in ptdpConfig.cmake
                              INSTALL_DESTINATION ${package_directory})
write_basic_package_version_file(ptdpConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/ptdpConfig.cmake" "${PROJECT_BINARY_DIR}/ptdpConfigVersion.cmake"
        DESTINATION ${package_directory} COMPONENT development)

set(CPACK_PACKAGE_VENDOR "The ptdp authors")
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_FILE_NAME "ptdp-${PROJECT_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}")
# One archive of what CPACK_COMPONENTS_ALL names; a .deb for each.
set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_PROJECT_CONFIG_FILE "${PROJECT_SOURCE_DIR}/tools/cmake/PackageOptions.cmake")
include(DebianPackages)
include(CPack)
