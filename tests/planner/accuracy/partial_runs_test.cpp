// Tests of rows that leave fields out, and are predicted over all that these may have been.
#include "planner/accuracy/partial_runs.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/memory/memory.h"
#include "planner/accuracy/missing_fields.h"
#include "planner/accuracy/partial_report.h"
#include "planner/accuracy/validation_report.h"

namespace ptdp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::UnorderedElementsAre;

constexpr const char* kHeader =
    "id,layers,hidden,heads,vocab,seq,gpu_count,cluster_key,stack_key,tp,pp,dp,vpp,mbs,gbs,"
    "recompute,zero,seq_parallel,schedule,tflops_per_gpu,flop_convention,iter_time_best_s,"
    "holdout_group\n";

/// Returns a row of 24 layers on 64 A100s. `config` holds the columns from tp to schedule,
/// `measured` the three columns after.
std::string row(const std::string& id, const std::string& stack, const std::string& config,
                const std::string& measured = ",,9") {
  return id + ",24,4096,32,51200,2048,64,selene-a100," + stack + "," + config + "," + measured +
         ",g\n";
}

CostedRuns completed(const std::string& rows) {
  CostedRuns runs = cost_runs(read_measured_runs(CsvTable::from_text(kHeader + rows, "runs.csv")));
  complete_partial_runs(runs);
  return runs;
}

Completions completions_of_row(const std::string& text, const std::string& stack) {
  return complete_missing_fields(CsvTable::from_text(kHeader + text, "runs.csv"),
                                 find_cluster("selene-a100"), find_stack(stack));
}

/// Returns the values that a column was filled in with, each once, in text order.
std::set<std::string> values_of(const Completions& completions, const std::string& column) {
  std::set<std::string> values;
  for (const RowFields& fields : completions.values) {
    values.insert(fields.at(column));
  }
  return values;
}

// By hand: 64 GPUs are 2·4·8; of 6 layers a stage 1, 2, 3 or 6 are a chunk; 32/8 = 4 sequences of
// a replica are split by 1, 2 and 4.
TEST(Completions, AreAllThatDivide) {
  const std::string stack = "megatron-lm-2022";
  const Completions all = completions_of_row(row("a", stack, "2,4,,?,?,32,none,0,y,"), stack);
  EXPECT_THAT(all.unknown, ElementsAre("dp", "vpp", "mbs"));
  EXPECT_EQ(values_of(all, "dp"), std::set<std::string>{"8"});
  EXPECT_THAT(values_of(all, "vpp"), UnorderedElementsAre("1", "2", "3", "6"));
  EXPECT_THAT(values_of(all, "mbs"), UnorderedElementsAre("1", "2", "4"));
  EXPECT_THAT(all.values, SizeIs(4 * 3));
  EXPECT_EQ(std::set<RowFields>(all.values.begin(), all.values.end()).size(), 12U);
}

// One chunk is not interleaved, several are not 1F1B.
TEST(Completions, FollowTheSchedule) {
  const std::string stack = "megatron-lm-2022";
  const auto chunks = [&](const std::string& schedule) {
    return values_of(
        completions_of_row(row("a", stack, "2,4,8,?,1,32,none,0,y," + schedule), stack), "vpp");
  };
  EXPECT_THAT(chunks("interleaved"), UnorderedElementsAre("2", "3", "6"));
  EXPECT_THAT(chunks("1f1b"), UnorderedElementsAre("1"));
}

// Heads 32 on nodes of 8; 24 layers; 64 GPUs: t·p divides 64, p divides 24, d is the rest.
TEST(Completions, SplitTheGpus) {
  const std::string stack = "megatron-lm-2022";
  const Completions all = completions_of_row(row("a", stack, "?,?,?,1,1,64,none,0,n,"), stack);
  std::set<RowFields> expected;
  for (const int tp : {1, 2, 4, 8}) {
    for (const int pp : {1, 2, 4, 8}) {
      expected.insert({{"tp", std::to_string(tp)},
                       {"pp", std::to_string(pp)},
                       {"dp", std::to_string(64 / tp / pp)}});
    }
  }
  EXPECT_EQ(std::set<RowFields>(all.values.begin(), all.values.end()), expected);
}

