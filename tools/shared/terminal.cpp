#include "tools/shared/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "cost_model/text/shown_text.h"
#include "tools/shared/command_line.h"

namespace ptdp {
namespace {

constexpr int kNarrowest = 20;
constexpr int kWidest = 10'000;
constexpr std::string_view kBold = "\x1b[1m";
constexpr std::string_view kPlain = "\x1b[0m";

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

/// Returns the number of characters of UTF-8 text.
std::size_t length_of(std::string_view text) {
  constexpr unsigned char mask = 0xc0;
  constexpr unsigned char continuation = 0x80;
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char byte) { return (static_cast<unsigned char>(byte) & mask) != continuation; }));
}

/// Returns how far the rest of a line is indented.
std::size_t indent_of_rest(std::string_view line, std::size_t width) {
  const std::size_t start = std::min(line.find_first_not_of(' '), line.size());
  const bool is_named =
      start < line.size() && std::isalpha(static_cast<unsigned char>(line[start])) != 0;
  const std::size_t gap = is_named ? line.find("  ", start) : std::string_view::npos;
  const std::size_t value = gap == std::string_view::npos ? gap : line.find_first_not_of(' ', gap);
  constexpr std::size_t usual = 4;
  return value != std::string_view::npos && value <= width / 2 ? value : start + usual;
}

/// Returns whether a line is to be copied as a whole: a command, or flags of one.
bool is_command(std::string_view line) {
  const std::string_view words = line.substr(std::min(line.find_first_not_of(' '), line.size()));
  return words.starts_with("ptdp-") || words.starts_with("ptdp ") ||
         words.starts_with("--config ") || words.starts_with("Next: ");
}

void add_wrapped(std::string_view line, std::size_t width, std::string& text) {
  if (is_command(line)) {
    text += std::string(line) + '\n';
    return;
  }
  const std::size_t indent = indent_of_rest(line, width);
  std::string begun;
  while (length_of(begun) + length_of(line) > width) {
    // The last blank at which what stands before it fits, or the first one after that.
    std::size_t least = begun.empty() ? line.find_first_not_of(' ') : 0;
    std::size_t cut = std::string_view::npos;
    for (std::size_t blank = line.find(' ', least); blank != std::string_view::npos;
         blank = line.find(' ', blank + 1)) {
      const bool fits = length_of(begun) + length_of(line.substr(0, blank)) <= width;
      if (!fits && cut != std::string_view::npos) {
        break;
      }
      const bool is_before_word =
          blank + 1 < line.size() && line[blank + 1] != ' ' && line[blank + 1] != '%';
      if (is_before_word) {
        cut = blank;
      }
    }
    if (cut == std::string_view::npos) {
      break;
    }
    const std::string_view head = line.substr(0, cut);
    text += begun + std::string(head.substr(0, head.find_last_not_of(' ') + 1)) + '\n';
    line.remove_prefix(cut + 1);
    begun.assign(indent, ' ');
  }
  text += begun + std::string(line) + '\n';
}

bool wants_bold() {
  const char* const no_color = std::getenv("NO_COLOR");
  const char* const terminal = std::getenv("TERM");
  return ::isatty(STDOUT_FILENO) == 1 && (no_color == nullptr || *no_color == '\0') &&
         terminal != nullptr && std::string_view(terminal) != "dumb";
}

}  // namespace

std::optional<int> terminal_width() {
  if (const char* const columns = std::getenv("COLUMNS")) {
    const std::string_view text = columns;
    int width = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), width);
    if (error == std::errc() && end == text.data() + text.size() && width >= kNarrowest &&
        width <= kWidest) {
      return width;
    }
  }
  winsize size{};
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg): ioctl(2) is what it is
  if (::isatty(STDOUT_FILENO) == 1 && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 &&
      size.ws_col >= kNarrowest) {
    return size.ws_col;
  }
  return std::nullopt;
}

std::string wrapped(std::string_view text, int width) {
  std::string result;
  for (const std::string_view line : lines_of(text)) {
    add_wrapped(line, static_cast<std::size_t>(width), result);
  }
  return result;
}

std::string with_bold_titles(std::string_view text) {
  const std::vector<std::string_view> lines = lines_of(text);
  const auto is_indented = [&](std::size_t i) {
    return i < lines.size() && lines[i].starts_with(' ');
  };
  std::string result;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const bool is_title = !lines[i].empty() && !is_indented(i) &&
                          (i == 0 || (lines[i - 1].empty() && is_indented(i + 1)));
    result += is_title ? std::string(kBold) + std::string(lines[i]) + std::string(kPlain)
                       : std::string(lines[i]);
    result += '\n';
  }
  return result;
}

void write_progress(const std::string& text) {
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), stderr));
}

void print_answer(std::string_view text, AnswerFormat format) {
  std::string shown = shown_text(text);
  if (format == AnswerFormat::kText) {
    if (wants_bold()) {
      shown = with_bold_titles(shown);
    }
    if (const auto width = terminal_width()) {
      shown = wrapped(shown, *width);
    }
  }
  write_standard_output(shown);
}

}  // namespace ptdp
