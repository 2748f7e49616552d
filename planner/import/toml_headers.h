// Headers of TOML tables, checked before the document is parsed.
#pragma once

#include <string>
#include <string_view>

namespace ptdp {

/// Throws Error, naming the place and the line, if a table's header does not begin with a key: "[="
/// or "[[,". toml++ 3.3 takes a key for granted there: it ends the program, or reads on without
/// one.
void check_toml_headers(std::string_view text, const std::string& place);

}  // namespace ptdp
