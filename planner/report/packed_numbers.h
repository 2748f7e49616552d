// Many numbers in little text, for pages that unpack them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ptdp {

/// Returns the columns as PackedTimeline::actions has them. Little-endian 32-bit integers, column
/// after column, are compressed by zlib's deflate and written in base64 (RFC 4648).
[[nodiscard]] std::string packed_numbers(const std::vector<std::vector<std::int32_t>>& columns);

}  // namespace ptdp
