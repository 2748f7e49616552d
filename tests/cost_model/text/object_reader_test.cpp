// Tests of how JSON objects are read and refused.
#include "cost_model/text/object_reader.h"

#include <gmock/gmock.h>

#include <functional>
#include <optional>
#include <utility>

#include "cost_model/inputs/parallel_config.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

constexpr NamedValues<ScheduleKind> kTwoSchedules =
    NamedValues<ScheduleKind>(kScheduleNames).first(2);

using testing::ElementsAre;
using testing::StartsWith;

ObjectReader reader_of(std::string_view text) {
  return ObjectReader::from_text(text, "x.json");
}

/// Returns the value that a member function of ObjectReader reads.
template <class Value, class... Arguments, class... Given>
Value value_of(void (ObjectReader::*member)(const std::string&, Value&, Arguments...),
               const std::string& json, Given... given) {
  ObjectReader reader = reader_of(R"({"a": )" + json + "}");
  Value value{};
  (reader.*member)("a", value, given...);
  return value;
}

/// Returns the message of `read` about {"a": json}.
std::string refusal(const std::string& json, const std::function<void(ObjectReader&)>& read) {
  return message_of([&] {
    ObjectReader reader = reader_of(R"({"a": )" + json + "}");
    read(reader);
    return 0;
  });
}

void read_text(ObjectReader& reader) {
  std::string value;
  reader.text("a", value);
}
void read_name(ObjectReader& reader) {
  std::string value;
  reader.name("a", value);
}
void read_flag(ObjectReader& reader) {
  bool value = false;
  reader.flag("a", value);
}
void read_count(ObjectReader& reader) {
  std::int64_t value = 0;
  reader.count("a", value, 1, 10);
}
void read_number(ObjectReader& reader) {
  double value = 0.0;
  reader.number("a", value, {.low = 0.5, .high = 8.0, .hint = "apples"});
}
void read_choice(ObjectReader& reader) {
  ScheduleKind value{};
  reader.choice("a", value, kTwoSchedules);
}

TEST(ObjectReader, ReadsValuesOfEveryKind) {
  ObjectReader reader = reader_of(R"({"text": "a \"b\" é", "name": "A100-80GB_x.1+", "flag": true,
      "count": 7, "counts": [1, 2], "number": 2.5, "numbers": [0.5, 1], "latency_us": 3.4,
      "choice": "interleaved", "choices": ["interleaved", "1f1b"]})");
  std::string text;
  reader.text("text", text);
  EXPECT_EQ(text, "a \"b\" é");
  reader.name("name", text);
  EXPECT_EQ(text, "A100-80GB_x.1+");
  bool flag = false;
  reader.flag("flag", flag);
  EXPECT_TRUE(flag);
  int count = 0;
  reader.count("count", count, 0, 10);
  EXPECT_EQ(count, 7);
  std::vector<int> counts;
  reader.counts("counts", counts, 0, 10);
  EXPECT_THAT(counts, ElementsAre(1, 2));
  double number = 0.0;
  reader.number("number", number, {0.0, 10.0});
  EXPECT_EQ(number, 2.5);
  std::vector<double> numbers;
  reader.numbers("numbers", numbers, {0.0, 10.0});
  EXPECT_THAT(numbers, ElementsAre(0.5, 1.0));
  Seconds latency;
  reader.quantity("latency_us", latency, kMicro, {0.0, 10.0});
  EXPECT_DOUBLE_EQ(latency.value(), 0.0000034);
  ScheduleKind schedule{};
  reader.choice("choice", schedule, kTwoSchedules);
  EXPECT_EQ(schedule, ScheduleKind::kInterleaved);
  std::vector<ScheduleKind> schedules;
  reader.choices("choices", schedules, kTwoSchedules);
  EXPECT_THAT(schedules, ElementsAre(ScheduleKind::kInterleaved, ScheduleKind::kOneFOneB));
  EXPECT_NO_THROW(reader.finish());
}

