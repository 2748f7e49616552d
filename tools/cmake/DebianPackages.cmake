# What .debs have beside the files of a component: fields, and the papers that Debian's policy asks for.

# Who packs is who answers for a package: by Debian's variables, else the author of the last commit. A name
# under .invalid is nobody's (RFC 2606).
execute_process(COMMAND git log -1 "--format=%an <%ae>" WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
                OUTPUT_VARIABLE CPACK_PACKAGE_CONTACT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(DEFINED ENV{DEBFULLNAME} AND DEFINED ENV{DEBEMAIL})
  set(CPACK_PACKAGE_CONTACT "$ENV{DEBFULLNAME} <$ENV{DEBEMAIL}>")
elseif(NOT CPACK_PACKAGE_CONTACT)
  set(CPACK_PACKAGE_CONTACT "The ptdp authors <nobody@ptdp.invalid>")
endif()

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PLANNER_PACKAGE_NAME ptdp-planner)
set(CPACK_DEBIAN_PLANNER_DESCRIPTION "plan the training of large transformers
ptdp says how to train a large transformer on given GPUs, what that will
cost in time and memory, and how far off such predictions were. It
simulates a step action by action, and holds predictions against
published and measured runs. Profiles of models, clusters and software
stacks are part of the program.")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME ptdp-runtime)
set(CPACK_DEBIAN_RUNTIME_DESCRIPTION "train large transformers under plans of ptdp
ptdp-run trains under a plan of ptdp-planner, on GPUs or on any host, and
compares what it measures with what was predicted. ptdp-profile measures
a machine, and writes it down for plans.")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_DEPENDS "ptdp-planner (= ${PROJECT_VERSION})")
if(OpenBLAS_LIBRARY)
  set(CPACK_DEBIAN_RUNTIME_PACKAGE_RECOMMENDS libopenblas0)  # loaded when it is needed
endif()
# CPack counts the file behind a link for each link.
set(CPACK_POST_BUILD_SCRIPTS "${PROJECT_SOURCE_DIR}/tools/cmake/DebianSizes.cmake")
# A static program needs no other package.
if(NOT PTDP_PLANNER_ONLY)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
endif()

# Components of their own, for .debs alone have them (PackageOptions.cmake).
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
foreach(component IN ITEMS planner runtime)
  set(papers "${PROJECT_BINARY_DIR}/tools/debian/${component}")
  file(WRITE "${papers}/copyright" "\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: ptdp

Files: *
Copyright: The ptdp authors
License: Apache-2.0
 On Debian systems the text is in /usr/share/common-licenses/Apache-2.0.
")
  file(WRITE "${papers}/changelog" "\
ptdp (${PROJECT_VERSION}) unstable; urgency=medium

  * Packed by CPack. CHANGELOG.md in the source says what changed.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
  execute_process(COMMAND gzip -9nf "${papers}/changelog" COMMAND_ERROR_IS_FATAL ANY)
  install(FILES "${papers}/copyright" "${papers}/changelog.gz"
          DESTINATION ${CMAKE_INSTALL_DOCDIR}-${component} COMPONENT ${component}-papers EXCLUDE_FROM_ALL)
  string(TOUPPER ${component} name)
  set(CPACK_COMPONENT_${name}_GROUP ${component})
  set(CPACK_COMPONENT_${name}-PAPERS_GROUP ${component})
endforeach()
if(PTDP_PLANNER_ONLY)
  file(WRITE "${PROJECT_BINARY_DIR}/tools/debian/ptdp-planner" "\
# One file that runs on any x86-64 Linux, which is the purpose.
ptdp-planner: statically-linked-binary [usr/bin/ptdp]
ptdp-planner: embedded-library zlib [usr/bin/ptdp]
")
  install(FILES "${PROJECT_BINARY_DIR}/tools/debian/ptdp-planner"
          DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides COMPONENT planner-papers EXCLUDE_FROM_ALL)
endif()
