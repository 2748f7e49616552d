// The schedules that ptdp can make, by name.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cost_model/schedule/generators/ticks.h"
#include "cost_model/schedule/schedule.h"

namespace ptdp {

/// What a schedule is made for. All sizes are positive. What follows the group size is for zb-auto
/// alone: the others do not depend on durations and refuse a limit.
struct ScheduleShape {
  int pp = 1;                     ///< Ranks of the pipeline.
  int vpp = 1;                    ///< Virtual stages per rank.
  int num_microbatches = 1;       ///< Per iteration and replica.
  int microbatch_group_size = 0;  ///< Interleaved only; 0: default_microbatch_group_size.

  std::vector<StageTicks> ticks = {};  ///< By virtual stage; one stands for all; empty: 1 each.
  int message_ticks = 0;               ///< From the end of an action to its result on another rank.
  std::optional<int> memory_limit = {};  ///< Activations of a stage that a rank may hold; else pp.
  bool shortens_spans = false;  ///< Least in-span time of any rank counts before the makespan.

  friend bool operator==(const ScheduleShape&, const ScheduleShape&) = default;
};

/// Why a schedule does not exist for a shape: which of its sizes is at fault, and what it should
/// be.
struct ShapeConflict {
  std::string_view size;  ///< "pp", "vpp", "microbatches", "microbatch-group-size",
                          ///< "memory-limit" or "durations".
  int found = 0;
  std::string expected;

  friend bool operator==(const ShapeConflict&, const ShapeConflict&) = default;
};

/// 1: what synchronous training keeps.
[[nodiscard]] int one_weight_version(const ScheduleShape& shape, int rank);

/// A row of the table. To add a schedule: its generator in a file of its own, declared below, and a
/// row in generators.cpp; the tests of all schedules then run over it.
struct ScheduleGenerator {
  std::string_view name;   ///< As flags and files spell it.
  std::string_view paper;  ///< Where it was published.
  /// What the schedule does not exist for; nothing where `generate` may be called.
  std::optional<ShapeConflict> (*find_conflict)(const ScheduleShape& shape);
  Schedule (*generate)(const ScheduleShape& shape);
  /// Activations that a rank holds at its worst, in virtual stages of one microbatch.
  int (*peak_activations)(const ScheduleShape& shape, int rank);
  /// The makespan less the work of a rank, or what is known of it: p ranks, m microbatches; F, I, W
  /// and B = I + W of one stage, F&B of a pair.
  std::string_view bubble;
  /// False where the optimizer runs without a flush, so that gradients are of older weights:
  /// another method of training, simulated and costed, chosen only when asked for and never
  /// executed.
  bool is_synchronous = true;
  /// Versions of its weights that a rank keeps.
  int (*weight_versions)(const ScheduleShape& shape, int rank) = one_weight_version;
};

/// All schedules, in the order in which they are shown.
[[nodiscard]] std::span<const ScheduleGenerator> schedule_generators();
/// The names of these.
[[nodiscard]] std::vector<std::string> schedule_names();
/// The row of that name, or null.
[[nodiscard]] const ScheduleGenerator* find_schedule_generator(std::string_view name);

/// All forward passes, then all backward passes, both in the order of microbatches. One stage per
/// rank. Bubble (p − 1)(F + B); every rank holds all m microbatches. Source: Huang et al., GPipe,
/// NeurIPS 2019 (arXiv:1811.06965).
[[nodiscard]] Schedule gpipe(const ScheduleShape& shape);

/// Rank r warms up with p − 1 − r forward passes (all, where there are fewer microbatches), then
/// alternates. One stage per rank. Bubble (p − 1)(F + B); rank r holds min(m, p − r) microbatches.
/// Source: Narayanan et al., Memory-Efficient Pipeline-Parallel DNN Training (arXiv:2006.09503), as
/// PipeDream-Flush; SC21 (arXiv:2104.04473) section 2.2.1.
[[nodiscard]] Schedule one_f_one_b(const ScheduleShape& shape);

/// PipeDream: the order of 1F1B, repeated without a flush: every microbatch's gradient is applied
/// at once, and rank r keeps the weights of the min(m, p − r) microbatches that are under way, so
/// that both passes of one see the same. No bubble once the pipeline is full; a schedule is m
/// microbatches from a cold start. Source: Harlap et al., PipeDream (arXiv:1806.03377), section 3.
[[nodiscard]] Schedule pipedream(const ScheduleShape& shape);

/// PipeDream-2BW: likewise, but gradients of m ≥ p microbatches are applied together, so that two
/// versions of the weights do (one on a single rank). Source: arXiv:2006.09503, section 3.
[[nodiscard]] Schedule pipedream_2bw(const ScheduleShape& shape);

/// 1F1B over v ≥ 2 stages per rank: microbatches in groups of N, of which each runs through all
/// stages of the rank before the next; the last group may be smaller. Rank r warms up with
/// (v − 1)N + 2(p − 1 − r) forward passes. Bubble (p − 1)(F + B) of one stage where N = p; rank r
/// holds min(mv, (v − 1)N + 2(p − 1 − r) + 1). N ≥ p, N ≤ m, and m mod N is 0 or at least p; where
/// m < p, N = m. Source: SC21 section 2.2.2; Megatron-LM core/pipeline_parallel/schedules.py,
/// get_schedule_table and microbatch_group_size_per_vp_stage.
[[nodiscard]] Schedule interleaved(const ScheduleShape& shape);

/// The smallest group of `interleaved` for p ranks and m microbatches: p where it divides m, else
/// what torch.distributed.pipelining takes where it takes any (m over the whole groups of p in it).
[[nodiscard]] int default_microbatch_group_size(int pp, int num_microbatches);

/// Stage by stage: all microbatches forward through one, then the next; backward in the opposite
/// order of stages and microbatches. Bubble as interleaved, (p − 1)(F + B) of one stage; every rank
/// holds all m·v. Source: Lamy-Poirier, Breadth-First Pipeline Parallelism, MLSys 2023
/// (arXiv:2211.05953); LoopedBFS of torch.distributed.pipelining.
[[nodiscard]] Schedule looped_bfs(const ScheduleShape& shape);

}  // namespace ptdp
