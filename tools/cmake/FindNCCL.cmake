# NCCL's header and where its library is: the target NCCL::headers, and NCCL_LIBRARY, which programs
# load when they need it and do not link. Looks in the toolkit, where the system has libraries, and
# in the Python package nvidia-nccl-cu13 of build/python (tools/install-dependencies) and of the
# python3 on the PATH. CUDAToolkit is found before.
file(GLOB nccl_python_folders "${PROJECT_SOURCE_DIR}/build/python/lib/python3*/site-packages")
find_program(NCCL_PYTHON python3)
if(NCCL_PYTHON)
  execute_process(
    COMMAND "${NCCL_PYTHON}" -c
            "import sys; print(';'.join(p for p in sys.path if p.endswith('-packages')), end='')"
    OUTPUT_VARIABLE nccl_folders_of_python ERROR_QUIET)
  list(APPEND nccl_python_folders ${nccl_folders_of_python})
endif()

find_path(NCCL_INCLUDE_DIR nccl.h
          HINTS ${CUDAToolkit_INCLUDE_DIRS} ${nccl_python_folders}
          PATH_SUFFIXES nvidia/nccl/include)
# Without its development files the library has no name without a version.
find_library(NCCL_LIBRARY NAMES libnccl.so.2 nccl
             HINTS "${CUDAToolkit_LIBRARY_DIR}" ${nccl_python_folders}
             PATH_SUFFIXES nvidia/nccl/lib)

if(EXISTS "${NCCL_INCLUDE_DIR}/nccl.h")
  file(STRINGS "${NCCL_INCLUDE_DIR}/nccl.h" nccl_version_lines
       REGEX "define NCCL_(MAJOR|MINOR|PATCH) +[0-9]+")
  string(REGEX MATCHALL "[0-9]+" nccl_version_numbers "${nccl_version_lines}")
  list(JOIN nccl_version_numbers "." NCCL_VERSION)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  NCCL
  REQUIRED_VARS NCCL_INCLUDE_DIR NCCL_LIBRARY
  VERSION_VAR NCCL_VERSION
  REASON_FAILURE_MESSAGE "install libnccl-dev, or nvidia-nccl-cu13 with pip")
if(NCCL_FOUND AND NOT TARGET NCCL::headers)
  add_library(NCCL::headers INTERFACE IMPORTED)
  set_target_properties(NCCL::headers PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${NCCL_INCLUDE_DIR}")
endif()
unset(nccl_folders_of_python)
unset(nccl_python_folders)
unset(nccl_version_lines)
unset(nccl_version_numbers)
mark_as_advanced(NCCL_INCLUDE_DIR NCCL_LIBRARY NCCL_PYTHON)
