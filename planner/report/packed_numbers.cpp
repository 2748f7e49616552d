#include "planner/report/packed_numbers.h"

#include <zlib.h>

#include <algorithm>
#include <cstddef>
#include <new>
#include <string_view>

namespace ptdp {
namespace {

using Octets = std::vector<unsigned char>;

Octets little_endian(const std::vector<std::vector<std::int32_t>>& columns) {
  std::size_t count = 0;
  for (const std::vector<std::int32_t>& column : columns) {
    count += column.size();
  }
  Octets bytes(count * sizeof(std::int32_t));
  unsigned char* next = bytes.data();
  for (const std::vector<std::int32_t>& column : columns) {
    for (const std::int32_t number : column) {
      const auto bits = static_cast<std::uint32_t>(number);
      for (int shift = 0; shift < 32; shift += 8) {
        *next++ = static_cast<unsigned char>(bits >> shift);
      }
    }
  }
  return bytes;
}

Octets deflated(const Octets& bytes) {
  uLongf size = compressBound(bytes.size());
  Octets packed(size);
  if (compress2(packed.data(), &size, bytes.data(), bytes.size(), Z_BEST_SPEED) != Z_OK) {
    throw std::bad_alloc();  // it has room for what it writes, and lacks its own
  }
  packed.resize(size);
  return packed;
}

std::string base64(const Octets& bytes) {
  constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t first = 0; first < bytes.size(); first += 3) {
    const std::size_t present = std::min<std::size_t>(3, bytes.size() - first);
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      bits = bits << 8 | (i < present ? bytes[first + i] : 0U);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      text += i <= present ? digits[bits >> (18 - 6 * i) & 63] : '=';
    }
  }
  return text;
}

}  // namespace

std::string packed_numbers(const std::vector<std::vector<std::int32_t>>& columns) {
  return base64(deflated(little_endian(columns)));
}

}  // namespace ptdp
