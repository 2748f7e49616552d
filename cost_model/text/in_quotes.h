// Quotes a user's text inside a message.
#pragma once

#include <string>
#include <string_view>

namespace ptdp {

/// Returns `text` between double quotes, cut after 60 bytes. Everything but printable ASCII is
/// written as \xNN, so that a message carries no escape sequences to a terminal.
[[nodiscard]] std::string in_quotes(std::string_view text);

}  // namespace ptdp