// Batches of 1 to 16 Mi tokens: 8·2^k sequences of 2048 tokens.
TEST(Completions, TakeUsualBatches) {
  const std::string stack = "megatron-lm-2022";
  const Completions all = completions_of_row(row("a", stack, "2,4,8,1,1,?,none,0,y,"), stack);
  EXPECT_THAT(values_of(all, "gbs"), UnorderedElementsAre("512", "1024", "2048", "4096", "8192"));
}

TEST(Completions, AreWhatTheStackRuns) {
  const std::string stack = "megatron-lm-2022";
  const Completions all = completions_of_row(row("a", stack, "2,4,8,1,1,32,?,?,?,"), stack);
  const StackSpec& spec = find_stack(stack);
  EXPECT_EQ(values_of(all, "recompute").size(), spec.can_run.recompute.size());
  EXPECT_EQ(values_of(all, "zero").size(), spec.can_run.zero_stages.size());
  EXPECT_EQ(values_of(all, "seq_parallel").size(), 2U);
}

// torchtitan recomputes "op" alone; Megatron-Core's modules of 2025 that a dense model has are
// three. Full recomputation and none have no modules.
TEST(Completions, TryTheModulesOfTheStack) {
  const auto modules = [](const std::string& stack) {
    std::set<std::string> found;
    for (const RowFields& fields :
         completions_of_row(row("a", stack, "2,1,32,1,1,32,?,3,y,"), stack).values) {
      const auto entry = fields.find("recompute_modules");
      EXPECT_EQ(entry != fields.end(), fields.at("recompute") == "selective");
      found.insert(entry != fields.end() ? entry->second : fields.at("recompute"));
    }
    return found;
  };
  EXPECT_THAT(modules("torchtitan-2024"), UnorderedElementsAre("none", "full", "op"));
  EXPECT_THAT(modules("megatron-core-2025"),
              UnorderedElementsAre("none", "full", "core_attn", "layernorm", "mlp"));
  EXPECT_THAT(modules("megatron-lm-2022"), UnorderedElementsAre("none", "full", "core_attn"));
  // The unknown column is recompute; a row that says selective has the usual module.
  const std::string stack = "megatron-core-2025";
  EXPECT_THAT(completions_of_row(row("a", stack, "2,1,32,1,1,32,?,3,y,"), stack).unknown,
              ElementsAre("recompute"));
  EXPECT_THAT(completions_of_row(row("a", stack, "2,1,32,1,1,32,selective,3,y,"), stack).values,
              IsEmpty());
}

// 24 layers are cut evenly into 1, 2, 3, 4, 6, 8, 12 and 24; 2 Mi tokens are 1024 sequences of
// 2048. By SC21's equation 3 on a GPU of 100 TFLOP/s: 96Bslh²(1 + s/6h + V/16lh) over the GPUs.
TEST(Completions, OfARateWithoutGpusAreOneReplicaOfAnAssumedBatch) {
  const std::string stack = "megatron-lm-2021";
  std::string text = row("a", stack, "8,?,,1,1,,full,0,n,", "100,sc21_hw,");
  text.replace(text.find(",64,"), 4, ",,");
  const Completions all = completions_of_row(text, stack);
  EXPECT_EQ(values_of(all, "dp"), std::set<std::string>{"1"});
  EXPECT_EQ(values_of(all, "gbs"), std::set<std::string>{"1024"});
  EXPECT_THAT(values_of(all, "pp"), UnorderedElementsAre("1", "2", "3", "4", "6", "8", "12", "24"));
  const CostedRuns runs = completed(text);
  ASSERT_THAT(runs.partial, SizeIs(1));
  const double flops = 96.0 * 1024 * 2048 * 24 * 4096 * 4096 *
                       (1 + 2048.0 / (6 * 4096) + 51200.0 / (16 * 24 * 4096));
  for (const CostedRun& run : runs.partial.front().completions) {
    EXPECT_DOUBLE_EQ(run.run.iteration_time.value(),
                     flops / 1e14 / static_cast<double>(run.run.config.world_size()));
  }
}

