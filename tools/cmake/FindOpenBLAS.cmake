# OpenBLAS with its C interface: the headers, as the target OpenBLAS::OpenBLAS, and the library's file,
# which programs load when they need it. The library itself, not what the system's alternatives call
# libblas, since the number of its threads is set.
find_path(OpenBLAS_INCLUDE_DIR openblas_config.h
          PATH_SUFFIXES openblas-pthread openblas-openmp openblas-serial openblas)
find_library(OpenBLAS_LIBRARY libopenblas.so PATH_SUFFIXES openblas-pthread openblas-openmp openblas-serial)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  OpenBLAS REQUIRED_VARS OpenBLAS_LIBRARY OpenBLAS_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "install libopenblas-dev (tools/install-dependencies)")
if(OpenBLAS_FOUND AND NOT TARGET OpenBLAS::OpenBLAS)
  add_library(OpenBLAS::OpenBLAS INTERFACE IMPORTED)
  set_target_properties(OpenBLAS::OpenBLAS PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${OpenBLAS_INCLUDE_DIR}")
endif()
mark_as_advanced(OpenBLAS_INCLUDE_DIR OpenBLAS_LIBRARY)
