// Tests of calibration files: written, read and refused.
#include "planner/accuracy/calibration_file.h"
#include "planner/accuracy/published_runs.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "cost_model/text/files.h"
#include "tests/support/scenarios.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

using testing::HasSubstr;

/// Returns three runs that took 1.2 times as long as predicted.
StackCalibration calibration() {
  StackCalibration made{
      .cluster = "selene-a100", .stack = "megatron-lm-2021", .source = "runs.csv"};
  for (const double predicted : {1.0, 2.0, 3.0}) {
    made.runs.push_back({.id = "run",
                         .run = {.measured = Seconds(1.2 * predicted),
                                 .predicted = Seconds(predicted),
                                 .point = {.parameters = 1000, .gpus = 64, .tp = 8, .pp = 2},
                                 .job = "a job"}});
  }
  return made;
}

/// Returns the message of reading the calibration's JSON with another value at `pointer`.
std::string refusal_of_file(const std::string& pointer, const nlohmann::ordered_json& value) {
  nlohmann::ordered_json document = nlohmann::ordered_json::parse(to_json(calibration()));
  document[nlohmann::ordered_json::json_pointer(pointer)] = value;
  return message_of([&] { return parse_calibration(document.dump(), "file.json"); });
}

TEST(CalibrationFile, ReadsWhatItWrote) {
  const std::string text = to_json(calibration());
  const StackCalibration read = parse_calibration(text, "file.json");
  EXPECT_EQ(to_json(read), text);
  ASSERT_EQ(read.unnamed_runs().size(), 3U);
  EXPECT_EQ(read.unnamed_runs()[1].measured.value(), 2.4);
  EXPECT_EQ(read.unnamed_runs()[1].point, calibration().runs.front().run.point);
  EXPECT_EQ(read.unnamed_runs()[1].job, "a job");
}

// Files of before factors were told apart by kind of model go for both.
TEST(CalibrationFile, SaysOfWhichKindOfModelItIsOrIsOfAny) {
  EXPECT_FALSE(parse_calibration(to_json(calibration()), "file.json").has_experts.has_value());
  for (const bool has_experts : {false, true}) {
    StackCalibration made = calibration();
    made.has_experts = has_experts;
    const std::string text = to_json(made);
    EXPECT_EQ(parse_calibration(text, "file.json").has_experts, has_experts);
    EXPECT_EQ(to_json(parse_calibration(text, "file.json")), text);
  }
}

TEST(CalibrationFile, TakesRunsWithoutAName) {
  StackCalibration unnamed = calibration();
  unnamed.runs.front().id = "";
  EXPECT_EQ(parse_calibration(to_json(unnamed), "file.json").runs.front().id, "");
}

TEST(CalibrationFile, HoldsTheMemoryOfRunsThatMeasuredIt) {
  StackCalibration made = calibration();
  made.runs[1].memory =
      MemoryRun{.measured = Bytes(50.5 * kGibi), .formulas = Bytes(48.0 * kGibi), .job = "a job"};
  const std::string text = to_json(made);
  const StackCalibration read = parse_calibration(text, "file.json");
  EXPECT_EQ(to_json(read), text);
  ASSERT_EQ(read.memory_runs().size(), 1U);
  EXPECT_EQ(read.memory_runs()[0].measured, Bytes(50.5 * kGibi));
  EXPECT_EQ(read.memory_runs()[0].formulas, Bytes(48.0 * kGibi));
  EXPECT_EQ(read.memory_runs()[0].job, "a job");
  EXPECT_THAT(refusal_of_file("/runs/0/memory_GiB", 50.5),
              HasSubstr("file.json: runs[0].formulas_GiB: missing"));
  EXPECT_THAT(refusal_of_file("/runs/0/formulas_GiB", 48.0),
              HasSubstr("file.json: runs[0].memory_GiB: missing"));
}

// No GPU shows less than a mebibyte in use, and none has a hundred tebibytes.
TEST(CalibrationFile, RefusesMemoryThatNoGpuHas) {
  for (const auto& [key, gib] : {std::pair("memory_GiB", 0.0), std::pair("memory_GiB", 2e5),
                                 std::pair("formulas_GiB", 0.0), std::pair("formulas_GiB", 2e5)}) {
    nlohmann::ordered_json document = nlohmann::ordered_json::parse(to_json(calibration()));
    document["runs"][2]["memory_GiB"] = 50.5;
    document["runs"][2]["formulas_GiB"] = 48.0;
    document["runs"][2][key] = gib;
    EXPECT_THAT(message_of([&] { return parse_calibration(document.dump(), "file.json"); }),
                HasSubstr(std::string("file.json: runs[2].") + key + ": expected "))
        << gib;
  }
}

