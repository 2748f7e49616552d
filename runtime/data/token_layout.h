// Finds where a file's tokens are and how they are stored: raw, or as llm.c, NumPy or Megatron-LM
// do.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/open_file.h"

namespace ptdp {

/// Integer types in which a file may store its tokens, all little-endian.
enum class TokenType : std::uint8_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kUint64,
  kInt64,
};

/// Returns the type's name as --data-type and NumPy spell it, for example "uint16".
[[nodiscard]] std::string_view name_of(TokenType type);
/// Returns the size of one number [B].
[[nodiscard]] std::int64_t bytes_of(TokenType type);

/// Place, number and type of a file's tokens, which lie one behind the other.
struct TokenLayout {
  std::string kind;  ///< "raw", "llm.c", "NumPy" or "Megatron-LM".
  TokenType type = TokenType::kUint16;
  std::int64_t begin = 0;  ///< Place of the first token in the file [B].
  std::int64_t count = 0;  ///< Number of tokens.
};

/// Finds the layout by the file's header, or by the index FILE.idx beside FILE.bin:
///
///   llm.c        256 int32: 20240520, version 1, number of tokens, then uint16; or 20240801,
///                version 7, then uint32. Source: dev/data/data_common.py.
///   NumPy        .npy of versions 1 to 3, one dimension. Source: NEP 1, numpy/lib/format.py.
///   Megatron-LM  As megatron_index.h describes.
///   raw          Any other file: the type is `told`. Without `told` it is uint16 (nanoGPT,
///                data/*/prepare.py), when the vocabulary and the first numbers allow that.
///
/// Throws Error, naming what was found and expected, for headers that contradict the file's size,
/// `told` or themselves. Throws Error also for sizes that are no whole tokens, and for raw files
/// that may be of another type.
[[nodiscard]] TokenLayout find_token_layout(const OpenFile& file, std::optional<TokenType> told,
                                            int vocab_size);

}  // namespace ptdp
