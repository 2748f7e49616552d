// Tests that all commands describe their flags alike: in help, man page, document and completion;
// and of ptdp, all commands under one name.
#include <gmock/gmock.h>

#include <filesystem>
#include <regex>
#include <set>
#include <sstream>

#include "tests/support/commands.h"

namespace ptdp {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

const std::string kPrograms = PTDP_PROGRAMS;

class EveryCommand : public testing::TestWithParam<std::string> {
 protected:
  /// Runs the command.
  static ProgramRun run(const std::vector<std::string>& arguments) {
    return run_program(kPrograms + "/" + GetParam(), arguments, {});
  }
};

/// Returns the flags that a help text describes: what boost prints at the starts of lines.
std::set<std::string> flags_in_help(const std::string& help) {
  static const std::regex line(R"(\n  (?:-\w \[ )?(--[\w-]+)[ \n])");
  std::set<std::string> flags;
  for (std::sregex_iterator match(help.begin(), help.end(), line), end; match != end; ++match) {
    flags.insert((*match)[1]);
  }
  return flags;
}

TEST_P(EveryCommand, DescribesEachFlagInHelpManPageDocumentAndCompletion) {
  const std::set<std::string> in_help = flags_in_help(run({"--help", "all"}).output);
  EXPECT_THAT(in_help, testing::IsSupersetOf({"--help", "--version"}));
  std::set<std::string> in_page;
  const std::string page = run({"--help", "man"}).output;
  static const std::regex bold(R"(\\fB\\-\\-([\w\\-]+)\\fR)");
  for (std::sregex_iterator match(page.begin(), page.end(), bold), end; match != end; ++match) {
    in_page.insert("--" + std::regex_replace((*match)[1].str(), std::regex(R"(\\)"), ""));
  }
  EXPECT_EQ(in_page, in_help);
  std::set<std::string> in_document;
  const json document = json::parse(run({"--help", "json"}).output);
  for (const json& flag : document["flags"]) {
    in_document.insert("--" + flag["flag"].get<std::string>());
    EXPECT_NE(flag["help"], "") << flag;
  }
  EXPECT_EQ(in_document, in_help);
  std::set<std::string> in_completion;
  std::istringstream lines(run({"__complete", "--"}).output);
  for (std::string line; std::getline(lines, line);) {
    in_completion.insert(line.substr(0, line.find('\t')));
  }
  EXPECT_EQ(in_completion, in_help);
}

TEST_P(EveryCommand, SaysWhatItWasBuiltWith) {
  EXPECT_THAT(run({"--version"}).output,
              testing::AllOf(StartsWith(GetParam() + " "), HasSubstr("\nbuilt with "),
                             HasSubstr("\nlibraries: Boost "), HasSubstr("\nruntime: ")));
}

INSTANTIATE_TEST_SUITE_P(Of, EveryCommand,
                         testing::Values("ptdp", "ptdp-plan", "ptdp-sim", "ptdp-run",
                                         "ptdp-validate", "ptdp-calibrate", "ptdp-profile"),
                         [](const auto& command) {
                           std::string name = command.param;
                           std::erase(name, '-');
                           return name;
                         });

ProgramRun run_ptdp(const std::vector<std::string>& arguments) {
  return run_program(kPrograms + "/ptdp", arguments, {});
}

TEST(Ptdp, IsEachCommandUnderOneName) {
  const std::vector<std::string> list = {"list", "gpus"};
  const ProgramRun by_word = run_ptdp({"plan", "list", "gpus"});
  EXPECT_TRUE(succeeds(by_word));
  EXPECT_EQ(by_word.output, run_plan(list).output);
  for (const char* word : {"plan", "sim", "run", "validate", "calibrate", "profile"}) {
    EXPECT_THAT(run_ptdp({word, "--version"}).output,
                StartsWith("ptdp-" + std::string(word) + " "));
    const ProgramRun refused = run_ptdp({word, "--no-such-flag"});
    EXPECT_EQ(refused.status, kBadInput);
    EXPECT_THAT(refused.errors, StartsWith("ptdp " + std::string(word) + ": unknown flag"));
  }
}

// What is to be copied is what was typed; what a file holds goes by the commands' own names.
TEST(Ptdp, TellsCommandsAsTheyAreTyped) {
  const std::vector<std::string> job = {"--gpus", "16", "--model", "1.7B"};
  std::vector<std::string> typed = {"plan"};
  typed.insert(typed.end(), job.begin(), job.end());
  EXPECT_THAT(run_ptdp(typed).output,
              HasSubstr("\nNext: ptdp plan --gpus 16 --model 1.7B -o plan.json"));
  EXPECT_THAT(run_plan(job).output,
              HasSubstr("\nNext: ptdp-plan --gpus 16 --model 1.7B -o plan.json"));
  EXPECT_THAT(run_ptdp({"plan", "--gpus", "8", "--model", "none"}).errors,
              testing::AllOf(StartsWith("ptdp plan: "), HasSubstr("(`ptdp plan list models` ")));
  EXPECT_THAT(run_ptdp({"run"}).errors, HasSubstr("such as ptdp run plan.json"));
  EXPECT_THAT(
      run_ptdp({"sim", "--help"}).output,
      testing::AllOf(StartsWith("usage: ptdp sim plan.json"), testing::Not(HasSubstr("ptdp-sim"))));
  for (const char* what : {"man", "json"}) {
    EXPECT_EQ(run_ptdp({"sim", "--help", what}).output, run_sim({"--help", what}).output);
  }
}

TEST(Ptdp, RefusesOtherWordsWithOneLine) {
  EXPECT_EQ(run_ptdp({"pln"}).errors,
            "ptdp: unknown command \"pln\"; did you mean \"plan\"? (--help lists the commands)\n");
  EXPECT_THAT(run_ptdp({"Plan", "--gpus", "8"}).errors,
              StartsWith("ptdp: unknown command \"Plan\""));
  EXPECT_EQ(run_ptdp({}).status, kBadInput);
  EXPECT_EQ(run_ptdp({"completion", "tcsh"}).status, kBadInput);
}

TEST(Ptdp, HasHelpForAWord) {
  EXPECT_EQ(run_ptdp({"help"}).output, run_ptdp({"--help"}).output);
  EXPECT_EQ(run_ptdp({"help", "sim"}).output, run_ptdp({"sim", "--help"}).output);
  EXPECT_EQ(run_ptdp({"--help", "sim"}).output, run_ptdp({"sim", "--help"}).output);
  EXPECT_EQ(run_ptdp({"help", "plan", "gpus"}).output, run_plan({"--help", "--gpus"}).output);
  EXPECT_TRUE(is_refused(run_ptdp({"--help", "simm"}), {"--help", "\"simm\"", "\"sim\""}));
}

TEST(Ptdp, SaysWhatIsMissingWhereOnlyThePlannerIs) {
  const TemporaryDirectory directory;
  std::filesystem::copy_file(kPrograms + "/ptdp", directory.path() / "ptdp");
  const ProgramRun run = run_program(directory.path() / "ptdp", {"run", "plan.json"}, {});
  EXPECT_EQ(run.status, kBadInput);
  EXPECT_EQ(run.errors,
            "ptdp: ptdp-run: cannot run it beside ptdp: No such file or directory; expected an "
            "installation with what trains, not the planner alone\n");
  EXPECT_THAT(run_program(directory.path() / "ptdp", {"--help"}, {}).output,
              testing::AllOf(HasSubstr("predicted (not installed here)\n"), HasSubstr("cost\n")));
}

/// Returns the lines that a program wrote, which must not have complained.
std::vector<std::string> lines_of(const ProgramRun& run) {
  EXPECT_EQ(run.errors, "");
  std::vector<std::string> lines;
  std::istringstream text(run.output);
  for (std::string line; std::getline(text, line);) {
    lines.push_back(line);
  }
  return lines;
}

/// Returns what bash completes the words to, the last one unfinished.
std::vector<std::string> completed_by_bash(const std::string& words) {
  return lines_of(run_program(
      "/bin/bash",
      {"--norc", "-c",
       "source <(ptdp completion bash) && COMP_WORDS=(" + words +
           ") && COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) && _ptdp && printf '%s\n' "
           "\"${COMPREPLY[@]}\""},
      {.environment = {{"PATH", kPrograms + ":/usr/bin:/bin"}}, .directory = kPrograms}));
}

TEST(Bash, CompletesCommandsFlagsProfilesAndFiles) {
  EXPECT_THAT(completed_by_bash("ptdp pl"), testing::ElementsAre("plan"));
  EXPECT_THAT(completed_by_bash("ptdp-plan --gpus 8 --sched"), testing::ElementsAre("--schedule"));
  EXPECT_THAT(completed_by_bash("ptdp plan --model '=' llama-3-8"),
              testing::Contains("llama-3-8b"));
  EXPECT_THAT(completed_by_bash("ptdp plan --model '='"), testing::Contains("llama-3-8b"));
  EXPECT_THAT(completed_by_bash("ptdp plan --config tp '=' 8,recompute '=' f"),
              testing::ElementsAre("full"));
  EXPECT_THAT(completed_by_bash("ptdp plan --explain tp '=' 2 ':' 8,pp"),
              testing::ElementsAre("8,pp="));
  EXPECT_THAT(completed_by_bash("ptdp plan --config=tp=8,recompute=f"),
              testing::ElementsAre("--config=tp=8,recompute=full"))
      << "without = in COMP_WORDBREAKS";
  EXPECT_THAT(completed_by_bash("ptdp-run ptdp-ru"), testing::ElementsAre("ptdp-run")) << "a file";
  EXPECT_THAT(completed_by_bash("ptdp completion f"), testing::ElementsAre("fish"));
}

/// Returns what zsh, on a terminal, makes of lines by the key Tab.
std::vector<std::string> completed_by_zsh(const std::vector<std::string>& typed) {
  const TemporaryDirectory home;
  const std::string script = R"(
      zmodload zsh/zpty
      zpty shell 'TERM=dumb zsh -f -i'
      zpty -w shell 'PROMPT=; source <(ptdp completion zsh); show() { print -r -- "@@$BUFFER@@" }
                     zle -N show; bindkey "^T" show; print re""ady'
      zpty -r -m shell text '*ready*'
      for typed; do
        zpty -n -w shell "$typed"$'\t\C-t'
        zpty -r -m shell text '*@@*@@*'
        zpty -n -w shell $'\C-u'
        print -r -- "${${text%@@*}##*@@}"
      done)";
  std::vector<std::string> arguments = {"-f", "-c", script, "zsh"};
  arguments.insert(arguments.end(), typed.begin(), typed.end());
  return lines_of(run_program(
      "/usr/bin/zsh", arguments,
      {.environment = {{"PATH", kPrograms + ":/usr/bin:/bin"}, {"HOME", home.path().string()}},
       .directory = kPrograms}));
}

