// Counts what the layers, the embedding and the logits of a microbatch take.
#include "cost_model/pipeline_rank/microbatch_costs.h"

#include "cost_model/inputs/rank_grid.h"
#include "cost_model/inputs/rank_sizes.h"
#include "cost_model/layer/element_wise.h"
#include "cost_model/network/collectives.h"
#include "cost_model/operations/core_contention.h"
#include "cost_model/operations/linear_layer.h"
#include "cost_model/operations/memory_bound.h"
#include "cost_model/pipeline_rank/rank_layers.h"

namespace ptdp {
namespace {

// Passes over bsh elements: gather, positions, dropout and their gradients.
constexpr double kEmbeddingPasses = 8.0;
constexpr double kEmbeddingForward = 6.0 / kEmbeddingPasses;  // gather, positions, dropout
constexpr double kFinalNormPasses = 7.0;
constexpr double kFinalNormForward = 2.0 / kFinalNormPasses;
constexpr double kLossForward = 38.0 / 52.0;  // share of the loss traffic

/// Adds the modules that predict more tokens to the logits of `costs`. Each module has logits like
/// the model's, an embedding of its tokens with the gradient (`embedding`), and two norms. A linear
/// layer on the tokens of a rank takes the joined states.
void add_prediction_modules(const Scenario& scenario, const ParallelConfig& config,
                            Seconds embedding, MicrobatchCosts& costs) {
  const TransformerConfig& model = scenario.job.model;
  if (model.mtp_num_layers == 0) {
    return;
  }
  const GpuSpec& gpu = scenario.cluster.gpu;
  const double count = model.mtp_num_layers;
  const std::int64_t h = model.hidden_size;
  const std::int64_t tokens = tokens_of_rank(model, config);
  const ComputeFactors factors = compute_factors(config, scenario.cluster);
  const LinearTime join =
      linear_time(tokens, h / config.tp, 2 * h, gpu, scenario.stack) * factors.matmul;
  const Bytes activations(element_bytes(scenario.stack.precision) * static_cast<double>(tokens) *
                          static_cast<double>(h) / (config.sequence_parallel ? config.tp : 1));
  // Both inputs have a norm. The module's own norm, before its logits, is part of `costs.logits`.
  const Seconds norms =
      memory_bound_time(2.0 * kFinalNormPasses * activations, gpu) * factors.memory_bound;
  const PassTime logits = costs.logits;
  costs.logits +=
      PassTime{.matmul = logits.matmul + join.forward + join.input_gradient + join.weight_gradient,
               .memory_bound = logits.memory_bound + embedding + norms,
               .tensor_parallel = 2.0 * logits.tensor_parallel} *
      count;
  costs.logits_forward += count * (costs.logits_forward + join.forward + kFinalNormForward * norms +
                                   kEmbeddingForward * embedding);
  costs.logits_weight_gradient += count * (costs.logits_weight_gradient + join.weight_gradient);
}

}  // namespace

MicrobatchCosts microbatch_costs(const Scenario& scenario, const ParallelConfig& config) {
  const TransformerConfig& model = scenario.job.model;
  const ClusterSpec& cluster = scenario.cluster;
  const GpuSpec& gpu = cluster.gpu;
  const std::int64_t tokens = tokens_of_rank(model, config);
  const std::int64_t vocabulary = padded_vocab_size(model, config.tp) / config.tp;
  const int bytes = element_bytes(scenario.stack.precision);
  const Bytes activations(bytes * static_cast<double>(tokens) * model.hidden_size);
  const Bytes norms = config.sequence_parallel ? activations / config.tp : activations;
  const GroupPlacement group = place_group(RankGrid(config), Dimension::kTensor, cluster);
  // With sequence parallelism there is a reduce-scatter after the embedding and an all-gather
  // before the logits. The backward pass has the reverse of each.
  const bool is_split = config.sequence_parallel;
  const Seconds gather = is_split ? all_gather_time(activations, group, cluster) : Seconds(0.0);
  const Seconds exchange = is_split ? gather + reduce_scatter_time(activations, group, cluster)
                                    : all_reduce_time(activations, group, cluster);
  const ComputeFactors factors = compute_factors(config, cluster);
  const LinearTime logits = linear_time(tokens, vocabulary, model.hidden_size, gpu, scenario.stack);
  const Seconds logits_matmul = logits.forward + logits.input_gradient + logits.weight_gradient;
  const double table = static_cast<double>(vocabulary) * model.hidden_size;
  MicrobatchCosts costs;
  for_each_kind(layers_of_model(model), [&](std::size_t kind, double /*count*/) {
    costs.layers[kind] = layer_costs(scenario, config, kLayerKinds[kind]);
  });
  if (lists_operations(scenario)) {
    const ElementWiseTime embedding = embedding_element_wise_time(scenario, config);
    const ElementWiseTime loss = logits_element_wise_time(scenario, config);
    const Seconds forward = logits.forward * factors.matmul + loss.forward * factors.memory_bound;
    const Seconds elements = (loss.forward + loss.backward) * factors.memory_bound;
    const Seconds matmul = logits_matmul * factors.matmul;
    costs.embedding = {
        .memory_bound = (embedding.forward + embedding.backward) * factors.memory_bound,
        .tensor_parallel = exchange};
    costs.logits = {.matmul = matmul,
                    .memory_bound = elements,
                    .tensor_parallel = exchange + factors.skew * (matmul + elements)};
    costs.embedding_accumulation = Seconds(0.0);  // the gradients' own operations add
    costs.embedding_forward = embedding.forward * factors.memory_bound + exchange - gather;
    costs.logits_forward = forward + gather + factors.skew * forward;
    costs.logits_weight_gradient = logits.weight_gradient * factors.matmul;
    add_prediction_modules(scenario, config, costs.embedding.memory_bound, costs);
    return costs;
  }
  const Bytes embedding_traffic = kEmbeddingPasses * activations + Bytes(bytes * table);
  const Bytes loss_traffic(scenario.stack.loss_traffic * static_cast<double>(tokens) *
                           static_cast<double>(vocabulary));
  const Bytes norm_traffic = kFinalNormPasses * norms;
  const Bytes logits_traffic = loss_traffic + norm_traffic;
  const Bytes forward_traffic = kLossForward * loss_traffic + kFinalNormForward * norm_traffic;
  const auto traffic_time = [&](Bytes traffic) {
    return memory_bound_time(traffic, gpu) * factors.memory_bound;
  };
  costs.embedding = {.memory_bound = traffic_time(embedding_traffic), .tensor_parallel = exchange};
  costs.logits = {.matmul = logits_matmul * factors.matmul,
                  .memory_bound = traffic_time(logits_traffic),
                  .tensor_parallel = exchange};
  costs.embedding_accumulation = gradient_accumulation_time(table, gpu, scenario.stack);
  costs.embedding_forward =
      traffic_time(kEmbeddingForward * kEmbeddingPasses * activations) + exchange - gather;
  costs.logits_forward = logits.forward * factors.matmul + traffic_time(forward_traffic) + gather;
  costs.logits_weight_gradient = logits.weight_gradient * factors.matmul;
  add_prediction_modules(scenario, config, costs.embedding.memory_bound, costs);
  return costs;
}

LayerCosts sum_of(const MicrobatchCosts& costs, const LayerCounts& counts) {
  LayerCosts sum;
  for_each_kind(counts, [&](std::size_t kind, double count) { sum += costs.layers[kind] * count; });
  return sum;
}

}  // namespace ptdp
