#include "planner/import/documents.h"

#include <toml++/toml.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "cost_model/error.h"
#include "cost_model/text/strict_json.h"
#include "planner/import/shell/unknown_value.h"
#include "planner/import/toml_check.h"

namespace ptdp {
namespace {

// Configurations have a few hundred values, three or four keys deep. The bounds end documents that
// name one part again and again.
constexpr std::size_t kMostSettings = 100'000;
constexpr int kDeepestSetting = 32;

/// Collects the values of a document.
class SettingsBuilder {
 public:
  explicit SettingsBuilder(const std::string& place) : place_(place) {}

  void put(const std::string& key, std::vector<std::string> values) {
    count();
    settings_[key] = std::move(values);
  }
  /// Appends to a list.
  void append(const std::string& key, std::string value) {
    count();
    settings_[key].push_back(std::move(value));
  }
  /// Forgets a key and all below it.
  void forget(const std::string& key) {
    settings_.erase(key);
    const std::string below = key + ".";
    auto at = settings_.lower_bound(below);
    while (at != settings_.end() && at->first.starts_with(below)) {
      at = settings_.erase(at);
    }
  }
  /// Begins a part of the document, whether it holds values or not.
  void enter(int depth) {
    count();
    if (depth > kDeepestSetting) {
      throw Error(place_ + ": expected at most " + std::to_string(kDeepestSetting) +
                  " keys within each other");
    }
  }
  [[nodiscard]] DocumentSettings take() { return std::move(settings_); }

 private:
  void count() {
    if (++count_ > kMostSettings) {
      throw Error(place_ + ": expected at most " + std::to_string(kMostSettings) + " values");
    }
  }

  const std::string& place_;
  DocumentSettings settings_;
  std::size_t count_ = 0;
};

std::string below(const std::string& key, const std::string& name) {
  return key.empty() ? name : key + "." + name;
}

/// Returns a plain scalar of YAML 1.1 as PyYAML understands it; nullopt for a null.
std::optional<std::string> plain_scalar(const std::string& word) {
  std::string lower = word;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (lower.empty() || lower == "~" || lower == "null") {
    return std::nullopt;
  }
  if (lower == "true" || lower == "yes" || lower == "on") {
    return "true";
  }
  if (lower == "false" || lower == "no" || lower == "off") {
    return "false";
  }
  return word;
}

std::optional<std::string> yaml_scalar(const YAML::Node& node) {
  const std::string& word = node.Scalar();
  const std::size_t dollar = word.find("${");
  if (dollar != std::string::npos) {
    return unknown_value(word.substr(dollar));
  }
  return node.Tag() == "?" ? plain_scalar(word) : word;  // "?": not in quotes
}

// NOLINTBEGIN(misc-no-recursion): no deeper than kDeepestSetting
void add_yaml(const YAML::Node& node, const std::string& key, int depth, SettingsBuilder& settings);

void add_yaml_list(const YAML::Node& list, const std::string& key, int depth,
                   SettingsBuilder& settings) {
  settings.put(key, {});
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i].IsScalar()) {
      settings.append(key, yaml_scalar(list[i]).value_or("null"));
    } else {
      add_yaml(list[i], below(key, std::to_string(i)), depth + 1, settings);
    }
  }
}

/// Adds the pairs of a map: those that it merges in ("<<: *other"), or its own.
void add_yaml_pairs(const YAML::Node& map, bool merged, const std::string& key, int depth,
                    SettingsBuilder& settings) {
  for (const auto& pair : map) {
    const bool is_merged = pair.first.IsScalar() && pair.first.Scalar() == "<<";
    if (!pair.first.IsScalar() || is_merged != merged) {
      continue;
    }
    if (is_merged) {
      add_yaml(pair.second, key, depth + 1, settings);
    } else {
      const std::string inner = below(key, pair.first.Scalar());
      settings.forget(inner);
      add_yaml(pair.second, inner, depth + 1, settings);
    }
  }
}

void add_yaml(const YAML::Node& node, const std::string& key, int depth,
              SettingsBuilder& settings) {
  settings.enter(depth);
  if (node.IsScalar()) {
    if (auto value = yaml_scalar(node)) {
      settings.put(key, {*std::move(value)});
    }
  } else if (node.IsSequence()) {
    add_yaml_list(node, key, depth, settings);
  } else if (node.IsMap()) {
    // What is merged in comes first: keys of the map itself count more.
    add_yaml_pairs(node, true, key, depth, settings);
    add_yaml_pairs(node, false, key, depth, settings);
  }
}
// NOLINTEND(misc-no-recursion)

