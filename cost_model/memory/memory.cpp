// Adds up the memory of pipeline ranks, category by category.
#include "cost_model/memory/memory.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <functional>
#include <optional>
#include <vector>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/rank_sizes.h"
#include "cost_model/iteration/offload.h"
#include "cost_model/iteration/schedule_shape.h"
#include "cost_model/iteration/sharding.h"
#include "cost_model/layer/fp8_casts.h"
#include "cost_model/layer/product_overlap.h"
#include "cost_model/memory/runtime_memory.h"
#include "cost_model/pipeline_rank/aligned_ranges.h"
#include "cost_model/pipeline_rank/rank_costs.h"
#include "cost_model/pipeline_rank/recomputed_layers.h"
#include "cost_model/schedule/generators/generators.h"
#include "cost_model/schedule/passes/communication.h"

namespace ptdp {
namespace {

constexpr Bytes kLargestMeasured(80.0 * kGibi);  // largest GPU whose reserve was measured
constexpr std::size_t kWholeChunks = 2;          // one accumulates, one is being reduced
constexpr double kMostActions = 4e6;             // most that are walked through: 0.1 s

/// Returns the elements of a hidden state of a rank's tokens, sbh/cp.
double sbh(const TransformerConfig& model, const ParallelConfig& config) {
  return static_cast<double>(tokens_of_rank(model, config)) * model.hidden_size;
}

/// Returns the buffers of messages between ranks, and of tensor parallelism within products.
Bytes message_buffers(const PlannedJob& job) {
  Bytes total;
  if (job.config().pp > 1) {
    const double shards = job.config().sequence_parallel ? job.config().tp : 1.0;
    total += Bytes(kMessageBuffers * element_bytes(job.stack().precision) *
                   sbh(job.model(), job.config()) / shards);
  }
  const GroupPlacement group =
      place_group(RankGrid(job.config()), Dimension::kTensor, job.cluster());
  if (runs_within_products(job.stack(), job.config(), group)) {
    const TransformerConfig& model = job.model();
    total += overlap_buffers(job.stack(), static_cast<double>(tokens_of_rank(model, job.config())),
                             model.hidden_size);
  }
  return total;
}

/// Returns the bytes of the weights on a rank; with 8 bits, copies of those that it has whole are
/// included.
Bytes weights_of(const StackSpec& stack, const ParallelConfig& config, const RankParameters& held,
                 const GpuSpec& gpu) {
  return Bytes(shards_weights(config) ? shard_of(weights_in_shards(stack, held), config)
                                      : stored_weights(stack, gpu, held).total());
}

HeldGradients whole_or_sharded(const ParallelConfig& config, const RankParameters& held) {
  return shards_gradients(config) ? HeldGradients{.sharded = held} : HeldGradients{.whole = held};
}

/// Returns the bytes of a rank's optimizer states on the GPU. Where ZeRO shards a 20-byte state
/// (fp16 with fp32 copies), the copies are sharded too: 4 + 16/d.
Bytes optimizer_of(const StackSpec& stack, const ParallelConfig& config,
                   const RankParameters& held) {
  return Bytes(updated_by_rank(held * optimizer_bytes_on_gpu(stack, config), config));
}

/// Returns how many versions of its weights a pipeline rank keeps.
double weight_versions(const PlannedJob& job, int rank) {
  const ScheduleTraits& traits = traits_of(job.config().schedule);
  if (traits.is_synchronous) {
    return 1.0;
  }
  const std::int64_t microbatches = job.microbatches();
  return traits.weight_versions(
      {.pp = job.config().pp, .num_microbatches = static_cast<int>(microbatches)}, rank);
}

}  // namespace

void set_activations(MemoryBreakdown& memory, const ActivationPeak& peak, const StackSpec& stack) {
  memory.activations = peak.kept;
  memory.working_set = peak.working + stack.workspace;
  memory.buffers = peak.waiting;
}

Bytes MemoryBreakdown::total() const {
  Bytes sum;
  for (const MemoryTerm& term : kMemoryTerms) {
    sum += this->*term.size;
  }
  return sum;
}

Bytes model_state(const StackSpec& stack, const ParallelConfig& config, const RankParameters& held,
                  const GpuSpec& gpu) {
  return weights_of(stack, config, held, gpu) +
         gradient_memory(stack, config, whole_or_sharded(config, held)) +
         optimizer_of(stack, config, held);
}

Bytes gradient_memory(const StackSpec& stack, const ParallelConfig& config,
                      const HeldGradients& held) {
  return stack.gradient_bytes * Bytes(held.whole.total() + shard_of(held.sharded, config));
}

MemoryOfRanks::MemoryOfRanks(const PlannedJob& job)
    : scenario_(job.scenario()),
      kept_(job),
      storage_(activation_storage(job.model(), job.stack())),
      messages_(message_buffers(job)) {
  const TransformerConfig& model = job.model();
  for_each_kind(layers_of_model(model), [&](std::size_t kind, double /*count*/) {
    of_layer_[kind] = layer_parameters_of_rank(model, job.config(), kLayerKinds[kind]);
    if (repeats(job.config().recompute) != Repeats::kNothing) {
      activations_[kind] =
          layer_activations(model, job.config(), Recompute::kNone, kLayerKinds[kind], storage_);
    }
  });
}

MemoryBreakdown MemoryOfRanks::of_rank(const ParallelConfig& config, const LayersOfRanks& layers,
                                       int rank) const {
  MemoryBreakdown memory = state_of_rank(config, layers, rank);
  if (scenario_.stack.memory_model == MemoryModel::kPtdp) {
    set_activations(memory, activation_bound({scenario_, config}, rank), scenario_.stack);
    return memory;
  }
  memory.activations = kept_.of_rank(config, layers, rank);
  memory.working_set = working_set(config, layers, rank);
  memory.buffers = buffers(config, held(config, layers, rank));
  return memory;
}

MemoryBreakdown MemoryOfRanks::state_of_rank(const ParallelConfig& config,
                                             const LayersOfRanks& layers, int rank) const {
  const StackSpec& stack = scenario_.stack;
  RankParameters parameters = held(config, layers, rank);
  if (stack.memory_model == MemoryModel::kPtdp) {
    parameters.dense +=
        static_cast<double>(padding_of_rank(scenario_.job.model, config, layers, rank));
  }
  const Bytes weights = weights_of(stack, config, parameters, scenario_.cluster.gpu);
  return {.weights = weight_versions({scenario_, config}, rank) * weights,
          .gradients = gradient_memory(stack, config, gradients(config, layers, rank, parameters)),
          .optimizer = optimizer_of(stack, config, parameters),
          .reserve = reserved_memory(scenario_.cluster.gpu, stack)};
}

RankParameters MemoryOfRanks::held(const ParallelConfig& config, const LayersOfRanks& layers,
                                   int rank) const {
  RankParameters parameters = {.dense = end_parameters(scenario_.job.model, config, rank)};
  for_each_kind(layers.of_rank(rank),
                [&](std::size_t kind, double count) { parameters += of_layer_[kind] * count; });
  return parameters;
}

HeldGradients MemoryOfRanks::gradients(const ParallelConfig& config, const LayersOfRanks& layers,
                                       int rank, const RankParameters& held) const {
  const std::int64_t microbatches = num_microbatches(scenario_.job.global_batch_size, config);
  if (!reduces_by_chunk(config, microbatches) ||
      scenario_.stack.memory_model == MemoryModel::kPtdp) {
    return whole_or_sharded(config, held);
  }
  std::vector<RankParameters> chunks;  // those with most parameters first
  for_each_virtual_stage(config, rank, [&](int virtual_stage) {
    RankParameters& chunk = chunks.emplace_back();
    for_each_kind(layers.of_virtual_stage(virtual_stage),
                  [&](std::size_t kind, double count) { chunk += of_layer_[kind] * count; });
  });
  std::ranges::sort(chunks, std::greater<>(), &RankParameters::total);
  HeldGradients result{.whole = {.dense = end_parameters(scenario_.job.model, config, rank)}};
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    (i < kWholeChunks ? result.whole : result.sharded) += chunks[i];
  }
  return result;
}

