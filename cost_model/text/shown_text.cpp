#include "cost_model/text/shown_text.h"

namespace ptdp {
namespace {

constexpr std::size_t kLongestLine = 1000;
constexpr std::size_t kKeptAtEnd = 400;  // where the cause is told
constexpr std::string_view kHex = "0123456789abcdef";

unsigned byte_at(std::string_view text, std::size_t i) {
  return static_cast<unsigned char>(text[i]);
}

/// Returns the character of a well-formed UTF-8 sequence of two or three bytes.
unsigned code_point(std::string_view text, std::size_t length) {
  return length == 2 ? (byte_at(text, 0) & 0x1FU) << 6U | (byte_at(text, 1) & 0x3FU)
                     : (byte_at(text, 0) & 0x0FU) << 12U | (byte_at(text, 1) & 0x3FU) << 6U |
                           (byte_at(text, 2) & 0x3FU);
}

/// Returns whether a character turns the direction of what stands beside it, or breaks a line
/// (Unicode 15, chapter 23.2).
bool turns_or_breaks(unsigned character) {
  return character == 0x061C || character == 0x200E || character == 0x200F ||
         (character >= 0x2028 && character <= 0x202E) ||
         (character >= 0x2066 && character <= 0x2069);
}

std::string in_hex(char kind, unsigned value, int digits) {
  std::string text = {'\\', kind};
  for (int i = digits - 1; i >= 0; --i) {
    text += kHex[value >> (4U * static_cast<unsigned>(i)) & 0xFU];
  }
  return text;
}

/// Returns the sequence of `length` bytes that `text` begins with, as a terminal may show it. A
/// length of 0 means one byte that is no UTF-8.
std::string shown_sequence(std::string_view text, std::size_t length) {
  if (length == 0 || (length == 1 && is_control(text, length))) {
    return in_hex('x', byte_at(text, 0), 2);
  }
  if (length == 2 || length == 3) {
    const unsigned character = code_point(text, length);
    if (is_control(text, length) || turns_or_breaks(character)) {
      return in_hex('u', character, 4);
    }
  }
  return std::string(text.substr(0, length));
}

std::string shown(std::string_view text, bool keeps_lines) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = utf8_sequence_length(text);
    if (keeps_lines && (text[0] == '\n' || text[0] == '\t')) {
      result += text[0];
    } else {
      result += shown_sequence(text, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return result;
}

}  // namespace

// The second byte's range excludes overlong forms, surrogates and what lies beyond U+10FFFF
// (Unicode 15, table 3-7).
std::size_t utf8_sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) {
    return lead == 0 ? 0 : 1;
  }
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || length > text.size()) {
    return 0;
  }
  const unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < low || byte(1) > high) {
    return 0;
  }
  for (std::size_t i = 2; i < length; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xBF) {
      return 0;
    }
  }
  return length;
}

bool is_control(std::string_view text, std::size_t length) {
  const unsigned first = byte_at(text, 0);
  return length == 2 ? first == 0xC2 && byte_at(text, 1) <= 0x9F
                     : length == 1 && (first < 0x20 || first == 0x7F);
}

std::string shown_text(std::string_view text) {
  return shown(text, /*keeps_lines=*/true);
}

std::string shown_line(std::string_view text) {
  if (text.size() <= kLongestLine) {
    return shown(text, /*keeps_lines=*/false);
  }
  return shown(text.substr(0, kLongestLine - kKeptAtEnd), false) + " ... " +
         shown(text.substr(text.size() - kKeptAtEnd), false);
}

}  // namespace ptdp
