// Words that grow piece by piece.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/import/shell/shell_limits.h"

namespace ptdp {

/// Collects words from pieces of text, and splits what is not quoted at blanks.
class ShellWordBuilder {
 public:
  /// Without `splits` all pieces become one word.
  ShellWordBuilder(bool splits, ShellLimits& limits) : limits_(limits), splits_(splits) {}

  /// Adds text to the current word; splits it at blanks unless `is_whole`. Throws Error if the
  /// words grow beyond 4 MiB.
  void put(std::string_view text, bool is_whole);
  /// Adds the values of an array, each as a word of its own if quoted and `is_separate`.
  void put_all(const std::vector<std::string>& items, bool is_quoted, bool is_separate);
  /// Begins a word even if no text follows, as quotes do.
  void begin_word() { has_current_ = true; }
  /// Returns whether the current word has characters so far.
  [[nodiscard]] bool has_text() const { return !current_.empty(); }

  [[nodiscard]] std::vector<std::string> take();

 private:
  void end_word();

  ShellLimits& limits_;
  bool splits_;
  std::size_t size_ = 0;
  bool has_current_ = false;
  std::string current_;
  std::vector<std::string> words_;
};

/// Returns the text of $'...' with escapes such as \n, \x41 and \101 as what they mean.
[[nodiscard]] std::string with_escapes(std::string_view text);

}  // namespace ptdp
