// A message digest that only those who know a key can make.
#pragma once

#include <string>
#include <string_view>

namespace ptdp {

/// Returns the HMAC-SHA-256 of `message` (RFC 2104, FIPS 180-4) as 64 hexadecimal digits.
[[nodiscard]] std::string keyed_digest(std::string_view key, std::string_view message);

/// Returns 128 random bits as 32 hexadecimal digits.
[[nodiscard]] std::string random_digits();

/// Returns whether two texts are equal, in a time that does not tell where they differ.
[[nodiscard]] bool are_equal_digests(std::string_view a, std::string_view b);

}  // namespace ptdp
