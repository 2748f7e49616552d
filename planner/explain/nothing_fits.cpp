// Says why nothing fits: contradictions, violated constraints, and numbers of GPUs that would do.
#include "planner/explain/nothing_fits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cost_model/contains.h"
#include "cost_model/layer/context_parallel.h"
#include "cost_model/text/plural.h"
#include "planner/formatting.h"

namespace ptdp {
namespace {

constexpr std::size_t kMostValues = 24;
constexpr std::int64_t kMostGpusToTry = 1 << 24;        // more than any cluster has
constexpr std::int64_t kMostCandidatesToTry = 200'000;  // tens of milliseconds

std::string join(const std::vector<std::int64_t>& values) {
  std::string text;
  for (std::size_t i = 0; i < std::min(values.size(), kMostValues); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(values[i]);
  }
  return values.size() > kMostValues ? text + ", ..." : text;
}

/// Returns the batch nearest to the scenario's that a pinned dp and a pinned microbatch size
/// divide.
std::int64_t nearest_batch_size(const Scenario& scenario, const SearchSpace& space) {
  const auto pinned = [](const IntegerRanges& pin) {
    return pin.numbers().empty() ? std::vector<std::int64_t>{1} : pin.numbers();
  };
  const std::int64_t batch = scenario.job.global_batch_size;
  std::int64_t nearest = 0;
  for (const std::int64_t dp : pinned(space.dp)) {
    for (const std::int64_t size : pinned(space.micro_batch_size)) {
      const std::int64_t step = dp * size;
      for (const std::int64_t multiple : {batch / step * step, batch / step * step + step}) {
        if (multiple > 0 &&
            (nearest == 0 || std::abs(multiple - batch) < std::abs(nearest - batch))) {
          nearest = multiple;
        }
      }
    }
  }
  return nearest;
}

/// Returns the values of dp·micro_batch_size that divide the batch. When pins stand in the way,
/// adds the nearest batch that they would divide.
std::string batches(const Scenario& scenario, const SearchSpace& space) {
  const std::int64_t batch = scenario.job.global_batch_size;
  const std::int64_t nearest = nearest_batch_size(scenario, space);
  return fmt::format("dp * micro_batch_size can be {}", join(divisors(batch))) +
         (nearest == batch ? "" : fmt::format("; the nearest batch that would do is {}", nearest));
}

/// Returns what a stack can run: "1f1b, recompute none or full, ZeRO 0, no sequence parallelism".
std::string capabilities(const StackCapabilities& can_run) {
  const auto one_of = [](const auto& values, const auto& name) {
    std::string text;
    for (const auto& value : values) {
      text += (text.empty() ? "" : " or ") + std::string(name(value));
    }
    return text;
  };
  return (can_run.schedules.empty()
              ? "no pipeline"
              : one_of(can_run.schedules,
                       [](ScheduleKind schedule) { return name_of(schedule); })) +
         ", recompute " +
         one_of(can_run.recompute, [](Recompute recompute) { return name_of(recompute); }) +
         (can_run.recompute_modules == kCoreAttentionAlone
              ? ""
              : " of " + to_string(can_run.recompute_modules)) +
         (can_run.recompute_methods.empty()
              ? ""
              : " by " + one_of(can_run.recompute_methods,
                                [](RecomputeMethod method) { return name_of(method); })) +
         ", ZeRO " + one_of(can_run.zero_stages, [](int stage) { return std::to_string(stage); }) +
         ", ranks as " + std::string(name_of(RankOrder{})) +
         (can_run.rank_orders.empty() ? "" : " or ") +
         one_of(can_run.rank_orders, [](RankOrder order) { return name_of(order); }) +
         (can_run.offload.empty() ? ", no offload" : ", offload ") +
         one_of(can_run.offload, [](Offload offload) { return name_of(offload); }) +
         (can_run.tensor_parallel ? "" : ", no tensor parallelism") +
         (can_run.sequence_parallel ? ", sequence parallelism" : ", no sequence parallelism") +
         (can_run.expert_parallel ? ", experts" : ", no experts") +
         (can_run.context_parallel ? ", context parallelism" : ", no context parallelism") +
         (can_run.hybrid_sharding       ? ", dp_replicate"
          : can_run.optimizer_instances ? ", dp_replicate with ZeRO 1"
                                        : ", no dp_replicate") +
         (!contains(can_run.zero_stages, 3) ? ""
          : can_run.kept_weights            ? ", reshard_after_forward on or off"
                                            : ", reshard_after_forward on");
}

/// Returns the sizes of groups that can share a sequence (cp), apart from what heads allow.
std::vector<std::int64_t> context_sizes(const TransformerConfig& model) {
  std::vector<std::int64_t> sizes = divisors(model.seq_length);
  std::erase_if(sizes, [&](std::int64_t cp) {
    return !divides_sequence(model, {.cp = static_cast<int>(cp)});
  });
  return sizes;
}

/// Returns why no configuration can match the pins, whatever the model; empty if some can.
std::string contradiction(const SearchOptions& options) {
  const SearchSpace& space = options.space;
  if (!space.schedules.empty() && !space.allow_stale_weights &&
      std::ranges::none_of(space.schedules, [](ScheduleKind schedule) {
        return traits_of(schedule).is_synchronous;
      })) {
    return fmt::format("{} changes what the optimizer does: it takes --allow-stale-weights as well",
                       name_of(space.schedules.front()));
  }
  const bool wants_interleaving =
      space.schedules == std::vector<ScheduleKind>{ScheduleKind::kInterleaved};
  const bool wants_one_chunk =
      space.schedules == std::vector<ScheduleKind>{ScheduleKind::kOneFOneB};
  if ((wants_one_chunk && !space.vpp.contains(1)) ||
      (wants_interleaving && space.vpp == IntegerRanges(1))) {
    return "schedule and vpp contradict each other: 1f1b has vpp=1, interleaved more";
  }
  if (wants_interleaving && space.pp == IntegerRanges(1)) {
    return "schedule interleaved and pp=1 contradict each other: there is nothing to interleave";
  }
  if (space.sequence_parallel.value_or(false) && space.tp == IntegerRanges(1)) {
    return "sequence parallelism and tp=1 contradict each other: it splits activations over tp";
  }
  const std::int64_t tp = space.tp.smallest();
  const std::int64_t pp = space.pp.smallest();
  const std::int64_t dp = space.dp.smallest();
  const std::int64_t cp = space.cp.smallest();
  if (tp > options.gpus / pp / dp / cp) {
    return fmt::format("tp={} pp={} dp={}{}, the smallest asked for, need more than {}", tp, pp, dp,
                       cp > 1 ? fmt::format(" cp={}", cp) : "", plural(options.gpus, "GPU"));
  }
  return "";
}

/// Returns the values of tp by which key heads can be divided, or shared where the stack runs so.
std::vector<std::int64_t> key_head_sizes(const Scenario& scenario) {
  std::vector<std::int64_t> sizes = divisors(scenario.job.model.num_attention_heads);
  std::erase_if(
      sizes, [&](std::int64_t tp) { return !divides_key_heads(scenario, static_cast<int>(tp)); });
  return sizes;
}

/// Returns a text with the nearest values that do not violate the constraint.
std::string nearest_feasible(Constraint constraint, const Scenario& scenario,
                             const SearchOptions& options, const SearchResult& result) {
  const TransformerConfig& model = scenario.job.model;
  switch (constraint) {
    case Constraint::kHeadsByTp:
      return fmt::format("tp can be {}", join(divisors(model.num_attention_heads)));
    case Constraint::kFfnByTp:
      return model.moe_shared_expert_intermediate_size == 0
                 ? fmt::format("tp must divide {}", model.ffn_hidden_size)
                 : fmt::format("tp must divide {} and {}", model.ffn_hidden_size,
                               model.moe_shared_expert_intermediate_size);
    case Constraint::kGroupsByTp:
      return fmt::format("tp can be {}", join(key_head_sizes(scenario)));
    case Constraint::kLayersByPp:
    case Constraint::kLayersByPpVpp:
      return fmt::format("{} can be {}", constraint == Constraint::kLayersByPp ? "pp" : "pp * vpp",
                         join(divisors(model.num_layers)));
    case Constraint::kOffloadedActivations:
      return "pp must be 1, recompute none and offload_num_layers below the model's layers where "
             "activations are offloaded";
    case Constraint::kOffloadedOptimizer:
      return "zero_stage must be at least 1 where the optimizer is offloaded";
    case Constraint::kHostMemory:
      return scenario.cluster.host.has_value()
                 ? fmt::format("a GPU's share of its host is {:.0f} GiB",
                               scenario.cluster.host->memory.value() / kGibi)
                 : fmt::format("cluster {} says nothing about its hosts: add a \"host\" to it",
                               scenario.cluster.name);
    case Constraint::kExpertsByRankOrder:
      return "ep * etp must be tp * cp, or the order of ranks tp-cp-ep-dp-pp";
    case Constraint::kSequenceByCp:
      return fmt::format("cp can be {}", join(context_sizes(model)));
    case Constraint::kHeadsByTpCp:
      return model.num_query_groups == model.num_attention_heads
                 ? fmt::format("tp * cp must divide {}", model.num_attention_heads)
                 : fmt::format("tp * cp must divide {}, and cp {} / tp or the other way round",
                               model.num_attention_heads, model.num_query_groups);
    case Constraint::kLayersPerStage:
      return fmt::format("the numbers must add up to {}", model.num_layers);
    case Constraint::kDpBeyondBatch:
    case Constraint::kBatchByDp:
      return batches(scenario, options.space);
    case Constraint::kNotRunByStack:
      return "stack " + scenario.stack.name + " runs " + capabilities(scenario.stack.can_run) +
             (has_delayed_scaling(scenario.stack)
                  ? ", with fp8-delayed neither moe_act nor layernorm"
                  : "") +
             (scenario.stack.memory_model == MemoryModel::kPtdp && model.qk_layernorm &&
                      model.qk_layernorm_width == QkNormWidth::kAllHeads &&
                      model.normalization == Normalization::kLayerNorm
                  ? ", layer norms over all heads with tp 1"
                  : "") +
             (has_relative_positions(model) ? ", relative positions with cp 1" : "");
    case Constraint::kNotExportable:
      return "";
    case Constraint::kSequenceByTp:
      return options.space.cp.is_any() && !scenario.stack.can_run.context_parallel
                 ? fmt::format("tp must divide {}", model.seq_length)
                 : fmt::format("tp * cp must divide {}", model.seq_length);
    case Constraint::kReplicasOfShards:
      return "both need --zero-stage 3; dp_replicate can also go with 1 or 2";
    case Constraint::kDpByReplicas:
      return "dp_replicate must divide dp";
    case Constraint::kExpertsByEp:
      return model.num_experts == 0
                 ? "the model has no experts"
                 : fmt::format("ep can be {}", join(divisors(model.num_experts)));
    case Constraint::kExpertFfnByEtp:
      return fmt::format("etp must divide {}", model.moe_ffn_hidden_size);
    case Constraint::kExpertsWholeSequences:
      return "tp must be 1, or --sequence-parallel on";
    case Constraint::kRanksByExperts:
      return "ep * etp must divide tp * cp * dp / dp_replicate";
    case Constraint::kInterleavedMinStages:
      return fmt::format("it needs pp >= {}", scenario.stack.can_run.interleaved_min_stages);
    case Constraint::kScheduleByPp:
      return "dualpipe needs an even pp";
    case Constraint::kRecomputedLayers:
      return "a virtual stage has num_layers / (pp * vpp) layers";
    case Constraint::kScheduleByMicrobatches:
      return "batch / (dp * micro_batch_size) must be at least 2 pp, and even for dualpipe";
    case Constraint::kScheduleTooLong:
      return "a pipeline of fewer stages has a shorter schedule";
    case Constraint::kMicrobatchesByPp:
      return "batch / (dp * micro_batch_size) must be a multiple of pp";
    case Constraint::kMemoryFirstStage:
    case Constraint::kMemoryLastStage:
    case Constraint::kMemoryMiddleStage:
      return result.shortfall ? to_string(result.shortfall->config) + " comes closest, " +
                                    binary_size(result.shortfall->missing) + " short"
                              : "";
  }
  return "";
}

}  // namespace

std::string why_nothing_fits(const Scenario& scenario, const SearchOptions& options,
                             const SearchResult& result) {
  const std::string contradicted = contradiction(options);
  if (!contradicted.empty()) {
    return "  " + contradicted + "\n";
  }
  if (result.enumerated == 0) {
    return fmt::format("  no sizes asked for suit a model of {} and {}\n",
                       plural(scenario.job.model.num_layers, "layer"),
                       plural(scenario.job.model.num_attention_heads, "head"));
  }
  std::vector<std::pair<Constraint, std::int64_t>> violated(result.violations.begin(),
                                                            result.violations.end());
  std::stable_sort(violated.begin(), violated.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  for (const auto& [constraint, count] : violated) {
    const std::string nearest = nearest_feasible(constraint, scenario, options, result);
    text += fmt::format("  {}: {}{}{}\n", text_of(constraint).description,
                        plural(count, "candidate"), nearest.empty() ? "" : "; ", nearest);
  }
  return text;
}

std::string why_not(const Scenario& scenario, const ParallelConfig& config, Constraint constraint,
                    const std::optional<MemoryShortfall>& shortfall) {
  const std::string what(text_of(constraint).description);
  if (shortfall) {
    return what + "; " + binary_size(shortfall->missing) + " short";
  }
  SearchOptions options{.gpus = config.world_size()};
  options.space.dp = IntegerRanges(config.dp);
  options.space.micro_batch_size = IntegerRanges(config.micro_batch_size);
  options.space.cp = IntegerRanges(config.cp);
  return what + "; " + nearest_feasible(constraint, scenario, options, SearchResult{});
}

std::optional<LargerCluster> gpus_that_would_do(const Scenario& scenario, SearchOptions options) {
  const std::int64_t cluster_size = scenario.cluster.max_gpus();
  const std::int64_t most = cluster_size > 0 ? cluster_size : kMostGpusToTry;
  options = options.for_best_alone();
  std::int64_t enumerated = 0;
  while (options.gpus <= most / 2 && enumerated < kMostCandidatesToTry &&
         !options.limit.is_over()) {
    options.gpus *= 2;
    const SearchResult result = search(scenario, options);
    if (!result.best.empty()) {
      return LargerCluster{.gpus = options.gpus, .config = result.best.front().config};
    }
    enumerated += result.enumerated;
  }
  return std::nullopt;
}

}  // namespace ptdp
