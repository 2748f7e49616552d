// Comma-separated values with a header, read strictly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ptdp {

/// Largest file of a table that is read [B].
inline constexpr std::size_t kLargestTable = std::size_t{16} * 1024 * 1024;

/// A table as in RFC 4180: quoted fields may hold commas, doubled quotes and line breaks. Lines end
/// in LF or CRLF. A byte-order mark and empty lines are ignored.
class CsvTable {
 public:
  /// Reads a table from a file of at most kLargestTable bytes. Throws Error for what read_file()
  /// and from_text() refuse.
  [[nodiscard]] static CsvTable from_file(const std::filesystem::path& path);
  /// Reads a table from text of at most kLargestTable bytes; `place` stands for the file's name in
  /// messages. Throws Error for invalid UTF-8, control characters, an unclosed quote and more than
  /// 1000 columns. A repeated or empty column name, a row with more or fewer fields than the
  /// header, and a missing header are errors too.
  [[nodiscard]] static CsvTable from_text(std::string_view text, const std::string& place);

  [[nodiscard]] std::size_t num_rows() const { return lines_.size(); }
  [[nodiscard]] bool has_column(std::string_view column) const;
  [[nodiscard]] const std::vector<std::string>& columns() const { return columns_; }

  /// Returns a field as it stands; empty if the table has no such column.
  [[nodiscard]] std::string text(std::size_t row, std::string_view column) const {
    return std::string(view(row, index_of(column)));
  }
  /// Returns the index of a column, or the number of columns if none has that name.
  [[nodiscard]] std::size_t index_of(std::string_view column) const;
  /// Returns the field of the column with an index, as long as the table is there; empty if there
  /// is no such column.
  [[nodiscard]] std::string_view view(std::size_t row, std::size_t index) const;

  /// Returns the file's name, for messages.
  [[nodiscard]] const std::string& place() const { return place_; }
  /// Returns where a field stands, for messages: `file: line 12: column`.
  [[nodiscard]] std::string place_of(std::size_t row, std::string_view column) const;

  /// Returns a table with one row per change: `row` with the fields of that change, by column, in
  /// place of its own. Columns that the table lacks are added; they are empty in rows whose change
  /// does not name them.
  [[nodiscard]] CsvTable variations(
      std::size_t row, const std::vector<std::map<std::string, std::string>>& changes) const;

  /// Throws Error, with near misses, unless every one of `columns` is there.
  void require(const std::vector<std::string>& columns) const;

 private:
  class Splitter;
  /// Hashes names of columns, by which views find them.
  struct ColumnHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view column) const {
      return std::hash<std::string_view>()(column);
    }
  };

  /// Adds a column, whose name no other has, behind the others.
  void add_column(const std::string& column);
  /// Reads the names of columns. Throws Error for one that is empty or there twice.
  void read_header(Splitter& splitter);

  std::string place_;
  std::vector<std::string> columns_;
  /// Index of a column by its name.
  std::unordered_map<std::string, std::size_t, ColumnHash, std::equal_to<>> indices_;
  // A string for each field takes most of the time that a start of ptdp-plan spends on tables.
  std::string fields_;               ///< The fields of all rows, one behind the other.
  std::vector<std::uint32_t> ends_;  ///< Where each field ends in `fields_`, row by row.
  std::vector<std::size_t> lines_;   ///< The line on which each row begins.
};

/// Returns the whole number that `text` spells; nullopt if it spells none, or one outside `low` …
/// `high`.
[[nodiscard]] std::optional<std::int64_t> find_count(std::string_view text, std::int64_t low,
                                                     std::int64_t high);
/// Returns the whole number that `text` spells. Throws Error at `place` if it spells none, or one
/// outside `low` … `high`.
[[nodiscard]] std::int64_t parse_count(std::string_view text, std::int64_t low, std::int64_t high,
                                       const std::string& place);
/// Returns the finite number that `text` spells; nullopt if it spells none, or one outside `low` …
/// `high`.
[[nodiscard]] std::optional<double> find_number(std::string_view text, double low, double high);
/// Returns the finite number that `text` spells. Throws Error at `place` if it spells none, or one
/// outside `low` … `high`.
[[nodiscard]] double parse_number(std::string_view text, double low, double high,
                                  const std::string& place);

}  // namespace ptdp
