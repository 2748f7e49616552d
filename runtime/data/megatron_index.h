// Reads the index beside Megatron-LM's files of tokens.
#pragma once

#include <cstdint>

#include "runtime/data/token_layout.h"
#include "runtime/open_file.h"

namespace ptdp {

/// What an index says of its token file: the type and number of the tokens.
struct MegatronIndex {
  TokenType type = TokenType::kUint16;
  std::int64_t count = 0;  ///< Number of tokens in all sequences.
};

/// Returns whether the file begins as an index of Megatron-LM does.
[[nodiscard]] bool is_megatron_index(const OpenFile& file);

/// Reads FILE.idx. Its content, in order, for n sequences and d ends of documents:
///
///   "MMIDIDX\0\0"; uint64 version 1; uint8 type; uint64 n; uint64 d;
///   n int32 lengths [tokens]; n int64 places in FILE.bin [B];
///   d int64 sequences at which documents end; none or n int8 modes.
///
/// Source: Megatron-LM, megatron/core/datasets/indexed_dataset.py.
///
/// The sequences must tile FILE.bin of `data_bytes` in their order: it is then read as one text.
/// Throws Error, naming the sequence or document, when they do not, and for a file that is cut
/// short.
[[nodiscard]] MegatronIndex read_megatron_index(const OpenFile& index, std::int64_t data_bytes);

}  // namespace ptdp
