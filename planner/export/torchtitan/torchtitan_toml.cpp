// torchtitan 0.2.2, the last release that reads TOML: a file and a script that starts it.
#include <fmt/format.h>

#include <map>

#include "planner/export/launch_script.h"
#include "planner/export/torchtitan/torchtitan_model.h"
#include "planner/export/torchtitan/torchtitan_settings.h"

namespace ptdp {
namespace {

constexpr TorchtitanRelease kRelease = TorchtitanRelease::k022;

/// Returns a value as TOML spells it.
std::string toml_value(const TorchtitanSetting& setting) {
  if (const bool* is_on = std::get_if<bool>(&setting.value)) {
    return *is_on ? "true" : "false";
  }
  if (const std::int64_t* number = std::get_if<std::int64_t>(&setting.value)) {
    return fmt::format("{}", *number);
  }
  if (const std::string* text = std::get_if<std::string>(&setting.value)) {
    return fmt::format("\"{}\"", *text);
  }
  const auto list = [](const Names& names) {
    return fmt::format("[\"{}\"]", fmt::join(names, "\", \""));
  };
  if (const Names* names = std::get_if<Names>(&setting.value)) {
    return list(*names);
  }
  std::string lists;
  for (const Names& modules : std::get<StageModules>(setting.value)) {
    lists += "  " + list(modules) + ",\n";
  }
  return "[\n" + lists + "]";
}

void add_recomputation(const Plan& plan, std::vector<TorchtitanSetting>& settings) {
  const ParallelConfig& config = plan.config;
  const auto add = [&](const std::string& key, std::string value) {
    settings.push_back({"recomputation", "activation_checkpoint." + key, std::move(value)});
  };
  switch (repeats(config.recompute)) {
    case Repeats::kNothing:
      add("mode", "none");
      return;
    case Repeats::kModules:
      add("mode", "selective");
      add("selective_ac_option", "op");
      break;
    case Repeats::kLayer:
      add("mode", config.recomputes_by_layers() ? "selective" : "full");
      if (config.recomputes_by_layers()) {
        add("selective_ac_option", std::to_string(config.recompute_num_layers));
      }
      break;
  }
  settings.push_back({"recomputation", "activation_checkpoint.early_stop",
                      plan.scenario.stack.recompute_stops_early});
}

void add_eight_bits(const Plan& plan, std::vector<TorchtitanSetting>& settings) {
  const Fp8Recipe* recipe = fp8_recipe(plan.scenario.stack);
  if (recipe == nullptr) {
    return;
  }
  const bool is_mx = recipe->scaling == Fp8Scaling::kMx;
  const std::string converter = is_mx ? "quantize.linear.mx" : "quantize.linear.float8";
  settings.push_back({"8 bits", "model.converters", Names{converter}});
  if (is_mx) {
    settings.push_back({"8 bits", converter + ".recipe_name", std::string("mxfp8_cublas")});
  } else if (recipe->scaling == Fp8Scaling::kRowwise) {
    settings.push_back({"8 bits", converter + ".recipe_name", std::string("rowwise")});
  } else {
    // Without a recipe's name the converter scales by tensor, and takes the next two keys.
    settings.push_back(
        {"8 bits", converter + ".enable_fsdp_float8_all_gather", recipe->gathers_weights});
    settings.push_back({"8 bits", converter + ".precompute_float8_dynamic_scale_for_fsdp",
                        recipe->gathers_weights});
  }
  settings.push_back({"8 bits", converter + ".filter_fqns", Names{"output"}});
}

/// Returns all settings of a plan, the model's included.
std::vector<TorchtitanSetting> all_settings(const Plan& plan) {
  const TorchtitanFlavor flavor = *torchtitan_flavor(plan.scenario.job.model);
  std::vector<TorchtitanSetting> settings = {{"model", "model.name", std::string(flavor.module)},
                                             {"model", "model.flavor", std::string(flavor.name)}};
  add_eight_bits(plan, settings);
  for (TorchtitanSetting& setting : torchtitan_settings(plan, kRelease)) {
    settings.push_back(std::move(setting));
  }
  add_recomputation(plan, settings);
  return settings;
}

}  // namespace

std::vector<ExportRefusal> torchtitan_toml_refusals(const Plan& plan) {
  std::vector<ExportRefusal> refusals = node_refusals(plan);
  for (const auto& more :
       {torchtitan_plan_refusals(plan, kRelease), torchtitan_flavor_refusals(plan)}) {
    refusals.insert(refusals.end(), more.begin(), more.end());
  }
  return refusals;
}

Export torchtitan_toml_export(const Plan& plan) {
  Export result;
  std::map<std::string, std::string> sections;
  for (const TorchtitanSetting& setting : all_settings(plan)) {
    const std::size_t dot = setting.key.rfind('.');
    const std::string line =
        fmt::format("{} = {}\n", setting.key.substr(dot + 1), toml_value(setting));
    sections[setting.key.substr(0, dot)] += line;
    if (!setting.part.empty()) {
      result.expressed.push_back({setting.part, setting.key});
    }
  }
  std::string text = fmt::format("# {} on {} GPUs: {}\n", plan.scenario.job.model_name,
                                 plan.config.world_size(), to_string(plan.config));
  for (const auto& [section, lines] : sections) {
    text += fmt::format("\n[{}]\n{}", section, lines);
  }
  const LaunchScript script{
      .title = fmt::format("{} on {} GPUs with torchtitan 0.2.2, started in this directory",
                           plan.scenario.job.model_name, plan.config.world_size()),
      .variables = {{"TORCHTITAN_DIR", ".", "a checkout of torchtitan v0.2.2"},
                    {"DATA_ARGS",
                     "--training.dataset c4_test "
                     "--training.dataset_path $TORCHTITAN_DIR/tests/assets/c4_test "
                     "--model.hf_assets_path $TORCHTITAN_DIR/tests/assets/tokenizer",
                     "or --training.dataset c4 --model.hf_assets_path DIR"},
                    {"CHECKPOINT_ARGS", "",
                     "e.g. --checkpoint.enable --checkpoint.interval 100 --job.dump_folder DIR"}},
      .environment = {{"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"}},
      .lines = {"-m torchtitan.train", "--job.config_file plan.toml",
                "$DATA_ARGS $CHECKPOINT_ARGS"}};
  result.files = {{"launch.sh", launch_script(plan, script)}, {"plan.toml", text}};
  if (needs_schedule_csv(plan)) {
    result.files.push_back({"schedule.csv", schedule_csv_export(plan).files.front().content});
  }
  result.differences = torchtitan_differences(plan, kRelease);
  result.checks = torchtitan_checks(plan);
  return result;
}

}  // namespace ptdp
