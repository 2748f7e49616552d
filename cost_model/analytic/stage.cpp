#include "cost_model/analytic/stage.h"

#include <algorithm>

#include "cost_model/analytic/collectives.h"
#include "cost_model/analytic/core_sharing.h"
#include "cost_model/analytic/element_wise.h"
#include "cost_model/analytic/memory_bound.h"

namespace ptdp {
namespace {

constexpr double kEmbeddingPasses =
    8.0;  // over bsh elements: gather, positions, dropout, gradients
constexpr double kEmbeddingForward = 6.0 / kEmbeddingPasses;  // gather, positions, dropout
constexpr double kFinalNormPasses = 7.0;
constexpr double kFinalNormForward = 2.0 / kFinalNormPasses;
constexpr double kLossForward = 38.0 / 52.0;  // of its traffic
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
  const int bytes = element_bytes(scenario.stack.precision);
  const Bytes activations(bytes * static_cast<double>(tokens) * model.hidden_size);
  const Bytes norms = config.sequence_parallel ? activations / config.tp : activations;
  const GroupPlacement group = place_group(RankGrid(config), Dimension::kTensor, cluster);
  // With sequence parallelism, a reduce-scatter after the embedding and an all-gather before the
  // logits; the reverse backward.
  const bool is_split = config.sequence_parallel;
  const Seconds gather = is_split ? all_gather_time(activations, group, cluster) : Seconds(0.0);
  const Seconds exchange = is_split ? gather + reduce_scatter_time(activations, group, cluster)
                                    : all_reduce_time(activations, group, cluster);
  const ComputeFactors factors = compute_factors(config, cluster);
  const LinearTime logits = linear_time(tokens, vocabulary, model.hidden_size, gpu, scenario.stack);
  const Seconds logits_matmul = logits.forward + logits.input_gradient + logits.weight_gradient;
  const double table = static_cast<double>(vocabulary) * model.hidden_size;
  const LayerCosts layer = layer_costs(scenario, config);
  if (has_measured_operations(scenario)) {
    const ElementWiseTime embedding = embedding_element_wise_time(scenario, config);
    const ElementWiseTime loss = logits_element_wise_time(scenario, config);
    const Seconds forward = logits.forward * factors.matmul + loss.forward * factors.memory_bound;
    const Seconds elements = (loss.forward + loss.backward) * factors.memory_bound;
    const Seconds matmul = logits_matmul * factors.matmul;
    return {.layer = layer,
            .embedding = {.memory_bound =
                              (embedding.forward + embedding.backward) * factors.memory_bound,
                          .tensor_parallel = exchange},
            .logits = {.matmul = matmul,
                       .memory_bound = elements,
                       .tensor_parallel = exchange + factors.skew * (matmul + elements)},
            .embedding_accumulation = gradient_accumulation_time(table, gpu, scenario.stack),
            .embedding_forward = embedding.forward * factors.memory_bound + exchange - gather,
            .logits_forward = forward + gather + factors.skew * forward,
            .logits_weight_gradient = logits.weight_gradient * factors.matmul};
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
  return {
      .layer = layer,
      .embedding = {.memory_bound = traffic_time(embedding_traffic), .tensor_parallel = exchange},
      .logits = {.matmul = logits_matmul * factors.matmul,
                 .memory_bound = traffic_time(logits_traffic),
                 .tensor_parallel = exchange},
      .embedding_accumulation = gradient_accumulation_time(table, gpu, scenario.stack),
      .embedding_forward =
          traffic_time(kEmbeddingForward * kEmbeddingPasses * activations) + exchange - gather,
      .logits_forward = logits.forward * factors.matmul + traffic_time(forward_traffic) + gather,
      .logits_weight_gradient = logits.weight_gradient * factors.matmul};
}

StagePlacement placement_of(ScheduleKind schedule) {
  switch (schedule) {
    case ScheduleKind::kZbV:
    case ScheduleKind::kVHalf:
    case ScheduleKind::kVMin:
    case ScheduleKind::kDualPipeV:
      return StagePlacement::kV;
    case ScheduleKind::kDualPipe:
      return StagePlacement::kBidirectional;
    case ScheduleKind::kOneFOneB:
    case ScheduleKind::kInterleaved:
    case ScheduleKind::kGPipe:
    case ScheduleKind::kLoopedBfs:
    case ScheduleKind::kZbH1:
    case ScheduleKind::kZbH2:
    case ScheduleKind::kZbAuto:
    case ScheduleKind::kPipeDream:
    case ScheduleKind::kPipeDream2Bw:
      return StagePlacement::kLooped;
  }
  return StagePlacement::kLooped;
}

bool splits_backward(ScheduleKind schedule) {
  switch (schedule) {
    case ScheduleKind::kOneFOneB:
    case ScheduleKind::kInterleaved:
    case ScheduleKind::kGPipe:
    case ScheduleKind::kLoopedBfs:
    case ScheduleKind::kPipeDream:
    case ScheduleKind::kPipeDream2Bw:
      return false;
    case ScheduleKind::kZbH1:
    case ScheduleKind::kZbH2:
    case ScheduleKind::kZbV:
    case ScheduleKind::kVHalf:
    case ScheduleKind::kVMin:
    case ScheduleKind::kDualPipe:
    case ScheduleKind::kDualPipeV:
    case ScheduleKind::kZbAuto:
      return true;
  }
  return true;
}

int num_copies(const ParallelConfig& config) {
  return placement_of(config.schedule) == StagePlacement::kBidirectional ? 2 : 1;
}

bool holds_embedding(const ParallelConfig& config, int stage) {
  return stage == 0 || (stage == config.pp - 1 && num_copies(config) == 2);
}

bool holds_logits(const ParallelConfig& config, int stage) {
  switch (placement_of(config.schedule)) {
    case StagePlacement::kLooped:
      return stage == config.pp - 1;
    case StagePlacement::kV:
      return stage == 0;
    case StagePlacement::kBidirectional:
      return stage == 0 || stage == config.pp - 1;
  }
  return false;
}

double layers_of_stage(const TransformerConfig& model, const ParallelConfig& config, int stage) {
  if (config.layers_per_stage.empty()) {
    return 1.0 * model.num_layers * num_copies(config) / config.pp;
  }
  int layers = 0;
  for_each_virtual_stage(config, stage, [&](int virtual_stage) {
    layers += config.layers_per_stage[static_cast<std::size_t>(virtual_stage)];
  });
  return layers;
}

int stage_step(const ParallelConfig& config) {
  return config.layers_per_stage.empty() ? std::max(config.pp - 1, 1) : 1;
}

StageCosts stage_costs(const Scenario& scenario, const ParallelConfig& config,
                       const MicrobatchCosts& costs, int stage) {
  const double share = 1.0 / num_copies(config);  // of the microbatches that meet a copy
  const double layers = layers_of_stage(scenario.job.model, config, stage) * share;
  StageCosts result{.forward = costs.layer.forward * layers,
                    .backward = costs.layer.backward * layers,
                    .recompute = costs.layer.recompute(config.recompute) * layers,
                    .gradient_accumulation = layers * costs.layer.gradient_accumulation,
                    .overhead = config.vpp * scenario.stack.microbatch_overhead};
  if (holds_embedding(config, stage)) {
    result.ends += costs.embedding * share;
    result.gradient_accumulation += costs.embedding_accumulation * share;
  }
  if (holds_logits(config, stage)) {
    result.ends += costs.logits * share;
    result.gradient_accumulation += costs.embedding_accumulation * share;
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
  const double share = 1.0 / num_copies(config);
  int slowest = 0;
  Seconds most;
  for (int stage = 0; stage < config.pp; stage += stage_step(config)) {
    const Seconds time = share * (layers_of_stage(model, config, stage) * of_a_layer +
                                  (holds_embedding(config, stage) ? embedding : Seconds(0.0)) +
                                  (holds_logits(config, stage) ? logits : Seconds(0.0)));
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
