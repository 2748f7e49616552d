// Tests of `ptdp-plan --config`: exactly one configuration, and what the best plan would gain.
#include <gmock/gmock.h>

#include "tests/support/commands.h"

namespace ptdp {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const std::vector<std::string> kJob = {"--gpus", "64", "--model", "7.5B"};

std::vector<std::string> with(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = kJob;
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

// The oracle is the search: the plan of its best configuration, named, has the same bytes.
TEST(GivenConfig, IsCostedAsTheSearchCostsIt) {
  const TemporaryDirectory directory;
  const auto best = directory.path() / "best.json";
  const auto given = directory.path() / "given.json";
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{},
        {"--stack", "megatron-core-2024", "--cluster", "dgx-h100"},
        {"--pp", "4", "--vpp", "3", "--recompute", "full"}}) {
    std::vector<std::string> searched = with(flags);
    searched.insert(searched.end(), {"-o", best.string()});
    ASSERT_TRUE(succeeds(run_plan(searched)));
    const json config = json::parse(content_of(best))["config"];
    std::string named;
    for (const auto& [key, value] : config.items()) {
      if (key != "layers_per_stage" && key != "recompute_method") {
        named += (named.empty() ? "" : ",") + key + "=" +
                 (value.is_boolean()  ? (value.get<bool>() ? "on" : "off")
                  : value.is_string() ? value.get<std::string>()
                                      : value.dump());
      }
    }
    std::vector<std::string> arguments = with(flags);
    arguments.insert(arguments.end(), {"--config", named, "-o", given.string()});
    const ProgramRun run = run_plan(arguments);
    EXPECT_TRUE(succeeds(run)) << named;
    EXPECT_EQ(content_of(given), content_of(best)) << named;
    EXPECT_THAT(run.output, HasSubstr("This is the best plan of the search."));
  }
}

/// Returns what a switch of a stack is said to cost the 175B model of SC21 on 96 GPUs [%].
double cost_of_switch(const std::string& flag, const std::string& config,
                      const std::string& batch) {
  const ProgramRun run =
      run_plan({"--gpus", "96", "--model", "gpt3-175b", "--stack", "megatron-lm-2021", flag, "off",
                "--global-batch-size", batch, "--config", config});
  EXPECT_TRUE(succeeds(run));
  const std::size_t line = run.output.find(flag + " off: ");
  const std::size_t percent = run.output.find(" %", line);
  EXPECT_NE(line, std::string::npos) << run.output;
  return std::stod(run.output.substr(run.output.rfind(' ', percent - 1), percent));
}

// SC21 (arXiv:2104.04473) section 5.8: 113 TFLOP/s without fused operators, 135 with them. Section
// 5.7: scatter/gather gains up to 11 % with 4 chunks on each of 12 ranks; figures 12 and 18 have 10
// to 11.5 % from 24 sequences on.
TEST(GivenConfig, SaysWhatSwitchesOfTheStackCost) {
  EXPECT_NEAR(cost_of_switch("--fused", "tp=8,pp=12,recompute=full", "60"),
              100.0 * (135.0 / 113.0 - 1.0), 3.0);
  EXPECT_NEAR(cost_of_switch("--scatter-gather",
                             "tp=8,pp=12,vpp=4,schedule=interleaved,recompute=full", "48"),
              10.75, 4.0);
}

TEST(GivenConfig, RefusesSwitchesThatMeanNothing) {
  EXPECT_TRUE(is_refused(run_plan(with({"--fused", "maybe"})), {"--fused", "off, on"}));
  EXPECT_TRUE(is_refused(run_plan({"--gpus", "8", "--model", "gpt2-124m", "--stack", "ptdp-cuda",
                                   "--cluster", "dgx-h100", "--fused", "off"}),
                         {"--fused", "kernels of its own"}));
}

