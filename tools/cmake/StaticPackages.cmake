# For programs that run elsewhere (presets `gpu` and `planner`): packages that are found after this are
# linked statically. Their own files define targets only where these are not there.
set(Boost_USE_STATIC_LIBS ON)
set(ZLIB_USE_STATIC_LIBS ON)
find_library(xxHash_LIBRARY libxxhash.a)
# Debian has no static fmt and toml++: their headers alone do.
foreach(target fmt::fmt fmt::fmt-header-only)
  add_library(${target} INTERFACE IMPORTED GLOBAL)
  target_compile_definitions(${target} INTERFACE FMT_HEADER_ONLY)
endforeach()
add_library(tomlplusplus::tomlplusplus INTERFACE IMPORTED GLOBAL)
find_library(yaml_cpp_static libyaml-cpp.a REQUIRED)
foreach(target yaml-cpp yaml-cpp::yaml-cpp)  # 0.7, 0.8
  add_library(${target} STATIC IMPORTED GLOBAL)
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION "${yaml_cpp_static}")
endforeach()
find_package(pugixml 1.11 REQUIRED)
set_target_properties(pugixml::pugixml PROPERTIES INTERFACE_LINK_LIBRARIES pugixml::static)
