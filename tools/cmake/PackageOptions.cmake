# CPack reads this for each kind of package: debs install below /usr, one for each component; an archive
# has one directory at its top.
if(CPACK_GENERATOR STREQUAL "DEB")
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
  set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
  foreach(component IN LISTS CPACK_COMPONENTS_ALL)
    list(APPEND CPACK_COMPONENTS_ALL ${component}-papers)
  endforeach()
else()
  set(CPACK_COMPONENT_INCLUDE_TOPLEVEL_DIRECTORY ON)
endif()
