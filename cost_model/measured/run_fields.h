// Reads a row of a table of measured runs, field by field.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cost_model/text/csv_table.h"
#include "cost_model/units.h"

namespace ptdp {

/// The range of measured memory that a run may have [GiB].
inline constexpr double kLeastMemory = 1e-3;
inline constexpr double kMostMemory = 1e5;

/// Checks the columns of a table of measured runs. Throws Error if it lacks a column that every run
/// needs, or if an unknown name looks like a column that would change the cost. Other unknown
/// columns are ignored.
void check_columns(const CsvTable& table);

/// Thrown for a row that is well formed but cannot be costed.
struct SkipRow {
  std::string reason;
};

/// Reads the fields of one row by column; does not own the table. Members throw SkipRow for a field
/// that costing needs and the row leaves out. They throw Error, naming line and column, for a
/// malformed field.
class RunFields {
 public:
  RunFields(const CsvTable& table, std::size_t row) : table_(table), row_(row) {}

  /// Returns the field as it stands; empty if the table has no such column.
  [[nodiscard]] std::string text(std::string_view column) const;
  /// Returns whether the field is not empty. Throws SkipRow for "?", which stands for what the
  /// source is known to leave out.
  [[nodiscard]] bool is_given(std::string_view column) const;
  /// Returns where the field stands, for messages: `file: line 12: column`.
  [[nodiscard]] std::string place_of(std::string_view column) const;
  /// Returns the field's text, which must have no control characters: it is printed in tables.
  [[nodiscard]] std::string line(std::string_view column) const;
  /// Returns the text of a field that costing needs.
  [[nodiscard]] std::string required_text(std::string_view column) const;
  /// Returns the name of a profile. Throws SkipRow for a path.
  [[nodiscard]] std::string profile(std::string_view column) const;
  /// Returns a whole number from `low` to 10^9 that costing needs.
  [[nodiscard]] int count(std::string_view column, std::int64_t low) const;
  /// Returns a whole number from `otherwise` to 10^9, or `otherwise` if the field is empty.
  [[nodiscard]] int count_or(std::string_view column, int otherwise) const;
  /// Returns a whole number that is only checked against others; 0 if the field is empty or "?".
  [[nodiscard]] int check(std::string_view column) const;
  /// Returns a time [s] that costing needs, from 1e-6 to 1e6.
  [[nodiscard]] double seconds(std::string_view column) const;
  /// Returns a rate that costing needs, from 1e-6 to 1e9.
  [[nodiscard]] double rate(std::string_view column) const;
  /// Returns memory, which the field gives in GiB as frameworks and nvidia-smi print it; nullopt if
  /// the field is empty or "?".
  [[nodiscard]] std::optional<Bytes> memory(std::string_view column) const;
  /// Returns whether the field is "y" and not "n"; nullopt if it is empty.
  [[nodiscard]] std::optional<bool> flag(std::string_view column) const;

 private:
  const CsvTable& table_;
  std::size_t row_;
};

}  // namespace ptdp
