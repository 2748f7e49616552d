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

/// Characters that stand for themselves wherever they are: printable ASCII but commas and quotes.
constexpr std::array<bool, 256> kIsPlain = [] {
  std::array<bool, 256> is_plain{};
  for (unsigned char c = ' '; c <= '~'; ++c) {
    is_plain.at(c) = c != ',' && c != '"';
  }
  return is_plain;
}();

}  // namespace

/// Splits text into records, and knows the line on which the next record begins.
class CsvTable::Splitter {
 public:
  Splitter(std::string_view text, const std::string& place) : text_(text), place_(place) {}

  [[nodiscard]] bool at_end() const { return position_ >= text_.size(); }
  [[nodiscard]] std::size_t line() const { return line_; }

  /// Adds the fields of the next record to the table's; returns their number.
  std::size_t record(std::string& fields, std::vector<std::uint32_t>& ends) {
    std::size_t count = 1;
    std::size_t begin = fields.size();  // of the field
    while (!at_end()) {
      take_plain(fields);
      if (at_end()) {
        break;
      }
      const char c = text_[position_];
      if (c == '"' && fields.size() == begin) {
        quoted(fields);
      } else if (c == ',') {
        if (count == kMostColumns) {
          throw Error(here() + "more than " + std::to_string(kMostColumns) + " fields");
        }
        ++position_;
        ++count;
        begin = fields.size();
        ends.push_back(static_cast<std::uint32_t>(begin));
      } else if (c == '\n' || text_.substr(position_, 2) == "\r\n") {
        position_ += c == '\n' ? 1 : 2;
        ++line_;
        break;
      } else {
        take_character(fields);
      }
    }
    ends.push_back(static_cast<std::uint32_t>(fields.size()));
    return count;
  }

 private:
  [[nodiscard]] std::string here() const { return at(line_); }
  [[nodiscard]] std::string at(std::size_t line) const {
    return place_ + ": line " + std::to_string(line) + ": ";
  }

  /// Adds the plain characters that come next, nearly all that a table has.
  void take_plain(std::string& fields) {
    std::size_t end = position_;
    while (end < text_.size() && kIsPlain[static_cast<unsigned char>(text_[end])]) {
      ++end;
    }
    fields.append(text_, position_, end - position_);
    position_ = end;
  }

  /// Adds the character that comes next. Throws Error for invalid UTF-8 and control characters.
  void take_character(std::string& fields) {
    const std::string_view rest = text_.substr(position_);
    const std::size_t length = utf8_sequence_length(rest);
    const bool is_space = rest[0] == '\t' || rest[0] == '\n' || rest[0] == '\r';
    if (length == 0 || (is_control(rest, length) && !is_space)) {
      throw Error(here() + (length == 0 ? "expected UTF-8 text" : "a control character"));
    }
    fields.append(rest, 0, length);
    line_ += rest[0] == '\n' ? 1 : 0;
    position_ += length;
  }

  void quoted(std::string& fields) {
    const std::size_t opened = line_;
    ++position_;
    while (!at_end()) {
      take_plain(fields);
      if (text_.substr(position_, 2) == "\"\"") {
        fields += '"';
        position_ += 2;
      } else if (text_.substr(position_, 1) == "\"") {
        ++position_;
        return;
      } else if (!at_end()) {
        take_character(fields);
      }
    }
    throw Error(at(opened) + "a quote is never closed");
  }

  std::string_view text_;
  const std::string& place_;
  std::size_t position_ = 0;
  std::size_t line_ = 1;
};

CsvTable CsvTable::from_file(const std::filesystem::path& path) {
  return from_text(read_file(path, kLargestTable), path.string());
}

CsvTable CsvTable::from_text(std::string_view text, const std::string& place) {
  if (text.size() > kLargestTable) {
    throw Error(place + ": larger than the limit of " + std::to_string(kLargestTable) + " bytes");
  }
  if (text.starts_with("\xEF\xBB\xBF")) {
    text.remove_prefix(3);
  }
  CsvTable table;
  table.place_ = place;
  Splitter splitter(text, table.place_);
  if (splitter.at_end()) {
    throw Error(place + ": empty; expected a line of column names");
  }
  table.read_header(splitter);
  table.fields_.reserve(text.size());
  while (!splitter.at_end()) {
    const std::size_t line = splitter.line();
    const std::size_t begin = table.fields_.size();
    const std::size_t count = splitter.record(table.fields_, table.ends_);
    if (count == 1 && table.fields_.size() == begin) {
      table.ends_.pop_back();  // an empty line
      continue;
    }
    if (count != table.columns_.size()) {
      throw Error(place + ": line " + std::to_string(line) + ": expected " +
                  std::to_string(table.columns_.size()) + " fields, got " + std::to_string(count));
    }
    table.lines_.push_back(line);
  }
  return table;
}

void CsvTable::read_header(Splitter& splitter) {
  std::string names;
  std::vector<std::uint32_t> ends;
  std::vector<std::string> sorted(splitter.record(names, ends));
  for (std::size_t i = 0, begin = 0; i < ends.size(); begin = ends[i++]) {
    sorted[i] = names.substr(begin, ends[i] - begin);
    add_column(sorted[i]);
  }
  std::sort(sorted.begin(), sorted.end());
  const auto repeated = std::adjacent_find(sorted.begin(), sorted.end());
  if (sorted.front().empty() || repeated != sorted.end()) {
    throw Error(place_ + ": line 1: " +
                (sorted.front().empty() ? "a column without a name"
                                        : "column " + *repeated + " is there twice"));
  }
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

std::string_view CsvTable::view(std::size_t row, std::size_t index) const {
  if (index >= columns_.size()) {
    return {};
  }
  const std::size_t field = row * columns_.size() + index;
  const std::size_t begin = field == 0 ? 0 : ends_[field - 1];
  return std::string_view(fields_).substr(begin, ends_[field] - begin);
}

std::string CsvTable::place_of(std::size_t row, std::string_view column) const {
  return place_ + ": line " + std::to_string(lines_[row]) + ": " + std::string(column);
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
    for (std::size_t i = 0; i < table.columns_.size(); ++i) {
      const auto changed = change.find(table.columns_[i]);
      table.fields_ += changed != change.end() ? std::string_view(changed->second) : view(row, i);
      table.ends_.push_back(static_cast<std::uint32_t>(table.fields_.size()));
    }
    table.lines_.push_back(lines_[row]);
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

std::optional<double> find_number(std::string_view text, double low, double high) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number =
      error == std::errc() && end == text.data() + text.size() && std::isfinite(value);
  return is_number && value >= low && value <= high ? std::optional(value) : std::nullopt;
}

double parse_number(std::string_view text, double low, double high, const std::string& place) {
  if (const std::optional<double> value = find_number(text, low, high)) {
    return *value;
  }
  std::array<char, 32> low_text{};
  std::array<char, 32> high_text{};
  std::to_chars(low_text.data(), low_text.data() + low_text.size() - 1, low);
  std::to_chars(high_text.data(), high_text.data() + high_text.size() - 1, high);
  throw Error(place + ": expected a number from " + low_text.data() + " to " + high_text.data() +
              ", got " + in_quotes(text));
}

}  // namespace ptdp
