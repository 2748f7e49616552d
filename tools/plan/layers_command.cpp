#include "tools/plan/layers_command.h"

#include <fmt/format.h>

#include "cost_model/error.h"
#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/text/object_reader.h"
#include "planner/answer_format.h"
#include "planner/partition_report/layer_plans_output.h"
#include "planner/report/answers/layer_plans_page.h"
#include "tools/plan/plan_flags.h"
#include "tools/plan/plan_request.h"
#include "tools/shared/output_files.h"
#include "tools/shared/report_flag.h"
#include "tools/shared/terminal.h"

namespace ptdp {
namespace {

const std::vector<std::string> kLayersFlags = {
    "model",           "gpus",    "nodes",  "cluster", "stack", "global-batch-size",
    "batch-per-gpu",   "overlap", "pp",     "dp",      "vpp",   "zero-stage",
    "memory-headroom", "top",     "format", "report"};

/// Throws Error for flags that a list has no use for; --output says what takes its place.
void refuse_other_flags(const CommandLine& line, const std::filesystem::path& file) {
  if (line.has("output")) {
    throw Error(
        "--output: not for a list of layers, since plans are of transformers alone; "
        "--format json has degrees and stages of " +
        file.string());
  }
  line.allow_only(kLayersFlags, "a list of layers");
}

/// A search over degrees, and which of its values the flags left out.
struct LayersRequest {
  LayerSearch search;
  std::vector<std::string> assumptions;
};

/// Returns the number of GPUs and the batch; the rest of the request is empty.
PlanRequest read_sizes(const CommandLine& line) {
  const AskedGpus asked = asked_gpus(line, kUsualCluster);
  if (!asked.count) {
    throw Error("--gpus is missing (--help tells more)");
  }
  PlanRequest sizes{.gpus = *asked.count};
  if (!asked.assumption.empty()) {
    sizes.assumptions.push_back(asked.assumption);
  }
  const auto batch = given_batch_size(line, 1, sizes);
  if (!batch) {
    throw Error(
        "--global-batch-size is missing: a list of layers does not say the sequences of an "
        "iteration");
  }
  sizes.scenario.job.global_batch_size = *batch;
  return sizes;
}

LayersRequest read_layers_request(const CommandLine& line, const std::filesystem::path& file) {
  PlanRequest sizes = read_sizes(line);
  const SearchOptions options = read_options(line, sizes.gpus);
  LayerSearch search{.list = read_layer_list(file),
                     .cluster = find_cluster(line.text("cluster").value_or(kUsualCluster)),
                     .gpus = sizes.gpus,
                     .global_batch_size = sizes.scenario.job.global_batch_size,
                     .space = options.space,
                     .memory_headroom = options.memory_headroom,
                     .num_best = static_cast<std::size_t>(options.num_best)};
  check_searchable(search.list, file.string());
  check_cluster_holds(line, search.cluster, search.gpus);
  if (asks_for_all_stacks(line)) {
    throw Error("--stack: expected the name of one for a list of layers, got all");
  }
  search.stack = with_bytes_of(as_asked(find_stack_of(line, search.cluster), line), search.list);
  if (!line.has("cluster")) {
    sizes.assumptions.push_back(fmt::format("cluster {}: usual today", search.cluster.name));
  }
  if (!line.has("stack")) {
    sizes.assumptions.push_back(
        fmt::format("stack {}: the default of {}", search.stack.name, search.cluster.name));
  }
  return {std::move(search), std::move(sizes.assumptions)};
}

}  // namespace

std::optional<std::filesystem::path> layers_file(const CommandLine& line) {
  const auto model = line.text("model");
  if (!model) {
    return std::nullopt;
  }
  try {
    const ProfileFile file = profile_file(ProfileKind::kModel, *model);
    if (file.content) {
      return std::nullopt;  // a shipped model
    }
    ObjectReader reader = ObjectReader::from_file(file.path);
    std::string schema;
    if (!reader.has("schema") || !reader.is_text("schema")) {
      return std::nullopt;
    }
    reader.text("schema", schema);
    return schema == kLayersSchema ? std::optional(file.path) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

int run_layers(const CommandLine& line, const std::filesystem::path& file) {
  refuse_other_flags(line, file);
  const auto format = line.choice_or_first<AnswerFormat>("format", kPlanFormats);
  const LayersRequest request = read_layers_request(line, file);
  check_output_files(input_files(line), files_of_flags(line, {"report"}));
  const LayerPlans plans = plan_layers(request.search);
  if (plans.plans.empty()) {
    throw Error(why_nothing_fits(plans), ExitStatus::kNothingFits);
  }
  print_answer(in_format(format, plans, request.assumptions), format);
  write_report(line, "ptdp-plan", [&] { return layer_plans_page(plans, request.assumptions); });
  return 0;
}

}  // namespace ptdp