/// Returns the size of the largest set of tensors that live only during one pass.
Bytes MemoryOfRanks::working_set(const ParallelConfig& config, const LayersOfRanks& layers,
                                 int rank) const {
  const TransformerConfig& model = scenario_.job.model;
  Bytes largest;
  if (repeats(config.recompute) != Repeats::kNothing) {
    const LayerCounts recomputed =
        recomputes_some(config) ? recomputed_of_rank(model, config, rank) : layers.of_rank(rank);
    for_each_kind(recomputed, [&](std::size_t kind, double count) {
      const double at_once = std::min(1.0 * layers_at_once(config), count);
      largest = std::max(largest, at_once * activations_[kind] - kept_.of_layer(kind));
    });
  }
  if (holds_logits(config, rank)) {
    const auto tokens = static_cast<double>(tokens_of_rank(model, config));
    const double logits = (1 + model.mtp_num_layers) * tokens *
                          static_cast<double>(padded_vocab_size(model, config.tp)) / config.tp;
    const StackSpec& stack = scenario_.stack;
    const bool is_split = config.tp > 1 && stack.split_loss_bytes > 0.0;
    const double loss_bytes = is_split ? stack.split_loss_bytes : stack.loss_bytes;
    // The inputs of the final norm and of the logits are kept beside the loss.
    const double shards = config.sequence_parallel ? config.tp : 1.0;
    const double inputs = 2.0 * sbh(model, config) / shards;
    largest = std::max(largest, Bytes((storage_.element_bytes + loss_bytes) * logits +
                                      storage_.element_bytes * inputs));
  }
  return largest;
}

