// Tests of CSV tables written and read column by column.
#include "cost_model/text/csv_columns.h"

#include <gtest/gtest.h>

#include "cost_model/text/csv_table.h"

namespace ptdp {
namespace {

const std::vector<CsvColumn<int>> kNumberAndText = {
    {"number", [](int row) { return std::to_string(row); }},
    {"text", [](int row) { return row == 1 ? "a, \"b\"\nc" : ""; }}};

TEST(CsvText, HasAHeaderAndALineForEachRow) {
  EXPECT_EQ(csv_text(kNumberAndText, std::vector<int>{}), "number,text\n");
  EXPECT_EQ(csv_text(kNumberAndText, {1, 22}), "number,text\n1,\"a, \"\"b\"\"\nc\"\n22,\n");
}

TEST(CsvText, ReadsBackAsItWas) {
  const CsvTable table = CsvTable::from_text(csv_text(kNumberAndText, {1, 22}), "test.csv");
  ASSERT_EQ(table.num_rows(), 2);
  EXPECT_EQ(table.text(0, "number"), "1");
  EXPECT_EQ(table.text(0, "text"), "a, \"b\"\nc");
  EXPECT_EQ(table.text(1, "text"), "");
}

TEST(CsvField, IsInQuotesWhereItMustBe) {
  EXPECT_EQ(csv_field("core_attn+mlp"), "core_attn+mlp");
  EXPECT_EQ(csv_field("tp=8 pp=2"), "\"tp=8 pp=2\"");
  EXPECT_EQ(csv_field("a\rb"), "\"a\rb\"");
}

}  // namespace
}  // namespace ptdp
