# CPack reads this for each kind of package: debs install below /usr, one for each component.
if(CPACK_GENERATOR STREQUAL "DEB")
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
  set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
endif()
