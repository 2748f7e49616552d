#include "planner/import/flag_list.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "cost_model/error.h"
#include "cost_model/text/in_quotes.h"
#include "planner/import/shell/unknown_value.h"

namespace ptdp {
namespace {

std::string why_unknown(const std::string& part) {
  if (part.starts_with("${")) {
    return "expected a value, got " + in_quotes(part) + ", which its program fills in";
  }
  const bool is_variable = part.starts_with("$") && !part.starts_with("$(");
  return is_variable ? part.substr(1) + " is not set in the script" : "needs the output of " + part;
}

}  // namespace

bool is_flag(std::string_view word) {
  return word.size() > 2 && word.starts_with("--") &&
         std::isalpha(static_cast<unsigned char>(word[2])) != 0;
}

bool begins_with_any(std::string_view flag, std::span<const std::string_view> beginnings) {
  return std::ranges::any_of(
      beginnings, [&](std::string_view beginning) { return flag.starts_with(beginning); });
}

FlagList::FlagList(const std::vector<std::string>& words, std::string place)
    : place_(std::move(place)) {
  std::string last;
  for (const std::string& word : words) {
    if (is_flag(word)) {
      const std::size_t equals = word.find('=');
      last = word.substr(0, equals);
      flags_[last].clear();
      if (equals != std::string::npos) {
        flags_[last].push_back(word.substr(equals + 1));
      }
    } else if (!last.empty()) {
      flags_[last].push_back(word);
    }
  }
}

bool FlagList::has(std::string_view flag) const {
  read_.emplace(flag);
  return flags_.contains(flag);
}

std::optional<std::vector<std::string>> FlagList::values(std::string_view flag) const {
  if (!has(flag)) {
    return std::nullopt;
  }
  const std::vector<std::string>& values = flags_.find(flag)->second;
  for (const std::string& value : values) {
    if (const auto unknown = unknown_part(value)) {
      refuse(flag, why_unknown(*unknown));
    }
  }
  return values;
}

std::optional<std::string> FlagList::text(std::string_view flag) const {
  const auto list = values(flag);
  if (list && list->size() != 1) {
    refuse(flag, "expected one value, got " + std::to_string(list->size()));
  }
  return list ? std::optional(list->front()) : std::nullopt;
}

std::optional<int> FlagList::count(std::string_view flag, int low) const {
  auto word = text(flag);
  if (!word) {
    return std::nullopt;
  }
  std::string digits = *word;
  std::erase(digits, '_');
  int number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size() || number < low) {
    refuse(flag,
           "expected a whole number from " + std::to_string(low) + ", got " + in_quotes(*word));
  }
  return number;
}

std::optional<double> FlagList::number(std::string_view flag) const {
  const auto word = text(flag);
  if (!word) {
    return std::nullopt;
  }
  double number = 0.0;
  const auto [end, error] = std::from_chars(word->data(), word->data() + word->size(), number);
  if (error != std::errc() || end != word->data() + word->size()) {
    refuse(flag, "expected a number, got " + in_quotes(*word));
  }
  return number;
}

std::optional<bool> FlagList::truth(std::string_view key) const {
  const auto word = text(key);
  if (!word) {
    return std::nullopt;
  }
  if (*word == "true" || *word == "True") {
    return true;
  }
  if (*word != "false" && *word != "False") {
    refuse(key, "expected true or false, got " + in_quotes(*word));
  }
  return false;
}

void FlagList::refuse(std::string_view flag, const std::string& why) const {
  throw Error(place_ + ": " + std::string(flag) + ": " + why);
}

std::vector<std::string> FlagList::unread() const {
  std::vector<std::string> names;
  for (const auto& [name, values] : flags_) {
    if (!read_.contains(name)) {
      names.push_back(name);
    }
  }
  return names;
}

}  // namespace ptdp
