#include "cost_model/text/csv_table.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "cost_model/error.h"
#include "cost_model/text/did_you_mean.h"
#include "cost_model/text/files.h"
#include "cost_model/text/in_quotes.h"
#include "cost_model/text/shown_text.h"

namespace ptdp {
namespace {

constexpr std::size_t kMostColumns = 1000;

/// Throws Error unless `text` is well-formed UTF-8 without control characters.
void check_text(std::string_view text, const std::string& place) {
  std::size_t line = 1;
  const auto is_plain = [](char c) { return c >= ' ' && c <= '~'; };
  while (!text.empty()) {
    // Nearly all of a table is plain ASCII, which needs no look at sequences.
    text.remove_prefix(static_cast<std::size_t>(
        std::find_if_not(text.begin(), text.end(), is_plain) - text.begin()));
    if (text.empty()) {
      return;
    }
    const std::size_t length = utf8_sequence_length(text);
    const bool is_space = text[0] == '\t' || text[0] == '\n' || text[0] == '\r';
    if (length == 0 || (is_control(text, length) && !is_space)) {
      throw Error(place + ": line " + std::to_string(line) + ": " +
                  (length == 0 ? "expected UTF-8 text" : "a control character"));
    }
    line += text[0] == '\n' ? 1 : 0;
    text.remove_prefix(length);
  }
}

/// Splits text into records, and knows the line on which the next record begins.
class Splitter {
 public:
  Splitter(std::string_view text, const std::string& place) : text_(text), place_(place) {}

  [[nodiscard]] bool at_end() const { return position_ >= text_.size(); }
  [[nodiscard]] std::size_t line() const { return line_; }

  /// Returns the fields of the next record, which has `expected` of them as a rule.
  std::vector<std::string> record(std::size_t expected) {
    std::vector<std::string> fields;
    fields.reserve(expected);
    fields.emplace_back();
    while (!at_end()) {
      const std::string_view rest = text_.substr(position_);
      const auto* const plain_end = std::ranges::find_if(
          rest, [](char c) { return c == ',' || c == '"' || c == '\n' || c == '\r'; });
      fields.back().append(rest.begin(), plain_end);
      position_ += static_cast<std::size_t>(plain_end - rest.begin());
      if (at_end()) {
        break;
      }
      const char c = text_[position_++];
      if (c == '"' && fields.back().empty()) {
        quoted(fields.back());
      } else if (c == ',') {
        if (fields.size() == kMostColumns) {
          throw Error(place_ + ": line " + std::to_string(line_) + ": more than " +
                      std::to_string(kMostColumns) + " fields");
        }
        fields.emplace_back();
      } else if (c == '\n') {
        ++line_;
        break;
      } else if (c != '\r' || at_end() || text_[position_] != '\n') {
        fields.back() += c;
      }
    }
    return fields;
  }

 private:
  void quoted(std::string& field) {
    const std::size_t opened = line_;
    while (!at_end()) {
      const char c = text_[position_++];
      if (c != '"') {
        line_ += c == '\n' ? 1 : 0;
        field += c;
      } else if (!at_end() && text_[position_] == '"') {
        field += text_[position_++];
      } else {
        return;
      }
    }
    throw Error(place_ + ": line " + std::to_string(opened) + ": a quote is never closed");
  }

