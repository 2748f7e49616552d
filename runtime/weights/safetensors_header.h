// The header of a file of safetensors as data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/weights/stored_tensor.h"

namespace ptdp {

/// Number of bytes before the header, which hold its length.
inline constexpr std::int64_t kHeaderLengthBytes = 8;
/// Largest header that is read [B]. Source: huggingface/safetensors, MAX_HEADER_SIZE.
inline constexpr std::int64_t kLargestHeader = 100'000'000;

/// What the header of a file says.
struct SafetensorsHeader {
  /// Tensors by their names.
  std::map<std::string, StoredTensor, std::less<>> tensors;
  /// Free texts of the writer, the object "__metadata__".
  std::map<std::string, std::string, std::less<>> metadata;
};

/// Parses the JSON of a header, behind which the file has `data_bytes` bytes more. The result's
/// tensors cover these bytes without gaps or overlaps, and each is as large as its type and shape
/// say. Throws Error at `place` for anything else: the message names the tensor, what was found and
/// what was expected. Refuses duplicate and unknown keys too.
[[nodiscard]] SafetensorsHeader parse_safetensors_header(std::string_view text,
                                                         std::int64_t data_bytes,
                                                         const std::string& place);

/// Returns the beginning of a file that PyTorch's users read: the length of the header and the
/// header, whose "format" is "pt". Data follow at a multiple of 8 bytes, the tensors in the given
/// order. For the order that huggingface/safetensors uses the bytes are those it writes.
[[nodiscard]] std::string safetensors_head(
    const std::vector<std::pair<std::string, StoredTensor>>& tensors);

}  // namespace ptdp
