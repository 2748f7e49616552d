#include "planner/import/shell/parameter.h"

#include <algorithm>
#include <cctype>

#include "planner/import/shell/shell_tokens.h"

namespace ptdp {
namespace {

bool is_in_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// Returns the place of a character outside quotes, parentheses and ${...}; the size if none.
std::size_t find_unquoted(std::string_view text, char c) {
  std::size_t at = 0;
  while (at < text.size() && text[at] != c) {
    at = end_of_quoted(text, at);
  }
  return std::min(at, text.size());
}

}  // namespace

ShellParameter parameter_in(std::string_view inside) {
  ShellParameter result;
  result.is_length = inside.size() > 1 && inside[0] == '#';
  result.is_indirect = inside.size() > 1 && inside[0] == '!';
  if (result.is_length || result.is_indirect) {
    inside.remove_prefix(1);
  }
  std::size_t end = 0;
  while (end < inside.size() && is_in_name(inside[end])) {
    ++end;
  }
  end = end == 0 ? std::min<std::size_t>(1, inside.size()) : end;
  result.name = inside.substr(0, end);
  if (end < inside.size() && inside[end] == '[') {
    const std::size_t close = std::min(inside.find(']', end), inside.size() - 1);
    result.subscript = inside.substr(end + 1, close - end - 1);
    end = close + 1;
  }
  result.change = inside.substr(std::min(end, inside.size()));
  return result;
}

ParameterChange change_in(std::string_view change) {
  ParameterChange result{.kind = change[0]};
  result.tests_empty = change[0] == ':' && change.size() > 1 &&
                       std::string_view("-=+?").find(change[1]) != std::string_view::npos;
  if (result.tests_empty) {
    result.kind = change[1];
    result.first = change.substr(2);
    return result;
  }
  result.is_twice = std::string_view("#%,^/").find(change[0]) != std::string_view::npos &&
                    change.size() > 1 && change[1] == change[0];
  result.first = change.substr(result.is_twice ? 2 : 1);
  if (result.kind == '/' || result.kind == ':') {
    const std::size_t cut = find_unquoted(result.first, result.kind);
    result.has_second = cut < result.first.size();
    result.second = result.has_second ? result.first.substr(cut + 1) : std::string_view();
    result.first = result.first.substr(0, cut);
  }
  return result;
}

}  // namespace ptdp
