// What a TOML document must hold to before toml++ reads it.
#pragma once

#include <string>
#include <string_view>

namespace ptdp {

/// Throws Error, naming the place and the line, for two faults that toml++ 3.3 does not bear: it
/// ends the program, or what it does is undefined. A table's header begins with no key, as in "[=",
/// or letters beyond ASCII stand outside strings and comments.
void check_toml_for_parser(std::string_view text, const std::string& place);

}  // namespace ptdp
