// Strict reading of JSON: every error names the file, the key, the value found and what was
// expected.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cost_model/text/described.h"
#include "cost_model/text/named_values.h"
#include "cost_model/units.h"

namespace ptdp {

/// Bounds of a number, both inclusive. An error message ends in `hint`, which says which unit is
/// meant.
struct Range {
  double low = 0.0;
  double high = 0.0;
  std::string_view hint = {};
};
/// Bounds of latencies and of launch costs [us].
inline constexpr Range kLatencyRange = {0.0, 1e6, "microseconds"};

/// Reads one JSON object, key by key. A key that nobody asked for is an error (finish()), so that a
/// typo never becomes a default. Duplicate keys, NaN, fractions for counts and text with control
/// characters are errors too. Members that read a value throw Error if the key is missing or its
/// value malformed.
///
/// ObjectReader and ObjectWriter have the same members, so that one function template describes
/// the fields of a struct for both directions.
class ObjectReader {
 public:
  static constexpr bool kIsReading = true;

  /// Reads a JSON object from a file. Throws Error for what read_file() and check_json() refuse,
  /// and for JSON other than an object.
  [[nodiscard]] static ObjectReader from_file(const std::filesystem::path& path);
  /// Reads a JSON object from text; `place` stands for the file's name in messages. Throws Error
  /// for what check_json() refuses, and for JSON other than an object.
  [[nodiscard]] static ObjectReader from_text(std::string_view text, const std::string& place);
  /// Reads a JSON object from text that check_json() accepts, which is not checked again. Throws
  /// Error for JSON other than an object.
  [[nodiscard]] static ObjectReader from_checked_text(std::string_view text,
                                                      const std::string& place);

  ObjectReader(ObjectReader&&) noexcept;
  ObjectReader& operator=(ObjectReader&&) noexcept;
  ObjectReader(const ObjectReader&) = delete;
  ObjectReader& operator=(const ObjectReader&) = delete;
  ~ObjectReader();

  /// Returns whether the key is there; for keys that may be left out. Counts as asking for the key.
  [[nodiscard]] bool has(const std::string& key);
  /// Returns whether the key is there and its value is not null.
  [[nodiscard]] bool has_value(const std::string& key);
  /// Returns whether the key is there. ObjectWriter's member of that name returns `written`, so
  /// that one function template can read and write a key that may be left out.
  [[nodiscard]] bool optional(const std::string& key, bool /*written*/) { return has(key); }
  /// Returns whether the value is a string; for keys that take a name or an object.
  [[nodiscard]] bool is_text(const std::string& key);

  /// Throws Error that names all of `keys` which are missing at once; its message ends in `advice`.
  void require(const std::vector<std::string>& keys, const std::string& advice = "");

  /// Reads the key "schema". Throws Error, whose message ends in `advice`, unless it is `expected`.
  void schema(const std::string& expected, const std::string& advice = "");
  /// Reads printable text that is not empty.
  void text(const std::string& key, std::string& value);
  /// Reads an array of printable texts, none of them empty.
  void texts(const std::string& key, std::vector<std::string>& values);
  /// Reads a word of letters, digits and `._+-` that does not begin with a dot: it is safe as part
  /// of a file name.
  void name(const std::string& key, std::string& value);
  /// Reads true or false.
  void flag(const std::string& key, bool& value);
  /// Reads a whole number from `low` to `high`, and at most the largest int.
  void count(const std::string& key, int& value, std::int64_t low, std::int64_t high);
  /// Reads a whole number from `low` to `high`.
  void count(const std::string& key, std::int64_t& value, std::int64_t low, std::int64_t high);
  /// Reads an array of whole numbers, each from `low` to `high`, which must fit an int.
  void counts(const std::string& key, std::vector<int>& values, std::int64_t low,
              std::int64_t high);
  /// Reads a number within `range`.
  void number(const std::string& key, double& value, const Range& range);
  /// Reads a number that ObjectWriter does not round.
  void exact_number(const std::string& key, double& value, const Range& range) {
    number(key, value, range);
  }
  /// Reads an array of numbers, each within `range`.
  void numbers(const std::string& key, std::vector<double>& values, const Range& range);
  /// Reads an array of numbers that ObjectWriter does not round.
  void exact_numbers(const std::string& key, std::vector<double>& values, const Range& range) {
    numbers(key, values, range);
  }

  /// Reads a quantity from a number in the unit that the key's name ends in. `unit` is that unit in
  /// base units; `range` bounds the number.
  template <class Tag>
  void quantity(const std::string& key, Quantity<Tag>& value, double unit, const Range& range) {
    double in_unit = 0.0;
    number(key, in_unit, range);
    value = Quantity<Tag>(in_unit * unit);
  }
  /// Reads an enumerator by one of its names.
  template <class Value>
  void choice(const std::string& key, Value& value, NamedValues<Value> names) {
    value = names[choice_index(key, names_of(names))].value;
  }
  /// Reads an array of enumerators by their names.
  template <class Value>
  void choices(const std::string& key, std::vector<Value>& values, NamedValues<Value> names) {
    values.clear();
    for (const std::size_t index : choice_indices(key, names_of(names))) {
      values.push_back(names[index].value);
    }
  }
  /// Reads a nested object with `describe(reader, value)`, found by argument-dependent lookup.
  template <class Value>
  void object(const std::string& key, Value& value) {
    part(key, [&value](ObjectReader& nested) { describe(nested, value); });
  }
  /// Reads an array of objects, each with `describe(reader, value)`.
  template <class Value>
  void objects(const std::string& key, std::vector<Value>& values) {
    values.clear();
    for (ObjectReader& nested : children(key)) {
      describe(nested, values.emplace_back());
      nested.finish();
    }
  }

  /// Reads a nested object without a type of its own: `describe_fields(nested)` reads its fields.
  template <class DescribeFields>
  void part(const std::string& key, DescribeFields describe_fields) {
    ObjectReader nested = child(key);
    describe_fields(nested);
    nested.finish();
  }

  /// Returns a reader of the nested object at `key`. Call its finish() after the last key.
  [[nodiscard]] ObjectReader child(const std::string& key);
  /// Returns readers of the objects in the array at `key`. Call each one's finish() after its last
  /// key.
  [[nodiscard]] std::vector<ObjectReader> children(const std::string& key);

  /// Throws Error, with near misses, when the object has a key that nobody asked for.
  void finish() const;
  /// Returns where keys stand that nobody asked for and that `may_be_unknown` takes. Throws Error,
  /// as finish() does, for any other, and for one that is a near miss of a key asked for.
  [[nodiscard]] std::vector<std::string> finish_but_for(
      const std::function<bool(const std::string& key)>& may_be_unknown) const;

  /// Returns where the object stands, for messages: `file`, or `file: key.key` of a nested object.
  [[nodiscard]] std::string place() const;
  /// Returns where a key stands, `file: key.key`, for messages about a value that is well formed
  /// but cannot be right.
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
