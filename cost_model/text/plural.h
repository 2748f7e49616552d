// Counted things inside a message.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ptdp {

/// Returns a counted thing: "1 step", "2 steps", "0 steps". `one` gets an s unless `count` is 1.
[[nodiscard]] std::string plural(std::int64_t count, std::string_view one);
/// Returns a counted thing whose plural is the word `many`: "1 process", "2 processes".
[[nodiscard]] std::string plural(std::int64_t count, std::string_view one, std::string_view many);

}  // namespace ptdp