Bytes MemoryOfRanks::buffers(const ParallelConfig& config, const RankParameters& held) const {
  Bytes total = messages_;
  const bool has_others = has_replicas(scenario_.job.model, config);
  if (has_others && shards_gradients(config)) {
    total += sharding_buffers({scenario_, config});
  } else if (has_others) {
    total += bucket_memory(scenario_.stack, config.pp, held.total());
  }
  return total;
}

Bytes bucket_memory(const StackSpec& stack, int pp, double parameters) {
  return Bytes(overlaps_reduction(stack, pp) ? parameters * stack.gradient_bucket_bytes : 0.0);
}

Bytes reserved_memory(const GpuSpec& gpu, const StackSpec& stack) {
  return std::min(gpu.memory, kLargestMeasured) * stack.reserve_fraction;
}

MemoryBreakdown rank_memory(const PlannedJob& job, int rank) {
  const LayersOfRanks layers(job.model(), job.config());
  return MemoryOfRanks(job).of_rank(job.config(), layers, rank);
}

double num_actions_with_messages(const PlannedJob& job) {
  return most_actions(job.config().pp, job.config().vpp, job.microbatches());
}

Schedule compute_schedule(const PlannedJob& job) {
  return traits_of(job.config().schedule).generate(schedule_shape(job));
}

Schedule schedule_with_messages(const PlannedJob& job) {
  return insert_messages(compute_schedule(job));
}

std::vector<MemoryBreakdown> memory_by_rank(const PlannedJob& job) {
  if (job.stack().memory_model == MemoryModel::kPtdp && job.config().pp > 1 &&
      num_actions_with_messages(job) <= kMostActions) {
    return memory_by_rank(job, schedule_with_messages(job));
  }
  const LayersOfRanks layers(job.model(), job.config());
  const MemoryOfRanks memories(job);
  std::vector<MemoryBreakdown> by_rank;
  by_rank.reserve(static_cast<std::size_t>(job.config().pp));
  for (int rank = 0; rank < job.config().pp; ++rank) {
    by_rank.push_back(memories.of_rank(job.config(), layers, rank));
  }
  return by_rank;
}

std::vector<MemoryBreakdown> memory_by_rank(const PlannedJob& job, const Schedule& schedule) {
  const LayersOfRanks layers(job.model(), job.config());
  const MemoryOfRanks memories(job);
  const bool is_walked = job.stack().memory_model == MemoryModel::kPtdp;
  std::optional<RankMemories> ranks;
  if (is_walked) {
    ranks.emplace(job);
  }
  std::vector<MemoryBreakdown> by_rank;
  by_rank.reserve(static_cast<std::size_t>(job.config().pp));
  for (int rank = 0; rank < job.config().pp; ++rank) {
    by_rank.push_back(is_walked ? memories.state_of_rank(job.config(), layers, rank)
                                : memories.of_rank(job.config(), layers, rank));
    if (is_walked) {
      set_activations(by_rank.back(), ranks->peak(schedule, rank), job.stack());
    }
  }
  return by_rank;
}

int heaviest_of(const std::vector<MemoryBreakdown>& ranks) {
  const auto heaviest = std::max_element(
      ranks.begin(), ranks.end(),
      [](const MemoryBreakdown& a, const MemoryBreakdown& b) { return a.total() < b.total(); });
  return static_cast<int>(heaviest - ranks.begin());
}

namespace {

/// A pipeline rank and the memory of one of its GPUs.
struct RankAndMemory {
  int rank = 0;
  Bytes memory;
};

RankAndMemory find_heaviest(const PlannedJob& job) {
  if (job.stack().memory_model == MemoryModel::kPtdp) {
    const std::vector<MemoryBreakdown> by_rank = memory_by_rank(job);
    const int heaviest = heaviest_of(by_rank);
    return {heaviest, by_rank[static_cast<std::size_t>(heaviest)].total()};
  }
  const LayersOfRanks layers(job.model(), job.config());
  const MemoryOfRanks memories(job);
  RankAndMemory heaviest;
  for (int rank = 0; rank < job.config().pp; rank += rank_step(job.model(), job.config())) {
    const Bytes memory = memories.of_rank(job.config(), layers, rank).total();
    if (memory > heaviest.memory) {
      heaviest = {rank, memory};
    }
  }
  return heaviest;
}

}  // namespace

int heaviest_rank(const PlannedJob& job) {
  return find_heaviest(job).rank;
}

Bytes peak_memory(const PlannedJob& job) {
  return find_heaviest(job).memory;
}

}  // namespace ptdp