// Selene's A100 has 80 GiB.
TEST(CalibrationSource, RefusesARunWithMoreMemoryThanItsGpuHas) {
  const TemporaryDirectory directory;
  const std::filesystem::path file = directory.path() / "file.json";
  StackCalibration made = calibration();
  made.runs[1].memory = MemoryRun{.measured = gibibytes(80.5), .formulas = gibibytes(48.0)};
  write_file_atomically(file, to_json(made));
  const CalibrationSource source = CalibrationSource::parse(file.string(), "--calibration");
  EXPECT_EQ(message_of([&] { return source.fit(selene_2021("1T"), 3072); }),
            file.string() +
                ": runs[1].memory_GiB: expected at most the 80 of a GPU of "
                "selene-a100, got 80.5");
}

// Nothing is reserved anew by published runs, nor by a file without memory.
TEST(CalibrationSource, ReservesByMeasuredMemoryOfAFileAlone) {
  const Scenario scenario = selene_2021("1T");
  const TemporaryDirectory directory;
  const std::filesystem::path file = directory.path() / "file.json";
  StackCalibration made = calibration();
  const auto source = [&] {
    write_file_atomically(file, to_json(made));
    return CalibrationSource::parse(file.string(), "--calibration");
  };
  EXPECT_EQ(CalibrationSource::shipped().with_own_reserve(scenario, 3072).scenario, scenario);
  EXPECT_EQ(CalibrationSource::none().with_own_reserve(scenario, 3072).scenario, scenario);
  EXPECT_EQ(source().with_own_reserve(scenario, 3072).scenario, scenario);
  EXPECT_FALSE(CalibrationSource::none().memory(scenario, 3072, {}).is_known());
  for (NamedCalibrationRun& run : made.runs) {
    run.memory = MemoryRun{.measured = Bytes(50.0 * kGibi), .formulas = Bytes(48.0 * kGibi)};
  }
  const ReservedScenario own = source().with_own_reserve(scenario, 3072);
  EXPECT_EQ(own.probability, kReservedProbability);
  const Scenario& reserved = own.scenario;
  EXPECT_GT(reserved.stack.reserve_fraction, 2.0 / 80.0);
  EXPECT_LT(reserved.stack.reserve_fraction, scenario.stack.reserve_fraction);
}

// The reserve is the quantile of what runs have beyond the formulas: the more surely plans are to
// fit, the more of it, and a plan that just fits has that very probability.
TEST(CalibrationSource, ReservesWhatIsEnoughWithAProbability) {
  const Scenario scenario = selene_2021("1T");
  const CalibrationSource shipped = CalibrationSource::shipped();
  const MemoryBelief belief = shipped.memory(scenario, 3072, shipped.published());
  ASSERT_TRUE(belief.is_known());
  const Bytes whole = scenario.cluster.gpu.memory;
  double last = 0.0;
  for (const double probability : {0.5, 0.7, 0.9, 0.95}) {
    const ReservedScenario reserved = shipped.reserved_for(probability, scenario, 3072);
    const double fraction = reserved.scenario.stack.reserve_fraction;
    EXPECT_GT(fraction, last);
    EXPECT_EQ(reserved.probability, probability);
    EXPECT_NEAR(belief.probability_of_fitting(whole * (1.0 - fraction), whole), probability, 2e-4);
    last = fraction;
  }
  EXPECT_EQ(CalibrationSource::none().reserved_for(0.9, scenario, 3072).scenario, scenario);
  EXPECT_FALSE(CalibrationSource::none().reserved_for(0.9, scenario, 3072).probability);
}

TEST(CalibrationFile, RefusesToHoldNoRuns) {
  EXPECT_THAT(refusal_of_file("/runs", nlohmann::ordered_json::array()),
              HasSubstr("file.json: runs: expected 1 to 10000, got 0"));
}

TEST(CalibrationFile, RefusesTimesOfAnotherUnit) {
  EXPECT_THAT(
      refusal_of_file("/runs/1/measured_s", 2400.0),
      HasSubstr("file.json: run \"run\": expected a measured time within a factor of 100 of "
                "the predicted 2 s, got 2400 s"));
}

TEST(CalibrationFile, SaysThatAnEarlierOneIsToBeRefitted) {
  EXPECT_THAT(refusal_of_file("/factor", 1.2), HasSubstr("file.json: factor: files of an earlier"));
}

