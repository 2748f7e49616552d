// Tests of text that is made safe for a terminal.
#include "cost_model/text/shown_text.h"

#include <gtest/gtest.h>

namespace ptdp {
namespace {

TEST(ShownText, LeavesWordsOfAnyScriptAsTheyAre) {
  const std::string text = "caf\u00e9 \u6f22\u5b57 \U0001F600 \u05d0\tx\ny \"\\";
  EXPECT_EQ(shown_text(text), text);
}

TEST(ShownText, WritesOutWhatATerminalActsUpon) {
  EXPECT_EQ(shown_text(std::string_view("\x1b[2J\r\0\x7f", 7)), "\\x1b[2J\\x0d\\x00\\x7f");
  EXPECT_EQ(shown_text("\u0080\u009b"), "\\u0080\\u009b");
}

// Unicode 15, section 23.2: marks that turn what stands beside them; and what breaks lines.
TEST(ShownText, WritesOutMarksOfDirection) {
  EXPECT_EQ(shown_text("\u061c\u200e\u200f"), "\\u061c\\u200e\\u200f");
  EXPECT_EQ(shown_text("\u2028\u2029\u202a\u202b\u202c\u202d\u202e"),
            "\\u2028\\u2029\\u202a\\u202b\\u202c\\u202d\\u202e");
  EXPECT_EQ(shown_text("\u2066\u2067\u2068\u2069"), "\\u2066\\u2067\\u2068\\u2069");
  EXPECT_EQ(shown_text("\u200d\u2027\u202f\u2065\u206a"), "\u200d\u2027\u202f\u2065\u206a");
}

TEST(ShownText, WritesOutBytesThatAreNoUtf8) {
  EXPECT_EQ(shown_text("a\xff\xc3(\xe2\x80"), "a\\xff\\xc3(\\xe2\\x80");
  EXPECT_EQ(shown_text("\xc0\x80"), "\\xc0\\x80");           // overlong
  EXPECT_EQ(shown_text("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate
}

TEST(ShownLine, IsOneLine) {
  EXPECT_EQ(shown_line("a\nb\tc"), "a\\x0ab\\x09c");
}

TEST(ShownLine, KeepsTheBeginningAndTheCauseOfALongOne) {
  const std::string line = shown_line("run: " + std::string(100'000, 'x') + ": no such file");
  EXPECT_LT(line.size(), 1100U);
  EXPECT_TRUE(line.starts_with("run: xxx"));
  EXPECT_TRUE(line.ends_with("xxx: no such file"));
  const std::string thousand(1000, 'x');
  EXPECT_EQ(shown_line(thousand), thousand);
}

}  // namespace
}  // namespace ptdp