TEST(Completions, AreNoneOfAWholeRowAndOfOneThatLacksMore) {
  const std::string stack = "megatron-lm-2022";
  EXPECT_THAT(completions_of_row(row("a", stack, "2,4,8,1,1,32,none,0,y,"), stack).values,
              IsEmpty());
  std::string no_gpus = row("a", stack, "?,?,,1,1,32,none,0,y,");
  no_gpus.replace(no_gpus.find(",64,"), 4, ",,");
  EXPECT_THAT(completions_of_row(no_gpus, stack).values, IsEmpty());
  const CostedRuns runs = completed(no_gpus);
  EXPECT_THAT(runs.partial, IsEmpty());
  ASSERT_THAT(runs.skipped, SizeIs(1));
  EXPECT_EQ(runs.skipped.front().reason, "tp is not given");
}

// Brute force: every way as a row of its own, costed as whole rows are, without those that do not
// fit or take more than 1.3 times as long as the fastest; the range are the ends of the others, and
// the uncalibrated interval theirs.
TEST(PartialRuns, HaveTheRangeOfTheWaysNearTheFastest) {
  const std::string stack = "megatron-lm-2022";
  const CostedRuns runs = completed(row("a", stack, "2,4,8,?,?,256,?,0,y,"));
  ASSERT_THAT(runs.partial, SizeIs(1));
  std::string whole_rows;
  for (const char* vpp : {"1", "2", "3", "6"}) {
    for (const char* mbs : {"1", "2", "4", "8", "16", "32"}) {
      for (const char* recompute : {"none", "selective", "full"}) {
        whole_rows += row("w", stack,
                          std::string("2,4,8,") + vpp + "," + mbs + ",256," + recompute + ",0,y,");
      }
    }
  }
  const CostedRuns whole = completed(whole_rows);
  std::vector<Seconds> times;
  std::size_t too_large = 0;
  for (const CostedRun& run : whole.costed) {
    const Scenario scenario = scenario_of(run);
    if (peak_memory({scenario, run.run.config}) <= scenario.cluster.gpu.memory) {
      times.push_back(run.predicted);
    } else {
      ++too_large;
    }
  }
  std::sort(times.begin(), times.end());
  const PartialRun& partial = runs.partial.front();
  EXPECT_EQ(partial.tried, 4 * 6 * 3);
  EXPECT_EQ(partial.num_ways, std::ssize(times));
  EXPECT_GT(too_large, 0U);
  const auto far = std::partition_point(times.begin(), times.end(),
                                        [&](Seconds time) { return time <= 1.3 * times.front(); });
  EXPECT_NE(far, times.end());
  times.erase(far, times.end());
  EXPECT_EQ(partial.completions.size(), times.size());
  const auto validated = validate_partial_runs(runs, CalibrationKind::kNone);
  ASSERT_THAT(validated, SizeIs(1));
  const ValidatedPartialRun& range = validated.front();
  EXPECT_EQ(range.fastest, times.front());
  EXPECT_EQ(range.slowest, times.back());
  EXPECT_EQ(range.best.costed.predicted, times.front());
  EXPECT_DOUBLE_EQ(range.low.value(), times.front().value() * kUncalibratedInterval.low);
  EXPECT_DOUBLE_EQ(range.high.value(), times.back().value() * kUncalibratedInterval.high);
  EXPECT_TRUE(range.fits);
}

// Nothing of 145 B parameters fits on one GPU each: the run did, so all that runs counts.
TEST(PartialRuns, CountThoughNothingFits) {
  const CostedRuns runs = completed(
      "a,80,12288,96,51200,2048,8,selene-a100,megatron-lm-2021,1,1,8,1,?,16,full,0,n,,,,99,g\n");
  ASSERT_THAT(runs.partial, SizeIs(1));
  EXPECT_FALSE(runs.partial.front().fits);
  EXPECT_THAT(runs.partial.front().completions, SizeIs(2));
  EXPECT_THAT(to_text(make_validation_report(runs, CalibrationKind::kNone)),
              HasSubstr("  too large\n"));
}