// 24 layers on four stages.
TEST(LayersPerStage, ArePlannedAsGiven) {
  const TemporaryDirectory directory;
  const auto plan = directory.path() / "plan.json";
  const std::vector<std::string> flags = {
      "--gpus", "32", "--model", "1.7B", "--stack", "megatron-core-2025", "--cluster", "dgx-h100",
      "--pp",   "4",  "--vpp",   "1",    "-o",      plan.string()};
  const auto planned = [&](const std::string& layers) {
    std::vector<std::string> arguments = flags;
    arguments.insert(arguments.end(), {"--layers-per-stage", layers});
    return run_plan(arguments);
  };
  EXPECT_TRUE(succeeds(planned("4,7,7,6")));
  EXPECT_EQ(json::parse(content_of(plan))["config"]["layers_per_stage"], json({4, 7, 7, 6}));
  EXPECT_TRUE(succeeds(planned("5,2x7,5")));
  EXPECT_EQ(json::parse(content_of(plan))["config"]["layers_per_stage"], json({5, 7, 7, 5}));
  EXPECT_EQ(planned("4,7,7,7").status, 3);
  EXPECT_TRUE(is_refused(planned("4,7,,6"), {"--layers-per-stage"}));
  const ProgramRun as_json =
      run_plan({"--gpus", "32", "--model", "1.7B", "--stack", "megatron-core-2025", "--cluster",
                "dgx-h100", "--layers-per-stage", "4,7,7,6", "--format", "json"});
  EXPECT_EQ(json::parse(as_json.output)["search"]["layers_per_stage"], json({4, 7, 7, 6}));
}

TEST(GivenConfig, SaysWhatTheBestPlanGains) {
  const ProgramRun run = run_plan(with({"--config", "tp=8,recompute=full"}));
  EXPECT_TRUE(succeeds(run));
  EXPECT_THAT(run.output, HasSubstr("with tp=8 pp=1 dp=8 b=1 1f1b recompute=full"));
  EXPECT_THAT(run.output, HasSubstr("% less: tp="));
  EXPECT_THAT(run.output, HasSubstr("ptdp-plan --gpus 64 --model 7.5B -o plan.json"));
  const ProgramRun as_json =
      run_plan(with({"--config", "tp=8,recompute=full", "--format", "json"}));
  const json document = json::parse(as_json.output);
  EXPECT_EQ(document["schema"], "ptdp.given/1");
  EXPECT_TRUE(document["fits"]);
  EXPECT_NEAR(document["loss"].get<double>(),
              document["predicted"]["iteration_time_s"].get<double>() /
                      document["best"]["iteration_time_s"].get<double>() -
                  1.0,
              1e-9);
}

TEST(GivenConfig, ThatCannotRunSaysWhyWithStatusThree) {
  const TemporaryDirectory directory;
  const auto file = directory.path() / "plan.json";
  struct Row {
    const char* config;
    const char* why;
  };
  for (const Row& row : {Row{"tp=3", "attention heads not divisible by tp; tp can be 1, 2, 4"},
                         Row{"pp=5", "layers not divisible by pp; pp can be"},
                         Row{"dp=48", "batch not divisible by dp * micro_batch_size"},
                         Row{"zero_stage=3", "not run by this stack; stack megatron-lm-2021 runs"},
                         Row{"tp=1,b=8", "Fits: no, stage 1 of 1 needs "}}) {
    const ProgramRun run = run_plan(with({"--config", row.config, "-o", file.string()}));
    EXPECT_EQ(run.status, kNothingFits) << row.config;
    EXPECT_TRUE(run.output.starts_with("Fits: no, ")) << row.config;
    EXPECT_THAT(run.output, HasSubstr(row.why)) << row.config;
    EXPECT_THAT(run.output, HasSubstr("The best plan of the search")) << row.config;
    EXPECT_FALSE(std::filesystem::exists(file)) << row.config;
    const ProgramRun as_json = run_plan(with({"--config", row.config, "--format", "json"}));
    EXPECT_EQ(as_json.status, kNothingFits);
    EXPECT_FALSE(json::parse(as_json.output)["fits"]) << row.config;
  }
  const ProgramRun too_many = run_plan(with({"--config", "tp=64,pp=2"}));
  EXPECT_EQ(too_many.status, kNothingFits);
  EXPECT_THAT(too_many.errors, HasSubstr("needs 128 GPUs; there are 64"));
}

