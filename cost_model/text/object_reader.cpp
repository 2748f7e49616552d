#include "cost_model/text/object_reader.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>
#include <utility>

#include "cost_model/error.h"
#include "cost_model/text/did_you_mean.h"
#include "cost_model/text/files.h"
#include "cost_model/text/in_quotes.h"
#include "cost_model/text/strict_json.h"

namespace ptdp {
namespace {

using nlohmann::json;

constexpr std::size_t kLongestShownValue = 60;

/// Returns a value as it stands in the file, cut after 60 bytes for messages.
std::string shown(const json& value) {
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > kLongestShownValue) {
    text = text.substr(0, kLongestShownValue) + "...";
  }
  return text;
}

/// Returns whether `text` is not empty and holds no control characters: those of ASCII and, in
/// UTF-8, U+0080 to U+009F.
bool is_printable(const std::string& text) {
  unsigned char before = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F || (before == 0xC2 && byte <= 0x9F)) {
      return false;
    }
    before = byte;
  }
  return !text.empty();
}

bool is_name(const std::string& text) {
  return !text.empty() && text.front() != '.' && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '+' || c == '-';
  });
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "" : ", ") + name;
  }
  return text;
}

std::string number_text(double value) {
  return json(value).dump();
}

}  // namespace

struct ObjectReader::State {
  std::shared_ptr<const json> document;  // keeps `object` alive
  const json* object = nullptr;
  std::string file;
  std::string path;  // keys from the root, each ending in a dot
  std::unordered_set<std::string> asked = {};

  /// Returns the value of a key. Throws Error, with a hint at a near miss, if the key is missing.
  const json& at(const std::string& key) {
    asked.insert(key);
    const auto found = object->find(key);
    if (found == object->end()) {
      throw Error(place_of(key) + ": missing" + misspelt(key));
    }
    return *found;
  }
  /// Returns a hint at a key that is there, was not asked for and looks like `key`; empty if none.
  [[nodiscard]] std::string misspelt(const std::string& key) const {
    std::vector<std::string> others;
    for (const auto& item : object->items()) {
      if (!asked.contains(item.key())) {
        others.push_back(item.key());
      }
    }
    const std::optional<std::string> other = nearest(key, others);
    return other.has_value() ? "; there is " + in_quotes(*other) : "";
  }
  [[nodiscard]] std::string place_of(const std::string& key) const {
    return file + ": " + path + key;
  }
  [[noreturn]] void refuse(const std::string& key, const std::string& expected,
                           const json& value) const {
    throw Error(place_of(key) + ": expected " + expected + ", got " + shown(value));
  }
  [[nodiscard]] std::int64_t integer(const std::string& key, const json& value, std::int64_t low,
                                     std::int64_t high) const {
    const std::string expected =
        "a whole number from " + std::to_string(low) + " to " + std::to_string(high);
    const auto greatest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (!value.is_number_integer() ||
        (value.is_number_unsigned() && value.get<std::uint64_t>() > greatest)) {
      refuse(key, expected, value);
    }
    const auto found = value.get<std::int64_t>();
    if (found < low || found > high) {
      refuse(key, expected, value);
    }
    return found;
  }
  [[nodiscard]] double number(const std::string& key, const json& value, const Range& range) const {
    const bool is_within =
        value.is_number() && value.get<double>() >= range.low && value.get<double>() <= range.high;
    if (!is_within || std::fpclassify(value.get<double>()) == FP_SUBNORMAL) {
      refuse(key,
             "a number from " + number_text(range.low) + " to " + number_text(range.high) +
                 (range.hint.empty() ? "" : " (" + std::string(range.hint) + ")"),
             value);
    }
    return value.get<double>();
  }
  [[nodiscard]] const json& array(const std::string& key) {
    const json& value = at(key);
    if (!value.is_array()) {
      refuse(key, "an array", value);
    }
    return value;
  }
  [[nodiscard]] std::size_t index_of(const std::string& key, const json& value,
                                     const std::vector<std::string>& names) const {
    const auto found = value.is_string() ? std::find(names.begin(), names.end(),
                                                     value.get_ref<const std::string&>())
                                         : names.end();
    if (found == names.end()) {
      refuse(key, "one of " + listed(names), value);
    }
    return static_cast<std::size_t>(found - names.begin());
  }
  [[nodiscard]] std::unique_ptr<State> nested(const std::string& key, const json& value,
                                              const std::string& suffix) const {
    if (!value.is_object()) {
      refuse(key + suffix, "an object", value);
    }
    return std::make_unique<State>(State{
        .document = document, .object = &value, .file = file, .path = path + key + suffix + "."});
  }
};

ObjectReader::ObjectReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
ObjectReader::ObjectReader(ObjectReader&&) noexcept = default;
ObjectReader& ObjectReader::operator=(ObjectReader&&) noexcept = default;
ObjectReader::~ObjectReader() = default;

ObjectReader ObjectReader::from_file(const std::filesystem::path& path) {
  return from_text(read_file(path), path.string());
}

ObjectReader ObjectReader::from_text(std::string_view text, const std::string& place) {
  check_json(text, place);
  return from_checked_text(text, place);
}

ObjectReader ObjectReader::from_checked_text(std::string_view text, const std::string& place) {
  const auto document = std::make_shared<const json>(json::parse(text));
  if (!document->is_object()) {
    throw Error(place + ": expected a JSON object, got " + shown(*document));
  }
  return ObjectReader(std::make_unique<State>(
      State{.document = document, .object = document.get(), .file = place, .path = ""}));
}

