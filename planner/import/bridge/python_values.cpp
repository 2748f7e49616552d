#include "planner/import/bridge/python_values.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "planner/import/shell/shell_expansion.h"

namespace ptdp {
namespace {

std::string_view stripped(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) {
    text.remove_prefix(1);
  }
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) {
    text.remove_suffix(1);
  }
  return text;
}

/// Calls `visit` with each character that stands outside texts, and the depth of brackets there.
/// It ends where `visit` returns false.
template <class Visit>
void scan(std::string_view text, const Visit& visit) {
  char quote = 0;
  int depth = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (quote != 0) {
      at += c == '\\' ? 1U : 0U;
      quote = c == quote ? '\0' : quote;
      continue;
    }
    quote = c == '"' || c == '\'' ? c : '\0';
    depth += c == '(' || c == '[' || c == '{' ? 1 : 0;
    depth -= c == ')' || c == ']' || c == '}' ? 1 : 0;
    if (!visit(at, c, depth)) {
      return;
    }
  }
}

std::vector<std::string_view> split_at_commas(std::string_view text) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  scan(text, [&](std::size_t at, char c, int depth) {
    if (c == ',' && depth == 0) {
      parts.push_back(stripped(text.substr(begin, at - begin)));
      begin = at + 1;
    }
    return true;
  });
  const std::string_view last = stripped(text.substr(begin));
  if (!last.empty()) {
    parts.push_back(last);
  }
  return parts;
}

/// Returns the text that a literal in quotes stands for; nullopt for anything else.
std::optional<std::string> quoted_text(std::string_view text) {
  const bool is_quoted = text.size() >= 2 && (text.front() == '"' || text.front() == '\'') &&
                         text.back() == text.front();
  if (!is_quoted || text.find('\\') != std::string_view::npos ||
      text.find(text.front(), 1) != text.size() - 1) {
    return std::nullopt;
  }
  return std::string(text.substr(1, text.size() - 2));
}

bool is_name(std::string_view text) {
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text.front())) == 0 &&
         std::ranges::all_of(
             text, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '.'; });
}

/// Returns whether a text has numbers and what lists of them are made of: "([0]*3+[1]*58)".
bool is_of_numbers(std::string_view text) {
  return !text.empty() &&
         text.find_first_not_of("0123456789.eE_+-*[](), ") == std::string_view::npos;
}

bool is_none(std::string_view text) {
  return text == "None" || text == "null";
}

/// Returns a literal's value; nullopt if it is none.
std::optional<std::string> literal(std::string_view text) {
  if (auto quoted = quoted_text(text)) {
    return quoted;
  }
  if (text == "True" || text == "true") {
    return "true";
  }
  if (text == "False" || text == "false") {
    return "false";
  }
  // torch.bfloat16, AttnBackend.flash; another name is a variable.
  const bool is_constant =
      is_name(text) && text.find('.') != std::string_view::npos &&
      (text.starts_with("torch.") || std::isupper(static_cast<unsigned char>(text.front())) != 0);
  return is_constant || is_of_numbers(text) ? std::optional(std::string(text)) : std::nullopt;
}

/// Returns the values of "[a, b]" whose items are literals; nullopt for anything else.
std::optional<std::vector<std::string>> literal_list(std::string_view text) {
  if (!text.starts_with('[') || !text.ends_with(']')) {
    return std::nullopt;
  }
  std::vector<std::string> values;
  for (const std::string_view item : split_at_commas(text.substr(1, text.size() - 2))) {
    auto value = item.starts_with('[') ? std::nullopt : literal(item);
    if (!value && is_name(item)) {
      value = std::string(item);  // Hydra's lists have no quotes
    }
    if (!value) {
      return std::nullopt;
    }
    values.push_back(*std::move(value));
  }
  return values;
}

}  // namespace

