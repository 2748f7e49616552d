// Refuses faulty JSON, and says where the fault stands.
#pragma once

#include <string>
#include <string_view>

namespace ptdp {

/// Throws Error if `text` is not JSON in UTF-8. It also refuses what the library would accept in
/// silence: duplicate keys, nesting deeper than 64 levels, and more than 500,000 values. The
/// message names `place` and, if the fault has one, the line and column.
void check_json(std::string_view text, const std::string& place);

}  // namespace ptdp
