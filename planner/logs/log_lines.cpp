#include "planner/logs/log_lines.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace ptdp {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 18;
constexpr char kEscape = '\x1b';

/// Removes escape sequences of a terminal: ESC [ parameters letter, and ESC with one letter.
void remove_escapes(std::string& line) {
  if (line.find(kEscape) == std::string::npos) {
    return;
  }
  std::string kept;
  kept.reserve(line.size());
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] != kEscape) {
      kept += line[i];
      continue;
    }
    if (i + 1 < line.size() && line[i + 1] == '[') {
      i = line.find_first_not_of("0123456789;?", i + 2);
    } else {
      ++i;
    }
    if (i >= line.size()) {
      break;
    }
  }
  line = std::move(kept);
}

/// Returns where the line that starts at `from` ends, or the size of the text.
std::size_t end_of_line(const std::string& text, std::size_t from) {
  const std::size_t feed = std::min(text.find('\n', from), text.size());
  const void* ret = std::memchr(text.data() + from, '\r', feed - from);
  return ret == nullptr ? feed
                        : static_cast<std::size_t>(static_cast<const char*>(ret) - text.data());
}

}  // namespace

std::size_t find_word(std::string_view text, std::string_view word, std::size_t from) {
  if (from > text.size()) {
    return std::string_view::npos;
  }
  const void* found = ::memmem(text.data() + from, text.size() - from, word.data(), word.size());
  return found == nullptr ? std::string_view::npos
                          : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

LogLines::LogLines(std::filesystem::path path)
    : path_(std::move(path)), file_(open_regular_file(path_)) {}

bool LogLines::fill() {
  piece_.resize(kPiece);
  for (;;) {
    const ssize_t count = ::read(file_.descriptor.get(), piece_.data(), piece_.size());
    if (count >= 0) {
      piece_.resize(static_cast<std::size_t>(count));
      place_ = 0;
      return count > 0;
    }
    if (errno != EINTR) {
      fail_to_read(path_, std::strerror(errno));
    }
  }
}

bool LogLines::next(std::string& line) {
  line.clear();
  bool has_any = false;
  bool is_ended = false;
  while (place_ < piece_.size() || fill()) {
    if (std::exchange(after_return_, false) && piece_[place_] == '\n') {
      ++place_;
      continue;
    }
    has_any = true;
    const std::size_t end = end_of_line(piece_, place_);
    const std::size_t room = kLongestLogLine - line.size();
    line.append(piece_, place_, std::min(end - place_, room));
    place_ = end;
    if (end < piece_.size()) {
      after_return_ = piece_[end] == '\r';
      is_ended = true;
      ++place_;
      break;
    }
  }
  ends_within_line_ = has_any ? !is_ended : ends_within_line_;
  remove_escapes(line);
  return has_any;
}

}  // namespace ptdp
