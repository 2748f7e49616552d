// What all exports share: refusals as text, the README beside the files, the nodes in use.
#include "planner/export/exporter.h"

#include <fmt/format.h>

#include "cost_model/error.h"
#include "cost_model/inputs/rank_grid.h"
#include "planner/export/plain_text.h"
#include "planner/formatting.h"

namespace ptdp {
namespace {

std::string bullets(const std::vector<std::string>& sentences) {
  std::string text;
  for (const std::string& sentence : sentences) {
    text += "- " + sentence + "\n";
  }
  return text;
}

/// Returns the README of an export: what was expressed how, what differs, what to check first.
std::string readme(const Plan& plan, const Exporter& exporter, const Export& exported) {
  std::string text = fmt::format(
      "# {} on {} GPUs: {}\n\n"
      "Written by `ptdp-plan export --to {}` for {}.\n"
      "The plan predicts {} per iteration and at most {} of memory on a GPU.\n\n",
      plan.scenario.job.model_name, plan.config.world_size(), to_string(plan.config), exporter.name,
      exporter.target, duration(plan.predicted.iteration_time.value), bytes(plan.memory.peak()));
  text += "| file | |\n|---|---|\n";
  for (const ExportedFile& file : exported.files) {
    text += fmt::format(
        "| `{}` | {} |\n", file.name,
        file.name == "launch.sh" ? "starts it: `sbatch launch.sh`, or `bash launch.sh`" : "");
  }
  text += "\n## What the plan says, and how it is spelled\n\n| plan | spelled |\n|---|---|\n";
  for (const ExpressedPart& part : exported.expressed) {
    text += fmt::format("| {} | `{}` |\n", part.part, part.spelled);
  }
  if (!exported.differences.empty()) {
    text += "\n## What the framework does differently\n\n" + bullets(exported.differences);
  }
  text += "\n## What to check first\n\n" + bullets(exported.checks);
  return text;
}

}  // namespace

std::string text_of(const Exporter& exporter, std::span<const ExportRefusal> refusals) {
  std::string text;
  for (const ExportRefusal& refusal : refusals) {
    text += fmt::format("{}{} {}: expected {}", text.empty() ? "" : "; ", refusal.field,
                        refusal.found, refusal.instead);
  }
  return fmt::format("--to {}: the plan has {}", exporter.name, text);
}

std::vector<ExportedFile> export_plan(const Plan& plan, const Exporter& exporter) {
  const std::vector<ExportRefusal> refusals = exporter.find_refusals(plan);
  if (!refusals.empty()) {
    throw Error(text_of(exporter, refusals));
  }
  Export exported = exporter.write(plan);
  exported.files.push_back({"README.md", readme(plan, exporter, exported)});
  return exported.files;
}

std::string plain_number(double value) {
  return fmt::format("{}", value);
}

NodesInUse nodes_in_use(const Plan& plan) {
  const std::int64_t world = plan.config.world_size();
  const std::int64_t per_node = std::min(world, gpus_taken_per_node(plan.scenario.cluster, world));
  return {.nodes = (world + per_node - 1) / per_node, .gpus_per_node = per_node};
}

std::vector<ExportRefusal> node_refusals(const Plan& plan) {
  const NodesInUse use = nodes_in_use(plan);
  if (use.nodes * use.gpus_per_node == plan.config.world_size()) {
    return {};
  }
  return {{"GPUs", std::to_string(plan.config.world_size()),
           fmt::format("a multiple of the {} of a node, or fewer: launchers start equally many "
                       "processes on each",
                       use.gpus_per_node)}};
}

bool is_for_cores(const Plan& plan) {
  return plan.scenario.cluster.gpu.num_multiprocessors == 1;
}

std::vector<std::string> run_differences(const Plan& plan) {
  std::vector<std::string> differences = {
      "ptdp-run trains dense models. It refuses what it does not execute by name, before anything "
      "starts."};
  if (plan.gpus > plan.config.world_size()) {
    differences.push_back(
        fmt::format("The plan leaves {} of the {} GPUs idle: they are not asked for.",
                    plan.gpus - plan.config.world_size(), plan.gpus));
  }
  return differences;
}

std::vector<std::string> run_checks(const Plan& plan) {
  return {"`ptdp-run plan.json --shrink` tries every order and message on one machine.",
          fmt::format("`iteration time` of the report is near {}, `peak memory` below {}.",
                      duration(plan.predicted.iteration_time.value), bytes(plan.memory.peak()))};
}

std::string_view linear_precision(const StackSpec& stack) {
  return stack.fp8 ? name_of(*stack.fp8) : name_of(stack.precision);
}

bool trains_plainly(const StackSpec& stack) {
  return !stack.fp8 && stack.precision != Precision::kTf32 && stack.precision != Precision::kFp64;
}

bool has_blackwell(const Plan& plan) {
  const ClusterSpec& cluster = plan.scenario.cluster;
  return cluster.gpu.fp8_mx || (cluster.nccl && cluster.nccl->compute_capability >= 100);
}

}  // namespace ptdp