PythonCall python_call(std::string_view text) {
  PythonCall call;
  text = stripped(text);
  const std::size_t open = text.find('(');
  if (open == std::string_view::npos || !text.ends_with(')') || !is_name(text.substr(0, open)) ||
      open_brackets(text) != 0) {
    return call;
  }
  bool is_one_call = true;  // and not f(a) + g(b)
  scan(text, [&](std::size_t at, char /*c*/, int depth) {
    is_one_call = is_one_call && (at < open || depth > 0 || at + 1 == text.size());
    return is_one_call;
  });
  if (!is_one_call) {
    return call;
  }
  call.name = text.substr(0, open);
  bool is_first = true;
  for (const std::string_view part :
       split_at_commas(text.substr(open + 1, text.size() - open - 2))) {
    const std::size_t equals = part.find('=');
    const std::string_view name =
        equals == std::string_view::npos ? "" : stripped(part.substr(0, equals));
    if (is_name(name)) {
      call.arguments.push_back({std::string(name), std::string(stripped(part.substr(equals + 1)))});
    } else if (is_first) {
      call.first = part;
    }
    is_first = false;
  }
  return call;
}

std::optional<PythonAssignment> python_assignment(std::string_view text) {
  const std::string_view signs = "<>!=:";
  const std::string_view operators = "+-*/|&%@^";
  std::size_t equals = std::string_view::npos;
  std::size_t colon = std::string_view::npos;
  scan(text, [&](std::size_t at, char c, int depth) {
    colon = c == ':' && depth == 0 ? std::min(colon, at) : colon;
    equals = c == '=' && depth == 0 ? at : equals;
    return equals == std::string_view::npos;
  });
  if (equals == std::string_view::npos || equals == 0 || text.substr(equals + 1, 1) == "=" ||
      signs.find(text[equals - 1]) != std::string_view::npos) {
    return std::nullopt;
  }
  PythonAssignment assignment{.value = std::string(stripped(text.substr(equals + 1)))};
  std::string_view target = text.substr(0, std::min(equals, colon));
  while (!target.empty() && operators.find(target.back()) != std::string_view::npos) {
    assignment.is_plain = false;
    target.remove_suffix(1);
  }
  assignment.target = stripped(target);
  return assignment;
}

std::string body_on_the_line(std::string_view text) {
  constexpr std::array<std::string_view, 7> begins = {"if ",    "elif ", "else:", "for ",
                                                      "while ", "with ", "try:"};
  if (std::ranges::none_of(begins,
                           [&](std::string_view begin) { return text.starts_with(begin); })) {
    return "";
  }
  std::size_t colon = text.size();
  scan(text, [&](std::size_t at, char c, int depth) {
    colon = c == ':' && depth == 0 ? at : colon;
    return colon == text.size();
  });
  return std::string(stripped(text.substr(std::min(colon + 1, text.size()))));
}

int open_brackets(std::string_view line) {
  int last = 0;
  scan(line, [&](std::size_t /*at*/, char /*c*/, int depth) {
    last = depth;
    return true;
  });
  return last;
}

std::string without_comment(std::string_view line) {
  std::size_t end = line.size();
  scan(line, [&](std::size_t at, char c, int /*depth*/) {
    end = c == '#' ? at : end;
    return c != '#';
  });
  return std::string(stripped(line.substr(0, end)));
}

void set_python_value(const std::string& path, std::string_view text, DocumentSettings& settings) {
  text = stripped(text);
  if (is_none(text) || unknown_part(text) || literal(text) || literal_list(text)) {
    set_override_value(path, text, settings);
  } else {
    settings[path] = {unknown_value(text)};
  }
}

void set_override_value(const std::string& path, std::string_view text,
                        DocumentSettings& settings) {
  text = stripped(text);
  if (is_none(text)) {
    if (path == "model.q_lora_rank") {
      settings[path] = {"0"};  // queries that are not compressed: the default is another
    } else {
      settings.erase(path);
    }
  } else if (auto values = literal_list(text)) {
    settings[path] = *std::move(values);
  } else {
    settings[path] = {literal(text).value_or(std::string(text))};
  }
}

}  // namespace ptdp
