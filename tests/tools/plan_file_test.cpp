// Tests of plan files that `ptdp-plan show` reads: unchanged, of another version, edited by hand.
#include <gtest/gtest.h>

#include "tests/support/commands.h"

namespace ptdp {
namespace {

using nlohmann::ordered_json;

struct Edit {
  const char* pointer;
  const char* literal;
  /// Text that the message must hold: the place of the fault, as far as it can be known.
  const char* named;
};

ProgramRun show_edited(const Edit& edit) {
  static const ordered_json plan = ordered_json::parse(tiny_plan());
  return run_show_with(with_literal(plan, edit.pointer, edit.literal));
}

void expect_refused(const std::vector<Edit>& edits) {
  for (const Edit& edit : edits) {
    EXPECT_TRUE(is_refused(show_edited(edit), {"plan.json", edit.named}))
        << edit.pointer << " = " << edit.literal;
  }
}

TEST(PlanFile, IsShownAsTheSameBytes) {
  const std::string text = tiny_plan();
  const ProgramRun run = run_show_with(text, {"--format", "json"});
  EXPECT_TRUE(succeeds(run));
  EXPECT_EQ(run.output, text);
  EXPECT_TRUE(is_finite_json(text));
}

TEST(PlanFile, OfEveryShippedModelIsShownAsTheSameBytes) {
  const TemporaryDirectory directory;
  for (const char* model : {"gpt-mini", "gpt2-1.5b", "22B", "145B", "gpt3-175b", "1T"}) {
    const auto file = directory.path() / model;
    const ProgramRun made = run_plan({"--gpus", "3072", "--model", model, "--batch-per-gpu", "1",
                                      "--memory-headroom", "0.07", "-o", file.string()});
    ASSERT_TRUE(succeeds(made)) << model;
    const ProgramRun shown = run_plan({"show", file.string(), "--format", "json"});
    EXPECT_TRUE(succeeds(shown));
    EXPECT_TRUE(shown.output == content_of(file)) << model;
  }
}

// The search of --format json, so that a program need not search again for a file of the best plan.
TEST(ListOfPlans, IsTakenForItsBestPlan) {
  const TemporaryDirectory directory;
  const auto in = [&](const char* name) { return (directory.path() / name).string(); };
  const ProgramRun found = run_plan({"--gpus", "64", "--model", "18B", "--memory-headroom", "0.07",
                                     "-v", "--format", "json", "-o", in("plan.json")});
  ASSERT_TRUE(succeeds(found));
  const std::string list = directory.file("plans.json", found.output).string();
  const std::string plan = content_of(in("plan.json"));
  EXPECT_EQ(run_plan({"show", list, "--format", "json", "-o", in("again.json")}).output, plan);
  EXPECT_EQ(content_of(in("again.json")), plan);
  EXPECT_EQ(run_sim({list}).output, run_sim({in("plan.json")}).output);
  EXPECT_TRUE(is_refused(run_plan({"show", list, "-o", list}), {"plans.json"}));
  const auto shown = [](ordered_json document, const char* pointer, const char* literal) {
    return run_show_with(with_literal(std::move(document), pointer, literal));
  };
  const ordered_json document = ordered_json::parse(found.output);
  EXPECT_TRUE(is_refused(shown(document, "/plans", "[]"), {"plan.json", "plans", "found none"}));
  EXPECT_TRUE(is_refused(shown(document, "/tool_version", "\"0.0.1\""), {"tool_version"}));
  EXPECT_TRUE(is_refused(shown(document, "/plans/0/memory/stages/0/weights_bytes", "1"),
                         {"plan.json", "plans[0]", "memory"}));
}

TEST(PlanFile, IsShownWithoutTheProfilesItCameFrom) {
  const TemporaryDirectory directory;
  const std::string file = directory.file("plan.json", tiny_plan()).string();
  const RunOptions nowhere{.environment = {{"PTDP_PROFILES", "/nowhere"}}};
  EXPECT_TRUE(succeeds(run_plan({"show", file}, nowhere)));
}

TEST(PlanFile, TruncatedAtAnyByteIsRefused) {
  const std::string text = tiny_plan();
  const std::size_t end = text.rfind('}');
  // Every byte near both ends, every 101st in between: model files are cut at each.
  constexpr std::size_t near = kIsSanitized ? 10 : 40;
  for (std::size_t length = 0; length <= end;
       length += length < near || length + near > end ? 1 : 101) {
    ASSERT_TRUE(is_refused(run_show_with(text.substr(0, length)), {"plan.json"}))
        << "after " << length << " bytes";
  }
}

TEST(PlanFile, OfAnotherVersionIsRefusedWithAHint) {
  for (const char* schema : {"\"ptdp.plan/0\"", "\"ptdp.plan/2\"", "\"ptdp.plan/10\""}) {
    EXPECT_TRUE(is_refused(show_edited({"/schema", schema, ""}),
                           {"plan.json: schema", schema, "ptdp.plan/1", "make the plan again"}))
        << schema;
  }
}

TEST(PlanFile, OfNoVersionIsRefused) {
  expect_refused({{"/schema", "\"\"", "schema"},
                  {"/schema", "1", "schema"},
                  {"/schema", "null", "schema"},
                  {"/schema", "\"ptdp.model/1\"", "schema"}});
}

// Both files are read as `show` reads one.
TEST(PlanFile, ThatIsNoPlanIsRefusedByCompareNamingWhich) {
  const TemporaryDirectory directory;
  const std::string plan = directory.file("plan.json", tiny_plan()).string();
  const std::string model = directory.file("model.json", tiny_model()).string();
  EXPECT_TRUE(succeeds(run_plan({"compare", plan, plan})));
  EXPECT_TRUE(is_refused(run_plan({"compare", plan, model}), {"model.json", "schema"}));
  EXPECT_TRUE(is_refused(run_plan({"compare", model, plan}), {"model.json", "schema"}));
  EXPECT_TRUE(is_refused(run_plan({"compare", plan, plan + ".none"}), {"plan.json.none"}));
}

// Which version made a plan is part of what it says; showing it must not rewrite that.
TEST(PlanFile, OfAnOlderToolKeepsThatToolsVersion) {
  const std::string text =
      with_literal(ordered_json::parse(tiny_plan()), "/tool_version", "\"0.0.9\"");
  const ProgramRun run = run_show_with(text, {"--format", "json"});
  ASSERT_TRUE(ends_with(run, kDone));
  EXPECT_EQ(ordered_json::parse(run.output)["tool_version"], "0.0.9");
}

TEST(PlanFile, WithAnyKeyMissingIsRefusedNamingIt) {
  const ordered_json plan = ordered_json::parse(tiny_plan());
  for (const auto& part : plan.items()) {
    ordered_json less = plan;
    less.erase(part.key());
    EXPECT_TRUE(is_refused(run_show_with(less.dump()), {"plan.json", part.key()})) << part.key();
  }
  for (const char* part : {"config", "schedule", "predicted", "memory"}) {
    for (const auto& item : plan[part].items()) {
      if (item.key() == "outside_runs" ||
          (item.key().starts_with("calibration_") && item.key().ends_with("_runs") &&
           item.key() != "calibration_runs")) {
        continue;  // absent where there is nothing, or no more than the key before says
      }
      ordered_json less = plan;
      less[part].erase(item.key());
      EXPECT_TRUE(is_refused(run_show_with(less.dump()), {"plan.json", part, item.key()}))
          << part << " " << item.key();
    }
  }
}

TEST(PlanFile, WithAnExtraKeyIsRefusedNamingIt) {
  expect_refused({{"/extra", "1", "extra"},
                  {"/config/expert_tp", "1", "expert_tp"},
                  {"/schedule/orders", "[]", "orders"},
                  {"/predicted/loss", "2.5", "loss"},
                  {"/memory/stages/0/slack_GiB", "1", "slack_GiB"},
                  {"/inputs/cluster/gpu/tensor_cores", "432", "tensor_cores"},
                  {"/inputs/model/num_layer", "4", "num_layers"}});
}

TEST(PlanFile, WithAConfigurationThatCannotRunIsRefusedNamingIt) {
  expect_refused({{"/config/tp", "3", "heads"},
                  {"/config/pp", "3", "layers"},
                  {"/config/dp", "3", "batch"},
                  {"/config/vpp", "3", "config"},
                  {"/config/micro_batch_size", "3", "batch"},
                  {"/config/zero_stage", "3", "config"},
                  {"/config/schedule", "\"interleaved\"", "config"},
                  {"/config/schedule", "\"pipe\"", "config.schedule"},
                  {"/config/schedule", "\"gpipe\"", "schedule"},
                  {"/config/schedule", "\"zb-v\"", "vpp"},
                  {"/config/cp", "2", "config"},
                  {"/config/ep", "2", "config"},
                  {"/config/rank_order", "\"tp-dp-pp\"", "rank_order"},
                  {"/config/layers_per_stage", "[3, 2]", "layers_per_stage"},
                  {"/config/sequence_parallel", "true", "config"},
                  {"/inputs/model/num_layers", "5", "layers"},
                  {"/inputs/gpus", "7", "config"}});
}

TEST(PlanFile, WithAVirtualPipelineThatTheScheduleLacksIsRefused) {
  ordered_json plan = ordered_json::parse(tiny_plan());
  plan["config"]["vpp"] = 2;  // 1f1b runs one chunk
  plan["schedule"]["layers_per_stage"] = {1, 1, 1, 1};
  EXPECT_TRUE(is_refused(run_show_with(plan.dump()), {"plan.json", "config"}));
}

TEST(PlanFile, WithAScheduleOfAnotherConfigurationIsRefusedNamingIt) {
  expect_refused({{"/schedule/generator", "\"interleaved\"", "schedule"},
                  {"/schedule/generator", "\"gpipe\"", "schedule"},
                  {"/schedule/num_microbatches", "9", "schedule"},
                  {"/schedule/num_microbatches", "0", "schedule.num_microbatches"},
                  {"/schedule/microbatch_group_size", "3", "schedule"},
                  {"/schedule/layers_per_stage", "[1, 3]", "schedule"},
                  {"/schedule/layers_per_stage", "[4]", "schedule"},
                  {"/schedule/layers_per_stage", "[]", "schedule"}});
}

TEST(PlanFile, WithTheWrongNumberOfStagesIsRefusedNamingIt) {
  for (const int stages : {0, 1, 3}) {
    ordered_json plan = ordered_json::parse(tiny_plan());
    const ordered_json stage = plan["memory"]["stages"][0];
    plan["memory"]["stages"] = ordered_json::array();
    for (int i = 0; i < stages; ++i) {
      plan["memory"]["stages"].push_back(stage);
    }
    EXPECT_TRUE(is_refused(run_show_with(plan.dump()), {"plan.json", "memory"})) << stages;
  }
  expect_refused({{"/memory/heaviest_stage", "2", "memory.heaviest_stage"},
                  {"/memory/heaviest_stage", "-1", "memory.heaviest_stage"}});
}

TEST(PlanFile, WithMemoryThatDoesNotAddUpIsRefused) {
  expect_refused({{"/memory/peak_GiB", "1", "memory"},
                  {"/memory/stages/0/weights_GiB", "1", "memory"},
                  {"/memory/stages/1/activations_GiB", "100", "memory"}});
}

TEST(PlanFile, ThatNeedsMoreMemoryThanTheDeviceHasIsRefused) {
  expect_refused({{"/inputs/cluster/gpu/memory_GiB", "0.001", "memory"},
                  {"/inputs/memory_headroom", "0.999", "memory"}});
}

TEST(PlanFile, WithNumbersThatCannotBeIsRefused) {
  expect_refused({{"/predicted/iteration_time_s", "0", "iteration_time_s"},
                  {"/predicted/iteration_time_s", "-1", "iteration_time_s"},
                  {"/predicted/iteration_time_s", "NaN", "plan.json"},
                  {"/predicted/iteration_time_s", "1e400", "plan.json"},
                  {"/predicted/iteration_time_s", "\"1\"", "iteration_time_s"},
                  {"/predicted/tokens_per_s", "0", "tokens_per_s"},
                  {"/predicted/interval_s", "[1]", "interval_s"},
                  {"/predicted/interval_s", "[2, 1]", "interval_s"},
                  {"/predicted/interval_s", "[]", "interval_s"},
                  {"/predicted/calibration_factor", "0", "calibration_factor"},
                  {"/predicted/calibration_runs", "-1", "calibration_runs"},
                  {"/config/tp", "0", "config.tp"},
                  {"/config/tp", "2.0", "config.tp"},
                  {"/config/tp", "4294967298", "config.tp"},
                  {"/inputs/gpus", "0", "inputs.gpus"},
                  {"/inputs/gpus", "18446744073709551624", "inputs.gpus"},
                  {"/inputs/memory_headroom", "1", "inputs.memory_headroom"},
                  {"/inputs/global_batch_size", "0", "inputs.global_batch_size"}});
}

// Degrees whose product passes 2^32 and 2^64.
TEST(PlanFile, WithDegreesThatOverflowIsRefused) {
  for (const std::int64_t degree : {65536, 4'194'304, 100'000'000}) {
    ordered_json plan = ordered_json::parse(tiny_plan());
    for (const char* key : {"tp", "pp", "dp", "cp", "ep", "vpp", "micro_batch_size"}) {
      plan["config"][key] = degree;
    }
    EXPECT_TRUE(is_refused(run_show_with(plan.dump()), {"plan.json"})) << degree;
  }
}

// Another version's estimate is no fault of the file; whoever reads it has to know, though.
TEST(PlanFile, OfAnotherEstimateIsShownWithAWarning) {
  const ProgramRun run = show_edited({"/predicted/iteration_time_s", "12345", ""});
  EXPECT_TRUE(run.status == kBadInput || run.errors.find("warning") != std::string::npos)
      << run.errors;
  EXPECT_TRUE(has_only_numbers(run.output + run.errors));
}

/// Returns the tiny plan of an older version that predicted a longer step, by the fraction `more`.
std::string plan_of_older_tool(double more) {
  ordered_json plan = ordered_json::parse(tiny_plan());
  plan["tool_version"] = "0.0.9";
  ordered_json& predicted = plan["predicted"];
  const double added = more * predicted["iteration_time_s"].get<double>();
  for (ordered_json* number :
       {&predicted["iteration_time_s"], &predicted["breakdown_s"]["bubble"]}) {
    *number = number->get<double>() + added;
  }
  return plan.dump();
}

TEST(PlanFile, OfAnOlderToolIsShownWithAWarningHoweverLittleItsEstimateDiffers) {
  for (const double more : {0.02, 1e-3, -1e-3, 1e-6}) {
    const ProgramRun run = run_show_with(plan_of_older_tool(more));
    EXPECT_TRUE(ends_with(run, kDone)) << more;
    EXPECT_NE(run.output.find("Configuration"), std::string::npos) << more;
    EXPECT_TRUE(run.errors.starts_with("ptdp-plan: warning: this version predicts ")) << run.errors;
  }
  EXPECT_TRUE(succeeds(run_show_with(plan_of_older_tool(0.0))));
}

}  // namespace
}  // namespace ptdp