// Korthikanti et al. appendix A by hand, B = 256: 72Bslh²(1 + s/6h + V/12lh); recomputed in full
// 96Bslh²(1 + s/6h + V/16lh).
TEST(PartialRuns, MeasureByRatesWhereThereIsNoTime) {
  const auto times_of = [](const std::string& convention, const std::string& recompute) {
    const CostedRuns runs =
        completed(row("a", "megatron-lm-2022", "2,4,8,1,?,256," + recompute + ",0,y,",
                      "100," + convention + ","));
    std::set<double> times;
    for (const PartialRun& partial : runs.partial) {
      for (const CostedRun& run : partial.completions) {
        times.insert(run.run.iteration_time.value());
      }
    }
    return std::vector<double>(times.begin(), times.end());
  };
  const double layers = 256.0 * 2048 * 24 * 4096 * 4096;
  const double model = 72 * layers * (1 + 2048.0 / (6 * 4096) + 51200.0 / (12 * 24 * 4096));
  const double twice = 96 * layers * (1 + 2048.0 / (6 * 4096) + 51200.0 / (16 * 24 * 4096));
  EXPECT_THAT(times_of("model_full", "full"), ElementsAre(testing::DoubleEq(model / 64 / 1e14)));
  EXPECT_THAT(times_of("unstated", "full"), ElementsAre(testing::DoubleEq(model / 64 / 1e14),
                                                        testing::DoubleEq(twice / 64 / 1e14)));
  EXPECT_THAT(times_of("guessed", "full"), IsEmpty());
  // Half of the layers of each stage are recomputed.
  std::string file =
      kHeader + row("a", "megatron-lm-2022", "2,4,8,1,?,256,full,0,y,", "100,hardware,");
  file.insert(file.find('\n'), ",recompute_num_layers");
  file.insert(file.rfind('\n'), ",3");
  CostedRuns runs = cost_runs(read_measured_runs(CsvTable::from_text(file, "runs.csv")));
  complete_partial_runs(runs);
  ASSERT_THAT(runs.partial, SizeIs(1));
  EXPECT_DOUBLE_EQ(runs.partial[0].completions.at(0).run.iteration_time.value(),
                   (model + 12 * layers * (1 + 2048.0 / (6 * 4096))) / 64 / 1e14);
}

// Whole rows are what they were, and what calibrates: three that took twice as long as predicted.
TEST(PartialRuns, AreCalibratedByWholeRowsAndNeverCalibrate) {
  const std::string stack = "megatron-lm-2022";
  const std::string whole = row("w", stack, "2,4,8,1,1,256,none,0,y,") +
                            row("w", stack, "2,4,8,1,2,256,none,0,y,") +
                            row("w", stack, "4,4,4,1,1,256,none,0,y,");
  CostedRuns runs = completed(whole + row("a", stack, "2,4,8,1,?,256,none,0,y,"));
  ASSERT_THAT(runs.costed, SizeIs(3));
  for (CostedRun& run : runs.costed) {
    run.run.iteration_time = run.predicted * 2.0;
  }
  const ValidationReport report = make_validation_report(runs, CalibrationKind::kScale);
  EXPECT_EQ(report.total.errors.count, 3);
  EXPECT_NEAR(report.total.errors.mean_absolute, 0.0, 1e-12);
  ASSERT_THAT(report.partial, SizeIs(1));
  EXPECT_NEAR(report.partial.front().best.calibration.factor, 2.0, 1e-12);
  EXPECT_FALSE(make_validation_report(runs, CalibrationKind::kLeaveOneGroupOut)
                   .partial.front()
                   .best.calibration.is_calibrated());
}

TEST(PartialRuns, SayWhyNoneRuns) {
  const CostedRuns runs = completed(row("a", "megatron-lm-2022", "2,5,,?,?,32,none,0,y,") +
                                    row("b", "megatron-lm-2022", "2,4,8,1,?,33,none,0,y,") +
                                    row("c", "megatron-lm-2022", "64,1,1,1,?,32,none,0,n,"));
  EXPECT_THAT(runs.partial, IsEmpty());
  ASSERT_THAT(runs.skipped, SizeIs(3));
  EXPECT_THAT(runs.skipped[2].reason, HasSubstr("heads not divisible by tp"));
}

TEST(PartialRuns, AreInTheJson) {
  const CostedRuns runs = completed(row("a", "megatron-lm-2022", "2,4,8,1,?,256,none,0,y,"));
  const auto json =
      nlohmann::json::parse(to_json(make_validation_report(runs, CalibrationKind::kNone)));
  const auto& partial = json.at("partial").at(0);
  EXPECT_EQ(partial.at("id"), "a");
  EXPECT_EQ(partial.at("unknown"), nlohmann::json({"mbs"}));
  EXPECT_EQ(partial.at("measured_s"), 9.0);
  EXPECT_EQ(partial.at("best").at("global_batch_size"), 256);
  EXPECT_TRUE(json.at("skipped").empty());
}

