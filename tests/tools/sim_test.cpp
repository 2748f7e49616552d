// Tests of ptdp-sim: orders, times, bad sizes and bad files.
#include <gmock/gmock.h>

#include "tests/support/commands.h"

namespace ptdp {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

/// Runs `ptdp-sim --schedule <name> --pp 2 --microbatches 4` with more flags.
ProgramRun run_small(const std::string& name, const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"--schedule", name, "--pp", "2", "--microbatches", "4"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_sim(arguments);
}

/// Expects a refusal in one line that holds `mentions`, and below it a picture of the orders around
/// the offense.
testing::AssertionResult is_refused_with_grid(ProgramRun run,
                                              const std::vector<std::string>& mentions) {
  const std::size_t end = run.errors.find('\n') + 1;
  const std::string grid = run.errors.substr(end);
  run.errors.resize(end);
  if (!is_refused(run, mentions)) {
    return is_refused(run, mentions);
  }
  if (grid.find('>') == std::string::npos || grid.find("rank ") == std::string::npos) {
    return testing::AssertionFailure() << "expected a grid with the offence in > <, got: " << grid;
  }
  return testing::AssertionSuccess();
}

/// Runs ptdp-sim on a file with this text, named schedule.csv.
ProgramRun run_file(std::string_view text, const std::vector<std::string>& more = {"--orders"}) {
  const TemporaryDirectory directory;
  std::vector<std::string> arguments = {directory.file("schedule.csv", text).string()};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_sim(arguments);
}

// Two of the small expected tables: torch's, sail's and Megatron-LM's orders agree on them.
TEST(Sim, PrintsALineForEveryRank) {
  const ProgramRun plain = run_small("1f1b", {"--orders"});
  EXPECT_TRUE(succeeds(plain));
  EXPECT_EQ(plain.output, "0F0 0F1 0B0 0F2 0B1 0F3 0B2 0B3\n1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3\n");
  const ProgramRun interleaved = run_small("interleaved", {"--vpp", "2", "--orders"});
  EXPECT_TRUE(succeeds(interleaved));
  EXPECT_EQ(interleaved.output,
            "0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 0B2 0B3\n"
            "1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1B2 1B3\n");
}

// By hand, two ranks of 1 and 3 layers, two microbatches, F = I = W = 1 per layer: the second rank
// works from 1 to 1 + 2·(3 + 6) without a pause, and the first ends with B of 2 behind it.
TEST(Sim, TakesLayersPerStage) {
  const std::vector<std::string> sizes = {"--schedule",  "1f1b",  "--pp",           "2",
                                          "--durations", "1,1,1", "--microbatches", "2"};
  const auto makespan = [&](const std::string& layers) {
    std::vector<std::string> arguments = sizes;
    arguments.insert(arguments.end(), {"--layers-per-stage", layers});
    return run_sim(arguments).output;
  };
  EXPECT_THAT(makespan("1,3"), StartsWith("makespan 21\n"));
  EXPECT_THAT(makespan("2x1"), StartsWith("makespan 9\n"));
  const auto refused = [&](const std::string& layers, const std::string& mention) {
    std::vector<std::string> arguments = sizes;
    arguments.insert(arguments.end(), {"--layers-per-stage", layers});
    return is_refused(run_sim(arguments), {"--layers-per-stage", mention});
  };
  EXPECT_TRUE(refused("1,3,1", "expected 2 numbers, pp * vpp, got 3"));
  EXPECT_TRUE(refused("0,3", "from 1"));
  EXPECT_TRUE(is_refused(run_small("1f1b", {"--orders", "--layers-per-stage", "1,3"}),
                         {"--layers-per-stage: expected --durations too"}));
}

TEST(Sim, AddsTimesToTheOrders) {
  const ProgramRun run = run_small("gpipe", {"--orders", "--durations", "1,1,1"});
  EXPECT_TRUE(succeeds(run));
  EXPECT_EQ(run.output,
            "0F0 0F1 0F2 0F3 0B0 0B1 0B2 0B3\n1F0 1F1 1F2 1F3 1B0 1B1 1B2 1B3\n"
            "makespan 15\nbubble 3\nbubble_ratio 0.20000\nidle_in_span 3 0\npeaks 4 4\n");
}

// By hand for 1f1b, p = 2, m = 4, F = 10, B = 12 + 8: 4·30 of work and 30 of bubble.
TEST(Sim, WritesItsFindingsAsJson) {
  const ProgramRun run =
      run_small("1f1b", {"--orders", "--durations", "10,12,8", "--format", "json"});
  ASSERT_TRUE(succeeds(run));
  EXPECT_TRUE(is_finite_json(run.output));
  const json document = json::parse(run.output);
  EXPECT_EQ(document["schedule"], "1f1b");
  EXPECT_EQ(document["orders"][1], "1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3");
  EXPECT_EQ(document["makespan"], 150.0);
  EXPECT_EQ(document["bubble"], 30.0);
  EXPECT_EQ(document["bubble_ratio"], 0.2);
  EXPECT_EQ(document["idle_in_span"], json({30.0, 0.0}));
  EXPECT_EQ(document["peaks"], json({2, 1}));
  const json without_orders =
      json::parse(run_small("1f1b", {"--durations", "1,1,1", "--format", "json"}).output);
  EXPECT_FALSE(without_orders.contains("orders"));
}

TEST(Sim, TakesTheGroupSizeOfMegatron) {
  const ProgramRun run =
      run_sim({"--schedule", "interleaved", "--pp", "2", "--vpp", "2", "--microbatches", "5",
               "--microbatch-group-size", "3", "--orders"});
  EXPECT_TRUE(succeeds(run));
  EXPECT_THAT(run.output, HasSubstr("1F0 1F1 1F2 3F0 3B0 3F1 3B1 3F2 3B2 1F3 1B0"));
}

TEST(Sim, ReadsWhatItWritesForTorch) {
  const ProgramRun written = run_small("looped-bfs", {"--vpp", "3", "--orders", "--format", "csv"});
  ASSERT_TRUE(succeeds(written));
  EXPECT_THAT(written.output, StartsWith("0F0,0F1,0F2,0F3,2F0"));
  const ProgramRun read = run_file(written.output, {"--orders", "--format", "csv"});
  EXPECT_TRUE(succeeds(read));
  EXPECT_EQ(read.output, written.output);
}

// The first lines of torch's zb1p files look like this: a bubble is an empty cell, B stands for I.
TEST(Sim, SimulatesASchedulesFile) {
  const ProgramRun run =
      run_file("0F0,0F1,,0B0,0W0,0B1,0W1\n,1F0,1B0,1F1,1B1,1W0,1W1\n", {"--durations", "1,1,1"});
  EXPECT_TRUE(succeeds(run));
  EXPECT_THAT(run.output, StartsWith("makespan 7\nbubble 1\n"));
}

// The first lines of torch's zb1p_2rank_2stagep_comms.csv in its older spelling look like this.
TEST(Sim, SimulatesTheComputeOfAFileWithMessages) {
  const ProgramRun run = run_file(
      "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0BW0,0RECV_B1,0BW1\n"
      "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1W0,1F1,1B1,1SEND_B1,1W1\n",
      {"--durations", "1,1,1"});
  EXPECT_TRUE(succeeds(run));
  EXPECT_THAT(run.output, StartsWith("makespan 8\n"));
  EXPECT_TRUE(is_refused_with_grid(run_file("0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1B0,1SEND_B0\n"),
                                   {"schedule.csv", "1RECV_F0 is missing"}));
}

TEST(Sim, SearchesAScheduleForDurationsAndMemory) {
  // By hand: one microbatch after the other, 2·10 + 2·12 + 8 each.
  const ProgramRun small =
      run_small("zb-auto", {"--durations", "10,12,8", "--memory-limit", "1", "--orders"});
  EXPECT_TRUE(succeeds(small));
  EXPECT_THAT(small.output, StartsWith("0F0 0I0 0W0 0F1"));
  EXPECT_THAT(small.output, HasSubstr("makespan 208\n"));
  EXPECT_THAT(small.output, HasSubstr("peaks 1 1\n"));
  // zb-h2's bubble (p − 1)F in its memory, of 2p − 1.
  EXPECT_THAT(run_small("zb-auto", {"--durations", "10,12,8", "--memory-limit", "3"}).output,
              StartsWith("makespan 130\nbubble 10\n"));
  EXPECT_TRUE(is_refused(run_small("zb-auto", {"--orders", "--memory-limit", "0"}),
                         {"--memory-limit", "\"0\""}));
  EXPECT_TRUE(is_refused(run_small("zb-h1", {"--orders", "--memory-limit", "2"}),
                         {"--memory-limit", "zb-h1", "none", "2"}));
}

// By hand: the order of 1F1B; F + B = 30 a microbatch, two versions on the first rank.
TEST(Sim, SaysWhatAsynchronousTrainingChanges) {
  const ProgramRun text = run_small("pipedream", {"--durations", "10,12,8"});
  EXPECT_TRUE(succeeds(text));
  EXPECT_THAT(text.output, StartsWith("makespan 150\n"));
  EXPECT_THAT(text.output,
              HasSubstr("changes_semantics true\nsteady_state_period 30\nweight_versions 2 1\n"));
  const json document = json::parse(
      run_small("pipedream-2bw", {"--durations", "10,12,8", "--format", "json"}).output);
  EXPECT_EQ(document["changes_semantics"], true);
  EXPECT_EQ(document["weight_versions"], json({2, 2}));
  EXPECT_EQ(document["steady_state_period"], 30.0);
  EXPECT_EQ(document["paper"], "arXiv:2006.09503");
  const json synchronous =
      json::parse(run_small("1f1b", {"--durations", "1,1,1", "--format", "json"}).output);
  EXPECT_FALSE(synchronous.contains("changes_semantics"));
  EXPECT_EQ(synchronous["bubble_formula"], "(p-1)(F+B)");
}

TEST(Sim, RefusesAFileThatIsNoScheduleNamingTheAction) {
  EXPECT_TRUE(
      is_refused_with_grid(run_file("0F0,0F1,0B0\n1F0,1B0,1F1,1B1\n"), {"schedule.csv", "0B1"}));
  EXPECT_TRUE(
      is_refused_with_grid(run_file("0F0,0B0,0B0\n1F0,1B0\n"), {"rank 0, action 2, 0B0", "twice"}));
  EXPECT_TRUE(is_refused_with_grid(run_file("0F0,0B0,1B0\n1F0\n"), {"1B0", "rank 1"}));
  EXPECT_TRUE(is_refused_with_grid(run_file("0F0,2F0,0F1,2F1,2B0,2B1,0B0,0B1\n"
                                            "1F0,3F0,1F1,3F1,1B0,3B0,3B1,1B1\n"),
                                   {"deadlock", "2B0"}));
  EXPECT_TRUE(is_refused(run_file("0F0,0Q0\n"), {"line 1: cell 2", "0Q0"}));
  EXPECT_TRUE(is_refused(run_file(""), {"schedule.csv", "got none"}));
  EXPECT_TRUE(is_refused(run_sim({"/nowhere/x.csv", "--orders"}), {"/nowhere/x.csv"}));
  EXPECT_TRUE(is_refused(run_file("0F0,0B0\n", {"--orders", "--pp", "1"}), {"--pp"}));
  EXPECT_TRUE(is_refused(run_sim({"a.csv", "b.csv", "--orders"}), {"b.csv"}));
}

TEST(Sim, AnswersHelpAndVersion) {
  const ProgramRun help = run_sim({"--help"});
  EXPECT_TRUE(succeeds(help));
  for (const char* word : {"--schedule", "--pp", "--microbatches", "--vpp", "--orders",
                           "--durations", "--format", "looped-bfs"}) {
    EXPECT_THAT(help.output, HasSubstr(word));
  }
  const ProgramRun version = run_sim({"--version"});
  EXPECT_TRUE(succeeds(version));
  EXPECT_THAT(version.output, StartsWith("ptdp-sim "));
}

TEST(Sim, RefusesMissingAndUnknownFlags) {
  EXPECT_TRUE(is_refused(run_sim({}), {"--orders", "--durations"}));
  EXPECT_TRUE(is_refused(run_sim({"--orders"}), {"--schedule"}));
  EXPECT_TRUE(is_refused(run_sim({"--orders", "--schedule", "gpipe"}), {"--pp"}));
  EXPECT_TRUE(
      is_refused(run_sim({"--orders", "--schedule", "gpipe", "--pp", "2"}), {"--microbatches"}));
  EXPECT_TRUE(is_refused(run_small("gpipe", {}), {"--orders"}));
  EXPECT_TRUE(is_refused(run_small("gpipe", {"--order"}), {"--order", "\"--orders\""}));
  EXPECT_TRUE(is_refused(run_small("gpipe", {"--orders", "--pp", "2"}), {"--pp"}));
  EXPECT_TRUE(is_refused(run_small("gpipe", {"--orders", "--durations"}), {"--durations"}));
  EXPECT_TRUE(is_refused(run_small("gpip", {"--orders"}), {"--schedule", "gpip", "gpipe"}));
  EXPECT_TRUE(is_refused(run_small("gpipe", {"--orders", "--format", "xml"}), {"xml", "json"}));
  EXPECT_TRUE(is_refused(run_small("gpipe", {"--durations", "1,1,1", "--format", "csv"}),
                         {"--format csv", "--orders"}));
}

TEST(Sim, RefusesWhatAFileHasItself) {
  const std::string file = "0F0,0B0\n";
  for (const char* flag :
       {"--pp", "--microbatches", "--vpp", "--microbatch-group-size", "--memory-limit"}) {
    EXPECT_TRUE(is_refused(run_file(file, {"--orders", flag, "1"}),
                           {std::string(flag) + ": not used with a file, which has its own"}));
  }
  EXPECT_TRUE(is_refused(run_file(file, {"--orders", "--schedule", "1f1b"}),
                         {"--schedule: not used with a file, which has its own"}));
  EXPECT_TRUE(is_refused(run_file(file, {}), {"--orders, --durations: expected one of them"}));
}

TEST(Sim, ComparesAllSchedulesByTimesAlone) {
  const std::vector<std::string> times = {"--durations", "1,1,1"};
  EXPECT_TRUE(succeeds(run_small("all", times)));
  EXPECT_TRUE(is_refused(run_small("all", {"--orders"}),
                         {"--schedule all: expected --durations and no --orders"}));
  EXPECT_TRUE(is_refused(run_small("all", {"--orders", "--durations", "1,1,1"}),
                         {"--schedule all: expected --durations and no --orders"}));
  EXPECT_TRUE(is_refused(run_small("1f1b", {"--format", "csv", "--orders", "--durations", "1,1,1"}),
                         {"--format csv: expected --orders alone"}));
  // By hand: (4 + 1)·3 of 1F1B and GPipe, 12 of it work; a rank holds two microbatches, or all.
  const json rows = json::parse(
      run_small("all", {"--durations", "1,1,1", "--format", "json"}).output)["schedules"];
  int num_found = 0;
  for (const json& row : rows) {
    if (row["schedule"] == "1f1b" || row["schedule"] == "gpipe") {
      ++num_found;
      EXPECT_EQ(row["makespan"], 15.0);
      EXPECT_EQ(row["bubble"], 3.0);
      EXPECT_EQ(row["bubble_ratio"], 0.2);
      EXPECT_EQ(row["peaks"], row["schedule"] == "gpipe" ? json({4, 4}) : json({2, 1}));
      EXPECT_EQ(row["changes_semantics"], false);
    }
    if (row["schedule"] == "pipedream") {
      ++num_found;
      EXPECT_EQ(row["changes_semantics"], true);
    }
    if (row["schedule"] == "interleaved") {
      ++num_found;
      EXPECT_EQ(row["conflict"], "expects vpp at least 2 (1f1b has one stage per rank), got 1");
    }
  }
  EXPECT_EQ(num_found, 4);
}

TEST(Sim, RefusesSizesThatAreNoPositiveWholeNumbers) {
  for (const char* flag : {"--pp", "--microbatches", "--vpp", "--microbatch-group-size"}) {
    for (const char* value : {"0", "-1", "1.5", "abc", "", " 8", "+8", "1e3", "nan", "4294967297",
                              "9223372036854775808"}) {
      std::vector<std::string> arguments = {"--schedule", "interleaved", "--orders", flag, value};
      for (const char* other : {"--pp", "--microbatches"}) {
        if (std::string(other) != flag) {
          arguments.insert(arguments.end(), {other, "4"});
        }
      }
      ASSERT_TRUE(is_refused(run_sim(arguments), {flag, value})) << flag << " " << value;
    }
  }
}

TEST(Sim, RefusesDurationsThatAreNotThreePositiveNumbers) {
  for (const char* value :
       {"", "1", "1,1", "1,1,1,1", "0,1,1", "1,0,1", "1,1,0", "-1,1,1", "nan,1,1", "1,inf,1",
        "1,1,1e400", "1,1,1e13", "a,b,c", "1, 1,1", "1;1;1", ",,"}) {
    EXPECT_TRUE(is_refused(run_small("1f1b", {"--durations", value}), {"--durations", value}))
        << value;
  }
}

TEST(Sim, RefusesSizesThatTheScheduleDoesNotTake) {
  EXPECT_TRUE(is_refused(run_small("1f1b", {"--orders", "--vpp", "2"}),
                         {"--vpp", "1f1b", "expects 1", "got 2"}));
  EXPECT_TRUE(is_refused(run_small("interleaved", {"--orders"}), {"--vpp", "at least 2", "got 1"}));
  EXPECT_TRUE(is_refused(
      run_small("interleaved", {"--orders", "--vpp", "2", "--microbatch-group-size", "3"}),
      {"--microbatch-group-size", "interleaved", "got 3"}));
  EXPECT_TRUE(is_refused(run_small("gpipe", {"--orders", "--microbatch-group-size", "2"}),
                         {"--microbatch-group-size", "none", "got 2"}));
}

TEST(Sim, RefusesMoreActionsThanMemoryAtOnce) {
  const ProgramRun run = run_sim(
      {"--schedule", "1f1b", "--pp", "65536", "--microbatches", "1048576", "--durations", "1,1,1"});
  EXPECT_TRUE(is_refused(run, {"--microbatches", "1048576", "GiB"}));
  EXPECT_LT(run.cpu_seconds, kRunawaySeconds);
  EXPECT_LT(run.peak_memory, std::int64_t{1} << 30);
}

TEST(Sim, AnswersTheLargestPipelineInBoundedTime) {
  const ProgramRun run = run_sim(
      {"--schedule", "1f1b", "--pp", "1024", "--microbatches", "4096", "--durations", "1,1,1"});
  EXPECT_TRUE(succeeds(run));
  // (4096 + 1023)·3
  EXPECT_THAT(run.output, StartsWith("makespan 15357\nbubble 3069\n"));
  EXPECT_LT(run.cpu_seconds, kRunawaySeconds);
}

TEST(Sim, FailsWhereStandardOutputTakesNothing) {
  for (const Stream stream : {Stream::kFull, Stream::kClosed}) {
    for (const char* format : {"text", "json", "csv"}) {
      const ProgramRun run = run_sim({"--schedule", "1f1b", "--pp", "2", "--microbatches", "2",
                                      "--orders", "--format", format},
                                     {.standard_output = stream});
      EXPECT_TRUE(ends_with(run, kOutputFailed)) << format;
    }
  }
}

}  // namespace
}  // namespace ptdp
