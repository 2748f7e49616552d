# cuDNN through the C++ templates of cudnn-frontend: the target CudnnFrontend::CudnnFrontend, which
# links cuDNN and the compiler that it makes kernels with. Looks in CUDNN_FRONTEND_INCLUDE_DIR,
# among system headers, and in the Python packages nvidia-cudnn-frontend and nvidia-cudnn-cu13 of
# build/python (tools/install-dependencies) and of the python3 on the PATH; for cuDNN in the toolkit
# too. CUDAToolkit is found before.
file(GLOB cudnn_python_folders "${PROJECT_SOURCE_DIR}/build/python/lib/python3*/site-packages")
find_program(CudnnFrontend_PYTHON python3)
if(CudnnFrontend_PYTHON)
  execute_process(
    COMMAND "${CudnnFrontend_PYTHON}" -c
            "import sys; print(';'.join(p for p in sys.path if p.endswith('-packages')), end='')"
    OUTPUT_VARIABLE cudnn_folders_of_python ERROR_QUIET)
  list(APPEND cudnn_python_folders ${cudnn_folders_of_python})
endif()

find_path(CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h
          HINTS ${cudnn_python_folders} PATH_SUFFIXES include)
find_path(CUDNN_INCLUDE_DIR cudnn_graph.h
          HINTS ${CUDAToolkit_INCLUDE_DIRS} ${cudnn_python_folders}
          PATH_SUFFIXES nvidia/cudnn/include)
# The Python package has no name without a version.
find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9
             HINTS "${CUDAToolkit_LIBRARY_DIR}" ${cudnn_python_folders}
             PATH_SUFFIXES nvidia/cudnn/lib)
find_library(CudnnFrontend_NVRTC_LIBRARY nvrtc HINTS "${CUDAToolkit_LIBRARY_DIR}")

if(EXISTS "${CUDNN_FRONTEND_INCLUDE_DIR}/cudnn_frontend_version.h")
  file(STRINGS "${CUDNN_FRONTEND_INCLUDE_DIR}/cudnn_frontend_version.h" cudnn_version_lines
       REGEX "define CUDNN_FRONTEND_(MAJOR|MINOR|PATCH)_VERSION [0-9]+")
  string(REGEX MATCHALL "[0-9]+" cudnn_version_numbers "${cudnn_version_lines}")
  list(JOIN cudnn_version_numbers "." CudnnFrontend_VERSION)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  CudnnFrontend
  REQUIRED_VARS CUDNN_FRONTEND_INCLUDE_DIR CUDNN_INCLUDE_DIR CUDNN_LIBRARY
                CudnnFrontend_NVRTC_LIBRARY
  VERSION_VAR CudnnFrontend_VERSION
  REASON_FAILURE_MESSAGE "install cuDNN 9, and nvidia-cudnn-frontend (tools/install-dependencies)")
if(CudnnFrontend_FOUND AND NOT TARGET CudnnFrontend::CudnnFrontend)
  add_library(CudnnFrontend::CudnnFrontend UNKNOWN IMPORTED)
  set_target_properties(CudnnFrontend::CudnnFrontend PROPERTIES
    IMPORTED_LOCATION "${CUDNN_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${CUDNN_FRONTEND_INCLUDE_DIR};${CUDNN_INCLUDE_DIR}"
    INTERFACE_LINK_LIBRARIES "${CudnnFrontend_NVRTC_LIBRARY};${CMAKE_DL_LIBS}")
endif()
unset(cudnn_folders_of_python)
unset(cudnn_python_folders)
unset(cudnn_version_lines)
unset(cudnn_version_numbers)
mark_as_advanced(CUDNN_FRONTEND_INCLUDE_DIR CUDNN_INCLUDE_DIR CUDNN_LIBRARY CudnnFrontend_PYTHON
                 CudnnFrontend_NVRTC_LIBRARY)
