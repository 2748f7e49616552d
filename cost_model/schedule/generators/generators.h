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

/// How microbatches take turns on the stages of a pipeline: kSchedules says what each kind is.
/// Searches list configurations that are equal but for their schedule in this order.
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

/// What a schedule is made for. All sizes are positive. Only zb-auto uses the members behind the
/// group size: other schedules do not depend on durations and refuse a limit.
struct ScheduleShape {
  int pp = 1;                ///< Ranks of the pipeline.
  int vpp = 1;               ///< Virtual stages per rank.
  int num_microbatches = 1;  ///< Microbatches per iteration and replica.
  /// Microbatches per group, for interleaved only; 0: default_microbatch_group_size.
  int microbatch_group_size = 0;

  /// Durations by virtual stage; one stands for all; empty: 1 tick each.
  std::vector<StageTicks> ticks = {};
  int message_ticks = 0;  ///< Ticks from the end of an action until its result is on another rank.
  /// Activations of a stage that a rank may hold; pp by default.
  std::optional<int> memory_limit = {};
  /// Whether the longest in-span time of a rank counts before the makespan.
  bool shortens_spans = false;

  friend bool operator==(const ScheduleShape&, const ScheduleShape&) = default;
};

/// Why a schedule does not exist for a shape: which size is at fault, and what it should be.
struct ShapeConflict {
  /// The size at fault: "pp", "vpp", "microbatches", "microbatch-group-size", "memory-limit" or
  /// "durations".
  std::string_view size;
  /// The value of that size.
  int found = 0;
  /// What that size should be.
  std::string expected;

  friend bool operator==(const ShapeConflict&, const ShapeConflict&) = default;
};

/// Returns the conflict of a shape that has groups of microbatches or a memory limit; nullopt if
/// none.
[[nodiscard]] std::optional<ShapeConflict> find_group_conflict(const ScheduleShape& shape);
/// Returns the conflict of a shape that has other than one virtual stage per rank, groups or a
/// memory limit; nullopt if none.
[[nodiscard]] std::optional<ShapeConflict> needs_one_stage(const ScheduleShape& shape);
/// Returns the conflict of a shape that has other than two virtual stages per rank, groups or a
/// memory limit; nullopt if none.
[[nodiscard]] std::optional<ShapeConflict> needs_two_stages(const ScheduleShape& shape);
/// Returns the conflict of a shape with DualPipe, or nullopt. DualPipe needs one virtual stage per
/// rank, even numbers of ranks and microbatches, and two fillings of the pipeline (m >= 2p).
[[nodiscard]] std::optional<ShapeConflict> find_dualpipe_conflict(const ScheduleShape& shape);
/// Returns the conflict of a shape with DualPipeV, or nullopt. DualPipeV needs two virtual stages
/// per rank, and two fillings of the pipeline (m >= 2p).
[[nodiscard]] std::optional<ShapeConflict> find_dualpipev_conflict(const ScheduleShape& shape);
/// Returns the conflict of a shape with interleaved 1F1B, or nullopt. It needs at least two virtual
/// stages per rank, and groups of a size that interleaved() takes.
[[nodiscard]] std::optional<ShapeConflict> find_interleaved_conflict(const ScheduleShape& shape);
/// Returns the conflict of a shape with PipeDream-2BW, or nullopt. PipeDream-2BW needs one virtual
/// stage per rank, and at least as many microbatches as ranks.
[[nodiscard]] std::optional<ShapeConflict> find_pipedream_2bw_conflict(const ScheduleShape& shape);
/// Returns the conflict of a shape with a searched schedule, or nullopt. It needs one virtual stage
/// per rank, a memory limit of at least one microbatch, and durations in whole ticks.
[[nodiscard]] std::optional<ShapeConflict> find_zb_auto_conflict(const ScheduleShape& shape);

/// GPipe: all forward passes, then all backward passes, both in the order of microbatches. One
/// stage per rank. Bubble (p − 1)(F + B); every rank holds all m microbatches. Source: Huang et
/// al., GPipe, NeurIPS 2019 (arXiv:1811.06965).
[[nodiscard]] Schedule gpipe(const ScheduleShape& shape);

