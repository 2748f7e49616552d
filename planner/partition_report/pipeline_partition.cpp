// Cuts lists of layers and models into stages, and costs the partition of each.
#include "planner/partition_report/pipeline_partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

#include "cost_model/error.h"
#include "cost_model/memory/memory.h"
#include "cost_model/partition/balance_equal_layers.h"
#include "cost_model/pipeline_rank/rank_costs.h"
#include "cost_model/text/plural.h"
#include "planner/formatting.h"

namespace ptdp {
namespace {

/// The layers to cut into stages, in model order, with embedding and logits at the ends.
struct Pipeline {
  std::string name;
  std::vector<std::string> names;  ///< Names of the kinds of layers.
  std::vector<int> kinds;          ///< Kind of each layer: an index into `names`.
  std::vector<LayerCost> costs;
  bool has_embedding = false;
  bool has_logits = false;
  Seconds overhead;  ///< Time per microbatch that each virtual stage takes besides its layers.

  void add(const std::string& layer, const LayerCost& cost, int count) {
    kinds.insert(kinds.end(), count, static_cast<int>(names.size()));
    costs.insert(costs.end(), count, cost);
    names.push_back(layer);
  }
  [[nodiscard]] int num_layers() const {
    return static_cast<int>(costs.size()) - static_cast<int>(has_embedding) -
           static_cast<int>(has_logits);
  }
  /// Returns the layers per stage with the ends added (`sign` 1) or taken away (`sign` −1).
  [[nodiscard]] std::vector<int> with_ends(std::vector<int> sizes, int sign) const {
    sizes.front() += has_embedding ? sign : 0;
    sizes.back() += has_logits ? sign : 0;
    return sizes;
  }
};

Pipeline pipeline_of(const LayerList& list) {
  Pipeline pipeline{.name = list.name,
                    .has_embedding = list.embedding.has_value(),
                    .has_logits = list.logits.has_value()};
  for (const ListedLayer* layer : entries_of(list)) {
    pipeline.add(layer->name, {.time = layer->time, .memory = layer->memory}, layer->count);
  }
  return pipeline;
}

Pipeline pipeline_of(const Scenario& scenario, const TransformerTimes& times) {
  Pipeline pipeline{.name = scenario.job.model_name,
                    .has_embedding = true,
                    .has_logits = true,
                    .overhead = scenario.stack.microbatch_overhead};
  pipeline.add("embedding", {.time = times.embedding}, 1);
  pipeline.add("layer", {.time = times.layer}, times.num_layers);
  pipeline.add("logits", {.time = times.logits}, 1);
  return pipeline;
}

/// Returns the names of `count` layers from `first` on, equal ones together: "embedding, 3 x
/// layer".
std::string described(const Pipeline& pipeline, int first, int count) {
  std::string text;
  for (int begin = first; begin < first + count;) {
    int end = begin + 1;
    while (end < first + count && pipeline.kinds[end] == pipeline.kinds[begin]) {
      ++end;
    }
    text += text.empty() ? "" : ", ";
    text += end - begin > 1 ? fmt::format("{} x ", end - begin) : "";
    text += pipeline.names[pipeline.kinds[begin]];
    begin = end;
  }
  return text;
}

std::vector<LayerCost> loads_of(const Pipeline& pipeline, const PartitionRequest& request,
                                const std::vector<int>& sizes) {
  std::vector<LayerCost> loads = loads_of_ranks(pipeline.costs, request, sizes);
  for (LayerCost& load : loads) {
    load.time += request.vpp * pipeline.overhead;
  }
  return loads;
}

/// Describes a partition of a pipeline. `sizes` are layers per virtual stage, the ends counted.
PipelinePartition answer_for(const Pipeline& pipeline, const PartitionRequest& request,
                             const std::vector<int>& sizes, std::int64_t num_microbatches) {
  PipelinePartition answer{.name = pipeline.name,
                           .request = request,
                           .num_microbatches = num_microbatches,
                           .ranks = loads_of(pipeline, request, sizes)};
  const std::vector<int> layers = pipeline.with_ends(sizes, -1);
  int first = 0;
  for (std::size_t stage = 0; stage < sizes.size(); ++stage) {
    Seconds time = pipeline.overhead;
    for (int layer = first; layer < first + sizes[stage]; ++layer) {
      time += pipeline.costs[layer].time;
    }
    answer.stages.push_back({.rank = rank_of_stage(request, static_cast<int>(stage)),
                             .num_layers = layers[stage],
                             .layers = described(pipeline, first, sizes[stage]),
                             .time = time});
    first += sizes[stage];
  }
  const int num_stages = request.pp * request.vpp;
  if (pipeline.num_layers() >= num_stages) {
    EvenPartition even{.layers_per_stage = even_partition(pipeline.num_layers(), num_stages)};
    even.ranks = loads_of(pipeline, request, pipeline.with_ends(even.layers_per_stage, 1));
    answer.even = std::move(even);
  }
  return answer;
}

/// Throws unless every virtual stage can have a layer or an end.
void check_stages(const Pipeline& pipeline, const PartitionRequest& request) {
  const std::int64_t stages = std::int64_t{request.pp} * request.vpp;
  const auto most = static_cast<std::int64_t>(pipeline.costs.size());
  if (stages > most) {
    throw Error(fmt::format("nothing fits: {}{} cannot fill pp * vpp = {} * {} = {} stages; "
                            "the most are {}",
                            plural(pipeline.num_layers(), "layer"),
                            pipeline.has_embedding || pipeline.has_logits
                                ? ", with embedding and logits counted as stages of their own,"
                                : "",
                            request.pp, request.vpp, stages, most),
                ExitStatus::kNothingFits);
  }
}

/// Throws Error for stages that need too much. `costed` says at the end what their layers were
/// costed for.
[[noreturn]] void refuse_memory(const PartitionRequest& request, Bytes needed,
                                const std::string& costed) {
  const Bytes missing = needed - *request.memory;
  throw Error(fmt::format("nothing fits: {} of layers, however cut, {} at least {:.2f} GiB on the "
                          "fullest GPU, {} more than the {:.2f} GiB there are{}",
                          plural(std::int64_t{1} * request.pp * request.vpp, "stage"),
                          request.pp * request.vpp == 1 ? "needs" : "need", needed.value() / kGibi,
                          binary_size(missing), request.memory->value() / kGibi, costed),
              ExitStatus::kNothingFits);
}

/// The memory of transformer layers on the ranks of a pipeline.
class ModelMemory {
 public:
  ModelMemory(const Scenario& scenario, ParallelConfig config)
      : scenario_(scenario), config_(std::move(config)) {}

