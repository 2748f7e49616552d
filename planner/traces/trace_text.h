// The text of a trace, piece by piece, as JSON that a parser accepts.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <streambuf>
#include <string>
#include <string_view>
#include <utility>

namespace ptdp {

/// Mends what profilers write and JSON forbids, in a text that comes in pieces: numbers that are
/// none ("NaN" becomes "null"), control characters and bytes beyond ASCII in strings.
class JsonMender {
 public:
  /// Adds the mended piece to `text`; a word at its end may be held back for the next piece.
  void mend(std::string_view piece, std::string& text);
  /// Adds what was held back.
  void finish(std::string& text);

 private:
  /// Mends up to the end of the string or the piece; returns how far that is.
  std::size_t mend_string(std::string_view piece, std::string& text);
  /// Mends up to the start of a string or the end of the piece; returns how far that is.
  std::size_t mend_outside(std::string_view piece, std::string& text);
  void end_word(std::string& text);

  std::string word_;  ///< Letters outside of strings that are not written yet.
  bool in_string_ = false;
  bool after_backslash_ = false;
};

/// Reads a file piece by piece, and unpacks it if it starts as gzip does.
class TraceFile {
 public:
  /// Opens a regular file. Throws Error as open_regular_file() does.
  explicit TraceFile(std::filesystem::path path);
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;
  TraceFile(TraceFile&&) = delete;
  TraceFile& operator=(TraceFile&&) = delete;
  ~TraceFile();

  /// Replaces `piece` by the next bytes; none are left at the end. Throws Error for a file that
  /// cannot be read, and for gzip that is cut off or damaged.
  void next(std::string& piece);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Gives a parser the mended text of pieces.
class TraceBuffer : public std::streambuf {
 public:
  /// Calls `next` for a piece after the other; it leaves its argument empty at the end.
  explicit TraceBuffer(std::function<void(std::string&)> next) : next_(std::move(next)) {}

  /// Returns whether the parser asked for more than there is.
  [[nodiscard]] bool is_used_up() const { return is_used_up_; }
  /// Returns whether there was nothing but blanks up to now.
  [[nodiscard]] bool is_blank() const { return is_blank_; }

 protected:
  int_type underflow() override;

 private:
  std::function<void(std::string&)> next_;
  JsonMender mender_;
  std::string piece_;
  std::string text_;
  bool is_at_end_ = false;
  bool is_used_up_ = false;
  bool is_blank_ = true;
};

}  // namespace ptdp
