// A plan: what was given, what was chosen, and what that is predicted to cost. Plans are the
// interface between planning and executing; FORMATS.md documents their JSON form key by key.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cost_model/inputs/scenario.h"
#include "cost_model/measured/memory_belief.h"
#include "cost_model/memory/memory.h"
#include "cost_model/pipeline_rank/planned_job.h"
#include "cost_model/schedule/generators/ticks.h"
#include "cost_model/schedule/schedule.h"
#include "cost_model/text/described.h"
#include "planner/plan/prediction.h"

namespace ptdp {

/// The memory of a plan, by pipeline rank.
struct PlanMemory {
  int heaviest_rank = 0;                ///< Pipeline rank that holds most.
  std::vector<MemoryBreakdown> stages;  ///< What a GPU of each pipeline rank holds.
  MemoryBelief beyond = {};             ///< What runs say of memory beyond the formulas, if any do.
  /// Probability that the heaviest stage fits, to four digits; only where `beyond` is known.
  double probability_of_fitting = 1.0;

  /// Returns the memory of the heaviest stage.
  [[nodiscard]] Bytes peak() const {
    return stages[static_cast<std::size_t>(heaviest_rank)].total();
  }
  /// Returns the memory of the heaviest stage by the formulas, without the reserve.
  [[nodiscard]] Bytes formulas() const {
    return peak() - stages[static_cast<std::size_t>(heaviest_rank)].reserve;
  }
};
/// Computes the memory of a configuration by pipeline rank.
[[nodiscard]] PlanMemory plan_memory(const PlannedJob& job);

/// How to regenerate a schedule: simulator and executor build the same orders from it.
struct ScheduleRecipe {
  std::string generator;  ///< Name of the schedule, one of schedule/generators.h: "1f1b", "zb-h1".
  std::int64_t num_microbatches = 1;
  /// Microbatches that a chunk runs in a row in an interleaved schedule. Every recipe has pp here;
  /// to schedules without groups it means nothing.
  int microbatch_group_size = 1;
  std::vector<int> layers_per_stage;  ///< Layers of each virtual stage, in model order.

  // What a searched schedule, zb-auto, was searched with; empty, zero and none for the others.
  std::vector<StageTicks> ticks = {};    ///< Durations of each virtual stage's passes [ticks].
  int message_ticks = 0;                 ///< Ticks until a result arrives on another rank.
  std::optional<int> memory_limit = {};  ///< Activations of a stage that a rank may hold.
  bool shortens_spans = false;  ///< Whether the search shortens in-span times before the makespan.

  friend bool operator==(const ScheduleRecipe&, const ScheduleRecipe&) = default;
};

/// A feasible configuration with its inputs, its prediction and its schedule. A plan holds inputs
/// by value, so that it can be costed again without the profiles they came from.
struct Plan {
  std::string tool_version = PTDP_VERSION;  ///< Version of the ptdp-plan that made the plan.
  Scenario scenario;
  std::int64_t gpus = 0;         ///< Number of GPUs given; config.world_size() of them are used.
  double memory_headroom = 0.0;  ///< Fraction of device memory to leave free.
  ParallelConfig config;
  ScheduleRecipe schedule;
  Prediction predicted;
  PlanMemory memory;
};

inline constexpr const char* kPlanSchema = "ptdp.plan/1";

/// Makes the plan of a feasible configuration. It is given `gpus` and uses world_size() of them.
/// `beyond` is what runs say of its memory beyond the formulas.
[[nodiscard]] Plan make_plan(const PlannedJob& job, std::int64_t gpus, double memory_headroom,
                             const Calibration& calibration, const MemoryBelief& beyond = {});

/// Returns the calibration that a plan's prediction was made with, as far as the plan says it:
/// factor, interval and number of runs.
[[nodiscard]] Calibration calibration_of(const Plan& plan);

/// Returns the recipe of a configuration's schedule.
[[nodiscard]] ScheduleRecipe schedule_recipe(const PlannedJob& job);

/// Makes the schedule of a recipe, compute alone, on `pp` pipeline ranks with `vpp` chunks each.
/// Equal arguments give equal schedules. Throws Error when the generator is unknown or the schedule
/// does not exist for that shape.
[[nodiscard]] Schedule make_schedule(const ScheduleRecipe& recipe, int pp, int vpp);
/// Throws Error as make_schedule() does, but makes nothing.
void check_schedule_exists(const ScheduleRecipe& recipe, int pp, int vpp);

/// Returns the plan as JSON text; equal plans give equal bytes.
[[nodiscard]] std::string to_json(const Plan& plan);

/// Reads a plan from JSON text and checks that it could have been written:
///
///   - the schema is known and every key is there;
///   - the configuration violates no constraint and fits;
///   - the schedule is the one of the configuration, and there are as many stages as pp;
///   - the breakdown adds up;
///   - the interval of memory beyond the formulas is that of its distribution, with runs behind it;
///   - for a plan of this version of ptdp-plan, everything predicted follows from its inputs and
///     its calibration, which are believed: the runs behind it are not in the plan.
///
/// Throws Error with the place of the fault; `place` names the text.
[[nodiscard]] Plan parse_plan(std::string_view text, const std::string& place);
/// Reads a plan from a file, with the checks of parse_plan(). Throws Error.
[[nodiscard]] Plan read_plan(const std::filesystem::path& path);

/// Writes a plan atomically: the file at `path` is either the earlier one or the whole plan.
void write_plan(const std::filesystem::path& path, const Plan& plan);

/// Returns the plan after the checks of parse_plan(), which throw Error at `place`.
[[nodiscard]] Plan checked(Plan plan, const std::string& place);

// Fields of a plan, and of parts of it that other documents repeat. What a reader fills is no valid
// plan before checked().
template <class Fields>
void describe(Fields& fields, Described<Fields, Plan>& plan);
template <class Fields>
void describe(Fields& fields, Described<Fields, Prediction>& prediction);
template <class Fields>
void describe(Fields& fields, Described<Fields, PlanMemory>& memory);
template <class Fields>
void describe(Fields& fields, Described<Fields, MemoryBelief>& belief);
template <class Fields>
void describe(Fields& fields, Described<Fields, MemoryBreakdown>& memory);
template <class Fields>
void describe(Fields& fields, Described<Fields, CostBreakdown>& cost);

}  // namespace ptdp
