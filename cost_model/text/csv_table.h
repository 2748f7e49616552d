// Comma-separated values with a header, read strictly.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ptdp {

/// A table as in RFC 4180: quoted fields may hold commas, doubled quotes and line breaks. Lines end
/// in LF or CRLF; a byte-order mark is ignored.
class CsvTable {
 public:
  /// Throws Error for what read_file refuses (16 MiB), invalid UTF-8, control characters, an
  /// unclosed quote, a repeated or empty column name, a row whose number of fields differs from the
  /// header's, and a table without a header.
  [[nodiscard]] static CsvTable from_file(const std::filesystem::path& path);
  [[nodiscard]] static CsvTable from_text(std::string_view text, const std::string& place);

  [[nodiscard]] std::size_t num_rows() const { return rows_.size(); }
  [[nodiscard]] bool has_column(std::string_view column) const;
  [[nodiscard]] const std::vector<std::string>& columns() const { return columns_; }

  /// The field as it stands; empty where the column is missing and not required.
  [[nodiscard]] const std::string& text(std::size_t row, std::string_view column) const;

  /// The file, for messages.
  [[nodiscard]] const std::string& place() const { return place_; }
  /// `file: line 12: column`, for messages.
  [[nodiscard]] std::string place_of(std::size_t row, std::string_view column) const;

  /// A table of one row for each of `changes`, in their order: `row` with these fields by column in
  /// place of its own. A column that is not there is added, empty where a change does not name it.
  [[nodiscard]] CsvTable variations(
      std::size_t row, const std::vector<std::map<std::string, std::string>>& changes) const;

  /// Throws Error, with near misses, unless every one of `columns` is there.
  void require(const std::vector<std::string>& columns) const;

 private:
  struct Row {
    std::size_t line = 0;
    std::vector<std::string> fields;
  };

  /// Adds a column of a new name behind the others.
  void add_column(const std::string& column);
  /// Returns the place of a column, or the number of columns where none has that name.
  [[nodiscard]] std::size_t index_of(std::string_view column) const;

  std::string place_;
  std::vector<std::string> columns_;
  std::map<std::string, std::size_t, std::less<>> indices_;  ///< Every field is looked up by name.
  std::vector<Row> rows_;
};

/// The whole number that `text` spells, from `low` to `high`. Throws Error at `place`.
[[nodiscard]] std::int64_t parse_count(std::string_view text, std::int64_t low, std::int64_t high,
                                       const std::string& place);
/// The number that `text` spells, from `low` to `high`. Throws Error at `place`.
[[nodiscard]] double parse_number(std::string_view text, double low, double high,
                                  const std::string& place);

}  // namespace ptdp
