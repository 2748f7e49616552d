#include "cost_model/analytic/memory.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <functional>
#include <vector>

#include "cost_model/analytic/fp8_casts.h"
#include "cost_model/analytic/offload.h"
#include "cost_model/analytic/pipeline.h"
#include "cost_model/analytic/product_overlap.h"
#include "cost_model/analytic/recomputed_layers.h"
#include "cost_model/analytic/runtime_memory.h"
#include "cost_model/analytic/sharding.h"
#include "cost_model/analytic/stage.h"
#include "cost_model/schedule/communication.h"
#include "cost_model/schedule/generators.h"
#include "cost_model/simulation/pipeline_waits.h"
#include "cost_model/simulation/schedule_shape.h"

namespace ptdp {
namespace {

constexpr double kMaskBytes = 1.0;  // of dropout, per element

// On a stage: F, I and W, and for both directions a message's two ends or a copy.
constexpr double kActionsOfAMicrobatch = 7.0;
constexpr double kMostActions = 4e6;  // that are walked through for their memory: 0.1 s

/// Of the tokens of a rank.
double sbh(const TransformerConfig& model, const ParallelConfig& config) {
  return static_cast<double>(tokens_of_rank(model, config)) * model.hidden_size;
}

/// Bytes of a layer of each kind that the model has.
using KeptByLayer = std::array<Bytes, kLayerKinds.size()>;

KeptByLayer kept_by_kind(const Scenario& scenario, const ParallelConfig& config) {
  KeptByLayer kept;
  for_each_kind(layers_of_model(scenario.job.model), [&](std::size_t kind, double /*count*/) {
    kept[kind] = kept_by_layer(scenario, config, kLayerKinds[kind]);
  });
  return kept;
}

/// Layers that keep what recomputation leaves of them, as they are recomputed or as the only ones
/// there are, and those that keep all because others are recomputed.
struct KeptLayers {
  LayerCounts usual{};
  LayerCounts whole{};

