// Tests of --report: a page beside the answer, whole or not at all.
#include <gmock/gmock.h>

#include "tests/support/commands.h"

namespace ptdp {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;

const std::vector<std::string> kTinySearch = {"--gpus",   "8",         "--model",
                                              "gpt-tiny", "--cluster", "selene-a100"};

/// Returns the document of a page.
nlohmann::json document_of(const fs::path& page) {
  const std::string text = content_of(page);
  EXPECT_THAT(text, StartsWith("<!doctype html>"));
  const std::string begin = R"(<script type="application/json" id="report">)";
  const std::size_t first = text.find(begin);
  EXPECT_NE(first, std::string::npos);
  const std::size_t end = text.find("</script>", first);
  return nlohmann::json::parse(text.substr(first + begin.size(), end - first - begin.size()));
}

/// A command that answers with a page.
struct Answerer {
  const char* what;
  ProgramRun (*run)(const std::vector<std::string>& arguments, RunOptions options);
  std::vector<std::string> arguments;
};

std::vector<std::string> with(std::vector<std::string> arguments,
                              const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::vector<Answerer> answerers(const std::string& plan) {
  return {{"a search", run_plan, kTinySearch},
          {"a configuration", run_plan, with(kTinySearch, {"--config", "tp=2,pp=2"})},
          {"one that cannot run", run_plan, with(kTinySearch, {"--config", "tp=3"})},
          {"a plan", run_plan, {"show", plan}},
          {"a simulation", run_sim, {plan}},
          {"every schedule", run_sim, {plan, "--schedule", "all"}},
          {"every stack", run_plan, with(kTinySearch, {"--stack", "all"})},
          {"every strategy", run_plan, with(kTinySearch, {"--compare-strategies"})},
          {"a list of layers",
           run_plan,
           {"--gpus", "4", "--model", "layers.json", "--global-batch-size", "8"}},
          {"a log", run_validate, {"--log", "train.log"}},
          {"a log of a plan", run_validate, {"--log", "train.log", "--plan", plan}},
          {"a configuration with its log", run_plan,
           with(kTinySearch, {"--config", "tp=2,pp=2", "--log", "train.log"})},
          {"a validation", run_validate, {"--runs", "runs.csv"}}};
}

/// Returns a log of Megatron-LM: an iteration of 2 s and five of 1 s.
std::string megatron_log() {
  std::string log;
  for (int step = 1; step <= 6; ++step) {
    log += " iteration " + std::to_string(step) +
           "/ 6 | elapsed time per iteration (ms): " + (step == 1 ? "2000.0" : "1000.0") +
           " | lm loss: 2.5 |\n";
  }
  return log;
}

/// A directory with a plan, measured runs, a log and a list of layers.
class ReportDirectory {
 public:
  ReportDirectory() {
    static_cast<void>(directory_.file("plan.json", tiny_plan()));
    static_cast<void>(directory_.file("runs.csv", source_file("profiles/published/sc21-t1.csv")));
    static_cast<void>(directory_.file("train.log", megatron_log()));
    static_cast<void>(directory_.file(
        "layers.json",
        R"({"schema": "ptdp.layers/1", "name": "<b>four</b>", "output_MiB": 1, "layers": [)"
        R"({"name": "layer", "time_s": 0.01, "count": 4, "parameters": 1e6, "activation_GiB": 1}]})"));
  }
  [[nodiscard]] const fs::path& path() const { return directory_.path(); }
  [[nodiscard]] RunOptions options() const { return {.directory = directory_.path()}; }

 private:
  TemporaryDirectory directory_;
};

TEST(Report, StandsBesideAnAnswerThatIsAsWithoutIt) {
  const ReportDirectory directory;
  for (const Answerer& answerer : answerers("plan.json")) {
    for (const char* format : {"", "json"}) {
      const std::vector<std::string> arguments =
          *format == '\0' ? answerer.arguments : with(answerer.arguments, {"--format", format});
      const ProgramRun plain = answerer.run(arguments, directory.options());
      const ProgramRun reported =
          answerer.run(with(arguments, {"--report", "page.html"}), directory.options());
      EXPECT_EQ(reported.output, plain.output) << answerer.what;
      EXPECT_EQ(reported.status, plain.status) << answerer.what << reported.errors;
      const nlohmann::json document = document_of(directory.path() / "page.html");
      EXPECT_EQ(document["schema"], "ptdp.report/1") << answerer.what;
      EXPECT_FALSE(document["sections"].empty()) << answerer.what;
      EXPECT_THAT(document["command"].get<std::string>(), Not(HasSubstr("page.html")))
          << "equal commands have equal pages, whatever their names";
      fs::remove(directory.path() / "page.html");
    }
  }
}

TEST(Report, HasEqualBytesForEqualQuestions) {
  const ReportDirectory directory;
  std::vector<std::string> pages;
  for (int time = 0; time < 2; ++time) {
    ASSERT_TRUE(succeeds(run_plan(with(kTinySearch, {"--threads", "2", "--report", "page.html"}),
                                  directory.options())));
    pages.push_back(content_of(directory.path() / "page.html"));
  }
  EXPECT_TRUE(pages[0] == pages[1]);
}

// The pipeline of SC21's largest model: 64 stages, 512 microbatches, three schedules.
TEST(Report, OfATrillionParametersIsSmall) {
  const ReportDirectory directory;
  ASSERT_TRUE(succeeds(
      run_plan({"--gpus", "3072", "--model", "1T", "--report", "page.html"}, directory.options())));
  EXPECT_LE(fs::file_size(directory.path() / "page.html"), 1'500'000U);
  const nlohmann::json document = document_of(directory.path() / "page.html");
  for (const nlohmann::json& section : document["sections"]) {
    if (section["id"] == "timeline") {
      EXPECT_EQ(section["view"]["num_ranks"], 64);
      EXPECT_EQ(section["view"]["schedules"].size(), 3U);
    }
  }
}

// A run of two ranks records its step, which stands below what was predicted.
TEST(Report, OfARunHasTheStepAsItRan) {
  const TemporaryDirectory directory;
  static_cast<void>(directory.file("plan.json", plan_of_small({"--gpus", "2", "--pp", "2"})));
  const RunOptions options{.directory = directory.path()};
  ASSERT_EQ(
      run_run({"plan.json", "--steps", "3", "--quiet", "--report", "page.html", "-o", "run.json"},
              options)
          .status,
      kDone);
  const nlohmann::json document = document_of(directory.path() / "page.html");
  std::vector<std::string> names;
  for (const nlohmann::json& section : document["sections"]) {
    if (section["id"] == "timeline") {
      for (const nlohmann::json& schedule : section["view"]["schedules"]) {
        names.push_back(schedule["name"]);
      }
    }
  }
  EXPECT_EQ(names, (std::vector<std::string>{"predicted", "measured"}));
  ASSERT_TRUE(succeeds(run_validate({"run.json", "--report", "again.html"}, options)));
  EXPECT_FALSE(document_of(directory.path() / "again.html")["sections"].empty());
}

TEST(Report, ThatCannotBeWrittenIsToldBeforeWorkBegins) {
  const ReportDirectory directory;
  for (const Answerer& answerer : answerers("plan.json")) {
    for (const char* place : {"missing/page.html", "/dev/full", "."}) {
      const ProgramRun run =
          answerer.run(with(answerer.arguments, {"--report", place}), directory.options());
      EXPECT_TRUE(ends_with(run, kOutputFailed)) << answerer.what << place;
      EXPECT_TRUE(run.output.empty()) << answerer.what << place;
      EXPECT_THAT(run.errors, HasSubstr("--report: ")) << answerer.what << place;
      EXPECT_EQ(run.errors.find('\n') + 1, run.errors.size()) << run.errors;
    }
    EXPECT_TRUE(
        is_refused(answerer.run(with(answerer.arguments, {"--report", ""}), directory.options()),
                   {"--report", "expected the name of a file"}));
  }
}

// Where nothing fits there is no answer, and no page.
TEST(Report, IsNotWrittenWithoutAnAnswer) {
  const ReportDirectory directory;
  for (const std::vector<std::string>& question :
       {std::vector<std::string>{"--stack", "all"}, {"--compare-strategies"}}) {
    const ProgramRun run =
        run_plan(with(with(kTinySearch, question), {"--tp", "7", "--report", "page.html"}),
                 directory.options());
    EXPECT_EQ(run.status, kNothingFits) << run.errors;
    EXPECT_FALSE(fs::exists(directory.path() / "page.html"));
  }
  const ProgramRun none =
      run_validate({"--log", "runs.csv", "--report", "page.html"}, directory.options());
  EXPECT_TRUE(is_refused(none, {"runs.csv"})) << none.errors;
  EXPECT_FALSE(fs::exists(directory.path() / "page.html"));
}

// What a person chose is a command away: the page of that stack or configuration alone.
TEST(Report, OfAlternativesNamesTheCommandForThePageOfTheBest) {
  const ReportDirectory directory;
  for (const std::vector<std::string>& question :
       {std::vector<std::string>{"--stack", "all"}, {"--compare-strategies", "--pp", "1"}}) {
    ASSERT_TRUE(succeeds(run_plan(with(with(kTinySearch, question), {"--report", "page.html"}),
                                  directory.options())));
    const nlohmann::json document = document_of(directory.path() / "page.html");
    const std::string next = document["sections"].back()["view"]["paragraphs"].back();
    ASSERT_THAT(next, StartsWith("Next\n  ptdp-plan --gpus 8 --model gpt-tiny"));
    const std::string best = document["sections"][0]["view"]["bars"][0]["name"];
    if (question.front() == "--stack") {
      EXPECT_THAT(next, HasSubstr(" --stack " + best + " --report page.html"));
    } else {
      EXPECT_THAT(next, HasSubstr("--cluster selene-a100 --pp 1 --config 'tp="));
    }
  }
}

TEST(Report, IsRefusedByWhatHasNoPage) {
  const ReportDirectory directory;
  const std::vector<std::vector<std::string>> rows = {
      {"list", "models"},
      with(kTinySearch, {"--explain", "tp=2"}),
      {"partition", "--model", "gpt-tiny", "--pp", "2"},
      {"export", "plan.json", "--to", "megatron", "-o", "out"}};
  for (const std::vector<std::string>& row : rows) {
    EXPECT_TRUE(is_refused(run_plan(with(row, {"--report", "page.html"}), directory.options()),
                           {"--report"}))
        << row.front();
  }
  EXPECT_TRUE(is_refused(run_sim({"--schedule", "1f1b", "--pp", "2", "--microbatches", "4",
                                  "--orders", "--report", "page.html"},
                                 directory.options()),
                         {"--report"}));
  EXPECT_TRUE(
      is_refused(run_validate({"--trace", "x.json", "--report", "page.html"}, directory.options()),
                 {"--report", "--trace"}));
  EXPECT_FALSE(fs::exists(directory.path() / "page.html"));
}

}  // namespace
}  // namespace ptdp
