// Where the tokens of a file are and how they are stored: raw, of llm.c, NumPy or Megatron-LM.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/open_file.h"

namespace ptdp {

/// A file has its tokens as little-endian integers of one of these types.
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

/// The name as --data-type and NumPy spell it: "uint16".
[[nodiscard]] std::string_view name_of(TokenType type);
/// The size of one number.
[[nodiscard]] std::int64_t bytes_of(TokenType type);

/// A file's tokens lie behind each other: this says from where on, how many and of what type.
struct TokenLayout {
  std::string kind;  ///< "raw", "llm.c", "NumPy" or "Megatron-LM".
  TokenType type = TokenType::kUint16;
  std::int64_t begin = 0;  ///< Of the first token [B].
  std::int64_t count = 0;  ///< Of tokens.
};

/// Finds the layout by the file's header, or by the index FILE.idx beside FILE.bin:
///
///   llm.c        256 int32: 20240520, version 1, number of tokens, then uint16; or 20240801,
///                version 7, then uint32. Source: dev/data/data_common.py.
///   NumPy        .npy of versions 1 to 3, one dimension. Source: NEP 1, numpy/lib/format.py.
///   Megatron-LM  megatron_index.h.
///   raw          Any other file: what `told` says; without it uint16 (nanoGPT,
///                data/*/prepare.py), where the vocabulary and the first numbers allow that.
///
/// Throws Error, naming what was found and expected, for headers that contradict the file's size,
/// `told` or themselves, sizes that are no whole tokens, and raw files that may be of another type.
[[nodiscard]] TokenLayout find_token_layout(const OpenFile& file, std::optional<TokenType> told,
                                            int vocab_size);

}  // namespace ptdp