/// 1F1B: rank r warms up with p − 1 − r forward passes (all, if there are fewer microbatches), then
/// alternates. One stage per rank. Bubble (p − 1)(F + B); rank r holds min(m, p − r) microbatches.
/// Source: Narayanan et al., Memory-Efficient Pipeline-Parallel DNN Training (arXiv:2006.09503), as
/// PipeDream-Flush; SC21 (arXiv:2104.04473) section 2.2.1.
[[nodiscard]] Schedule one_f_one_b(const ScheduleShape& shape);

/// PipeDream: the order of 1F1B, repeated without a flush. Every microbatch's gradient is applied
/// at once. Rank r keeps the weights of the min(m, p − r) microbatches that are under way, so that
/// both passes of one see the same weights. There is no bubble once the pipeline is full. The
/// schedule is m microbatches from a cold start. Source: Harlap et al., PipeDream
/// (arXiv:1806.03377), section 3.
[[nodiscard]] Schedule pipedream(const ScheduleShape& shape);

/// PipeDream-2BW: the order of 1F1B, repeated without a flush. Gradients of m ≥ p microbatches are
/// applied together, so two versions of the weights do (one on a single rank). Source:
/// arXiv:2006.09503, section 3.
[[nodiscard]] Schedule pipedream_2bw(const ScheduleShape& shape);

/// Interleaved 1F1B over v ≥ 2 stages per rank. Microbatches go in groups of N: each group runs
/// through all stages of the rank before the next; the last group may be smaller. Rank r warms up
/// with (v − 1)N + 2(p − 1 − r) forward passes. Bubble (p − 1)(F + B) of one stage for N = p. Rank
/// r holds min(mv, (v − 1)N + 2(p − 1 − r) + 1) activations of one stage and microbatch.
///
/// Valid for p ≤ N ≤ m with m mod N 0 or at least p; for m < p, N = m. Source: SC21 section 2.2.2;
/// Megatron-LM core/pipeline_parallel/schedules.py, get_schedule_table and
/// microbatch_group_size_per_vp_stage.
[[nodiscard]] Schedule interleaved(const ScheduleShape& shape);

/// Returns the smallest group of interleaved() for p ranks and m microbatches: p when it divides m.
/// Otherwise it is what torch.distributed.pipelining takes when it takes any: m over the whole
/// groups of p in it.
[[nodiscard]] int default_microbatch_group_size(int pp, int num_microbatches);

/// Looped breadth-first: all microbatches forward through one stage, then the next; backward in the
/// opposite order of stages and microbatches. The bubble is (p − 1)(F + B) of one stage, as for
/// interleaved(). Every rank holds all m·v activations. Source: Lamy-Poirier, Breadth-First
/// Pipeline Parallelism, MLSys 2023 (arXiv:2211.05953); LoopedBFS of torch.distributed.pipelining.
[[nodiscard]] Schedule looped_bfs(const ScheduleShape& shape);

/// Returns a zero-bubble schedule that is searched for shape.ticks within shape.memory_limit:
/// ZB_AUTO.md.
[[nodiscard]] Schedule zb_auto_of_shape(const ScheduleShape& shape);

/// Adapts a generator that needs ranks and microbatches alone to the signature of kSchedules.
template <Schedule (*generate)(int pp, int num_microbatches)>
Schedule of_shape(const ScheduleShape& shape) {
  return generate(shape.pp, shape.num_microbatches);
}
/// Returns `activations`, counted in virtual stages of one microbatch, but no more than a rank has
/// in an iteration.
[[nodiscard]] constexpr int at_most_all(std::int64_t activations, const ScheduleShape& shape) {
  return static_cast<int>(std::min(activations, std::int64_t{shape.num_microbatches} * shape.vpp));
}
/// Returns the peak activations of a rank that holds all of an iteration: one for each microbatch
/// and virtual stage.
[[nodiscard]] constexpr int all_activations(const ScheduleShape& shape, int /*rank*/) {
  return at_most_all(INT_MAX, shape);
}
/// Returns the peak activations of one_f_one_b(): a microbatch for each rank from this one to the
/// last.
[[nodiscard]] constexpr int one_f_one_b_activations(const ScheduleShape& shape, int rank) {
  return at_most_all(shape.pp - rank, shape);
}
/// Returns the peak activations of interleaved(): a rank's warm-up and one more.
[[nodiscard]] int interleaved_activations(const ScheduleShape& shape, int rank);

