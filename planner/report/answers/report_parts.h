// Sections that reports of all answers have.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/report/report.h"

namespace ptdp {

/// Returns the lines of a text, without empty ones and without blanks before them. Lines that are
/// indented below another are part of that paragraph, and keep what they are indented by.
[[nodiscard]] std::vector<std::string> paragraphs_of(std::string_view text);
/// Appends paragraphs to others.
void append(std::vector<std::string>& paragraphs, const std::vector<std::string>& others);

/// Returns the paragraph with the command to type next; none if it is empty.
[[nodiscard]] std::vector<std::string> paragraphs_of_next(const std::string& next);

/// Adds paragraphs under a title of their own; nothing without any.
void add_paragraphs(Report& report, ReportSection section, std::vector<std::string> paragraphs);
/// Adds what else a person should know, and the command to type next unless it is empty.
void add_remarks(Report& report, std::vector<std::string> remarks, const std::string& next = "");
/// Adds a table under a title of its own; nothing without rows.
void add_table(Report& report, ReportSection section, TableView table);

}  // namespace ptdp
