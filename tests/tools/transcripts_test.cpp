// Compares what commands print, to the byte, with tests/golden/transcripts. A difference is a fault
// or a change that is meant. `PTDP_WRITE_TRANSCRIPTS=1 transcripts_test` writes the output down,
// and its diff is read like code.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iomanip>
#include <regex>
#include <sstream>

#include "tests/support/commands.h"

namespace ptdp {
namespace {

namespace fs = std::filesystem;

/// Returns the words of a command line. A word that begins with "@" is a file of the source tree,
/// and gets its path.
std::vector<std::string> words_of(const std::string& line) {
  std::istringstream text(line);
  std::vector<std::string> words;
  for (std::string word; text >> word;) {
    words.push_back(word.front() == '@' ? PTDP_SOURCE_DIR + ("/" + word.substr(1)) : word);
  }
  return words;
}

/// Runs a command line; words with "=" before the command are its environment.
ProgramRun run_line(const std::string& line, const fs::path& directory) {
  std::vector<std::string> words = words_of(line);
  RunOptions options{.directory = directory};
  while (words.front().find('=') != std::string::npos) {
    const std::size_t sign = words.front().find('=');
    options.environment[words.front().substr(0, sign)] = words.front().substr(sign + 1);
    words.erase(words.begin());
  }
  const std::string program = words.front();
  words.erase(words.begin());
  return program == "ptdp-plan"       ? run_plan(words, options)
         : program == "ptdp-sim"      ? run_sim(words, options)
         : program == "ptdp-validate" ? run_validate(words, options)
         : program == "ptdp-run"      ? run_run(words, options)
                                      : run_calibrate(words, options);
}

/// Returns the text with nine digits of long fractions, because the last bits of exp() depend on
/// the processor.
std::string with_short_numbers(const std::string& text) {
  static const std::regex long_number(R"(\d+\.\d{6,}(e[-+]\d+)?)");
  std::ostringstream result;
  result << std::setprecision(9);
  auto end = text.begin();
  for (std::sregex_iterator it(text.begin(), text.end(), long_number); it != std::sregex_iterator();
       ++it) {
    result << std::string(end, text.begin() + it->position()) << std::stod(it->str());
    end = text.begin() + it->position() + it->length();
  }
  result << std::string(end, text.end());
  return result.str();
}

/// Returns standard output, standard error and, unless it is 0, the status, without paths of this
/// machine.
std::string answer(const ProgramRun& run) {
  std::string text = run.output + run.errors;
  if (run.status != 0) {
    text += "status " + std::to_string(run.status) + "\n";
  }
  const std::string root = std::string(PTDP_SOURCE_DIR) + "/";
  for (std::size_t at = text.find(root); at != std::string::npos; at = text.find(root, at)) {
    text.replace(at, root.size(), "@");
  }
  return with_short_numbers(text);
}

/// Returns the transcript with each of its commands, the lines that begin with "$ ", answered anew.
std::string answered(const std::string& transcript) {
  const TemporaryDirectory directory;
  std::istringstream lines(transcript);
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("$ ")) {
      text += line + "\n" + answer(run_line(line.substr(2), directory.path()));
    }
  }
  return text;
}

/// Returns the first line that differs, which says more than two pages; empty if none does.
std::string first_difference(const std::string& found, const std::string& expected) {
  std::istringstream found_lines(found);
  std::istringstream expected_lines(expected);
  std::string command;
  for (int number = 1;; ++number) {
    std::string found_line;
    std::string expected_line;
    const bool is_found = static_cast<bool>(std::getline(found_lines, found_line));
    const bool is_expected = static_cast<bool>(std::getline(expected_lines, expected_line));
    if (expected_line.starts_with("$ ")) {
      command = expected_line;
    }
    if (is_found != is_expected || found_line != expected_line) {
      std::ostringstream difference;
      difference << "line " << number << ": " << command << "\n  found:    " << found_line
                 << "\n  expected: " << expected_line;
      return difference.str();
    }
    if (!is_found) {
      return "";
    }
  }
}

TEST(Transcripts, AreWhatTheCommandsPrint) {
  int num_transcripts = 0;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(fs::path(PTDP_SOURCE_DIR) / "tests/golden/transcripts")) {
    if (entry.path().extension() != ".txt") {
      continue;
    }
    ++num_transcripts;
    const std::string expected = content_of(entry.path());
    const std::string found = answered(expected);
    if (std::getenv("PTDP_WRITE_TRANSCRIPTS") != nullptr) {
      std::ofstream(entry.path()) << found;
    }
    EXPECT_EQ(first_difference(found, expected), "") << entry.path().filename().string();
  }
  EXPECT_EQ(num_transcripts, 12);
}

/// Returns the number of characters of UTF-8 text.
std::ptrdiff_t length_of(const std::string& text) {
  return std::ranges::count_if(
      text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U; });
}

// The questions of a new user. An answer begins with what was asked for; what a search answers is
// no longer than a terminal of 24 lines, and no line is wider than that unless a word is.
TEST(Transcripts, OfTasksFitATerminal) {
  std::istringstream lines(
      content_of(fs::path(PTDP_SOURCE_DIR) / "tests/golden/transcripts/tasks.txt"));
  std::string command;
  int width = 0;
  int num_lines = 0;
  int num_searches = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("$ ")) {
      command = line;
      num_lines = 0;
      width = line.find("COLUMNS=80 ") != std::string::npos    ? 80
              : line.find("COLUMNS=120 ") != std::string::npos ? 120
                                                               : 0;
      ASSERT_GT(width, 0) << line;
      continue;
    }
    ++num_lines;
    const bool is_command =
        line.find("ptdp-") != std::string::npos || line.find("--config ") != std::string::npos;
    if (!is_command) {
      EXPECT_LE(length_of(line), width) << command;
    }
    if (line.starts_with("Next: ")) {
      ++num_searches;
      EXPECT_LE(num_lines, 24) << command;
    }
  }
  EXPECT_GE(num_searches, 6);
}

}  // namespace
}  // namespace ptdp
