// Tests of ptdp-sim plan.json: what it prints, writes and refuses.
#include <gmock/gmock.h>

#include <map>
#include <set>

#include "tests/support/commands.h"

namespace ptdp {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

/// Returns the plan of gpt-tiny with tp, pp and dp of 2 and eight microbatches.
std::string plan_of_tiny() {
  const TemporaryDirectory directory;
  const std::string file = (directory.path() / "plan.json").string();
  EXPECT_TRUE(
      succeeds(run_plan({"--gpus", "8", "--model", "gpt-tiny", "--cluster", "selene-a100", "--tp",
                         "2", "--pp", "2", "--dp", "2", "--micro-batch-size", "1", "-o", file})));
  return content_of(file);
}

/// Runs ptdp-sim on plan_of_tiny() with these flags.
ProgramRun simulate_tiny(const std::vector<std::string>& flags) {
  static const std::string plan = plan_of_tiny();
  const TemporaryDirectory directory;
  std::vector<std::string> arguments = {directory.file("plan.json", plan).string()};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  return run_sim(arguments);
}

json json_of_tiny(std::vector<std::string> flags) {
  flags.insert(flags.end(), {"--format", "json"});
  const ProgramRun run = simulate_tiny(flags);
  EXPECT_TRUE(succeeds(run));
  EXPECT_TRUE(is_finite_json(run.output));
  return json::parse(run.output);
}

TEST(SimulatePlan, SaysOfWhatIsNoPlanWhatIsWrongWithIt) {
  const TemporaryDirectory directory;
  for (const auto& [text, what] : std::vector<std::pair<std::string, std::string>>{
           {"", "plan.json: empty"},
           {"null", "plan.json: expected"},
           {std::string("\xff\xfe{\0", 4), "plan.json: looks like UTF-16"},
           {"plan", "plan.json: line 1"}}) {
    EXPECT_TRUE(is_refused(run_sim({directory.file("plan.json", text).string()}), {what}));
  }
  EXPECT_TRUE(is_refused(run_sim({directory.file("orders.csv", "0F0,garbage").string()}),
                         {"orders.csv: line 1", "garbage"}));
  EXPECT_TRUE(is_refused(run_sim({directory.file("orders.csv", "0F0,0B0").string()}),
                         {"--orders, --durations"}));
}

TEST(SimulatePlan, PrintsASummaryAndATimeline) {
  const ProgramRun run = simulate_tiny({});
  ASSERT_TRUE(succeeds(run));
  EXPECT_TRUE(has_only_numbers(run.output));
  for (const char* part :
       {"gpt-tiny on 8 GPUs", "planned (", "bubble", "not computing", "idle in between",
        "Critical path", "Memory:", "rank 0    ", "rank 1    "}) {
    EXPECT_THAT(run.output, HasSubstr(part));
  }
}

TEST(SimulatePlan, WritesJson) {
  const json document = json_of_tiny({});
  EXPECT_EQ(document["schema"], "ptdp.simulation/1");
  const double makespan = document["makespan"];
  double path = 0.0;
  for (const auto& [term, time] : document["critical_path_s"].items()) {
    path += time.get<double>();
  }
  EXPECT_NEAR(path / makespan, 1.0, 1e-9);
  const double work = (document["work"][0].get<double>() + document["work"][1].get<double>()) / 2.0;
  EXPECT_NEAR(document["not_computing"].get<double>(), makespan - work, 1e-9 * makespan);
  EXPECT_EQ(document["peaks"], json({2, 1}));  // 1F1B holds p − r
}

// ptdp-plan's bubble and ptdp-sim's are one: both wait for passes alone. Only rounding differs.
TEST(SimulatePlan, HasTheBubbleThatThePlanHas) {
  const TemporaryDirectory directory;
  const std::string file = (directory.path() / "plan.json").string();
  for (const std::vector<std::string>& job : std::vector<std::vector<std::string>>{
           {"--model", "gpt-tiny", "--cluster", "selene-a100", "--gpus", "8", "--pp", "4"},
           {"--model", "76B", "--gpus", "1024", "--cluster", "selene-a100"},
           {"--model", "llama-3-8b", "--gpus", "16", "--cluster", "dgx-h100", "--pp", "2"}}) {
    std::vector<std::string> arguments = job;
    arguments.insert(arguments.end(), {"-o", file});
    ASSERT_TRUE(succeeds(run_plan(arguments)));
    const json plan = json::parse(content_of(file));
    const ProgramRun run = run_sim({file, "--format", "json"});
    ASSERT_TRUE(succeeds(run));
    const json simulation = json::parse(run.output);
    const double step = simulation["step_s"];
    const double bubble = simulation["bubble"];
    EXPECT_GT(bubble, 0.0) << job[1];
    EXPECT_NEAR(bubble / step, plan["predicted"]["breakdown_s"]["bubble"].get<double>() / step,
                1e-9)
        << job[1];
    EXPECT_NEAR(simulation["bubble_ratio"].get<double>(), bubble / step, 1e-12) << job[1];
    EXPECT_GT(simulation["not_computing"].get<double>(), bubble) << job[1];
  }
}

/// Returns the plan of gpt-tiny as if another version had made it, which predicted a step `factor`
/// times as long.
std::string tiny_of_another_version(double factor) {
  nlohmann::ordered_json plan = nlohmann::ordered_json::parse(plan_of_tiny());
  plan["tool_version"] = "0.0.9";
  nlohmann::ordered_json& predicted = plan["predicted"];
  const double time = predicted["iteration_time_s"];
  predicted["iteration_time_s"] = factor * time;
  for (const char* part : {"breakdown_s", "interval_s"}) {
    for (nlohmann::ordered_json& of : predicted[part]) {
      of = factor * of.get<double>();
    }
  }
  return plan.dump();
}

TEST(SimulatePlan, SaysWhichOfTwoDifferentStepsToBelieve) {
  const TemporaryDirectory directory;
  const auto simulate = [&](double factor, const std::vector<std::string>& flags) {
    std::vector<std::string> arguments = {
        directory.file("plan.json", tiny_of_another_version(factor)).string()};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const ProgramRun run = run_sim(arguments);
    EXPECT_TRUE(succeeds(run));
    return run.output;
  };
  // 1 / 1.25 is 20 % less, 1 / 0.8 is 25 % more.
  const std::string reason = " than the planned one: believe the simulation, which takes the ";
  const std::string shorter = "The simulated step is 20.0 % shorter" + reason;
  const std::string longer = "The simulated step is 25.0 % longer" + reason;
  EXPECT_THAT(simulate(1.25, {}), HasSubstr(shorter));
  EXPECT_THAT(simulate(0.8, {}), HasSubstr(longer));
  const std::string sentence = json::parse(simulate(1.25, {"--format", "json"}))["difference"];
  EXPECT_THAT(sentence, HasSubstr(shorter));
  EXPECT_THAT(sentence, HasSubstr("; ptdp-plan 0.0.9 made the plan."));
}

TEST(SimulatePlan, DoubtsNoStepThatIsAsPlannedOrMeantToDiffer) {
  const TemporaryDirectory directory;
  EXPECT_THAT(simulate_tiny({}).output, Not(HasSubstr("believe")));
  EXPECT_FALSE(json_of_tiny({}).contains("difference"));
  const ProgramRun slow = simulate_tiny({"--slow", "rank=1,factor=2"});
  EXPECT_THAT(slow.output, HasSubstr("while the plan as it is predicts"));
  EXPECT_THAT(slow.output, Not(HasSubstr("believe")));
  const ProgramRun close =
      run_sim({directory.file("plan.json", tiny_of_another_version(1.015)).string()});
  EXPECT_THAT(close.output, HasSubstr("planned (-1.5 %).\n"));
  EXPECT_THAT(close.output, Not(HasSubstr("believe")));
}

TEST(SimulatePlan, IsLongerWithASlowRank) {
  const double step = json_of_tiny({})["step_s"];
  const double slow = json_of_tiny({"--slow", "rank=1,factor=2"})["step_s"];
  const double both =
      json_of_tiny({"--slow", "rank=1,factor=2", "--slow", "factor=3,rank=0"})["step_s"];
  EXPECT_GT(slow, step);
  EXPECT_GT(both, slow);
  EXPECT_LT(both, 3.0 * step);  // messages, reductions and the optimizer stay as they are
}

TEST(SimulatePlan, HasTheSameJitterForTheSameSeed) {
  const json once = json_of_tiny({"--jitter", "sigma=0.1,seed=5"});
  EXPECT_EQ(once, json_of_tiny({"--jitter", "sigma=0.1,seed=5"}));
  EXPECT_NE(once["step_s"], json_of_tiny({"--jitter", "sigma=0.1,seed=6"})["step_s"]);
  EXPECT_NE(once["step_s"], json_of_tiny({})["step_s"]);
}

TEST(SimulatePlan, ComparesAllSchedules) {
  const json document = json_of_tiny({"--schedule", "all"});
  EXPECT_EQ(document["schema"], "ptdp.schedules/1");
  std::set<std::string> names;
  for (const json& row : document["schedules"]) {
    names.insert(row["schedule"]);
    EXPECT_TRUE(row.contains("conflict") != row.contains("step_s")) << row;
  }
  for (const char* name :
       {"gpipe", "1f1b", "interleaved", "looped-bfs", "zb-h1", "zb-h2", "zb-v", "v-half", "v-min",
        "dualpipe", "dualpipev", "zb-auto", "pipedream", "pipedream-2bw"}) {
    EXPECT_EQ(names.count(name), 1U) << name;
  }
  const ProgramRun run = simulate_tiny({"--schedule", "all"});
  EXPECT_TRUE(succeeds(run));
  EXPECT_THAT(run.output, HasSubstr("the plan's"));
}

TEST(SimulatePlan, SimulatesAnotherSchedule) {
  const json document = json_of_tiny({"--schedule", "gpipe"});
  EXPECT_EQ(document["schedule"], "gpipe");
  EXPECT_EQ(document["peaks"][0], document["microbatches"]);
}

TEST(SimulatePlan, PrintsTheOrdersOfACompleteSchedule) {
  const ProgramRun run = simulate_tiny({"--orders"});
  ASSERT_TRUE(succeeds(run));
  for (const char* action : {"0SEND_F0", "1RECV_F0", "1SEND_B0", "0RECV_B0", "0REDUCE_GRAD",
                             "0TIED", "0NORM", "0OPTIMIZER"}) {
    EXPECT_THAT(run.output, HasSubstr(action));
  }
}

// A slice for all that takes time; none on its thread overlaps another; every arrow has two ends.
TEST(SimulatePlan, WritesATraceThatHoldsTogether) {
  const TemporaryDirectory directory;
  const std::string file = (directory.path() / "trace.json").string();
  ASSERT_TRUE(succeeds(simulate_tiny({"--trace", file})));
  EXPECT_EQ(entries_of(directory.path()), std::vector<std::string>{"trace.json"});
  const json document = json::parse(content_of(file));
  std::map<std::pair<int, int>, double> ends;
  std::multiset<std::int64_t> begun;
  std::multiset<std::int64_t> ended;
  std::set<std::pair<int, int>> named;
  int counters = 0;
  int computed = 0;
  for (const json& event : document["traceEvents"]) {
    const std::string phase = event["ph"];
    if (phase == "M" && event["name"] == "thread_name") {
      named.insert({event["pid"].get<int>(), event["tid"].get<int>()});
    } else if (phase == "X") {
      double& end = ends[{event["pid"].get<int>(), event["tid"].get<int>()}];
      EXPECT_GE(event["ts"].get<double>(), end - 1e-4) << event;
      end = event["ts"].get<double>() + event["dur"].get<double>();
      computed += event["cat"] == "compute" ? 1 : 0;
    } else if (phase == "s") {
      begun.insert(event["id"].get<std::int64_t>());
    } else if (phase == "f") {
      ended.insert(event["id"].get<std::int64_t>());
    } else if (phase == "C") {
      ++counters;
    }
  }
  const json simulated = json_of_tiny({});
  EXPECT_EQ(computed, 2 * 2 * simulated["microbatches"].get<int>());
  EXPECT_EQ(begun, ended);
  EXPECT_EQ(begun.size(), 2U * simulated["microbatches"].get<std::size_t>());
  EXPECT_GT(counters, 0);
  for (const auto& [thread, end] : ends) {
    EXPECT_EQ(named.count(thread), 1U);
  }
}

TEST(SimulatePlan, LeavesNoPartOfATraceThatCannotBe) {
  const ProgramRun run = simulate_tiny({"--trace", "/nonexistent/trace.json"});
  EXPECT_EQ(run.status, kOutputFailed);
  EXPECT_EQ(run.output, "");
  EXPECT_THAT(run.errors, HasSubstr("/nonexistent/trace.json"));
}

TEST(SimulatePlan, DrawsAWindow) {
  const ProgramRun run =
      simulate_tiny({"--from", "0", "--to", "0.0001", "--ranks", "1:1", "--columns", "20"});
  ASSERT_TRUE(succeeds(run));
  EXPECT_THAT(run.output, HasSubstr("|0.1 ms"));
  EXPECT_THAT(run.output, HasSubstr("\nrank 1 "));
  EXPECT_EQ(run.output.find("\nrank 0 "), std::string::npos);
}

/// Returns the label of the drawing's last column: "|13.87 ms" after the last bar of its head.
std::string drawn_until(const ProgramRun& run) {
  EXPECT_TRUE(succeeds(run));
  const std::size_t head = run.output.find("|0 s ");
  EXPECT_NE(head, std::string::npos) << run.output;
  const std::string line = run.output.substr(head, run.output.find('\n', head) - head);
  return line.substr(line.rfind('|') + 1);
}

// Twenty columns have room for a part of the eight microbatches alone.
TEST(SimulatePlan, DrawsToTheEndWhereABeginningIsGiven) {
  const std::string line = "until the last action  ";
  const std::string whole = simulate_tiny({}).output;
  const std::size_t at = whole.find(line) + line.size();
  const std::string end = whole.substr(at, whole.find('\n', at) - at);
  const ProgramRun short_of_room = simulate_tiny({"--columns", "20"});
  EXPECT_NE(drawn_until(short_of_room), end);
  EXPECT_THAT(short_of_room.output, HasSubstr("--from and --to choose another part"));
  EXPECT_EQ(drawn_until(simulate_tiny({"--columns", "20", "--from", "0"})), end);
  EXPECT_EQ(drawn_until(simulate_tiny({"--columns", "20", "--to", "0.0001"})), "0.1 ms");
  EXPECT_EQ(drawn_until(simulate_tiny({"--from", "0", "--to", "0.001"})), "1 ms");
}

TEST(SimulatePlan, DrawsTheRanksThatAreAskedFor) {
  const auto drawn = [](const std::string& ranks) {
    const std::string text = simulate_tiny({"--ranks", ranks}).output;
    return std::pair(text.find("\nrank 0 ") != std::string::npos,
                     text.find("\nrank 1 ") != std::string::npos);
  };
  EXPECT_EQ(drawn("0"), std::pair(true, false));
  EXPECT_EQ(drawn("1"), std::pair(false, true));
  EXPECT_EQ(drawn("0:0"), std::pair(true, false));
  EXPECT_EQ(drawn("0:1"), std::pair(true, true));
}

// The seed is 0 unless given; without a sigma there is nothing to draw.
TEST(SimulatePlan, HasTheSeedOfNoughtUnlessOneIsGiven) {
  EXPECT_EQ(json_of_tiny({"--jitter", "sigma=0.1"}),
            json_of_tiny({"--jitter", "seed=0,sigma=0.1"}));
  EXPECT_EQ(json_of_tiny({"--jitter", "sigma=0,seed=0"})["step_s"], json_of_tiny({})["step_s"]);
}

// A flag that is taken and then ignored would be believed.
TEST(SimulatePlan, RefusesWhatAPlanHasAndWhatAComparisonDoesNotDraw) {
  for (const char* flag : {"--pp", "--vpp", "--microbatches", "--microbatch-group-size",
                           "--memory-limit", "--durations"}) {
    EXPECT_TRUE(is_refused(simulate_tiny({flag, "2"}),
                           {std::string(flag) + ": not used with a plan, which has its own"}));
  }
  for (const char* flag : {"--trace", "--from", "--to", "--ranks", "--rows", "--columns"}) {
    EXPECT_TRUE(is_refused(simulate_tiny({"--schedule", "all", flag, "1"}),
                           {std::string(flag) + ": not used with --schedule all"}));
  }
}

TEST(SimulatePlan, RefusesBadFlagsNamingThem) {
  struct Case {
    std::vector<std::string> flags;
    std::string mention;
  };
  for (const Case& bad : std::vector<Case>{
           {{"--slow", "3"}, "--slow: expected rank=R,factor=F"},
           {{"--slow", "rank=1"}, "--slow: expected rank=R,factor=F"},
           {{"--slow", "rank=1,factor=2,more=3"}, "--slow: expected rank=R,factor=F"},
           {{"--slow", "rank=1,factor=2,"}, "--slow: expected rank=R,factor=F"},
           {{"--slow", "rank=2,factor=2"}, "0 to 1, got 2"},
           {{"--trace", ""}, "--trace: expected the name of a file"},
           {{"--schedule", "all", "--orders"}, "--orders: not used with --schedule all"},
           {{"--slow", "rank=-1,factor=2"}, "--slow: rank"},
           {{"--slow", "rank=1,factor=0"}, "--slow: factor"},
           {{"--slow", "rank=1,factor=nan"}, "--slow: factor"},
           {{"--jitter", "0.1"}, "--jitter: expected sigma=S"},
           {{"--jitter", "sigma=-1"}, "--jitter: sigma"},
           {{"--jitter", "sigma=10.1"},
            "--jitter: sigma: expected a number from 0 to 10, got \"10.1\""},
           {{"--jitter", "seed=1"},
            "--jitter: expected sigma=S or sigma=S,seed=N such as sigma=0.02,seed=1, got "
            "\"seed=1\""},
           {{"--slow", "rank=1,factor=1001"},
            "--slow: factor: expected a number from 0.001 to 1000, got \"1001\""},
           {{"--slow", "rank=1,rank=0,factor=2"},
            "--slow: expected rank=R,factor=F such as rank=3,factor=1.1, got "
            "\"rank=1,rank=0,factor=2\""},
           {{"--from", "0.02", "--to", "0.01"},
            "--from, --to: expected a beginning before the end, got 0.02 and 0.01"},
           {{"--ranks", "1:0"}, "--ranks: expected the first rank before the last, got \"1:0\""},
           {{"--ranks", "2"}, "--ranks: expected a whole number from 0 to 1, got \"2\""},
           {{"--columns", "1001"}, "--columns: expected a whole number from 1 to 1000, got"},
           {{"--rows", "4097"}, "--rows: expected a whole number from 1 to 4096, got"},
           {{"--links", "both"}, "--links"},
           {{"--from", "2e9"}, "--from"},
           {{"--from", "0.0001", "--to", "0.0001"}, "--from, --to"},
           {{"--ranks", "1:0"}, "--ranks"},
           {{"--ranks", "0:2"}, "--ranks"},
           {{"--columns", "0"}, "--columns"},
           {{"--schedule", "zb"}, "--schedule"},
           {{"--schedule", "all", "--trace", "t.json"}, "--trace: not used with --schedule all"},
           {{"--pp", "2"}, "--pp: not used with a plan"},
           {{"--format", "csv"}, "--format"}}) {
    EXPECT_TRUE(is_refused(simulate_tiny(bad.flags), {bad.mention})) << bad.flags.front();
  }
}

TEST(SimulatePlan, RefusesFlagsOfPlansWithoutAPlan) {
  EXPECT_TRUE(is_refused(run_sim({"--schedule", "1f1b", "--pp", "2", "--microbatches", "4",
                                  "--orders", "--trace", "t.json"}),
                         {"--trace"}));
}

TEST(SimulatePlan, RefusesToWriteTheTraceOverThePlan) {
  const TemporaryDirectory directory;
  const std::string plan = plan_of_tiny();
  const std::string file = directory.file("plan.json", plan).string();
  EXPECT_TRUE(is_refused(run_sim({file, "--trace", file}), {"--trace", "another file"}));
  EXPECT_EQ(content_of(file), plan);
}

TEST(SimulatePlan, ListsOrdersInJson) {
  const json document = json_of_tiny({"--orders"});
  EXPECT_THAT(document["orders"][0].get<std::string>(), HasSubstr("0F0"));
}

TEST(SimulatePlan, RefusesAPlanThatIsNone) {
  const TemporaryDirectory directory;
  EXPECT_TRUE(is_refused(run_sim({directory.file("plan.json", "{\"schema\": 1}").string()}),
                         {"plan.json", "schema"}));
}

}  // namespace
}  // namespace ptdp
