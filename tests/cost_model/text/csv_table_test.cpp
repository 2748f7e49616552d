// Tests of how CSV text is read and refused.
#include "cost_model/text/csv_table.h"

#include <gmock/gmock.h>

#include "tests/support/temporary_directory.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

using testing::EndsWith;

CsvTable table_of(std::string_view text) {
  return CsvTable::from_text(text, "x.csv");
}

std::string verdict_on_table(std::string_view text) {
  return message_of([&] { return table_of(text); });
}

/// Returns the only field of the only row of a table with two columns.
std::string field_of(const std::string& text) {
  const CsvTable table = table_of("a,b\n" + text + ",\n");
  EXPECT_EQ(table.num_rows(), 1U);
  return table.text(0, "a");
}

TEST(CsvTable, FindsFieldsByColumn) {
  const CsvTable table = table_of("a,b\n1,2\n3,4\n");
  EXPECT_EQ(table.num_rows(), 2U);
  EXPECT_EQ(table.text(0, "a"), "1");
  EXPECT_EQ(table.text(0, "b"), "2");
  EXPECT_EQ(table.text(1, "b"), "4");
}

TEST(CsvTable, KnowsItsColumns) {
  const CsvTable table = table_of("a,b\n1,2\n");
  EXPECT_TRUE(table.has_column("b"));
  EXPECT_FALSE(table.has_column("c"));
  EXPECT_FALSE(table.has_column(""));
}

TEST(CsvTable, GivesNothingOfAColumnThatIsNotThere) {
  EXPECT_EQ(table_of("a\n1\n").text(0, "b"), "");
}

TEST(CsvTable, MayHaveNoRows) {
  EXPECT_EQ(table_of("a,b\n").num_rows(), 0U);
  EXPECT_EQ(table_of("a,b").num_rows(), 0U);
}

TEST(CsvTable, EndsLinesInEitherWay) {
  for (const std::string text : {"a,b\n1,2\n3,4\n", "a,b\r\n1,2\r\n3,4\r\n", "a,b\n1,2\r\n3,4"}) {
    const CsvTable table = table_of(text);
    EXPECT_EQ(table.num_rows(), 2U) << text;
    EXPECT_TRUE(table.has_column("b")) << text;
    EXPECT_EQ(table.text(1, "b"), "4") << text;
  }
}

TEST(CsvTable, SkipsEmptyLines) {
  const CsvTable table = table_of("a,b\n\n1,2\n\r\n3,4\n\n");
  EXPECT_EQ(table.num_rows(), 2U);
  EXPECT_EQ(table.place_of(1, "b"), "x.csv: line 5: b");
}

TEST(CsvTable, IgnoresAByteOrderMark) {
  EXPECT_TRUE(table_of("\xEF\xBB\xBF"
                       "a,b\n")
                  .has_column("a"));
}

// RFC 4180, section 2, rules 5 to 7.
TEST(CsvTable, ReadsQuotedFields) {
  EXPECT_EQ(field_of("\"1,2\""), "1,2");
  EXPECT_EQ(field_of("\"a \"\"b\"\"\""), "a \"b\"");
  EXPECT_EQ(field_of("\"1\n2\""), "1\n2");
  EXPECT_EQ(field_of("\"1\r\n2\""), "1\r\n2");
  EXPECT_EQ(field_of("\"\""), "");
  EXPECT_EQ(field_of("\"\"\"\""), "\"");
}

TEST(CsvTable, KeepsSpacesAndLettersOfOtherLanguages) {
  EXPECT_EQ(field_of(" \xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80 "),
            " \xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80 ");
}

TEST(CsvTable, NamesTheLineOnWhichARowBegins) {
  const CsvTable table = table_of("a,b\n\"1\n1\n1\",2\n3,4\n");
  EXPECT_EQ(table.place_of(0, "a"), "x.csv: line 2: a");
  EXPECT_EQ(table.place_of(1, "b"), "x.csv: line 5: b");
}

