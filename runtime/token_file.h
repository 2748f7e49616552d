// Files of 16-bit tokens, as nanoGPT and llm.c write them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "runtime/open_file.h"

namespace ptdp {

/// Either nothing but uint16 tokens (nanoGPT, data/*/prepare.py), or these behind a header of 256
/// int32: 20240520, version 1, number of tokens (llm.c, dev/data/data_common.py). Little-endian.
/// The header's first words would be tokens 55432 and 308, which no vocabulary below 55432 has.
///
/// Read piece by piece, not mapped: a file that is cut while in use is an Error, not a signal.
class TokenFile {
 public:
  /// Reads all of it once, so that a token beyond the vocabulary ends a run before it begins.
  /// Throws Error for what OpenFile refuses, an odd size, a header that contradicts the size or
  /// belongs to another format, and the first token that is not below `vocab_size`.
  TokenFile(const std::filesystem::path& path, int vocab_size);

  [[nodiscard]] const std::filesystem::path& path() const { return file_.path(); }
  /// Number of tokens.
  [[nodiscard]] std::int64_t size() const { return size_; }
  /// The tokens from `first` on. Throws Error where the file changed since it was opened.
  void read(std::int64_t first, std::span<std::int32_t> tokens) const;

 private:
  void read_header();

  OpenFile file_;
  int vocab_size_ = 0;
  std::int64_t begin_ = 0;  ///< Of the first token [B].
  std::int64_t size_ = 0;
};

}  // namespace ptdp
