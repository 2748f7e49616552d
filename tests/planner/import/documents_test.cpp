// Tests of configuration files as dotted keys. Expectations are what PyYAML, tomllib and json of
// Python make of the same texts.
#include "planner/import/documents.h"

#include <gmock/gmock.h>

#include "cost_model/error.h"
#include "planner/import/flag_list.h"

namespace ptdp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

template <class Parse>
std::string refusal_of_document(const Parse& parse, const std::string& text) {
  try {
    return "no error: " + std::to_string(parse(text, "file").size());
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(YamlSettings, HaveDottedKeys) {
  const DocumentSettings settings = yaml_settings(
      "model:\n  hidden_size: 4_096\n  dtype: 'bfloat16'\n  bias: True\n  none: null\n"
      "  empty:\n  ratio: 3e-4\nlist: [a, 2]\nnested: [[a, b], [c]]\n",
      "file");
  EXPECT_THAT(settings,
              UnorderedElementsAre(
                  Pair("model.hidden_size", ElementsAre("4_096")),
                  Pair("model.dtype", ElementsAre("bfloat16")),
                  Pair("model.bias", ElementsAre("true")), Pair("model.ratio", ElementsAre("3e-4")),
                  Pair("list", ElementsAre("a", "2")), Pair("nested", ElementsAre()),
                  Pair("nested.0", ElementsAre("a", "b")), Pair("nested.1", ElementsAre("c"))));
}

// "yes" is true in YAML 1.1, and a text in quotes; so are "null" and "~".
TEST(YamlSettings, TellWordsFromTexts) {
  const DocumentSettings settings =
      yaml_settings("a: yes\nb: 'yes'\nc: off\nd: \"null\"\ne: ~\nf: No\n", "file");
  EXPECT_THAT(settings,
              UnorderedElementsAre(Pair("a", ElementsAre("true")), Pair("b", ElementsAre("yes")),
                                   Pair("c", ElementsAre("false")), Pair("d", ElementsAre("null")),
                                   Pair("f", ElementsAre("false"))));
}

TEST(YamlSettings, TakeTheLastOfEqualKeys) {
  const DocumentSettings settings = yaml_settings("a: {b: 1, c: 2}\na: {b: 3}\n", "file");
  EXPECT_THAT(settings, ElementsAre(Pair("a.b", ElementsAre("3"))));
}

TEST(YamlSettings, FollowAnchorsAndMerges) {
  const DocumentSettings settings =
      yaml_settings("base: &base {tp: 1, pp: 2}\nrun:\n  tp: 4\n  <<: *base\n", "file");
  EXPECT_THAT(settings, UnorderedElementsAre(
                            Pair("base.tp", ElementsAre("1")), Pair("base.pp", ElementsAre("2")),
                            Pair("run.tp", ElementsAre("4")), Pair("run.pp", ElementsAre("2"))));
}

TEST(YamlSettings, RefuseWhatOnlyTheProgramFillsIn) {
  const FlagList settings(yaml_settings("ffn: ${multiply:4, ${.hidden}}\n", "file"), "file");
  try {
    static_cast<void>(settings.count("ffn"));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "file: ffn: expected a value, got \"${multiply:4, ${.hidden}}\", which its "
                 "program fills in");
  }
}

TEST(YamlSettings, RefuseOtherText) {
  EXPECT_THAT(refusal_of_document(yaml_settings, "a: b: c\n"), HasSubstr("file: line 1: "));
  EXPECT_THAT(refusal_of_document(yaml_settings, "- 1\n- 2\n"), HasSubstr("keys and values"));
  EXPECT_THAT(refusal_of_document(yaml_settings, ""), HasSubstr("keys and values"));
  std::string deep;
  for (int i = 0; i < 60; ++i) {
    deep += "{a: ";
  }
  EXPECT_THAT(refusal_of_document(yaml_settings, deep + "1" + std::string(60, '}')),
              HasSubstr("at most 32 keys within each other"));
}

// Nine lists of nine, each made of the one before: 9^9 values.
TEST(YamlSettings, RefuseDocumentsThatGrow) {
  std::string text = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]\n";
  for (int i = 1; i < 9; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + before;
    for (int k = 1; k < 9; ++k) {
      text += ", " + before;
    }
    text += "]\n";
  }
  EXPECT_THAT(refusal_of_document(yaml_settings, text), HasSubstr("at most 100000 values"));
}

