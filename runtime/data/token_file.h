// The tokens of a file, whatever it stores them in.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

#include "runtime/data/token_layout.h"
#include "runtime/open_file.h"

namespace ptdp {

/// A file is told with the type of its numbers where it may not say that itself.
struct TokenSource {
  std::filesystem::path path;
  std::optional<TokenType> type = {};
};

/// Read piece by piece, not mapped: a file that is cut while in use is an Error, not a signal.
class TokenFile {
 public:
  /// Reads all of it once, so that a token beyond the vocabulary ends a run before it begins.
  /// Throws Error for what OpenFile and find_token_layout() refuse, and the first token that is not
  /// one of 0 … vocab_size − 1.
  TokenFile(const TokenSource& source, int vocab_size);

  [[nodiscard]] const std::filesystem::path& path() const { return file_.path(); }
  [[nodiscard]] const TokenLayout& layout() const { return layout_; }
  /// Number of tokens.
  [[nodiscard]] std::int64_t size() const { return layout_.count; }
  /// The tokens from `first` on. Throws Error where the file changed since it was opened.
  void read(std::int64_t first, std::span<std::int32_t> tokens) const;

 private:
  OpenFile file_;
  TokenLayout layout_;
  int vocab_size_ = 0;
};

}  // namespace ptdp
