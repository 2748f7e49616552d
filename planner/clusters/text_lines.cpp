#include "planner/clusters/text_lines.h"

#include <cctype>

namespace ptdp {
namespace {

/// Returns the place behind an ESC sequence that begins at `at`: ESC [ numbers letter.
std::size_t behind_escape(std::string_view text, std::size_t at) {
  ++at;
  if (at < text.size() && text[at] == '[') {
    ++at;
    while (at < text.size() && std::isalpha(static_cast<unsigned char>(text[at])) == 0) {
      ++at;
    }
  }
  return at + 1;
}

}  // namespace

std::vector<std::string> printed_lines(std::string_view text) {
  constexpr char escape = '\x1b';
  std::vector<std::string> lines(1);
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == escape) {
      i = behind_escape(text, i);
      continue;
    }
    if (text[i] == '\n') {
      lines.emplace_back();
    } else if (text[i] != '\r') {
      lines.back() += text[i];
    }
    ++i;
  }
  return lines;
}

std::vector<std::string> printed_words(std::string_view line) {
  constexpr std::string_view blanks = " \t";
  std::vector<std::string> words;
  for (std::size_t from = line.find_first_not_of(blanks); from != std::string_view::npos;) {
    const std::size_t end = line.find_first_of(blanks, from);
    words.emplace_back(line.substr(from, end - from));
    from = line.find_first_not_of(blanks, end);
  }
  return words;
}

}  // namespace ptdp