// Every change, typed as it is printed, fits in the time and memory that are printed beside it.
TEST(GivenConfig, ThatDoesNotFitNamesChangesThatDo) {
  const std::vector<std::string> flags = {"--config", "tp=1,b=8"};
  const ProgramRun run = run_plan(with(flags));
  EXPECT_EQ(run.status, kNothingFits);
  std::vector<std::string> as_json_flags = flags;
  as_json_flags.insert(as_json_flags.end(), {"--format", "json"});
  const ProgramRun as_json = run_plan(with(as_json_flags));
  EXPECT_EQ(as_json.status, kNothingFits);
  const json document = json::parse(as_json.output);
  EXPECT_EQ(document["memory"]["stages"].size(), 1U);
  EXPECT_LT(document["probability_of_fitting"].get<double>(), 0.01);
  EXPECT_TRUE(document["changes_complete"]);
  ASSERT_EQ(document["changes"].size(), 3U);
  std::size_t end = 0;
  for (const json& change : document["changes"]) {
    const std::size_t begin = run.output.find("     --config ", end) + 5;
    ASSERT_LT(begin, run.output.size());
    end = run.output.find('\n', begin);
    const std::string typed = run.output.substr(begin + 9, end - begin - 9);
    const ProgramRun changed = run_plan(with({"--config", typed, "--format", "json"}));
    EXPECT_TRUE(succeeds(changed)) << typed;
    const json found = json::parse(changed.output);
    EXPECT_EQ(found["config"], change["config"]);
    EXPECT_NEAR(found["predicted"]["iteration_time_s"].get<double>() /
                    change["iteration_time_s"].get<double>(),
                1.0, 1e-6);
    EXPECT_NEAR(found["memory"]["peak_GiB"].get<double>(), change["peak_GiB"].get<double>(), 1e-5);
    EXPECT_EQ(found["probability_of_fitting"], change["probability_of_fitting"]);
    EXPECT_EQ(found["gpus_used"], change["gpus_used"]);
    EXPECT_FALSE(found.contains("changes"));
    std::vector<std::string> differ;
    for (const auto& [key, value] : change["config"].items()) {
      if (value != document["config"][key]) {
        differ.push_back(key);
      }
    }
    EXPECT_THAT(change["changed"].get<std::vector<std::string>>(),
                testing::UnorderedElementsAreArray(differ));
    const ProgramRun text = run_plan(with({"--config", typed}));
    EXPECT_TRUE(text.output.starts_with("Fits: yes, with over 90 %; stage 1 of ")) << text.output;
  }
}

TEST(GivenConfig, ThatNoChangeHelpsNamesTheGpusThatWouldDo) {
  const ProgramRun run = run_plan({"--gpus", "64", "--model", "1T", "--config", "tp=8,pp=8"});
  EXPECT_EQ(run.status, kNothingFits);
  EXPECT_THAT(run.output, HasSubstr("\nNo change of one or two fields makes it fit.\n"));
  EXPECT_THAT(run.output, HasSubstr("finds nothing that fits; 512 GPUs would do: tp="));
  const json document = json::parse(
      run_plan({"--gpus", "64", "--model", "1T", "--config", "tp=8,pp=8", "--format", "json"})
          .output);
  EXPECT_EQ(document["changes"], json::array());
  EXPECT_EQ(document["gpus_that_would_do"]["gpus"], 512);
}

TEST(GivenConfig, RefusesFlagsOfSearches) {
  EXPECT_TRUE(is_refused(run_plan(with({"--config", "tp=8", "--top", "3"})), {"--top"}));
  EXPECT_TRUE(is_refused(run_plan(with({"--config", "tp=8", "--explain", "tp=4"})), {"--explain"}));
  EXPECT_TRUE(is_refused(run_plan(with({"--config", "tp=8", "--compare-strategies"})),
                         {"--compare-strategies"}));
  EXPECT_TRUE(is_refused(run_plan(with({"--config", "tp=8", "--format", "csv"})), {"csv"}));
  EXPECT_TRUE(is_refused(run_plan(with({"--config", "tpp=8"})), {"--config: tpp: unknown key"}));
}

/// Returns the time of the `measured` part of an answer to --config with `value` for --measured.
double measured_time(const std::string& value, const std::string& stack = "megatron-lm-2021") {
  const ProgramRun run = run_plan(with(
      {"--config", "tp=4,dp=16,b=1", "--format", "json", "--measured", value, "--stack", stack}));
  EXPECT_TRUE(succeeds(run)) << run.errors;
  return json::parse(run.output)["measured"]["time_s"].get<double>();
}