  KeptLayers& operator+=(const KeptLayers& other) {
    usual += other.usual;
    whole += other.whole;
    return *this;
  }
  friend KeptLayers operator*(const KeptLayers& layers, double factor) {
    return {.usual = layers.usual * factor, .whole = layers.whole * factor};
  }
};

/// What a layer of each kind keeps, among either.
struct KeptBytes {
  KeptByLayer usual;
  KeptByLayer whole;
};

KeptBytes kept_bytes(const Scenario& scenario, const ParallelConfig& config) {
  KeptBytes kept{.usual = kept_by_kind(scenario, config)};
  if (recomputes_some(config)) {
    ParallelConfig whole = config;
    whole.recompute = Recompute::kNone;
    whole.recompute_num_layers = 0;
    kept.whole = kept_by_kind(scenario, whole);
  }
  return kept;
}

Bytes most_of_a_layer(const KeptBytes& kept) {
  return std::max(*std::max_element(kept.usual.begin(), kept.usual.end()),
                  *std::max_element(kept.whole.begin(), kept.whole.end()));
}

/// Layers of a virtual stage; where several are recomputed at once those whose inputs are kept.
KeptLayers layers_keeping(const TransformerConfig& model, const ParallelConfig& config,
                          int virtual_stage) {
  const LayerCounts all = layers_of_virtual_stage(model, config, virtual_stage);
  KeptLayers layers{.usual = recomputed_of_virtual_stage(model, config, virtual_stage)};
  if (recomputes_some(config)) {
    layers.whole = all;
    layers.whole += layers.usual * -1.0;
  } else if (const int at_once = layers_at_once(config); at_once > 1) {
    const double count = total(all);
    layers.usual = all * (std::ceil(count / at_once) / std::max(count, 1.0));
  }
  return layers;
}

/// Chunks of one microbatch whose activations a stage holds at its worst.
double chunks_kept(const ParallelConfig& config, int stage, double microbatches) {
  switch (config.schedule) {
    case ScheduleKind::kOneFOneB:
    case ScheduleKind::kInterleaved:
      return chunks_in_flight(config.pp, config.vpp, stage, microbatches);
    case ScheduleKind::kGPipe:
    case ScheduleKind::kLoopedBfs:
      return config.vpp * microbatches;
    case ScheduleKind::kZbH1:
    case ScheduleKind::kZbH2:
    case ScheduleKind::kZbV:
    case ScheduleKind::kVHalf:
    case ScheduleKind::kVMin:
    case ScheduleKind::kDualPipe:
    case ScheduleKind::kDualPipeV:
    case ScheduleKind::kZbAuto:
    case ScheduleKind::kPipeDream:
    case ScheduleKind::kPipeDream2Bw:
      break;
  }
  const ScheduleGenerator* generator = find_schedule_generator(name_of(config.schedule));
  assert(generator != nullptr);
  return generator->peak_activations(
      schedule_sizes(config, static_cast<std::int64_t>(microbatches)), stage);
}

/// Microbatches whose embedding is kept where a stage holds `chunks`. Interleaved, rank 0 warms up
/// with (v+1)p − 2 forward passes in groups of p, the last of which are again of its first chunk:
/// 2p of them at the worst moment.
double embeddings_kept(const ParallelConfig& config, double chunks, double microbatches) {
  const double bound = config.schedule == ScheduleKind::kOneFOneB      ? config.pp
                       : config.schedule == ScheduleKind::kInterleaved ? 2.0 * config.pp
                                                                       : chunks;
  return std::min(bound, microbatches);
}

/// What so many layers of each kind keep.
Bytes kept_by_layers(const KeptLayers& layers, const KeptBytes& of_layer) {
  Bytes kept;
  for (std::size_t kind = 0; kind < kLayerKinds.size(); ++kind) {
    kept += layers.usual[kind] * of_layer.usual[kind] + layers.whole[kind] * of_layer.whole[kind];
  }
  return kept;
}

/// Layers whose activations a stage holds with `chunks` of a microbatch each. Which of its chunks
/// these are depends on the schedule; where they differ in layers, as many as can be are of the
/// one that keeps most: at most 2p of one in an interleaved schedule, else at most one for each
/// microbatch.
KeptLayers layers_kept(const TransformerConfig& model, const ParallelConfig& config, int stage,
                       double chunks, double microbatches, const KeptBytes& of_layer) {
  const int num_chunks = config.vpp * num_copies(config);
  if (!config.recomputes_by_layers() &&
      ((config.layers_per_stage.empty() && has_one_kind(model)) || num_chunks == 1)) {
    LayerCounts counts = layers_of_stage(model, config, stage);
    for (double& count : counts) {
      count = chunks * (count / num_chunks);
    }
    return {.usual = counts};
  }
  std::vector<KeptLayers> layers;
  for_each_virtual_stage(config, stage, [&](int virtual_stage) {
    layers.push_back(layers_keeping(model, config, virtual_stage));
  });
  std::stable_sort(layers.begin(), layers.end(), [&](const KeptLayers& a, const KeptLayers& b) {
    return kept_by_layers(a, of_layer) > kept_by_layers(b, of_layer);
  });
  const double most = config.schedule == ScheduleKind::kInterleaved
                          ? std::min(2.0 * config.pp, microbatches)
                          : microbatches;
  KeptLayers kept;
  for (const KeptLayers& of_chunk : layers) {
    const double held = std::min(chunks, most);
    kept += of_chunk * held;
    chunks -= held;
  }
  return kept;
}

/// Activations of the layers and, where the model begins, the embedding's dropout masks.
Bytes kept_activations(const Scenario& scenario, const ParallelConfig& config, int stage) {
  const TransformerConfig& model = scenario.job.model;
  const auto microbatches =
      static_cast<double>(num_microbatches(scenario.job.global_batch_size, config));
  const KeptBytes of_layer = kept_bytes(scenario, config);
  const double chunks = chunks_kept(config, stage, microbatches);
  Bytes kept =
      kept_by_layers(layers_kept(model, config, stage, chunks, microbatches, of_layer), of_layer);
  kept = activations_on_gpu(config, kept, most_of_a_layer(of_layer));
  if (holds_embedding(config, stage) && has_dropout(model)) {
    const double in_flight = embeddings_kept(config, chunks, microbatches);
    const double shards = config.sequence_parallel ? config.tp : 1.0;
    kept += Bytes(kMaskBytes * in_flight * sbh(model, config) / shards);
  }
  return kept;
}

/// The largest set of tensors that live only during one pass.
Bytes working_set(const Scenario& scenario, const ParallelConfig& config, int stage) {
  const TransformerConfig& model = scenario.job.model;
  const ActivationStorage storage = activation_storage(scenario.stack);
  Bytes largest;
  if (config.recompute != Recompute::kNone) {
    for_each_kind(recomputed_of_stage(model, config, stage), [&](std::size_t kind, double count) {
      const auto activations = [&](Recompute recompute) {
        return layer_activations(model, config, recompute, kLayerKinds[kind], storage);
      };
      const double at_once = std::min(1.0 * layers_at_once(config), count);
      largest = std::max(largest,
                         at_once * activations(Recompute::kNone) - activations(config.recompute));
    });
  }
  if (holds_logits(config, stage)) {
    const auto tokens = static_cast<double>(tokens_of_rank(model, config));
    const double logits = (1 + model.mtp_num_layers) * tokens *
                          static_cast<double>(padded_vocab_size(model, config.tp)) / config.tp;
    // The inputs of the final norm and of the logits are kept beside the loss.
    const double shards = config.sequence_parallel ? config.tp : 1.0;
    const double inputs = 2.0 * sbh(model, config) / shards;
    largest = std::max(largest, Bytes((storage.element_bytes + scenario.stack.loss_bytes) * logits +
                                      storage.element_bytes * inputs));
  }
  return largest;
}

Bytes buffers(const Scenario& scenario, const ParallelConfig& config,
              const RankParameters& parameters) {
  Bytes total;
  if (config.pp > 1) {
    // One message received and one sent, in each direction at once in the steady state.
    const double shards = config.sequence_parallel ? config.tp : 1.0;
    total += Bytes(4.0 * element_bytes(scenario.stack.precision) * sbh(scenario.job.model, config) /
                   shards);
  }
  const GroupPlacement group = place_group(RankGrid(config), Dimension::kTensor, scenario.cluster);
  if (runs_within_products(scenario.stack, config, group)) {
    const TransformerConfig& model = scenario.job.model;
    total += overlap_buffers(scenario.stack, static_cast<double>(tokens_of_rank(model, config)),
                             model.hidden_size);
  }
  const bool has_others = has_replicas(scenario.job.model, config);
  if (has_others && shards_gradients(config)) {
    total += sharding_buffers(scenario, config);
  } else if (has_others && overlaps_reduction(scenario.stack, config.pp)) {
    total += Bytes(parameters.total() * scenario.stack.gradient_bucket_bytes);
  }
  return total;
}

void set_activations(MemoryBreakdown& memory, const ActivationPeak& peak, const StackSpec& stack) {
  memory.activations = peak.kept;
  memory.working_set = peak.working + stack.workspace;
  memory.buffers = peak.waiting;
}

int heaviest_of(const std::vector<MemoryBreakdown>& stages) {
  const auto heaviest = std::max_element(
      stages.begin(), stages.end(),
      [](const MemoryBreakdown& a, const MemoryBreakdown& b) { return a.total() < b.total(); });
  return static_cast<int>(heaviest - stages.begin());
}

/// So many bytes of each parameter that a rank holds, or of its shard of them. Where ZeRO shards a
/// 20-byte state (fp16 with fp32 copies), the copies shard too: 4 + 16/d.
Bytes sharded_if(bool is_sharded, double bytes, const ParallelConfig& config,
                 const RankParameters& held) {
  return Bytes(is_sharded ? shard_of(held * bytes, config) : held.total() * bytes);
}

/// Of the weights on a rank: with 8 bits, copies of those that it has whole.
Bytes weights_of(const StackSpec& stack, const ParallelConfig& config, const RankParameters& held,
                 const GpuSpec& gpu) {
  return shards_weights(config) ? sharded_if(true, stack.weight_bytes, config, held)
                                : Bytes(stored_weights(stack, gpu, held).total());
}

/// Versions of its weights that a stage keeps.
double weight_versions(const Scenario& scenario, const ParallelConfig& config, int stage) {
  if (!has_stale_weights(config.schedule)) {
    return 1.0;
  }
  const std::int64_t microbatches = num_microbatches(scenario.job.global_batch_size, config);
  const ScheduleGenerator* generator = find_schedule_generator(name_of(config.schedule));
  return generator->weight_versions(
      {.pp = config.pp, .num_microbatches = static_cast<int>(microbatches)}, stage);
}

}  // namespace

Bytes MemoryBreakdown::total() const {
  Bytes sum;
  for (const MemoryTerm& term : kMemoryTerms) {
    sum += this->*term.size;
  }
  return sum;
}

Bytes kept_by_layer(const Scenario& scenario, const ParallelConfig& config, LayerKind kind) {
  if (scenario.stack.memory_model == MemoryModel::kPtdp) {
    return layer_memory(scenario, config).kept;
  }
  return layer_activations(scenario.job.model, config, config.recompute, kind,
                           activation_storage(scenario.stack));
}

Bytes virtual_stage_activations(const Scenario& scenario, const ParallelConfig& config,
                                int virtual_stage) {
  const TransformerConfig& model = scenario.job.model;
  if (scenario.stack.memory_model == MemoryModel::kPtdp) {
    return virtual_stage_memory(scenario, config, virtual_stage).kept;
  }
  Bytes kept =
      kept_by_layers(layers_keeping(model, config, virtual_stage), kept_bytes(scenario, config));
  if (virtual_stage == 0 && has_dropout(model)) {
    const double shards = config.sequence_parallel ? config.tp : 1.0;
    kept += Bytes(kMaskBytes * sbh(model, config) / shards);
  }
  return kept;
}

Bytes model_state(const StackSpec& stack, const ParallelConfig& config, const RankParameters& held,
                  const GpuSpec& gpu) {
  return weights_of(stack, config, held, gpu) +
         sharded_if(shards_gradients(config), stack.gradient_bytes, config, held) +
         Bytes(updated_by_rank(held * optimizer_bytes_on_gpu(stack, config), config));
}

MemoryBreakdown stage_memory(const Scenario& scenario, const ParallelConfig& config, int stage) {
  const StackSpec& stack = scenario.stack;
  const RankParameters held = stage_parameters(scenario.job.model, config, stage);
  const Bytes weights = weights_of(stack, config, held, scenario.cluster.gpu);
  MemoryBreakdown memory{
      .weights = weight_versions(scenario, config, stage) * weights,
      .gradients = sharded_if(shards_gradients(config), stack.gradient_bytes, config, held),
      .optimizer = Bytes(updated_by_rank(held * optimizer_bytes_on_gpu(stack, config), config)),
      .reserve = scenario.cluster.gpu.memory * stack.reserve_fraction};
  if (stack.memory_model == MemoryModel::kPtdp) {
    set_activations(memory, activation_bound(scenario, config, stage), stack);
    return memory;
  }
  memory.activations = kept_activations(scenario, config, stage);
  memory.working_set = working_set(scenario, config, stage);
  memory.buffers = buffers(scenario, config, held);
  return memory;
}

double num_actions_with_messages(const Scenario& scenario, const ParallelConfig& config) {
  return kActionsOfAMicrobatch * config.pp * config.vpp *
         static_cast<double>(num_microbatches(scenario.job.global_batch_size, config));
}

Schedule schedule_with_messages(const Scenario& scenario, const ParallelConfig& config) {
  const ScheduleGenerator* generator = find_schedule_generator(name_of(config.schedule));
  const ScheduleShape shape =
      config.schedule == ScheduleKind::kZbAuto
          ? schedule_shape(scenario, config, microbatch_costs(scenario, config))
          : schedule_sizes(config, num_microbatches(scenario.job.global_batch_size, config));
  return insert_messages(generator->generate(shape));
}

std::vector<MemoryBreakdown> memory_by_stage(const Scenario& scenario,
                                             const ParallelConfig& config) {
  if (scenario.stack.memory_model == MemoryModel::kPtdp && config.pp > 1 &&
      num_actions_with_messages(scenario, config) <= kMostActions) {
    return memory_by_stage(scenario, config, schedule_with_messages(scenario, config));
  }
  std::vector<MemoryBreakdown> stages;
  stages.reserve(static_cast<std::size_t>(config.pp));
  for (int stage = 0; stage < config.pp; ++stage) {
    stages.push_back(stage_memory(scenario, config, stage));
  }
  return stages;
}

std::vector<MemoryBreakdown> memory_by_stage(const Scenario& scenario, const ParallelConfig& config,
                                             const Schedule& schedule) {
  std::vector<MemoryBreakdown> stages;
  stages.reserve(static_cast<std::size_t>(config.pp));
  for (int stage = 0; stage < config.pp; ++stage) {
    MemoryBreakdown memory = stage_memory(scenario, config, stage);
    if (scenario.stack.memory_model == MemoryModel::kPtdp) {
      set_activations(memory, activation_peak(scenario, config, schedule, stage), scenario.stack);
    }
    stages.push_back(memory);
  }
  return stages;
}

int heaviest_stage(const Scenario& scenario, const ParallelConfig& config) {
  if (scenario.stack.memory_model == MemoryModel::kPtdp) {
    return heaviest_of(memory_by_stage(scenario, config));
  }
  int heaviest = 0;
  Bytes most;
  for (int stage = 0; stage < config.pp; stage += stage_step(scenario.job.model, config)) {
    const Bytes memory = stage_memory(scenario, config, stage).total();
    if (memory > most) {
      heaviest = stage;
      most = memory;
    }
  }
  return heaviest;
}

Bytes peak_memory(const Scenario& scenario, const ParallelConfig& config) {
  if (scenario.stack.memory_model == MemoryModel::kPtdp) {
    const std::vector<MemoryBreakdown> stages = memory_by_stage(scenario, config);
    return stages[static_cast<std::size_t>(heaviest_of(stages))].total();
  }
  return stage_memory(scenario, config, heaviest_stage(scenario, config)).total();
}

}  // namespace ptdp
