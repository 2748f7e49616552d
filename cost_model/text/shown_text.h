// Users' text on a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ptdp {

/// Length of the well-formed UTF-8 sequence that `text` begins with; 0 where it begins with none.
[[nodiscard]] std::size_t utf8_sequence_length(std::string_view text);

/// Whether the sequence of `length` bytes that `text` begins with is a control character, be it a
/// tab or a line break.
[[nodiscard]] bool is_control(std::string_view text, std::size_t length);

/// `text` with what a terminal would act upon written out: control characters but tabs and line
/// breaks and bytes that are no UTF-8 as \xNN, marks that turn the direction of writing as \uNNNN.
[[nodiscard]] std::string shown_text(std::string_view text);

/// Returns shown_text() on one line, without the middle of what is longer than 1000 bytes.
[[nodiscard]] std::string shown_line(std::string_view text);

}  // namespace ptdp