TEST(CsvTable, RefusesTextWithoutAHeader) {
  EXPECT_EQ(verdict_on_table(""), "x.csv: empty; expected a line of column names");
  EXPECT_EQ(verdict_on_table("\xEF\xBB\xBF"), "x.csv: empty; expected a line of column names");
}

TEST(CsvTable, RefusesAColumnWithoutAName) {
  for (const std::string text : {"\n1\n", "a,,b\n", "a,b,\n", ",a\n"}) {
    EXPECT_EQ(verdict_on_table(text), "x.csv: line 1: a column without a name") << text;
  }
}

TEST(CsvTable, RefusesARepeatedColumn) {
  EXPECT_EQ(verdict_on_table("a,b,a\n"), "x.csv: line 1: column a is there twice");
}

TEST(CsvTable, RefusesARowOfAnotherWidth) {
  EXPECT_EQ(verdict_on_table("a,b\n1,2\n3\n"), "x.csv: line 3: expected 2 fields, got 1");
  EXPECT_EQ(verdict_on_table("a,b\n1,2,3\n"), "x.csv: line 2: expected 2 fields, got 3");
}

TEST(CsvTable, RefusesAQuoteThatIsNeverClosed) {
  EXPECT_EQ(verdict_on_table("a,b\n1,2\n\"3,4\n5,6\n"), "x.csv: line 3: a quote is never closed");
}

TEST(CsvTable, RefusesBytesThatAreNotUtf8) {
  using std::string_view_literals::operator""sv;
  for (const std::string_view text :
       {"a\n\xFF\n"sv, "a\n\x80\n"sv, "a\n\xC3\n"sv, "a\n\xC3"sv, "a\n\xE2\x82\n"sv,
        "a\n\xC0\xAF\n"sv, "a\n\xF5\x80\x80\x80\n"sv, "a\n\0\n"sv}) {
    EXPECT_EQ(verdict_on_table(text), "x.csv: line 2: expected UTF-8 text")
        << testing::PrintToString(text);
  }
}

// The Unicode Standard, table 3-7: overlong forms, surrogates, and what lies beyond U+10FFFF.
TEST(CsvTable, RefusesBytesThatOnlyLookLikeUtf8) {
  for (const std::string text : {"a\n\xE0\x80\xAF\n", "a\n\xE0\x9F\xBF\n", "a\n\xED\xA0\x80\n",
                                 "a\n\xF0\x80\x80\xAF\n", "a\n\xF4\x90\x80\x80\n"}) {
    EXPECT_EQ(verdict_on_table(text), "x.csv: line 2: expected UTF-8 text")
        << testing::PrintToString(text);
  }
}

TEST(CsvTable, TakesTheFirstAndTheLastOfEveryLengthOfUtf8) {
  for (const std::string letter : {"\xC2\xA0", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF",
                                   "\xEE\x80\x80", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_EQ(field_of(letter), letter);
  }
}

TEST(CsvTable, RefusesControlCharacters) {
  for (const std::string letter : {"\x01", "\x1B[2J", "\x7F", "\xC2\x80", "\xC2\x9B"}) {
    EXPECT_EQ(verdict_on_table("a\n" + letter + "\n"), "x.csv: line 2: a control character")
        << testing::PrintToString(letter);
  }
  EXPECT_EQ(field_of("a\tb"), "a\tb");
}

TEST(CsvTable, RequiresColumns) {
  const CsvTable table = table_of("layers,hidden\n");
  EXPECT_NO_THROW(table.require({"hidden", "layers"}));
  EXPECT_EQ(message_of([&] {
              table.require({"hidden", "layer"});
              return 0;
            }),
            "x.csv: line 1: no column layer; did you mean \"layers\"?");
}

TEST(CsvTable, NamesTheFileThatItReads) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory.file("bad.csv", "a,b\n1\n");
  EXPECT_EQ(message_of([&] { return CsvTable::from_file(path); }),
            path.string() + ": line 2: expected 2 fields, got 1");
  EXPECT_EQ(message_of([] { return CsvTable::from_file("/missing.csv"); }),
            "/missing.csv: cannot be read: No such file or directory");
}

