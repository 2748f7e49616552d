// Counts the padding of the ranges that replicas reduce and gather.
#include "cost_model/pipeline_rank/aligned_ranges.h"

#include <array>
#include <cmath>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/rank_sizes.h"
#include "cost_model/layer/layer_parameters.h"
#include "cost_model/pipeline_rank/rank_parameters.h"

namespace ptdp {
namespace {

/// Returns the elements of a vocabulary table on a rank.
std::int64_t table_elements(const TransformerConfig& model, const ParallelConfig& config) {
  return padded_vocab_size(model, config.tp) / config.tp * model.hidden_size;
}

/// Whether the first pipeline rank and the last have a tied table each.
bool has_two_tied_tables(const TransformerConfig& model, const ParallelConfig& config) {
  return config.pp > 1 && !model.untied_embeddings &&
         traits_of(config.schedule).placement == StagePlacement::kLooped;
}

/// Returns the parameters of the ends of the model in a virtual stage of pipeline rank `rank`. A
/// rank that holds both ends in two virtual stages has the embedding and positions in the first.
std::int64_t end_elements(const TransformerConfig& model, const ParallelConfig& config, int rank,
                          int virtual_stage) {
  const bool begins = virtual_stage == 0;
  const bool ends = virtual_stage == config.pp * config.vpp - 1;
  if (!begins && !ends) {
    return 0;
  }
  const std::int64_t of_rank = std::llround(end_parameters(model, config, rank));
  if (begins == ends || !holds_embedding(config, rank) || !holds_logits(config, rank)) {
    return of_rank;
  }
  const bool has_positions = model.position_embedding == PositionEmbedding::kLearned;
  const std::int64_t rows = has_positions ? learned_positions(model) : 0;
  const std::int64_t norm = model.embedding_layernorm ? parameters_of_norm(model) : 0;
  const std::int64_t first = table_elements(model, config) + (rows + norm) * model.hidden_size;
  return begins ? first : of_rank - first;
}

}  // namespace

int num_sharers(const ParallelConfig& config) {
  return shards_optimizer(config) ? config.dp * config.cp * num_copies(config) / config.dp_replicate
                                  : 1;
}

std::int64_t tied_range_size(const TransformerConfig& model, const ParallelConfig& config) {
  return has_two_tied_tables(model, config)
             ? padded(table_elements(model, config), num_sharers(config))
             : 0;
}

std::int64_t padding_of_rank(const TransformerConfig& model, const ParallelConfig& config,
                             const LayersOfRanks& layers, int rank) {
  const int sharers = num_sharers(config);
  const bool is_by_unit = shards_gradients(config) && sharers > 1;
  const auto padding = [&](std::int64_t elements) { return padded(elements, sharers) - elements; };
  std::array<std::int64_t, kLayerKinds.size()> of_layer{};
  for_each_kind(layers.of_rank(rank), [&](std::size_t kind, double /*count*/) {
    of_layer[kind] = std::llround(layer_parameters_of_rank(model, config, kLayerKinds[kind]).dense);
  });
  std::int64_t total = 0;
  for_each_virtual_stage(config, rank, [&](int virtual_stage) {
    const std::int64_t of_ends = end_elements(model, config, rank, virtual_stage);
    std::int64_t rest = of_ends;
    for_each_kind(layers.of_virtual_stage(virtual_stage), [&](std::size_t kind, double count) {
      const std::int64_t number = std::llround(count);
      rest += number * of_layer[kind];
      total += is_by_unit ? number * padding(of_layer[kind]) : 0;
    });
    const bool has_tied = of_ends > 0 && has_two_tied_tables(model, config);
    const std::int64_t tied = has_tied ? table_elements(model, config) : 0;
    total += is_by_unit ? padding(of_ends) : padding(tied) + padding(rest - tied);
  });
  return total;
}

}  // namespace ptdp
