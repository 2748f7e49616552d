#include "tools/plan/partition_command.h"

#include <algorithm>

#include "cost_model/error.h"
#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/inputs/parameter_counts.h"
#include "cost_model/text/in_quotes.h"
#include "planner/constraints/constraint.h"
#include "planner/partition_report/partition_output.h"
#include "tools/plan/plan_request.h"
#include "tools/shared/terminal.h"

namespace ptdp {
namespace {

constexpr std::int64_t kMostStages = kMostLayers + 2;  // a layer each, and both ends alone
constexpr std::int64_t kMostPerSize = 100'000'000;
constexpr std::int64_t kMostMicrobatches = 1'000'000;
constexpr int kMicrobatchesPerRank = 4;

const std::vector<std::string> kPartitionFlags = {"memory", "microbatches", "placement"};
const std::vector<std::string> kModelFlags = {
    "model",     "cluster",          "stack",      "seq-length",       "tp", "dp",
    "recompute", "micro-batch-size", "zero-stage", "sequence-parallel"};

int count_or(const CommandLine& line, const std::string& flag, std::int64_t low, std::int64_t high,
             int otherwise) {
  return static_cast<int>(line.count(flag, low, high).value_or(otherwise));
}

PartitionRequest read_partition_request(const CommandLine& line) {
  const auto pp = line.count("pp", 1, kMostStages);
  if (!pp) {
    throw Error("--pp is missing: the ranks of the pipeline (--help tells more)");
  }
  const auto placement = line.choice_or_first<StagePlacement>("placement", kPlacementNames);
  const bool is_v = placement == StagePlacement::kV;
  PartitionRequest request{.pp = static_cast<int>(*pp),
                           .vpp = count_or(line, "vpp", 1, kMostStages, is_v ? 2 : 1),
                           .placement = placement};
  if (is_v && request.vpp != 2) {
    throw Error("--vpp: expected 2 with --placement v, got " + std::to_string(request.vpp));
  }
  if (const auto memory = line.number("memory", 0.0, 1e6)) {
    request.memory = gibibytes(*memory);
  }
  return request;
}

Scenario read_scenario(const CommandLine& line) {
  ModelProfile model = find_model(*line.text("model"));
  print_warnings(model.warnings);
  if (const auto length = line.size("seq-length", 1, kLongestSequence)) {
    model.config.seq_length = static_cast<int>(length->value);
  }
  (void)parameter_count(model.config);
  Scenario scenario{.job = {.model_name = model.name, .model = model.config},
                    .cluster = find_cluster(line.text("cluster").value_or(model.home))};
  scenario.stack = find_stack_of(line, scenario.cluster);
  return scenario;
}

ParallelConfig read_config(const CommandLine& line, const PartitionRequest& request) {
  ParallelConfig config{.tp = count_or(line, "tp", 1, kMostPerSize, 1),
                        .pp = request.pp,
                        .dp = count_or(line, "dp", 1, kMostPerSize, 1),
                        .vpp = request.vpp,
                        .micro_batch_size = count_or(line, "micro-batch-size", 1, kMostPerSize, 1),
                        .zero_stage = count_or(line, "zero-stage", 0, kHighestZeroStage, 0)};
  if (request.placement == StagePlacement::kV) {
    config.schedule = ScheduleKind::kZbV;
  } else if (request.vpp > 1) {
    config.schedule = ScheduleKind::kInterleaved;
  }
  config.recompute =
      line.choice<Recompute>("recompute", kRecomputeNames).value_or(config.recompute);
  config.sequence_parallel = line.choice_or_first<bool>("sequence-parallel", kOffAndOn);
  return config;
}

PipelinePartition partition_model_of(const CommandLine& line, const PartitionRequest& request,
                                     std::int64_t num_microbatches) {
  Scenario scenario = read_scenario(line);
  check(scenario);
  ParallelConfig config = read_config(line, request);
  const double batch = static_cast<double>(num_microbatches) * config.dp * config.micro_batch_size;
  if (batch > static_cast<double>(kMostPerSize)) {
    throw Error("--microbatches: with --dp and --micro-batch-size a batch beyond " +
                std::to_string(kMostPerSize) + " sequences");
  }
  scenario.job.global_batch_size = num_microbatches * config.dp * config.micro_batch_size;
  // The layers per stage do not matter yet: this checks only what tp must divide.
  config.layers_per_stage = {scenario.job.model.num_layers};
  auto violation = find_split_violation({scenario, config});
  if (!violation && config.sequence_parallel && scenario.job.model.seq_length % config.tp != 0) {
    violation = Constraint::kSequenceByTp;
  }
  if (violation) {
    throw Error("nothing fits: --tp " + std::to_string(config.tp) + ": " +
                    std::string(text_of(*violation).description),
                ExitStatus::kNothingFits);
  }
  return partition_model(scenario, config, request.memory.value_or(scenario.cluster.gpu.memory));
}

/// Reads the list of layers or the model that the line names, and partitions it.
PipelinePartition read_partition(const CommandLine& line) {
  const PartitionRequest request = read_partition_request(line);
  const std::int64_t num_microbatches =
      line.count("microbatches", 1, kMostMicrobatches)
          .value_or(std::int64_t{kMicrobatchesPerRank} * request.pp);
  if (line.words().size() == 1) {
    return partition_model_of(line, request, num_microbatches);
  }
  for (const std::string& flag : kModelFlags) {
    if (line.has(flag)) {
      throw Error("--" + flag + ": not used with a list of layers, which has its own costs");
    }
  }
  return partition_list(read_layer_list(line.words()[1]), request, num_microbatches);
}

}  // namespace

void add_partition_flags(boost::program_options::options_description& flags) {
  auto option = flags.add_options();
  option("memory", text_value("GIB"),
         "partition: memory of a GPU in GiB (default: no limit for a list, the cluster's for a "
         "model)");
  option("microbatches", text_value("N"),
         "partition: microbatches per iteration and replica (default: 4 per rank)");
  option("placement", text_value("PLACEMENT", {"looped", "v"}),
         "partition: how a GPU's chunks follow: looped (GPUs 0 1 0 1) or v (0 1 1 0)");
}

void refuse_partition_flags(const CommandLine& line) {
  for (const std::string& flag : kPartitionFlags) {
    if (line.has(flag)) {
      throw Error("--" + flag + ": used by `partition` only");
    }
  }
}

int run_partition(const CommandLine& line) {
  std::vector<std::string> flags = kModelFlags;
  flags.insert(flags.end(), kPartitionFlags.begin(), kPartitionFlags.end());
  flags.insert(flags.end(), {"pp", "vpp", "format"});
  line.allow_only(flags);
  line.allow_words(2);
  if ((line.words().size() == 2) == line.has("model")) {
    throw Error("partition: expected the file of a list of layers, or --model");
  }
  const auto format = line.choice_or_first<AnswerFormat>("format", kOrderFormats);
  print_answer(in_format(format, read_partition(line)), format);
  return 0;
}

}  // namespace ptdp
