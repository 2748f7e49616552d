// Tests what ObjectReader accepts as JSON at all, before it reads any key.
#include <gmock/gmock.h>

#include <vector>

#include "cost_model/text/object_reader.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string verdict_on_json(std::string_view text) {
  return message_of([&] { return ObjectReader::from_text(text, "x.json"); });
}

constexpr const char* kAccepted = "nothing was thrown";

/// Returns `levels` objects, one in the other; the innermost holds `content`.
std::string nested(int levels, const std::string& content) {
  std::string text;
  for (int i = 1; i < levels; ++i) {
    text += R"({"a":)";
  }
  text += '{' + content + '}';
  return text + std::string(static_cast<std::size_t>(levels - 1), '}');
}

std::string array_of(int values) {
  std::string text = R"({"a":[0)";
  for (int i = 1; i < values; ++i) {
    text += ",0";
  }
  return text + "]}";
}

TEST(JsonText, OfNothingIsRefused) {
  for (const std::string text : {"", " ", "\n\t\r "}) {
    EXPECT_EQ(verdict_on_json(text), "x.json: empty; expected a JSON object") << text.size();
  }
}

TEST(JsonText, ThatIsNoObjectIsRefused) {
  EXPECT_EQ(verdict_on_json("[1]"), "x.json: expected a JSON object, got [1]");
  EXPECT_EQ(verdict_on_json("null"), "x.json: expected a JSON object, got null");
}

TEST(JsonText, InUtf16IsRefused) {
  using std::string_view_literals::operator""sv;
  for (const std::string_view text : {"\xFF\xFE{\0}\0"sv, "\xFE\xFF\0{\0}"sv, "{\0}\0"sv}) {
    EXPECT_EQ(verdict_on_json(text), "x.json: looks like UTF-16; expected UTF-8");
  }
}

TEST(JsonText, MayBeginWithAByteOrderMark) {
  EXPECT_EQ(verdict_on_json("\xEF\xBB\xBF{}"), kAccepted);
}

// The column is that of the first character that cannot be, counted from 1.
TEST(JsonText, ThatIsMalformedIsRefusedWithLineAndColumn) {
  struct Row {
    std::string text;
    std::string place;
  };
  for (const Row& row : std::vector<Row>{{"{\n  \"a\": ,\n}", "line 2, column 8"},
                                         {"{} {}", "line 1, column 4"},
                                         {"{\"a\" 1}", "line 1, column 6"},
                                         {"{'a': 1}", "line 1, column 2"},
                                         {"{\"a\": NaN}", "line 1, column 7"},
                                         {"{\"a\": 1} // note", "line 1, column 10"},
                                         {"{\"a\": \"\xC3(\"}", "line 1, column 9"},
                                         {"{\"a\": 1,}", "line 1, column 9"},
                                         {"{\"a\": 01}", "line 1, column 8"}}) {
    EXPECT_EQ(verdict_on_json(row.text), "x.json: " + row.place + ": not valid JSON") << row.text;
  }
}

TEST(JsonText, ThatEndsTooEarlyIsRefused) {
  const std::string whole = R"({"a": [1, "b"]})";
  for (std::size_t length = 1; length < whole.size(); ++length) {
    EXPECT_THAT(verdict_on_json(whole.substr(0, length)), HasSubstr("not valid JSON")) << length;
  }
}

// A forgotten quote: the text runs into the end of line 2.
TEST(JsonText, WithALineBreakInATextIsRefusedOnTheLineOfTheText) {
  EXPECT_THAT(verdict_on_json("{\n\"name\": \"a,\n\"b\": 1}"), StartsWith("x.json: line 2, "));
}

TEST(JsonText, WithANumberBeyondDoublesIsRefused) {
  EXPECT_EQ(verdict_on_json(R"({"a": 1e400})"),
            "x.json: line 1, column 7: number \"1e400\" is out of range");
}

TEST(JsonText, WithADuplicateKeyIsRefused) {
  EXPECT_EQ(verdict_on_json(R"({"a": 1, "b": {"c": 1}, "a": 1})"), "x.json: duplicate key \"a\"");
  EXPECT_EQ(verdict_on_json(R"({"b": [{"c": 1, "c": 1}]})"), "x.json: duplicate key \"b.c\"");
  EXPECT_EQ(verdict_on_json(R"({"b": 1, "\u0062": 1})"), "x.json: duplicate key \"b\"");
}

TEST(JsonText, MayRepeatAKeyInAnotherObject) {
  EXPECT_EQ(verdict_on_json(R"({"a": {"a": 1}, "b": [{"a": 1}, {"a": 1}]})"), kAccepted);
}

TEST(JsonText, MayNestSixtyFourLevels) {
  EXPECT_EQ(verdict_on_json(nested(64, R"("a":1)")), kAccepted);
}

TEST(JsonText, ThatNestsDeeperIsRefused) {
  for (const int levels : {65, 66, 100'000}) {
    EXPECT_EQ(verdict_on_json(nested(levels, R"("a":1)")), "x.json: nested deeper than 64 levels")
        << levels;
  }
}

TEST(JsonText, ThatNestsDeeperIsRefusedWhateverTheInnermostHolds) {
  EXPECT_EQ(verdict_on_json(nested(65, "")), "x.json: nested deeper than 64 levels");
}

TEST(JsonText, MayHoldManyValues) {
  EXPECT_EQ(verdict_on_json(array_of(499'000)), kAccepted);
}

TEST(JsonText, WithMoreValuesIsRefused) {
  EXPECT_EQ(verdict_on_json(array_of(1'100'000)), "x.json: more than 500000 values");
}

TEST(JsonText, WithOneValueMoreIsRefused) {
  EXPECT_EQ(verdict_on_json(array_of(500'001)), "x.json: more than 500000 values");
}

}  // namespace
}  // namespace ptdp
