// Counted things inside a message.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ptdp {

/// "1 step", "2 steps", "0 steps": `one` with an s behind it unless there is one.
[[nodiscard]] std::string plural(std::int64_t count, std::string_view one);
/// The same where the plural is another word: "1 process", "2 processes".
[[nodiscard]] std::string plural(std::int64_t count, std::string_view one, std::string_view many);

}  // namespace ptdp
