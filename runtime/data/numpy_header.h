// Reads the header of NumPy's .npy files that may hold tokens.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/data/token_layout.h"
#include "runtime/open_file.h"

namespace ptdp {

/// What an .npy header says: the type, number and place of the file's numbers.
struct NumpyHeader {
  TokenType type = TokenType::kUint16;
  std::int64_t count = 0;  ///< Number of elements in the array.
  std::int64_t bytes = 0;  ///< Size of the header [B]; the first number follows it.
};

/// Reads an .npy header of versions 1 to 3. Returns nullopt when the file is no .npy. Throws Error
/// for a header that is cut or malformed, types other than little-endian integers, and more than
/// one dimension. Source: numpy/lib/format.py.
[[nodiscard]] std::optional<NumpyHeader> read_numpy_header(const OpenFile& file);

}  // namespace ptdp
