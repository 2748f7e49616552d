// Counts the layers of virtual stages and of pipeline ranks by kind.
#include "cost_model/pipeline_rank/rank_layers.h"

#include <algorithm>
#include <numeric>

namespace ptdp {
namespace {

/// Returns whether all virtual stages have equally many layers of one kind.
bool has_equal_stages(const TransformerConfig& model, const ParallelConfig& config) {
  return config.layers_per_stage.empty() && has_one_kind(model);
}

/// Counts the layers of a virtual stage that holds the layers of `range`. Where all virtual stages
/// have equally many layers of one kind, `range` is not used and the count may be a fraction.
LayerCounts layers_in_range(const TransformerConfig& model, const ParallelConfig& config,
                            int virtual_stage, std::pair<int, int> range) {
  const auto [begin, end] = range;
  LayerCounts counts = !has_one_kind(model) ? count_layers(model, begin, end)
                       : config.layers_per_stage.empty()
                           ? of_one_kind(model, 1.0 * model.num_layers / config.pp / config.vpp)
                           : of_one_kind(model, end - begin);
  if (virtual_stage == config.pp * config.vpp - 1) {
    counts[index_of(kind_of_layer(model, model.num_layers - 1))] += model.mtp_num_layers;
  }
  return counts;
}

/// Sums the layers of pipeline rank `stage` over its virtual stages, whose layers `layers_of`
/// returns.
template <class LayersOf>
LayerCounts sum_of_chunks(const TransformerConfig& model, const ParallelConfig& config, int rank,
                          const LayersOf& layers_of) {
  if (has_equal_stages(model, config)) {
    LayerCounts counts =
        of_one_kind(model, 1.0 * model.num_layers * num_copies(config) / config.pp);
    if (model.mtp_num_layers > 0 && holds_logits(config, rank)) {
      counts += of_one_kind(model, model.mtp_num_layers);
    }
    return counts;
  }
  LayerCounts counts{};
  for_each_virtual_stage(config, rank,
                         [&](int virtual_stage) { counts += layers_of(virtual_stage); });
  return counts;
}

}  // namespace

bool holds_embedding(const ParallelConfig& config, int rank) {
  return rank == 0 || (rank == config.pp - 1 && num_copies(config) == 2);
}

bool holds_logits(const ParallelConfig& config, int rank) {
  switch (traits_of(config.schedule).placement) {
    case StagePlacement::kLooped:
      return rank == config.pp - 1;
    case StagePlacement::kV:
      return rank == 0;
    case StagePlacement::kBidirectional:
      return rank == 0 || rank == config.pp - 1;
  }
  return false;
}

std::pair<int, int> layer_range(const TransformerConfig& model, const ParallelConfig& config,
                                int virtual_stage) {
  const std::vector<int>& given = config.layers_per_stage;
  if (given.empty()) {
    const int even = model.num_layers / config.pp / config.vpp;
    return {virtual_stage * even, (virtual_stage + 1) * even};
  }
  const auto own = given.begin() + virtual_stage;
  const int begin = std::reduce(given.begin(), own);
  return {begin, begin + *own};
}

int longest_layer_range(const TransformerConfig& model, const ParallelConfig& config) {
  const std::vector<int>& given = config.layers_per_stage;
  return given.empty() ? model.num_layers / config.pp / config.vpp
                       : *std::max_element(given.begin(), given.end());
}

LayerCounts layers_of_virtual_stage(const TransformerConfig& model, const ParallelConfig& config,
                                    int virtual_stage) {
  return layers_in_range(model, config, virtual_stage, layer_range(model, config, virtual_stage));
}

LayerCounts layers_of_rank(const TransformerConfig& model, const ParallelConfig& config, int rank) {
  return sum_of_chunks(model, config, rank, [&](int virtual_stage) {
    return layers_of_virtual_stage(model, config, virtual_stage);
  });
}

LayersOfRanks::LayersOfRanks(const TransformerConfig& model, const ParallelConfig& config) {
  const int num_virtual_stages = config.pp * config.vpp;
  const auto of_rank = [&](int rank) {
    return sum_of_chunks(model, config, rank,
                         [&](int virtual_stage) { return of_virtual_stage(virtual_stage); });
  };
  if (has_equal_stages(model, config)) {
    // All are alike but for the ends, which may have modules that predict more tokens.
    of_virtual_stages_.assign(static_cast<std::size_t>(num_virtual_stages),
                              layers_in_range(model, config, 0, {}));
    of_virtual_stages_.back() = layers_in_range(model, config, num_virtual_stages - 1, {});
    of_ranks_.assign(static_cast<std::size_t>(config.pp), of_rank(config.pp / 2));
    of_ranks_.front() = of_rank(0);
    of_ranks_.back() = of_rank(config.pp - 1);
    return;
  }
  of_virtual_stages_.reserve(static_cast<std::size_t>(num_virtual_stages));
  const int even = model.num_layers / num_virtual_stages;
  int begin = 0;
  for (int rank = 0; rank < num_virtual_stages; ++rank) {
    const std::vector<int>& given = config.layers_per_stage;
    const int end = begin + (given.empty() ? even : given[static_cast<std::size_t>(rank)]);
    of_virtual_stages_.push_back(layers_in_range(model, config, rank, {begin, end}));
    begin = end;
  }
  of_ranks_.reserve(static_cast<std::size_t>(config.pp));
  for (int rank = 0; rank < config.pp; ++rank) {
    of_ranks_.push_back(of_rank(rank));
  }
}

LayerCounts layers_of_model(const TransformerConfig& model) {
  LayerCounts counts = count_layers(model, 0, model.num_layers);
  counts[index_of(kind_of_layer(model, model.num_layers - 1))] += model.mtp_num_layers;
  return counts;
}

int rank_step(const TransformerConfig& model, const ParallelConfig& config) {
  return has_equal_stages(model, config) ? std::max(config.pp - 1, 1) : 1;
}

}  // namespace ptdp
