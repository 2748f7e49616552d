// Prints a partition as text, JSON and CSV.
#include "planner/partition_report/partition_output.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cost_model/text/csv_columns.h"
#include "cost_model/text/plural.h"
#include "planner/text_table.h"

namespace ptdp {
namespace {

/// Returns how much longer `other` takes than `ours`, in percent.
double gain_percent(Seconds other, Seconds ours) {
  return 100.0 * (other / ours - 1.0);
}

Seconds slowest(const std::vector<LayerCost>& ranks) {
  return ranks[slowest_rank(ranks)].time;
}

Bytes fullest(const std::vector<LayerCost>& ranks) {
  Bytes most;
  for (const LayerCost& rank : ranks) {
    most = std::max(most, rank.memory);
  }
  return most;
}

bool fits(const PipelinePartition& partition) {
  return !partition.request.memory || fullest(partition.even->ranks) <= *partition.request.memory;
}

double milliseconds(Seconds time) {
  return time.value() * 1e3;
}

/// Returns the virtual stages of a rank: "0, 8" for the first of eight ranks with two chunks.
std::string stages_of(const PipelinePartition& partition, int rank) {
  std::vector<int> stages;
  for (int stage = 0; stage < static_cast<int>(partition.stages.size()); ++stage) {
    if (partition.stages[stage].rank == rank) {
      stages.push_back(stage);
    }
  }
  return fmt::format("{}", fmt::join(stages, ", "));
}

std::string table_of_stages(const PipelinePartition& partition) {
  const auto index_of = [&](const PartitionStage& stage) {
    return &stage - partition.stages.data();
  };
  return text_table<PartitionStage>(
      {{"stage", 6, [&](const auto& stage) { return std::to_string(index_of(stage)); }},
       {"rank", 6, [](const auto& stage) { return std::to_string(stage.rank); }},
       {"layers", 7, [](const auto& stage) { return std::to_string(stage.num_layers); }},
       {"time ms", 12,
        [](const auto& stage) { return fmt::format("{:.6g}", milliseconds(stage.time)); }},
       {"holds", 0, [](const auto& stage) { return stage.layers; }, 2}},
      partition.stages);
}

std::string table_of_ranks(const PipelinePartition& partition) {
  const auto rank_of = [&](const LayerCost& load) {
    return static_cast<int>(&load - partition.ranks.data());
  };
  return text_table<LayerCost>(
      {{"rank", 6, [&](const auto& load) { return std::to_string(rank_of(load)); }},
       {"time ms", 12,
        [](const auto& load) { return fmt::format("{:.6g}", milliseconds(load.time)); }},
       {"memory GiB", 12,
        [&](const auto& load) {
          return partition.has_memory ? fmt::format("{:.4g}", load.memory.value() / kGibi) : "-";
        }},
       {"stages", 0,
        [&](const auto& load) {
          const int rank = rank_of(load);
          return stages_of(partition, rank) +
                 (rank == slowest_rank(partition.ranks) ? "  (slowest)" : "");
        },
        2}},
      partition.ranks);
}

std::string comparison(const PipelinePartition& partition) {
  const Seconds ours = slowest(partition.ranks);
  const Seconds time = pipeline_time(partition, partition.ranks);
  if (!partition.even) {
    return fmt::format(
        "slowest rank {:.6g} ms; {:.6g} ms for {}\n"
        "no even split to compare with: fewer layers than stages\n",
        milliseconds(ours), milliseconds(time),
        plural(partition.num_microbatches, "microbatch", "microbatches"));
  }
  const std::vector<LayerCost>& even = partition.even->ranks;
  const Seconds even_time = pipeline_time(partition, even);
  std::string text = fmt::format(
      "{:<26} {:>14} {:>14} {:>9}\n{:<26} {:>14.6g} {:>14.6g} {:>8.2f}%\n"
      "{:<26} {:>14.6g} {:>14.6g} {:>8.2f}%\n",
      "", "partition", "even split", "gain", "slowest rank ms", milliseconds(ours),
      milliseconds(slowest(even)), gain_percent(slowest(even), ours),
      fmt::format("{} microbatches ms", partition.num_microbatches), milliseconds(time),
      milliseconds(even_time), gain_percent(even_time, time));
  if (!fits(partition)) {
    text += fmt::format("the even split does not fit: {:.4g} GiB on its fullest GPU\n",
                        fullest(even).value() / kGibi);
  }
  return text;
}

}  // namespace

std::string tables_of(const PipelinePartition& partition) {
  return table_of_stages(partition) + '\n' + table_of_ranks(partition);
}

std::vector<ObjectWriter> written_stages(const PipelinePartition& partition) {
  std::vector<ObjectWriter> stages(partition.stages.size());
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const PartitionStage& stage = partition.stages[i];
    stages[i].count("rank", stage.rank);
    stages[i].count("num_layers", stage.num_layers);
    stages[i].text("holds", stage.layers);
    stages[i].quantity("time_s", stage.time, 1.0);
  }
  return stages;
}

