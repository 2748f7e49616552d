// Files of safetensors made byte by byte, for tests of what reads and writes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/backend.h"

namespace ptdp {

/// Returns a file with this header and these data.
inline std::string safetensors_bytes(std::string_view header, std::string_view data) {
  std::string bytes;
  for (std::size_t rest = header.size(), i = 0; i < 8; ++i, rest >>= 8U) {
    bytes += static_cast<char>(rest & 0xFFU);
  }
  return bytes + std::string(header) + std::string(data);
}

/// Returns the bytes of elements as memory has them.
template <class Element>
std::string bytes_of_elements(const std::vector<Element>& elements) {
  std::string bytes(elements.size() * sizeof(Element), '\0');
  std::memcpy(bytes.data(), elements.data(), bytes.size());
  return bytes;
}

/// Returns a view of elements. Their C++ type must be that of `type`, or have its size.
template <class Element>
Buffer buffer_of(std::vector<Element>& elements, DataType type) {
  return {
      .data = elements.data(), .size = static_cast<std::int64_t>(elements.size()), .type = type};
}

/// Returns a block of a matrix of `total_columns` columns.
inline MatrixBlock block_of(std::int64_t first_row, std::int64_t rows, std::int64_t first_column,
                            std::int64_t columns, std::int64_t total_columns) {
  return {.first_row = first_row,
          .first_column = first_column,
          .rows = rows,
          .columns = columns,
          .total_columns = total_columns};
}

/// Returns the path of a file that the libraries wrote (make_golden.py).
inline std::filesystem::path golden_weights(const std::string& name) {
  return std::filesystem::path(PTDP_SOURCE_DIR) / "tests/golden/safetensors" / name;
}

}  // namespace ptdp
