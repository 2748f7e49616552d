# For programs that run elsewhere (preset `gpu`): packages that are found after this are linked
# statically. Debian has no static fmt: its headers alone do.
set(Boost_USE_STATIC_LIBS ON)
set(ZLIB_USE_STATIC_LIBS ON)
find_library(xxHash_LIBRARY libxxhash.a)
foreach(target fmt::fmt fmt::fmt-header-only)
  # fmt's own package defines these, unless they are there.
  add_library(${target} INTERFACE IMPORTED GLOBAL)
  target_compile_definitions(${target} INTERFACE FMT_HEADER_ONLY)
endforeach()
find_package(pugixml 1.11 REQUIRED)
set_target_properties(pugixml::pugixml PROPERTIES INTERFACE_LINK_LIBRARIES pugixml::static)