// Llama 3's 405B, MegaScale, Megatron-Core's weak scaling up to 462B, and Nemotron-4 340B on 6144
// GPUs. Measured times lie within the range of the unknown fields, and of their best values.
TEST(PartialRuns, OfPublishedModelsHoldWhatWasMeasured) {
  std::vector<std::filesystem::path> files;
  for (const char* name : {"llama3-405b", "megascale", "mcore-h100", "partial"}) {
    files.push_back(std::string(PTDP_SOURCE_DIR "/profiles/published/") + name + ".csv");
  }
  CostedRuns runs = cost_runs(read_runs(files));
  complete_partial_runs(runs);
  EXPECT_THAT(runs.skipped, IsEmpty());
  const auto validated = validate_partial_runs(runs, CalibrationKind::kNone);
  EXPECT_THAT(validated, SizeIs(3 + 10 + 9 + 3));
  for (const ValidatedPartialRun& run : validated) {
    EXPECT_TRUE(run.is_inside_interval()) << run.id;
    EXPECT_TRUE(run.best.is_inside_interval()) << run.id;
  }
}

/// Returns a row that measured 10 s, with these predictions of its completions.
ValidatedPartialRun made_up_row(const std::string& id, const std::string& group, double best,
                                double low, double high) {
  ValidatedPartialRun row{.id = id,
                          .group = group,
                          .unknown = {"dp"},
                          .tried = 6,
                          .num_ways = 5,
                          .num_near = 4,
                          .fastest = Seconds(best),
                          .slowest = Seconds(best + 1.0),
                          .low = Seconds(low),
                          .high = Seconds(high)};
  row.best.costed.run.iteration_time = Seconds(10.0);
  row.best.costed.run.global_batch_size = 32;
  row.best.costed.predicted = Seconds(best);
  row.best.calibration.interval = {0.9, 1.1};
  return row;
}

/// Returns three rows that measured 10 s. In group g the first is predicted at 8 s, within 7 to 14
/// s but not by its best alone. The second is calibrated, at 12 s, not within 11 to 13 s, and none
/// of its completions fits. The third, without a group, is predicted at 10 s.
std::vector<ValidatedPartialRun> made_up_rows() {
  std::vector<ValidatedPartialRun> rows = {made_up_row("p1", "g", 8.0, 7.0, 14.0),
                                           made_up_row("p2", "g", 12.0, 11.0, 13.0),
                                           made_up_row("p3", "", 10.0, 9.0, 11.0)};
  rows[0].unknown = {"dp", "mbs"};
  rows[1].fits = false;
  rows[1].best.calibration.support.all_runs = 3;
  return rows;
}

// Half-widths of 7/21, 2/24 and 2/20; errors of the best of -20, +20 and 0 %.
TEST(PartialGroups, SummariseRowsByGroupAndAllOfThem) {
  const std::vector<PartialGroup> groups = partial_groups(made_up_rows());
  ASSERT_THAT(groups, SizeIs(3));
  EXPECT_EQ(groups[0].group, "(none)");
  EXPECT_NEAR(groups[0].best_inside, 1.0, 1e-12);
  const PartialGroup& g = groups[1];
  EXPECT_EQ(g.rows, 2);
  EXPECT_EQ(g.calibrated, 1);
  EXPECT_EQ(g.too_large, 1);
  EXPECT_NEAR(g.inside_interval, 0.5, 1e-12);
  EXPECT_NEAR(g.best_inside, 0.0, 1e-12);
  EXPECT_NEAR(g.median_half_width, (1.0 / 3.0 + 1.0 / 12.0) / 2.0, 1e-12);
  EXPECT_NEAR(g.median_best_error, 0.2, 1e-12);
  const PartialGroup& all = groups[2];
  EXPECT_EQ(all.group, "all");
  EXPECT_EQ(all.rows, 3);
  EXPECT_NEAR(all.inside_interval, 2.0 / 3.0, 1e-12);
  EXPECT_NEAR(all.best_inside, 1.0 / 3.0, 1e-12);
  EXPECT_NEAR(all.median_half_width, 0.1, 1e-12);
  EXPECT_NEAR(all.median_best_error, 0.2, 1e-12);
  EXPECT_THAT(partial_groups({}), IsEmpty());
}

