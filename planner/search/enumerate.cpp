// Lists the values of each degree and flag that the stack and the pins allow.
#include "planner/search/enumerate.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>

#include "cost_model/contains.h"
#include "cost_model/inputs/parallel_config.h"
#include "cost_model/iteration/sharding.h"
#include "cost_model/partition/partition.h"
#include "cost_model/pipeline_rank/rank_parameters.h"
#include "planner/constraints/constraint.h"

namespace ptdp {
namespace {

constexpr std::int64_t kFewestTokens = 2048;  // per GPU that shares a sequence, unless pinned

/// Returns the divisors of `number` in `set`, and the numbers of the set that were typed one by
/// one, ascending. Whoever types a number wants to hear why it cannot be.
std::vector<std::int64_t> divisors_in(std::int64_t number, const IntegerRanges& set) {
  std::vector<std::int64_t> result = set.numbers();
  for (const std::int64_t divisor : divisors(number)) {
    if (set.contains(divisor)) {
      result.push_back(divisor);
    }
  }
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

/// Returns the ZeRO stages to look at. With a pipeline stages 2 and 3 are no other than stage 1
/// (sharding.h) and are left out beside it.
std::vector<int> zero_stages(const Scenario& scenario, const SearchSpace& space, int pp) {
  const std::vector<int>& can_run = scenario.stack.can_run.zero_stages;
  std::vector<int> stages;
  if (space.zero_stage.is_any()) {
    std::copy_if(can_run.begin(), can_run.end(), std::back_inserter(stages),
                 [&](int stage) { return stage <= 1 || pp == 1 || !contains(can_run, 1); });
    return stages;
  }
  for (int stage = 0; stage <= kHighestZeroStage; ++stage) {
    if (space.zero_stage.contains(stage) &&
        (stage <= 1 || pp == 1 || stages.empty() || stages.back() == 0)) {
      stages.push_back(stage);
    }
  }
  return stages;
}

/// Returns the orders of ranks to look at: one without a pipeline, where all orders are the same.
std::vector<RankOrder> rank_orders(const SearchSpace& space, int pp) {
  if (space.rank_orders.empty()) {
    return {RankOrder{}};
  }
  return pp > 1 ? space.rank_orders : std::vector(1, space.rank_orders.front());
}

/// Returns the values of dp_replicate to look at: how many times each shard is held.
std::vector<std::int64_t> shard_replicas(const Scenario& scenario, const SearchSpace& space,
                                         const ParallelConfig& config) {
  const std::int64_t batch = scenario.job.global_batch_size;
  if (!space.dp_replicate.is_any()) {
    return divisors_in(batch, space.dp_replicate);
  }
  std::vector<std::int64_t> replicas = {1};
  if (scenario.stack.can_run.hybrid_sharding && shards_gradients(config)) {
    while (batch % (2 * replicas.back()) == 0) {
      replicas.push_back(2 * replicas.back());
    }
  }
  return replicas;
}

/// Returns the values of reshard_after_forward to look at. The flag matters only when weights are
/// gathered for every pass; a pin of it elsewhere violates a constraint, which says so.
std::vector<bool> reshard_choices(const Scenario& scenario, const SearchSpace& space,
                                  const ParallelConfig& config) {
  if (space.reshard_after_forward.has_value()) {
    return {*space.reshard_after_forward};
  }
  return shards_weights(config) && scenario.stack.can_run.kept_weights ? std::vector{true, false}
                                                                       : std::vector{true};
}

void add_shardings(const Scenario& scenario, const SearchSpace& space, ParallelConfig config,
                   std::vector<ParallelConfig>& result) {
  for (const std::int64_t replicas : shard_replicas(scenario, space, config)) {
    config.dp_replicate = static_cast<int>(replicas);
    for (const bool reshards : reshard_choices(scenario, space, config)) {
      config.reshard_after_forward = reshards;
      result.push_back(config);
    }
  }
}

std::vector<Offload> offloads(const SearchSpace& space) {
  return space.offload.empty() ? std::vector(1, Offload::kNone) : space.offload;
}

/// Returns the numbers of layers whose activations may be offloaded: what is pinned, else one to
/// seven eighths of the layers, and 0, which means all but the last. All but the last takes longest
/// and leaves the least on the GPU.
std::vector<int> numbers_of_offloaded_layers(const TransformerConfig& model,
                                             const SearchSpace& space, Offload offload) {
  if (!offloads_activations(offload)) {
    return {0};
  }
  if (space.offload_num_layers.has_value()) {
    return {*space.offload_num_layers};
  }
  std::vector<int> result;
  constexpr int parts = 8;
  for (int part = 1; part < parts; ++part) {
    const auto layers = static_cast<int>(std::int64_t{model.num_layers} * part / parts);
    if (layers > 0 && layers < model.num_layers - 1 && !contains(result, layers)) {
      result.push_back(layers);
    }
  }
  result.push_back(0);
  return result;
}

/// Adds `config` with every ZeRO stage, order of ranks, offloading and sharding to `result`.
void add_placements(const Scenario& scenario, const SearchSpace& space, ParallelConfig config,
                    std::vector<ParallelConfig>& result) {
  for (const int zero_stage : zero_stages(scenario, space, config.pp)) {
    config.zero_stage = zero_stage;
    for (const RankOrder order : rank_orders(space, config.pp)) {
      config.rank_order = order;
      for (const Offload offload : offloads(space)) {
        config.offload = offload;
        for (const int layers : numbers_of_offloaded_layers(scenario.job.model, space, offload)) {
          config.offload_num_layers = layers;
          add_shardings(scenario, space, config, result);
        }
      }
    }
  }
}

/// Gives `config` the fields that add_placements() chose for `placement`.
void place_as(ParallelConfig& config, const ParallelConfig& placement) {
  config.zero_stage = placement.zero_stage;
  config.rank_order = placement.rank_order;
  config.offload = placement.offload;
  config.offload_num_layers = placement.offload_num_layers;
  config.dp_replicate = placement.dp_replicate;
  config.reshard_after_forward = placement.reshard_after_forward;
}

std::vector<bool> sequence_parallel_choices(const Scenario& scenario, const SearchSpace& space,
                                            int tp) {
  if (space.sequence_parallel.has_value()) {
    return {*space.sequence_parallel};
  }
  if (tp > 1 && scenario.stack.can_run.sequence_parallel) {
    return {false, true};
  }
  return {false};
}

/// Returns the schedules that a search looks at, in the order of their kinds.
std::vector<ScheduleKind> schedules_of(const Scenario& scenario, const SearchSpace& space) {
  std::vector<ScheduleKind> schedules;
  for (const NamedValue<ScheduleKind>& schedule : kScheduleNames) {
    const bool is_usual = schedule.value == ScheduleKind::kOneFOneB ||
                          schedule.value == ScheduleKind::kInterleaved ||
                          contains(scenario.stack.can_run.schedules, schedule.value);
    if (!traits_of(schedule.value).is_synchronous && !space.allow_stale_weights) {
      continue;
    }
    if (space.schedules.empty() ? is_usual : contains(space.schedules, schedule.value)) {
      schedules.push_back(schedule.value);
    }
  }
  return schedules;
}

/// Returns the layers per virtual stage: what is pinned, or empty when all stages are equal. When
/// `num_stages` does not divide the layers and the stack runs any number per stage, returns an even
/// split; the search balances it once it knows what layers cost.
std::vector<int> uneven_layers(const Scenario& scenario, const SearchSpace& space, int num_stages) {
  if (const std::vector<int>& pinned = space.layers_per_stage; !pinned.empty()) {
    const bool are_equal =
        std::ssize(pinned) == num_stages &&
        pinned.front() * std::int64_t{num_stages} == scenario.job.model.num_layers &&
        std::ranges::count(pinned, pinned.front()) == num_stages;
    return are_equal ? std::vector<int>() : pinned;
  }
  const int num_layers = scenario.job.model.num_layers;
  // The embedding and the logits may be stages of their own; all others hold a layer.
  const bool is_uneven = scenario.stack.can_run.uneven_layers && num_layers % num_stages != 0 &&
                         num_layers >= num_stages - 2;
  return is_uneven ? even_partition(num_layers, num_stages) : std::vector<int>();
}

/// Returns the sizes of groups of at most `gpus` GPUs that share a sequence (cp), ascending.
std::vector<std::int64_t> context_sizes(const Scenario& scenario, std::int64_t gpus,
                                        const SearchSpace& space) {
  const std::int64_t tokens = scenario.job.model.seq_length;
  if (!space.cp.is_any()) {
    return space.cp.values(std::min(gpus, tokens));
  }
  std::vector<std::int64_t> sizes = {1};
  if (scenario.stack.can_run.context_parallel) {
    for (std::int64_t cp = 2; cp <= std::min(gpus, tokens / kFewestTokens); cp *= 2) {
      if (tokens % cp == 0) {
        sizes.push_back(cp);
      }
    }
  }
  return sizes;
}

/// Returns how a model's experts may be split, as pairs (ep, etp).
std::vector<std::pair<int, int>> expert_splits(const Scenario& scenario, const SearchSpace& space,
                                               int tp) {
  const int num_experts = scenario.job.model.num_experts;
  if (num_experts == 0 && space.ep.is_any() && space.etp.is_any()) {
    return {{1, 1}};
  }
  std::vector<std::int64_t> widths = {1};
  if (!space.etp.is_any()) {
    widths = space.etp.values(std::max(scenario.job.model.moe_ffn_hidden_size, 1));
  } else if (tp > 1 && scenario.stack.can_run.expert_parallel) {
    widths.push_back(tp);
  }
  const bool is_split = scenario.stack.can_run.expert_parallel || !space.ep.is_any();
  std::vector<std::pair<int, int>> result;
  for (const std::int64_t ep : divisors_in(is_split ? std::max(num_experts, 1) : 1, space.ep)) {
    for (const std::int64_t etp : widths) {
      result.emplace_back(static_cast<int>(ep), static_cast<int>(etp));
    }
  }
  if (result.empty()) {  // a candidate for the search to reject, so that it says why
    result.emplace_back(space.ep.smallest(), space.etp.smallest());
  }
  return result;
}

/// Returns the limits of memory that a searched schedule may be given, in microbatches per rank:
/// p as ZB-H1 holds and 2p − 1 as ZB-H2 holds, or what is pinned; none for other schedules.
std::vector<std::optional<int>> memory_limits(const SearchSpace& space,
                                              const ParallelConfig& config) {
  if (!traits_of(config.schedule).is_searched) {
    return {std::nullopt};
  }
  if (space.memory_limit.has_value()) {
    return {space.memory_limit};
  }
  return {config.pp, 2 * config.pp - 1};
}

/// Returns the most virtual stages that a pipeline rank may have. The first virtual stage may be
/// the embedding alone, and the last the logits alone, when layers need not be equal.
std::int64_t most_chunks(const Scenario& scenario, int pp) {
  const int ends = scenario.stack.can_run.uneven_layers ? 2 : 0;
  return (scenario.job.model.num_layers + ends) / pp;
}

/// Returns whether each replica of the shards spans at least a node, or dp_replicate was typed.
bool is_candidate_of_replicas(const Scenario& scenario, const ParallelConfig& config,
                              const SearchSpace& space) {
  if (config.dp_replicate == 1 ||
      contains(space.dp_replicate.numbers(), std::int64_t{config.dp_replicate})) {
    return true;  // the search says what is wrong with a number that was typed
  }
  const std::int64_t gpus = std::int64_t{1} * config.tp * config.cp * config.dp;
  return config.dp % config.dp_replicate == 0 &&
         gpus / config.dp_replicate >= scenario.cluster.gpus_per_node;
}

/// Returns the kinds of recomputation to look at: what is pinned, the kind to which pinned modules
/// or layers belong, or all that the stack can run.
std::vector<Recompute> recomputations(const StackCapabilities& can_run, const SearchSpace& space) {
  if (!space.recompute.empty()) {
    return space.recompute;
  }
  if (space.recompute_modules.has_value()) {
    return {Recompute::kSelective};
  }
  if (space.recompute_num_layers.has_value()) {
    return {Recompute::kFull};
  }
  return can_run.recompute;
}

void set_recomputation(ParallelConfig& config, Recompute recompute,
                       const StackCapabilities& can_run, const SearchSpace& space) {
  config.recompute = recompute;
  if (repeats(recompute) == Repeats::kModules) {
    config.recompute_modules = space.recompute_modules.value_or(usual_modules(can_run));
  }
  if (repeats(recompute) == Repeats::kLayer && space.recompute_num_layers.has_value()) {
    config.recompute_num_layers = *space.recompute_num_layers;
    config.recompute_method = space.recompute_method.value_or(RecomputeMethod::kBlock);
  }
}

}  // namespace

std::vector<int> enumerate_tp(const Scenario& scenario, std::int64_t gpus,
                              const SearchSpace& space) {
  std::vector<int> result;
  const std::int64_t heads = scenario.job.model.num_attention_heads;
  for (const std::int64_t tp : space.tp.values(std::min(gpus, heads))) {
    // One GPU has no sequence to split: it is no candidate when sequence parallelism is pinned.
    if (tp <= gpus && (tp > 1 || !space.sequence_parallel.value_or(false))) {
      result.push_back(static_cast<int>(tp));
    }
  }
  return result;
}

std::vector<Degrees> enumerate_degrees(const Scenario& scenario, std::int64_t gpus,
                                       const SearchSpace& space, int tp) {
  std::vector<Degrees> result;
  const std::vector<std::int64_t> cps = context_sizes(scenario, gpus / tp, space);
  const std::int64_t layers = scenario.job.model.num_layers;
  for (const std::int64_t pp : space.pp.values(std::min(gpus / tp, layers))) {
    for (const std::int64_t cp : cps) {
      if (tp * pp * cp <= gpus) {
        result.push_back({.tp = tp, .pp = static_cast<int>(pp), .cp = static_cast<int>(cp)});
      }
    }
  }
  return result;
}

ParallelConfig config_of_degrees(const Scenario& scenario, const SearchSpace& space,
                                 const Degrees& degrees) {
  return {.tp = degrees.tp,
          .pp = degrees.pp,
          .cp = degrees.cp,
          .layers_per_stage = uneven_layers(scenario, space, degrees.pp)};
}

std::vector<ParallelConfig> enumerate_variants(const Scenario& scenario, const SearchSpace& space,
                                               const ParallelConfig& degrees) {
  const Variants variants(scenario, space, degrees);
  std::vector<ParallelConfig> result;
  for (const std::int64_t vpp : variants.chunks()) {
    std::ranges::move(variants.with_chunks(vpp), std::back_inserter(result));
  }
  return result;
}

Variants::Variants(const Scenario& scenario, const SearchSpace& space, ParallelConfig degrees)
    : scenario_(scenario),
      space_(space),
      degrees_(std::move(degrees)),
      chunks_(space.vpp.values(degrees_.pp == 1 ? 1 : most_chunks(scenario, degrees_.pp))),
      schedules_(schedules_of(scenario, space)),
      recomputes_(recomputations(scenario.stack.can_run, space)),
      experts_(expert_splits(scenario, space, degrees_.tp)),
      sequences_(sequence_parallel_choices(scenario, space, degrees_.tp)) {
  degrees_.layers_per_stage.clear();  // set for each number of chunks
  add_placements(scenario, space, degrees_, placements_);
}

std::vector<ParallelConfig> Variants::interleavings(std::int64_t vpp) const {
  std::vector<ParallelConfig> result;
  ParallelConfig config = degrees_;
  config.vpp = static_cast<int>(vpp);
  config.layers_per_stage = uneven_layers(scenario_, space_, config.pp * config.vpp);
  for (const ScheduleKind schedule : schedules_) {
    const bool is_usual =
        schedule == ScheduleKind::kOneFOneB || schedule == ScheduleKind::kInterleaved;
    if (has_chunks(schedule, vpp) && (config.pp > 1 || is_usual)) {
      config.schedule = schedule;
      for (const std::optional<int> limit : memory_limits(space_, config)) {
        config.memory_limit = limit;
        result.push_back(config);
      }
    }
  }
  return result;
}

std::vector<ParallelConfig> Variants::with_chunks(std::int64_t vpp) const {
  const std::vector<ParallelConfig> chunks = interleavings(vpp);
  std::vector<ParallelConfig> result;
  result.reserve(chunks.size() * recomputes_.size() * sequences_.size() * experts_.size() *
                 placements_.size());
  for (const ParallelConfig& interleaving : chunks) {
    for (const Recompute recompute : recomputes_) {
      for (const bool is_sequence_parallel : sequences_) {
        for (const auto& [ep, etp] : experts_) {
          ParallelConfig config = interleaving;
          set_recomputation(config, recompute, scenario_.stack.can_run, space_);
          config.sequence_parallel = is_sequence_parallel;
          config.ep = ep;
          config.etp = etp;
          for (const ParallelConfig& placement : placements_) {
            place_as(config, placement);
            result.push_back(config);
          }
        }
      }
    }
  }
  return result;
}

std::vector<Replicas> enumerate_replicas(const Scenario& scenario, std::int64_t gpus,
                                         const SearchSpace& space) {
  const std::int64_t batch = scenario.job.global_batch_size;
  std::vector<Replicas> result;
  for (const std::int64_t dp : divisors_in(batch, space.dp)) {
    if (dp > gpus) {
      break;
    }
    Replicas& replicas = result.emplace_back(Replicas{.dp = static_cast<int>(dp)});
    const std::int64_t batch_per_replica = std::max<std::int64_t>(batch / dp, 1);
    for (const std::int64_t size : divisors_in(batch_per_replica, space.micro_batch_size)) {
      replicas.micro_batch_sizes.push_back(static_cast<int>(size));
    }
  }
  return result;
}

bool is_candidate(const Scenario& scenario, const ParallelConfig& config, std::int64_t gpus,
                  const SearchSpace& space) {
  const std::vector<int>& stages = scenario.stack.can_run.zero_stages;
  const bool can_leave_whole = space.zero_stage.is_any() && contains(stages, 0);
  return config.world_size() <= gpus && is_candidate_of_replicas(scenario, config, space) &&
         (config.zero_stage == 0 || !can_leave_whole || has_replicas(scenario.job.model, config));
}

}  // namespace ptdp
