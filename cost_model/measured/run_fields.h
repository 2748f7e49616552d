// A row of a table of measured runs, field by field.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cost_model/text/csv_table.h"
#include "cost_model/units.h"

namespace ptdp {

/// Throws Error where the table lacks a column that every run needs, or has one of an unknown name
/// that looks like one which would change the cost; others are ignored.
void check_columns(const CsvTable& table);

/// Thrown for a row that is well formed but nothing that can be costed.
struct SkipRow {
  std::string reason;
};

/// The fields of one row, by column. Throws SkipRow for what costing needs and the row leaves out,
/// Error naming line and column for what is malformed.
class RunFields {
 public:
  RunFields(const CsvTable& table, std::size_t row) : table_(table), row_(row) {}

  [[nodiscard]] const std::string& text(std::string_view column) const;
  /// Whether the source gives the field. "?" stands for what it is known to leave out.
  [[nodiscard]] bool is_given(std::string_view column) const;
  [[nodiscard]] std::string place_of(std::string_view column) const;
  /// The text, which must be on one line: it is printed in tables.
  [[nodiscard]] const std::string& line(std::string_view column) const;
  /// Text that costing needs.
  [[nodiscard]] const std::string& required_text(std::string_view column) const;
  /// The name of a profile, which a path is not.
  [[nodiscard]] const std::string& profile(std::string_view column) const;
  /// A number that costing needs.
  [[nodiscard]] int count(std::string_view column, std::int64_t low) const;
  /// A number from `otherwise` on, which it is where the source does not say.
  [[nodiscard]] int count_or(std::string_view column, int otherwise) const;
  /// A number that is only checked against others; 0 where the source does not say.
  [[nodiscard]] int check(std::string_view column) const;
  [[nodiscard]] double seconds(std::string_view column) const;
  /// Memory in GiB, as frameworks and nvidia-smi print it; nothing where the source does not say.
  [[nodiscard]] std::optional<Bytes> memory(std::string_view column) const;
  /// "y" or "n"; nothing where the source does not say.
  [[nodiscard]] std::optional<bool> flag(std::string_view column) const;

 private:
  const CsvTable& table_;
  std::size_t row_;
};

}  // namespace ptdp
