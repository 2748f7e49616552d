// Writing of CSV tables out of columns, each with a name and what it says of a row.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace ptdp {

/// A column of a table of `Row`s: `cell` returns the column's text for a row.
template <class Row>
struct CsvColumn {
  std::string name;
  std::function<std::string(const Row&)> cell;
};

/// Returns `text` as a field of RFC 4180: in quotes if it has a blank, comma, quote or line break.
[[nodiscard]] inline std::string csv_field(const std::string& text) {
  if (text.find_first_of(" ,\"\r\n") == std::string::npos) {
    return text;
  }
  std::string field = "\"";
  for (const char c : text) {
    field += c == '"' ? "\"\"" : std::string(1, c);
  }
  return field + '"';
}

/// Returns a table as CSV text: a header, then a line for each of `rows`, all ending in a newline.
template <class Row>
[[nodiscard]] std::string csv_text(const std::vector<CsvColumn<Row>>& columns,
                                   const std::vector<Row>& rows) {
  std::string text;
  const auto add_line = [&](const auto& field_of) {
    for (const CsvColumn<Row>& column : columns) {
      text += &column == &columns.front() ? "" : ",";
      text += csv_field(field_of(column));
    }
    text += '\n';
  };
  add_line([](const CsvColumn<Row>& column) { return column.name; });
  for (const Row& row : rows) {
    add_line([&](const CsvColumn<Row>& column) { return column.cell(row); });
  }
  return text;
}

}  // namespace ptdp
