// Writing of JSON with stable key order and numbers that read back as they were.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cost_model/text/described.h"
#include "cost_model/text/named_values.h"
#include "cost_model/text/object_reader.h"
#include "cost_model/units.h"

namespace ptdp {

/// Returns `value` as a file holds it, rounded to 15 significant digits: equal plans are equal
/// bytes.
[[nodiscard]] double as_written(double value);

/// Returns whether two numbers agree up to what rounding to 15 digits can cause. `found` was read
/// from a file; `expected` was computed from other numbers of the file.
[[nodiscard]] inline bool is_close(double found, double expected) {
  constexpr double rounding = 1e-9;
  return std::abs(found - expected) <= rounding * std::abs(expected);
}

/// Builds one JSON object, with keys in the order in which they are written. Numbers are rounded to
/// 15 significant digits, so that a unit conversion leaves no trace (3.4 us, not
/// 3.4000000000000004). Exact numbers are not.
/// Reading and writing again gives the same bytes.
///
/// ObjectWriter and ObjectReader have the same members, so that one function template describes the
/// fields of a struct for both directions. Bounds and advice, which only a reader needs, are
/// ignored.
class ObjectWriter {
 public:
  static constexpr bool kIsReading = false;

  ObjectWriter();
  ObjectWriter(ObjectWriter&&) noexcept;
  ObjectWriter& operator=(ObjectWriter&&) noexcept;
  ObjectWriter(const ObjectWriter&) = delete;
  ObjectWriter& operator=(const ObjectWriter&) = delete;
  ~ObjectWriter();

  /// Returns `written`: whether a key that may be left out is to be written.
  [[nodiscard]] static bool optional(const std::string& /*key*/, bool written) { return written; }

  void schema(const std::string& schema, const std::string& /*advice*/ = "") {
    text("schema", schema);
  }
  void text(const std::string& key, const std::string& value);
  void name(const std::string& key, const std::string& value) { text(key, value); }
  void texts(const std::string& key, const std::vector<std::string>& values);
  void flag(const std::string& key, bool value);
  void count(const std::string& key, std::int64_t value, std::int64_t low = 0,
             std::int64_t high = 0);
  void counts(const std::string& key, const std::vector<int>& values, std::int64_t low = 0,
              std::int64_t high = 0);
  /// Writes a number. Throws Error(kBug) for NaN and infinities, which JSON cannot hold.
  void number(const std::string& key, double value, const Range& range = {});
  /// Writes a number that is read back to the last bit: one that no unit was converted for. Throws
  /// Error(kBug) for NaN and infinities.
  void exact_number(const std::string& key, double value, const Range& range = {});
  /// Writes an array of numbers that are read back to the last bit, as exact_number() does.
  void exact_numbers(const std::string& key, const std::vector<double>& values,
                     const Range& range = {});
  /// Writes an array of numbers. Throws Error(kBug) for NaN and infinities.
  void numbers(const std::string& key, const std::vector<double>& values, const Range& range = {});

  /// Writes a quantity as a number of `unit`, which is given in base units.
  template <class Tag>
  void quantity(const std::string& key, Quantity<Tag> value, double unit,
                const Range& /*range*/ = {}) {
    number(key, value.value() / unit);
  }
  template <class Value>
  void choice(const std::string& key, Value value, NamedValues<Value> names) {
    text(key, std::string(name_of(value, names)));
  }
  template <class Value>
  void choices(const std::string& key, const std::vector<Value>& values, NamedValues<Value> names) {
    std::vector<std::string> written;
    written.reserve(values.size());
    for (const Value value : values) {
      written.emplace_back(name_of(value, names));
    }
    texts(key, written);
  }
  /// Writes a nested object with `describe(writer, value)`, found by argument-dependent lookup.
  template <class Value>
  void object(const std::string& key, const Value& value) {
    part(key, [&value](ObjectWriter& nested) { describe(nested, value); });
  }
  /// Writes an array of objects, each with `describe(writer, value)`.
  template <class Value>
  void objects(const std::string& key, const std::vector<Value>& values) {
    std::vector<ObjectWriter> nested(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      describe(nested[i], values[i]);
    }
    children(key, std::move(nested));
  }

  /// Writes a nested object without a type of its own: `describe_fields(nested)` writes its fields.
  template <class DescribeFields>
  void part(const std::string& key, DescribeFields describe_fields) {
    ObjectWriter nested;
    describe_fields(nested);
    child(key, std::move(nested));
  }

  /// Puts a finished object at `key`.
  void child(const std::string& key, ObjectWriter nested);
  /// Puts an array of finished objects at `key`.
  void children(const std::string& key, std::vector<ObjectWriter> nested);

  /// Returns the object as text, indented by two spaces, ending in a newline.
  [[nodiscard]] std::string dump() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ptdp
