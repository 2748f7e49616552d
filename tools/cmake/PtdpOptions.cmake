# What every target of the project compiles with: the interface target ptdp_options.

add_library(ptdp_options INTERFACE)
target_compile_features(ptdp_options INTERFACE cxx_std_20)
target_include_directories(ptdp_options INTERFACE "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>"
                                                   "$<INSTALL_INTERFACE:include/ptdp>")
target_compile_definitions(ptdp_options INTERFACE PTDP_VERSION="${PROJECT_VERSION}")
# Programs of others, which link installed libraries, have options of their own.
add_library(ptdp_own_options INTERFACE)
target_link_libraries(ptdp_options INTERFACE "$<BUILD_INTERFACE:ptdp_own_options>")
# nvcc's own warnings are on as they are.
target_compile_options(ptdp_own_options INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wconversion;-Wno-sign-conversion;-Wno-missing-field-initializers>")
# g++ 12 reports an overlap that cannot be on `"" + std::string` at -O2 and above.
target_compile_options(ptdp_own_options INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>)
# Where it optimises for size, g++ 12 takes what it inlined for uninitialised.
target_compile_options(ptdp_own_options INTERFACE
  $<$<AND:$<CONFIG:MinSizeRel>,$<COMPILE_LANG_AND_ID:CXX,GNU>>:-Wno-maybe-uninitialized>)
# Later compilers warn about more; their warnings are shown, not fatal.
if(PTDP_WERROR AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(ptdp_own_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
# g++ collects its garbage from 128 MiB on: a tenth of its time. From 1 GiB on, large files take up to
# 2 GB in place of 1.2: where the machine has that for each of Ninja's jobs.
cmake_host_system_information(RESULT machine_memory QUERY TOTAL_PHYSICAL_MEMORY)  # MiB
cmake_host_system_information(RESULT machine_cores QUERY NUMBER_OF_LOGICAL_CORES)
math(EXPR memory_of_all_jobs "2048 * (${machine_cores} + 2)")
if(machine_memory GREATER memory_of_all_jobs AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(ptdp_own_options INTERFACE
                         $<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=1048576>)
endif()
# With CMAKE_UNITY_BUILD, as in all presets, several files of a target are compiled as one, three
# times as fast in all: names in their anonymous namespaces must differ, those of overloads too.
# Files one by one: clang-tidy, and -DCMAKE_UNITY_BUILD=OFF.
if(CMAKE_UNITY_BUILD)
  # g++ takes included files for headers.
  target_compile_options(ptdp_own_options INTERFACE
                         $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
endif()
if(PTDP_SANITIZE)
  target_compile_options(ptdp_own_options INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${PTDP_SANITIZE};-fno-sanitize-recover=all;-fno-omit-frame-pointer>")
  target_link_options(ptdp_own_options INTERFACE -fsanitize=${PTDP_SANITIZE})
endif()
# Format strings are checked where the optimised build compiles them, a tenth of the time of what formats texts;
# here when they are used. This is how fmt 9 is told so, which Debian 12 has beside g++ 12.
if(PTDP_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_definitions(ptdp_own_options INTERFACE FMT_CONSTEVAL=)
endif()
# Checks of addresses by calls compile faster than checks in place, and run slower: for what does little.
set(checks_by_calls)
if(PTDP_SANITIZE MATCHES address AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(checks_by_calls --param=asan-instrumentation-with-call-threshold=0)
endif()
# For what is called once by a command or a step, and calls what computes: g++'s quickest code takes a quarter
# less time to compile than -O1, half of -O3.
set(compiled_quickly ${checks_by_calls} $<$<CONFIG:Release>:-Og>)
# Checking every pointer for null, alignment, type, size and wrapping takes a third of the compilation.
set(pointer_checks null,alignment,vptr,object-size,pointer-overflow)
# Libraries that reinterpret no pointer but as bytes can only have a null one or one out of bounds, whose use the
# address sanitizer reports. Linked behind ptdp_options, which asks for all checks; the fuzz targets, which
# clang compiles, have them.
add_library(ptdp_casts_no_pointer INTERFACE)
if(PTDP_SANITIZE MATCHES undefined AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(ptdp_casts_no_pointer INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize=${pointer_checks}>)
endif()
if(PTDP_LLD)
  target_link_options(ptdp_own_options INTERFACE -fuse-ld=lld)
endif()
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
