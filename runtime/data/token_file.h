// Reads the tokens of a file, whatever type it stores them in.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

#include "runtime/data/token_layout.h"
#include "runtime/open_file.h"

namespace ptdp {

/// A file of tokens, with the type of its numbers when the file may not say that itself.
struct TokenSource {
  std::filesystem::path path;
  std::optional<TokenType> type = {};
};

/// A file of tokens, read piece by piece. It is not mapped: a file that is cut while in use gives
/// an Error, not a signal.
class TokenFile {
 public:
  /// Reads the whole file once, so that a token beyond the vocabulary ends a run before it begins.
  /// Throws Error for what OpenFile and find_token_layout() refuse, and for the first token outside
  /// 0 … vocab_size − 1.
  TokenFile(const TokenSource& source, int vocab_size);

  [[nodiscard]] const std::filesystem::path& path() const { return file_.path(); }
  [[nodiscard]] const TokenLayout& layout() const { return layout_; }
  /// Returns the number of tokens.
  [[nodiscard]] std::int64_t size() const { return layout_.count; }
  /// Reads the tokens from position `first` on. Throws Error when the file changed since it was
  /// opened: it is shorter, or has a token beyond the vocabulary.
  void read(std::int64_t first, std::span<std::int32_t> tokens) const;

 private:
  OpenFile file_;
  TokenLayout layout_;
  int vocab_size_ = 0;
};

}  // namespace ptdp
