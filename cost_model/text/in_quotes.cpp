#include "cost_model/text/in_quotes.h"

#include <algorithm>

namespace ptdp {
namespace {

constexpr std::size_t kLongestShown = 60;
constexpr std::string_view kHexDigits = "0123456789abcdef";

}  // namespace

std::string in_quotes(std::string_view text) {
  std::string result = "\"";
  for (const char c : text.substr(0, std::min(text.size(), kLongestShown))) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7F) {
      result += c;
    } else {
      result += "\\x";
      result += kHexDigits[byte / 16];
      result += kHexDigits[byte % 16];
    }
  }
  return result + (text.size() > kLongestShown ? "...\"" : "\"");
}

}  // namespace ptdp
