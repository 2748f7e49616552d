// The header of NumPy's .npy files, of those that may hold tokens.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/data/token_layout.h"
#include "runtime/open_file.h"

namespace ptdp {

/// A .npy has numbers of one type behind a header.
struct NumpyHeader {
  TokenType type = TokenType::kUint16;
  std::int64_t count = 0;  ///< Of numbers.
  std::int64_t bytes = 0;  ///< Of the header: the first number is behind it.
};

/// Reads the header of versions 1 to 3; nothing where the file is no .npy. Throws Error for a
/// header that is cut or not well formed, other types than little-endian integers, and more than
/// one dimension. Source: numpy/lib/format.py.
[[nodiscard]] std::optional<NumpyHeader> read_numpy_header(const OpenFile& file);

}  // namespace ptdp