TEST(CalibrationFile, RefusesAnotherVersionsPredictions) {
  EXPECT_THAT(refusal_of_file("/tool_version", "0.0.1"), HasSubstr("refit it with ptdp-calibrate"));
  EXPECT_THAT(refusal_of_file("/schema", "ptdp.calibration/2"), HasSubstr("schema"));
}

TEST(CalibrationFile, RefusesKeysAndValuesThatCannotBe) {
  EXPECT_THAT(refusal_of_file("/extra", 1), HasSubstr("unknown key"));
  EXPECT_THAT(refusal_of_file("/runs/0/point/gpus", 0), HasSubstr("gpus"));
  EXPECT_THAT(refusal_of_file("/runs/0/predicted_s", -1), HasSubstr("predicted_s"));
  EXPECT_THAT(refusal_of_file("/cluster", "../x"), HasSubstr("cluster"));
}

CalibrationSource source_of(const std::string& text) {
  return CalibrationSource::parse(text, "--calibration");
}

TEST(CalibrationSource, IsAWordOrAPath) {
  EXPECT_THAT(message_of([] { return source_of("shiped"); }),
              HasSubstr("--calibration: expected none, shipped, a directory"));
  EXPECT_THAT(message_of([] { return source_of("shiped"); }),
              HasSubstr("did you mean \"shipped\"?"));
  EXPECT_FALSE(source_of("none").fit(selene_2021("1T"), 3072).is_calibrated());
  EXPECT_TRUE(source_of("shipped").fit(selene_2021("1T"), 3072).is_calibrated());
  EXPECT_TRUE(source_of("shipped").leaves_out_published_runs());
  EXPECT_FALSE(source_of("some/file.json").leaves_out_published_runs());
}

TEST(CalibrationSource, FindsTheFileOfTheClusterAndStack) {
  const TemporaryDirectory directory;
  const auto file = directory.file("selene-a100+megatron-lm-2021.json", to_json(calibration()));
  for (const std::filesystem::path& path : {directory.path(), file}) {
    const CalibrationFit fit = source_of(path.string()).fit(selene_2021("1T"), 3072);
    EXPECT_EQ(fit.support.num_runs, 3);
    EXPECT_NEAR(fit.factor, 1.2, 0.05);  // drawn to what is published of that stack
  }
}

TEST(CalibrationSource, DoesNotStandInForAnotherKindOfModel) {
  const Scenario dense = shipped_scenario("llama-2-70b", "dgx-h100", "megatron-bridge-2025");
  const Scenario experts = shipped_scenario("qwen3-30b-a3b", "dgx-h100", "megatron-bridge-2025");
  const auto is_found = [](const std::filesystem::path& path, const Scenario& scenario) {
    return source_of(path.string()).fit_if_known(scenario, 64, {}).is_calibrated();
  };
  StackCalibration made = calibration();
  made.cluster = "dgx-h100";
  made.stack = "megatron-bridge-2025";
  for (const bool has_experts : {false, true}) {
    made.has_experts = has_experts;
    const TemporaryDirectory directory;
    const auto file = directory.file(
        calibration_file_name(
            {.cluster = made.cluster, .stack = made.stack, .has_experts = has_experts}),
        to_json(made));
    for (const std::filesystem::path& path : {directory.path(), file}) {
      EXPECT_EQ(is_found(path, dense), !has_experts);
      EXPECT_EQ(is_found(path, experts), has_experts);
    }
  }
  made.has_experts.reset();
  const TemporaryDirectory directory;
  const auto file = directory.file("dgx-h100+megatron-bridge-2025.json", to_json(made));
  for (const std::filesystem::path& path : {directory.path(), file}) {
    EXPECT_TRUE(is_found(path, dense));
    EXPECT_TRUE(is_found(path, experts));
  }
}

TEST(CalibrationSource, DoesNotStandInForAnotherStack) {
  const TemporaryDirectory directory;
  const auto file = directory.file("selene-a100+megatron-lm-2021.json", to_json(calibration()));
  const Scenario other = shipped_scenario("1T", "selene-a100", "megatron-lm-2022");
  for (const std::filesystem::path& path : {directory.path(), file}) {
    EXPECT_THAT(message_of([&] { return source_of(path.string()).fit(other, 3072); }),
                HasSubstr(" calibration of selene-a100 + megatron-lm-2022; "));
    EXPECT_FALSE(source_of(path.string()).fit_if_known(other, 3072, {}).is_calibrated());
  }
}

}  // namespace
}  // namespace ptdp
