// Files that are not the JSON they should be: cut short, corrupted, repeated or misspelled keys,
// encodings.
#include <gtest/gtest.h>

#include <random>

#include "tests/support/commands.h"

namespace ptdp {
namespace {

using nlohmann::ordered_json;

ProgramRun run_model(const std::string& text) {
  return run_plan_with({.model = text});
}

/// Returns ASCII text as UTF-16.
std::string utf16(const std::string& text, bool is_big_endian) {
  std::string result;
  for (const char c : text) {
    result += is_big_endian ? std::string{'\0', c} : std::string{c, '\0'};
  }
  return result;
}

// Every byte where a command starts fast; the fuzz target cuts its models anywhere, sanitized.
TEST(ModelFile, TruncatedAtAnyByteIsRefused) {
  const std::string text = tiny_model();
  const std::size_t end = text.rfind('}');
  const TemporaryDirectory directory;
  for (std::size_t length = 0; length <= end; length += kIsSanitized ? 5 : 1) {
    const auto file = directory.file("model.json", text.substr(0, length));
    ASSERT_TRUE(is_refused(run_plan({"--gpus", "8", "--model", file.string()}), {"model.json"}))
        << "after " << length << " bytes";
  }
}

// The fuzz targets do this a million times; here it goes through the built command.
TEST(ModelFile, WithAFlippedByteIsRefusedOrPlanned) {
  const std::string text = tiny_model();
  std::mt19937 random(1);  // the same flips every time
  for (int flip = 0; flip < (kIsSanitized ? 20 : 80); ++flip) {
    std::string flipped = text;
    const std::size_t at = random() % text.size();
    flipped[at] = static_cast<char>(static_cast<unsigned char>(flipped[at]) ^ (1U << random() % 8));
    const ProgramRun run = run_model(flipped);
    ASSERT_TRUE(run.status == kBadInput ? is_refused(run) : answers(run)) << "byte " << at << ":\n"
                                                                          << flipped;
  }
}

TEST(ModelFile, ThatIsNotJsonIsRefusedWithLineAndColumn) {
  const std::string text = tiny_model();
  const std::vector<std::string> rows = {replaced(text, "4,", "4"),
                                         replaced(text, "16\n}", "16,\n}"),
                                         replaced(text, "\"name\"", "name"),
                                         replaced(text, "4", "04"),
                                         replaced(text, "4", "+4"),
                                         replaced(text, "4", "0x4"),
                                         replaced(text, "4", ".4"),
                                         replaced(text, "{", "{ // remark\n"),
                                         text + text,
                                         text + "x"};
  for (const std::string& row : rows) {
    EXPECT_TRUE(is_refused(run_model(row), {"model.json: line ", ", column "})) << row;
  }
}

TEST(ModelFile, ThatIsNotAnObjectIsRefused) {
  for (const char* row : {"null", "true", "1", "\"gpt-tiny\"", "[]", "[{}]", "{}"}) {
    EXPECT_TRUE(is_refused(run_model(row), {"model.json"})) << row;
  }
}

TEST(ModelFile, WithARepeatedKeyIsRefusedNamingIt) {
  for (const char* repeated : {"num_layers", "num\\u005flayers"}) {  // the second is the first
    const std::string text = replaced(tiny_model(), R"("hidden_size")",
                                      '"' + std::string(repeated) + R"(": 8, "hidden_size")");
    EXPECT_TRUE(is_refused(run_model(text), {"model.json", "duplicate", "num_layers"})) << repeated;
  }
}

// nvlink and nic have the same keys: "hop_latency_us" alone says nothing.
TEST(ClusterFile, WithARepeatedNestedKeyIsRefusedSayingWhere) {
  const std::string text =
      with_literal(selene_cluster(), "/nic/hop_latency_us", R"(14, "hop_latency_us": 15)");
  const ProgramRun run = run_plan_with({.cluster = text});
  EXPECT_TRUE(is_refused(run, {"duplicate", "hop_latency_us"}));
  EXPECT_TRUE(run.errors.find("nic") != std::string::npos ||
              run.errors.find("line") != std::string::npos)
      << run.errors;
}

TEST(ModelFile, WithAnUnknownKeyIsRefusedWithANearMiss) {
  const std::string text =
      replaced(tiny_model(), R"("hidden_size")", R"("kv_chanels": 32, "hidden_size")");
  EXPECT_TRUE(
      is_refused(run_model(text), {"model.json", "kv_chanels", R"(did you mean "kv_channels"?)"}));
}

// The commonest typo: then a key is missing too, but what helps is the one that is wrong.
TEST(ModelFile, WithAMisspeltRequiredKeyIsRefusedNamingTheMisspelling) {
  const std::string text = replaced(tiny_model(), "num_layers", "num_leyers");
  EXPECT_TRUE(is_refused(run_model(text), {"model.json", "num_leyers", "num_layers"}));
}

TEST(ModelFile, WithAnUnknownKeyOfControlCharactersIsRefusedInPrintableText) {
  const std::string text =
      replaced(tiny_model(), "\"num_layers\": 4,", R"("num_layers": 4, "a\u001b[2J\nb\u0000": 1,)");
  EXPECT_TRUE(is_refused(run_model(text), {"model.json"}));
}

TEST(InputFile, WithoutAnyOneOfItsKeysIsRefusedNamingIt) {
  ordered_json model = ordered_json::parse(tiny_model());
  model.erase("home");  // which has a default
  for (const auto& item : model.items()) {
    ordered_json less = model;
    less.erase(item.key());
    EXPECT_TRUE(is_refused(run_model(less.dump()), {"model.json", item.key()})) << item.key();
  }
}

TEST(InputFile, OfAnotherSchemaIsRefusedSayingWhich) {
  struct Row {
    const char* schema;
    bool is_text;
  };
  for (const Row& row : {Row{"\"ptdp.model/0\"", true}, Row{"\"ptdp.model/2\"", true},
                         Row{"\"ptdp.cluster/1\"", true}, Row{"\"ptdp.plan/1\"", true},
                         Row{"\"\"", false}, Row{"1", false}, Row{"null", false}}) {
    const std::string text = with_literal(ordered_json::parse(tiny_model()), "/schema", row.schema);
    EXPECT_TRUE(is_refused(run_model(text), {"model.json", "schema", row.schema})) << row.schema;
    EXPECT_TRUE(!row.is_text || is_refused(run_model(text), {"ptdp.model/1"})) << row.schema;
  }
}

TEST(InputFile, OfAnotherKindIsRefused) {
  const std::string model = tiny_model();
  const std::string cluster = selene_cluster().dump();
  EXPECT_TRUE(is_refused(run_plan_with({.model = cluster}), {"model.json", "schema"}));
  EXPECT_TRUE(is_refused(run_plan_with({.cluster = model}), {"cluster.json", "schema"}));
  EXPECT_TRUE(is_refused(run_plan_with({.stack = model}), {"stack.json", "schema"}));
  EXPECT_TRUE(is_refused(run_show_with(model), {"plan.json", "schema"}));
}

TEST(ModelFile, WithAByteOrderMarkIsRead) {
  const ProgramRun plain = run_model(tiny_model());
  const ProgramRun marked = run_model("\xEF\xBB\xBF" + tiny_model());
  EXPECT_TRUE(succeeds(marked));
  EXPECT_EQ(marked.output.size(), plain.output.size());
}

TEST(ModelFile, WithCarriageReturnsIsRead) {
  std::string text;
  for (const char c : tiny_model()) {
    text += c == '\n' ? "\r\n" : std::string(1, c);
  }
  EXPECT_TRUE(succeeds(run_model(text)));
}

// 400 000 empty objects in a list, 1.2 MB: a parser that looks at all of them for each takes 20 s.
TEST(ModelFile, OfManyObjectsIsRefusedInBoundedTime) {
  std::string text = R"({"a":[)";
  for (int i = 0; i < 400'000; ++i) {
    text += "{},";
  }
  const ProgramRun run = run_model(text + "0]}");
  EXPECT_TRUE(is_refused(run, {"model.json", "schema"}));
  EXPECT_LT(run.cpu_seconds, kRunawaySeconds);
}

TEST(ModelFile, InUtf16IsRefusedWithAHint) {
  const std::string text = tiny_model();
  for (const std::string& row : {"\xFF\xFE" + utf16(text, false), "\xFE\xFF" + utf16(text, true),
                                 utf16(text, false), utf16(text, true)}) {
    EXPECT_TRUE(is_refused(run_model(row), {"model.json", "UTF-16", "UTF-8"})) << row.substr(0, 8);
  }
}

TEST(ModelFile, WithInvalidUtf8IsRefused) {
  // A stray continuation, a cut sequence, an overlong slash, a surrogate, beyond U+10FFFF.
  for (const char* bad :
       {"\x80", "\xC3(", "\xC0\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xFF", "\\ud800"}) {
    for (const char* key : {"\"gpt-tiny\"", "\"num_layers\"", "\"ours: "}) {
      const std::string text = replaced(tiny_model(), key, std::string(key).insert(2, bad));
      EXPECT_TRUE(is_refused(run_model(text), {"model.json"})) << key << " with " << bad;
    }
  }
}

TEST(ModelFile, WithANulIsRefusedWhereverItStands) {
  const std::string text = tiny_model();
  const std::string nul(1, '\0');
  for (const std::string& row :
       {text + nul, text + nul + "{}", text + nul + "\n", replaced(text, "tiny", nul + "tiny"),
        replaced(text, "tiny", "\\u0000tiny"), replaced(text, "ours", "\\u0000ours"),
        replaced(text, "  \"num", nul + " \"num")}) {
    EXPECT_TRUE(is_refused(run_model(row), {"model.json"})) << testing::PrintToString(row);
  }
}

TEST(ModelFile, WithControlCharactersInATextIsRefused) {
  for (const char* control : {"\\n", "\\r", "\\t", "\\b", "\\u001b[31m", "\\u007f"}) {
    for (const char* text : {"gpt", "ours"}) {
      const std::string model = replaced(tiny_model(), text, std::string(text) + control);
      EXPECT_TRUE(is_refused(run_model(model), {"model.json"})) << text << control;
    }
  }
}

TEST(InputFile, NamedLikeAPathIsRefused) {
  for (const char* name : {"", " ", ".", "..", "../x", "a/b", "/etc/passwd", "a b", "a\\\\b",
                           "\\u00fc", ".hidden", "~"}) {
    const std::string literal = '"' + std::string(name) + '"';
    const std::string model = with_literal(ordered_json::parse(tiny_model()), "/name", literal);
    const std::string cluster = with_literal(selene_cluster(), "/name", literal);
    const std::string stack = with_literal(megatron_stack(), "/name", literal);
    EXPECT_TRUE(is_refused(run_model(model), {"model.json: name"})) << name;
    EXPECT_TRUE(is_refused(run_plan_with({.cluster = cluster}), {"cluster.json: name"})) << name;
    EXPECT_TRUE(is_refused(run_plan_with({.stack = stack}), {"stack.json: name"})) << name;
  }
}

// A cluster names files of the profiles' directory; the names must not lead out of it.
TEST(ClusterFile, WhosePartsAreNamedByPathIsRefused) {
  for (const char* key : {"gpu", "all_reduce_curves", "default_stack"}) {
    for (const char* name : {"\"../gpus/a100-80gb-sxm\"", "\"/dev/zero\"", "\"nothing\"", "\"\""}) {
      const std::string text = with_literal(selene_cluster(), "/" + std::string(key), name);
      EXPECT_TRUE(is_refused(run_plan_with({.cluster = text}))) << key << " " << name;
    }
  }
}

}  // namespace
}  // namespace ptdp
