// Lines and words of what a program printed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ptdp {

/// Returns the lines of a text without the ESC codes of terminals and without carriage returns.
[[nodiscard]] std::vector<std::string> printed_lines(std::string_view text);
/// Returns the words of a line: what blanks and tabs separate.
[[nodiscard]] std::vector<std::string> printed_words(std::string_view line);

}  // namespace ptdp
