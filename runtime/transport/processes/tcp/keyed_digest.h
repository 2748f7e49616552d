// A digest that only those can make who know a key.
#pragma once

#include <string>
#include <string_view>

namespace ptdp {

/// HMAC-SHA-256 of a message (RFC 2104, FIPS 180-4), as 64 hexadecimal digits.
[[nodiscard]] std::string keyed_digest(std::string_view key, std::string_view message);

/// 128 random bits, as 32 hexadecimal digits.
[[nodiscard]] std::string random_digits();

/// Compares in a time that does not tell where the texts differ.
[[nodiscard]] bool are_equal_digests(std::string_view a, std::string_view b);

}  // namespace ptdp
