#include "planner/import/shell/parameter.h"

#include <algorithm>
#include <cctype>

namespace ptdp {
namespace {

bool is_in_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
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
  result.is_twice = !result.is_for_missing() && change.size() > 1 && change[1] == change[0];
  result.first = change.substr(result.is_twice ? 2 : 1);
  if (result.kind == '/' || result.kind == ':') {
    const std::size_t cut = std::min(result.first.find(result.kind), result.first.size());
    result.has_second = cut < result.first.size();
    result.second = result.has_second ? result.first.substr(cut + 1) : std::string_view();
    result.first = result.first.substr(0, cut);
  }
  return result;
}

std::string with_case(std::string text, bool is_upper, bool is_whole) {
  const std::size_t end = is_whole ? text.size() : std::min<std::size_t>(1, text.size());
  for (std::size_t i = 0; i < end; ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    text[i] = static_cast<char>(is_upper ? std::toupper(c) : std::tolower(c));
  }
  return text;
}

}  // namespace ptdp
