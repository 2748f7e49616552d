// The schedules that ptdp can make: one table says what each is, and how it is made.
#pragma once

#include <algorithm>
#include <array>
#include <climits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost_model/schedule/generators/ticks.h"
#include "cost_model/schedule/generators/zero_bubble.h"
#include "cost_model/schedule/schedule.h"
#include "cost_model/text/named_values.h"

namespace ptdp {

/// How microbatches take turns on the stages of a pipeline: kSchedules says what each is.
/// Configurations that are equal but for their schedule are in this order.
enum class ScheduleKind {
  kOneFOneB,
  kInterleaved,
  kGPipe,
  kLoopedBfs,
  kZbH1,
  kZbH2,
  kZbV,
  kVHalf,
  kVMin,
  kDualPipe,
  kDualPipeV,
  kPipeDream,
  kPipeDream2Bw,
  kZbAuto
};
inline constexpr int kNumScheduleKinds = 14;

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

/// The conflict of a shape with groups of microbatches or a limit.
[[nodiscard]] std::optional<ShapeConflict> find_group_conflict(const ScheduleShape& shape);
/// The conflict of a shape that has other than one virtual stage per rank, groups or a limit.
[[nodiscard]] std::optional<ShapeConflict> needs_one_stage(const ScheduleShape& shape);
/// The conflict of a shape that has other than two virtual stages per rank, groups or a limit.
[[nodiscard]] std::optional<ShapeConflict> needs_two_stages(const ScheduleShape& shape);
/// DualPipe needs an even number of ranks and of microbatches, and two fillings of the pipeline.
[[nodiscard]] std::optional<ShapeConflict> find_dualpipe_conflict(const ScheduleShape& shape);
/// DualPipeV needs two virtual stages per rank, and two fillings of the pipeline.
[[nodiscard]] std::optional<ShapeConflict> find_dualpipev_conflict(const ScheduleShape& shape);
/// Interleaving needs two virtual stages per rank, and groups of a size that `interleaved` takes.
[[nodiscard]] std::optional<ShapeConflict> find_interleaved_conflict(const ScheduleShape& shape);
/// PipeDream-2BW needs as many microbatches as ranks.
[[nodiscard]] std::optional<ShapeConflict> find_pipedream_2bw_conflict(const ScheduleShape& shape);
/// A searched schedule needs a limit of at least one microbatch, and durations in whole ticks.
[[nodiscard]] std::optional<ShapeConflict> find_zb_auto_conflict(const ScheduleShape& shape);

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

/// A zero-bubble schedule that is searched for shape.ticks within shape.memory_limit: ZB_AUTO.md.
[[nodiscard]] Schedule zb_auto_of_shape(const ScheduleShape& shape);

/// A schedule of ranks and microbatches alone, for the table.
template <Schedule (*generate)(int pp, int num_microbatches)>
Schedule of_shape(const ScheduleShape& shape) {
  return generate(shape.pp, shape.num_microbatches);
}
/// `activations` of virtual stages, but no more than a rank has in an iteration.
[[nodiscard]] constexpr int at_most_all(std::int64_t activations, const ScheduleShape& shape) {
  return static_cast<int>(std::min(activations, std::int64_t{shape.num_microbatches} * shape.vpp));
}
/// Every activation of an iteration, on any rank.
[[nodiscard]] constexpr int all_activations(const ScheduleShape& shape, int /*rank*/) {
  return at_most_all(INT_MAX, shape);
}
/// `one_f_one_b` keeps a microbatch for each rank from this one to the last.
[[nodiscard]] constexpr int one_f_one_b_activations(const ScheduleShape& shape, int rank) {
  return at_most_all(shape.pp - rank, shape);
}
/// `interleaved` keeps a rank's warm-up and one more.
[[nodiscard]] int interleaved_activations(const ScheduleShape& shape, int rank);

inline constexpr int kAnyNumber = INT_MAX;

/// What a schedule is. To add one: an enumerator, its generator in a file of its own, declared
/// above, and a row of kSchedules; the tests of all schedules then run over it.
struct ScheduleTraits {
  ScheduleKind kind;
  std::string_view name;   ///< As flags and files spell it.
  std::string_view paper;  ///< Where it was published.
  /// The makespan less the work of a rank, or what is known of it: p ranks, m microbatches; F, I, W
  /// and B = I + W of one stage, F&B of a pair.
  std::string_view bubble;
  StagePlacement placement = StagePlacement::kLooped;  ///< Which virtual stages lie on which rank.
  int fewest_chunks = 1;  ///< Virtual stages per rank for which it exists.
  int most_chunks = 1;
  bool splits_backward = false;  ///< Weight gradients are put off, apart from input gradients.
  bool has_groups = false;       ///< Chunks take turns with groups of microbatches.
  bool is_searched = false;      ///< It is made for durations and a limit of memory.
  /// Microbatches that one chunk of the first rank holds, in multiples of p, where memory is
  /// counted by SC21's closed form; 0: by peak_activations, and a chunk may hold all.
  int pipelines_held = 0;
  /// False where the optimizer runs without a flush, so that gradients are of older weights:
  /// another method of training, simulated and costed, chosen only when asked for and never
  /// executed.
  bool is_synchronous = true;
  bool applies_every_microbatch = false;  ///< No gradient is added to another.
  /// What the schedule does not exist for; nothing where `generate` may be called.
  std::optional<ShapeConflict> (*find_conflict)(const ScheduleShape& shape) = needs_one_stage;
  Schedule (*generate)(const ScheduleShape& shape);
  /// Activations that a rank holds at its worst, in virtual stages of one microbatch.
  int (*peak_activations)(const ScheduleShape& shape, int rank);
  /// Versions of its weights that a rank keeps.
  int (*weight_versions)(const ScheduleShape& shape, int rank) = [](const ScheduleShape&, int) {
    return 1;
  };
};

/// All schedules, in the order in which they are shown.
inline constexpr std::array<ScheduleTraits, kNumScheduleKinds> kSchedules = {{
    {.kind = ScheduleKind::kGPipe,
     .name = "gpipe",
     .paper = "arXiv:1811.06965",
     .bubble = "(p-1)(F+B)",
     .generate = gpipe,
     .peak_activations = all_activations},
    {.kind = ScheduleKind::kOneFOneB,
     .name = "1f1b",
     .paper = "arXiv:2006.09503",
     .bubble = "(p-1)(F+B)",
     .pipelines_held = 1,
     .generate = one_f_one_b,
     .peak_activations = one_f_one_b_activations},
    {.kind = ScheduleKind::kInterleaved,
     .name = "interleaved",
     .paper = "arXiv:2104.04473",
     .bubble = "(p-1)(F+B) with groups of p microbatches",
     .fewest_chunks = 2,
     .most_chunks = kAnyNumber,
     .has_groups = true,
     .pipelines_held = 2,
     .find_conflict = find_interleaved_conflict,
     .generate = interleaved,
     .peak_activations = interleaved_activations},
    {.kind = ScheduleKind::kLoopedBfs,
     .name = "looped-bfs",
     .paper = "arXiv:2211.05953",
     .bubble = "(p-1)(F+B)",
     .most_chunks = kAnyNumber,
     .find_conflict = find_group_conflict,
     .generate = looped_bfs,
     .peak_activations = all_activations},
    {.kind = ScheduleKind::kZbH1,
     .name = "zb-h1",
     .paper = "arXiv:2401.10241",
     .bubble = "(p-1)(F+I-W) for m >= p, W <= F and W <= I",
     .splits_backward = true,
     .generate = of_shape<zb_h1>,
     .peak_activations = [](const ScheduleShape& shape,
                            int) { return at_most_all(shape.pp, shape); }},
    {.kind = ScheduleKind::kZbH2,
     .name = "zb-h2",
     .paper = "arXiv:2401.10241",
     .bubble = "(p-1)F at F = I = W and m >= 2p-1",
     .splits_backward = true,
     .generate = of_shape<zb_h2>,
     .peak_activations = [](const ScheduleShape& shape,
                            int) { return at_most_all(std::int64_t{2} * shape.pp - 1, shape); }},
    {.kind = ScheduleKind::kZbV,
     .name = "zb-v",
     .paper = "arXiv:2401.10241",
     .bubble = "(p-1)F at F = I = W and m >= 2p-1",
     .placement = StagePlacement::kV,
     .fewest_chunks = 2,
     .most_chunks = 2,
     .splits_backward = true,
     .find_conflict = needs_two_stages,
     .generate = of_shape<zb_v>,
     .peak_activations = [](const ScheduleShape& shape,
                            int) { return at_most_all(std::int64_t{2} * shape.pp, shape); }},
    {.kind = ScheduleKind::kVHalf,
     .name = "v-half",
     .paper = "arXiv:2405.15362",
     .bubble = "(3p-7)F for even p >= 4, (3p-4)F for odd p, at F = I = W and m >= 3p",
     .placement = StagePlacement::kV,
     .fewest_chunks = 2,
     .most_chunks = 2,
     .splits_backward = true,
     .find_conflict = needs_two_stages,
     .generate = of_shape<v_half>,
     .peak_activations =
         [](const ScheduleShape& shape, int) {
           return at_most_all(2 * ((shape.pp + std::int64_t{2}) / 2), shape);
         }},
    {.kind = ScheduleKind::kVMin,
     .name = "v-min",
     .paper = "arXiv:2405.15362",
     .bubble = "(4p-5)F for p = 1 mod 3, else (4p-7)F, at F = I = W and m >= 3p",
     .placement = StagePlacement::kV,
     .fewest_chunks = 2,
     .most_chunks = 2,
     .splits_backward = true,
     .find_conflict = needs_two_stages,
     .generate = of_shape<v_min>,
     .peak_activations =
         [](const ScheduleShape& shape, int) {
           return at_most_all(2 * ((shape.pp + std::int64_t{4}) / 3), shape);
         }},
    {.kind = ScheduleKind::kZbAuto,
     .name = "zb-auto",
     .paper = "arXiv:2401.10241",
     .bubble = "searched: at most that of zb-h1 and zb-h2 within the memory limit",
     .splits_backward = true,
     .is_searched = true,
     .find_conflict = find_zb_auto_conflict,
     .generate = zb_auto_of_shape,
     .peak_activations =
         [](const ScheduleShape& shape, int) {
           return at_most_all(shape.memory_limit.value_or(shape.pp), shape);
         }},
    {.kind = ScheduleKind::kDualPipe,
     .name = "dualpipe",
     .paper = "arXiv:2412.19437",
     .bubble = "(p/2-1)(F&B+B-3W) at F = I = W",
     .placement = StagePlacement::kBidirectional,
     .splits_backward = true,
     .find_conflict = find_dualpipe_conflict,
     .generate = of_shape<dualpipe>,
     .peak_activations = [](const ScheduleShape& shape,
                            int) { return at_most_all(shape.pp + std::int64_t{1}, shape); }},
    {.kind = ScheduleKind::kDualPipeV,
     .name = "dualpipev",
     .paper = "arXiv:2412.19437",
     .bubble = "(p-1)(F&B+B-3W) at F = I = W",
     .placement = StagePlacement::kV,
     .fewest_chunks = 2,
     .most_chunks = 2,
     .splits_backward = true,
     .find_conflict = find_dualpipev_conflict,
     .generate = of_shape<dualpipev>,
     .peak_activations = [](const ScheduleShape& shape,
                            int) { return at_most_all(std::int64_t{2} * shape.pp + 1, shape); }},
    {.kind = ScheduleKind::kPipeDream,
     .name = "pipedream",
     .paper = "arXiv:1806.03377",
     .bubble = "0 in steady state; (p-1)(F+B) once, from a cold start",
     .is_synchronous = false,
     .applies_every_microbatch = true,
     .generate = pipedream,
     .peak_activations = one_f_one_b_activations,
     .weight_versions = one_f_one_b_activations},
    {.kind = ScheduleKind::kPipeDream2Bw,
     .name = "pipedream-2bw",
     .paper = "arXiv:2006.09503",
     .bubble = "0 in steady state; (p-1)(F+B) once, from a cold start",
     .is_synchronous = false,
     .find_conflict = find_pipedream_2bw_conflict,
     .generate = pipedream_2bw,
     .peak_activations = one_f_one_b_activations,
     .weight_versions = [](const ScheduleShape& shape, int) { return shape.pp == 1 ? 1 : 2; }},
}};

/// The row of a kind.
[[nodiscard]] constexpr const ScheduleTraits& traits_of(ScheduleKind kind) {
  constexpr auto row_of_kind = [] {
    std::array<std::size_t, kNumScheduleKinds> rows = {};
    for (std::size_t row = 0; row < kSchedules.size(); ++row) {
      rows[static_cast<std::size_t>(kSchedules[row].kind)] = row;
    }
    return rows;
  }();
  return kSchedules[row_of_kind[static_cast<std::size_t>(kind)]];
}

/// A schedule of the kind whose ranks do nothing yet; of as many of the shape's chunks as it has.
[[nodiscard]] Schedule without_actions(ScheduleKind kind, const ScheduleShape& shape);

/// The row of that name, or null.
[[nodiscard]] const ScheduleTraits* find_schedule(std::string_view name);
/// The names, in the order in which schedules are shown.
[[nodiscard]] std::vector<std::string> schedule_names();

/// The names, in the order of the enumerators.
inline constexpr auto kScheduleNames = [] {
  std::array<NamedValue<ScheduleKind>, kNumScheduleKinds> names = {};
  for (const ScheduleTraits& schedule : kSchedules) {
    names[static_cast<std::size_t>(schedule.kind)] = {schedule.kind, schedule.name};
  }
  return names;
}();
[[nodiscard]] constexpr std::string_view name_of(ScheduleKind schedule) {
  return traits_of(schedule).name;
}

/// Whether it exists with so many virtual stages per rank, for some number of stages.
[[nodiscard]] constexpr bool has_chunks(ScheduleKind schedule, std::int64_t vpp) {
  return vpp >= traits_of(schedule).fewest_chunks && vpp <= traits_of(schedule).most_chunks;
}

}  // namespace ptdp
