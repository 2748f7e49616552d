// Unpacks what packed_numbers() packs, by zlib and a decoder of the tests' own.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ptdp {

/// Decodes base64 (RFC 4648).
inline std::vector<unsigned char> from_base64(const std::string& text) {
  constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<unsigned char> bytes;
  unsigned bits = 0;
  int known = 0;
  for (const char digit : text) {
    if (digit == '=') {
      break;
    }
    bits = bits << 6 | static_cast<unsigned>(digits.find(digit));
    known += 6;
    if (known >= 8) {
      known -= 8;
      bytes.push_back(static_cast<unsigned char>(bits >> known & 0xff));
    }
  }
  return bytes;
}

/// Returns the `size` numbers of all columns.
inline std::vector<std::int32_t> unpacked(const std::string& text, std::size_t size) {
  const std::vector<unsigned char> packed = from_base64(text);
  std::vector<unsigned char> bytes(4 * size + 1);
  uLongf length = bytes.size();
  EXPECT_EQ(::uncompress(bytes.data(), &length, packed.data(), packed.size()), Z_OK);
  EXPECT_EQ(length, 4 * size);
  std::vector<std::int32_t> numbers;
  for (std::size_t i = 0; i + 3 < length; i += 4) {
    numbers.push_back(static_cast<std::int32_t>(bytes[i] | bytes[i + 1] << 8 | bytes[i + 2] << 16 |
                                                static_cast<std::uint32_t>(bytes[i + 3]) << 24));
  }
  return numbers;
}

}  // namespace ptdp
