// What is refused of JSON, with where it stands.
#pragma once

#include <string>
#include <string_view>

namespace ptdp {

/// Throws Error, naming `place` and where there is one the line and column, where `text` is not
/// JSON in UTF-8, and on what the library would accept in silence: duplicate keys, nesting deeper
/// than 64 levels, more than 500,000 values.
void check_json(std::string_view text, const std::string& place);

}  // namespace ptdp