  /// Returns the memory of a pipeline rank whose first chunk holds all its `num_layers` layers.
  [[nodiscard]] Bytes of_rank(int rank, int num_layers) {
    config_.layers_per_stage.assign(static_cast<std::size_t>(config_.pp) * config_.vpp, 0);
    config_.layers_per_stage[rank] = num_layers;
    return rank_memory({scenario_, config_}, rank).total();
  }
  /// Returns the most layers that each rank may hold; −1 for a rank that is too full without any.
  [[nodiscard]] std::vector<int> most_layers(Bytes memory) {
    std::vector<int> result;
    for (int rank = 0; rank < config_.pp; ++rank) {
      int fitting = -1;
      int beyond = scenario_.job.model.num_layers + 1;
      while (beyond - fitting > 1) {
        const int middle = fitting + (beyond - fitting) / 2;
        (of_rank(rank, middle) <= memory ? fitting : beyond) = middle;
      }
      result.push_back(fitting);
    }
    return result;
  }

 private:
  const Scenario& scenario_;
  ParallelConfig config_;
};

/// Returns the configuration without a split of the layers, which the partition has yet to find.
ParallelConfig without_layers(ParallelConfig config) {
  config.layers_per_stage.clear();
  return config;
}

void set_memory(std::vector<LayerCost>& ranks, const Scenario& scenario, ParallelConfig config,
                const std::vector<int>& layers_per_stage) {
  config.layers_per_stage = layers_per_stage;
  for (int rank = 0; rank < config.pp; ++rank) {
    ranks[rank].memory = rank_memory({scenario, config}, rank).total();
  }
}

}  // namespace

std::vector<int> PipelinePartition::layers_per_stage() const {
  std::vector<int> result;
  std::transform(stages.begin(), stages.end(), std::back_inserter(result),
                 [](const PartitionStage& stage) { return stage.num_layers; });
  return result;
}

int slowest_rank(const std::vector<LayerCost>& ranks) {
  const auto is_faster = [](const LayerCost& a, const LayerCost& b) { return a.time < b.time; };
  return static_cast<int>(std::max_element(ranks.begin(), ranks.end(), is_faster) - ranks.begin());
}

Seconds pipeline_time(const PipelinePartition& partition, const std::vector<LayerCost>& ranks) {
  const Seconds total =
      std::accumulate(ranks.begin(), ranks.end(), Seconds(0.0),
                      [](Seconds sum, const LayerCost& rank) { return sum + rank.time; });
  const double p = partition.request.pp;
  return static_cast<double>(partition.num_microbatches) * ranks[slowest_rank(ranks)].time +
         (p - 1.0) / partition.request.vpp * (total / p);
}

PipelinePartition partition_list(const LayerList& list, const PartitionRequest& request,
                                 std::int64_t num_microbatches) {
  const Pipeline pipeline = pipeline_of(list);
  check_stages(pipeline, request);
  const auto sizes = partition_layers(pipeline.costs, request);
  if (!sizes) {
    refuse_memory(request, least_memory(pipeline.costs, request), "");
  }
  PipelinePartition answer = answer_for(pipeline, request, *sizes, num_microbatches);
  answer.has_memory = std::any_of(pipeline.costs.begin(), pipeline.costs.end(),
                                  [](const LayerCost& cost) { return cost.memory > Bytes(0.0); });
  return answer;
}

PipelinePartition described_partition(const LayerList& list, const PartitionRequest& request,
                                      const std::vector<int>& sizes,
                                      std::int64_t num_microbatches) {
  return answer_for(pipeline_of(list), request, sizes, num_microbatches);
}

PipelinePartition partition_model(const Scenario& scenario, const ParallelConfig& config,
                                  Bytes memory) {
  const MicrobatchCosts costs = microbatch_costs(scenario, config);
  const TransformerTimes times = transformer_times({scenario, config, &costs});
  const Pipeline pipeline = pipeline_of(scenario, times);
  const PartitionRequest request{.pp = config.pp,
                                 .vpp = config.vpp,
                                 .placement = traits_of(config.schedule).placement,
                                 .memory = memory};
  check_stages(pipeline, request);
  ModelMemory model_memory(scenario, config);
  const auto layers_within = [&](Bytes limit) {
    return balanced_layers(times, config.pp, config.vpp, request.placement,
                           model_memory.most_layers(limit));
  };
  const auto layers = layers_within(memory);
  if (!layers) {
    double low = memory.value();
    double high = 2.0 * low;
    while (!layers_within(Bytes(high))) {
      high *= 2.0;
    }
    while (high - low > kMega) {
      const double middle = low + (high - low) / 2.0;
      (layers_within(Bytes(middle)) ? high : low) = middle;
    }
    refuse_memory(request, Bytes(high), ", costed with " + to_string(without_layers(config)));
  }
  PipelinePartition answer = answer_for(pipeline, request, pipeline.with_ends(*layers, 1),
                                        num_microbatches(scenario.job.global_batch_size, config));
  answer.config = without_layers(config);
  answer.has_memory = true;
  set_memory(answer.ranks, scenario, config, *layers);
  if (answer.even) {
    set_memory(answer.even->ranks, scenario, config, answer.even->layers_per_stage);
  }
  return answer;
}

}  // namespace ptdp