// 512 sequences of 2048 tokens over 64 GPUs: 2^20 tokens, 2^14 of a GPU.
TEST(GivenConfig, ComparesWithWhatWasMeasured) {
  EXPECT_NEAR(measured_time("8s"), 8.0, 1e-12);
  EXPECT_NEAR(measured_time("8500 ms"), 8.5, 1e-12);
  EXPECT_NEAR(measured_time("131072tokens/s"), 8.0, 1e-9);
  EXPECT_NEAR(measured_time("2048tokens/s/GPU"), 8.0, 1e-9);
  const ProgramRun run = run_plan(with({"--config", "tp=4,dp=16,b=1", "--measured", "12s"}));
  ASSERT_TRUE(succeeds(run)) << run.errors;
  EXPECT_THAT(run.output, HasSubstr("Measured (12s)"));
  EXPECT_THAT(run.output, HasSubstr("if it is off by as much"));
}

// By hand (Korthikanti et al. appendix A, in FLOPs of model, hardware alike without recomputation):
// 72 B s l h^2 (1 + s/6h + V/12lh), B = 512, s = 2048, l = 36, h = 4096, V = 51200; causal: s/12h.
TEST(GivenConfig, TakesRatesByWhatTheyCount) {
  const double linear = 72.0 * 512 * 2048 * 36 * 4096.0 * 4096.0;
  const double logits = 51200.0 / (12.0 * 36 * 4096);
  const double model = linear * (1.0 + 2048.0 / (6.0 * 4096) + logits);
  const double causal = linear * (1.0 + 2048.0 / (12.0 * 4096) + logits);
  EXPECT_NEAR(measured_time("100model-TFLOP/s"), model / 64 / 1e14, 1e-6);
  EXPECT_NEAR(measured_time("100hardware-TFLOP/s"), model / 64 / 1e14, 1e-6);
  EXPECT_NEAR(measured_time("100causal-TFLOP/s"), causal / 64 / 1e14, 1e-6);
  EXPECT_NEAR(measured_time("100TFLOP/s", "megatron-core-2024"), model / 64 / 1e14, 1e-6);
  EXPECT_NEAR(measured_time("100TFLOP/s", "megatron-core-2025"), causal / 64 / 1e14, 1e-6);
}

TEST(GivenConfig, CountsFlopsEachWay) {
  const ProgramRun run = run_plan(
      with({"--config", "tp=4,dp=16,b=1", "--format", "json", "--stack", "megatron-core-2025"}));
  const json document = json::parse(run.output);
  const json& predicted = document["predicted"];
  const json& flops = document["flops"];
  EXPECT_NEAR(flops["hardware"]["tflops_per_gpu"].get<double>(),
              predicted["tflops_per_gpu"].get<double>(), 1e-6);
  EXPECT_NEAR(flops["model"]["of_peak"].get<double>(), predicted["mfu"].get<double>(), 1e-9);
  EXPECT_LT(flops["causal"]["of_peak"], flops["model"]["of_peak"]);
  EXPECT_EQ(flops["causal"]["is_logged"], true);
  EXPECT_EQ(flops["model"]["is_logged"], false);
}

TEST(GivenConfig, RefusesWhatSaysNoTime) {
  for (const char* value : {"", "8", "s", "-8s", "0s", "8h", "8 s x", "nans", "1e9s"}) {
    EXPECT_TRUE(is_refused(run_plan(with({"--config", "tp=4", "--measured=" + std::string(value)})),
                           {"--measured"}))
        << value;
  }
  EXPECT_TRUE(is_refused(run_plan(with({"--config", "tp=4", "--measured", "100TFLOP/s"})),
                         {"--measured", "model-TFLOP/s"}));
  EXPECT_TRUE(is_refused(run_plan(with({"--measured", "8s"})), {"--measured", "--config"}));
  EXPECT_TRUE(is_refused(run_plan(with({"--config", "tp=4", "--measured", "8s", "--log", "x"})),
                         {"--measured and --log"}));
}

}  // namespace
}  // namespace ptdp