TEST(ParseCount, ReadsWholeNumbersWithinTheirRange) {
  EXPECT_EQ(parse_count("0", 0, 10, "place"), 0);
  EXPECT_EQ(parse_count("10", 0, 10, "place"), 10);
  EXPECT_EQ(parse_count("-3", -5, 10, "place"), -3);
  EXPECT_EQ(parse_count("007", 0, 10, "place"), 7);
}

TEST(ParseCount, RefusesEverythingElse) {
  for (const std::string text :
       {"", " 1", "1 ", "+1", "1.0", "1e3", "0x1", "one", "11", "-1", "99999999999999999999"}) {
    EXPECT_EQ(message_of([&] { return parse_count(text, 0, 10, "x.csv: line 2: tp"); }),
              "x.csv: line 2: tp: expected a whole number from 0 to 10, got \"" + text + '"');
  }
}

TEST(ParseNumber, ReadsNumbersWithinTheirRange) {
  EXPECT_EQ(parse_number("0", 0.0, 10.0, "place"), 0.0);
  EXPECT_EQ(parse_number("2.5", 0.0, 10.0, "place"), 2.5);
  EXPECT_EQ(parse_number("1e1", 0.0, 10.0, "place"), 10.0);
}

TEST(ParseNumber, RefusesEverythingElse) {
  for (const std::string text :
       {"", " 1", "1 ", "+1", "1,5", "0x1", "one", "11", "-1", "nan", "inf", "1e999"}) {
    EXPECT_EQ(message_of([&] { return parse_number(text, 0.0, 10.5, "x.csv: line 2: s"); }),
              "x.csv: line 2: s: expected a number from 0 to 10.5, got \"" + text + '"');
  }
}

TEST(ParseNumber, CutsLongTextShort) {
  const std::string text(1000, 'x');
  const std::string shown = '"' + text.substr(0, 60) + "...\"";
  EXPECT_THAT(message_of([&] { return parse_number(text, 0.0, 1.0, "place"); }), EndsWith(shown));
  EXPECT_THAT(message_of([&] { return parse_count(text, 0, 1, "place"); }), EndsWith(shown));
}

// 27 characters each: "-1.7976931348623157e+308" and its like must not be cut or overflow.
TEST(ParseNumber, ShowsBoundsOfAnyLength) {
  EXPECT_EQ(message_of([] {
              return parse_number("x", -1.7976931348623157e+308, 2.2250738585072014e-308, "place");
            }),
            "place: expected a number from -1.7976931348623157e+308 to 2.2250738585072014e-308, "
            "got \"x\"");
}

TEST(CsvTable, RefusesMoreColumnsThanATableHas) {
  const std::string commas(1000, ',');
  EXPECT_EQ(message_of([&] { return CsvTable::from_text("a" + commas, "t.csv"); }),
            "t.csv: line 1: more than 1000 fields");
}

TEST(CsvTable, VariesOneOfItsRows) {
  const CsvTable table = table_of("name,size\nx,1\ny,2\n");
  const CsvTable varied = table.variations(
      1, {{{"size", "5"}}, {}, {{"color", "red"}, {"name", "z"}}, {{"shape", "round"}}});
  EXPECT_EQ(varied.columns(), (std::vector<std::string>{"name", "size", "color", "shape"}));
  const std::vector<std::vector<std::string>> expected = {
      {"y", "5", "", ""}, {"y", "2", "", ""}, {"z", "2", "red", ""}, {"y", "2", "", "round"}};
  ASSERT_EQ(varied.num_rows(), expected.size());
  for (std::size_t row = 0; row < expected.size(); ++row) {
    for (std::size_t column = 0; column < 4; ++column) {
      EXPECT_EQ(varied.text(row, varied.columns()[column]), expected[row][column])
          << row << ' ' << column;
    }
    EXPECT_EQ(varied.place_of(row, "color"), "x.csv: line 3: color");
  }
  EXPECT_EQ(varied.place(), "x.csv");
  EXPECT_EQ(table.num_rows(), 2U);
  EXPECT_FALSE(table.has_column("color"));
}

}  // namespace
}  // namespace ptdp
