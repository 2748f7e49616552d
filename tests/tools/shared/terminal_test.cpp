// Tests of text on terminals: lines as wide as these, and titles in bold.
#include "tools/shared/terminal.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <sstream>

namespace ptdp {
namespace {

TEST(Wrapped, LeavesShortLines) {
  EXPECT_EQ(wrapped("one\n\n  two  three\n", 20), "one\n\n  two  three\n");
}

TEST(Wrapped, GoesOnBelowTheValueOfARow) {
  EXPECT_EQ(wrapped("  time     one two three four five\n", 24),
            "  time     one two three\n           four five\n");
}

TEST(Wrapped, GoesOnFourBlanksIn) {
  EXPECT_EQ(wrapped("one two three four five six\n", 14),
            "one two three\n    four five\n    six\n");
  EXPECT_EQ(wrapped("  2. one two three four\n", 14), "  2. one two\n      three\n      four\n");
}

TEST(Wrapped, KeepsANumberAndItsPercentSign) {
  EXPECT_EQ(wrapped("a loss of 12.5 % here\n", 15), "a loss of\n    12.5 % here\n");
}

TEST(Wrapped, LeavesCommandsWhole) {
  const std::string text = "Next: ptdp-plan --gpus 64 -o plan.json\n  ptdp-plan --gpus 64 --tp 8\n";
  EXPECT_EQ(wrapped(text, 20), text);
}

TEST(Wrapped, LeavesWordsThatAreLonger) {
  EXPECT_EQ(wrapped("a 12345678901234567890123 b\n", 20),
            "a\n    12345678901234567890123\n    b\n");
}

TEST(Wrapped, CountsCharactersAndNotBytes) {
  EXPECT_EQ(wrapped("äöü äöü äöü äöü äöü\n", 19), "äöü äöü äöü äöü äöü\n");
}

// Whatever the text: no word is lost, and no line is too long that could be shorter.
TEST(Wrapped, KeepsAllWordsWithinTheWidth) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::string text(random() % 8, ' ');
    for (auto words = random() % 30 + 1; words > 0; --words) {
      text += std::string(random() % 9 + 1, static_cast<char>('a' + random() % 26)) +
              std::string(random() % 10 == 0 ? 3 : 1, ' ');
    }
    text += "end";
    const int width = 20 + static_cast<int>(random() % 60);
    const std::string lines = wrapped(text + "\n", width);
    std::istringstream before(text);
    std::istringstream after(lines);
    std::string expected;
    std::string found;
    while (before >> expected) {
      ASSERT_TRUE(after >> found);
      ASSERT_EQ(found, expected);
    }
    EXPECT_FALSE(after >> found);
    std::istringstream each(lines);
    for (std::string line; std::getline(each, line);) {
      const std::size_t start = line.find_first_not_of(' ');
      EXPECT_TRUE(line.size() <= static_cast<std::size_t>(width) ||
                  line.find(' ', start) == std::string::npos)
          << line;
    }
  }
}

TEST(BoldTitles, AreTheFirstLineAndThoseOfSections) {
  EXPECT_EQ(with_bold_titles("Answer\n  row\n\nTitle\n  row\n\nlast words\n"),
            "\x1b[1mAnswer\x1b[0m\n  row\n\n\x1b[1mTitle\x1b[0m\n  row\n\nlast words\n");
}

TEST(TerminalWidth, IsThatOfColumns) {
  const auto width_with = [](const char* columns) {
    ::setenv("COLUMNS", columns, 1);
    const auto width = terminal_width();
    ::unsetenv("COLUMNS");
    return width;
  };
  EXPECT_EQ(width_with("80"), 80);
  EXPECT_EQ(width_with("132"), 132);
  for (const char* useless : {"", "eighty", "-3", "0", "80x", "99999999999"}) {
    EXPECT_EQ(width_with(useless), terminal_width()) << useless;
  }
}

}  // namespace
}  // namespace ptdp
