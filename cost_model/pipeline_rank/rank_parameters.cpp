// Counts the parameters of pipeline ranks, and the shards of them.
#include "cost_model/pipeline_rank/rank_parameters.h"

#include <array>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/rank_grid.h"
#include "cost_model/inputs/rank_sizes.h"
#include "cost_model/pipeline_rank/rank_layers.h"

namespace ptdp {
namespace {

double norm_parameters(const TransformerConfig& model) {
  return 1.0 * parameters_of_norm(model) * model.hidden_size;
}

}  // namespace

double end_parameters(const TransformerConfig& model, const ParallelConfig& config, int rank) {
  const double h = model.hidden_size;
  double parameters = 0.0;
  const bool is_first = holds_embedding(config, rank);
  const bool is_last = holds_logits(config, rank);
  const double table = static_cast<double>(padded_vocab_size(model, config.tp)) * h / config.tp;
  if (is_first || is_last) {
    parameters += is_first && is_last && model.untied_embeddings ? 2.0 * table : table;
  }
  if (is_first && model.position_embedding == PositionEmbedding::kLearned) {
    parameters += learned_positions(model) * h;
  }
  if (is_first && model.embedding_layernorm) {
    parameters += norm_parameters(model);
  }
  if (is_last) {
    parameters += norm_parameters(model);
    if (model.mtp_num_layers > 0) {
      // Besides its layers each module has a matrix that joins two states. The rank also needs the
      // embedding where the model's is on another rank.
      parameters += model.mtp_num_layers * (2.0 * h * h / config.tp + 3.0 * norm_parameters(model));
      parameters += is_first || !model.untied_embeddings ? 0.0 : table;
    }
  }
  return parameters;
}

RankParameters rank_parameters(const TransformerConfig& model, const ParallelConfig& config,
                               int rank) {
  RankParameters parameters = {.dense = end_parameters(model, config, rank)};
  for_each_kind(layers_of_rank(model, config, rank), [&](std::size_t kind, double count) {
    parameters += layer_parameters_of_rank(model, config, kLayerKinds[kind]) * count;
  });
  return parameters;
}

std::vector<RankParameters> parameters_by_rank(const TransformerConfig& model,
                                               const ParallelConfig& config) {
  std::array<RankParameters, kLayerKinds.size()> of_kinds;
  for_each_kind(layers_of_model(model), [&](std::size_t kind, double /*count*/) {
    of_kinds[kind] = layer_parameters_of_rank(model, config, kLayerKinds[kind]);
  });
  const LayersOfRanks layers(model, config);
  std::vector<RankParameters> by_rank;
  by_rank.reserve(static_cast<std::size_t>(config.pp));
  for (int rank = 0; rank < config.pp; ++rank) {
    RankParameters& parameters =
        by_rank.emplace_back(RankParameters{.dense = end_parameters(model, config, rank)});
    for_each_kind(layers.of_rank(rank),
                  [&](std::size_t kind, double count) { parameters += of_kinds[kind] * count; });
  }
  return by_rank;
}

RankParameters most_parameters(const TransformerConfig& model, const ParallelConfig& config) {
  RankParameters most;
  for (int rank = 0; rank < config.pp; rank += rank_step(model, config)) {
    const RankParameters parameters = rank_parameters(model, config, rank);
    if (parameters.total() > most.total()) {
      most = parameters;
    }
  }
  return most;
}

double shard_of(const RankParameters& parameters, const ParallelConfig& config) {
  const double copies = num_copies(config);
  double shard = parameters.dense * config.dp_replicate / (1.0 * config.dp * config.cp * copies);
  if (parameters.experts > 0.0) {
    shard += parameters.experts / (static_cast<double>(expert_data_size(config)) * copies);
  }
  return shard;
}

double updated_by_rank(const RankParameters& parameters, const ParallelConfig& config) {
  return shards_optimizer(config) ? shard_of(parameters, config) : parameters.total();
}

bool has_replicas(const TransformerConfig& model, const ParallelConfig& config) {
  const std::int64_t ranks = std::int64_t{1} * config.tp * config.cp * config.dp;
  return config.dp > 1 || config.cp > 1 ||
         (model.num_experts > 0 && ranks > std::int64_t{1} * config.ep * config.etp);
}

}  // namespace ptdp
