// torchtitan 0.3.0: a command line, and a Python module with the plan's model.
#include <fmt/format.h>

#include "planner/export/launch_script.h"
#include "planner/export/torchtitan/torchtitan_model.h"
#include "planner/export/torchtitan/torchtitan_settings.h"

namespace ptdp {
namespace {

/// Returns a setting as words of a shell command: "--training.steps 20". A switch has no value but
/// its name: "--compile.enable", "--compile.no-enable".
std::string command_line(const TorchtitanSetting& setting) {
  std::string line = "--" + setting.key;
  if (const bool* is_on = std::get_if<bool>(&setting.value)) {
    if (!*is_on) {
      line.insert(line.rfind('.') + 1, "no-");
    }
  } else if (const std::int64_t* number = std::get_if<std::int64_t>(&setting.value)) {
    line += fmt::format(" {}", *number);
  } else if (const std::string* text = std::get_if<std::string>(&setting.value)) {
    line += " " + shell_word(*text);
  } else if (const Names* names = std::get_if<Names>(&setting.value)) {
    line += fmt::format(" {}", fmt::join(*names, ","));
  } else {
    for (const Names& modules : std::get<StageModules>(setting.value)) {
      line += fmt::format(" {}", fmt::join(modules, ","));
    }
  }
  return line;
}

/// Returns the word that chooses recomputation. It is a subcommand: flags behind it would be its.
std::string_view recomputation(const ParallelConfig& config) {
  switch (repeats(config.recompute)) {
    case Repeats::kNothing:
      return "activation-checkpoint:none";
    case Repeats::kModules:
      return "activation-checkpoint:selective";
    case Repeats::kLayer:
      return "activation-checkpoint:full";
  }
  return "";
}

}  // namespace

std::vector<ExportRefusal> torchtitan_refusals(const Plan& plan) {
  std::vector<ExportRefusal> refusals = node_refusals(plan);
  for (const auto& more :
       {torchtitan_plan_refusals(plan, TorchtitanRelease::k030), torchtitan_shape_refusals(plan)}) {
    refusals.insert(refusals.end(), more.begin(), more.end());
  }
  return refusals;
}

Export torchtitan_export(const Plan& plan) {
  Export result;
  LaunchScript script{
      .title = fmt::format("{} on {} GPUs with torchtitan 0.3.0, started in this directory: {}",
                           plan.scenario.job.model_name, plan.config.world_size(),
                           to_string(plan.config)),
      .variables = {{"DATA_ARGS", "--config mock_data",
                     "or --config text_data --dataloader.dataset c4 --hf_assets_path DIR"},
                    {"CHECKPOINT_ARGS", "",
                     "e.g. --checkpoint.enable --checkpoint.interval 100 --dump_folder DIR"}},
      .environment = {{"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"}},
      .lines = {"-m torchtitan.train", "--module torchtitan_plan $DATA_ARGS"}};
  std::string arguments_text = "--module torchtitan_plan\n--config mock_data\n";
  const auto add = [&](const std::string& part, const std::string& line) {
    arguments_text += line + "\n";
    if (!part.empty()) {
      result.expressed.push_back({part, line});
    }
  };
  for (const TorchtitanSetting& setting : torchtitan_settings(plan, TorchtitanRelease::k030)) {
    const std::string line = command_line(setting);
    script.lines.push_back(line);
    add(setting.part, line);
  }
  script.lines.emplace_back("$CHECKPOINT_ARGS");
  script.lines.emplace_back(recomputation(plan.config));
  add("recomputation", script.lines.back());
  result.expressed.push_back({"model", "torchtitan_plan.py"});
  result.files = {{"launch.sh", launch_script(plan, script)},
                  {"arguments.txt", arguments_text},
                  {"torchtitan_plan.py", torchtitan_python(plan)}};
  if (needs_schedule_csv(plan)) {
    result.files.push_back({"schedule.csv", schedule_csv_export(plan).files.front().content});
  }
  result.differences = torchtitan_differences(plan, TorchtitanRelease::k030);
  result.checks = torchtitan_checks(plan);
  return result;
}

}  // namespace ptdp