TEST(ObjectReader, ReadsASchemaAndRefusesAnother) {
  const auto message = [](const std::string& text) {
    return message_of([&] {
      reader_of(text).schema("ptdp.test/1", "; ask again");
      return 0;
    });
  };
  EXPECT_EQ(message(R"({"schema": "ptdp.test/1"})"), "nothing was thrown");
  EXPECT_EQ(message(R"({"schema": "ptdp.test/2"})"),
            "x.json: schema: expected \"ptdp.test/1\", got \"ptdp.test/2\"; ask again");
  EXPECT_EQ(message("{}"), "x.json: schema: missing");
}

TEST(ObjectReader, ReadsAPartAndRefusesItsUnknownKeys) {
  ObjectReader reader = reader_of(R"({"part": {"flag": true, "more": 1}})");
  bool flag = false;
  EXPECT_EQ(message_of([&] {
              reader.part("part", [&](ObjectReader& part) { part.flag("flag", flag); });
              return 0;
            }),
            "x.json: part.\"more\": unknown key");
  EXPECT_TRUE(flag);
}

TEST(Held, GivesAnOptionalThatIsReadIntoAValueFirst) {
  std::optional<int> value;
  held(value) = 3;
  held(value) += 1;
  EXPECT_EQ(value, 4);
  EXPECT_EQ(held(std::as_const(value)), 4);
}

TEST(ObjectReader, ReplacesWhatAListHeldBefore) {
  ObjectReader reader = reader_of(R"({"counts": [1], "numbers": [2], "choices": ["1f1b"]})");
  std::vector<int> counts = {7};
  reader.counts("counts", counts, 0, 10);
  EXPECT_THAT(counts, ElementsAre(1));
  std::vector<double> numbers = {7.0};
  reader.numbers("numbers", numbers, {0.0, 10.0});
  EXPECT_THAT(numbers, ElementsAre(2.0));
  std::vector<ScheduleKind> schedules = {ScheduleKind::kInterleaved};
  reader.choices("choices", schedules, kTwoSchedules);
  EXPECT_THAT(schedules, ElementsAre(ScheduleKind::kOneFOneB));
}

TEST(ObjectReader, NamesAMissingKey) {
  ObjectReader reader = reader_of("{}");
  EXPECT_EQ(message_of([&] {
              read_text(reader);
              return 0;
            }),
            "x.json: a: missing");
}

