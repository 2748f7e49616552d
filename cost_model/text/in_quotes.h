// Text of a user's inside a message.
#pragma once

#include <string>
#include <string_view>

namespace ptdp {

/// `text` between double quotes, cut after 60 bytes, with everything but printable ASCII written as
/// \xNN: a message must not carry escape sequences to a terminal.
[[nodiscard]] std::string in_quotes(std::string_view text);

}  // namespace ptdp