/// No upper limit of virtual stages per rank.
inline constexpr int kAnyNumber = INT_MAX;

/// What a schedule is. To add one, write its generator in a file of its own and declare it in this
/// header. Add an enumerator and a row of kSchedules; the tests of all schedules then run over it.
struct ScheduleTraits {
  ScheduleKind kind;
  std::string_view name;     ///< Name of the schedule as flags and files spell it.
  std::string_view meaning;  ///< What the schedule does, in a few words for people.
  std::string_view paper;    ///< Where the schedule was published.
  /// The bubble, makespan less the work of a rank, or what is known of it. p ranks, m microbatches;
  /// F, I, W and B = I + W of one stage, F&B of a pair.
  std::string_view bubble;
  StagePlacement placement = StagePlacement::kLooped;  ///< Which virtual stages lie on which rank.
  int fewest_chunks = 1;  ///< Fewest virtual stages per rank with which the schedule exists.
  int most_chunks = 1;    ///< Most virtual stages per rank with which the schedule exists.
  /// Whether weight gradients are put off, apart from input gradients.
  bool splits_backward = false;
  bool has_groups = false;   ///< Whether chunks take turns with groups of microbatches.
  bool is_searched = false;  ///< Whether the schedule is made for durations and a memory limit.
  /// Microbatches that one chunk of the first rank holds, in multiples of p, for memory counted by
  /// SC21's closed form. 0: memory is counted by peak_activations, and a chunk may hold all.
  int pipelines_held = 0;
  /// Whether the optimizer waits for a flush. False: gradients are of older weights, which is
  /// another method of training. Such a schedule is simulated and costed, chosen only when asked
  /// for and never executed.
  bool is_synchronous = true;
  /// Whether every microbatch's gradient is applied alone: none is added to another.
  bool applies_every_microbatch = false;
  /// Returns why the schedule does not exist for a shape, or nullopt when `generate` may be called.
  std::optional<ShapeConflict> (*find_conflict)(const ScheduleShape& shape) = needs_one_stage;
  /// Makes the schedule for a shape without conflict.
  Schedule (*generate)(const ScheduleShape& shape);
  /// Returns the activations that a rank holds at its worst, in virtual stages of one microbatch.
  int (*peak_activations)(const ScheduleShape& shape, int rank);
  /// Returns how many versions of its weights a rank keeps.
  int (*weight_versions)(const ScheduleShape& shape, int rank) = [](const ScheduleShape&, int) {
    return 1;
  };
};

