// Tests of tables as text.
#include "planner/text_table.h"

#include <gtest/gtest.h>

namespace ptdp {
namespace {

struct Fruit {
  std::string name;
  int count = 0;
};

TEST(TextTable, AlignsCellsUnderTheirHeadings) {
  const std::vector<TextColumn<Fruit>> columns = {
      {"fruit", -8, [](const Fruit& fruit) { return fruit.name; }},
      {"count", 6, [](const Fruit& fruit) { return std::to_string(fruit.count); }},
      {"remark", 0, [](const Fruit& fruit) { return fruit.count > 1 ? "many" : ""; }, 2}};
  EXPECT_EQ(text_table<Fruit>(columns, {{"apple", 12}, {"blackberry", 1}}),
            "fruit     count  remark\n"
            "apple        12  many\n"
            "blackberry      1  \n");
  EXPECT_EQ(text_table<Fruit>(columns, {}), "fruit     count  remark\n");
}

}  // namespace
}  // namespace ptdp
