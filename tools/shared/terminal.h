// What a terminal can show: how wide it is, and whether in bold.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "planner/answer_format.h"

namespace ptdp {

/// Returns the columns of what shows standard output: those that COLUMNS says, else the terminal's.
/// Returns nullopt for a file or a pipe.
[[nodiscard]] std::optional<int> terminal_width();

/// Returns the text with lines of at most `width` characters, as far as words allow. A line goes on
/// below its value if it has a name and a value two blanks apart, else four blanks in. Commands
/// stay whole, to be copied.
[[nodiscard]] std::string wrapped(std::string_view text, int width);

/// Returns the text with its first line and the titles of its sections in bold. A title follows an
/// empty line and stands before an indented one.
[[nodiscard]] std::string with_bold_titles(std::string_view text);

/// Erases the line of a terminal that the cursor is on, and goes to its start.
inline constexpr const char* kEraseLine = "\r\x1b[K";

/// Writes text to standard error as it is. Ignores errors: progress must not end a command.
void write_progress(const std::string& text);

/// Prints an answer, made safe for a terminal. Text for people is wrapped at terminal_width(); its
/// titles are bold on a terminal, unless NO_COLOR is set or TERM is dumb (no-color.org). Throws
/// Error(kOutputFailed) if standard output is closed or full.
void print_answer(std::string_view text, AnswerFormat format = AnswerFormat::kText);

}  // namespace ptdp