// Maps without values grow as well: nine of nine, twelve times over.
TEST(YamlSettings, RefuseEmptyDocumentsThatGrow) {
  std::string text = "a0: &a0 {b: ~}\n";
  for (int i = 1; i < 13; ++i) {
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " {";
    for (int k = 0; k < 9; ++k) {
      text += std::string(k == 0 ? "" : ", ") + "k" + std::to_string(k) + ": *a" +
              std::to_string(i - 1);
    }
    text += "}\n";
  }
  EXPECT_THAT(refusal_of_document(yaml_settings, text), HasSubstr("at most 100000 values"));
}

TEST(TomlSettings, HaveDottedKeys) {
  const DocumentSettings settings = toml_settings(
      "[training]\nseq_len = 8_192\nlr = 3e-4\ncompile = true\ndtype = \"float32\"\n"
      "[model]\nconverters = [\"float8\"]\nparts = [[\"a\", \"b\"], [\"c\"]]\n",
      "file");
  EXPECT_THAT(settings, UnorderedElementsAre(Pair("training.seq_len", ElementsAre("8192")),
                                             Pair("training.lr", ElementsAre("0.0003")),
                                             Pair("training.compile", ElementsAre("true")),
                                             Pair("training.dtype", ElementsAre("float32")),
                                             Pair("model.converters", ElementsAre("float8")),
                                             Pair("model.parts", ElementsAre()),
                                             Pair("model.parts.0", ElementsAre("a", "b")),
                                             Pair("model.parts.1", ElementsAre("c"))));
}

TEST(TomlSettings, RefuseOtherText) {
  EXPECT_THAT(refusal_of_document(toml_settings, "a = 1\nb = \n"), HasSubstr("file: line 2: "));
  EXPECT_THAT(refusal_of_document(toml_settings, "a = 1\na = 2\n"), HasSubstr("file: line 2: "));
}

TEST(TomlSettings, RefuseWhatItsParserDoesNotBear) {
  for (const char* text :
       {"[\r-g", "[=]", "[[,]]", "[ [\n", "a = [\n[1]]\n[{]", "\xEF\xBB\xBF[.a]"}) {
    EXPECT_THAT(refusal_of_document(toml_settings, text),
                HasSubstr("expected a key behind the bracket of a table"))
        << text;
  }
  EXPECT_EQ(refusal_of_document(toml_settings, "a = 1\n[!]"),
            "file: line 2: expected a key behind the bracket of a table");
  EXPECT_EQ(refusal_of_document(toml_settings, "a = 1\n\xC3\xA9 = 2"),
            "file: line 2: expected a string around letters beyond ASCII");
  EXPECT_EQ(refusal_of_document(toml_settings, "\xEF\xBB\xBB\"\""),
            "file: line 1: expected a string around letters beyond ASCII");
  // tomllib reads each of these.
  for (const char* text : {"a = \"\"\"\n[=]\n\"\"\"\"\n", "a = '''\n[=]'''",
                           "a = [\n[1],\n[{b=1}],\n]", "# [=] \xC3\xA9\na = \"\xC3\xA9\"",
                           "a = \"\\\"\"\n[ b . \"c]\" ]\n", "[[ a ]]\nb = '[' # [\n[[a]]\n"}) {
    EXPECT_THAT(refusal_of_document(toml_settings, text), HasSubstr("no error: ")) << text;
  }
}

TEST(JsonSettings, HaveDottedKeys) {
  const DocumentSettings settings = json_settings(
      R"({"zero_optimization": {"stage": 3, "bucket": 5e8}, "fp16": {"enabled": false},
          "none": null, "betas": [0.8, 0.999], "device": "cpu"})",
      "file");
  EXPECT_THAT(settings,
              UnorderedElementsAre(Pair("zero_optimization.stage", ElementsAre("3")),
                                   Pair("zero_optimization.bucket", ElementsAre("500000000.0")),
                                   Pair("fp16.enabled", ElementsAre("false")),
                                   Pair("betas", ElementsAre("0.8", "0.999")),
                                   Pair("device", ElementsAre("cpu"))));
}

TEST(JsonSettings, RefuseOtherText) {
  EXPECT_THAT(refusal_of_document(json_settings, "{\"a\": 1,}"), HasSubstr("file: line 1"));
  EXPECT_THAT(refusal_of_document(json_settings, "[1]"), HasSubstr("JSON object"));
}

}  // namespace
}  // namespace ptdp
