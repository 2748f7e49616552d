// Tests of what is made of a command's table: help, man page, the document of its flags.
#include "tools/shared/command_table.h"

#include <gmock/gmock.h>

#include <exception>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ptdp {
namespace {

using nlohmann::json;
using testing::HasSubstr;

/// Returns a table with every kind of flag and text that roff would take for its own.
CommandTable some_table() {
  boost::program_options::options_description job("the job");
  job.add_options()("runs", texts_value("FILE"), "files")(
      "format", text_value("FORMAT", {"text", "json"}), ".json is no request, nor is C:\\dir");
  boost::program_options::options_description rest("the rest");
  rest.add_options()("output,o", text_value("FILE"), "where to")("help,h", "this text")(
      "version", "the version");
  return {.name = "ptdp-sim",
          .usage =
              "usage: ptdp-sim plan.json\n       ptdp-sim --runs FILE\n\nSimulates.\n\n"
              "examples:\n  ptdp-sim a.json\n\n",
          .groups = {{"the job", job}, {"the rest", rest}},
          .operand = {.name = "FILE"}};
}

std::optional<std::string> answer(const std::vector<std::string>& arguments) {
  std::vector<const char*> texts = {"ptdp-sim"};
  for (const std::string& argument : arguments) {
    texts.push_back(argument.c_str());
  }
  const CommandTable table = some_table();
  return standard_answer(CommandLine(static_cast<int>(texts.size()), texts.data(), table.flags()),
                         table);
}

TEST(StandardAnswer, IsTheUsageOrTheVersionWhereOneIsAskedFor) {
  EXPECT_FALSE(answer({"plan.json", "-o", "x"}).has_value());
  EXPECT_THAT(
      answer({"--version"}).value(),
      testing::MatchesRegex("ptdp-sim [0-9.]+\nbuilt with .*\nlibraries: .*\nruntime: .*\n"));
  for (const std::vector<std::string>& asked :
       std::vector<std::vector<std::string>>{{"-h"},
                                             {"--help"},
                                             {"plan.json", "--help"},
                                             {"--help", "-o", "x"},
                                             {"--help", "all"},
                                             {"--help", "plan.json", "-o", "x"}}) {
    EXPECT_THAT(answer(asked).value(),
                testing::AllOf(testing::StartsWith("usage: ptdp-sim plan.json\n"),
                               HasSubstr("--format FORMAT"), HasSubstr("the rest:")));
  }
}

TEST(StandardAnswer, HasTheHelpOfOneFlag) {
  const std::string alone = answer({"--help", "output"}).value();
  EXPECT_THAT(alone, testing::MatchesRegex(" +-o \\[ --output \\] FILE +where to\n"));
  for (const std::vector<std::string>& asked :
       std::vector<std::vector<std::string>>{{"--help", "--output"},
                                             {"-h", "-o"},
                                             {"--help", "o"},
                                             {"--output", "--help"},
                                             {"plan.json", "--help", "--output"}}) {
    EXPECT_EQ(answer(asked).value(), alone) << asked.front();
  }
}

TEST(StandardAnswer, RefusesOtherWordsBehindHelp) {
  const auto message = [](const std::vector<std::string>& asked) {
    try {
      (void)answer(asked);
    } catch (const std::exception& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string expected =
      "--help: expected the name of a flag or command, all, man or json, got ";
  EXPECT_EQ(message({"--help", "plan.json"}), expected + "\"plan.json\"");
  EXPECT_EQ(message({"--help", "--outptu"}), expected + "\"outptu\"; did you mean \"output\"?");
}

// By hand, of groff_man(7): requests at the start of a line, backslashes and hyphens are escaped.
TEST(ManPage, EscapesWhatRoffWouldTakeForItsOwn) {
  const std::string page = answer({"--help", "man"}).value();
  EXPECT_THAT(page, testing::StartsWith(".TH PTDP\\-SIM 1 "));
  EXPECT_THAT(page, HasSubstr(".SH NAME\nptdp\\-sim \\- simulate a plan's step"));
  EXPECT_THAT(
      page,
      HasSubstr(".SH SYNOPSIS\n.nf\nptdp\\-sim plan.json\nptdp\\-sim \\-\\-runs FILE\n.fi\n"));
  EXPECT_THAT(page, HasSubstr(".PP\nSimulates.\n.PP\n.nf\nexamples:\n  ptdp\\-sim a.json\n.fi\n"));
  EXPECT_THAT(page,
              HasSubstr(".TP\n\\fB\\-\\-format\\fR \\fIFORMAT\\fR\n\\&.json is no request, nor is "
                        "C:\\edir\n"));
  EXPECT_THAT(page,
              HasSubstr(".SS the rest\n.TP\n\\fB\\-o\\fR, \\fB\\-\\-output\\fR \\fIFILE\\fR\n"));
  EXPECT_THAT(page, HasSubstr(".SH EXIT STATUS\n"));
}

TEST(FlagsDocument, SaysOfEachFlagWhatItTakes) {
  const json document = json::parse(answer({"--help", "json"}).value());
  EXPECT_EQ(document["schema"], "ptdp.flags/1");
  EXPECT_EQ(document["command"], "ptdp-sim");
  ASSERT_EQ(document["flags"].size(), 5);
  const json expected_runs = {{"flag", "runs"},           {"short", ""},     {"value", "FILE"},
                              {"choices", json::array()}, {"repeats", true}, {"group", "the job"},
                              {"help", "files"}};
  EXPECT_EQ(document["flags"][0], expected_runs);
  EXPECT_EQ(document["flags"][1]["choices"], json({"text", "json"}));
  EXPECT_EQ(document["flags"][2]["short"], "o");
  EXPECT_EQ(document["flags"][3]["value"], "") << "a switch takes nothing";
  EXPECT_EQ(document["flags"][3]["repeats"], false);
}

}  // namespace
}  // namespace ptdp
