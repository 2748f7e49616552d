// Makes users' text safe to show on a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ptdp {

/// Returns the length [bytes] of the well-formed UTF-8 sequence that `text` begins with; 0 if it
/// begins with none. A NUL counts as none. `text` must not be empty.
[[nodiscard]] std::size_t utf8_sequence_length(std::string_view text);

/// Returns whether the UTF-8 sequence of `length` bytes that `text` begins with is a control
/// character. Tabs and line breaks count too.
[[nodiscard]] bool is_control(std::string_view text, std::size_t length);

/// Returns `text` with everything written out that a terminal would act upon. Control characters of
/// ASCII, except tabs and line feeds, and bytes that are no UTF-8 become \xNN. Other control
/// characters, and marks that turn the direction of writing or break a line, become \uNNNN.
[[nodiscard]] std::string shown_text(std::string_view text);

/// Returns `text` on one line, as shown_text() writes it out, tabs and line breaks included. The
/// middle of a text longer than 1000 bytes is left out.
[[nodiscard]] std::string shown_line(std::string_view text);

}  // namespace ptdp
