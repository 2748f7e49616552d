// Strict reading of JSON: every error names the file, the key, the value found and the one
// expected.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cost_model/text/described.h"
#include "cost_model/text/named_values.h"
#include "cost_model/units.h"

namespace ptdp {

/// Bounds of a number, both inclusive. `hint` ends the error message and says which unit is meant.
struct Range {
  double low = 0.0;
  double high = 0.0;
  std::string_view hint = {};
};
/// Of a latency or of what a launch costs.
inline constexpr Range kLatencyRange = {0.0, 1e6, "microseconds"};

/// Reads one JSON object, key by key. A key that nobody asked for is an error (finish()), so that a
/// typo never becomes a default; so are duplicate keys, NaN, fractions where a count is expected,
/// and text with control characters.
///
/// ObjectReader and ObjectWriter have the same members, so that one function template describes
/// the fields of a struct for both directions.
class ObjectReader {
 public:
  static constexpr bool kIsReading = true;

  /// Throws Error for what read_file refuses, text that is not one JSON object, nesting deeper than
  /// 64 and more than 500,000 values.
  [[nodiscard]] static ObjectReader from_file(const std::filesystem::path& path);
  /// `place` stands for the file name in messages.
  [[nodiscard]] static ObjectReader from_text(std::string_view text, const std::string& place);

  ObjectReader(ObjectReader&&) noexcept;
  ObjectReader& operator=(ObjectReader&&) noexcept;
  ObjectReader(const ObjectReader&) = delete;
  ObjectReader& operator=(const ObjectReader&) = delete;
  ~ObjectReader();

  /// Whether the key is there: for keys that may be left out.
  [[nodiscard]] bool has(const std::string& key);
  /// The same, where null is as good as nothing.
  [[nodiscard]] bool has_value(const std::string& key);
  /// Same for function templates that also write, where `written` decides.
  [[nodiscard]] bool optional(const std::string& key, bool /*written*/) { return has(key); }
  /// Whether the value is a string: for keys that take a name or an object.
  [[nodiscard]] bool is_text(const std::string& key);

  /// The key "schema". Throws Error, which ends in `advice`, unless it is `expected`.
  void schema(const std::string& expected, const std::string& advice = "");
  /// Printable text, not empty.
  void text(const std::string& key, std::string& value);
  void texts(const std::string& key, std::vector<std::string>& values);
  /// A word of letters, digits and `._+-`: safe as part of a file name.
  void name(const std::string& key, std::string& value);
  void flag(const std::string& key, bool& value);
  void count(const std::string& key, int& value, std::int64_t low, std::int64_t high);
  void count(const std::string& key, std::int64_t& value, std::int64_t low, std::int64_t high);
  void counts(const std::string& key, std::vector<int>& values, std::int64_t low,
              std::int64_t high);
  void number(const std::string& key, double& value, const Range& range);
  void numbers(const std::string& key, std::vector<double>& values, const Range& range);

  /// A number in the unit that the key's name ends in; `unit` is that unit in base units.
  template <class Tag>
  void quantity(const std::string& key, Quantity<Tag>& value, double unit, const Range& range) {
    double in_unit = 0.0;
    number(key, in_unit, range);
    value = Quantity<Tag>(in_unit * unit);
  }
  template <class Value>
  void choice(const std::string& key, Value& value, NamedValues<Value> names) {
    value = names[choice_index(key, names_of(names))].value;
  }
  template <class Value>
  void choices(const std::string& key, std::vector<Value>& values, NamedValues<Value> names) {
    values.clear();
    for (const std::size_t index : choice_indices(key, names_of(names))) {
      values.push_back(names[index].value);
    }
  }
  /// A nested object, described by `describe(reader, value)`, found by argument-dependent lookup.
  template <class Value>
  void object(const std::string& key, Value& value) {
    part(key, [&value](ObjectReader& nested) { describe(nested, value); });
  }
  template <class Value>
  void objects(const std::string& key, std::vector<Value>& values) {
    values.clear();
    for (ObjectReader& nested : children(key)) {
      describe(nested, values.emplace_back());
      nested.finish();
    }
  }

  /// A nested object without a type of its own: `describe_fields(nested)` describes its fields.
  template <class DescribeFields>
  void part(const std::string& key, DescribeFields describe_fields) {
    ObjectReader nested = child(key);
    describe_fields(nested);
    nested.finish();
  }

  [[nodiscard]] ObjectReader child(const std::string& key);
  [[nodiscard]] std::vector<ObjectReader> children(const std::string& key);

  /// Throws Error, with near misses, when the object has a key that nobody asked for.
  void finish() const;

  /// The object's own: `file`, or `file: key.key`.
  [[nodiscard]] std::string place() const;
  /// `file: key.key`, for messages about a value that is well formed but cannot be.
  [[nodiscard]] std::string place_of(const std::string& key) const;

 private:
  struct State;
  explicit ObjectReader(std::unique_ptr<State> state);
  [[nodiscard]] std::size_t choice_index(const std::string& key,
                                         const std::vector<std::string>& names);
  [[nodiscard]] std::vector<std::size_t> choice_indices(const std::string& key,
                                                        const std::vector<std::string>& names);

  std::unique_ptr<State> state_;
};

}  // namespace ptdp