bool ObjectReader::has(const std::string& key) {
  state_->asked.insert(key);
  return state_->object->contains(key);
}

void ObjectReader::require(const std::vector<std::string>& keys, const std::string& advice) {
  std::vector<std::string> missing;
  std::copy_if(keys.begin(), keys.end(), std::back_inserter(missing),
               [&](const std::string& key) { return !has(key); });
  if (missing.empty()) {
    return;
  }
  std::string all;
  for (const std::string& key : missing) {
    all += (all.empty() ? "" : ", ") + state_->path + key;
  }
  throw Error(state_->file + ": " + all + ": missing" + state_->misspelt(missing.front()) +
              (advice.empty() ? "" : "; " + advice));
}

bool ObjectReader::has_value(const std::string& key) {
  return has(key) && !state_->at(key).is_null();
}

bool ObjectReader::is_text(const std::string& key) {
  return state_->at(key).is_string();
}

void ObjectReader::schema(const std::string& expected, const std::string& advice) {
  std::string found;
  text("schema", found);
  if (found != expected) {
    throw Error(place_of("schema") + ": expected \"" + expected + "\", got " + in_quotes(found) +
                advice);
  }
}

void ObjectReader::text(const std::string& key, std::string& value) {
  const json& found = state_->at(key);
  if (!found.is_string() || !is_printable(found.get_ref<const std::string&>())) {
    state_->refuse(key, "printable text", found);
  }
  value = found.get<std::string>();
}

void ObjectReader::texts(const std::string& key, std::vector<std::string>& values) {
  values.clear();
  for (const json& item : state_->array(key)) {
    if (!item.is_string() || !is_printable(item.get_ref<const std::string&>())) {
      state_->refuse(key, "printable texts", item);
    }
    values.push_back(item.get<std::string>());
  }
}

void ObjectReader::name(const std::string& key, std::string& value) {
  const json& found = state_->at(key);
  if (!found.is_string() || !is_name(found.get_ref<const std::string&>())) {
    state_->refuse(key, "a name of letters, digits and . _ + -", found);
  }
  value = found.get<std::string>();
}

void ObjectReader::flag(const std::string& key, bool& value) {
  const json& found = state_->at(key);
  if (!found.is_boolean()) {
    state_->refuse(key, "true or false", found);
  }
  value = found.get<bool>();
}

void ObjectReader::count(const std::string& key, int& value, std::int64_t low, std::int64_t high) {
  std::int64_t found = 0;
  count(key, found, low, std::min<std::int64_t>(high, std::numeric_limits<int>::max()));
  value = static_cast<int>(found);
}

void ObjectReader::count(const std::string& key, std::int64_t& value, std::int64_t low,
                         std::int64_t high) {
  value = state_->integer(key, state_->at(key), low, high);
}

void ObjectReader::counts(const std::string& key, std::vector<int>& values, std::int64_t low,
                          std::int64_t high) {
  values.clear();
  for (const json& item : state_->array(key)) {
    values.push_back(static_cast<int>(state_->integer(key, item, low, high)));
  }
}

void ObjectReader::number(const std::string& key, double& value, const Range& range) {
  value = state_->number(key, state_->at(key), range);
}

void ObjectReader::numbers(const std::string& key, std::vector<double>& values,
                           const Range& range) {
  values.clear();
  for (const json& item : state_->array(key)) {
    values.push_back(state_->number(key, item, range));
  }
}

std::size_t ObjectReader::choice_index(const std::string& key,
                                       const std::vector<std::string>& names) {
  return state_->index_of(key, state_->at(key), names);
}

std::vector<std::size_t> ObjectReader::choice_indices(const std::string& key,
                                                      const std::vector<std::string>& names) {
  std::vector<std::size_t> indices;
  for (const json& item : state_->array(key)) {
    indices.push_back(state_->index_of(key, item, names));
  }
  return indices;
}

ObjectReader ObjectReader::child(const std::string& key) {
  return ObjectReader(state_->nested(key, state_->at(key), ""));
}

std::vector<ObjectReader> ObjectReader::children(const std::string& key) {
  std::vector<ObjectReader> readers;
  for (const json& item : state_->array(key)) {
    readers.push_back(
        ObjectReader(state_->nested(key, item, "[" + std::to_string(readers.size()) + "]")));
  }
  return readers;
}

void ObjectReader::finish() const {
  static_cast<void>(finish_but_for([](const std::string& /*key*/) { return false; }));
}

std::vector<std::string> ObjectReader::finish_but_for(
    const std::function<bool(const std::string& key)>& may_be_unknown) const {
  std::vector<std::string> unknown;
  for (const auto& item : state_->object->items()) {
    if (state_->asked.contains(item.key())) {
      continue;
    }
    std::vector<std::string> known(state_->asked.begin(), state_->asked.end());
    std::ranges::sort(known);
    const std::string near = did_you_mean(item.key(), known);
    std::string place = place_of(shown(item.key()));
    if (!near.empty() || !may_be_unknown(item.key())) {
      throw Error(place.append(": unknown key").append(near));
    }
    unknown.push_back(std::move(place));
  }
  return unknown;
}

std::string ObjectReader::place() const {
  const std::string& path = state_->path;
  return path.empty() ? state_->file
                      : state_->file + ": " + path.substr(0, path.size() - 1);  // ends in a dot
}

std::string ObjectReader::place_of(const std::string& key) const {
  return state_->place_of(key);
}

}  // namespace ptdp
