// The index beside Megatron-LM's files of tokens.
#pragma once

#include <cstdint>

#include "runtime/data/token_layout.h"
#include "runtime/open_file.h"

namespace ptdp {

/// An index says of what type its file's tokens are, and how many there are.
struct MegatronIndex {
  TokenType type = TokenType::kUint16;
  std::int64_t count = 0;  ///< Of tokens in all sequences.
};

/// Whether the file begins as an index does.
[[nodiscard]] bool is_megatron_index(const OpenFile& file);

/// Reads FILE.idx: "MMIDIDX\0\0", uint64 version 1, uint8 type, uint64 numbers of sequences n and
/// of ends of documents d, then n int32 lengths [tokens], n int64 places in FILE.bin [B], d int64
/// sequences at which documents end, and none or n int8 modes. Source: Megatron-LM,
/// megatron/core/datasets/indexed_dataset.py.
///
/// The sequences must tile FILE.bin of `data_bytes` in their order: it is then read as one text.
/// Throws Error, naming the sequence or document, where they do not, and for a file that is cut.
[[nodiscard]] MegatronIndex read_megatron_index(const OpenFile& index, std::int64_t data_bytes);

}  // namespace ptdp
