#include "planner/report/answers/report_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace ptdp {

std::vector<std::string> paragraphs_of(std::string_view text) {
  std::vector<std::string> lines;
  std::optional<std::size_t> indent_of_first;  // of the paragraph that is under way
  while (!text.empty()) {
    const std::size_t length = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, length);
    text.remove_prefix(std::min(length + 1, text.size()));
    const std::size_t indent = line.find_first_not_of(' ');
    if (indent == std::string_view::npos) {
      indent_of_first.reset();
    } else if (indent_of_first && indent > *indent_of_first) {
      lines.back() += fmt::format("\n{}", line.substr(*indent_of_first));
    } else {
      lines.emplace_back(line.substr(indent));
      indent_of_first = indent;
    }
  }
  return lines;
}

void append(std::vector<std::string>& paragraphs, const std::vector<std::string>& others) {
  paragraphs.insert(paragraphs.end(), others.begin(), others.end());
}

void add_paragraphs(Report& report, ReportSection section, std::vector<std::string> paragraphs) {
  if (!paragraphs.empty()) {
    section.view = TextView{std::move(paragraphs)};
    report.sections.push_back(std::move(section));
  }
}

std::vector<std::string> paragraphs_of_next(const std::string& next) {
  return next.empty() ? std::vector<std::string>() : std::vector{"Next\n  " + next};
}

void add_remarks(Report& report, std::vector<std::string> remarks, const std::string& next) {
  append(remarks, paragraphs_of_next(next));
  add_paragraphs(report, {.id = "remarks", .title = "What else is there to know?"},
                 std::move(remarks));
}

void add_table(Report& report, ReportSection section, TableView table) {
  if (!table.rows.empty()) {
    section.view = std::move(table);
    report.sections.push_back(std::move(section));
  }
}

}  // namespace ptdp
