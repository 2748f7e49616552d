// Tables for people, out of columns that each say their heading and what they hold.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace ptdp {

/// A column of a table of `Row`s.
template <class Row>
struct TextColumn {
  std::string heading;
  /// Width in characters: above 0 aligns cells right, below 0 left, 0 (the last column) pads none.
  int width = 0;
  std::function<std::string(const Row&)> cell;
  int gap = 1;  ///< Blanks before the column; the first column has none.
};

/// Returns `text` padded to |width| characters: aligned right, or left for a width below 0.
[[nodiscard]] std::string padded(std::string_view text, int width);

/// Returns the table as text: the headings, then a line for each of `rows`.
template <class Row>
[[nodiscard]] std::string text_table(const std::vector<TextColumn<Row>>& columns,
                                     const std::vector<Row>& rows) {
  std::string text;
  const auto add_line = [&](const auto& cell_of) {
    for (const TextColumn<Row>& column : columns) {
      text.append(&column == &columns.front() ? 0 : column.gap, ' ');
      text += padded(cell_of(column), column.width);
    }
    text += '\n';
  };
  add_line([](const TextColumn<Row>& column) { return column.heading; });
  for (const Row& row : rows) {
    add_line([&](const TextColumn<Row>& column) { return column.cell(row); });
  }
  return text;
}

}  // namespace ptdp