TEST(ObjectReader, RefusesTextThatIsNotPrintable) {
  for (const auto& [json, shown] :
       std::vector<std::pair<std::string, std::string>>{{"5", "5"},
                                                        {"null", "null"},
                                                        {R"("")", R"("")"},
                                                        {R"("a\nb")", R"("a\nb")"},
                                                        {R"("a\u0000b")", R"("a\u0000b")"},
                                                        {R"("\u001b[2J")", R"("\u001b[2J")"},
                                                        {R"("\u007f")", R"("\u007f")"}}) {
    EXPECT_EQ(refusal(json, read_text), "x.json: a: expected printable text, got " + shown) << json;
  }
}

// U+009B starts a terminal's control sequence, as ESC [ does.
TEST(ObjectReader, RefusesControlCharactersBeyondAscii) {
  EXPECT_EQ(refusal(R"("\u009b2J")", read_text),
            R"(x.json: a: expected printable text, got "\u009b2J")");
}

TEST(ObjectReader, RefusesNamesThatAreNotSafeInAFileName) {
  for (const std::string text : {"", ".", "..", ".hidden", "a b", "../a", "a/b", "a\\\\b", "é"}) {
    EXPECT_THAT(refusal('"' + text + '"', read_name),
                StartsWith("x.json: a: expected a name of letters, digits and . _ + -, got \""))
        << text;
  }
  EXPECT_EQ(refusal("5", read_name),
            "x.json: a: expected a name of letters, digits and . _ + -, got 5");
}

TEST(ObjectReader, RefusesFlagsThatAreNotTrueOrFalse) {
  for (const std::string json : {"1", "\"true\"", "null"}) {
    EXPECT_EQ(refusal(json, read_flag), "x.json: a: expected true or false, got " + json);
  }
}

TEST(ObjectReader, RefusesCountsThatAreNotWholeOrOutOfRange) {
  for (const std::string json :
       {"0", "11", "-1", "1.0", "1.5", "1e0", "\"1\"", "true", "null", "[1]", "9223372036854775808",
        "18446744073709551615", "-9223372036854775808"}) {
    const std::string message = refusal(json, read_count);
    EXPECT_THAT(message, StartsWith("x.json: a: expected a whole number from 1 to 10, got "))
        << json;
  }
}

TEST(ObjectReader, ShowsTheCountThatItFound) {
  EXPECT_EQ(refusal("18446744073709551615", read_count),
            "x.json: a: expected a whole number from 1 to 10, got 18446744073709551615");
}

TEST(ObjectReader, TakesTheBoundsOfARange) {
  using Count =
      void (ObjectReader::*)(const std::string&, std::int64_t&, std::int64_t, std::int64_t);
  const Count count = &ObjectReader::count;
  EXPECT_EQ(value_of(count, "1", 1, 10), 1);
  EXPECT_EQ(value_of(count, "10", 1, 10), 10);
  EXPECT_EQ(value_of(&ObjectReader::number, "1", Range{1.0, 10.0}), 1.0);
  EXPECT_EQ(value_of(&ObjectReader::number, "10", Range{1.0, 10.0}), 10.0);
}

TEST(ObjectReader, KeepsACountWithinAnInt) {
  const std::string message = refusal("2147483648", [](ObjectReader& reader) {
    int value = 0;
    reader.count("a", value, 1, 10'000'000'000);
  });
  EXPECT_EQ(message, "x.json: a: expected a whole number from 1 to 2147483647, got 2147483648");
}

TEST(ObjectReader, RefusesAListWithACountOutOfRange) {
  const auto read = [](ObjectReader& reader) {
    std::vector<int> values;
    reader.counts("a", values, 1, 10);
  };
  EXPECT_EQ(refusal("[3, 11]", read), "x.json: a: expected a whole number from 1 to 10, got 11");
  EXPECT_EQ(refusal("3", read), "x.json: a: expected an array, got 3");
}

TEST(ObjectReader, SaysWhichUnitANumberIsIn) {
  EXPECT_EQ(refusal("0.1", read_number),
            "x.json: a: expected a number from 0.5 to 8.0 (apples), got 0.1");
  EXPECT_EQ(refusal("9", read_number),
            "x.json: a: expected a number from 0.5 to 8.0 (apples), got 9");
  EXPECT_EQ(refusal("\"1\"", read_number),
            "x.json: a: expected a number from 0.5 to 8.0 (apples), got \"1\"");
}

TEST(ObjectReader, RefusesAListWithANumberOutOfRange) {
  const auto read = [](ObjectReader& reader) {
    std::vector<double> values;
    reader.numbers("a", values, {.low = 0.0, .high = 1.0});
  };
  EXPECT_EQ(refusal("[0.5, 2]", read), "x.json: a: expected a number from 0.0 to 1.0, got 2");
}

TEST(ObjectReader, ListsTheChoices) {
  EXPECT_EQ(refusal("\"gpipe\"", read_choice),
            "x.json: a: expected one of 1f1b, interleaved, got \"gpipe\"");
  EXPECT_EQ(refusal("1", read_choice), "x.json: a: expected one of 1f1b, interleaved, got 1");
}

TEST(ObjectReader, RefusesAListWithAnUnknownChoice) {
  const std::string message = refusal(R"(["1f1b", "1F1B"])", [](ObjectReader& reader) {
    std::vector<ScheduleKind> values;
    reader.choices("a", values, kTwoSchedules);
  });
  EXPECT_EQ(message, "x.json: a: expected one of 1f1b, interleaved, got \"1F1B\"");
}

TEST(ObjectReader, RefusesSomethingElseWhereAnObjectBelongs) {
  const auto child = [](ObjectReader& reader) { (void)reader.child("a"); };
  const auto children = [](ObjectReader& reader) { (void)reader.children("a"); };
  EXPECT_EQ(refusal("3", child), "x.json: a: expected an object, got 3");
  EXPECT_EQ(refusal("{}", children), "x.json: a: expected an array, got {}");
  EXPECT_EQ(refusal("[{}, 3]", children), "x.json: a[1]: expected an object, got 3");
}

TEST(ObjectReader, NamesTheWayToANestedKey) {
  ObjectReader reader = reader_of(R"({"a": {"b": [{}, {"c": {}}]}})");
  ObjectReader inner = std::move(reader.child("a").children("b")[1]);
  EXPECT_EQ(inner.child("c").place_of("d"), "x.json: a.b[1].c.d");
  EXPECT_EQ(inner.child("c").place(), "x.json: a.b[1].c");
}

TEST(ObjectReader, OutlivesTheReaderThatItCameFrom) {
  const auto nested = [] { return reader_of(R"({"a": {"b": 5}})").child("a"); };
  ObjectReader reader = nested();
  int value = 0;
  reader.count("b", value, 0, 10);
  EXPECT_EQ(value, 5);
}

TEST(ObjectReader, RefusesAKeyThatNobodyAskedFor) {
  ObjectReader reader = reader_of(R"({"num_layers": 1, "num_layer": 2})");
  (void)reader.has("num_layers");
  EXPECT_EQ(message_of([&] {
              reader.finish();
              return 0;
            }),
            R"(x.json: "num_layer": unknown key; did you mean "num_layers"?)");
}

TEST(ObjectReader, RefusesAnUnknownKeyOfANestedObject) {
  ObjectReader reader = reader_of(R"({"a": {"b": 1}})");
  const ObjectReader nested = reader.child("a");
  EXPECT_EQ(message_of([&] {
              nested.finish();
              return 0;
            }),
            R"(x.json: a."b": unknown key)");
}

TEST(ObjectReader, AsksWithoutObligation) {
  ObjectReader reader = reader_of(R"({"a": "text"})");
  EXPECT_TRUE(reader.has("a"));
  EXPECT_FALSE(reader.has("b"));
  EXPECT_TRUE(reader.optional("a", false));
  EXPECT_FALSE(reader.optional("b", true));
  EXPECT_TRUE(reader.is_text("a"));
  EXPECT_FALSE(reader_of(R"({"a": 1})").is_text("a"));
  EXPECT_NO_THROW(reader.finish());
}

// 60 characters of the value as it stands in the file, the quote included.
TEST(ObjectReader, CutsLongValuesShort) {
  EXPECT_EQ(refusal('"' + std::string(100, 'x') + '"', read_flag),
            "x.json: a: expected true or false, got \"" + std::string(59, 'x') + "...");
}

// A terminal would obey the escape sequence.
TEST(ObjectReader, ShowsControlCharactersOfKeysAsEscapes) {
  const ObjectReader reader = reader_of(R"({"\u001b[2J": 1})");
  EXPECT_EQ(message_of([&] {
              reader.finish();
              return 0;
            }),
            R"(x.json: "\u001b[2J": unknown key)");
}

TEST(ObjectReader, NamesTheFileThatItReads) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory.file("bad.json", "[1]");
  EXPECT_EQ(message_of([&] { return ObjectReader::from_file(path); }),
            path.string() + ": expected a JSON object, got [1]");
}

TEST(ObjectReader, NamesAFileThatIsNotThere) {
  EXPECT_EQ(message_of([] { return ObjectReader::from_file("/missing.json"); }),
            "/missing.json: cannot be read: No such file or directory");
}

}  // namespace
}  // namespace ptdp