TEST(Zsh, CompletesCommandsFlagsProfilesAndFiles) {
  if (!std::filesystem::exists("/usr/bin/zsh")) {
    GTEST_SKIP() << "no zsh here";
  }
  EXPECT_THAT(
      completed_by_zsh({"ptdp pl", "ptdp-plan --gpus 8 --sched", "ptdp plan --model=llama-3-8",
                        "ptdp plan --config tp=8,vp", "ptdp plan --explain=tp=8,recompute=f",
                        "ptdp-run ptdp-ru", "ptdp-run --trace=ptdp-ru", "ptdp completion f"}),
      testing::ElementsAre(
          "ptdp plan ", "ptdp-plan --gpus 8 --schedule ", "ptdp plan --model=llama-3-8b ",
          "ptdp plan --config tp=8,vpp=", "ptdp plan --explain=tp=8,recompute=full ",
          "ptdp-run ptdp-run ", "ptdp-run --trace=ptdp-run ", "ptdp completion fish "));
}

// By the shell's own `complete -C`.
TEST(Fish, CompletesCommandsFlagsAndProfiles) {
  if (!std::filesystem::exists("/usr/bin/fish")) {
    GTEST_SKIP() << "no fish here";
  }
  const auto completed = [](const std::string& line) {
    return run_program(
               "/usr/bin/fish",
               {"--no-config", "-c", "ptdp completion fish | source; complete -C '" + line + "'"},
               {.environment = {{"PATH", kPrograms + ":/usr/bin:/bin"}}, .directory = kPrograms})
        .output;
  };
  EXPECT_THAT(completed("ptdp-plan --sched"), StartsWith("--schedule\tall, or some of"));
  EXPECT_THAT(completed("ptdp plan --model llama-3-8"), StartsWith("llama-3-8b"));
  EXPECT_THAT(completed("ptdp plan --config tp=8,vp"), StartsWith("tp=8,vpp="));
  EXPECT_THAT(completed("ptdp-run ptdp-ru"), StartsWith("ptdp-run")) << "a file";
}

}  // namespace
}  // namespace ptdp