  std::string_view text_;
  const std::string& place_;
  std::size_t position_ = 0;
  std::size_t line_ = 1;
};

}  // namespace

CsvTable CsvTable::from_file(const std::filesystem::path& path) {
  return from_text(read_file(path, kLargestTable), path.string());
}

CsvTable CsvTable::from_text(std::string_view text, const std::string& place) {
  if (text.starts_with("\xEF\xBB\xBF")) {
    text.remove_prefix(3);
  }
  check_text(text, place);
  CsvTable table;
  table.place_ = place;
  Splitter splitter(text, table.place_);
  if (splitter.at_end()) {
    throw Error(place + ": empty; expected a line of column names");
  }
  std::vector<std::string> sorted = splitter.record(1);
  for (const std::string& column : sorted) {
    table.add_column(column);
  }
  std::sort(sorted.begin(), sorted.end());
  const auto repeated = std::adjacent_find(sorted.begin(), sorted.end());
  if (sorted.front().empty() || repeated != sorted.end()) {
    throw Error(place + ": line 1: " +
                (sorted.front().empty() ? "a column without a name"
                                        : "column " + *repeated + " is there twice"));
  }
  while (!splitter.at_end()) {
    const std::size_t line = splitter.line();
    std::vector<std::string> fields = splitter.record(table.columns_.size());
    if (fields.size() == 1 && fields.front().empty()) {
      continue;  // an empty line
    }
    if (fields.size() != table.columns_.size()) {
      throw Error(place + ": line " + std::to_string(line) + ": expected " +
                  std::to_string(table.columns_.size()) + " fields, got " +
                  std::to_string(fields.size()));
    }
    table.rows_.push_back({line, std::move(fields)});
  }
  return table;
}

void CsvTable::add_column(const std::string& column) {
  indices_.emplace(column, columns_.size());
  columns_.push_back(column);
}

std::size_t CsvTable::index_of(std::string_view column) const {
  const auto found = indices_.find(column);
  return found != indices_.end() ? found->second : columns_.size();
}

bool CsvTable::has_column(std::string_view column) const {
  return index_of(column) < columns_.size();
}

const std::string& CsvTable::text(std::size_t row, std::string_view column) const {
  static const std::string nothing;
  const std::size_t index = index_of(column);
  return index < columns_.size() ? rows_[row].fields[index] : nothing;
}

std::string CsvTable::place_of(std::size_t row, std::string_view column) const {
  return place_ + ": line " + std::to_string(rows_[row].line) + ": " + std::string(column);
}

CsvTable CsvTable::variations(
    std::size_t row, const std::vector<std::map<std::string, std::string>>& changes) const {
  CsvTable table;
  table.place_ = place_;
  table.columns_ = columns_;
  table.indices_ = indices_;
  for (const auto& change : changes) {
    for (const auto& [column, text] : change) {
      if (!table.has_column(column)) {
        table.add_column(column);
      }
    }
  }
  for (const auto& change : changes) {
    Row& varied = table.rows_.emplace_back(rows_[row]);
    varied.fields.resize(table.columns_.size());
    for (const auto& [column, text] : change) {
      varied.fields[table.index_of(column)] = text;
    }
  }
  return table;
}

void CsvTable::require(const std::vector<std::string>& columns) const {
  for (const std::string& column : columns) {
    if (!has_column(column)) {
      throw Error(place_ + ": line 1: no column " + column + did_you_mean(column, columns_));
    }
  }
}

std::optional<std::int64_t> find_count(std::string_view text, std::int64_t low, std::int64_t high) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_count = error == std::errc() && end == text.data() + text.size();
  return is_count && value >= low && value <= high ? std::optional(value) : std::nullopt;
}

std::int64_t parse_count(std::string_view text, std::int64_t low, std::int64_t high,
                         const std::string& place) {
  if (const std::optional<std::int64_t> value = find_count(text, low, high)) {
    return *value;
  }
  throw Error(place + ": expected a whole number from " + std::to_string(low) + " to " +
              std::to_string(high) + ", got " + in_quotes(text));
}

double parse_number(std::string_view text, double low, double high, const std::string& place) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value) ||
      value < low || value > high) {
    std::array<char, 32> low_text{};
    std::array<char, 32> high_text{};
    std::to_chars(low_text.data(), low_text.data() + low_text.size() - 1, low);
    std::to_chars(high_text.data(), high_text.data() + high_text.size() - 1, high);
    throw Error(place + ": expected a number from " + low_text.data() + " to " + high_text.data() +
                ", got " + in_quotes(text));
  }
  return value;
}

}  // namespace ptdp