TEST(PartialTable, ShowsRangesIntervalsAndWhatIsUnknown) {
  EXPECT_THAT(
      to_text(made_up_rows()),
      HasSubstr("\np1                                   10           8          9           7"
                "         14  -20.0%      6     5     4  tp=1 pp=1 dp=1 b=1 1f1b recompute=none, "
                "batch 32 "
                "(dp, mbs)\n"
                "p2                                   10          12         13          11"
                "         13  +20.0%      6     0     4  tp=1 pp=1 dp=1 b=1 1f1b recompute=none, "
                "batch 32 "
                "(dp)  outside  too large\n"
                "p3                                   10          10         11           9"
                "         11   +0.0%      6     5     4  tp=1 pp=1 dp=1 b=1 1f1b recompute=none, "
                "batch 32 "
                "(dp)\n\n"));
  EXPECT_THAT(
      to_text(made_up_rows()),
      HasSubstr("\n(none)                       1     100      10.0          100         0.0\n"
                "g                            2      50      20.8            0        20.0\n"
                "all                          3      67      10.0           33        20.0\n"));
}

// The rows as they are, and the same rows as if all had been right by calibration.
TEST(PartialSection, SetsRowsAsTheyAreBesideCalibratedOnes) {
  std::vector<ValidatedPartialRun> calibrated = made_up_rows();
  for (ValidatedPartialRun& row : calibrated) {
    row.best.costed.predicted = Seconds(10.0);
    row.low = Seconds(9.5);
    row.high = Seconds(10.5);
    row.best.calibration.support.all_runs = 3;
  }
  const std::string text = partial_section(made_up_rows(), calibrated);
  EXPECT_THAT(text,
              HasSubstr("\n| (none) | 1 | 0 | 100 | 10.0 | 100 | 0.0 | 1 | 100 | 5.0 | 100 | 0.0 "
                        "|\n"
                        "| g | 2 | 1 | 50 | 20.8 | 0 | 20.0 | 2 | 100 | 5.0 | 100 | 0.0 |\n"
                        "| **all** | 3 | 1 | 67 | 10.0 | 33 | 20.0 | 3 | 100 | 5.0 | 100 | 0.0 "
                        "|\n"
                        "\nOutside as it is, with the error of the best: p2 (+20.0 %).\n"));
  EXPECT_THAT(partial_section(calibrated, calibrated), HasSubstr("\nNone is outside as it is.\n"));
  EXPECT_THAT(partial_section({}, {}), HasSubstr("\n\nNone.\n"));
}

TEST(PartialJson, HoldsEachFigureUnderItsName) {
  std::vector<ObjectWriter> written = partial_json(made_up_rows());
  ASSERT_THAT(written, SizeIs(3));
  const nlohmann::json json = nlohmann::json::parse(written[1].dump());
  EXPECT_EQ(json["id"], "p2");
  EXPECT_EQ(json["unknown"], nlohmann::json::array({"dp"}));
  EXPECT_EQ(json["tried"], 6);
  EXPECT_EQ(json["completions"], 5);
  EXPECT_EQ(json["near"], 4);
  EXPECT_EQ(json["fits"], false);
  EXPECT_EQ(json["measured_s"], 10.0);
  EXPECT_EQ(json["predicted_s"], (nlohmann::json{12.0, 13.0}));
  EXPECT_EQ(json["interval_s"], (nlohmann::json{11.0, 13.0}));
  EXPECT_EQ(json["inside"], false);
  const nlohmann::json& best = json["best"];
  EXPECT_EQ(best["global_batch_size"], 32);
  EXPECT_EQ(best["predicted_s"], 12.0);
  EXPECT_NEAR(best["interval_s"][0], 10.8, 1e-9);
  EXPECT_NEAR(best["interval_s"][1], 13.2, 1e-9);
  EXPECT_NEAR(best["error_pct"], 20.0, 1e-9);
  EXPECT_EQ(best["calibration_all_runs"], 3);
}

}  // namespace
}  // namespace ptdp
