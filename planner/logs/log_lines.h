// The lines of a log, as a person would read them on a terminal.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "cost_model/text/files.h"

namespace ptdp {

/// The longest line that is read whole [B]. What is longer is cut.
inline constexpr std::size_t kLongestLogLine = std::size_t{1} << 20;

/// Returns where `word` stands in a text at `from` or behind; npos if it does not. It searches a
/// long line several times as fast as std::string_view::find().
[[nodiscard]] std::size_t find_word(std::string_view text, std::string_view word,
                                    std::size_t from = 0);
/// Returns whether `word` stands anywhere in a text.
[[nodiscard]] inline bool has_word(std::string_view text, std::string_view word) {
  return find_word(text, word) != std::string_view::npos;
}

/// Reads a log piece by piece, in memory that does not grow with the file.
class LogLines {
 public:
  /// Opens a regular file. Throws Error as open_regular_file() does.
  explicit LogLines(std::filesystem::path path);

  /// Takes the next line, which ends at a line feed, a carriage return or both, without colours and
  /// other escape sequences. Returns false at the end. Throws Error if the file cannot be read.
  [[nodiscard]] bool next(std::string& line);
  /// Returns whether the last line that was taken has no end: the file ends within it.
  [[nodiscard]] bool ends_within_line() const { return ends_within_line_; }

 private:
  /// Reads the next piece; returns false at the end of the file.
  bool fill();

  std::filesystem::path path_;
  RegularFile file_;
  std::string piece_;
  std::size_t place_ = 0;      ///< Start of the next line in piece_.
  bool after_return_ = false;  ///< Whether the last line ended at a carriage return.
  bool ends_within_line_ = false;
};

}  // namespace ptdp