/// All schedules, in the order in which they are shown.
inline constexpr std::array<ScheduleTraits, kNumScheduleKinds> kSchedules = {{
    {.kind = ScheduleKind::kGPipe,
     .name = "gpipe",
     .meaning = "all forward passes, then all backward passes",
     .paper = "arXiv:1811.06965",
     .bubble = "(p-1)(F+B)",
     .generate = gpipe,
     .peak_activations = all_activations},
    {.kind = ScheduleKind::kOneFOneB,
     .name = "1f1b",
     .meaning = "after a warm-up forward and backward passes take turns",
     .paper = "arXiv:2006.09503",
     .bubble = "(p-1)(F+B)",
     .pipelines_held = 1,
     .generate = one_f_one_b,
     .peak_activations = one_f_one_b_activations},
    {.kind = ScheduleKind::kInterleaved,
     .name = "interleaved",
     .meaning = "1f1b over several chunks of layers a GPU, in groups of microbatches",
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
     .meaning = "all microbatches through one chunk of layers of a GPU, then through its next",
     .paper = "arXiv:2211.05953",
     .bubble = "(p-1)(F+B)",
     .most_chunks = kAnyNumber,
     .find_conflict = find_group_conflict,
     .generate = looped_bfs,
     .peak_activations = all_activations},
    {.kind = ScheduleKind::kZbH1,
     .name = "zb-h1",
     .meaning = "1f1b that puts weight gradients off into the bubble, in 1f1b's memory",
     .paper = "arXiv:2401.10241",
     .bubble = "(p-1)(F+I-W) for m >= p, W <= F and W <= I",
     .splits_backward = true,
     .generate = of_shape<zb_h1>,
     .peak_activations = [](const ScheduleShape& shape,
                            int) { return at_most_all(shape.pp, shape); }},
    {.kind = ScheduleKind::kZbH2,
     .name = "zb-h2",
     .meaning = "weight gradients put off, more forward passes first: hardly a bubble, twice "
                "1f1b's memory",
     .paper = "arXiv:2401.10241",
     .bubble = "(p-1)F at F = I = W and m >= 2p-1",
     .splits_backward = true,
     .generate = of_shape<zb_h2>,
     .peak_activations = [](const ScheduleShape& shape,
                            int) { return at_most_all(std::int64_t{2} * shape.pp - 1, shape); }},
    {.kind = ScheduleKind::kZbV,
     .name = "zb-v",
     .meaning =
         "weight gradients put off, two chunks a GPU in a V: hardly a bubble, in 1f1b's memory",
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
     .meaning = "as zb-v, in half of 1f1b's memory, with more of a bubble",
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
     .meaning = "as zb-v, in a third of 1f1b's memory, with still more of a bubble",
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
     .meaning =
         "weight gradients put off, in an order searched for the durations and a memory limit",
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
     .meaning = "microbatches enter at both ends of two copies of the layers",
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
     .meaning = "dualpipe with one copy of the layers, two chunks a GPU in a V",
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
     .meaning =
         "1f1b without a flush: every microbatch updates the weights, of which versions are kept",
     .paper = "arXiv:1806.03377",
     .bubble = "0 in steady state; (p-1)(F+B) once, from a cold start",
     .is_synchronous = false,
     .applies_every_microbatch = true,
     .generate = pipedream,
     .peak_activations = one_f_one_b_activations,
     .weight_versions = one_f_one_b_activations},
    {.kind = ScheduleKind::kPipeDream2Bw,
     .name = "pipedream-2bw",
     .meaning = "1f1b without a flush, with two versions of the weights",
     .paper = "arXiv:2006.09503",
     .bubble = "0 in steady state; (p-1)(F+B) once, from a cold start",
     .is_synchronous = false,
     .find_conflict = find_pipedream_2bw_conflict,
     .generate = pipedream_2bw,
     .peak_activations = one_f_one_b_activations,
     .weight_versions = [](const ScheduleShape& shape, int) { return shape.pp == 1 ? 1 : 2; }},
}};

/// Returns the row of kSchedules for a kind.
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

/// Returns a schedule of the kind whose ranks do nothing yet. It has the shape's virtual stages per
/// rank, clamped to what the kind allows.
[[nodiscard]] Schedule without_actions(ScheduleKind kind, const ScheduleShape& shape);

/// Returns the row of kSchedules for a schedule's name, or nullptr.
[[nodiscard]] const ScheduleTraits* find_schedule(std::string_view name);
/// Returns the names of all schedules, in the order in which they are shown.
[[nodiscard]] std::vector<std::string> schedule_names();

/// Names of all schedules, in the order of the enumerators.
inline constexpr auto kScheduleNames = [] {
  std::array<NamedValue<ScheduleKind>, kNumScheduleKinds> names = {};
  for (const ScheduleTraits& schedule : kSchedules) {
    names[static_cast<std::size_t>(schedule.kind)] = {schedule.kind, schedule.name};
  }
  return names;
}();
/// Returns the name of a schedule as flags and files spell it.
[[nodiscard]] constexpr std::string_view name_of(ScheduleKind schedule) {
  return traits_of(schedule).name;
}

/// Whether the schedule exists with `vpp` virtual stages per rank, for some numbers of ranks and
/// microbatches.
[[nodiscard]] constexpr bool has_chunks(ScheduleKind schedule, std::int64_t vpp) {
  return vpp >= traits_of(schedule).fewest_chunks && vpp <= traits_of(schedule).most_chunks;
}

}  // namespace ptdp
