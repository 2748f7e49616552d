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

/// `value` as a file holds it: with 15 significant digits, so that equal plans are equal bytes.
[[nodiscard]] double as_written(double value);

/// Whether what was read back may have been worked out from other numbers that were, of 15 digits
/// each, as `expected` is.
[[nodiscard]] inline bool is_close(double found, double expected) {
  constexpr double rounding = 1e-9;
  return std::abs(found - expected) <= rounding * std::abs(expected);
}

/// Builds one JSON object; keys keep the order in which they are written. Numbers are rounded to 15
/// significant digits, so that a unit conversion leaves no trace (3.4 us is not 3.4000000000000004)
/// and reading and writing again gives the same bytes. Has the members of ObjectReader.
class ObjectWriter {
 public:
  static constexpr bool kIsReading = false;

  ObjectWriter();
  ObjectWriter(ObjectWriter&&) noexcept;
  ObjectWriter& operator=(ObjectWriter&&) noexcept;
  ObjectWriter(const ObjectWriter&) = delete;
  ObjectWriter& operator=(const ObjectWriter&) = delete;
  ~ObjectWriter();

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
  /// Throws Error(kBug) for NaN and infinities, which JSON cannot hold.
  void number(const std::string& key, double value, const Range& range = {});
  void numbers(const std::string& key, const std::vector<double>& values, const Range& range = {});

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
  template <class Value>
  void object(const std::string& key, const Value& value) {
    part(key, [&value](ObjectWriter& nested) { describe(nested, value); });
  }
  template <class Value>
  void objects(const std::string& key, const std::vector<Value>& values) {
    std::vector<ObjectWriter> nested(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      describe(nested[i], values[i]);
    }
    children(key, std::move(nested));
  }

  template <class DescribeFields>
  void part(const std::string& key, DescribeFields describe_fields) {
    ObjectWriter nested;
    describe_fields(nested);
    child(key, std::move(nested));
  }

  void child(const std::string& key, ObjectWriter nested);
  void children(const std::string& key, std::vector<ObjectWriter> nested);

  /// The object as text, indented by two spaces, ending in a newline.
  [[nodiscard]] std::string dump() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ptdp