std::optional<std::string> toml_scalar(const toml::node& node) {
  if (const auto* text = node.as_string()) {
    return text->get();
  }
  if (const auto* truth = node.as_boolean()) {
    return truth->get() ? "true" : "false";
  }
  if (const auto* number = node.as_integer()) {
    return std::to_string(number->get());
  }
  if (const auto* number = node.as_floating_point()) {
    return nlohmann::json(number->get()).dump();  // the shortest text of that number
  }
  if (node.is_value()) {  // a date or a time
    std::ostringstream out;
    node.visit([&](const auto& value) {
      if constexpr (toml::is_value<decltype(value)>) {
        out << value;
      }
    });
    return out.str();
  }
  return std::nullopt;
}

// NOLINTNEXTLINE(misc-no-recursion): no deeper than kDeepestSetting
void add_toml(const toml::node& node, const std::string& key, int depth,
              SettingsBuilder& settings) {
  settings.enter(depth);
  if (const auto* table = node.as_table()) {
    for (const auto& [name, value] : *table) {
      add_toml(value, below(key, std::string(name.str())), depth + 1, settings);
    }
  } else if (const auto* array = node.as_array()) {
    settings.put(key, {});
    for (std::size_t i = 0; i < array->size(); ++i) {
      if (auto value = toml_scalar((*array)[i])) {
        settings.append(key, *std::move(value));
      } else {
        add_toml((*array)[i], below(key, std::to_string(i)), depth + 1, settings);
      }
    }
  } else if (auto value = toml_scalar(node)) {
    settings.put(key, {*std::move(value)});
  }
}

std::string json_scalar(const nlohmann::json& node) {
  return node.is_string() ? node.get<std::string>() : node.dump();
}

// NOLINTNEXTLINE(misc-no-recursion): no deeper than kDeepestSetting
void add_json(const nlohmann::json& node, const std::string& key, int depth,
              SettingsBuilder& settings) {
  settings.enter(depth);
  if (node.is_object()) {
    for (const auto& [name, value] : node.items()) {
      add_json(value, below(key, name), depth + 1, settings);
    }
  } else if (node.is_array()) {
    settings.put(key, {});
    for (std::size_t i = 0; i < node.size(); ++i) {
      if (node[i].is_structured()) {
        add_json(node[i], below(key, std::to_string(i)), depth + 1, settings);
      } else {
        settings.append(key, json_scalar(node[i]));
      }
    }
  } else if (!node.is_null()) {
    settings.put(key, {json_scalar(node)});
  }
}

[[noreturn]] void fail_at_line(const std::string& place, long line, std::string why) {
  std::replace(why.begin(), why.end(), '\n', ' ');
  throw Error(place + ": line " + std::to_string(line) + ": " + why);
}

}  // namespace

DocumentSettings yaml_settings(std::string_view text, const std::string& place) {
  SettingsBuilder settings(place);
  try {
    const YAML::Node document = YAML::Load(std::string(text));
    if (!document.IsMap()) {
      throw Error(place + ": expected YAML with keys and values");
    }
    add_yaml(document, "", 0, settings);
  } catch (const YAML::Exception& fault) {
    fail_at_line(place, fault.mark.line + 1, "expected YAML, got " + fault.msg);
  }
  return settings.take();
}

DocumentSettings toml_settings(std::string_view text, const std::string& place) {
  check_toml_for_parser(text, place);
  SettingsBuilder settings(place);
  try {
    const toml::table document = toml::parse(text);
    add_toml(document, "", 0, settings);
  } catch (const toml::parse_error& fault) {
    fail_at_line(place, static_cast<long>(fault.source().begin.line),
                 "expected TOML: " + std::string(fault.description()));
  }
  return settings.take();
}

DocumentSettings json_settings(std::string_view text, const std::string& place) {
  check_json(text, place);
  SettingsBuilder settings(place);
  const auto document = nlohmann::json::parse(text);
  if (!document.is_object()) {
    throw Error(place + ": expected a JSON object");
  }
  add_json(document, "", 0, settings);
  return settings.take();
}

}  // namespace ptdp