std::string to_text(const PipelinePartition& partition) {
  const PartitionRequest& request = partition.request;
  const std::string text = fmt::format(
      "{}: pp={} vpp={}{}{}{}\n\n", partition.name, request.pp, request.vpp,
      request.placement == StagePlacement::kV ? " in a V" : "",
      request.memory ? fmt::format(", {:.4g} GiB per GPU", request.memory->value() / kGibi) : "",
      partition.config ? "\ncosted with " + to_string(*partition.config) : "");
  return text + tables_of(partition) + '\n' + comparison(partition) +
         fmt::format("\nlayers per stage: {}\n", fmt::join(partition.layers_per_stage(), ","));
}

std::string to_json(const PipelinePartition& partition) {
  const PartitionRequest& request = partition.request;
  ObjectWriter json;
  json.text("schema", "ptdp.partition/1");
  json.text("name", partition.name);
  if (partition.config) {
    json.object("config", *partition.config);
  }
  json.count("pp", request.pp);
  json.count("vpp", request.vpp);
  json.choice("placement", request.placement, NamedValues<StagePlacement>(kPlacementNames));
  if (request.memory) {
    json.quantity("memory_GiB", *request.memory, kGibi);
  }
  json.count("num_microbatches", partition.num_microbatches);
  json.counts("layers_per_stage", partition.layers_per_stage());
  json.children("stages", written_stages(partition));
  std::vector<ObjectWriter> ranks(partition.ranks.size());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    ranks[rank].quantity("time_s", partition.ranks[rank].time, 1.0);
    if (partition.has_memory) {
      ranks[rank].quantity("memory_GiB", partition.ranks[rank].memory, kGibi);
    }
  }
  json.children("ranks", std::move(ranks));
  json.count("slowest_rank", slowest_rank(partition.ranks));
  const Seconds ours = slowest(partition.ranks);
  const Seconds time = pipeline_time(partition, partition.ranks);
  json.quantity("slowest_s", ours, 1.0);
  json.quantity("pipeline_s", time, 1.0);
  if (partition.even) {
    const std::vector<LayerCost>& loads = partition.even->ranks;
    ObjectWriter even;
    even.counts("layers_per_stage", partition.even->layers_per_stage);
    even.flag("fits", fits(partition));
    even.quantity("slowest_s", slowest(loads), 1.0);
    even.quantity("pipeline_s", pipeline_time(partition, loads), 1.0);
    json.child("even", std::move(even));
    json.number("slowest_gain_pct", gain_percent(slowest(loads), ours));
    json.number("pipeline_gain_pct", gain_percent(pipeline_time(partition, loads), time));
  }
  return json.dump();
}

std::string to_csv(const PipelinePartition& partition) {
  const auto rank_of = [&](const PartitionStage& stage) -> const LayerCost& {
    return partition.ranks[stage.rank];
  };
  const auto number = [](double value) { return fmt::format("{:.15g}", value); };
  return csv_text<PartitionStage>(
      {{"stage",
        [&](const auto& stage) { return std::to_string(&stage - partition.stages.data()); }},
       {"rank", [](const auto& stage) { return std::to_string(stage.rank); }},
       {"num_layers", [](const auto& stage) { return std::to_string(stage.num_layers); }},
       {"time_s", [&](const auto& stage) { return number(stage.time.value()); }},
       {"rank_time_s", [&](const auto& stage) { return number(rank_of(stage).time.value()); }},
       {"rank_memory_GiB",
        [&](const auto& stage) {
          return partition.has_memory ? number(rank_of(stage).memory.value() / kGibi) : "";
        }}},
      partition.stages);
}

std::string in_format(AnswerFormat format, const PipelinePartition& partition) {
  switch (format) {
    case AnswerFormat::kJson:
      return to_json(partition);
    case AnswerFormat::kCsv:
      return to_csv(partition);
    default:
      return to_text(partition);
  }
}

}  // namespace ptdp
