// Tests of how JSON objects are written.
#include "cost_model/text/object_writer.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "cost_model/inputs/parallel_config.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

/// A struct for lists of structs, as ObjectWriter::objects takes them.
struct Point {
  double x = 0.0;
};
template <class Fields>
void describe(Fields& fields, Described<Fields, Point>& point) {
  fields.number("x", point.x, {-10.0, 10.0});
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr Range kAnything = {-kInfinity, kInfinity};

std::string text_of(double value) {
  ObjectWriter writer;
  writer.number("a", value);
  return writer.dump();
}

double read_back(const std::string& text) {
  double value = 0.0;
  ObjectReader::from_text(text, "test").number("a", value, kAnything);
  return value;
}

/// Calls `check` with doubles of every magnitude: random bits, the same on every run.
template <class Check>
void for_random_doubles(const Check& check) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 10'000; ++i) {
    const auto value = std::bit_cast<double>(random());
    if (std::isfinite(value)) {
      check(value);
    }
  }
}

TEST(ObjectWriter, WritesEveryKindOfValueInTheOrderOfTheCalls) {
  ObjectWriter writer;
  writer.schema("ptdp.test/1");
  writer.text("text", "a \"b\" é\n");
  writer.name("name", "x-1");
  writer.texts("texts", {"b", "a"});
  writer.flag("flag", true);
  writer.count("count", std::int64_t{1} << 62);
  writer.counts("counts", {2, 1});
  writer.number("number", 2.5);
  writer.numbers("numbers", {1.0, 0.5});
  writer.quantity("latency_us", Seconds(0.001), kMicro);
  writer.choice("choice", ScheduleKind::kInterleaved, NamedValues<ScheduleKind>(kScheduleNames));
  writer.choices("choices", std::vector{ScheduleKind::kInterleaved, ScheduleKind::kOneFOneB},
                 NamedValues<ScheduleKind>(kScheduleNames));
  writer.object("object", Point{.x = 1.5});
  writer.objects("objects", std::vector<Point>{{.x = 2.5}, {.x = -1.0}});
  writer.part("part", [](ObjectWriter& part) { part.flag("flag", false); });
  EXPECT_EQ(writer.dump(), R"({
  "schema": "ptdp.test/1",
  "text": "a \"b\" é\n",
  "name": "x-1",
  "texts": [
    "b",
    "a"
  ],
  "flag": true,
  "count": 4611686018427387904,
  "counts": [
    2,
    1
  ],
  "number": 2.5,
  "numbers": [
    1.0,
    0.5
  ],
  "latency_us": 1000.0,
  "choice": "interleaved",
  "choices": [
    "interleaved",
    "1f1b"
  ],
  "object": {
    "x": 1.5
  },
  "objects": [
    {
      "x": 2.5
    },
    {
      "x": -1.0
    }
  ],
  "part": {
    "flag": false
  }
}
)");
}

TEST(ObjectWriter, WritesEmptyListsAndObjects) {
  EXPECT_EQ(ObjectWriter().dump(), "{}\n");
  ObjectWriter writer;
  writer.counts("counts", {});
  writer.children("children", {});
  EXPECT_EQ(writer.dump(), "{\n  \"counts\": [],\n  \"children\": []\n}\n");
}

TEST(ObjectWriter, LeavesNoTraceOfAUnitConversion) {
  // As doubles, 0.1 + 0.2 = 0.30000000000000004 and 3.4e-6 / 1e-6 = 3.4000000000000004 or 3.4.
  EXPECT_EQ(text_of(0.1 + 0.2), "{\n  \"a\": 0.3\n}\n");
  for (const double us : {3.4, 14.0, 18.0, 44.21, 0.7, 1e-3, 123456.789}) {
    ObjectWriter writer;
    writer.quantity("a", microseconds(us), kMicro);
    EXPECT_EQ(writer.dump(), text_of(us)) << us;
  }
}

// Half a unit of the fifteenth digit is at most 5e-15 of the value; doubles round by 1.1e-16 on
// top.
TEST(ObjectWriter, KeepsFifteenDigits) {
  for_random_doubles([](double value) {
    if (std::abs(value) > 1e-290) {  // below, doubles have fewer digits themselves
      EXPECT_NEAR(read_back(text_of(value)) / value, 1.0, 5.5e-15) << value;
    }
  });
}

TEST(ObjectWriter, WritesWhatItReadBackAsTheSameBytes) {
  for_random_doubles([](double value) {
    if (std::abs(value) > 1e-290) {  // readers refuse denormal numbers
      const std::string once = text_of(value);
      EXPECT_EQ(text_of(read_back(once)), once);
    }
  });
}

TEST(ObjectWriter, KeepsTheExtremesOfDoubles) {
  for (const double value : {0.0, -1.0, 1e-300, 1.7e308, -1.7e308}) {
    EXPECT_DOUBLE_EQ(read_back(text_of(value)), value);
  }
}

// 1.7976931348623157e308 rounded up to fifteen digits is no double.
TEST(ObjectWriter, KeepsTheLargestDouble) {
  const double largest = std::numeric_limits<double>::max();
  EXPECT_NEAR(read_back(text_of(largest)) / largest, 1.0, 5.5e-15);
}

TEST(ObjectWriter, RefusesNumbersThatJsonCannotHold) {
  for (const double value : {kNan, kInfinity, -kInfinity}) {
    EXPECT_EQ(message_of([&] { return text_of(value); }, ExitStatus::kBug),
              "\"a\" is not a finite number")
        << value;
    EXPECT_EQ(message_of(
                  [&] {
                    ObjectWriter writer;
                    writer.numbers("b", {1.0, value});
                    return 0;
                  },
                  ExitStatus::kBug),
              "\"b\" is not a finite number")
        << value;
  }
}

TEST(ObjectWriter, LeavesOptionalKeysToTheCaller) {
  EXPECT_TRUE(ObjectWriter::optional("a", true));
  EXPECT_FALSE(ObjectWriter::optional("a", false));
}

}  // namespace
}  // namespace ptdp
