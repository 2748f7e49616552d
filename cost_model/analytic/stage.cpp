#include "cost_model/analytic/stage.h"

#include <algorithm>

#include "cost_model/analytic/collectives.h"
#include "cost_model/analytic/memory_bound.h"

namespace ptdp {
namespace {

constexpr double kEmbeddingPasses = 8.0;  // over 2bsh bytes: gather, positions, dropout, gradients
constexpr double kFinalNormPasses = 7.0;  // 2 forward, 5 backward
constexpr std::int64_t kVocabularyMultiple = 128;

}  // namespace

std::int64_t padded_vocab_size(const TransformerConfig& model, int tp) {
  const std::int64_t multiple = kVocabularyMultiple * tp;
  return (model.vocab_size + multiple - 1) / multiple * multiple;
}

MicrobatchCosts microbatch_costs(const Scenario& scenario, const ParallelConfig& config) {
  const TransformerConfig& model = scenario.job.model;
  const ClusterSpec& cluster = scenario.cluster;
  const GpuSpec& gpu = cluster.gpu;
  const std::int64_t tokens = std::int64_t{1} * config.micro_batch_size * model.seq_length;
  const std::int64_t vocabulary = padded_vocab_size(model, config.tp) / config.tp;
  const Bytes activations(2.0 * static_cast<double>(tokens) * model.hidden_size);
  const Bytes norms = config.sequence_parallel ? activations / config.tp : activations;
  const GroupPlacement group = place_group(RankGrid(config), Dimension::kTensor, cluster);
  // With sequence parallelism, a reduce-scatter after the embedding and an all-gather before the
  // logits; the reverse backward.
  const Seconds exchange = config.sequence_parallel
                               ? all_gather_time(activations, group, cluster) +
                                     reduce_scatter_time(activations, group, cluster)
                               : all_reduce_time(activations, group, cluster);
  const LinearTime logits = linear_time(tokens, vocabulary, model.hidden_size, gpu, scenario.stack);

  const double table = static_cast<double>(vocabulary) * model.hidden_size;
  const Bytes embedding_traffic = kEmbeddingPasses * activations + Bytes(2.0 * table);
  const Bytes logits_traffic = Bytes(scenario.stack.loss_traffic * static_cast<double>(tokens) *
                                     static_cast<double>(vocabulary)) +
                               kFinalNormPasses * norms;
  return {.layer = layer_costs(scenario, config),
          .embedding = {.memory_bound = memory_bound_time(embedding_traffic, gpu),
                        .tensor_parallel = exchange},
          .logits = {.matmul = logits.forward + logits.input_gradient + logits.weight_gradient,
                     .memory_bound = memory_bound_time(logits_traffic, gpu),
                     .tensor_parallel = exchange},
          .embedding_accumulation = gradient_accumulation_time(table, gpu, scenario.stack)};
}

double layers_of_stage(const TransformerConfig& model, const ParallelConfig& config, int stage) {
  if (config.layers_per_stage.empty()) {
    return 1.0 * model.num_layers / config.pp;
  }
  int layers = 0;
  for (int chunk = 0; chunk < config.vpp; ++chunk) {
    layers += config.layers_per_stage[static_cast<std::size_t>(chunk) * config.pp + stage];
  }
  return layers;
}

int stage_step(const ParallelConfig& config) {
  return config.layers_per_stage.empty() ? std::max(config.pp - 1, 1) : 1;
}

StageCosts stage_costs(const Scenario& scenario, const ParallelConfig& config,
                       const MicrobatchCosts& costs, int stage) {
  const double layers = layers_of_stage(scenario.job.model, config, stage);
  StageCosts result{.forward = costs.layer.forward * layers,
                    .backward = costs.layer.backward * layers,
                    .recompute = costs.layer.recompute(config.recompute) * layers,
                    .gradient_accumulation = layers * costs.layer.gradient_accumulation,
                    .overhead = config.vpp * scenario.stack.microbatch_overhead};
  if (stage == 0) {
    result.ends += costs.embedding;
    result.gradient_accumulation += costs.embedding_accumulation;
  }
  if (stage == config.pp - 1) {
    result.ends += costs.logits;
    result.gradient_accumulation += costs.embedding_accumulation;
  }
  return result;
}

PipelineCosts pipeline_costs(const Scenario& scenario, const ParallelConfig& config,
                             const MicrobatchCosts& costs) {
  const TransformerConfig& model = scenario.job.model;
  const LayerCosts& layer = costs.layer;
  const Seconds of_a_layer =
      layer.forward.total() + layer.backward.total() + layer.recompute(config.recompute).total();
  const Seconds embedding = costs.embedding.total();
  const Seconds logits = costs.logits.total();
  int slowest = 0;
  Seconds most;
  for (int stage = 0; stage < config.pp; stage += stage_step(config)) {
    const Seconds time = layers_of_stage(model, config, stage) * of_a_layer +
                         (stage == 0 ? embedding : Seconds(0.0)) +
                         (stage == config.pp - 1 ? logits : Seconds(0.0));
    if (time > most) {
      slowest = stage;
      most = time;
    }
  }
  PipelineCosts result{.slowest = stage_costs(scenario, config, costs, slowest)};
  result.mean = (1.0 * model.num_layers * of_a_layer + embedding + logits) / config.pp +
                result.slowest.overhead;
  return result;
}

}  // namespace ptdp
