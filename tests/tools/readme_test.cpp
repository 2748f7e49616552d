// README.md shows what the commands print: every line of its examples, where "[...]" stands for
// lines left out, and numbers of a run that was measured differ.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <regex>
#include <sstream>

#include "tests/support/commands.h"

namespace ptdp {
namespace {

/// One command of an example, and the lines that README.md shows below it.
struct Example {
  std::string command;
  std::vector<std::string> shown;
};

/// Returns the commands of README.md's fenced blocks, which begin with "$ ".
std::vector<Example> examples_of(const std::string& readme) {
  std::vector<Example> examples;
  std::istringstream lines(readme);
  bool is_in_block = false;
  bool is_shown = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) {
      is_in_block = !is_in_block;
      is_shown = false;
    } else if (is_in_block && line.starts_with("$ ")) {
      examples.push_back({line.substr(2), {}});
      is_shown = true;
    } else if (is_shown) {
      examples.back().shown.push_back(line);
    }
  }
  return examples;
}

ProgramRun run_command_line(const std::string& line, const std::filesystem::path& directory) {
  std::istringstream text(line);
  std::vector<std::string> words{std::istream_iterator<std::string>(text), {}};
  const std::string program = words.front();
  words.erase(words.begin());
  const RunOptions options{.directory = directory};
  return program == "ptdp-plan"  ? run_plan(words, options)
         : program == "ptdp-sim" ? run_sim(words, options)
                                 : run_run(words, options);
}

/// Returns a line without what differs from run to run: numbers with their units, and widths.
std::string without_numbers(const std::string& line) {
  static const std::regex number(R"([-+]?[0-9][0-9.]*( (us|ms|s|h|[kMGTP]?FLOP/s|%))?)");
  static const std::regex spaces(" +");
  return std::regex_replace(std::regex_replace(line, number, "#"), spaces, " ");
}

/// Expects the shown lines in the output, in their order; next to each other but for "[...]".
void expect_shown(const Example& example, const std::string& output, bool is_measured) {
  std::vector<std::string> lines;
  std::istringstream text(output);
  for (std::string line; std::getline(text, line);) {
    lines.push_back(is_measured ? without_numbers(line) : line);
  }
  auto at = lines.begin();
  bool may_skip = false;
  for (const std::string& shown : example.shown) {
    if (shown == "[...]") {
      may_skip = true;
      continue;
    }
    const std::string expected = is_measured ? without_numbers(shown) : shown;
    const auto found = may_skip ? std::find(at, lines.end(), expected) : at;
    ASSERT_TRUE(found != lines.end() && *found == expected)
        << example.command << "\n  README.md shows: " << shown
        << "\n  printed:         " << (found != lines.end() ? *found : "no such line");
    at = found + 1;
    may_skip = false;
  }
  EXPECT_TRUE(may_skip || at == lines.end()) << example.command << " prints more than is shown";
}

TEST(Readme, ShowsWhatTheCommandsPrint) {
  const std::vector<Example> examples = examples_of(source_file("README.md"));
  const TemporaryDirectory directory;
  int num_lines = 0;
  for (const Example& example : examples) {
    const ProgramRun run = run_command_line(example.command, directory.path());
    ASSERT_EQ(run.status, kDone) << example.command << "\n" << run.errors;
    const bool is_measured = example.command.starts_with("ptdp-run") &&
                             example.command.find("--shrink") == std::string::npos;
    expect_shown(example, run.output, is_measured);
    num_lines += static_cast<int>(example.shown.size());
  }
  EXPECT_EQ(examples.size(), 5U);
  EXPECT_GE(num_lines, 20);
}

/// Returns the cells of each row of a page's tables, without blanks around them.
std::vector<std::vector<std::string>> table_rows(const std::string& page) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("| ")) {
      rows.emplace_back();
      std::istringstream cells(line.substr(2));
      for (std::string cell; std::getline(cells, cell, '|');) {
        rows.back().push_back(cell.substr(0, cell.find_last_not_of(' ') + 1));
        cells >> std::ws;
      }
    }
  }
  return rows;
}

// "mean, worst" of README.md are two columns of a group's row on the page of errors.
TEST(Readme, HasTheErrorsOfThePageOfErrors) {
  const std::string errors = source_file("profiles/published/README.md");
  const auto page = table_rows(errors.substr(0, errors.find("\n## Intervals\n")));
  const auto pair = [](const std::string& mean, const std::string& worst) {
    return mean + " %, " + worst + " %";
  };
  int num_rows = 0;
  for (const std::vector<std::string>& row : table_rows(source_file("README.md"))) {
    if (row.size() == 4 && row[2].find(" %, ") != std::string::npos) {
      EXPECT_TRUE(std::ranges::any_of(page, [&](const std::vector<std::string>& group) {
        return group.size() == 12 && group[1] == row[1] && pair(group[2], group[5]) == row[2] &&
               pair(group[7], group[10]) == row[3];
      })) << row[0];
      ++num_rows;
    }
  }
  EXPECT_EQ(num_rows, 7);
}

}  // namespace
}  // namespace ptdp
